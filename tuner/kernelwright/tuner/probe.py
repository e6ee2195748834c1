"""Measures what this machine can do with this torch, for a `Device`, in some two seconds. Needs torch."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable

import torch

from kernelwright.tuner.devices import Device, device_name, fingerprint, machine
from kernelwright.tuner.scheduling import QUIET, waited_seconds

_SIZES = tuple(1 << power for power in (16, 18, 20, 22, 23, 24, 25, 26))
"""Bytes of one tensor in the bandwidth curve: 64 KiB (a core's cache) to 64 MiB (main memory)."""


def probe(check: Callable[[], None] = lambda: None) -> Device:
    """This machine's figures, each the best of short repeated samples. `check` may raise to cancel."""
    this = machine()
    version = str(torch.__version__)
    timer = _Timer(check)
    data, one = torch.randn(1 << 16), torch.ones(1)
    with torch.no_grad():
        curve = tuple((size, _bandwidth(size, timer)) for size in _SIZES)
        peak = _peak(timer)
        transcendental = data.numel() / timer.seconds(lambda: torch.tanh(data)) / 1e9
        dispatch = timer.seconds(lambda: torch.add(one, one)) * 1e6
    return Device(
        name=device_name(this, torch.get_num_threads()),
        fingerprint=fingerprint(version, this),
        torch_version=version,
        cores=this.cores,
        threads=torch.get_num_threads(),
        isa=this.isa,
        peak_gflops=peak,
        bandwidth_gbs=curve[-1][1],
        bandwidth_by_size=curve,
        transcendental_gops=transcendental,
        dispatch_us=dispatch,
        probed=True,
        quiet=timer.quiet,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _bandwidth(size: int, timer: _Timer) -> float:
    """GB/s of `a + b` into a fresh tensor: two read, one written."""
    a, b = torch.ones(size // 4), torch.ones(size // 4)
    return 3 * size / timer.seconds(lambda: torch.add(a, b)) / 1e9


def _peak(timer: _Timer) -> float:
    side = 1024
    a, b = torch.randn(side, side), torch.randn(side, side)
    return 2 * side**3 / timer.seconds(lambda: torch.mm(a, b)) / 1e9


class _Timer:
    """Times operations and remembers whether the machine let it: `quiet` is False once a figure had no quiet sample."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.quiet = True
        self._check = check

    def seconds(self, run: Callable[[], object]) -> float:
        """Seconds of one run: the fastest sample whose threads had their cores.

        Where another program keeps a core busy there is none; then one thread's time may be the better figure, since a
        parallel operation waits for the scheduler.
        """
        self._check()
        best, quiet = self._best(run)
        if quiet:
            return best
        self.quiet = False
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return min(best, self._best(run)[0])
        finally:
            torch.set_num_threads(threads)

    @staticmethod
    def _best(run: Callable[[], object]) -> tuple[float, bool]:
        run()
        best, best_quiet = math.inf, math.inf
        repeats, samples = 1, 0
        begin = time.perf_counter()
        while samples < 7 or time.perf_counter() - begin < (0.15 if best_quiet < math.inf else 0.4):
            waited, start = waited_seconds(), time.perf_counter()
            for _ in range(repeats):
                run()
            elapsed = time.perf_counter() - start
            best = min(best, elapsed / repeats)
            if waited_seconds() - waited <= QUIET * elapsed:
                best_quiet = min(best_quiet, elapsed / repeats)
            repeats = max(1, min(round(0.002 / best), 2000))
            samples += 1
        return (best_quiet, True) if best_quiet < math.inf else (best, False)
