"""The rank model without torch: a set of tokens (a program's stores, its task, its device) under self-attention, in numpy.

Two heads: a score that orders a task's programs (higher is faster), and a utilisation between 0 and `MOST_UTILISATION` of
the device's roofline, which makes seconds. Weights are plain arrays; `rank_training` makes them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelwright.tuner.learn.features import Features

WIDTH, HEADS, LAYERS, INNER = 64, 4, 2, 128
MOST_UTILISATION = 16.0
"""Over 1, as the peak a device is told with is that of the sentinel, a plain schedule that tuned ones leave behind."""

Array = NDArray[np.float32]
Weights = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Prediction:
    """`score`: [N], higher is faster, comparable within a task on a device. `seconds`: [N]."""

    score: NDArray[np.float64]
    seconds: NDArray[np.float64]


def predict(weights: Weights, features: Features) -> Prediction:
    """What the model says of each example."""
    w = weights
    tokens = np.concatenate(
        [
            _linear(w, "rows", _normal(w, "rows", features.rows)),
            _linear(w, "task", _normal(w, "task", features.task))[:, None],
            _linear(w, "hardware", _normal(w, "hardware", features.hardware))[:, None],
        ],
        axis=1,
    )
    present = np.concatenate([features.present, np.ones((len(features), 2), np.bool_)], axis=1)
    for layer in range(LAYERS):
        tokens = tokens + _attention(w, f"layer{layer}.attention", _norm(w, f"layer{layer}.norm1", tokens), present)
        inner = _gelu(_linear(w, f"layer{layer}.inner", _norm(w, f"layer{layer}.norm2", tokens)))
        tokens = tokens + _linear(w, f"layer{layer}.outer", inner)
    tokens = _norm(w, "norm", tokens)
    rows = np.where(features.present[:, :, None], tokens[:, :-2], 0.0)
    pooled = np.concatenate([rows.sum(axis=1), rows.max(axis=1, initial=-1e3), tokens[:, -2], tokens[:, -1]], axis=1)
    hidden = _gelu(_linear(w, "hidden", pooled))
    score, utilisation = _linear(w, "heads", hidden).T
    seconds = features.floor / (MOST_UTILISATION / (1.0 + np.exp(-utilisation.astype(np.float64))) + 1e-6)
    return Prediction(score.astype(np.float64), seconds)


def _normal(w: Weights, name: str, values: Array) -> Array:
    return np.asarray(np.clip((values - w[f"{name}.mean"]) * w[f"{name}.scale"], -6.0, 6.0), np.float32)


def _linear(w: Weights, name: str, values: Array) -> Array:
    return np.asarray(values @ w[f"{name}.weight"].T + w[f"{name}.bias"], np.float32)


def _norm(w: Weights, name: str, values: Array) -> Array:
    centred = values - values.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return np.asarray(centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"], np.float32)


def _gelu(x: Array) -> Array:
    """The tanh form, which numpy can do."""
    return np.asarray(0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))), np.float32)


def _attention(w: Weights, name: str, tokens: Array, present: NDArray[np.bool_]) -> Array:
    count, length, _ = tokens.shape
    parts = _linear(w, f"{name}.in", tokens).reshape(count, length, 3, HEADS, WIDTH // HEADS)
    query, key, value = (parts[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
    logits = query @ key.transpose(0, 1, 3, 2) * (WIDTH // HEADS) ** -0.5
    logits = np.where(present[:, None, None, :], logits, -1e9)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    mixed = (powers / powers.sum(axis=-1, keepdims=True)) @ value
    return _linear(w, f"{name}.out", mixed.transpose(0, 2, 1, 3).reshape(count, length, WIDTH))


def count(weights: Weights) -> int:
    """How many numbers were learned; the columns' means and scales are not."""
    return sum(array.size for name, array in weights.items() if not name.endswith((".mean", ".scale")))


def save(path: Path, weights: Weights, about: Mapping[str, Any] | None = None) -> None:
    """As plain arrays in half precision: the same arrays give the same bytes."""
    content = io.BytesIO()
    arrays = {name: np.asarray(weights[name], np.float16) for name in sorted(weights) if not _exact(name)}
    arrays |= {name: np.asarray(weights[name], np.float32) for name in sorted(weights) if _exact(name)}
    np.savez_compressed(content, allow_pickle=False, **{name: arrays[name] for name in sorted(arrays)})
    path.write_bytes(content.getvalue())


def _exact(name: str) -> bool:
    return name.endswith((".mean", ".scale"))


def load(path: Path) -> dict[str, Array]:
    """What `save` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name].astype(np.float32) for name in file.files}
