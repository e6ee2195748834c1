"""One CPU as several devices: what instruction set the code is compiled for, times how many threads it runs on.

The best schedule of one is poor on another (`knowledge`: the other target's best pick reached 0.27 to 1.0 of the
optimum), so a cost model can be tested on a device it has not seen without a second machine.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.tuner.devices import Machine, machine

LEVELS = ("sse", "avx2", "avx512", "native")
"""Instruction set levels. `avx512` is the CPU's own kind (icelake-server, znver4 …); `native` is for other architectures."""

SPACE_CORES = 2
"""`num-cores` of every target: the schedule space, and with it the programs, are the same on all devices (it allows
parallel loops of up to 16 × this many tasks). How many threads run them is the device's matter."""


@dataclass(frozen=True, slots=True)
class PseudoDevice:
    """A level of instructions and a number of threads (TVM_NUM_THREADS, read when tvm starts its pool)."""

    level: str
    threads: int

    @property
    def name(self) -> str:
        return f"{self.level}-{self.threads}"

    def target(self, host_cpu: str) -> dict[str, str | int]:
        """The TVM target; `host_cpu`: LLVM's name of this CPU."""
        cpu = {"sse": "x86-64", "avx2": "haswell"}.get(self.level, host_cpu)
        return {"kind": "llvm", "mcpu": cpu, "num-cores": SPACE_CORES}


def offered(of: Machine | None = None) -> tuple[PseudoDevice, ...]:
    """The pseudo-devices this machine can be: each level its CPU has, on 1 thread and, with the cores for it, on 2."""
    this = machine() if of is None else of
    if "x86_64" in this.system or "AMD64" in this.system:
        needed = {"sse": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512bw", "avx512vl"}}
        levels = [level for level, flags in needed.items() if flags <= set(this.isa)]
    else:
        levels = ["native"]
    return tuple(PseudoDevice(level, threads) for threads in (1, 2) if threads <= this.cores for level in levels)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What compiled the programs; a zygote tells it. `host_cpu`: LLVM's name of this CPU."""

    tvm: str
    tvm_ffi: str
    host_cpu: str

    def describe(self) -> str:
        return f"apache-tvm {self.tvm}, apache-tvm-ffi {self.tvm_ffi}"


def description(device: PseudoDevice, toolchain: Toolchain, of: Machine | None = None) -> dict[str, object]:
    """All that the measurements of a pseudo-device depend on, as JSON, with a `fingerprint` of 12 hexadecimal digits."""
    this = machine() if of is None else of
    found: dict[str, object] = {
        "level": device.level,
        "threads": device.threads,
        "target": device.target(toolchain.host_cpu),
        "cpu": this.cpu,
        "cores": this.cores,
        "isa": list(this.isa),
        "system": this.system,
        "toolchain": toolchain.describe(),
        "host_cpu": toolchain.host_cpu,
    }
    return {**found, "fingerprint": fingerprint(found), "kernel": platform.release()}


def fingerprint(described: Mapping[str, object]) -> str:
    return hashlib.sha256(repr(sorted(described.items())).encode()).hexdigest()[:12]


def environment(device_threads: int, temporary: str) -> dict[str, str]:
    """The environment of a process that runs programs on so many threads. `temporary`: its own folder for scratch files."""
    own = {"TVM_NUM_THREADS": str(device_threads), "TMPDIR": temporary}
    # numpy's BLAS starts threads on import; a process that forks must have none
    own |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **own}
