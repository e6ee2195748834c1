"""The pinned packages of `packages.toml`, and where their files lie."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cases"))
from corpus import CACHE, CORPUS  # noqa: E402

LIST = Path(__file__).with_name("packages.toml")
FOLDER = CACHE / "ecosystem"
TESTS = frozenset({"test", "tests", "testing"})


@dataclass(frozen=True)
class Package:
    """One pinned package. `include` are globs of the files that count, none: all that mention torch. `here`: part of the
    corpus that the tests install."""

    name: str
    version: str
    sha256: str
    pip: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    here: bool = False

    @property
    def folder(self) -> Path:
        return CORPUS if self.here else FOLDER / f"{self.name}-{self.version}"

    @property
    def is_there(self) -> bool:
        return (CORPUS / ".set-up").is_file() if self.here else (self.folder / ".complete").is_file()

    def files(self) -> Iterator[Path]:
        """The Python files that count, in order: those that mention torch, without tests."""
        for path in sorted(self._listed()):
            if TESTS & set(path.relative_to(self.folder).parts[:-1]) or path.name.startswith(
                ("test_", "modeling_tf_", "modeling_flax_")
            ):
                continue
            if b"torch" in path.read_bytes():
                yield path

    def _listed(self) -> Iterator[Path]:
        if self.include:
            for pattern in self.include:
                yield from self.folder.glob(pattern)
        elif self.here:
            yield from (self.folder / self.name.replace("-", "_")).rglob("*.py")
        else:
            yield from self.folder.rglob("*.py")


def packages() -> list[Package]:
    """All packages of the list, by name."""
    table = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return [
        Package(
            name,
            row["version"],
            row["sha256"],
            tuple(row.get("pip", ("--only-binary=:all:",))),
            tuple(row.get("include", ())),
            row.get("here", False),
        )
        for name, row in sorted(table.items())
    ]
