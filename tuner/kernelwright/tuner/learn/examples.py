"""Records as what a model is trained and judged on: one example a program and device, its label from all its measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelwright.tuner.learn.hardware import Hardware, hardware
from kernelwright.tuner.search.record_arrays import STATUSES, Records, load
from kernelwright.tuner.search.tasks import task

OK, SLOW = STATUSES.index("ok"), STATUSES.index("slow")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Examples:
    """N examples of programs of tasks on devices; the tables of programs are shared by all subsets.

    `stores`: for each program its rows of MetaSchedule's features. `seconds`: [N] the median over an example's
    measurements of the least repeat; of a slow one (`slow`), which was run once, its first call. `again`: [N] the
    second measurement, NaN where there is none, and `first` the first: what repeats agree on is the most a model can learn.
    """

    tasks: tuple[str, ...]
    families: tuple[str, ...]
    about: tuple[Mapping[str, object], ...]
    devices: tuple[str, ...]
    hardware: tuple[Hardware, ...]
    stores: tuple[NDArray[np.float32], ...]
    program: Ints
    task: Ints
    device: Ints
    seconds: Floats
    slow: Mask
    first: Floats
    again: Floats

    def __len__(self) -> int:
        return len(self.program)

    @property
    def group(self) -> Ints:
        """[N]: the same number where task and device are the same; only such examples are compared."""
        return self.task * len(self.devices) + self.device

    @property
    def family(self) -> NDArray[np.str_]:
        return np.array(self.families)[self.task]

    def subset(self, chosen: Mask | Ints) -> Examples:
        """Some of the examples."""
        columns = ("program", "task", "device", "seconds", "slow", "first", "again")
        return replace(self, **{name: getattr(self, name)[chosen] for name in columns})


def groups_of(group: Ints) -> list[Ints]:
    """The places of each group of two or more, in the order of the groups' numbers."""
    order = np.argsort(group, kind="stable")
    edges = np.flatnonzero(np.diff(group[order])) + 1
    return [places for places in np.split(order, edges) if len(places) > 1]


def read(folder: Path, tasks: Sequence[str] | None = None) -> Examples:
    """The examples of a store of records."""
    described = json.loads((folder / "devices.json").read_text())
    return examples(load(folder, tasks), described)


def joined(parts: Sequence[Examples]) -> Examples:
    """Several stores as one: tasks and devices of the same name are the same, programs are not."""
    tasks = tuple(dict.fromkeys(name for part in parts for name in part.tasks))
    devices = tuple(dict.fromkeys(name for part in parts for name in part.devices))
    about = {name: known for part in parts for name, known in zip(part.tasks, part.about, strict=True)}
    tokens = {name: known for part in parts for name, known in zip(part.devices, part.hardware, strict=True)}
    shifts = np.cumsum([0, *(len(part.stores) for part in parts)])
    return Examples(
        tasks,
        tuple(task(name).family for name in tasks),
        tuple(about[name] for name in tasks),
        devices,
        tuple(tokens[name] for name in devices),
        tuple(rows for part in parts for rows in part.stores),
        np.concatenate([part.program + shift for part, shift in zip(parts, shifts, strict=False)]),
        np.concatenate([np.array([tasks.index(name) for name in part.tasks], np.int64)[part.task] for part in parts]),
        np.concatenate(
            [np.array([devices.index(name) for name in part.devices], np.int64)[part.device] for part in parts]
        ),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("seconds", "slow", "first", "again")),
    )


def without_tasks(of: Examples, names: Sequence[str]) -> Examples:
    """All but the examples of some tasks."""
    left_out = [number for number, name in enumerate(of.tasks) if name in names]
    return of.subset(~np.isin(of.task, left_out))


def examples(records: Records, described: Mapping[str, Mapping[str, Any]]) -> Examples:
    """`described`: the devices by name, as devices.json has them. Programs that failed are left out."""
    best = np.where(records.status == OK, records.best_seconds, records.once)
    usable = np.isfinite(best) & np.isin(records.status, (OK, SLOW))
    devices = tuple(
        hardware(described[name], float(np.median(records.sentinel[records.device == number])))
        for number, name in enumerate(records.devices)
    )
    keys = records.program.astype(np.int64) * max(1, len(records.devices)) + records.device
    order = np.lexsort((records.replicate, keys))
    order = order[usable[order]]
    chosen, starts = np.unique(keys[order], return_index=True)
    measured = np.split(order, starts[1:]) if len(chosen) else []
    program = np.array([records.program[places[0]] for places in measured], np.int64)
    slow = np.array([bool(np.all(records.status[places] == SLOW)) for places in measured], bool)
    seconds, first, again = [], [], []
    for places in measured:
        timed = best[places[records.status[places] == OK]] if np.any(records.status[places] == OK) else best[places]
        seconds.append(np.median(timed))
        first.append(timed[0])
        repeated = len(timed) > 1 and records.status[places[0]] == OK
        again.append(timed[1] if repeated else np.nan)
    rows = tuple(
        records.features[start:end] for start, end in zip(records.first_store, records.first_store[1:], strict=False)
    )
    return Examples(
        records.tasks,
        tuple(task(name).family for name in records.tasks),
        records.about,
        records.devices,
        devices,
        rows,
        program,
        records.program_task[program].astype(np.int64) if len(program) else np.zeros(0, np.int64),
        np.array([records.device[places[0]] for places in measured], np.int64),
        np.array(seconds, np.float64),
        slow,
        np.array(first, np.float64),
        np.array(again, np.float64),
    )


def noise_of(of: Examples) -> Callable[[Ints], Floats]:
    """By device, the change of log time that nine of ten repeats stay under; over all devices where one has few repeats."""
    change = np.abs(np.log(of.again / of.first))
    known = np.isfinite(change)
    overall = float(np.percentile(change[known], 90)) if np.any(known) else 0.1
    by_device = np.full(len(of.devices), overall)
    for number in range(len(of.devices)):
        mine = known & (of.device == number)
        if np.sum(mine) >= 30:
            by_device[number] = np.percentile(change[mine], 90)
    return lambda device: by_device[device]
