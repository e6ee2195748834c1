"""The Python interpreter that the user's code runs in, and the packages it has: read from disk, nothing is started.

An interpreter is a command (a path or a name on PATH, and arguments). Its site-packages follow from where it lies: a
virtual environment has a `pyvenv.cfg` one folder up, everything else has `lib/pythonX.Y` under its prefix.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A chosen interpreter: its command, and the version of the torch it would import (None: none was found).

    `packages` are all its distributions, as `packages_of` names them.
    """

    command: tuple[str, ...]
    torch: str | None
    origin: str
    packages: Mapping[str, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def torch_version(self) -> tuple[int, int] | None:
        """(major, minor) of torch, for the rules' version conditions."""
        found = _VERSION.match(self.torch or "")
        return (int(found.group(1)), int(found.group(2))) if found else None

    @property
    def torch_build(self) -> str | None:
        """The part of torch's version that names its build: `cpu`, `cu130`; None where it has none."""
        return (self.torch or "").partition("+")[2] or None

    def __str__(self) -> str:
        torch = f"torch {self.torch}" if self.torch else "without torch"
        return f"{' '.join(self.command)} ({self.origin}, {torch})"


def choose(
    setting: Sequence[str], folders: Sequence[Path], environment: Mapping[str, str] | None = None
) -> Interpreter:
    """The interpreter to use: the setting; else the first with torch among the one that runs us, the workspace's
    `.venv` or `venv`, the active virtual or conda environment; else the one that runs us.
    """
    environment = os.environ if environment is None else environment
    if setting:
        return Interpreter(tuple(setting), torch_of(setting[0]), "setting", packages_of(setting[0]))
    own = Interpreter((sys.executable,), torch_of(sys.executable), "runs Kernelwright", packages_of(sys.executable))
    if own.torch:
        return own
    candidates = [(folder / name, f"{name} of the workspace") for folder in folders for name in (".venv", "venv")]
    candidates += [
        (Path(environment[variable]), variable)
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX")
        if environment.get(variable)
    ]
    for prefix, origin in candidates:
        for program in (prefix / "bin" / "python", prefix / "Scripts" / "python.exe", prefix / "python.exe"):
            if program.exists() and (torch := torch_of(str(program))):
                return Interpreter((str(program),), torch, origin, packages_of(str(program)))
    return own


def torch_of(program: str) -> str | None:
    """The torch version in the site-packages of an interpreter, or None."""
    return next((version for site in site_packages(program) for version in _torch_in(site)), None)


def packages_of(program: str) -> dict[str, tuple[int, ...]]:
    """The distributions of an interpreter by their metadata folders: `flash_attn` -> (2, 8, 3). The first found counts."""
    found: dict[str, tuple[int, ...]] = {}
    for site in site_packages(program):
        for path in site.glob("*-info"):
            parts = _DISTRIBUTION.match(path.name)
            if parts is not None and (version := _order(parts.group(2))):
                found.setdefault(re.sub(r"[-.]+", "_", parts.group(1)).lower(), version)
    return found


def site_packages(program: str) -> tuple[Path, ...]:
    """The package folders an interpreter would search, in its order, that exist."""
    path = Path(shutil.which(program) or program).absolute()
    prefix = path.parent.parent if path.parent.name in ("bin", "Scripts") else path.parent
    settings = _venv_settings(prefix / "pyvenv.cfg")
    if settings is None:
        # Not a virtual environment's own link: /usr/bin/python3 -> python3.11 tells the version.
        real = Path(os.path.realpath(path))
        prefixes = [prefix] if real.parent.parent == prefix else [prefix, real.parent.parent]
        return tuple(site for p in prefixes for site in _site_folders(p, real.name))
    sites = list(_site_folders(prefix, ""))
    if settings.get("include-system-site-packages", "").lower() == "true" and "home" in settings:
        home = Path(settings["home"])
        sites += _site_folders(home.parent if home.name == "bin" else home, Path(os.path.realpath(path)).name)
    return tuple(sites)


def _venv_settings(path: Path) -> dict[str, str] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    pairs = (line.partition("=") for line in text.split("\n") if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _site_folders(prefix: Path, program: str) -> Iterator[Path]:
    """Package folders under a prefix; `program` (python3.11) limits them to one Python version where it names one."""
    named = re.match(r"python(\d+\.\d+)", program)
    version = named.group(1) if named else "*"
    for pattern in (
        f"local/lib/python{version}/dist-packages",
        f"lib/python{version}/site-packages",
        f"lib64/python{version}/site-packages",
        "lib/python3/dist-packages",
        "Lib/site-packages",
    ):
        yield from sorted(folder for folder in prefix.glob(pattern) if folder.is_dir())


_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_INFORMATION = re.compile(r"torch-(\d[^-]*)(?:-py[\d.]+)?\.(?:dist|egg)-info$")


_DISTRIBUTION = re.compile(r"([A-Za-z][\w.-]*?)-(\d[^-]*)(?:-py[\d.]+)?\.(?:dist|egg)-info$")

_DECLARED = re.compile(r"__version__\s*=\s*['\"]([^'\"]+)['\"]")


def _torch_in(site: Path) -> list[str]:
    """Versions of torch in one package folder, best first: `torch/version.py`, then `torch-<version>.dist-info`.

    The former is `torch.__version__` to the letter (2.13.0+cpu, where the dist-info may say 2.13.0), which keys
    records; it is read as text, and counts only beside the metadata of an installed torch.
    """
    names = (found.group(1) for path in site.glob("torch-*-info") if (found := _INFORMATION.match(path.name)))
    installed = sorted((name for name in names if _VERSION.match(name)), key=_order, reverse=True)
    try:
        declared = _DECLARED.search((site / "torch" / "version.py").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return installed
    return [declared.group(1), *installed] if declared and installed else installed


def _order(version: str) -> tuple[int, ...]:
    found = _VERSION.match(version)
    return tuple(int(part or 0) for part in found.groups()) if found else ()
