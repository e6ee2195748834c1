"""Putting statements behind a guard: `if <guard>: <kernel> else: <the old statements>`, with libcst on the function's slice."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from kernelwright.analyzers.kernel_call import NoEdit
from kernelwright.analyzers.layout import broken, indent_unit, indentation, line_ending, line_limit
from kernelwright.analyzers.source import SourceFile


@dataclass(frozen=True)
class GuardedRange:
    """The statements `block[first..last]` that a guard takes the place of.

    With `later`, the guard comes in front of `block[later]`: of the statements before it, those in `makers` move behind the
    guard and the others stay in front of it.
    """

    block: list[ast.stmt]
    first: int
    last: int
    later: int | None = None
    makers: frozenset[ast.stmt] = frozenset()

    @property
    def place(self) -> ast.stmt:
        """The statement whose names the guard and the kernel call can use."""
        return self.block[self.first if self.later is None else self.later]

    @property
    def moved(self) -> list[ast.stmt]:
        """What goes behind the guard."""
        statements = self.block[self.first : self.last + 1]
        return [s for s in statements if not self._stays(s)]

    @property
    def kept(self) -> list[ast.stmt]:
        """What stays in front of it."""
        return [s for s in self.block[self.first : self.last + 1] if self._stays(s)]

    def _stays(self, statement: ast.stmt) -> bool:
        if self.later is None or statement in self.makers:
            return False
        return self.block.index(statement) < self.later


def wrapped_range(
    source: SourceFile, chosen: GuardedRange, guard: str, result: list[str], anchor: str | None
) -> tuple[int, int, str]:
    """The range of the statements in the file and the text that replaces it.

    libcst keeps comments, blank lines and strings over several lines as they are while the statements move one level in.
    It parses these statements only: on a whole file it costs seconds. `anchor` is a value with the element type and device of
    those that move: statements in front of the guard that ask a moved value for these ask it.

    Raises:
        NoEdit: a statement that would stay in front reads a value that moves.
    """
    first = chosen.block[chosen.first]
    pieces = {s: _piece(source, chosen.block, s, chosen.first) for s in chosen.block[chosen.first : chosen.last + 1]}
    kept = "".join(_with_metadata_of(source, chosen, s, pieces[s], anchor) for s in chosen.kept)
    start = pieces[first][0]
    end = pieces[chosen.block[chosen.last]][1]
    newline = line_ending(source)
    body = "".join(source.text[slice(*pieces[s])] for s in chosen.moved)
    if newline == "\r":
        # libcst takes lone carriage returns for white space: it sees line feeds, the file gets its own back.
        wrapped = _wrapped(source, first, body.replace("\r", "\n"), guard, result, "\n").replace("\n", "\r")
    else:
        wrapped = _wrapped(source, first, body, guard, result, newline)
    begin, stop = pieces[chosen.place]
    blank = newline if kept and not source.text[begin:stop].split(newline)[0].strip() else ""
    return start, end, kept + blank + wrapped


def _piece(source: SourceFile, block: list[ast.stmt], statement: ast.stmt, first: int) -> tuple[int, int]:
    """The offsets of a statement's lines with the comments and blank lines above it."""
    index = block.index(statement)
    above = block[index - 1].end_lineno if index > first else statement.lineno - 1
    assert above is not None and statement.end_lineno is not None
    if index > first and block[index - 1].end_lineno == statement.lineno:
        raise NoEdit("several statements on one line")
    return source.starts[above], source.starts[statement.end_lineno]


def _with_metadata_of(
    source: SourceFile, chosen: GuardedRange, statement: ast.stmt, piece: tuple[int, int], anchor: str | None
) -> str:
    moved_names = {
        n.id
        for s in chosen.moved
        if chosen.later is not None and chosen.block.index(s) < chosen.later
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    start, end = piece
    text = source.text[start:end]
    asked = [
        n.value
        for n in ast.walk(statement)
        if isinstance(n, ast.Attribute) and n.attr in ("dtype", "device") and isinstance(n.value, ast.Name)
    ]
    for name in sorted(
        (n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id in moved_names),
        key=lambda n: -source.start(n),
    ):
        if name not in asked or anchor is None or not anchor.isidentifier():
            raise NoEdit(f"{name.id} is read among the operations that would be replaced")
        at = source.start(name) - start
        text = text[:at] + anchor + text[at + len(name.id) :]
    return text


def _wrapped(source: SourceFile, first: ast.stmt, body: str, guard: str, result: list[str], newline: str) -> str:
    import libcst as cst  # late: 0.2 s that a start of the server need not pay

    indent, unit = indentation(source, first), indent_unit(source)
    ends_with_newline = body.endswith(("\n", "\r"))
    header = f"def _():{newline}"
    module = cst.parse_module(header + body + ("" if ends_with_newline else newline))
    function = module.body[0]
    assert isinstance(function, cst.FunctionDef) and isinstance(function.body, cst.IndentedBlock)
    limit = line_limit(source, first)
    fast_path = []
    for line in result:
        fits = len(indent + unit + line) <= limit
        fast_path.append(line if fits else broken(line, "", unit, newline, limit - len(indent + unit)))
    config = cst.PartialParserConfig(default_indent=unit, default_newline=newline)
    test = guard if len(f"{indent}if {guard}:") <= limit else _broken_test(guard, unit, newline)
    fast = f"if {test}:{newline}" + "".join(
        f"{unit}{line}{newline}" for text in fast_path for line in text.split(newline)
    )
    made = cst.parse_module(fast, config).body[0]
    assert isinstance(made, cst.If)
    old = function.body.with_changes(indent=None)
    branch = made.with_changes(orelse=cst.Else(body=old))
    block = function.body.with_changes(body=[branch], indent=indent)
    module = module.with_changes(body=[function.with_changes(body=block)], default_indent=unit, default_newline=newline)
    text = module.code[len(header) :]
    if not ends_with_newline:
        text = text[: -len(newline)]
    return text


def _broken_test(guard: str, unit: str, newline: str) -> str:
    parts = guard.split(" and ")
    lines = [parts[0], *(f"and {part}" for part in parts[1:])]
    return f"({newline}" + "".join(f"{unit}{line}{newline}" for line in lines) + ")"
