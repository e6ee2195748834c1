"""The rules of a measurement, on rounds made up here, and one real run each: its structure and counts, never its times."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from kernelwright.tuner.evidence import Counts
from kernelwright.tuner.lock import LockTimeout, machine_lock
from kernelwright.tuner.measure import MINIMUM_ROUNDS, Round, measure, median_interval, summarise
from kernelwright.tuner.scheduling import waited_seconds


def rounds(*triples: tuple[float, float, float], waited: float = 0.0) -> list[Round]:
    return [Round(a, x, b, waited) for a, x, b in triples]


def test_the_gain_is_the_median_of_paired_ratios() -> None:
    found = summarise(rounds(*[(2.0, 1.0, 2.0)] * 8, (40.0, 1.0, 40.0)))
    assert found.value == 2.0
    assert found.control == 1.0
    assert found.reason is None


def test_a_drift_of_the_machine_cancels() -> None:
    """Every sample is 2 % slower than the one before: the order of the rounds alternates, so nothing is left of it."""
    clock = itertools.count()
    made = []
    for n in range(12):
        a, x, b = (base * 1.02 ** next(clock) for base in (3.0, 1.0, 3.0))
        made.append(Round(b, x, a) if n % 2 else Round(a, x, b))
    found = summarise(made)
    assert found.value == pytest.approx(3.0, rel=2e-3)
    assert found.control == pytest.approx(1.0, rel=0.03)


def test_a_control_that_is_off_refuses_the_number() -> None:
    found = summarise(rounds(*[(2.24, 1.0, 2.0)] * 9))
    assert found.reason == "too noisy: A/A control 1.12"


def test_a_control_slightly_off_widens_the_interval() -> None:
    found = summarise(rounds(*[(1.03 * 1.02, 1.0, 1.02)] * 9))
    assert found.reason is None
    assert found.low < 1.02 < found.value < found.high


def test_a_wide_spread_refuses_the_number() -> None:
    triples = [(value, 1.0, value) for value in (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5)]
    found = summarise(rounds(*triples))
    assert found.reason is not None
    assert found.reason.startswith("too noisy: between 1.00 and 3.50")


def test_a_busy_machine_refuses_a_calm_looking_number() -> None:
    """Threads that wait for a core make every parallel operation as slow as a scheduler's slice, evenly."""
    calm = [(8.0, 1.0, 8.0)] * 9
    assert summarise(rounds(*calm)).reason is None
    found = summarise(rounds(*calm, waited=0.7))
    assert found.reason == "too noisy: the machine is busy, threads waited for a core in 9 of 9 rounds"
    mixed = summarise([*rounds(*calm, waited=0.7), *rounds(*[(3.0, 1.0, 3.0)] * MINIMUM_ROUNDS)])
    assert mixed.value == 3.0
    assert mixed.reason is None


def test_of_many_rounds_the_quieter_half_counts() -> None:
    found = summarise(rounds(*[(2.0, 1.0, 2.0)] * 6, *[(9.0, 3.0, 9.0)] * 6))
    assert found.value == 2.0


def test_the_interval_of_a_median_by_order_statistics() -> None:
    assert median_interval([1, 2, 3, 4, 5, 6]) == (1, 6)
    values = list(range(1, 26))
    low, high = median_interval(values)
    assert (low, high) == (8, 18)  # binomial table: n = 25, 95 %
    assert median_interval([5.0]) == (5.0, 5.0)


def test_counts_are_exact_and_the_gain_carries_all_it_must(workloads: Any) -> None:
    """Byte counts by hand: 8 launches of one 64x128 float32 tensor each, two of them with two operands."""
    size = 64 * 128 * 4
    notes: list[tuple[str, float | None]] = []
    workload = workloads.gelu_tanh("64, 128")
    gain = measure(workload, budget_seconds=0.5, progress=lambda message, fraction: notes.append((message, fraction)))
    assert gain.counts_before == Counts(operations=8, bytes_moved=18 * size, bytes_saved=0)
    assert gain.counts_after == Counts(operations=1, bytes_moved=2 * size, bytes_saved=0)
    assert gain.basis == "measured"
    assert gain.shapes == "x 64x128"
    assert gain.mode == "eval"
    assert gain.fingerprint
    assert "thread" in gain.device
    assert gain.control is not None
    assert gain.before_seconds is not None
    assert 0 < gain.before_seconds < 1
    if gain.value is None:
        assert gain.reason
    else:
        assert gain.low is not None
        assert gain.high is not None
        assert gain.low <= gain.value <= gain.high
    fractions = [fraction for message, fraction in notes if message.startswith("timing eval")]
    assert len(fractions) >= MINIMUM_ROUNDS
    assert fractions == sorted(fractions)  # type: ignore[type-var]


def test_training_counts_the_backward_and_what_is_saved_for_it(workloads: Any) -> None:
    size = 64 * 128 * 4
    gain = measure(workloads.gelu_tanh("64, 128", mode="training"), budget_seconds=0.3)
    before, after = gain.counts_before, gain.counts_after
    assert before is not None
    assert after is not None
    assert before.operations > 2 * 8
    assert after == Counts(operations=2, bytes_moved=5 * size, bytes_saved=size)
    # x, x * 0.5, tanh(...) and 1 + tanh(...)
    assert before.bytes_saved == 4 * size


def test_the_kernel_that_is_no_kernel_on_a_cpu_counts_the_same(workloads: Any) -> None:
    workload = workloads.rms_norm()
    gain = measure(workload, budget_seconds=0.3)
    assert gain.counts_before == gain.counts_after


def test_attention_counts_under_autocast_differ_from_those_without(workloads: Any) -> None:
    plain = measure(workloads.attention(), budget_seconds=0.1)
    cast = measure(workloads.attention(mode="autocast"), budget_seconds=0.1)
    assert plain.counts_before is not None
    assert cast.counts_before is not None
    assert plain.counts_after is not None
    assert plain.counts_before.operations == 5
    assert plain.counts_after.operations == 1
    assert cast.counts_before.operations > 5
    # too little budget for so slow a program: no number, and the counts all the same
    if plain.value is None:
        assert plain.reason is not None


def test_a_program_that_cannot_run_is_refused_with_the_reason() -> None:
    from kernelwright.analyzers.architecture import parse_program
    from kernelwright.analyzers.workload import Workload

    fine = parse_program("program p {\ninput %x: float32[4]\n%y = abs(%x)\nreturn %y\n}")
    broken = parse_program('program p {\ninput %x: float32[4]\n%y = layer(%x, path="d", class="L")\nreturn %y\n}')
    gain = measure(Workload("none", broken, fine, (), (), ()))
    assert gain.value is None
    assert "layer" in (gain.reason or "")
    assert not gain.worth_showing


def test_cancelling_stops_between_rounds(workloads: Any) -> None:
    class Stop(Exception):
        pass

    seen: list[str] = []

    def check() -> None:
        if sum(note.startswith("timing") for note in seen) == 2:
            raise Stop

    with pytest.raises(Stop):
        measure(workloads.silu("8, 64"), progress=lambda message, fraction: seen.append(message), check=check)
    assert sum(note.startswith("timing") for note in seen) == 2


def test_waiting_for_a_core_only_grows() -> None:
    first = waited_seconds()
    assert 0 <= first <= waited_seconds()


def test_the_machine_lock_is_held_by_one_and_freed_by_the_end(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("999999")  # left by a dead process: the file alone is no lock
    waiting: list[str] = []
    with machine_lock(path):
        with (
            pytest.raises(LockTimeout, match="another Kernelwright"),
            machine_lock(path, limit_seconds=0.3, waiting=waiting.append),
        ):
            pytest.fail("two hold it")
        assert len(waiting) == 1
    entered = threading.Event()
    with machine_lock(path, limit_seconds=0.3):
        entered.set()
    assert entered.is_set()
