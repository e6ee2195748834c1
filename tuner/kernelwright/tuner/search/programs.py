"""The programs of a task: traces and features, as one .npz file that numpy alone reads."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FEATURES = 164
"""Columns of MetaSchedule's PerStoreFeature without the workload's embedding, which depends on block names."""

ORIGINS = ("random", "evolved")


@dataclass(frozen=True, slots=True)
class Program:
    """One scheduled program of a task.

    `key`: structural hash of the scheduled code, 16 hexadecimal digits; two traces that end in the same code are one
    program. `trace`: MetaSchedule's trace as JSON text, post-processing included, so that it replays as it is.
    `features`: float32 [stores, 164]. `origin`: `random` (drawn) or `evolved` (a mutant). `round`: in which it was made.
    """

    key: str
    trace: str
    features: NDArray[np.float32]
    origin: str
    round: int = 0


def save_programs(path: str | Path, programs: Sequence[Program], about: Mapping[str, object]) -> None:
    """Write all at once: a reader or a crash sees the file before or after, never between.

    `about`: what holds for the whole task (floating point operations, shapes of its tensors, toolchain), as JSON.
    """
    empty = np.zeros((0, FEATURES), np.float32)
    content = io.BytesIO()
    np.savez_compressed(
        content,
        keys=np.array([int(program.key, 16) for program in programs], np.uint64),
        traces=np.frombuffer("\n".join(program.trace for program in programs).encode(), np.uint8),
        features=np.concatenate([empty, *(program.features for program in programs)]),
        stores=np.array([len(program.features) for program in programs], np.int32),
        origins=np.array([ORIGINS.index(program.origin) for program in programs], np.uint8),
        rounds=np.array([program.round for program in programs], np.int16),
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
    )
    replace_file(Path(path), content.getvalue())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also when the power goes."""
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def load_programs(path: str | Path) -> tuple[list[Program], dict[str, object]]:
    """What `save_programs` wrote."""
    with np.load(path) as file:
        traces = file["traces"].tobytes().decode().split("\n")
        ends = np.cumsum(file["stores"])
        rows = np.split(file["features"], ends[:-1])
        columns = zip(file["keys"], traces, rows, file["origins"], file["rounds"], strict=False)
        programs = [
            Program(f"{int(key):016x}", trace, features, ORIGINS[int(origin)], int(number))
            for key, trace, features, origin, number in columns
        ]
        about: dict[str, object] = json.loads(file["about"].tobytes())
    return programs, about
