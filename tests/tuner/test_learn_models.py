"""Features, the models in numpy against their trainers, samplers, transfer, and the replay: seeded, so the same every time."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernelwright.server.cli.main import main
from kernelwright.tuner.learn import boosting, rank_model, replay
from kernelwright.tuner.learn.examples import Examples, groups_of, read
from kernelwright.tuner.learn.features import GROUPS, STORE_COLUMNS, Features, features
from kernelwright.tuner.learn.models import SHIPPED, Shipped, standard
from kernelwright.tuner.learn.online import corrected, expected_gain, points
from kernelwright.tuner.learn.samplers import SAMPLERS, sample
from kernelwright.tuner.learn.splits import SPLITS
from kernelwright.tuner.learn.transfer import correction, kit

RECORDS = Path(__file__).parents[2] / "benchmarks" / "tuning" / "records"
POOL = RECORDS.parent / "pool"
TASKS = [
    "softmax-m128-n1000", "rms_norm-m512-n512", "linear-m128-n128-k128", "rotary-h16-t128-d64", "row_sum-m512-n768",
    "silu-m64-n512", "layer_norm-m512-n512", "geglu-m128-n2048",
]  # fmt: skip

needs_xgboost = pytest.mark.skipif(importlib.util.find_spec("xgboost") is None, reason="pip install '.[learn]'")
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="pip install '.[tuner]'")


@pytest.fixture(scope="module")
def of() -> Examples:
    return read(RECORDS, TASKS)


@pytest.fixture(scope="module")
def found(of: Examples) -> Features:
    return features(of)


def test_features_of_real_records_are_finite_and_their_groups_cover_all_columns(of: Examples, found: Features) -> None:
    assert len(found) == len(of) > 100
    for values in (found.rows, found.task, found.hardware, found.floor, found.flat()):
        assert np.isfinite(values).all()
    assert (found.floor > 0).all()
    assert found.present[:, 0].all()
    assert (found.rows[~found.present] == 0).all()
    bare = found.without(*GROUPS)
    assert not bare.rows.any() and not bare.task.any() and not bare.hardware.any()
    assert found.rows.any()  # masking copies


def test_cross_columns_change_with_the_device_and_the_others_do_not(of: Examples, found: Features) -> None:
    elsewhere = features(replace(of, device=(of.device + 1) % len(of.devices)))
    assert np.array_equal(found.rows[:, :, :STORE_COLUMNS], elsewhere.rows[:, :, :STORE_COLUMNS])
    assert np.array_equal(found.task, elsewhere.task)
    changed = (found.rows[:, :, STORE_COLUMNS:] != elsewhere.rows[:, :, STORE_COLUMNS:]).any(axis=(1, 2))
    assert changed.all()


@pytest.mark.parametrize("name", SPLITS)
def test_a_split_holds_out_whole_things_and_repeats(name: str, of: Examples) -> None:
    held = SPLITS[name](of, 1)
    assert np.array_equal(held, SPLITS[name](of, 1))
    assert 0 < held.sum() < len(of)
    kind = {"within_task": of.program, "by_task": of.task, "by_family": of.family, "by_device": of.device}[name]
    assert not set(kind[held].tolist()) & set(kind[~held].tolist())


@needs_torch
def test_numpy_predicts_what_torch_trained_and_the_seed_decides(found: Features, of: Examples) -> None:
    import torch

    from kernelwright.tuner.learn import rank_training

    settings = rank_training.Training(seed=3, epochs=2)
    weights = rank_training.train(found, of, settings)
    assert rank_model.count(weights) < 150_000
    again = rank_training.train(found, of, settings)
    assert all(np.array_equal(weights[name], again[name]) for name in weights)
    network = rank_training._Network(0.0).eval()
    scales = {name: weights[name] for name in weights if name.endswith((".mean", ".scale"))}
    network.load_state_dict({name: torch.tensor(weights[name]) for name in weights if name not in scales})
    with torch.no_grad():
        score, logged = network(rank_training._tensors(found, scales))
    predicted = rank_model.predict(weights, found)
    assert np.allclose(predicted.score, score.numpy(), atol=1e-4)
    assert np.allclose(np.log(predicted.seconds), logged.numpy(), atol=1e-3)
    assert (predicted.seconds >= found.floor / (rank_model.MOST_UTILISATION + 1e-3)).all()


@needs_torch
def test_training_learns_and_frozen_parts_keep_their_weights(found: Features, of: Examples) -> None:
    from kernelwright.tuner.learn import rank_training
    from kernelwright.tuner.learn.metrics import figures

    start = rank_training.train(found, of, rank_training.Training(seed=0, epochs=1))
    more = rank_training.train(
        found,
        of,
        rank_training.Training(seed=0, epochs=6, frozen=("rows", "attention")),
        start=start,
        replay=(found, of),
    )
    for name in start:
        frozen = name.startswith(("rows.", "layer", "norm.")) or name.endswith((".mean", ".scale"))
        assert np.array_equal(start[name], more[name]) == frozen, name
    learned = rank_training.train(found, of, rank_training.Training(seed=0, epochs=10))
    assert figures(of, rank_model.predict(learned, found).score).pca > figures(of, -found.floor).pca + 0.05


def test_weights_survive_the_disk_and_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    weights = {"rows.weight": np.array([[0.5, -2.0]], np.float32), "rows.mean": np.array([1e9], np.float32)}
    rank_model.save(tmp_path / "one.npz", weights)
    rank_model.save(tmp_path / "two.npz", dict(reversed(weights.items())))
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    back = rank_model.load(tmp_path / "one.npz")
    assert all(np.array_equal(back[name], weights[name]) for name in weights)


def test_trees_as_arrays_go_left_below_the_threshold() -> None:
    tree = {"nodeid": 0, "split": "f1", "split_condition": 2.0, "yes": 1, "no": 2, "missing": 1, "children": [
        {"nodeid": 1, "leaf": -1.0},
        {"nodeid": 2, "split": "f0", "split_condition": 0.5, "yes": 3, "no": 4, "missing": 3, "children": [
            {"nodeid": 3, "leaf": 10.0}, {"nodeid": 4, "leaf": 20.0}]}]}  # fmt: skip

    class Table:
        def __init__(self, values: list[list[float]]) -> None:
            self._values = np.array(values, np.float32)

        def flat(self) -> np.ndarray:
            return self._values

    table = Table([[0.0, 1.0], [0.0, 2.0], [1.0, 3.0]])
    assert boosting.predict(boosting.arrays([tree, tree]), table).tolist() == [2.0, -20.0, -40.0]  # type: ignore[arg-type]


@needs_xgboost
def test_numpy_trees_predict_what_xgboost_does(found: Features, of: Examples) -> None:
    settings = boosting.Boosting(rounds=10)
    trees = boosting.train(found, of, settings)
    again = boosting.train(found, of, settings)
    assert all(np.array_equal(trees[name], again[name]) for name in trees)
    scores = boosting.predict(trees, found)
    for places in groups_of(of.group)[:5]:
        assert np.corrcoef(scores[places], -np.log(of.seconds[places]))[0, 1] > 0.3


@needs_xgboost
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_takes_its_share_of_every_group_and_repeats(name: str, found: Features, of: Examples) -> None:
    chosen = sample(name, found, of, 0.25, 3)
    assert np.array_equal(chosen, sample(name, found, of, 0.25, 3))
    assert len(np.unique(chosen)) == len(chosen)
    for places in groups_of(of.group):
        assert np.isin(chosen, places).sum() == max(2, round(0.25 * len(places)))


def test_a_kit_is_48_labels_of_six_tasks(of: Examples) -> None:
    device = of.subset(of.device == int(np.argmax(np.bincount(of.device))))
    places = kit(device, 0)
    groups, counts = np.unique(device.group[places], return_counts=True)
    assert len(places) == len(groups) * 8 <= 48
    assert (counts == 8).all()
    assert np.array_equal(places, kit(device, 0))


def test_a_kit_mends_scores_that_are_wrong_for_the_device_and_is_rolled_back_where_they_are_right(
    found: Features, of: Examples
) -> None:
    places = kit(of, 0)
    labels, own = of.subset(places), found.take(places)
    right = -np.log(labels.seconds)
    assert not correction(right, own, labels).coefficients.any()
    wrong = standard(np.log(labels.seconds), labels.group)
    mended = correction(wrong, own, labels)(wrong, own, labels.group)
    before = np.mean([np.corrcoef(wrong[p], right[p])[0, 1] for p in groups_of(labels.group)])
    after = np.mean([np.corrcoef(mended[p], right[p])[0, 1] for p in groups_of(labels.group)])
    assert before < -0.9 < 0.5 < after


def test_trials_correct_the_model_and_untried_programs_keep_their_doubt(found: Features, of: Examples) -> None:
    places = max(groups_of(of.group), key=len)
    own, seconds = found.take(places), of.seconds[places]
    where, base = points(own), np.zeros(len(places))
    known = np.arange(0, len(places), 2)
    mean, deviation = corrected(where, base, known, seconds[known])
    assert np.corrcoef(mean[known], -np.log(seconds[known]))[0, 1] > 0.9
    rest = np.setdiff1d(np.arange(len(places)), known)
    assert deviation[rest].mean() > deviation[known].mean()
    gain = expected_gain(np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]), 0.0)
    assert gain[:2] == pytest.approx([0.0, 1.0], abs=1e-6)
    assert gain[2] == pytest.approx(1 / np.sqrt(2 * np.pi), abs=1e-3)


# --- what is committed -----------------------------------------------------------------------------------------------

needs_weights = pytest.mark.skipif(not (SHIPPED / "trees.npz").exists(), reason="no weights are shipped yet")
needs_pool = pytest.mark.skipif(not POOL.exists(), reason="no pool is committed yet")


@needs_weights
def test_shipped_weights_are_small_and_order_programs_they_have_not_seen() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.glob("*.npz")) < 1_000_000
    assert rank_model.count(Shipped(SHIPPED).weights) < 150_000


@needs_weights
@needs_pool
def test_the_replay_of_the_pool_is_the_same_bytes_every_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.json", "two.json"):
        arguments = [
            "model",
            "replay",
            "--pool",
            str(POOL),
            "--strategy",
            "random,learned",
            "--out",
            str(tmp_path / name),
        ]
        assert main(arguments) == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    rows = json.loads((tmp_path / "one.json").read_text())
    trials = {
        name: np.median([row["trials"][1] for row in rows if row["strategy"] == name]) for name in ("random", "learned")
    }
    assert trials["learned"] < trials["random"]
    assert "median of" in capsys.readouterr().out


@needs_weights
@needs_pool
def test_a_strategy_tries_every_program_once() -> None:
    task = min(replay.read_pool(POOL), key=len)
    for order in (replay.at_random(task, 1), replay.ours(Shipped(SHIPPED))(task, 1)):
        assert sorted(order.tolist()) == list(range(len(task)))
    assert not np.array_equal(replay.at_random(task, 1), replay.at_random(task, 2))


def test_the_curve_is_the_judge_s_time_of_what_the_trials_find() -> None:
    first, judge = np.array([3.0, 1.0, 2.0]), np.array([3.1, 2.5, 2.0])
    task = replay.PoolTask("t", None, None, first, judge, np.ones(3), np.arange(3))  # type: ignore[arg-type]
    assert replay.curve(task, np.array([0, 2, 1])).tolist() == [3.1, 2.0, 2.5]
    assert replay.trials_within(np.array([3.1, 2.0, 2.5]), 2.05) == 2
    assert replay.trials_within(np.array([3.1, 3.0]), 1.0) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "--records", "nowhere", "--out", "x"], "is not there"),
        (["replay", "--pool", "nowhere"], "is not there"),
        (["evaluate", "--records", str(RECORDS), "--out", "x", "--part", "nonsense"], "no part nonsense; there are"),
    ],
)
def test_what_is_not_there_is_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", *arguments]) == 2
    assert message in capsys.readouterr().err
