"""Timing on a machine that others use: short bursts at real-time priority on given cores, rarely enough to disturb nobody.

Needs Linux and the right to set a real-time priority (root, or CAP_SYS_NICE); without it, bursts run at normal priority and
count the involuntary context switches all the same.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

BURST_SECONDS = 0.06
"""No longer at once: others wait meanwhile."""

DUTY = 0.22
"""Share of the time that bursts may take."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one run: the fastest and the median of the samples; how often the thread was interrupted."""

    seconds: float
    median: float
    samples: int
    interrupted: int


class Bursts:
    """Times functions in bursts, and pauses between them so that the share of time stays below `DUTY`."""

    def __init__(self, cores: tuple[int, ...], priority: int = 50) -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cores)
        self._priority = priority
        self._owed = 0.0

    def pause(self) -> None:
        """Sleep off what the last bursts took."""
        time.sleep(self._owed)
        self._owed = 0.0

    def time(self, run: Callable[[], object]) -> Timing | None:
        """The timing of `run`, or None where one run takes a burst or more."""
        begun = time.perf_counter()
        with self._real_time():
            first = _elapsed(run, 1)
            timing = None if first > BURST_SECONDS else _samples(run, min(first, _elapsed(run, 1)), begun)
        self._owed += (time.perf_counter() - begun) * (1 / DUTY - 1)
        return timing

    @contextlib.contextmanager
    def _real_time(self):  # type: ignore[no-untyped-def]
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(self._priority))
        except (AttributeError, PermissionError):
            yield
            return
        try:
            yield
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _elapsed(run: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def _samples(run: Callable[[], object], once: float, begun: float) -> Timing:
    repeats = max(1, min(round(0.0008 / once), 400))
    switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    taken: list[float] = []
    while len(taken) < 11 and (len(taken) < 3 or time.perf_counter() - begun + repeats * once < BURST_SECONDS):
        taken.append(_elapsed(run, repeats))
    interrupted = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - switches
    taken.sort()
    return Timing(taken[0], taken[len(taken) // 2], len(taken), interrupted)
