"""Collects tuning records: every task's programs, round by round, on every pseudo-device in turn.

It works while the machine is idle, or at any time where real-time scheduling gives a measurement its cores. Each pass
over the tasks gives each of them another level of instructions, so that records stopped at any time cover all tasks and
all devices alike; what is compiled for a level runs on each number of threads. Of every eight blocks one is compiled and
measured again later: the noise ceiling of what can be learned.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.tuner.lock import LockTimeout, machine_lock
from kernelwright.tuner.search.measurer import Measurer, MeasurerError, ZygoteDied
from kernelwright.tuner.search.own_load import OrdinaryUse, OwnLoad
from kernelwright.tuner.search.programs import load_programs
from kernelwright.tuner.search.pseudo_devices import PseudoDevice, description
from kernelwright.tuner.search.record_store import Block, Measurement, RecordStore, Turn
from kernelwright.tuner.search.tasks import Task

BLOCK = 20
"""Programs of one round of a task."""

CHUNK = 10
"""Programs compiled, or measured, under the machine's lock at a time: some seconds that another measurement may wait."""

MOVED = 0.10
"""A block between whose ends the sentinel differs by more does not count."""

CALM_TRIES, CALM_PAUSE = 4, 3.0
"""So often the sentinel is timed again before a block when it is slower than before, so many seconds apart."""

REPLICATED = 8
"""One block of so many is measured twice."""

MOST_DEATHS = 10
"""The measuring process is started again this often in a row. No candidate can end it, so that is tvm's fault or memory's."""

MOST_DEBT = 2.0
"""Seconds of a core that measuring may take ahead of its duty."""

LOCK_PAUSE = 0.15
"""Seconds without the lock between chunks; who waits for it looks every 0.1 s."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to collect.

    `minutes`: of wall time. `load_limit`: load by others above which we wait. `realtime`: do not wait, measure under
    real-time scheduling; where others need the cores too, measurements take at most `duty` of one core's time.
    `seed`: of the programs. `block`: programs of a round. `times`: measure all blocks so often at once, for a pool to
    replay, instead of some of them again later. `rounds`: stop after so many (None: go on).
    """

    folder: Path
    interpreter: tuple[str, ...]
    minutes: float
    tasks: Sequence[Task]
    devices: Sequence[PseudoDevice]
    load_limit: float = 0.5
    seed: int = 0
    block: int = BLOCK
    realtime: bool = False
    duty: float = 0.4
    times: int = 1
    rounds: int | None = None


class _TimeIsUp(Exception):
    """The budget is spent; what is finished is stored."""


def plan(
    tasks: Sequence[Task], devices: Sequence[PseudoDevice], times: int = 1, rounds: int | None = None
) -> Iterator[Turn]:
    """All turns in order; without end where `rounds` is None."""
    levels = list(dict.fromkeys(device.level for device in devices))
    for number in itertools.count() if rounds is None else range(rounds):
        for shift in range(len(levels)):
            row = [
                (task, [device for device in devices if device.level == levels[(i + shift) % len(levels)]])
                for i, task in enumerate(tasks)
            ]
            for task, same in row:
                yield from (Turn(task.id, device.name, number, again) for again in range(times) for device in same)
            for i, (task, same) in enumerate(row):
                if times == 1 and (i + shift + number) % REPLICATED == 0:
                    yield from (Turn(task.id, device.name, number, 1) for device in same)


def collect(settings: Settings, log: Callable[[str], None]) -> int:
    """Collect until the time is over or Ctrl-C. `log` takes one line a block. Returns how many records are stored in all.

    Raises:
        MeasurerError: the interpreter cannot compile or run programs.
        StoreError: the folder cannot be used.
    """
    with (
        contextlib.closing(RecordStore(settings.folder)) as store,
        _scratch(settings.folder / ".scratch") as scratch,
        contextlib.closing(_Collector(settings, store, scratch, log)) as collector,
    ):
        with contextlib.suppress(_TimeIsUp):
            collector.run()
        return store.records


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for temporary files, also rid of what a killed run left: the store's lock says that it is ours."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder.absolute()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Collector:
    def __init__(self, settings: Settings, store: RecordStore, scratch: Path, log: Callable[[str], None]) -> None:
        self._settings, self._store, self._scratch, self._log = settings, store, scratch, log
        self._started: Measurer | None = None
        self._held: tuple[object, dict[int, Measurement]] = (None, {})
        self._begun = time.monotonic()
        self._load, self._others, self._use = OwnLoad(), 0.0, OrdinaryUse()
        self._tasks = {task.id: task for task in settings.tasks}
        self._devices = {device.name: device for device in settings.devices}
        self._descriptions: dict[str, dict[str, object]] = {}
        self._first_records = store.records
        self._left_out: set[str] = set()
        self._worked = 0.0
        self._calm: dict[str, float] = {}
        self._debt, self._paid = 0.0, time.monotonic()

    def run(self) -> None:
        deaths = 0
        for turn in self._turns():
            if len(self._left_out) == len(self._tasks):
                self._log("no task has any program left that is not measured")
                return
            if turn.task in self._left_out or (turn, self._fingerprint(turn)) in self._store.finished:
                continue
            for _ in range(2):  # once more where the sentinel moved or the zygote died
                try:
                    done, deaths = self._turn(turn), 0
                except ZygoteDied as error:
                    self._log(f"the measuring process ended during {_name(turn)} ({error}): started again")
                    self.close()
                    done, deaths = False, deaths + 1
                if deaths > MOST_DEATHS:
                    raise MeasurerError("the measuring process ends again and again: install apache-tvm anew") from None
                if done:
                    break

    def _turns(self) -> Iterator[Turn]:
        """The block a crash or the last time limit left open, then the plan."""
        if (left := self._store.open) is not None:
            if left.turn.task in self._tasks and left.turn.device in self._devices:
                yield left.turn
            if self._store.open is left:
                self._store.discard()
        yield from plan(self._settings.tasks, self._settings.devices, self._settings.times, self._settings.rounds)

    def close(self) -> None:
        """End the measuring process, if there is one; the next measurement starts another."""
        if self._started is not None:
            self._started.close()
        self._started, self._held = None, (None, {})

    @property
    def _measurer(self) -> Measurer:
        if self._started is None:
            self._started = Measurer(
                self._settings.interpreter, 1, self._scratch, realtime_scheduling=self._settings.realtime
            )
        return self._started

    def _described(self, turn: Turn) -> dict[str, object]:
        if turn.device not in self._descriptions:
            found = description(self._devices[turn.device], self._measurer.toolchain)
            self._descriptions[turn.device] = found
        return self._descriptions[turn.device]

    def _fingerprint(self, turn: Turn) -> str:
        return str(self._described(turn)["fingerprint"])

    def _target(self, turn: Turn) -> dict[str, str | int]:
        return self._devices[turn.device].target(self._measurer.toolchain.host_cpu)

    def _turn(self, turn: Turn) -> bool:
        """Measure one block, or what is left of it. Returns whether there is nothing left to do."""
        self._wait_until_idle()
        begun = time.monotonic()
        traces = self._traces(turn)
        if not traces:
            return True
        block = self._store.open
        if block is None or block.turn != turn or block.fingerprint != self._fingerprint(turn):
            self._store.add_device(turn.device, self._described(turn))
            sentinel = self._calm_sentinel(turn)
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            block = self._store.begin(turn, self._fingerprint(turn), now, sentinel)
        finished = {result.program for result in block.measurements}
        left = [number for number in traces if number not in finished]
        built = self._built(turn, traces)
        for chunk in (left[first : first + CHUNK] for first in range(0, len(left), CHUNK)):
            begun += self._wait_until_idle()
            with self._machine():
                self._measure(turn, [built[number] for number in chunk], begun)
            time.sleep(LOCK_PAUSE)
        after = self._sentinel(turn)
        drift = after / block.sentinel[0] - 1.0
        self._store.finish(after, moved=abs(drift) > MOVED)
        self._worked += time.monotonic() - begun
        self._tell(block, drift, time.monotonic() - begun)
        return not block.moved

    def _calm_sentinel(self, turn: Turn) -> float:
        """Seconds of the sentinel, waiting some times while it is slower than it was: a block begun now would not count."""
        for _ in range(CALM_TRIES):
            self._wait_until_idle()
            sentinel = self._sentinel(turn)
            if sentinel <= (1.0 + MOVED) * self._calm.get(turn.device, sentinel):
                break
            time.sleep(CALM_PAUSE)
        else:
            self._calm[turn.device] = sentinel  # then that is how fast it is now
        self._calm[turn.device] = min(self._calm.get(turn.device, sentinel), sentinel)
        return sentinel

    def _sentinel(self, turn: Turn) -> float:
        with self._machine():
            return self._measurer.sentinel(self._target(turn), self._devices[turn.device].threads)

    def _built(self, turn: Turn, traces: dict[int, str]) -> dict[int, Measurement]:
        """A round compiled for the turn's device; kept for the turns that follow on other numbers of threads."""
        key = (turn.task, turn.round, self._devices[turn.device].level, self._settings.times == 1 and turn.replicate)
        if self._held[0] != key:
            self._measurer.drop()
            self._held = (key, {})
        held = self._held[1]
        left = [number for number in traces if number not in held]
        for chunk in (left[first : first + CHUNK] for first in range(0, len(left), CHUNK)):
            self._wait_until_idle()
            with contextlib.nullcontext() if self._settings.realtime else self._machine():
                held.update(
                    self._measurer.build(turn.task, self._target(turn), {number: traces[number] for number in chunk})
                )
            time.sleep(LOCK_PAUSE)
        return held

    def _measure(self, turn: Turn, built: Sequence[Measurement], begun: float) -> None:
        began, threads = time.monotonic(), self._devices[turn.device].threads
        for result in built:
            if result.build:
                best = self._store.best(turn.task, self._fingerprint(turn))
                result = self._measurer.run(result, best, threads=threads, keep=True)
                if result.status == "timeout" or "signal" in result.detail:
                    self._held[1][result.program] = dataclasses.replace(result, build=0.0)  # its process is gone
            at = time.monotonic() - begun
            self._store.add(dataclasses.replace(result, load=self._others, at=at))
            self._check_time()
        if self._settings.realtime:
            self._rest(threads * (time.monotonic() - began), threads)

    def _rest(self, used: float, threads: int) -> None:
        """Leave the cores to others where they need them, so that measuring keeps to its duty; compiling is not counted.

        `used`: seconds of cores that measuring has just taken.
        """
        now, duty = time.monotonic(), self._settings.duty
        self._debt = max(0.0, self._debt - duty * (now - self._paid)) + used
        self._paid = now
        if threads + self._use.cores() > (os.cpu_count() or 1) and self._debt > MOST_DEBT:
            time.sleep(min((self._debt - MOST_DEBT) / duty, max(0.0, self._left())))

    def _traces(self, turn: Turn) -> dict[int, str]:
        """The programs of a turn's round by number; made now if it is the round's first turn."""
        programs, _ = self._store.programs(turn.task)
        if not any(program.round == turn.round for program in programs):
            out = self._scratch / "sampled.npz"
            seed = self._tasks[turn.task].seed + 1000 * turn.round + self._settings.seed
            known = [program.key for program in programs]
            elites = self._elites(turn.task) if turn.round else []
            problem = self._measurer.sample(
                turn.task, self._target(turn), seed, self._settings.block, known, elites, out
            )
            added, about = load_programs(out) if problem is None else ([], {})
            if not added:
                self._left_out.add(turn.task)
                self._log(f"{turn.task}: left out from round {turn.round} on, {problem or 'no new program is found'}")
                return {}
            about |= {"toolchain": self._measurer.toolchain.describe(), "seed": self._settings.seed}
            added = [dataclasses.replace(program, round=turn.round) for program in added]
            self._store.add_programs(turn.task, added, about)
            programs = [*programs, *added]
        return {number: program.trace for number, program in enumerate(programs) if program.round == turn.round}

    def _elites(self, task: str, count: int = 16) -> list[tuple[str, float]]:
        """The best programs so far over all devices: traces, with the mean of seconds over the device's best."""
        ratios: dict[int, list[float]] = {}
        for block in self._store.blocks(task):
            best = self._store.best(task, block.fingerprint)
            for result in block.measurements:
                if result.seconds and best is not None:
                    ratios.setdefault(result.program, []).append(min(result.seconds) / best)
        ranked = sorted((sum(values) / len(values), number) for number, values in ratios.items())
        programs, _ = self._store.programs(task)
        return [(programs[number].trace, ratio) for ratio, number in ranked[:count]]

    @contextlib.contextmanager
    def _machine(self) -> Iterator[None]:
        """The machine-wide lock, however long the other one measures; the time counts against the budget."""
        while True:
            try:
                with contextlib.ExitStack() as stack:
                    stack.enter_context(machine_lock(limit_seconds=60.0, check=self._check_time))
                    yield
                return
            except LockTimeout as error:
                self._log(str(error))

    def _wait_until_idle(self) -> float:
        """Wait while others keep the machine busy. Returns the seconds that took."""
        begun = time.monotonic()
        told = False
        while True:
            self._check_time()
            self._others = self._load.others([self._started.pid] if self._started else [])
            if self._settings.realtime or self._others <= self._settings.load_limit:
                return time.monotonic() - begun
            if not told:
                self._log(f"waiting: load by others {self._others:.2f} is over {self._settings.load_limit:g}")
                told = True
            time.sleep(min(5.0, max(0.1, self._left())))

    def _left(self) -> float:
        return 60.0 * self._settings.minutes - (time.monotonic() - self._begun)

    def _check_time(self) -> None:
        if self._left() <= 0:
            raise _TimeIsUp

    def _tell(self, block: Block, drift: float, seconds: float) -> None:
        counts: dict[str, int] = {}
        for result in block.measurements:
            counts[result.status] = counts.get(result.status, 0) + 1
        told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        rate = (self._store.records - self._first_records) / max(self._worked, 1e-9)
        verdict = f"sentinel {100 * drift:+.1f} %" + (": moved, does not count" if block.moved else "")
        self._log(
            f"{_name(block.turn)}: {told} in {seconds:.1f} s; {verdict}; "
            f"{self._store.records} records, {rate:.2f}/s, {self._store.size() / 1e6:.2f} MB, "
            f"load by others {self._others:.2f}, {max(0.0, self._left()) / 60:.1f} min left"
        )


def _name(turn: Turn) -> str:
    again = " again" if turn.replicate else ""
    return f"{turn.task} on {turn.device}, round {turn.round}{again}"


def be_nice() -> None:
    """The lowest priority: whatever else runs goes first."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(19)
