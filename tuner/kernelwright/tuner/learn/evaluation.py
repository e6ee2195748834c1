"""The figures of the cost model, each by several seeds: medians with the range.

Every part is a function from examples to rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernelwright.tuner.learn.examples import Examples, Mask, noise_of
from kernelwright.tuner.learn.features import GROUPS, Features
from kernelwright.tuner.learn.metrics import Figures, figures
from kernelwright.tuner.learn.models import TRAINERS, Scorer, both, small_trees
from kernelwright.tuner.learn.samplers import SAMPLERS, sample
from kernelwright.tuner.learn.splits import LEAST_OF_A_DEVICE, SPLITS
from kernelwright.tuner.learn.transfer import correction, kit

Row = dict[str, Any]
Log = Callable[[str], None]
SHARES = (0.1, 0.25, 0.5)
KEPT = ("cross", "task", "hardware")
LEAST = 5
"""Examples a group must have to be judged; of a fifth of a group's programs a few are enough."""


def row(about: Mapping[str, object], found: Sequence[Figures]) -> Row:
    """Median, least and most of each figure over seeds, beside what they are of."""
    result: Row = dict(about)
    for field in dataclasses.fields(Figures):
        values = np.array([getattr(one, field.name) for one in found], np.float64)
        values = values[np.isfinite(values)]
        spread = [float(values.min()), float(np.median(values)), float(values.max())] if len(values) else None
        result[field.name] = spread and [round(value, 4) for value in spread]
    return result


def judged(of: Examples, held: Mask, scorer: Scorer, features: Features) -> Figures:
    """The figures of what is held out; noise as all examples show it."""
    test = of.subset(held)
    return figures(test, scorer(features.take(held), test.group), noise_of(of), 3)


def splits(of: Examples, features: Features, seeds: Sequence[int], log: Log) -> list[Row]:
    """Every model on every split; `both` is the mean of trees and attention."""
    rows = []
    for name, split in SPLITS.items():
        found: dict[str, list[Figures]] = {}
        for seed in seeds:
            held = split(of, seed)
            train, examples = features.take(~held), of.subset(~held)
            scorers = {model: trainer(train, examples, seed) for model, trainer in TRAINERS.items()}
            scorers["both"] = both(scorers["trees"], scorers["attention"])
            for model, scorer in scorers.items():
                found.setdefault(model, []).append(judged(of, held, scorer, features))
            log(
                f"{name}, seed {seed}: "
                + ", ".join(f"{model} {each[-1].pca_beyond:.3f}" for model, each in found.items())
            )
        rows += [row({"split": name, "model": model}, each) for model, each in found.items()]
    return rows


def data_kept(of: Examples, features: Features, seeds: Sequence[int], log: Log) -> list[Row]:
    """Every sampler at shares of the data, and all of it, by split; on small trees."""
    rows = []
    for name in ("by_task", "by_family", "by_device"):
        found: dict[tuple[str, float], list[Figures]] = {}
        for seed in seeds:
            held = SPLITS[name](of, seed)
            train, examples = features.take(~held), of.subset(~held)
            whole = judged(of, held, small_trees(train, examples, seed), features)
            for sampler in SAMPLERS:
                for share in SHARES:
                    places = sample(sampler, train, examples, share, seed)
                    scorer = small_trees(train.take(places), examples.subset(places), seed)
                    found.setdefault((sampler, share), []).append(judged(of, held, scorer, features))
                found.setdefault((sampler, 1.0), []).append(whole)
            log(
                f"data kept, {name}, seed {seed}: all {whole.pca_beyond:.3f}, "
                + ", ".join(f"{sampler} {found[sampler, SHARES[0]][-1].pca_beyond:.3f}" for sampler in SAMPLERS)
            )
        rows += [row({"split": name, "sampler": s, "kept": share}, each) for (s, share), each in found.items()]
    return rows


def learning_curve(of: Examples, features: Features, seeds: Sequence[int], log: Log) -> list[Row]:
    """Trees on 1k, 3k, 10k and all training examples, by task."""
    rows = []
    for count in (1000, 3000, 10_000, None):
        found = []
        for seed in seeds:
            held = SPLITS["by_task"](of, seed)
            places = np.flatnonzero(~held)
            if count is not None and count >= len(places):
                continue
            source = np.random.default_rng(seed)
            chosen = np.sort(source.permutation(places)[:count])
            scorer = small_trees(features.take(chosen), of.subset(chosen), seed)
            found.append(judged(of, held, scorer, features))
        if found:
            rows.append(row({"trained on": count or "all"}, found))
            log(f"learning curve, {count or 'all'}: {rows[-1]['pca_beyond']}")
    return rows


def feature_groups(of: Examples, features: Features, seeds: Sequence[int], log: Log) -> list[Row]:
    """Trees without one group of columns, and on one group alone."""
    rows = []
    variants: list[tuple[str, tuple[str, ...]]] = [("all", ())]
    variants += [(f"without {group}", (group,)) for group in GROUPS]
    variants += [("without cross and hardware", ("cross", "hardware")),
                 ("only cross, task and hardware", tuple(group for group in GROUPS if group not in KEPT))]  # fmt: skip
    for split in ("by_task", "by_device"):
        for name, masked in variants:
            kept = features.without(*masked)
            found = []
            for seed in seeds:
                held = SPLITS[split](of, seed)
                scorer = small_trees(kept.take(~held), of.subset(~held), seed)
                found.append(judged(of, held, scorer, kept))
            rows.append(row({"split": split, "columns": name}, found))
            log(f"columns, {split}, {name}: {rows[-1]['pca_beyond']}")
    return rows


def across_subgraphs(of: Examples, features: Features, seeds: Sequence[int], log: Log) -> list[Row]:
    """A fifth of the tasks held out; trees learn from their families alone, from other families alone, or from all."""
    rows = []
    for name in ("own families", "other families", "all"):
        found = []
        for seed in seeds:
            held = SPLITS["by_task"](of, seed)
            own = np.isin(of.family, np.unique(of.family[held]))
            # one family at a time, so that `own` and `other` mean the held-out task's own
            scores = np.zeros(len(of))
            for family in np.unique(of.family[held]):
                mine = of.family == family
                source = ~held & (mine if name == "own families" else ~mine if name == "other families" else own | ~own)
                test = held & mine
                if np.sum(source) < 20:
                    continue
                scores[test] = small_trees(features.take(source), of.subset(source), seed)(
                    features.take(test), of.group[test]
                )
                if name == "all":  # one model serves all families
                    scores[held] = small_trees(features.take(~held), of.subset(~held), seed)(
                        features.take(held), of.group[held]
                    )
                    break
            found.append(figures(of.subset(held), scores[held], noise_of(of), LEAST))
        rows.append(row({"learned from": name}, found))
        log(f"across subgraphs, {name}: {rows[-1]['pca_beyond']}")
    return rows


def unseen_devices(of: Examples, features: Features, seeds: Sequence[int], log: Log) -> list[Row]:
    """Each device in turn unseen: trees as they are, with a kit of 48 labels, and trained anew with the kit's among all."""
    rows = []
    machines = np.array([name.split("@")[0] for name in of.devices])
    for device, name in enumerate(of.devices):
        held = of.device == device
        if np.sum(held) < LEAST_OF_A_DEVICE:
            continue
        found: dict[str, list[Figures]] = {"zero-shot": [], "48 labels, ridge": [], "48 labels, trained anew": []}
        for seed in seeds:
            scorer = small_trees(features.take(~held), of.subset(~held), seed)
            test, own = of.subset(held), features.take(held)
            scores = scorer(own, test.group)
            places = kit(test, seed)
            rest = np.setdiff1d(np.arange(len(test)), places)
            fix = correction(scores[places], own.take(places), test.subset(places))
            anew = ~held
            anew[np.flatnonzero(held)[places]] = True
            again = small_trees(features.take(anew), of.subset(anew), seed)(own, test.group)
            judged_rest, noise = test.subset(rest), noise_of(of)
            for way, given in (
                ("zero-shot", scores), ("48 labels, ridge", fix(scores, own, test.group)), ("48 labels, trained anew", again)
            ):  # fmt: skip
                found[way].append(figures(judged_rest, given[rest], noise, LEAST))
        rows += [row({"device": machines[device], "at": name, "way": way}, each) for way, each in found.items()]
        log(
            f"unseen {name}: "
            + ", ".join(f"{way} {np.median([one.pca_beyond for one in each]):.3f}" for way, each in found.items())
        )
    return rows


def parts_of_the_network(of: Examples, features: Features, seeds: Sequence[int], log: Log) -> list[Row]:
    """The attention model trained on for a device it has not seen, on 256 labels: which parts change, with replay or not."""
    from kernelwright.tuner.learn import rank_model, rank_training

    found: dict[str, list[Figures]] = {}
    for seed in seeds:
        held = SPLITS["by_device"](of, seed)
        train, examples = features.take(~held), of.subset(~held)
        weights = rank_training.train(train, examples, rank_training.Training(seed=seed, epochs=10))
        test, own = of.subset(held), features.take(held)
        source = np.random.default_rng(seed)
        groups = source.permutation(np.unique(test.group))
        known = np.isin(test.group, groups[: max(1, min(len(groups) // 2, 13))])
        label, rest = np.flatnonzero(known)[:256], np.flatnonzero(~known)
        old = source.choice(len(examples), min(1500, len(examples)), replace=False)
        replayed = (train.take(old), examples.subset(old))
        every = tuple(rank_training.PARTS)
        ways: dict[str, tuple[tuple[str, ...], bool] | None] = {
            "zero-shot": None, "train all, no replay": ((), False), "train all, teacher and replay": ((), True),
            **{f"freeze {part}": ((part,), True) for part in every},
            **{f"train only {part}": (tuple(p for p in every if p != part), True) for part in every},
        }  # fmt: skip
        for way, how in ways.items():
            now = weights
            if how is not None:
                settings = rank_training.Training(seed=seed, epochs=15, rate=4e-4, frozen=how[0])
                now = rank_training.train(
                    own.take(label), test.subset(label), settings, start=weights, replay=replayed if how[1] else None
                )
            scores = rank_model.predict(now, own.take(rest)).score
            found.setdefault(way, []).append(figures(test.subset(rest), scores, noise_of(of), LEAST))
            log(f"parts, seed {seed}, {way}: {found[way][-1].pca_beyond:.3f}")
    return [row({"way": way}, each) for way, each in found.items()]


PARTS: Mapping[str, Callable[[Examples, Features, Sequence[int], Log], list[Row]]] = {
    "learning_curve": learning_curve,
    "unseen_devices": unseen_devices,
    "data_kept": data_kept,
    "feature_groups": feature_groups,
    "across_subgraphs": across_subgraphs,
    "splits": splits,
    "parts_of_the_network": parts_of_the_network,
}
"""What `model evaluate` can compute, in the order in which it does."""
