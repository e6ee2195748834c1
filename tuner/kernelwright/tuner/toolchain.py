"""Which torch an interpreter would import, read from its site-packages: nothing is run. No torch here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_TORCH = re.compile(r"torch-(\d+\.[^-]+)\.dist-info$")


def installed_torch(interpreter: Sequence[str]) -> str | None:
    """The version of torch beside `interpreter` ("2.13.0+cpu"), or None where it cannot be told without running it.

    Works for virtual environments, conda and plain prefixes (`PREFIX/bin/python`, `PREFIX/Scripts/python.exe`).
    """
    if len(interpreter) != 1:
        return None
    executable = Path(interpreter[0])
    if not executable.is_absolute():
        return None
    for folder in _site_packages(executable.parent.parent):
        for entry in folder.glob("torch-*.dist-info"):
            if found := _TORCH.match(entry.name):
                return found.group(1)
    return None


def _site_packages(prefix: Path) -> Iterator[Path]:
    yield from prefix.glob("lib/python3*/site-packages")
    yield from prefix.glob("lib64/python3*/site-packages")
    yield prefix / "Lib" / "site-packages"
