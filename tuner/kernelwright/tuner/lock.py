"""One measurement at a time on a machine: a lock that the system frees when its holder dies. No torch here."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: no such lock; two windows' timings may disturb each other, and the control then shows it
    fcntl = None  # type: ignore[assignment]


class LockTimeout(Exception):
    """Another process measures and does not come to an end."""


def default_path() -> Path:
    """One file a user: another user's could not be opened."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(tempfile.gettempdir()) / f"kernelwright-{user}.lock"


@contextlib.contextmanager
def machine_lock(
    path: Path | None = None,
    *,
    limit_seconds: float = 120.0,
    waiting: Callable[[str], None] = lambda message: None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Holds the machine-wide lock. A file left by a dead process is no lock: the kernel's lock counts, not the file.

    `waiting` is told once a second who is waited for; `check` is called ten times a second and may raise to cancel.

    Raises:
        LockTimeout: still held after `limit_seconds`.
    """
    file = os.open(path or default_path(), os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        begun = told = time.monotonic()
        while not _acquire(file):
            check()
            now = time.monotonic()
            if now - begun > limit_seconds:
                raise LockTimeout(
                    f"another Kernelwright process{_holder(file)} has been measuring for {limit_seconds:.0f} s: "
                    "end it or try again later"
                )
            if now - told >= 1.0 or told == begun:
                waiting(f"waiting for another Kernelwright process{_holder(file)}")
                told = now
            time.sleep(0.1)
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)  # frees the lock


def _acquire(file: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _holder(file: int) -> str:
    pid = os.pread(file, 20, 0).decode(errors="replace").strip() if hasattr(os, "pread") else ""
    return f" ({pid})" if pid.isdigit() else ""
