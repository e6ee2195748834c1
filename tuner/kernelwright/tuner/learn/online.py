"""What the trials of one task teach about its other programs: a Gaussian process on top of a learned model.

numpy alone; with 16 to 256 trials it takes milliseconds. Where nothing was tried it is the learned model.
"""

from __future__ import annotations

import numpy as np

from kernelwright.tuner.learn.examples import Floats, Ints
from kernelwright.tuner.learn.features import STORE_COLUMNS, Features

NOISE = 0.03
"""Variance of a measurement beside that of the programs (1)."""


def points(features: Features) -> Floats:
    """[N, columns]: the programs of one task where distance means difference, scaled so that the typical distance is 1."""
    flat = features.flat().astype(np.float64)
    deviation = flat.std(axis=0)
    own = (flat - flat.mean(axis=0))[:, deviation > 1e-6] / deviation[deviation > 1e-6]
    cross = features.rows[:, :2, STORE_COLUMNS:].reshape(len(features), -1).astype(np.float64)
    spread = cross.std(axis=0)
    cross = (cross - cross.mean(axis=0))[:, spread > 1e-6] / spread[spread > 1e-6]
    found = np.concatenate([own / max(1, own.shape[1]) ** 0.5, 2.0 * cross / max(1, cross.shape[1]) ** 0.5], axis=1)
    typical = float(np.median(_squares(found, found))) or 1.0
    return np.asarray(found / typical**0.5)


def corrected(where: Floats, base: Floats, known: Ints, seconds: Floats) -> tuple[Floats, Floats]:
    """Score and its deviation for all programs, higher is faster; in units of the tried programs' log seconds.

    `base`: the learned model's standardised scores. `known`: the tried programs, `seconds` what they took.
    """
    logged = -np.log(seconds)
    level, spread = float(logged.mean()), max(float(logged.std()), 0.02)
    target = (logged - level) / spread
    x = base[known] - base[known].mean()
    slope = float(np.clip((x @ target + 2.0) / (x @ x + 4.0), 0.0, 2.0))  # half a unit until the trials say otherwise
    prior = slope * (base - base[known].mean())
    kernel = np.exp(-_squares(where[known], where[known]) * 2.0) + NOISE * np.eye(len(known))
    across = np.exp(-_squares(where, where[known]) * 2.0)
    solved = np.linalg.solve(kernel, np.concatenate([(target - prior[known])[:, None], across.T], axis=1))
    mean = prior + across @ solved[:, 0]
    variance = np.maximum(1.0 - np.einsum("ij,ji->i", across, solved[:, 1:]), 0.0)
    return level + spread * mean, spread * np.sqrt(variance)


def expected_gain(mean: Floats, deviation: Floats, best: Floats | float) -> Floats:
    """By how much (in log seconds) each program is expected to beat the best so far, where it does."""
    margin = mean - best
    ratio = margin / np.maximum(deviation, 1e-9)
    density = np.exp(-0.5 * ratio**2) / np.sqrt(2.0 * np.pi)
    # the logistic curve stands for the normal distribution's integral, which numpy lacks; they differ by under 0.01
    below = 1.0 / (1.0 + np.exp(np.clip(-1.702 * ratio, -50, 50)))
    return np.asarray(np.maximum(margin * below + deviation * density, 0.0))


def _squares(one: Floats, other: Floats) -> Floats:
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    return np.asarray(np.maximum(squares, 0.0))
