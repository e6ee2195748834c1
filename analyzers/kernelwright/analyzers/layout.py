"""Laying out inserted code as the code around it: indentation, line length, line endings."""

from __future__ import annotations

import ast
import io
import itertools
import tokenize

from kernelwright.analyzers.source import SourceFile

DEFAULT_LIMIT = 88
MAXIMUM_LIMIT = 120


def indentation(source: SourceFile, statement: ast.stmt) -> str:
    """The white space in front of a statement's first line."""
    line = source.lines[statement.lineno - 1]
    return line[: len(line) - len(line.lstrip(" \t\f"))].replace("\f", "")


def indent_unit(source: SourceFile) -> str:
    """One level of indentation as the file has it."""
    for line in source.lines:
        if line.startswith("\t"):
            return "\t"
        stripped = line.lstrip(" ")
        if line != stripped and stripped.strip() and not stripped.startswith("#"):
            width = len(line) - len(stripped)
            return " " * width if width in (2, 3, 4, 8) else "    "
    return "    "


def line_ending(source: SourceFile) -> str:
    """The line ending of the file's first line."""
    first = source.lines[0]
    return first[len(first.rstrip("\r\n")) :] or "\n"


def line_limit(source: SourceFile, statement: ast.stmt) -> int:
    """The line length to keep: the longest line of the file, between 88 and 120."""
    longest = max((len(line.rstrip("\r\n")) for line in source.lines), default=0)
    return min(max(longest, DEFAULT_LIMIT), MAXIMUM_LIMIT)


def comments(text: str) -> list[tuple[int, str]]:
    """The comments of a piece of Python text: offset and text of each. Empty where it cannot be read as tokens."""
    lines = list(io.StringIO(text, newline=""))
    starts = list(itertools.accumulate((len(line) for line in lines), initial=0))
    found = []
    try:
        # The tokenizer wants LF and an indentation that begins at nothing: `if 1:` opens one.
        tokens = tokenize.generate_tokens(iter(["if 1:\n", *(line.rstrip("\r\n") + "\n" for line in lines)]).__next__)
        for token in tokens:
            if token.type == tokenize.COMMENT:
                row, column = token.start
                found.append((starts[row - 2] + column, token.string))
    except (tokenize.TokenError, IndentationError, SyntaxError, StopIteration):
        pass
    return found


def fitted(source: SourceFile, start: int, end: int, text: str, limit: int) -> str:
    """`text` for `source.text[start:end]`, broken into one argument a line where the line would be too long."""
    line_start = max(source.text.rfind("\n", 0, start), source.text.rfind("\r", 0, start)) + 1
    prefix = source.text[line_start:start]
    indent = prefix[: len(prefix) - len(prefix.lstrip(" \t"))]
    if len(prefix) + len(text) <= limit or ("\n" not in source.text[start:end] and len(text) <= end - start):
        return text
    return broken(text, indent, indent_unit(source), line_ending(source), limit)


def broken(text: str, indent: str, unit: str, newline: str, limit: int) -> str:
    """A statement or expression ending in a call, its arguments on lines of their own."""
    position = _last_call(text)
    if position is None:
        return text
    opening, closing, pieces = position
    inner = indent + unit
    one = f"{inner}{', '.join(pieces)}{newline}"
    several = ""
    for piece in pieces:
        fits = len(inner) + len(piece) < limit
        several += f"{inner}{piece if fits else broken(piece, inner, unit, newline, limit - 1)},{newline}"
    body = one if len(one.rstrip()) <= limit else several
    if len(pieces) == 1 and body is several:
        # One argument, itself a call: only its arguments need lines of their own.
        return f"{text[: opening + 1]}{broken(pieces[0], indent, unit, newline, limit)}{text[closing:]}"
    return f"{text[: opening + 1]}{newline}{body}{indent}{text[closing:]}"


def _last_call(text: str) -> tuple[int, int, list[str]] | None:
    """Where the call with the longest argument list opens and closes, and its arguments as texts."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        try:
            tree = ast.parse(text.removeprefix("return "), mode="exec")
        except SyntaxError:
            return None
    shift = len(text) - len(text.removeprefix("return ")) if not _parses(text) else 0
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno == n.end_lineno == 1]
    if not calls or not text.isascii():
        return None
    call = max(calls, key=lambda c: (c.end_col_offset or 0) - (c.func.end_col_offset or 0))
    assert call.end_col_offset is not None and call.func.end_col_offset is not None
    parts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    pieces = [text[p.col_offset + shift : (p.end_col_offset or 0) + shift] for p in parts]
    return call.func.end_col_offset + shift, call.end_col_offset - 1 + shift, pieces


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
