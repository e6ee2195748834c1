"""The figures against values computed by hand, and what the examples make of records."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kernelwright.tuner.learn.examples import Examples, groups_of, joined, noise_of, read, without_tasks
from kernelwright.tuner.learn.hardware import hardware
from kernelwright.tuner.learn.metrics import best_of_first, figures, pair_accuracy, peak
from kernelwright.tuner.search.programs import Program
from kernelwright.tuner.search.record_store import Measurement, RecordStore, Turn

TASK = "softmax-m128-n1000"
DATE = "2026-01-02T03:04:05+00:00"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("scores", "seconds", "noise", "expected"),
    [
        ([3, 2, 1], [1, 2, 3], 0.0, 1.0),
        ([1, 2, 3], [1, 2, 3], 0.0, 0.0),
        ([3, 1, 2], [1, 2, 3], 0.0, 2 / 3),
        ([1, 1, 1], [1, 2, 3], 0.0, 0.5),
        ([1, 2], [1.0, 1.05], 0.1, math.nan),  # the only pair is within the noise
        ([3, 1, 2], [1.0, 2.0, 2.1], 0.1, 1.0),  # the wrong pair is within the noise
        ([2, 1], [1.0, 1.0], 0.0, math.nan),
    ],
)
def test_pair_accuracy(scores: list[float], seconds: list[float], noise: float, expected: float) -> None:
    found = pair_accuracy(np.array(scores, float), np.array(seconds, float), noise)
    assert found == pytest.approx(expected, nan_ok=True)


def test_peak_is_the_mean_of_the_running_best() -> None:
    scores, seconds = np.array([1.0, 4.0, 3.0, 2.0]), np.array([1.0, 4.0, 2.0, 5.0])
    # predicted order: 4 s, 2 s, 5 s, 1 s, so the running best over the best is 1/4, 1/2, 1/2, 1
    assert peak(scores, seconds, 1) == 0.25
    assert peak(scores, seconds, 2) == pytest.approx(0.375)
    assert peak(scores, seconds, 9) == pytest.approx((0.25 + 0.5 + 0.5 + 1) / 4)
    assert [best_of_first(scores, seconds, k) for k in (1, 2, 3, 4)] == [0.25, 0.5, 0.5, 1.0]


def program(number: int) -> Program:
    rows = np.random.default_rng(number).uniform(0, 20, (2, 164)).astype(np.float32)
    return Program(f"{number + 1:016x}", f'[["Instruction",{number}],[]]', rows, "random", 0)


def store(folder: Path, times: dict[str, list[list[float]]], task: str = TASK) -> Path:
    """Records of one task: for each device the seconds of all programs, a list a replicate."""
    records = RecordStore(folder)
    records.add_programs(task, [program(n) for n in range(len(next(iter(times.values()))[0]))],
                         {"flops": 1e6, "tensors": [[128, 1000], [128, 1000]]})  # fmt: skip
    for device, replicates in times.items():
        level, threads = device.split("-")
        about = {"fingerprint": "abc", "level": level, "threads": int(threads), "host_cpu": "znver3"}
        records.add_device(device, about)
        for again, seconds in enumerate(replicates):
            records.begin(Turn(task, device, 0, again), "abc", DATE, 2e-3)
            for number, value in enumerate(seconds):
                ok = Measurement(number, "ok", (value, 1.1 * value, 1.2 * value), 2 * value, 0.2)
                records.add(ok if value < 1.0 else Measurement(number, "slow", (), value, 0.2))
            records.finish(2e-3, moved=False)
    records.close()
    return folder


def examples(tmp_path: Path) -> Examples:
    return read(store(tmp_path, {
        "avx2-1": [[1e-3, 2e-3, 3e-3, 4e-3, 2.0], [1.1e-3, 1.8e-3, 3.3e-3, 4.4e-3, 2.0]],
        "sse-2": [[5e-3, 4e-3, 3e-3, 2e-3, 1e-3]]
    }))  # fmt: skip


def test_an_example_is_a_program_on_a_device_labelled_by_the_median_of_its_measurements(tmp_path: Path) -> None:
    of = examples(tmp_path)
    assert len(of) == 10
    assert of.devices == ("avx2-1@abc", "sse-2@abc")
    avx2 = of.subset(of.device == 0)
    assert np.allclose(avx2.seconds, [1.05e-3, 1.9e-3, 3.15e-3, 4.2e-3, 2.0])
    assert np.allclose(avx2.first[:4], [1e-3, 2e-3, 3e-3, 4e-3])
    assert np.allclose(avx2.again[:4], [1.1e-3, 1.8e-3, 3.3e-3, 4.4e-3])
    assert np.isnan(avx2.again[4])
    assert avx2.slow.tolist() == [False] * 4 + [True]
    assert [len(places) for places in groups_of(of.group)] == [5, 5]
    assert of.hardware[0].simd == 32 and of.hardware[1].threads == 2
    assert of.family.tolist() == ["softmax"] * 10


def test_figures_average_groups_and_measure_against_what_repeats_agree_on(tmp_path: Path) -> None:
    of = examples(tmp_path)
    right = figures(of, -of.seconds, least=4)
    assert (right.pca, right.pca_beyond, right.peak1, right.top5) == (1.0, 1.0, 1.0, 1.0)
    assert right.groups == 2
    scores = np.where(of.device == 0, -of.seconds, of.seconds)  # one device all right, one all wrong
    half = figures(of, scores, least=4)
    assert half.pca == pytest.approx(0.5)
    assert half.ceiling == 1.0  # the four that were measured twice kept their order
    assert half.share == pytest.approx(1.0)
    assert figures(of, of.seconds, least=4).share == pytest.approx(-1.0)
    assert noise_of(of)(of.device)[0] == pytest.approx(np.percentile(np.abs(np.log([1.1, 0.9, 1.1, 1.1])), 90))


def test_stores_are_joined_by_the_names_of_tasks_and_devices(tmp_path: Path) -> None:
    one = read(store(tmp_path / "one", {"avx2-1": [[1e-3, 2e-3]]}))
    other = read(store(tmp_path / "other", {"sse-2": [[3e-3, 4e-3]], "avx2-1": [[5e-3, 6e-3]]}))
    third = read(store(tmp_path / "third", {"avx2-1": [[7e-3, 8e-3]]}, "rms_norm-m512-n512"))
    both = joined([one, other, third])
    assert both.tasks == (TASK, "rms_norm-m512-n512")
    assert both.devices == ("avx2-1@abc", "sse-2@abc")
    assert len(np.unique(both.program)) == 6
    kept = without_tasks(both, [TASK])
    assert np.allclose(np.sort(kept.seconds), [7e-3, 8e-3])
    assert kept.family.tolist() == ["rms_norm"] * 2
    for of in (one, other):
        for place in range(len(of)):
            at = np.flatnonzero(both.seconds == of.seconds[place])[0]
            assert np.array_equal(both.stores[both.program[at]], of.stores[of.program[place]])
            assert both.devices[both.device[at]] == of.devices[of.device[place]]


def test_hardware_knows_caches_by_the_kind_of_cpu_or_from_the_record() -> None:
    old = hardware({"level": "avx512", "threads": 2, "host_cpu": "icelake-server"}, 2 * 256**3 / 1e11)
    assert (old.l1, old.l2, old.simd) == (48 << 10, 1280 << 10, 64)
    assert old.gflops == pytest.approx(100.0)
    told = hardware(
        {"level": "sse", "threads": 1, "host_cpu": "x", "caches": {"l1": 1 << 16, "l2": 1 << 19, "l3": 1 << 22}}, 1.0
    )
    assert (told.l1, told.l2, told.l3) == (1 << 16, 1 << 19, 1 << 22)
    assert told.token().shape == (9,)
