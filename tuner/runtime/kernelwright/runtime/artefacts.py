"""The folder `.kernelwright/`: for each program its text, and for each machine and shape a record, a schedule, a library.

    .kernelwright/rms_norm-3f2a91c4/program.txt          the program, in the architecture language
                                    9b1f….json           the record of one kernel: for what, built how, measured how
                                    9b1f….schedule.txt   the tuned program as TVM script, to be read
                                    9b1f….so             the kernel

All but the library is text, made to be reviewed and committed; a library is of use on one machine only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.runtime.machine import machine
from kernelwright.runtime.trust import digest, trusted

FOLDER = ".kernelwright"
FORMAT = 1


@dataclass(frozen=True)
class TensorSpec:
    """A contiguous tensor: its extents and torch's name of its element type."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Kernel:
    """One built kernel: what its arguments must be, what it returns, and the bytes of its library's file by hash.

    `arguments`: for each parameter of the function a tensor, or the Python number that is compiled in.
    `autocast`: the function computes the same under autocast, so the kernel may be called there.
    """

    program: str
    fingerprint: str
    arguments: tuple[TensorSpec | float | int | bool | None, ...]
    outputs: tuple[TensorSpec, ...]
    autocast: bool
    device: str
    library: Path
    sha256: str


class RecordError(ValueError):
    """A record that cannot be read; the message says why."""


def folder_of(program: str, source: Path) -> Path | None:
    """The artefact folder of `program` beside the source file or in a folder above it."""
    if not program or any(part in program for part in ("/", "\\", "..")):
        return None
    for parent in source.parents:
        if (found := parent / FOLDER / program).is_dir():
            return found
    return None


def kernels(program: str, source: Path) -> tuple[Kernel, ...]:
    """The kernels for this machine that were built here by this user; all others are passed over."""
    folder = folder_of(program, source)
    if folder is None:
        return ()
    ours = trusted()
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record.get("machine") == machine():
                kernel = kernel_of(record, path)
                if kernel.sha256 in ours and digest(kernel.library.read_bytes()) == kernel.sha256:
                    found.append(kernel)
        except (OSError, ValueError, AttributeError):
            continue  # somebody's unfinished or foreign record is no reason to fail the user's import
    return tuple(found)


def kernel_of(record: Mapping[str, Any], path: Path) -> Kernel:
    """The kernel that a record tells of.

    Raises:
        RecordError: of another format, or a field is missing.
    """
    if record.get("format") != FORMAT:
        raise RecordError(f"{path}: format {record.get('format')!r}, this version reads {FORMAT}")
    try:
        return Kernel(
            program=record["program"],
            fingerprint=record["fingerprint"],
            arguments=tuple(_argument(entry) for entry in record["arguments"]),
            outputs=tuple(_tensor(entry) for entry in record["outputs"]),
            autocast=bool(record["autocast"]),
            device=record["device"],
            library=path.with_suffix(".so"),
            sha256=record["sha256"],
        )
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path}: {error!r}") from error


def _argument(entry: Mapping[str, Any]) -> TensorSpec | float | int | bool | None:
    return _tensor(entry) if "shape" in entry else entry["value"]


def _tensor(entry: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(tuple(int(extent) for extent in entry["shape"]), str(entry["dtype"]))
