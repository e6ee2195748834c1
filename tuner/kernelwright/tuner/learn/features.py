"""Features of an example in named groups: the rows of its stores, its task, its device, and what these are to each other.

MetaSchedule's 164 columns know no hardware. The cross columns say what a row means on a device: the time its arithmetic
and its traffic take at least, its working set over each cache, its vectors over the SIMD width, its parallel loop over
the threads. They carry what is learned to a device that was never seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelwright.tuner.learn.examples import Examples, Floats
from kernelwright.tuner.learn.hardware import HARDWARE_COLUMNS, Hardware

MOST_ROWS = 6
"""Stores of a program that a model sees: those with the most work, the heaviest first. Few programs have more."""

STORE_GROUPS: Mapping[str, slice] = {
    "arithmetic": slice(0, 16),
    "vectorize": slice(16, 27),
    "unroll": slice(27, 38),
    "parallel": slice(38, 49),
    "buffers": slice(57, 147),
    "intensity": slice(147, 157),
    "allocation": slice(157, 161),
    "scope": slice(161, 164),
}
"""Columns of MetaSchedule's PerStoreFeature; the GPU's threads (49 to 56) say nothing on a CPU."""

STORE_COLUMNS = 156
CROSS_COLUMNS = 17
TASK_COLUMNS = 12
ROW_GROUPS = (*STORE_GROUPS, "cross")
GROUPS = (*ROW_GROUPS, "task", "hardware")

_FLOAT_OPERATIONS = slice(0, 7)
_BUFFERS, _BUFFER_COLUMNS, _FIRST_BUFFER = 5, 18, 57
_BYTES, _UNIQUE_BYTES, _UNIQUE_LINES, _REUSE_BYTES, _STRIDE = 3, 4, 6, 11, 17
_LINE = 64


@dataclass(frozen=True, slots=True)
class Features:
    """`rows`: float32 [N, MOST_ROWS, STORE_COLUMNS + CROSS_COLUMNS], zero where a program has fewer; `present`: [N,
    MOST_ROWS]; `task`: [N, TASK_COLUMNS]; `hardware`: [N, HARDWARE_COLUMNS]. `floor`: [N] seconds of the roofline.
    """

    rows: NDArray[np.float32]
    present: NDArray[np.bool_]
    task: NDArray[np.float32]
    hardware: NDArray[np.float32]
    floor: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> Features:
        return Features(
            self.rows[places], self.present[places], self.task[places], self.hardware[places], self.floor[places]
        )

    def without(self, *groups: str) -> Features:
        """The same with groups of columns at zero."""
        rows, task, hardware = self.rows.copy(), self.task.copy(), self.hardware.copy()
        for group in groups:
            if group == "task":
                task[:] = 0.0
            elif group == "hardware":
                hardware[:] = 0.0
            else:
                rows[:, :, row_columns(group)] = 0.0
        return Features(rows, self.present, task, hardware, self.floor)

    def flat(self) -> NDArray[np.float32]:
        """[N, columns]: for trees. The three heaviest rows side by side, the sums over all, task and hardware."""
        count = len(self.rows)
        crosses = self.rows[:, :, STORE_COLUMNS:]
        total = np.log2(np.sum(np.exp2(np.clip(crosses, -40, 60)) * self.present[:, :, None], axis=1) + 1e-12)
        return np.concatenate(
            [
                self.rows[:, :3].reshape(count, -1),
                total,
                self.present.sum(axis=1, keepdims=True),
                self.task,
                self.hardware,
            ],
            axis=1,
            dtype=np.float32,
        )


def row_columns(group: str) -> slice:
    """Where a group of columns stands in `Features.rows`."""
    if group == "cross":
        return slice(STORE_COLUMNS, STORE_COLUMNS + CROSS_COLUMNS)
    start = 0
    for name, columns in STORE_GROUPS.items():
        width = columns.stop - columns.start
        if name == group:
            return slice(start, start + width)
        start += width
    raise KeyError(group)


def features(of: Examples) -> Features:
    """The features of all examples, in their order."""
    count = len(of)
    rows = np.zeros((count, MOST_ROWS, STORE_COLUMNS + CROSS_COLUMNS), np.float32)
    present = np.zeros((count, MOST_ROWS), np.bool_)
    kept = np.concatenate([np.arange(columns.start, columns.stop) for columns in STORE_GROUPS.values()])
    floor = np.zeros(count)
    tasks = np.array([_task(about) for about in of.about], np.float32).reshape(-1, TASK_COLUMNS)
    tokens = np.array([device.token() for device in of.hardware], np.float32).reshape(-1, HARDWARE_COLUMNS)
    heaviest: dict[int, NDArray[np.float32]] = {}
    for place in range(count):
        program = int(of.program[place])
        if program not in heaviest:
            heaviest[program] = _heaviest(of.stores[program])
        stores, device = heaviest[program], of.hardware[of.device[place]]
        rows[place, : len(stores), :STORE_COLUMNS] = stores[:, kept]
        crosses, seconds = cross(stores, device)
        rows[place, : len(stores), STORE_COLUMNS:] = crosses
        present[place, : len(stores)] = True
        floor[place] = seconds
    return Features(rows, present, tasks[of.task], tokens[of.device], floor)


def _amount(column: NDArray[np.float32]) -> Floats:
    """What a column of MetaSchedule's, a signed log2(1 + x), stands for."""
    found = np.sign(column) * (np.exp2(np.minimum(np.abs(column.astype(np.float64)), 60.0)) - 1.0)
    return np.asarray(found, np.float64)


def _heaviest(stores: NDArray[np.float32]) -> NDArray[np.float32]:
    work = _amount(stores[:, _FLOAT_OPERATIONS]).sum(axis=1) + _amount(stores[:, _FIRST_BUFFER + _BYTES])
    return stores[np.argsort(-work, kind="stable")[:MOST_ROWS]]


def cross(stores: NDArray[np.float32], device: Hardware) -> tuple[Floats, float]:
    """[rows, CROSS_COLUMNS] of stores on a device, as log2 ratios, and the seconds of the roofline over all rows."""
    operations = _amount(stores[:, _FLOAT_OPERATIONS])
    flops = 2.0 * operations[:, 0] + operations[:, 1:].sum(axis=1)
    flops += 3.0 * operations[:, 3] + 9.0 * operations[:, 5]  # a division or a function is no single instruction
    buffers = stores[:, _FIRST_BUFFER : _FIRST_BUFFER + _BUFFERS * _BUFFER_COLUMNS]
    buffers = buffers.reshape(len(stores), _BUFFERS, _BUFFER_COLUMNS)
    unique, lines = _amount(buffers[:, :, _UNIQUE_BYTES]), _amount(buffers[:, :, _UNIQUE_LINES])
    working, moved = unique.sum(axis=1), (lines * _LINE).sum(axis=1)
    reuse = _amount(buffers[:, :, _REUSE_BYTES]).max(axis=1)
    vector = np.maximum(_amount(stores[:, 18]), 1.0)  # extent of the innermost vector loop
    parallel = np.maximum(_amount(stores[:, 39]), 1.0)
    lanes = device.simd / 4.0
    used = np.minimum(parallel, device.threads)
    waste = np.ceil(parallel / device.threads) * device.threads / parallel
    width = np.minimum(vector, lanes) / (np.ceil(vector / lanes) * lanes / np.maximum(vector, lanes))
    peak = device.gflops * 1e9 / device.threads  # of a thread with full vectors
    arithmetic = flops / (peak * used * np.maximum(width / lanes, 1.0 / lanes)) * np.maximum(waste, 1.0)
    traffic = moved / (device.gbs * 1e9 * used / device.threads)
    stride = np.abs(_amount(buffers[:, :, _STRIDE])).max(axis=1)
    ratios = [
        arithmetic * 1e6 + 1e-3, traffic * 1e6 + 1e-3, np.maximum(arithmetic, traffic) * 1e6 + 1e-3,
        (flops + 1.0) / (moved + 1.0), (flops / peak + 1e-9) / (moved / (device.gbs * 1e9) + 1e-9),
        (working + 1) / device.l1, (working + 1) / device.l2, (working + 1) / device.l3,
        (reuse + 1) / device.l1, (reuse + 1) / device.l2, (reuse + 1) / device.l3,
        vector / lanes, width / lanes, vector / lanes / device.registers,
        parallel / device.threads, waste, (4.0 * stride + 4.0) / _LINE,
    ]  # fmt: skip
    found = np.log2(np.maximum(np.stack(ratios, axis=1), 1e-6))
    return found, float(np.maximum(arithmetic, traffic).sum() + 1e-7)


def _task(about: Mapping[str, object]) -> list[float]:
    """The task: its work, its tensors' sizes, their ratio and shapes. No name enters."""
    flops = float(str(about.get("flops", 0.0)))
    tensors = about.get("tensors")
    shapes = [[int(extent) for extent in shape] for shape in tensors] if isinstance(tensors, list) else []
    sizes = sorted((4.0 * float(np.prod(shape)) for shape in shapes[:-1]), reverse=True)
    out = shapes[-1] if shapes else [1]
    written = 4.0 * float(np.prod(out))
    total = sum(sizes) + written
    extents = sorted((float(extent) for extent in out), reverse=True)
    values = [flops + 1.0, total + 1.0, (flops + 1.0) / (total + 1.0), written + 1.0, (sizes or [1.0])[0] + 1.0,
              sum(sizes) / written if written else 1.0, *(extents + [1.0] * 4)[:4], flops / max(1.0, written)]  # fmt: skip
    return [*(float(np.log2(max(value, 1e-6))) for value in values), float(len(shapes))]
