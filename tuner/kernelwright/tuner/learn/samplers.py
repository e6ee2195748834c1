"""Which programs of each task are worth a measurement, when only a share of them can have one.

`random` needs nothing, `representative` and `diverse` the features; `uncertain`, `fast` and `combined` spend the first half of
the share at random and ask models trained on it about the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelwright.tuner.learn.examples import Examples, Floats, Ints, groups_of
from kernelwright.tuner.learn.features import Features
from kernelwright.tuner.learn.models import small_trees

MEMBERS = 3
"""Models whose disagreement is the uncertainty."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is known when the rest is chosen: places already chosen, and the models' mean and deviation for all examples."""

    chosen: Ints
    mean: Floats
    deviation: Floats


def sample(name: str, features: Features, of: Examples, share: float, seed: int) -> Ints:
    """Places of about `share` of the examples, in each group at least two.

    Raises:
        KeyError: no such sampler.
    """
    source = np.random.default_rng(seed)
    plain = {"random": _random, "representative": _representative, "diverse": _diverse}
    if name in plain:
        points = embedding(features)
        return _each_group(of, share, lambda places, count: plain[name](points, places, count, source))
    rest = {"uncertain": _uncertain, "fast": _fast, "combined": _combined}[name]
    points = embedding(features)
    first = _representative if name == "combined" else _random
    begun = _each_group(of, share / 2, lambda places, count: first(points, places, count, source))
    asked = _ask(features, of, begun, seed)
    taken = set(begun.tolist())

    def more(places: Ints, count: int) -> Ints:
        have = [place for place in places if place in taken]
        free = np.array([place for place in places if place not in taken], np.int64)
        left = max(0, count - len(have))
        return np.concatenate([np.array(have, np.int64), rest(points, free, left, asked, source)])

    return _each_group(of, share, more)


SAMPLERS = ("random", "representative", "diverse", "uncertain", "fast", "combined")


def embedding(features: Features, dimensions: int = 16) -> Floats:
    """[N, dimensions]: principal components of the standardised features."""
    flat = features.flat().astype(np.float64)
    deviation = flat.std(axis=0)
    flat = (flat - flat.mean(axis=0))[:, deviation > 1e-6] / deviation[deviation > 1e-6]
    values, vectors = np.linalg.eigh(flat.T @ flat / max(1, len(flat)))
    return np.asarray(flat @ vectors[:, np.argsort(-values, kind="stable")[:dimensions]])


def _each_group(of: Examples, share: float, choose: Callable[[Ints, int], Ints]) -> Ints:
    chosen = [choose(places, max(2, round(share * len(places)))) for places in groups_of(of.group)]
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)


def _random(_points: Floats, places: Ints, count: int, source: np.random.Generator) -> Ints:
    return np.asarray(source.permutation(places)[:count])


def _representative(points: Floats, places: Ints, count: int, source: np.random.Generator) -> Ints:
    """The members nearest to the centres of `count` clusters (k-means)."""
    own = points[places]
    centres = own[source.permutation(len(own))[:count]]
    for _ in range(8):
        nearest = _distances(own, centres).argmin(axis=1)
        centres = np.stack(
            [own[nearest == k].mean(axis=0) if np.any(nearest == k) else centres[k] for k in range(len(centres))]
        )
    found: list[int] = []
    distances = _distances(own, centres)
    for k in range(len(centres)):
        free = np.argsort(distances[:, k], kind="stable")
        found.append(next(int(place) for place in free if int(place) not in found))
    return np.asarray(places[np.array(found, np.int64)])


def _diverse(points: Floats, places: Ints, count: int, source: np.random.Generator) -> Ints:
    """The first at random, then always the one farthest from all chosen (k-centre)."""
    own = points[places]
    found = [int(source.integers(len(own)))]
    nearest = _distances(own, own[found])[:, 0]
    while len(found) < min(count, len(own)):
        found.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, _distances(own, own[found[-1:]])[:, 0])
    return np.asarray(places[np.array(found, np.int64)])


def _distances(points: Floats, others: Floats) -> Floats:
    return np.asarray(((points[:, None, :] - others[None, :, :]) ** 2).sum(axis=2))


def _ask(features: Features, of: Examples, begun: Ints, seed: int) -> _Asked:
    source = np.random.default_rng(seed + 1)
    scores = []
    for member in range(MEMBERS):
        part = np.sort(source.choice(begun, max(2, int(0.8 * len(begun))), replace=False))
        scorer = small_trees(features.take(part), of.subset(part), seed + member)
        scores.append(scorer(features, of.group))
    table = np.stack(scores)
    return _Asked(begun, table.mean(axis=0), table.std(axis=0))


def _uncertain(_points: Floats, free: Ints, count: int, asked: _Asked, _source: np.random.Generator) -> Ints:
    return np.asarray(free[np.argsort(-asked.deviation[free], kind="stable")[:count]])


def _fast(_points: Floats, free: Ints, count: int, asked: _Asked, source: np.random.Generator) -> Ints:
    """At random from the half that is predicted to be fast."""
    half = free[np.argsort(-asked.mean[free], kind="stable")[: max(count, (len(free) + 1) // 2)]]
    return np.asarray(source.permutation(half)[:count])


def _combined(points: Floats, free: Ints, count: int, asked: _Asked, source: np.random.Generator) -> Ints:
    """Of the half that is predicted to be fast, the more uncertain half of that, spread out."""
    half = free[np.argsort(-asked.mean[free], kind="stable")[: max(count, (len(free) + 1) // 2)]]
    unsure = half[np.argsort(-asked.deviation[half], kind="stable")[: max(count, (2 * len(half) + 2) // 3)]]
    return _diverse(points, unsure, count, source) if count and len(unsure) else np.zeros(0, np.int64)
