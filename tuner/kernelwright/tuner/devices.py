"""The machine that numbers belong to: its fingerprint (read, not measured) and the figures of its probe. No torch here.

The fingerprint keys every record: a number measured on another CPU, with another torch or another thread count is never
shown as this machine's. `probe.py` measures the figures; `assumed` gives rough ones for the time before a probe.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_ISA = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "asimdhp", "asimddp", "bf16", "sve", "sve2",
)  # fmt: skip
"""The CPU flags that change which kernels torch picks; the other flags of /proc/cpuinfo do not belong in a key."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What can be read about this machine without running anything on it."""

    cpu: str
    cores: int
    isa: tuple[str, ...]
    system: str
    thread_settings: str


@dataclass(frozen=True, slots=True)
class Device:
    """A machine with one torch, and what it can do.

    `peak_gflops`: float32 matrix product, GFLOP/s on all threads. `bandwidth_gbs`: GB/s read and written by an
    out-of-place addition of tensors far larger than the caches (page faults of fresh outputs included, as user code has
    them). `bandwidth_by_size`: the same for several sizes, as (bytes of one tensor, GB/s), smallest first: caches and
    the allocator's reuse of memory make a factor of ten. `transcendental_gops`: 1e9 elements/s of `tanh` on cached
    data. `dispatch_us`: microseconds of one operation on a tensor of one element. `probed` is False where the figures
    are assumed, not measured; `quiet` is False where the machine was busy meanwhile, so that they are not kept.
    """

    name: str
    fingerprint: str
    torch_version: str
    cores: int
    threads: int
    isa: tuple[str, ...]
    peak_gflops: float
    bandwidth_gbs: float
    bandwidth_by_size: tuple[tuple[int, float], ...]
    transcendental_gops: float
    dispatch_us: float
    probed: bool
    quiet: bool = True
    date: str = ""

    @property
    def toolchain(self) -> str:
        return toolchain(self.torch_version)

    def to_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def device_from_json(data: Mapping[str, object]) -> Device:
    """The device that `Device.to_json` wrote.

    Raises:
        ValueError: a field is missing or of another kind (a record of another version).
    """
    try:
        values = {field.name: data[field.name] for field in dataclasses.fields(Device)}
        values["isa"] = tuple(str(flag) for flag in _sequence(values["isa"]))
        curve = [_sequence(pair) for pair in _sequence(values["bandwidth_by_size"])]
        values["bandwidth_by_size"] = tuple((int(str(size)), float(str(speed))) for size, speed in curve)
        return Device(**values)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no device record: {error}") from error


def _sequence(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list, found {value!r}")
    return value


def toolchain(torch_version: str) -> str:
    """The toolchain part of a record's key: torch's public version.

    The local part is left out: the same wheel says 2.13.0 in its metadata and 2.13.0+cu130 when imported.
    """
    return f"torch {torch_version.partition('+')[0]}"


def machine() -> Machine:
    """This machine as the operating system describes it (Linux: /proc/cpuinfo and the affinity of this process)."""
    cpu, flags = _cpu()
    settings = ",".join(f"{k}={os.environ[k]}" for k in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if k in os.environ)
    isa = tuple(flag for flag in _ISA if flag in flags)
    return Machine(cpu, _usable_cores(), isa, f"{platform.system()} {platform.machine()}", settings)


def fingerprint(torch_version: str, of: Machine | None = None) -> str:
    """The key of this machine with this torch: 16 hexadecimal digits, the same in the server and in the worker.

    The thread count enters by what determines torch's default: the usable cores and the environment's OpenMP settings.
    """
    described = machine() if of is None else of
    return hashlib.sha256(repr((described, toolchain(torch_version))).encode()).hexdigest()[:16]


def assumed(torch_version: str = "") -> Device:
    """This machine with rough figures from its core count and instruction set, for predictions before the first probe.

    Per core: 110 GFLOP/s and 2 G elements/s of tanh (AVX-512), 50 and 1.2 (AVX2), 20 and 0.4 (else): some two thirds of
    the nominal peak at 2.5 GHz. 6 GB/s of streaming a core up to 4 cores: the memory controllers, not the cores, are the
    limit beyond.
    """
    this = machine()
    per_core, hard = (110.0, 2.0) if "avx512f" in this.isa else (50.0, 1.2) if "avx2" in this.isa else (20.0, 0.4)
    streaming = 6.0 * min(this.cores, 4)
    return Device(
        name=device_name(this, this.cores),
        fingerprint=fingerprint(torch_version, this),
        torch_version=torch_version,
        cores=this.cores,
        threads=this.cores,
        isa=this.isa,
        peak_gflops=per_core * this.cores,
        bandwidth_gbs=streaming,
        bandwidth_by_size=((1 << 17, 25.0 * this.cores), (1 << 22, 25.0 * this.cores), (1 << 25, streaming)),
        transcendental_gops=hard * this.cores,
        dispatch_us=2.0,
        probed=False,
    )


def device_name(of: Machine, threads: int) -> str:
    """The device for people: `Intel Xeon Processor @ 2.60GHz, 2 threads`."""
    cpu = " ".join(of.cpu.replace("(R)", "").replace("(TM)", "").replace("CPU", "").split()) or of.system
    return f"{cpu}, {threads} thread{'s' if threads != 1 else ''}"


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> tuple[str, frozenset[str]]:
    system = platform.system()
    if system == "Linux":
        return _linux_cpu(Path("/proc/cpuinfo"))
    if system == "Darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        try:
            found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            found = ""
        return found or platform.processor(), frozenset({"asimd"} if platform.machine() == "arm64" else {"avx2", "fma"})
    return os.environ.get("PROCESSOR_IDENTIFIER", platform.processor()), frozenset()


def _linux_cpu(cpuinfo: Path) -> tuple[str, frozenset[str]]:
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return platform.processor(), frozenset()
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    model = fields.get("model name") or fields.get("CPU part") or fields.get("Processor", "")
    return model, frozenset((fields.get("flags") or fields.get("Features") or "").split())
