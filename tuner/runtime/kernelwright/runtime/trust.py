"""Which built libraries are ours: their hashes are listed in the user's state folder, never in the workspace.

A workspace comes from anywhere; a library in it that was not built here by this user is never loaded.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path


def trust_file() -> Path:
    """`$XDG_STATE_HOME/kernelwright/built-libraries.txt`, or the platform's place for a program's state."""
    if state := os.environ.get("XDG_STATE_HOME"):
        root = Path(state)
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        root = Path.home() / ".local" / "state"
    return root / "kernelwright" / "built-libraries.txt"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def trusted() -> frozenset[str]:
    """The hashes of the libraries built here; none where the list could be written by others."""
    path = trust_file()
    try:
        if hasattr(os, "getuid"):
            status = path.stat()
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                return frozenset()
        return frozenset(line.split()[0] for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except OSError:
        return frozenset()


def trust(library: Path) -> str:
    """List a library that was built here; its hash."""
    found = digest(library.read_bytes())
    path = trust_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if found not in trusted():
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(f"{found}  {library.name}\n")
    return found
