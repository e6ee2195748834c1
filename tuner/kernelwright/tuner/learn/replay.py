"""Tuning replayed on a pool of measured programs: which are tried in what order, and what that finds. No clock is read.

A pool holds each program's latency three times. A strategy sees the first; what it settles on is judged by the median of
all. So every figure is recomputed from the files in seconds, and the same seed gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.tuner.learn.boosting import Boosting, train
from kernelwright.tuner.learn.boosting import predict as predict_trees
from kernelwright.tuner.learn.examples import Examples, Floats, Ints, examples
from kernelwright.tuner.learn.features import Features, features
from kernelwright.tuner.learn.models import Scorer, standard
from kernelwright.tuner.learn.online import corrected, expected_gain, points
from kernelwright.tuner.search.record_arrays import load

BATCH_STOCK, FIRST_OURS, BATCH_OURS = 16, 4, 4
WITHIN = 1.05


@dataclass(frozen=True, slots=True)
class PoolTask:
    """One task of a pool: features, what a trial sees (`first`), what the judge knows (`seconds`), seconds a trial costs."""

    name: str
    examples: Examples
    features: Features
    first: Floats
    seconds: Floats
    cost: Floats
    random: Ints

    def __len__(self) -> int:
        return len(self.first)


def read_pool(folder: Path) -> list[PoolTask]:
    """The tasks of a pool, each with the programs that ran."""
    described = json.loads((folder / "devices.json").read_text())
    pool = []
    for path in sorted((folder / "programs").glob("*.npz")):
        records = load(folder, [path.stem])
        of = examples(records, described)
        if not len(of):
            continue
        build = {int(p): float(b) for p, b in zip(records.program, records.build_seconds, strict=True)}
        origin = records.program_origin[of.program]
        pool.append(
            PoolTask(
                path.stem, of, features(of), of.first, of.seconds,
                np.array([build[int(p)] for p in of.program]) + 0.1, np.flatnonzero(origin == 0),
            )
        )  # fmt: skip
    return pool


Order = Callable[[PoolTask, int], Ints]
"""All programs of a task in the order in which a strategy tries them, by seed."""


def at_random(task: PoolTask, seed: int) -> Ints:
    return np.random.default_rng(seed).permutation(len(task))


def stock(task: PoolTask, seed: int) -> Ints:
    """Repaired MetaSchedule with its boosted trees: 16 at random, then rounds of 16 by a model of this task's own trials,
    one in twenty at random. (MetaSchedule itself waits for 100 samples before it trusts its model; this does not.)
    """
    source = np.random.default_rng(seed)
    tried = list(source.permutation(len(task))[:BATCH_STOCK])
    while len(tried) < len(task):
        left = np.setdiff1d(np.arange(len(task)), tried)
        known = np.array(tried)
        scores = predict_trees(
            train(task.features.take(known), _seen(task, known), Boosting(seed=seed, rounds=30, depth=5, rate=0.2)),
            task.features.take(left),
        )
        ranked = left[np.argsort(-scores, kind="stable")]
        picked = list(ranked[: BATCH_STOCK - 1])
        rest = ranked[BATCH_STOCK - 1 :]
        picked += list(source.permutation(rest)[:1])
        tried += picked
    return np.array(tried)


def ours(scorer: Scorer) -> Order:
    """The learned model first; after each round of four what was tried corrects it, and expected gain picks the next."""

    def order(task: PoolTask, seed: int) -> Ints:
        del seed  # nothing is drawn
        base = standard(scorer(task.features, task.examples.group), task.examples.group)
        where = points(task.features)
        tried = np.argsort(-base, kind="stable")[:FIRST_OURS].tolist()
        while len(tried) < len(task):
            known, left = np.array(tried), np.setdiff1d(np.arange(len(task)), tried)
            mean, deviation = corrected(where, base, known, task.first[known])
            gain = expected_gain(mean, deviation, -float(np.log(task.first[known].min())))
            tried += left[np.argsort(-gain[left], kind="stable")][:BATCH_OURS].tolist()
        return np.array(tried)

    return order


def _seen(task: PoolTask, known: Ints) -> Examples:
    return replace(task.examples.subset(known), seconds=task.first[known])


def curve(task: PoolTask, order: Ints) -> Floats:
    """[N]: after each trial, the judge's seconds of the program that the trials so far say is fastest."""
    first = task.first[order]
    best = np.array([int(np.argmin(first[: count + 1])) for count in range(len(order))])
    return np.asarray(task.seconds[order][best])


def trials_within(curve_of: Floats, goal: float) -> int:
    """How many trials it takes to meet the goal; one more than there are where it is never met."""
    met = np.flatnonzero(curve_of <= goal)
    return int(met[0]) + 1 if len(met) else len(curve_of) + 1


def figures(pool: Sequence[PoolTask], orders: Mapping[str, Order], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """For each strategy and task, by the seeds: trials to come within 5 % of what stock finds with the whole pool, the share
    of building and running time that takes, and the share of the full speed-up after eight trials.

    The full speed-up is that of the pool's best over the median of its random programs.
    """
    rows = []
    for task in pool:
        tries = {name: [order(task, seed) for seed in seeds] for name, order in orders.items()}
        final = float(np.median([curve(task, order)[-1] for order in next(iter(tries.values()))]))  # whatever the order
        before = float(np.median(task.seconds[task.random])) if len(task.random) else float(np.median(task.seconds))
        for name, each in tries.items():
            curves = [curve(task, order) for order in each]
            counts = [trials_within(one, WITHIN * final) for one in curves]
            costs = [task.cost[o][:count].sum() / task.cost.sum() for o, count in zip(each, counts, strict=True)]
            full = before / final - 1.0
            eight = [(before / one[min(7, len(one) - 1)] - 1.0) / full for one in curves]
            rows.append({
                "task": task.name, "strategy": name, "programs": len(task),
                "trials": _spread(counts), "time": _spread(costs), "after_8": _spread(eight),
                "curve": [round(float(np.median([final / one[place] for one in curves])), 4) for place in _places(len(task))],
            })  # fmt: skip
    return rows


def _places(count: int) -> list[int]:
    """Trials, less one, at which a curve is kept: 1, 2, 4, 8, …, all."""
    return [min(2**power, count) - 1 for power in range(9)]


def _spread(values: Sequence[float]) -> list[float]:
    found = np.array(values, np.float64)
    return [round(float(v), 4) for v in (found.min(), np.median(found), found.max())]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """For people: medians over the seeds, a line a task and strategy, then the medians over the tasks."""
    lines = [f"{'task':42}{'strategy':>10}{'programs':>10}{'trials':>8}{'of time':>9}{'speed-up after 8':>18}"]
    lines += [
        f"{row['task']:42}{row['strategy']:>10}{row['programs']:10}{row['trials'][1]:8.1f}{100 * row['time'][1]:8.1f}%"
        f"{100 * row['after_8'][1]:17.0f}%"
        for row in rows
    ]
    for name in dict.fromkeys(row["strategy"] for row in rows):
        mine = [row for row in rows if row["strategy"] == name]
        trials, time, eight = (float(np.median([row[k][1] for row in mine])) for k in ("trials", "time", "after_8"))
        label = f"median of {len(mine)} tasks"
        lines.append(f"{label:42}{name:>10}{'':10}{trials:8.1f}{100 * time:8.1f}%{100 * eight:17.0f}%")
    return "\n".join(lines)
