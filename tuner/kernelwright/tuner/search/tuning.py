"""The search: tasks of a model tuned together on one device, trial by trial, by evolution under a learned model.

A round takes one task: MetaSchedule proposes programs (random at first, then mutants of the task's best), a roofline drafts, the
learned model corrected by the task's own trials picks a batch, the batch is compiled and measured. The next round goes
where calls × time × expected gain is largest. Every finished candidate is on disk; the same folder goes on from there.
The clock decides nothing but the end, so replayed measurements give the same choices, byte for byte.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kernelwright.tuner.learn.examples import Examples, Floats
from kernelwright.tuner.learn.features import Features, features
from kernelwright.tuner.learn.hardware import Hardware, hardware
from kernelwright.tuner.learn.models import Scorer, standard
from kernelwright.tuner.learn.online import corrected, expected_gain, points
from kernelwright.tuner.search.programs import Program, load_programs
from kernelwright.tuner.search.pseudo_devices import PseudoDevice, Toolchain, description
from kernelwright.tuner.search.record_store import Measurement, RecordStore, Turn
from kernelwright.tuner.search.tasks import Task

BATCH = 8
PROPOSED = 64
"""Programs that are proposed for a round; the draft keeps the better half of those that were not tried."""


class Proposes(Protocol):
    """What the search needs of a `Measurer`."""

    @property
    def toolchain(self) -> Toolchain: ...

    def sample(
        self, task: str, target: Mapping[str, object], seed: int, count: int, known: Sequence[str],
        elites: Sequence[tuple[str, float]], out: Path,
    ) -> str | None: ...  # fmt: skip

    def build(self, task: str, target: Mapping[str, object], traces: Mapping[int, str]) -> dict[int, Measurement]: ...

    def run(self, built: Measurement, best: float | None, *, threads: int | None = None) -> Measurement: ...

    def drop(self) -> None: ...

    def sentinel(self, target: Mapping[str, object], threads: int | None = None) -> float: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """`tasks`: each with how often a model calls it. `trials`: measured programs in all. `minutes`: at most.

    `worth`: the expected gain, as log seconds, under which a task is left alone; measurements are not finer than 1 %.
    """

    folder: Path
    tasks: Sequence[tuple[Task, int]]
    device: PseudoDevice
    trials: int
    minutes: float = 60.0
    seed: int = 0
    worth: float = 0.01


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found for a task. `gain`: expected from more trials, as log seconds. `seconds` None: no program ran."""

    task: str
    calls: int
    trials: int
    first: float | None
    seconds: float | None
    trace: str
    gain: float


@dataclass(slots=True)
class _State:
    """One task: its programs, tried ones first, and what they took (by number; infinite where one failed)."""

    task: Task
    calls: int
    tried: list[Program] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    proposed: list[Program] = field(default_factory=list)
    about: dict[str, object] = field(default_factory=dict)
    rounds: int = 0
    gain: float = float("inf")
    done: bool = False

    @property
    def best(self) -> float:
        return min(self.seconds, default=float("inf"))


def tune(settings: Settings, measurer: Proposes, scorer: Scorer, log: Callable[[str], None]) -> list[Tuned]:
    """Spend the trials. Ends early when nothing is worth a trial, when the time is over, or at Ctrl-C.

    Raises:
        ZygoteDied: the measuring process ended; the same call with a new one goes on.
        StoreError: the folder cannot be used.
    """
    with contextlib.closing(RecordStore(settings.folder)) as store:
        search = _Search(settings, store, measurer, scorer, log)
        search.recall()
        search.run()
        return [
            Tuned(
                state.task.id, state.calls, len(state.tried), state.seconds[0] if state.seconds else None,
                state.best if np.isfinite(state.best) else None,
                state.tried[int(np.argmin(state.seconds))].trace if state.seconds else "", state.gain,
            )
            for state in search.states
        ]  # fmt: skip


class _Search:
    def __init__(
        self, settings: Settings, store: RecordStore, measurer: Proposes, scorer: Scorer, log: Callable[[str], None]
    ) -> None:
        self._settings, self._store, self._measurer = settings, store, measurer
        self._scorer, self._log = scorer, log
        self._end = time.monotonic() + 60.0 * settings.minutes
        self._described = description(settings.device, measurer.toolchain)
        self._target = settings.device.target(measurer.toolchain.host_cpu)
        self._fingerprint = str(self._described["fingerprint"])
        self._hardware: Hardware | None = None
        self.states = [_State(task, calls) for task, calls in settings.tasks]

    def recall(self) -> None:
        """What the folder knows; a round that was cut short is finished first."""
        for state in self.states:
            programs, state.about = self._store.programs(state.task.id)
            times: dict[int, float] = {}
            for block in self._store.blocks(state.task.id):
                if block.fingerprint == self._fingerprint:
                    self._hardware = self._hardware or hardware(self._described, block.sentinel[0])
                    times |= {found.program: _seconds(found) for found in block.measurements}
            state.tried = [programs[number] for number in sorted(times)]
            state.seconds = [times[number] for number in sorted(times)]
            state.rounds = 1 + max((program.round for program in programs), default=-1)
            left = [number for number in range(len(programs)) if number not in times]
            if left:
                self._measure(state, left, programs)
            if state.tried:
                state.gain = self._gain(state)

    def run(self) -> None:
        while self._trials() < self._settings.trials and time.monotonic() < self._end:
            open_states = [state for state in self.states if not state.done and state.gain > self._settings.worth]
            if not open_states:
                self._log("no task is expected to gain more than measurements can tell")
                return
            fresh = [state for state in open_states if not state.tried]
            self._round(fresh[0] if fresh else max(open_states, key=lambda s: s.calls * s.best * min(s.gain, 1.0)))

    def _trials(self) -> int:
        return sum(len(state.tried) for state in self.states)

    def _round(self, state: _State) -> None:
        self._propose(state)
        if not state.proposed:
            state.done = True
            self._log(f"{state.task.id}: no new program is found")
            return
        if self._hardware is None:
            self._hardware = hardware(
                self._described, self._measurer.sentinel(self._target, self._settings.device.threads)
            )
        count = min(BATCH, self._settings.trials - self._trials())
        chosen = self._pick(state, count)
        programs, _ = self._store.programs(state.task.id)
        batch = [replace(state.proposed[place], round=state.rounds) for place in chosen]
        state.proposed = [program for place, program in enumerate(state.proposed) if place not in set(chosen)]
        state.rounds += 1
        self._store.add_programs(state.task.id, batch, state.about)
        self._measure(state, list(range(len(programs), len(programs) + len(batch))), [*programs, *batch])
        state.gain = self._gain(state)
        self._log(
            f"{state.task.id}: {len(state.tried)} trials, best {1e6 * state.best:.1f} µs, expected gain "
            f"{100 * state.gain:.0f} %, saves {1e6 * state.calls * state.best * min(state.gain, 1.0):.1f} µs of the model"
        )

    def _propose(self, state: _State) -> None:
        out = self._settings.folder / "proposed.npz"
        order = np.argsort(state.seconds, kind="stable")[:16]
        elites = [(state.tried[n].trace, state.seconds[n]) for n in order if np.isfinite(state.seconds[n])]
        known = [program.key for program in [*state.tried, *state.proposed]]
        seed = state.task.seed + 1000 * state.rounds + self._settings.seed
        problem = self._measurer.sample(state.task.id, self._target, seed, PROPOSED, known, elites, out)
        if problem is None:
            found, about = load_programs(out)
            state.proposed += found
            state.about = {**about, "toolchain": self._measurer.toolchain.describe(), "seed": self._settings.seed}
            out.unlink(missing_ok=True)
        else:
            self._log(f"{state.task.id}: {problem}")

    def _pick(self, state: _State, count: int) -> list[int]:
        """Places in `proposed`: the draft's better half, and of it the most promising."""
        table, base = self._judged(state)
        tried = len(state.tried)
        floors = table.floor[tried:]
        drafted = np.argsort(floors, kind="stable")[: max(count, (len(floors) + 1) // 2)]
        ran = np.flatnonzero(np.isfinite(state.seconds))
        if len(ran) < 2:
            worth = base[tried:]
        else:
            mean, deviation = corrected(points(table), base, ran, np.array(state.seconds)[ran])
            worth = expected_gain(mean, deviation, -float(np.log(state.best)))[tried:]
        return [int(place) for place in drafted[np.argsort(-worth[drafted], kind="stable")][:count]]

    def _gain(self, state: _State) -> float:
        """The largest expected gain among what is proposed and not tried; without any, what was last gained halves."""
        ran = np.flatnonzero(np.isfinite(state.seconds))
        if len(ran) < 2 or not state.proposed or self._hardware is None:
            return 1.0
        table, base = self._judged(state)
        mean, deviation = corrected(points(table), base, ran, np.array(state.seconds)[ran])
        return float(expected_gain(mean, deviation, -float(np.log(state.best)))[len(state.tried) :].max())

    def _judged(self, state: _State) -> tuple[Features, Floats]:
        """Features and the learned model's scores of the tried and then the proposed programs."""
        assert self._hardware is not None
        of = _as_examples(state, self._hardware)
        table = features(of)
        return table, standard(self._scorer(table, of.group), of.group)

    def _measure(self, state: _State, numbers: list[int], programs: Sequence[Program]) -> None:
        turn = Turn(state.task.id, self._settings.device.name, programs[numbers[0]].round)
        threads = self._settings.device.threads
        block = self._store.open
        if block is None or block.turn != turn or block.fingerprint != self._fingerprint:
            self._store.add_device(turn.device, self._described)
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            block = self._store.begin(turn, self._fingerprint, now, self._measurer.sentinel(self._target, threads))
        self._hardware = self._hardware or hardware(self._described, block.sentinel[0])
        finished = {found.program for found in block.measurements}
        left = {number: programs[number].trace for number in numbers if number not in finished}
        built = self._measurer.build(state.task.id, self._target, left) if left else {}
        try:
            for number in left:
                result = built[number]
                if result.build:
                    best = self._store.best(state.task.id, self._fingerprint)
                    result = self._measurer.run(result, best, threads=threads)
                self._store.add(result)
        finally:
            self._measurer.drop()
        measured = {found.program: found for found in block.measurements}
        self._store.finish(block.sentinel[0], moved=False)  # a search compares with what it finds, not with other days
        state.tried += [programs[number] for number in numbers]
        state.seconds += [_seconds(measured[number]) for number in numbers]


def _seconds(found: Measurement) -> float:
    if found.status == "ok":
        return min(found.seconds)
    return found.once if found.status == "slow" else float("inf")


def _as_examples(state: _State, device: Hardware) -> Examples:
    programs = [*state.tried, *state.proposed]
    count = len(programs)
    zeros, unknown = np.zeros(count, np.int64), np.full(count, np.nan)
    return Examples(
        (state.task.id,), (state.task.family,), (state.about,), ("here",), (device,),
        tuple(program.features for program in programs), np.arange(count), zeros, zeros, unknown,
        np.zeros(count, np.bool_), unknown, unknown,
    )  # fmt: skip


def report(found: Sequence[Tuned]) -> str:
    """For people: what each task takes now, of how much of the model that is, and what more trials would gain."""
    total = sum(one.calls * one.seconds for one in found if one.seconds)
    lines = [f"{'task':42}{'calls':>6}{'trials':>8}{'first':>11}{'best':>11}{'of the model':>14}{'gain left':>11}"]
    for one in sorted(found, key=lambda of: -of.calls * (of.seconds or 0.0)):
        first, best = (
            f"{1e6 * value:.1f} µs" if value and np.isfinite(value) else "–" for value in (one.first, one.seconds)
        )
        share = 100 * one.calls * (one.seconds or 0.0) / total if total else 0.0
        gain = f"{100 * one.gain:.0f} %" if np.isfinite(one.gain) else "–"
        lines.append(f"{one.task:42}{one.calls:6}{one.trials:8}{first:>11}{best:>11}{share:13.0f}%{gain:>11}")
    return "\n".join(lines)


def as_json(found: Sequence[Tuned]) -> list[dict[str, Any]]:
    """What was found, for machines."""
    return [{name: getattr(one, name) for name in Tuned.__slots__} for one in found]
