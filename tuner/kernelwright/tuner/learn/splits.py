"""What is held out: examples within tasks, whole tasks, whole families of tasks, whole devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kernelwright.tuner.learn.examples import Examples, Mask

LEAST_OF_A_DEVICE = 100
"""Examples a device must have to be held out."""


def within_task(of: Examples, seed: int) -> Mask:
    """A fifth of all programs, each on all its devices."""
    source = np.random.default_rng(seed)
    held = source.random(int(of.program.max()) + 1) < 0.2
    return np.asarray(held[of.program])


def by_task(of: Examples, seed: int) -> Mask:
    """A fifth of the tasks."""
    source = np.random.default_rng(seed)
    present = np.unique(of.task)
    return np.isin(of.task, source.choice(present, max(1, len(present) // 5), replace=False))


def by_family(of: Examples, seed: int) -> Mask:
    """A fifth of the families."""
    source = np.random.default_rng(seed)
    present = np.unique(of.family)
    return np.isin(of.family, source.choice(present, max(1, len(present) // 5), replace=False))


def by_device(of: Examples, seed: int) -> Mask:
    """One device; seeds go through those with enough examples, the fullest first."""
    counts = np.bincount(of.device, minlength=len(of.devices))
    enough = [int(device) for device in np.argsort(-counts, kind="stable") if counts[device] >= LEAST_OF_A_DEVICE]
    return np.asarray(of.device == (enough or [0])[seed % max(1, len(enough))])


SPLITS: Mapping[str, Callable[[Examples, int], Mask]] = {
    "within_task": within_task, "by_task": by_task, "by_family": by_family, "by_device": by_device,
}  # fmt: skip
