"""Which torch an interpreter has, told from the disk. No interpreter is started: they are not even executable here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kernelwright.server.interpreter import Interpreter, choose, site_packages, torch_of


def environment(root: Path, *packages: str, settings: str | None = "home = /nowhere\n") -> Path:
    """A made-up environment; the program in it is empty, so that running it would fail."""
    site = root / "lib" / "python3.11" / "site-packages"
    for package in packages:
        (site / package).mkdir(parents=True)
    site.mkdir(parents=True, exist_ok=True)
    (root / "bin").mkdir()
    (root / "bin" / "python").write_text("")
    if settings is not None:
        (root / "pyvenv.cfg").write_text(settings)
    return root / "bin" / "python"


@pytest.mark.parametrize(
    ("folder", "version", "pair"),
    [
        ("torch-2.13.0+cpu.dist-info", "2.13.0+cpu", (2, 13)),
        ("torch-2.6.0a0+git123.dist-info", "2.6.0a0+git123", (2, 6)),
        ("torch-1.13.1-py3.11.egg-info", "1.13.1", (1, 13)),
    ],
)
def test_version_comes_from_the_metadata(tmp_path: Path, folder: str, version: str, pair: tuple[int, int]) -> None:
    python = environment(tmp_path / "venv", folder, "torchvision-0.28.0.dist-info", "torch_geometric-2.5.0.dist-info")
    assert torch_of(str(python)) == version
    assert Interpreter((str(python),), version, "test").torch_version == pair


def test_the_version_torch_gives_itself_wins_over_the_metadata(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", "torch-2.13.0.dist-info", "torch")
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    (site / "torch" / "version.py").write_text("__version__ = '2.13.0+cu130'\ndebug = False\n")
    assert torch_of(str(python)) == "2.13.0+cu130"


def test_the_newest_of_several_counts(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", "torch-2.9.1.dist-info", "torch-2.10.0.dist-info")
    assert torch_of(str(python)) == "2.10.0"


def test_no_torch_is_none(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", "torchvision-0.28.0.dist-info")
    assert torch_of(str(python)) is None
    assert torch_of(str(tmp_path / "not there" / "python")) is None
    assert Interpreter((str(python),), None, "test").torch_version is None


def test_system_packages_are_seen_only_where_the_environment_asks_for_them(tmp_path: Path) -> None:
    base = environment(tmp_path / "base", "torch-2.7.0.dist-info", settings=None)
    alone = environment(tmp_path / "alone", settings=f"home = {base.parent}\n")
    sharing = environment(tmp_path / "sharing", settings=f"home = {base.parent}\nInclude-System-Site-Packages = true\n")
    assert torch_of(str(alone)) is None
    assert torch_of(str(sharing)) == "2.7.0"


def test_a_prefix_with_several_pythons_is_told_by_the_programs_name(tmp_path: Path) -> None:
    python = environment(tmp_path / "usr", "torch-2.7.0.dist-info", settings=None)
    other = tmp_path / "usr" / "lib" / "python3.12" / "site-packages"
    (other / "torch-2.9.0.dist-info").mkdir(parents=True)
    (python.parent / "python3.12").write_text("")
    (python.parent / "python3").symlink_to("python3.12")
    assert torch_of(str(python.parent / "python3")) == "2.9.0"
    assert site_packages(str(python.parent / "python3")) == (other,)


def test_the_setting_is_taken_as_it_is(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", "torch-2.9.0.dist-info")
    chosen = choose([str(python), "-X", "dev"], [])
    assert (chosen.command, chosen.torch, chosen.origin) == ((str(python), "-X", "dev"), "2.9.0", "setting")


def test_our_own_interpreter_is_first_where_it_has_torch(tmp_path: Path) -> None:
    environment(tmp_path / ".venv", "torch-2.9.0.dist-info")
    own = torch_of(sys.executable)
    chosen = choose([], [tmp_path], {})
    if own is None:
        assert (chosen.torch, chosen.origin) == ("2.9.0", ".venv of the workspace")
    else:
        assert (chosen.command, chosen.torch) == ((sys.executable,), own)


def test_the_workspaces_environment_is_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = environment(tmp_path / "own", settings="home = /nowhere\n")
    monkeypatch.setattr(sys, "executable", str(bare))
    python = environment(tmp_path / "w" / "venv", "torch-2.9.0.dist-info")
    active = environment(tmp_path / "active", "torch-2.8.0.dist-info")
    variables = {"VIRTUAL_ENV": str(tmp_path / "active")}
    assert choose([], [tmp_path / "w"], variables).command == (str(python),)
    assert choose([], [tmp_path], variables).command == (str(active),)
    assert choose([], [tmp_path], {}) == Interpreter((str(bare),), None, "runs Kernelwright")


def test_every_package_is_known_with_its_version(tmp_path: Path) -> None:
    folders = (
        "torch-2.13.0.dist-info",
        "flash_attn-2.8.3.post2.dist-info",
        "liger.kernel-0.8-py3.11.egg-info",
        "x-info",
    )
    python = environment(tmp_path / "venv", *folders)
    found = choose((str(python),), []).packages
    assert found == {"torch": (2, 13, 0), "flash_attn": (2, 8, 3), "liger_kernel": (0, 8, 0)}


@pytest.mark.parametrize(("torch", "build"), [("2.13.0+cpu", "cpu"), ("2.13.0", None), (None, None)])
def test_the_build_of_torch_is_told_by_its_version(torch: str | None, build: str | None) -> None:
    assert Interpreter(("python",), torch, "test").torch_build == build
