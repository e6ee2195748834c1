"""How busy others keep this machine: the load average less what this process and its helpers add to it. Linux and macOS."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path

AVERAGED_SECONDS = 60.0
"""Time constant of the operating system's first load average, an exponentially damped one."""

_SELF = 0
"""Stands for this process among process ids."""


class OwnLoad:
    """Damps our own use of the CPU as the system damps the load; call `others` every some seconds.

    Work of ours that waits for a core because others have it counts as theirs: it is not in our CPU time.
    """

    def __init__(self) -> None:
        self._own = 0.0
        self._at = time.monotonic()
        self._cpu = {_SELF: _own_cpu_seconds()}

    def others(self, helpers: Iterable[int]) -> float:
        """The load average without this process and `helpers` (process ids, with the children they have waited for)."""
        now, cpu = time.monotonic(), {pid: _cpu_seconds(pid) for pid in helpers}
        cpu[_SELF] = _own_cpu_seconds()
        used = sum(max(0.0, seconds - self._cpu.get(pid, 0.0)) for pid, seconds in cpu.items())
        self._own = damped(self._own, used, max(now - self._at, 1e-3))
        self._at, self._cpu = now, cpu
        try:
            average = os.getloadavg()[0]
        except (OSError, AttributeError):  # Windows has none
            return 0.0
        return max(0.0, average - self._own)


class OrdinaryUse:
    """How many cores processes of ordinary priority kept busy; niced ones, such as our own, are not counted. Linux."""

    def __init__(self) -> None:
        self._at, self._seconds = time.monotonic(), _ordinary_seconds()

    def cores(self) -> float:
        """Since the last call, or since this was made; 0 where it cannot be told."""
        now, seconds = time.monotonic(), _ordinary_seconds()
        used = (seconds - self._seconds) / max(now - self._at, 1e-3)
        self._at, self._seconds = now, seconds
        return max(0.0, used)


def _ordinary_seconds() -> float:
    """User and system time of all cores since the start, without that of niced processes."""
    try:
        user, _, system = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return 0.0


def damped(average: float, used: float, passed: float) -> float:
    """A load average `passed` seconds later, in which `used` CPU seconds were worked."""
    kept = math.exp(-passed / AVERAGED_SECONDS)
    return average * kept + used / passed * (1.0 - kept)


def _own_cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and the children it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0
