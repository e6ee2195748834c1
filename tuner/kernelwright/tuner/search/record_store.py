"""Tuning records on disk: append-only, whole after any crash, resumed at the last finished candidate.

```
FOLDER/devices.json                     what each pseudo-device is, by name and fingerprint
FOLDER/programs/TASK.npz                the task's programs: traces and features (`programs`)
FOLDER/measurements/TASK.jsonl.gz       blocks of measurements; one gzip member a block
FOLDER/open-block.jsonl                 the block that is being measured, a line a finished candidate
```

A block is a round of a task's programs on one device, between two timings of the sentinel. It is written as plain lines
while it grows, each line with fsync, and becomes one gzip member when it is complete. A member cut short by a crash is
cut off when the store is opened; a block that is both a member and open is closed for good.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelwright.tuner.search.programs import Program, load_programs, replace_file, save_programs

try:
    import fcntl
except ImportError:  # Windows: two collectors in one folder are not noticed
    fcntl = None  # type: ignore[assignment]


class StoreError(Exception):
    """The folder cannot be used; the message says what, why and what to do."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One block of work: the task's programs of a round, on a device; `replicate` 1 and up measures them again."""

    task: str
    device: str
    round: int
    replicate: int = 0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One candidate's result. `program`: its place among the task's programs.

    `status`: `ok`; `slow` (one call took over five times the best known, `once` seconds: a censored label); `timeout`,
    `crash`, `error`. `seconds`: of one call, a value a repeat. `once`: the first call. `build`: seconds of compiling, 0
    where that failed. `waited`: share of the time that threads waited for a core. `load`: load average by others.
    `at`: seconds since the block began. `detail`: what a failure said.
    """

    program: int
    status: str
    seconds: tuple[float, ...] = ()
    once: float = 0.0
    build: float = 0.0
    waited: float = 0.0
    load: float = 0.0
    at: float = 0.0
    detail: str = ""

    def row(self) -> list[object]:
        """As a compact JSON list, times in microseconds (build: milliseconds), five digits."""
        seconds = [_short(1e6 * value) for value in self.seconds]
        rest = [_short(1e6 * self.once), _short(1e3 * self.build), round(self.waited, 3), round(self.load, 2)]
        return [self.program, self.status, seconds, *rest, round(self.at, 1), *([self.detail] if self.detail else [])]


def measurement(row: list[Any]) -> Measurement:
    """What `Measurement.row` wrote."""
    program, status, seconds, once, build, waited, load, at, *detail = row
    times = tuple(1e-6 * value for value in seconds)
    return Measurement(program, status, times, 1e-6 * once, 1e-3 * build, waited, load, at, *detail)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


@dataclass(slots=True)
class Block:
    """Measurements of one turn. `sentinel`: seconds of the fixed program before and after (None: not yet timed).

    `moved`: the sentinel differed by more than the limit, the measurements count for nothing. `date`: ISO, of its begin.
    """

    turn: Turn
    fingerprint: str
    date: str
    sentinel: tuple[float, float | None]
    measurements: list[Measurement] = field(default_factory=list)
    moved: bool = False

    def header(self) -> dict[str, object]:
        turn = self.turn
        return {
            "task": turn.task, "device": turn.device, "fingerprint": self.fingerprint, "round": turn.round,
            "replicate": turn.replicate, "date": self.date, "sentinel": list(self.sentinel), "moved": self.moved,
        }  # fmt: skip


def _block(header: Mapping[str, Any], rows: list[list[Any]]) -> Block:
    turn = Turn(header["task"], header["device"], header["round"], header["replicate"])
    before, after = header["sentinel"]
    measurements = [measurement(row) for row in rows]
    return Block(turn, header["fingerprint"], header["date"], (before, after), measurements, header["moved"])


def read_blocks(path: Path) -> Iterator[tuple[Block, int]]:
    """The whole blocks of a measurements file, each with the offset in bytes behind it; a torn end is left out."""
    content = path.read_bytes()
    position = 0
    while position < len(content):
        unpack = zlib.decompressobj(wbits=31)
        try:
            text = unpack.decompress(content[position:])
        except zlib.error:
            return
        if not unpack.eof:
            return
        position = len(content) - len(unpack.unused_data)
        header, *rows = (json.loads(line) for line in text.decode().splitlines())
        yield _block(header, rows), position


class RecordStore:
    """The writer's hold on a folder; one a folder at a time. Read with `record_arrays.load`."""

    def __init__(self, folder: Path) -> None:
        """Opens or makes the store, mends what a crash left, and takes the folder's lock.

        Raises:
            StoreError: the folder cannot be written, or another collector writes there.
        """
        self.folder = folder
        try:
            for name in ("programs", "measurements"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written ({error.strerror}): name another with --out") from error
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock)
                raise StoreError(f"another collector writes to {folder}: end it or name another folder") from None
        self._journal = folder / "open-block.jsonl"
        self.finished: set[tuple[Turn, str]] = set()
        self._closed: set[tuple[Turn, str, str]] = set()
        self._best: dict[tuple[str, str], float] = {}
        self.records = 0
        for path in sorted((folder / "measurements").glob("*.jsonl.gz")):
            self._recover(path)
        self.open = self._read_journal()

    def close(self) -> None:
        os.close(self._lock)

    # --- programs ----------------------------------------------------------------------------------------------------

    def programs(self, task: str) -> tuple[list[Program], dict[str, object]]:
        """A task's programs, in the order their measurements count them, and what is known about the task."""
        path = self._programs(task)
        return load_programs(path) if path.exists() else ([], {})

    def add_programs(self, task: str, added: list[Program], about: Mapping[str, object]) -> None:
        known, _ = self.programs(task)
        save_programs(self._programs(task), [*known, *added], about)

    def _programs(self, task: str) -> Path:
        return self.folder / "programs" / f"{task}.npz"

    # --- devices -----------------------------------------------------------------------------------------------------

    def add_device(self, name: str, described: Mapping[str, object]) -> None:
        """Note what a device is. Measurements name its fingerprint, so another machine's may stand beside."""
        path = self.folder / "devices.json"
        known = json.loads(path.read_bytes()) if path.exists() else {}
        key = f"{name}@{described['fingerprint']}"
        if key not in known:
            replace_file(path, json.dumps({**known, key: described}, indent=1).encode())

    # --- measurements ------------------------------------------------------------------------------------------------

    def begin(self, turn: Turn, fingerprint: str, date: str, sentinel: float) -> Block:
        """Open a block."""
        self.open = Block(turn, fingerprint, date, (sentinel, None))
        with self._journal.open("w") as file:
            _durable(file, self.open.header())
        return self.open

    def add(self, result: Measurement) -> None:
        """Add a finished candidate to the open block; after the return it survives a crash."""
        assert self.open is not None
        self.open.measurements.append(result)
        self._note_best(self.open, result)
        with self._journal.open("a") as file:
            _durable(file, result.row())

    def finish(self, sentinel: float, moved: bool) -> None:
        """Close the open block with the sentinel's second time. Measurements between which it moved do not count."""
        block = self.open
        assert block is not None
        block.sentinel, block.moved = (block.sentinel[0], sentinel), moved
        lines = [json.dumps(block.header())]
        if not moved:
            lines += [json.dumps(result.row(), separators=(",", ":")) for result in block.measurements]
            self.records += len(block.measurements)
            self.finished.add((block.turn, block.fingerprint))
        with self._measurements(block.turn.task).open("ab") as file:
            file.write(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))
            file.flush()
            os.fsync(file.fileno())
        self.discard()

    def discard(self) -> None:
        """Forget the open block."""
        self._journal.unlink(missing_ok=True)
        self.open = None

    def best(self, task: str, fingerprint: str) -> float | None:
        """Seconds of the fastest program known for a task on a device."""
        return self._best.get((task, fingerprint))

    def blocks(self, task: str) -> list[Block]:
        """All closed blocks of a task that count."""
        path = self._measurements(task)
        return [block for block, _ in read_blocks(path) if not block.moved] if path.exists() else []

    def size(self) -> int:
        """Bytes of all programs and measurements."""
        return sum(path.stat().st_size for path in self.folder.glob("*/*.*z"))

    def _measurements(self, task: str) -> Path:
        return self.folder / "measurements" / f"{task}.jsonl.gz"

    def _note_best(self, block: Block, result: Measurement) -> None:
        if result.seconds:
            key = (block.turn.task, block.fingerprint)
            self._best[key] = min(self._best.get(key, float("inf")), *result.seconds)

    def _recover(self, path: Path) -> None:
        end = 0
        for block, position in read_blocks(path):
            end = position
            self._closed.add((block.turn, block.fingerprint, block.date))
            if not block.moved:
                self.finished.add((block.turn, block.fingerprint))
                self.records += len(block.measurements)
                for result in block.measurements:
                    self._note_best(block, result)
        if end < path.stat().st_size:
            os.truncate(path, end)

    def _read_journal(self) -> Block | None:
        try:
            content = self._journal.read_bytes()
        except FileNotFoundError:
            return None
        whole = content[: content.rfind(b"\n") + 1]  # a line cut short was not finished
        os.truncate(self._journal, len(whole))
        header, *rows = [json.loads(line) for line in whole.splitlines()] or [None]
        block = _block(header, rows) if header else None
        if block is None or (block.turn, block.fingerprint, block.date) in self._closed:
            self.discard()
            return None
        for result in block.measurements:
            self._note_best(block, result)
        return block


def _durable(file: Any, *lines: object) -> None:
    file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    file.flush()
    os.fsync(file.fileno())
