"""A model brought to a device it has not seen: as it is, with a kit of 48 labels, or trained on with replay.

The kit corrects the scores by a ridge regression on what a program is to the device; a correction, or a trained-on model,
that does not order labels it was not fitted to better than before is rolled back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelwright.tuner.learn.examples import Examples, Floats, Ints, Mask, groups_of
from kernelwright.tuner.learn.features import STORE_COLUMNS, Features
from kernelwright.tuner.learn.metrics import pair_accuracy
from kernelwright.tuner.learn.models import standard

KIT_TASKS, KIT_PROGRAMS = 6, 8
RIDGE = (3.0, 10.0, 30.0, 100.0)
"""Strengths that are tried; the labels decide."""


def kit(of: Examples, seed: int) -> Ints:
    """Places of 48 examples: 8 programs of each of 6 tasks of different families, spread over the programs at random."""
    source = np.random.default_rng(seed)
    groups = [places for places in groups_of(of.group) if len(places) >= KIT_PROGRAMS]
    order = source.permutation(len(groups))
    found: list[Ints] = []
    families: set[str] = set()
    for again in (False, True):
        for number in order:
            family = str(of.family[groups[number][0]])
            taken = any(
                groups[number][0] in places or of.group[places[0]] == of.group[groups[number][0]] for places in found
            )
            if len(found) < KIT_TASKS and not taken and (again or family not in families):
                families.add(family)
                found.append(source.permutation(groups[number])[:KIT_PROGRAMS])
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Correction:
    """Added to a model's standardised scores: a linear function of an example's relations to its device."""

    coefficients: Floats
    strength: float

    def __call__(self, scores: Floats, features: Features, group: Ints) -> Floats:
        return standard(scores, group) + _relations(features, scores, group) @ self.coefficients


def correction(scores: Floats, features: Features, of: Examples) -> Correction:
    """From the scores of a kit's examples. Zero, a roll-back, where no strength orders the tasks left out better.

    Each task is left out in turn, so a correction must help tasks that it has not seen.
    """
    relations = _relations(features, scores, of.group)
    target = -standard(np.log(of.seconds), of.group) - standard(scores, of.group)
    groups = groups_of(of.group)

    def fitted(chosen: Mask, strength: float) -> Floats:
        x, y = relations[chosen], target[chosen]
        found = np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y)
        return np.asarray(found, np.float64)

    best, chosen = _accuracy(standard(scores, of.group), of, groups), Correction(np.zeros(relations.shape[1]), 0.0)
    for strength in RIDGE:
        corrected = standard(scores, of.group)
        for places in groups:
            rest = np.ones(len(of), np.bool_)
            rest[places] = False
            corrected[places] += relations[places] @ fitted(rest, strength)
        accuracy = _accuracy(corrected, of, groups)
        if accuracy > best + 0.005:
            best, chosen = accuracy, Correction(fitted(np.ones(len(of), np.bool_), strength), strength)
    return chosen


def _accuracy(scores: Floats, of: Examples, groups: list[Ints]) -> float:
    return float(np.nanmean([pair_accuracy(scores[places], of.seconds[places], 0.1) for places in groups]))


def _relations(features: Features, scores: Floats, group: Ints) -> Floats:
    """[N, columns]: cross columns of the heaviest row, their sums over all rows, and the floor, each less its group's mean."""
    heaviest = features.rows[:, 0, STORE_COLUMNS:].astype(np.float64)
    table = np.concatenate([heaviest, np.log2(features.floor)[:, None], standard(scores, group)[:, None]], axis=1)
    found = np.zeros_like(table)
    for places in groups_of(group):
        found[places] = table[places] - table[places].mean(axis=0)
    spread = np.array([4.0] * heaviest.shape[1] + [4.0, 1.0])
    return np.asarray(np.clip(found / spread, -3.0, 3.0))
