"""How a file spells torch's modules, and the edit that imports one it does not have yet."""

from __future__ import annotations

import ast
from collections.abc import Callable

from kernelwright.analyzers.opportunity import TextEdit
from kernelwright.analyzers.source import SourceFile
from kernelwright.analyzers.syntax_tree import walk

_NEEDED = {"F": "torch.nn.functional", "torch": "torch", "math": "math"}


def module_spelling(source: SourceFile, template: ast.expr) -> tuple[Callable[[str], str], tuple[TextEdit, ...]]:
    """A function from qualified module name to its spelling in the file, and the import edits it relies on.

    An alias the file has is used; else a longer name through a parent it has (`nn.functional`); else an import is added.
    """
    needed = {_NEEDED[n.id] for n in walk(template) if isinstance(n, ast.Name) and n.id in _NEEDED}
    spellings: dict[str, str] = {}
    missing: list[str] = []
    for module in sorted(needed):
        spelled = _existing(source, module)
        if spelled is None:
            missing.append(module)
            spelled = "F" if module == "torch.nn.functional" and not _is_read(source, "F") else module
        spellings[module] = spelled
    edits = tuple(_import_edit(source, module, spellings[module]) for module in missing)

    def spelling(module: str) -> str:
        return spellings.get(module) or _existing(source, module) or module

    return spelling, edits


def _existing(source: SourceFile, module: str) -> str | None:
    head, dots, tail = module, "", ""
    while True:
        for alias, target in source.imports.items():
            # A name that is bound again, or imported under a condition, may not be what it should be.
            if target == head and alias in source.sure_imports and alias not in source.inventory.bound_names:
                return alias + dots + tail
        if "." not in head:
            return None
        head, _, last = head.rpartition(".")
        tail = last + dots + tail if tail else last
        dots = "."


def _is_read(source: SourceFile, name: str) -> bool:
    """True where the name is taken already."""
    if name in source.imports or name in source.inventory.bound_names:
        return True
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(source.tree))


def _import_edit(source: SourceFile, module: str, spelled: str) -> TextEdit:
    text = f"import {module} as {spelled}" if spelled != module else f"import {module}"
    last: ast.stmt | None = None
    for statement in source.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            last = statement
        elif last is None and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            last = statement  # the docstring: imports go below it
        elif not isinstance(statement, ast.If | ast.Try):
            break
    ending = next((line[len(line.rstrip("\r\n")) :] for line in source.lines if line.rstrip("\r\n") != line), "\n")
    if last is None:
        offset = source.prefix
        return TextEdit(offset, offset, f"{text}{ending}")
    assert last.end_lineno is not None
    offset = source.starts[last.end_lineno]
    blank = ending if isinstance(last, ast.Expr) else ""
    return TextEdit(offset, offset, f"{blank}{text}{ending}")
