"""Gradient-boosted trees on the same features, beside the rank model: trained by xgboost, evaluated in numpy alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelwright.tuner.learn.examples import Examples, groups_of
from kernelwright.tuner.learn.features import Features


@dataclass(frozen=True, slots=True)
class Boosting:
    """How the trees are grown."""

    seed: int = 0
    rounds: int = 200
    depth: int = 6
    rate: float = 0.08


Trees = Mapping[str, NDArray[Any]]
"""Nodes of all trees in one row: `column` (−1 in a leaf), `threshold` (a leaf's value), `left`, `right`; `root` of each tree."""


def train(features: Features, examples: Examples, settings: Boosting) -> dict[str, NDArray[Any]]:
    """Trees that predict an example's log time over the mean of its group.

    Raises:
        ImportError: xgboost is not installed.
    """
    import xgboost

    label = np.zeros(len(examples))
    chosen = np.zeros(len(examples), np.bool_)
    for places in groups_of(examples.group):
        logged = np.log(examples.seconds[places])
        label[places], chosen[places] = logged - logged.mean(), True
    data = xgboost.DMatrix(features.flat()[chosen], label=label[chosen])
    options = {
        "max_depth": settings.depth, "eta": settings.rate, "subsample": 0.8, "colsample_bytree": 0.4,
        "seed": settings.seed, "nthread": 1, "base_score": 0.0, "tree_method": "hist",
    }  # fmt: skip
    booster = xgboost.train(options, data, settings.rounds)
    return arrays([json.loads(tree) for tree in booster.get_dump(dump_format="json")])


def arrays(trees: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """xgboost's trees as JSON, as plain arrays."""
    column: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    roots: list[int] = []

    def add(node: Mapping[str, Any]) -> int:
        number = len(column)
        column.append(-1)
        threshold.append(float(node.get("leaf", 0.0)))
        left.append(number)
        right.append(number)
        if "leaf" not in node:
            column[number], threshold[number] = (
                int(str(node["split"]).removeprefix("f")),
                float(node["split_condition"]),
            )
            children = {child["nodeid"]: child for child in node["children"]}
            left[number] = add(children[node["yes"]])
            right[number] = add(children[node["no"]])
        return number

    roots += [add(tree) for tree in trees]
    return {
        "column": np.array(column, np.int16), "threshold": np.array(threshold, np.float32),
        "left": np.array(left, np.int32), "right": np.array(right, np.int32), "root": np.array(roots, np.int32),
    }  # fmt: skip


def predict(trees: Trees, features: Features) -> NDArray[np.float64]:
    """[N] scores; higher is faster."""
    table = features.flat()
    every = np.arange(len(table))
    total = np.zeros(len(table))
    for root in trees["root"]:
        node = np.full(len(table), root)
        while True:
            column = trees["column"][node]
            inner = column >= 0
            if not inner.any():
                break
            smaller = table[every, np.maximum(column, 0)] < trees["threshold"][node]
            node = np.where(inner, np.where(smaller, trees["left"][node], trees["right"][node]), node)
        total += trees["threshold"][node]
    return -total
