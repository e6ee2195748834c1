"""How well scores order measured programs. Higher scores mean faster; every figure is of one group (a task on a device),
then averaged over groups, weighted by their examples as TenSet does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.tuner.learn.examples import Examples, Floats, Ints, groups_of, noise_of


@dataclass(frozen=True, slots=True)
class Figures:
    """`pca`: share of pairs in the measured order, of all pairs; `pca_beyond`: of those whose times differ by more than
    repeats do. `ceiling`: the same share between first and second measurements; `share`: (pca − ½) / (ceiling − ½) of the
    programs that have both. `peak1`, `peak5`: TenSet's average peak score. `top5`: the best of a group's first five
    predicted, over the group's best.
    """

    pca: float
    pca_beyond: float
    ceiling: float
    share: float
    peak1: float
    peak5: float
    top5: float
    groups: int
    examples: int


def pair_accuracy(scores: Floats, seconds: Floats, noise: float = 0.0) -> float:
    """Share of pairs that the scores order as the times do; equal scores are half right. NaN where there is no pair.

    `noise`: pairs whose times differ by a factor under its exponential are left out; equal times always are.
    """
    i, j = np.triu_indices(len(scores), 1)
    change = np.log(seconds[i]) - np.log(seconds[j])
    counted = (np.abs(change) > noise) & (change != 0)
    if not np.any(counted):
        return float("nan")
    agreement = np.sign(change[counted]) * -np.sign(scores[i][counted] - scores[j][counted])
    return float(np.mean((agreement + 1.0) / 2.0))


def peak(scores: Floats, seconds: Floats, k: int) -> float:
    """TenSet's average peak score: the mean over the first k predicted of the running best, over the best of all."""
    speeds = seconds.min() / seconds[np.argsort(-scores, kind="stable")]
    return float(np.mean(np.maximum.accumulate(speeds)[:k]))


def best_of_first(scores: Floats, seconds: Floats, k: int) -> float:
    """The best time of all over the best among the first k predicted."""
    return float(seconds.min() / seconds[np.argsort(-scores, kind="stable")[:k]].min())


def figures(of: Examples, scores: Floats, noise: Callable[[Ints], Floats] | None = None, least: int = 5) -> Figures:
    """All figures of scores for examples; groups under `least` examples are left out.

    `noise`: by device, see `noise_of` (None: from these examples).
    """
    limits = (noise or noise_of(of))(of.device)
    rows: list[tuple[float, ...]] = []
    weights: list[int] = []
    replicated: list[tuple[float, float, int]] = []
    for places in groups_of(of.group):
        if len(places) < least:
            continue
        score, seconds = scores[places], of.seconds[places]
        rows.append((
            pair_accuracy(score, seconds), pair_accuracy(score, seconds, float(limits[places[0]])),
            peak(score, seconds, 1), peak(score, seconds, 5), best_of_first(score, seconds, 5),
        ))  # fmt: skip
        weights.append(len(places))
        both = places[np.isfinite(of.again[places])]
        if len(both) >= least:
            ceiling = pair_accuracy(-of.first[both], of.again[both])
            replicated.append((ceiling, pair_accuracy(scores[both], of.again[both]), len(both)))
    pca, beyond, peak1, peak5, top5 = _averages(rows, weights, 5)
    ceiling, theirs = _averages([row[:2] for row in replicated], [row[2] for row in replicated], 2)
    share = (theirs - 0.5) / (ceiling - 0.5)
    return Figures(
        float(pca), float(beyond), float(ceiling), float(share), float(peak1), float(peak5), float(top5),
        len(rows), int(np.sum(weights)),
    )  # fmt: skip


def _averages(rows: Sequence[tuple[float, ...]], weights: Sequence[int], columns: int) -> NDArray[np.float64]:
    """Weighted means of columns, over the rows that have a value."""
    table = np.array(rows, np.float64).reshape(-1, columns)
    weight = np.where(np.isfinite(table), np.array(weights, np.float64)[:, None], 0.0)
    total = weight.sum(axis=0)
    sums = (np.nan_to_num(table) * weight).sum(axis=0)
    return np.asarray(np.divide(sums, total, out=np.full(columns, np.nan), where=total > 0), np.float64)
