"""`kernelwright doctor`: what there is and what is missing, with what to do. Starts nothing, needs nothing."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from kernelwright.server.cli.target import add_verb, columns, interpreter_of
from kernelwright.server.interpreter import Interpreter

PACKAGES = ("pygls", "lsprotocol", "libcst", "jedi")


def add(verbs: Any) -> None:
    add_verb(verbs, "doctor", run, "Tell what Kernelwright finds on this machine, and what is missing.")


def run(options: argparse.Namespace) -> int:
    interpreter = interpreter_of(options)
    print(columns([*_versions(), *_interpreter(interpreter), *_tuner(interpreter)]))
    return 0


def _versions() -> Iterator[tuple[str, str]]:
    yield "kernelwright", _version("kernelwright") or "run from source"
    yield "python", f"{platform.python_version()} ({sys.executable})"
    for name in PACKAGES:
        yield name, _version(name) or f"missing: pip install {name}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _interpreter(interpreter: Interpreter) -> Iterator[tuple[str, str]]:
    yield "interpreter", f"{' '.join(interpreter.command)} ({interpreter.origin})"
    yield "torch", interpreter.torch or "not found there: no numbers. Install torch, or name another with --python"


def _tuner(interpreter: Interpreter) -> Iterator[tuple[str, str]]:
    from kernelwright.server.measurements import Measurements, open_records
    from kernelwright.tuner.devices import device_name, machine
    from kernelwright.tuner.records import default_path

    path = default_path()
    exists = path.exists()
    yield "records", f"{path} ({path.stat().st_size // 1024} KiB)" if exists else f"{path} (none yet)"
    this = machine()
    yield "machine", f"{device_name(this, this.cores)}; {' '.join(this.isa)}"
    device = Measurements(interpreter, open_records(), lambda line: None).stored_device() if exists else None
    if device is None:
        yield "device", "not probed yet: `kernelwright tune FILE` does it"
    else:
        yield (
            "device",
            f"{device.peak_gflops:.0f} GFLOP/s, {device.bandwidth_gbs:.1f} GB/s, "
            f"{device.dispatch_us:.1f} µs an operation (probed {device.date})",
        )
