"""How long this process waits for a core: what tells a busy machine from a slow program. No torch here."""

from __future__ import annotations

from pathlib import Path

QUIET = 0.1
"""A timing is quiet while its threads wait for a core less than this share of it."""


def waited_seconds() -> float:
    """Seconds that the threads of this process were ready to run but had no core, since its start; grows.

    Linux: the second figure of /proc/self/task/*/schedstat. Elsewhere always 0: the control and the spread must tell.
    A parallel operation whose second thread waits takes a scheduler's slice (some ms) instead of microseconds,
    steadily: without this figure such a ratio looks calm and is wrong.
    """
    total = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[1])
        except (OSError, IndexError, ValueError):  # a thread that just ended
            continue
    return total / 1e9
