"""Training of the rank model, on torch: from nothing, or on from given weights with a momentum teacher and replay.

Nothing here is imported by what predicts. The same seed on the same machine and torch gives the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kernelwright.tuner.learn.examples import Examples, Ints, groups_of
from kernelwright.tuner.learn.features import CROSS_COLUMNS, STORE_COLUMNS, TASK_COLUMNS, Features
from kernelwright.tuner.learn.hardware import HARDWARE_COLUMNS
from kernelwright.tuner.learn.rank_model import HEADS, INNER, LAYERS, MOST_UTILISATION, WIDTH, Array, Weights

PARTS: Mapping[str, tuple[str, ...]] = {
    "rows": ("rows.",),
    "task": ("task.",),
    "hardware": ("hardware.",),
    "attention": ("layer", "norm."),
    "heads": ("hidden.", "heads."),
}
"""Parts of the network that can be held fixed, and how the names of their weights begin."""


@dataclass(frozen=True, slots=True)
class Training:
    """`epochs`: passes over the groups. `group`: most examples of a group at a time. `noise`: log time under which two
    examples are not told apart. `frozen`: parts that keep their weights. `utilisation`: weight of the second head.
    """

    seed: int = 0
    epochs: int = 60
    rate: float = 1.5e-3
    batch: int = 16
    group: int = 32
    noise: float = 0.05
    decay: float = 1e-3
    dropout: float = 0.1
    utilisation: float = 0.1
    frozen: tuple[str, ...] = ()


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        setattr(self, "in", nn.Linear(WIDTH, 3 * WIDTH))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        count, length, _ = tokens.shape
        parts = getattr(self, "in")(tokens).view(count, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=present[:, None, None, :])
        return self.out(mixed.transpose(1, 2).reshape(count, length, WIDTH))  # type: ignore[no-any-return]


class _Layer(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = _Attention()
        self.inner, self.outer = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.dropout = dropout

    def forward(self, tokens: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        tokens = tokens + self._drop(self.attention(self.norm1(tokens), present))
        return tokens + self._drop(self.outer(F.gelu(self.inner(self.norm2(tokens)), approximate="tanh")))

    def _drop(self, values: torch.Tensor) -> torch.Tensor:
        return F.dropout(values, self.dropout, self.training)


class _Network(nn.Module):
    """`rank_model.predict` in torch; the names of its weights are those of `Weights`."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.rows = nn.Linear(STORE_COLUMNS + CROSS_COLUMNS, WIDTH)
        self.task, self.hardware = nn.Linear(TASK_COLUMNS, WIDTH), nn.Linear(HARDWARE_COLUMNS, WIDTH)
        self.layers = [_Layer(dropout) for _ in range(LAYERS)]
        for number, layer in enumerate(self.layers):
            self.add_module(f"layer{number}", layer)
        self.norm = nn.LayerNorm(WIDTH)
        self.hidden, self.heads = nn.Linear(4 * WIDTH, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, batch: _Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.cat(
            [self.rows(batch.rows), self.task(batch.task)[:, None], self.hardware(batch.hardware)[:, None]], dim=1
        )
        present = F.pad(batch.present, (0, 2), value=True)
        for layer in self.layers:
            tokens = layer(tokens, present)
        tokens = self.norm(tokens)
        mask = batch.present[:, :, None]
        rows = torch.where(mask, tokens[:, :-2], 0.0)
        pooled = torch.cat([rows.sum(1), rows.amax(1), tokens[:, -2], tokens[:, -1]], dim=1)
        score, utilisation = self.heads(F.gelu(self.hidden(pooled), approximate="tanh")).unbind(1)
        return score, batch.floor - torch.log(MOST_UTILISATION * torch.sigmoid(utilisation) + 1e-6)


@dataclass(frozen=True, slots=True)
class _Tensors:
    rows: torch.Tensor
    present: torch.Tensor
    task: torch.Tensor
    hardware: torch.Tensor
    floor: torch.Tensor

    def take(self, places: torch.Tensor) -> _Tensors:
        return _Tensors(*(getattr(self, name)[places] for name in ("rows", "present", "task", "hardware", "floor")))


def train(
    features: Features,
    examples: Examples,
    settings: Training,
    *,
    start: Weights | None = None,
    replay: tuple[Features, Examples] | None = None,
) -> dict[str, Array]:
    """Weights learned from examples.

    `start`: go on from these, their scales of the columns included. `replay`: examples of before, mixed into each step and held
    to what a slow copy of the network (momentum 0.99) says of them; that copy is the result.
    """
    torch.manual_seed(settings.seed)
    source = np.random.default_rng(settings.seed)
    scales = {name: start[name] for name in start if name.endswith((".mean", ".scale"))} if start else scale(features)
    network = _Network(settings.dropout)
    if start is not None:
        network.load_state_dict({name: torch.tensor(start[name]) for name in start if name not in scales})
    for name, parameter in network.named_parameters():
        parameter.requires_grad = not name.startswith(tuple(p for part in settings.frozen for p in PARTS[part]))
    data, groups = _tensors(features, scales), groups_of(examples.group)
    seconds = torch.tensor(np.log(examples.seconds), dtype=torch.float32)
    old = (_tensors(replay[0], scales), groups_of(replay[1].group), np.log(replay[1].seconds)) if replay else None
    teacher = {name: value.clone() for name, value in network.state_dict().items()}
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=settings.rate, weight_decay=settings.decay)
    steps = settings.epochs * max(1, -(-len(groups) // settings.batch))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, total_steps=steps + 1, pct_start=0.2)
    network.train()
    for _ in range(settings.epochs):
        for numbers in _batches(len(groups), settings.batch, source):
            loss = _loss(network, data, seconds, _some(groups, numbers, settings.group, source), settings)
            if old is not None:
                mixed = source.choice(len(old[1]), min(settings.batch, len(old[1])), replace=False)
                before = torch.tensor(old[2], dtype=torch.float32)
                loss = loss + _loss(
                    network, old[0], before, _some(old[1], mixed, settings.group, source), settings, teacher
                )
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(learned, 1.0)
            optimiser.step()
            schedule.step()
            if old is not None:
                for name, value in network.state_dict().items():
                    teacher[name].lerp_(value, 0.01)
    final = teacher if old is not None else network.state_dict()
    return {**scales, **{name: value.detach().numpy().astype(np.float32).copy() for name, value in final.items()}}


def scale(features: Features) -> dict[str, Array]:
    """Means and inverse deviations of all columns; a column that never changes counts for nothing."""
    found: dict[str, Array] = {}
    for name, values in (
        ("rows", features.rows[features.present]),
        ("task", features.task),
        ("hardware", features.hardware),
    ):
        deviation = values.std(axis=0)
        found[f"{name}.mean"] = values.mean(axis=0).astype(np.float32)
        found[f"{name}.scale"] = np.where(deviation > 1e-4, 1.0 / np.maximum(deviation, 1e-4), 0.0).astype(np.float32)
    return found


def _tensors(features: Features, scales: Mapping[str, Array]) -> _Tensors:
    def normal(name: str, values: Any) -> torch.Tensor:
        return torch.tensor(np.clip((values - scales[f"{name}.mean"]) * scales[f"{name}.scale"], -6.0, 6.0))

    return _Tensors(
        normal("rows", features.rows), torch.tensor(features.present), normal("task", features.task),
        normal("hardware", features.hardware), torch.tensor(np.log(features.floor), dtype=torch.float32),
    )  # fmt: skip


def _batches(count: int, size: int, source: np.random.Generator) -> list[Ints]:
    order = source.permutation(count)
    return [order[first : first + size] for first in range(0, count, size)]


def _some(groups: Sequence[Ints], numbers: Ints, most: int, source: np.random.Generator) -> list[Ints]:
    return [source.permutation(groups[number])[:most] for number in numbers]


def _loss(
    network: _Network,
    data: _Tensors,
    seconds: torch.Tensor,
    chosen: Sequence[Ints],
    settings: Training,
    teacher: Mapping[str, torch.Tensor] | None = None,
) -> torch.Tensor:
    """LambdaRank within each group, the log error of the seconds, and, with a teacher, the distance to its scores."""
    places = torch.tensor(np.concatenate(chosen))
    batch, times = data.take(places), seconds[places]
    scores, logged = network(batch)
    number = torch.repeat_interleave(torch.arange(len(chosen)), torch.tensor([len(group) for group in chosen]))
    loss = _lambda_rank(scores, times, number, settings.noise)
    loss = loss + settings.utilisation * F.smooth_l1_loss(logged, times)
    if teacher is not None:
        with torch.no_grad():
            kept, _ = torch.func.functional_call(network, dict(teacher), (batch,))
        loss = loss + F.mse_loss(scores, kept)
    return loss


def _lambda_rank(scores: torch.Tensor, times: torch.Tensor, number: torch.Tensor, noise: float) -> torch.Tensor:
    """Pairs of one group in the wrong order, weighted by what a change of their places is worth."""
    faster = (times[:, None] < times[None, :] - noise) & (number[:, None] == number[None, :])
    with torch.no_grad():
        same = number[:, None] == number[None, :]
        best = torch.where(same, times[None, :], torch.inf).amin(1)
        gain = torch.exp(best - times)  # 1 for the best of its group
        place = 1.0 + (same & (scores[None, :] > scores[:, None])).sum(1)
        discount = 1.0 / torch.log2(1.0 + place)
        weight = 0.3 + (gain[:, None] - gain[None, :]).abs() * (0.5 + (discount[:, None] - discount[None, :]).abs())
        weight = torch.where(faster, weight, 0.0)
    difference = scores[:, None] - scores[None, :]
    return (weight * F.softplus(-difference)).sum() / weight.sum().clamp_min(1e-6)
