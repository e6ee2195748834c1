"""What finders that look at syntax trees share: where a node stands, and edits of a call's keyword arguments."""

from __future__ import annotations

import ast

from kernelwright.analyzers.layout import line_ending
from kernelwright.analyzers.opportunity import TextEdit
from kernelwright.analyzers.source import Function, SourceFile
from kernelwright.analyzers.syntax_tree import walk


def enclosing_function(source: SourceFile, node: ast.AST) -> Function | None:
    """The function of the file that a node stands in; None at module level."""
    line = getattr(node, "lineno", 0)
    around = [f for f in source.functions if f.node.lineno <= line <= (f.node.end_lineno or 0)]
    return max(around, key=lambda f: f.node.lineno, default=None)


def qualified_name_around(source: SourceFile, node: ast.AST) -> str:
    """The dotted name of the function a node stands in; empty at module level."""
    function = enclosing_function(source, node)
    return function.qualified_name if function is not None else ""


def keyword_of(call: ast.Call, name: str) -> ast.keyword | None:
    return next((k for k in call.keywords if k.arg == name), None)


def passes_unknown_keywords(call: ast.Call) -> bool:
    """True for a call with `**something`: an argument added to it may be there already."""
    return any(k.arg is None for k in call.keywords)


def constant_of(node: ast.expr | None) -> object:
    """The value of a literal, else the syntax node itself (which equals no literal)."""
    return node.value if isinstance(node, ast.Constant) else node


def added_keyword(source: SourceFile, call: ast.Call, text: str) -> TextEdit:
    """`text` (`name=value`) as the last argument of the call, on a line of its own where the others are."""
    given = [*call.args, *(k.value for k in call.keywords)]
    closing = source.end(call) - 1
    if not given:
        return TextEdit(closing, closing, text)
    last = max(given, key=source.end)
    place = _past_parentheses(source.text, source.end(last), closing)
    first = next((k for k in call.keywords if k.value is last), last)
    line_start = source.starts[first.lineno - 1]
    indent = source.text[line_start : line_start + source.column(first.lineno, first.col_offset)]
    own_line = not indent.strip() and first.lineno > call.lineno
    separator = f",{line_ending(source)}{indent}" if own_line else ", "
    return TextEdit(place, place, separator + text)


def _past_parentheses(text: str, start: int, closing: int) -> int:
    """Just past the last parenthesis that closes around the last argument itself."""
    place, position = start, start
    while position < closing:
        if text[position] == "#":
            position = text.find("\n", position)
            continue
        if text[position] == ")":
            place = position + 1
        position += 1
    return place


def removed_keyword(source: SourceFile, call: ast.Call, name: str) -> TextEdit | None:
    """The edit that takes a keyword argument away with its comma; None where the layout leaves no safe way."""
    keyword = keyword_of(call, name)
    if keyword is None:
        return None
    start = source.starts[keyword.lineno - 1] + source.column(keyword.lineno, keyword.col_offset)
    end = source.end(keyword.value)
    text = source.text
    head = text[:start].rstrip()
    if head.endswith(","):
        return TextEdit(len(head) - 1, end, "")
    tail = text[end : source.end(call)]
    rest = tail.lstrip(" ")
    if rest.startswith(","):
        end += len(tail) - len(rest) + 1
        end += len(text[end:]) - len(text[end:].lstrip(" "))
        return TextEdit(start, end, "")
    return TextEdit(start, end, "") if rest.startswith(")") and head.endswith("(") else None


def calls_in(tree: ast.AST) -> list[ast.Call]:
    """All calls under a node, in source order."""
    found = [n for n in walk(tree) if isinstance(n, ast.Call)]
    return sorted(found, key=lambda c: (c.lineno, c.col_offset))


def names_read(node: ast.AST) -> set[str]:
    return {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def names_bound(node: ast.AST) -> set[str]:
    return {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)}


def root_name(node: ast.expr) -> str | None:
    """The name at the start of `a.b[c].d`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
