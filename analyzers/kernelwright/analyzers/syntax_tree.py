"""Walking a syntax tree many times: it is flattened once, and the walk of a node is a slice.

A third of an analysis was spent in `ast.walk`, by many who each look for something else.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

_PLACE = "_kernelwright_place"
_SHARED = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
"""Kinds of node that hold nothing, and that the parser makes once for all trees: they have no place of their own."""


def walk(node: ast.AST) -> Sequence[ast.AST]:
    """The node and all below it, parents before children and in source order, without contexts and operators.

    The tree must not be changed after the first walk.
    """
    place = node.__dict__.get(_PLACE)
    if place is None:
        nodes: list[ast.AST] = []
        _flatten(node, nodes)
        place = node.__dict__[_PLACE]
    found, start, end = place
    part: Sequence[ast.AST] = found[start:end]
    return part


def _flatten(root: ast.AST, nodes: list[ast.AST]) -> None:
    """Append the nodes below `root` and give each its place. Iterative: expressions are deeper than Python's stack."""
    stack: list[tuple[ast.AST, int]] = [(root, -1)]
    while stack:
        node, start = stack.pop()
        if start >= 0:
            node.__dict__[_PLACE] = (nodes, start, len(nodes))
            continue
        stack.append((node, len(nodes)))
        nodes.append(node)
        below: list[tuple[ast.AST, int]] = []
        for name in node._fields:
            value = node.__dict__.get(name)
            if isinstance(value, list):
                below += [(item, -1) for item in value if isinstance(item, ast.AST) and not isinstance(item, _SHARED)]
            elif isinstance(value, ast.AST) and not isinstance(value, _SHARED):
                below.append((value, -1))
        stack += reversed(below)
