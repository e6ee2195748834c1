"""The probe's figures of a pseudo-device, taken in bursts (`kernelwright.tuner.probe` takes them on a quiet machine)."""

from __future__ import annotations

from typing import Any

import torch
from bursts import Bursts

SIZES = tuple(1 << power for power in (16, 18, 20, 22, 23, 24, 25, 26))


def figures(bursts: Bursts) -> dict[str, Any]:
    """Bandwidth by size, peak, rate of tanh, dispatch: the best of three bursts each."""

    def seconds(run: Any) -> float:
        best = []
        for _ in range(3):
            timing = bursts.time(run)
            bursts.pause()
            best.append(timing.seconds if timing is not None else float("inf"))
        return min(best)

    curve = []
    for size in SIZES:
        a, b = torch.ones(size // 4), torch.ones(size // 4)
        curve.append((size, 3 * size / seconds(lambda: torch.add(a, b)) / 1e9))  # noqa: B023
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    data, one = torch.randn(1 << 16), torch.ones(1)
    return {
        "peak_gflops": 2 * 512**3 / seconds(lambda: torch.mm(a, b)) / 1e9,
        "bandwidth_by_size": curve,
        "bandwidth_gbs": curve[-1][1],
        "transcendental_gops": data.numel() / seconds(lambda: torch.tanh(data)) / 1e9,
        "dispatch_us": seconds(lambda: torch.add(one, one)) * 1e6,
    }
