"""Following imports by the files they name: a qualified name -> the file that defines it. Nothing is run, nothing guessed.

Answers most look-ups at once; what it cannot follow (star imports, names made at run time) is left to jedi in `resolve`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright.analyzers.source import SourceFile

MAXIMUM_HOPS = 6
"""Re-exports followed from one file to the next."""

Parse = Callable[[str], SourceFile | None]


def find_definition(path: str, name: str, roots: Sequence[str], parse: Parse) -> tuple[SourceFile, str] | None:
    """The file that defines the qualified `name` as seen from the file at `path`, and the name there; else None.

    `roots` are the folders in which absolute imports are looked for, in order.
    """
    for _ in range(MAXIMUM_HOPS):
        found = _module_of(path, name, roots)
        if found is None:
            return None
        file, attribute = found
        source = parse(str(file))
        if source is None:
            return None
        if attribute in source.ambiguous:
            return None
        if attribute in source.classes or attribute in source.module_functions or attribute in source.module_values:
            return source, attribute
        imported = source.imports.get(attribute)
        if imported is None:
            return None
        path, name = str(file), imported
    return None


def _module_of(path: str, name: str, roots: Sequence[str]) -> tuple[Path, str] | None:
    """The file of the module part of a name, and the attribute that is asked of it."""
    dots = len(name) - len(name.lstrip("."))
    parts = name.lstrip(".").split(".")
    module, attribute = parts[:-1], parts[-1]
    if dots:
        folder = Path(path).parent
        for _ in range(dots - 1):
            folder = folder.parent
        file = _file(folder, module)
        return (file, attribute) if file is not None else None
    if not module:
        return None
    for root in roots:
        file = _file(Path(root), module)
        if file is not None:
            return file, attribute
    return None


def _file(folder: Path, module: list[str]) -> Path | None:
    place = folder.joinpath(*module)
    package = place / "__init__.py"
    if module and (file := place.with_name(place.name + ".py")).is_file():
        return file
    return package if package.is_file() else None
