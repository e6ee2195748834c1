"""The search loop on made-up measurements: same seed, same bytes; trials go where they save most; a crash loses nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernelwright.tuner.learn.examples import Floats, Ints
from kernelwright.tuner.learn.features import Features
from kernelwright.tuner.search.programs import Program, save_programs
from kernelwright.tuner.search.pseudo_devices import PseudoDevice, Toolchain
from kernelwright.tuner.search.record_store import Measurement, RecordStore
from kernelwright.tuner.search.tasks import task
from kernelwright.tuner.search.tuning import BATCH, Settings, as_json, report, tune

SHORT, LONG = "softmax-m128-n1000", "linear-m128-n768-k768"


class Crash(Exception):
    pass


class MadeUp:
    """A measurer whose programs take what their number says; it can crash at a trial."""

    toolchain = Toolchain("0.27.0.post1", "0.1.14.post1", "znver3")

    def __init__(self, crash_at: int | None = None) -> None:
        self.runs: list[str] = []
        self._crash_at = crash_at

    def sample(self, task: str, target: Mapping[str, object], seed: int, count: int, known: Sequence[str],
               elites: Sequence[tuple[str, float]], out: Path) -> str | None:  # fmt: skip
        source = np.random.default_rng(seed)
        made = []
        for _ in range(count):
            number = int(source.integers(1, 2**40))
            rows = np.abs(source.normal(8.0, 4.0, (2, 164))).astype(np.float32)
            made.append(Program(f"{number:016x}", json.dumps([number, float(rows[0, 60])]), rows, "random"))
        save_programs(out, [program for program in made if program.key not in known],
                      {"flops": 1e6, "tensors": [[128, 1000], [128, 1000]]})  # fmt: skip
        return None

    def build(self, task: str, target: Mapping[str, object], traces: Mapping[int, str]) -> dict[int, Measurement]:
        self._traces, self._task = dict(traces), task
        return {number: Measurement(number, "ok", build=0.1) for number in traces}

    def run(self, built: Measurement, best: float | None, *, threads: int | None = None) -> Measurement:
        if len(self.runs) == self._crash_at:
            raise Crash
        number, value = json.loads(self._traces[built.program])
        self.runs.append(f"{self._task} {number}")
        if number % 17 == 0:
            return Measurement(built.program, "crash", detail="signal 11")
        seconds = (1e-5 if self._task == SHORT else 1e-3) * (1.0 + value / 4.0)
        return Measurement(built.program, "ok", (seconds,) * 3, seconds, 0.1)

    def drop(self) -> None:
        pass

    def sentinel(self, target: Mapping[str, object], threads: int | None = None) -> float:
        return 2e-3


def scorer(features: Features, group: Ints) -> Floats:
    return -np.log(features.floor)


def settings(folder: Path, trials: int = 64) -> Settings:
    return Settings(folder, [(task(SHORT), 1), (task(LONG), 2)], PseudoDevice("avx2", 1), trials, worth=0.0)


def test_the_same_measurements_give_the_same_bytes(tmp_path: Path) -> None:
    found = [tune(settings(tmp_path / name), MadeUp(), scorer, lambda _: None) for name in ("one", "two")]
    assert json.dumps(as_json(found[0])) == json.dumps(as_json(found[1]))
    for path in (tmp_path / "one" / "programs").glob("*.npz"):
        assert path.read_bytes() == (tmp_path / "two" / "programs" / path.name).read_bytes()
    assert sum(one.trials for one in found[0]) == 64


def test_trials_go_where_they_save_most_of_the_model(tmp_path: Path) -> None:
    lines: list[str] = []
    short, long = tune(settings(tmp_path), MadeUp(), scorer, lines.append)
    assert short.trials == BATCH  # a first round, then the other task is 200 times as much of the model
    assert long.trials == 64 - BATCH
    assert long.seconds is not None and long.first is not None and long.seconds < long.first
    assert json.loads(long.trace)[1] >= 0
    told = report([short, long])
    assert told.index(LONG) < told.index(SHORT)
    assert any("expected gain" in line for line in lines)


@pytest.mark.parametrize("crash_at", [0, 3, 8, 21])
def test_it_goes_on_behind_the_last_finished_candidate(tmp_path: Path, crash_at: int) -> None:
    whole = MadeUp()
    tune(settings(tmp_path / "whole", 40), whole, scorer, lambda _: None)
    first, second = MadeUp(crash_at), MadeUp()
    with pytest.raises(Crash):
        tune(settings(tmp_path / "cut", 40), first, scorer, lambda _: None)
    found = tune(settings(tmp_path / "cut", 40), second, scorer, lambda _: None)
    assert len(first.runs) == crash_at
    assert not set(first.runs) & set(second.runs)
    assert len(first.runs) + len(second.runs) == sum(one.trials for one in found) == 40
    finished = 8 * -(-max(crash_at, 1) // 8)  # the round that was cut short is the one that the whole run made
    assert (first.runs + second.runs)[:finished] == whole.runs[:finished]


def test_a_task_that_has_nothing_to_gain_gets_no_more_trials(tmp_path: Path) -> None:
    lines: list[str] = []
    found = tune(replace(settings(tmp_path, 400), worth=0.05), MadeUp(), scorer, lines.append)
    assert sum(one.trials for one in found) < 400
    assert all(one.gain <= 0.05 for one in found)
    assert "no task is expected to gain more" in lines[-1]


def test_what_another_device_measured_is_not_taken_for_this_one_s(tmp_path: Path) -> None:
    tune(settings(tmp_path, 16), MadeUp(), scorer, lambda _: None)
    other = Settings(tmp_path, settings(tmp_path).tasks, PseudoDevice("sse", 1), 8)
    again = MadeUp()
    tune(other, again, scorer, lambda _: None)
    assert again.runs
    store = RecordStore(tmp_path)
    assert len({block.fingerprint for name in (SHORT, LONG) for block in store.blocks(name)}) == 2
    store.close()
