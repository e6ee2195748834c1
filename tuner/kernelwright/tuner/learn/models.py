"""The models that are compared, each as a function from training examples to a scorer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from kernelwright.tuner.learn import boosting, rank_model
from kernelwright.tuner.learn.examples import Examples, Floats, Ints, groups_of
from kernelwright.tuner.learn.features import Features

Scorer = Callable[[Features, Ints], Floats]
"""Scores of examples, higher is faster; the second argument is their groups."""

Trainer = Callable[[Features, Examples, int], Scorer]
"""From training examples and a seed."""

EPOCHS = 25


def roofline(_features: Features, _examples: Examples, _seed: int) -> Scorer:
    """The draft: nothing is learned, the least time that arithmetic and traffic take."""
    return lambda features, _: -np.log(features.floor)


def trees(features: Features, examples: Examples, seed: int) -> Scorer:
    found = boosting.train(features, examples, boosting.Boosting(seed=seed))
    return lambda of, _: boosting.predict(found, of)


def small_trees(features: Features, examples: Examples, seed: int) -> Scorer:
    """A quarter of the work, where very many models are compared with each other."""
    found = boosting.train(features, examples, boosting.Boosting(seed=seed, rounds=80, depth=5, rate=0.15))
    return lambda of, _: boosting.predict(found, of)


def attention(features: Features, examples: Examples, seed: int) -> Scorer:
    from kernelwright.tuner.learn import rank_training

    weights = rank_training.train(features, examples, rank_training.Training(seed=seed, epochs=EPOCHS))
    return lambda of, _: rank_model.predict(weights, of).score


def both(one: Scorer, other: Scorer) -> Scorer:
    """The mean of two scorers, each brought to one scale within a group."""
    return lambda of, group: standard(one(of, group), group) + standard(other(of, group), group)


def standard(scores: Floats, group: Ints) -> Floats:
    """Scores less their group's mean, over its deviation."""
    found = np.zeros(len(scores))
    for places in groups_of(group):
        found[places] = (scores[places] - scores[places].mean()) / (scores[places].std() + 1e-9)
    return found


TRAINERS: Mapping[str, Trainer] = {"roofline": roofline, "trees": trees, "attention": attention}


SHIPPED = Path(__file__).with_name("weights")
"""The weights that come with the package; the tasks of the committed pool were left out when they were learned."""


class Shipped:
    """The weights in a folder: `attention.npz` and `trees.npz`; scores are the mean of both."""

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            FileNotFoundError: there are no weights.
        """
        self.weights = rank_model.load(folder / "attention.npz")
        with np.load(folder / "trees.npz", allow_pickle=False) as file:
            self.trees = {name: file[name] for name in file.files}

    def __call__(self, features: Features, group: Ints) -> Floats:
        if not len(features):
            return np.zeros(0)
        one = standard(rank_model.predict(self.weights, features).score, group)
        return one + standard(boosting.predict(self.trees, features), group)
