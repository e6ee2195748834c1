"""Putting statements behind a guard: `if <guard>: <kernel> else: <the old statements>`, with libcst on the function's slice."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kernelwright.analyzers.layout import broken, indent_unit, indentation, line_ending, line_limit
from kernelwright.analyzers.source import SourceFile

if TYPE_CHECKING:
    pass


def wrap_in_guard(
    source: SourceFile, statements: list[ast.stmt], guard: str, result: list[str]
) -> tuple[int, int, str]:
    """The range of the statements in the file and the text that replaces it.

    libcst keeps comments, blank lines and strings over several lines as they are while the statements move one level in.
    It parses these statements only: on a whole file it costs seconds.
    """
    first, last = statements[0], statements[-1]
    assert last.end_lineno is not None
    start, end = source.starts[first.lineno - 1], source.starts[last.end_lineno]
    newline = line_ending(source)
    body = source.text[start:end]
    if newline == "\r":
        # libcst takes lone carriage returns for white space: it sees line feeds, the file gets its own back.
        return start, end, _wrapped(source, first, body.replace("\r", "\n"), guard, result, "\n").replace("\n", "\r")
    return start, end, _wrapped(source, first, body, guard, result, newline)


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
