"""Suppression comments: `# kernelwright: ignore` and `# kernelwright: ignore[rule, rule]`.

At the end of a line it holds for findings that touch the line; alone above a statement, for all of that statement (a whole
function or class too); alone before the first statement of a file, for the file.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Span
from kernelwright.analyzers.layout import comments
from kernelwright.analyzers.opportunity import Opportunity, TextEdit
from kernelwright.analyzers.source import SourceFile, blocks_of

_COMMENT = re.compile(r"#\s*kernelwright:\s*ignore(?:\[([\w\s,-]*)\])?")


@dataclass(frozen=True, slots=True)
class Suppression:
    """Lines (both included) in which findings are silenced; `rules` names them, None is every rule."""

    first: int
    last: int
    rules: frozenset[str] | None

    def silences(self, rule: str, span: Span) -> bool:
        named = self.rules is None or rule in self.rules
        return named and span.start_line <= self.last and span.end_line >= self.first


def suppressions(source: SourceFile) -> tuple[Suppression, ...]:
    """The suppressions of a file."""
    if "kernelwright:" not in source.text:
        return ()
    starts = _statement_lines(source.tree.body)
    top = min(starts, default=1)
    if source.tree.body and ast.get_docstring(source.tree, clean=False) is not None:
        top = source.tree.body[1].lineno if len(source.tree.body) > 1 else len(source.lines) + 1
    found = []
    for offset, text in comments(source.text):
        match = _COMMENT.search(text)
        if match is None:
            continue
        names = match.group(1)
        rules = frozenset(name.strip() for name in names.split(",") if name.strip()) if names is not None else None
        line = source.text.count("\n", 0, offset) + 1 if "\r" not in source.text else _line_of(source, offset)
        alone = not source.lines[line - 1][: offset - source.starts[line - 1]].strip()
        if not alone:
            found.append(Suppression(line, line, rules))
        elif line < top:
            found.append(Suppression(1, len(source.lines), rules))
        else:
            below = min((first for first in starts if first > line), default=None)
            if below is not None:
                found.append(Suppression(below, starts[below], rules))
    return tuple(found)


def _line_of(source: SourceFile, offset: int) -> int:
    return next(i for i, start in enumerate(source.starts) if start > offset)


def _statement_lines(body: list[ast.stmt]) -> dict[int, int]:
    """First line -> last line of every statement; decorators belong to what they decorate."""
    lines: dict[int, int] = {}
    for statement in body:
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(d.lineno for d in decorators)])
        lines[first] = max(lines.get(first, 0), statement.end_lineno or statement.lineno)
        blocks = blocks_of(statement)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            blocks = [statement.body]
        for block in blocks:
            for start, end in _statement_lines(block).items():
                lines[start] = max(lines.get(start, 0), end)
    return lines


def suppression_edit(source: SourceFile, opportunity: Opportunity) -> TextEdit:
    """The edit that silences a finding: a comment at the end of its first line, or one more rule in the one that is there."""
    line = source.lines[opportunity.span.start_line - 1]
    start = source.starts[opportunity.span.start_line - 1]
    there = _COMMENT.search(line)
    if there is not None and there.group(1) is not None:
        end = start + there.end() - 1
        return TextEdit(end, end, f", {opportunity.rule}")
    end = start + len(line.rstrip("\r\n").rstrip())
    return TextEdit(end, end, f"  # kernelwright: ignore[{opportunity.rule}]")
