"""Is the machine busy with something else? Background work waits until it is not."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

AVERAGED_SECONDS = 60.0
"""Time constant of the operating system's first load average, an exponentially damped one."""

LIMIT_VARIABLE = "KERNELWRIGHT_LOAD_LIMIT"
"""Environment variable: the load by others above which background work waits (default: half of the cores, or 1)."""


class OwnWork:
    """Remembers when our own worker ran, to take its share out of the load average."""

    def __init__(self) -> None:
        self._runs: deque[tuple[float, float]] = deque(maxlen=256)

    def ran(self, start: float, end: float) -> None:
        """Note a run from `start` to `end`, seconds of `time.monotonic`."""
        self._runs.append((start, end))

    def share(self, now: float) -> float:
        """The part of the last minute, damped as the load average is, in which our worker ran: 0 to 1."""
        return damped_share(self._runs, now)


def damped_share(runs: Iterable[tuple[float, float]], now: float) -> float:
    """How much always-running work during `runs` adds to a load average read at `now`."""
    return sum(
        math.exp(-(now - min(end, now)) / AVERAGED_SECONDS) - math.exp(-(now - start) / AVERAGED_SECONDS)
        for start, end in runs
        if start < now
    )


def busy(own: OwnWork) -> str | None:
    """Why background work should wait now ("the machine is busy (load 3.1)", "on battery"), or None."""
    if on_battery(Path("/sys/class/power_supply")):
        return "on battery"
    try:
        average = os.getloadavg()[0]
    except (OSError, AttributeError):  # Windows has none
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    others = average - own.share(time.monotonic()) * cores
    return f"the machine is busy (load {others:.1f})" if others > limit(cores) else None


def limit(cores: int) -> float:
    """The load by others that is still let pass."""
    try:
        return float(os.environ[LIMIT_VARIABLE])
    except (KeyError, ValueError):
        return max(1.0, cores / 2)


def on_battery(supplies: Path) -> bool:
    """Linux: a battery discharges and no mains supply is online. False where nothing can be told."""
    discharging = online = False
    try:
        for supply in supplies.iterdir():
            kind = (supply / "type").read_text().strip()
            if kind == "Battery":
                discharging |= (supply / "status").read_text().strip() == "Discharging"
            elif kind == "Mains":
                online |= (supply / "online").read_text().strip() == "1"
    except OSError:
        return False
    return discharging and not online
