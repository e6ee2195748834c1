"""The machine that compiled kernels belong to: code for one CPU may be illegal instructions on another."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path


@cache
def machine() -> str:
    """A fingerprint of CPU model, instruction set and system: 16 hexadecimal digits."""
    described = (_cpu(), platform.machine(), platform.system())
    return hashlib.sha256(repr(described).encode()).hexdigest()[:16]


def _cpu() -> tuple[str, ...]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return (platform.processor(),)
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    model = named.get("model name") or named.get("CPU part", "")
    return (model, *sorted((named.get("flags") or named.get("Features") or "").split()))
