"""What a cost model is told of a device: sizes that are read, and speeds that are measured or assumed.

Records tell the instruction set, the threads and the time of the sentinel (a 256³ matrix product); cache sizes stand in
newer device descriptions and are looked up by the CPU's kind for the older ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KIB, MIB = 1 << 10, 1 << 20

CACHES: Mapping[str, tuple[int, int]] = {
    "icelake-server": (48 * KIB, 1280 * KIB),
    "sapphirerapids": (48 * KIB, 2 * MIB),
    "skylake-avx512": (32 * KIB, MIB),
    "cascadelake": (32 * KIB, MIB),
    "znver4": (32 * KIB, MIB),
    "znver5": (48 * KIB, MIB),
}
"""First and second level cache of a core by LLVM's name of the CPU; others are taken to have 32 KiB and 512 KiB."""

LEVELS: Mapping[str, tuple[int, int, bool]] = {
    "sse": (16, 16, False), "avx2": (32, 16, True), "avx512": (64, 32, True), "native": (16, 32, True),
}  # fmt: skip
"""Bytes of a vector register, how many of them, and whether multiply and add are one instruction."""

SENTINEL_FLOPS = 2.0 * 256**3
STREAM_GBS = 8.0
"""GB/s of one core from memory, where nobody has measured it."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """`simd`: bytes of a vector. `l1`, `l2` (a core's) and `l3`: bytes. `gflops`: of the sentinel on all threads."""

    simd: int
    registers: int
    fused: bool
    threads: int
    l1: int
    l2: int
    l3: int
    gflops: float
    gbs: float

    def token(self) -> NDArray[np.float64]:
        """The device as a model reads it."""
        sizes = (self.simd, self.registers, self.threads, self.l1, self.l2, self.l3, self.gflops, self.gbs)
        return np.array([*(math.log2(size) for size in sizes), float(self.fused)])


HARDWARE_COLUMNS = 9


def hardware(described: Mapping[str, Any], sentinel_seconds: float) -> Hardware:
    """A device of `devices.json`. `sentinel_seconds`: the typical time of the sentinel on it."""
    simd, registers, fused = LEVELS[str(described["level"])]
    l1, l2 = CACHES.get(str(described["host_cpu"]), (32 * KIB, 512 * KIB))
    caches = described.get("caches", {})
    threads = int(described["threads"])
    return Hardware(
        simd, registers, fused, threads,
        int(caches.get("l1", l1)), int(caches.get("l2", l2)), int(caches.get("l3", 32 * MIB)),
        SENTINEL_FLOPS / sentinel_seconds / 1e9, STREAM_GBS * threads,
    )  # fmt: skip
