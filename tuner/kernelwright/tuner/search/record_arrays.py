"""Collected records as plain arrays, read with numpy alone: what a cost model is trained on.

`python -m kernelwright.tuner.search.record_arrays FOLDER` prints what a folder holds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelwright.tuner.search.programs import FEATURES, ORIGINS, load_programs
from kernelwright.tuner.search.record_store import Measurement, read_blocks

STATUSES = ("ok", "slow", "timeout", "crash", "error")
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Records:
    """P programs of T tasks with S stores in all, measured M times on D devices.

    `about`: for each task what the store says of it (`flops`, shapes of its `tensors`). `features`: float32 [S, 164];
    those of program p are the rows `first_store[p]` to `first_store[p + 1]`. `program_round`: in which round it was made.
    A measurement is of `program[i]` on `device[i]`; `seconds`: float64 [M, 3], a column a repeat, NaN where there is
    none; `once`: seconds of the first call (the only figure of a `slow` one), NaN where it was never run. `status`:
    index into STATUSES. `sentinel`: seconds of the fixed program before the measurement's block. `day`: days since 1970.
    """

    tasks: tuple[str, ...]
    about: tuple[dict[str, object], ...]
    devices: tuple[str, ...]
    features: NDArray[np.float32]
    first_store: NDArray[np.int64]
    program_task: NDArray[np.int32]
    program_key: NDArray[np.uint64]
    program_origin: NDArray[np.uint8]
    program_round: NDArray[np.int16]
    program: NDArray[np.int32]
    device: NDArray[np.int32]
    replicate: NDArray[np.int16]
    status: NDArray[np.uint8]
    seconds: NDArray[np.float64]
    once: NDArray[np.float64]
    build_seconds: NDArray[np.float64]
    waited: NDArray[np.float64]
    load: NDArray[np.float64]
    sentinel: NDArray[np.float64]
    day: NDArray[np.float64]

    @property
    def best_seconds(self) -> NDArray[np.float64]:
        """[M]: the least repeat; NaN where there is none."""
        return np.asarray(np.min(self.seconds, axis=1))

    @property
    def spread(self) -> NDArray[np.float64]:
        """[M]: coefficient of variation of the repeats; NaN where there are none."""
        return np.asarray(np.std(self.seconds, axis=1, ddof=1) / np.mean(self.seconds, axis=1))


def load(folder: Path, tasks: Sequence[str] | None = None) -> Records:
    """All records of a store that count, of the named tasks (None: all). Needs no lock: a collector may be writing."""
    paths = [path for path in sorted((folder / "programs").glob("*.npz")) if tasks is None or path.stem in tasks]
    about, devices = [], dict[str, int]()
    features = [np.zeros((0, FEATURES), np.float32)]
    programs: list[tuple[int, int, int, int, int]] = []
    rows: list[tuple[Any, ...]] = []
    for number, path in enumerate(paths):
        found, known = load_programs(path)
        about.append(known)
        first = len(programs)
        features += [program.features for program in found]
        programs += [
            (number, int(program.key, 16), ORIGINS.index(program.origin), program.round, len(program.features))
            for program in found
        ]
        measured = folder / "measurements" / f"{path.stem}.jsonl.gz"
        for block, _ in read_blocks(measured) if measured.exists() else ():
            if not block.moved:
                device = devices.setdefault(f"{block.turn.device}@{block.fingerprint}", len(devices))
                day = np.datetime64(block.date[:19], "s").astype(np.int64) / 86400.0
                rows += [
                    (first + m.program, device, block.turn.replicate, *_figures(m), block.sentinel[0], day)
                    for m in block.measurements
                ]
    task, key, origin, made, stores = (list(column) for column in zip(*programs, strict=True)) if programs else [[]] * 5
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * 11
    return Records(
        tuple(path.stem for path in paths),
        tuple(about),
        tuple(devices),
        np.concatenate(features),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(stores, np.int64))]),
        np.array(task, np.int32),
        np.array(key, np.uint64),
        np.array(origin, np.uint8),
        np.array(made, np.int16),
        np.array(columns[0], np.int32),
        np.array(columns[1], np.int32),
        np.array(columns[2], np.int16),
        np.array(columns[3], np.uint8),
        np.array(columns[4], np.float64).reshape(-1, REPEATS),
        *(np.array(column, np.float64) for column in columns[5:]),
    )


def _figures(of: Measurement) -> tuple[object, ...]:
    seconds = [*of.seconds[:REPEATS], *[float("nan")] * (REPEATS - len(of.seconds))]
    once = of.once if of.once else float("nan")
    return STATUSES.index(of.status), seconds, once, of.build, of.waited, of.load


def summary(records: Records) -> str:
    """A table for people: records a device, and how noisy they are."""
    lines = [
        f"{len(records.program)} records of {len(records.program_task)} programs of {len(records.tasks)} tasks",
        f"{'device':32}{'records':>9}"
        + "".join(f"{status:>9}" for status in STATUSES)
        + f"{'again':>9}{'CV > 10 %':>11}",
    ]
    for number, name in enumerate(records.devices):
        of = records.device == number
        counts = "".join(f"{np.sum(records.status[of] == status):9}" for status in range(len(STATUSES)))
        spread = records.spread[of]
        noisy = np.mean(spread[np.isfinite(spread)] > 0.1) if np.isfinite(spread).any() else 0.0
        again = np.sum(records.replicate[of] > 0)
        lines.append(f"{name:32}{np.sum(of):9}{counts}{again:9}{100 * noisy:10.1f}%")
    pairs = replicate_pairs(records)
    if len(pairs):
        moved = np.abs(pairs[:, 1] / pairs[:, 0] - 1.0)
        lines.append(f"{len(pairs)} measured again: median change {100 * np.median(moved):.1f} %, "
                     f"90th percentile {100 * np.percentile(moved, 90):.1f} %")  # fmt: skip
    return "\n".join(lines)


def replicate_pairs(records: Records) -> NDArray[np.float64]:
    """[n, 2]: seconds of programs at the first measurement and at the first replicate on the same device."""
    best, pairs = records.best_seconds, []
    first = {
        (p, d): s
        for p, d, r, s in zip(records.program, records.device, records.replicate, best, strict=True)
        if r == 0 and np.isfinite(s)
    }
    for p, d, r, s in zip(records.program, records.device, records.replicate, best, strict=True):
        if r == 1 and np.isfinite(s) and (p, d) in first:
            pairs.append((first[p, d], s))
    return np.array(pairs, np.float64).reshape(-1, 2)


if __name__ == "__main__":
    print(summary(load(Path(sys.argv[1]))))
