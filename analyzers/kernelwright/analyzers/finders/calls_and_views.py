"""What finders of faults share: the call a value is written by, and what a value is a mere view or cast of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.finders.finding import FunctionView

VIEWS = frozenset(
    {"slice", "pick", "unsqueeze", "squeeze", "expand", "expand_as", "reshape", "flatten", "unflatten", "contiguous",
     "permute", "transpose", "detach", "repeat"}
)  # fmt: skip
"""Operations that move, repeat or leave out elements, and change none."""


def own_call(view: FunctionView, node: Node) -> ast.Call | None:
    """The call that a node is the value of, where it is written in this function itself (not in one that it calls)."""
    translation = view.translation
    origin = translation.origins.get(node)
    call = translation.expressions.get(node)
    if origin is None or origin.inlined is not None or not isinstance(call, ast.Call):
        return None
    return call


def nodes_of(view: FunctionView, *operations: str) -> list[Node]:
    """The nodes of the program with these operations, in its order."""
    return [n for n in view.translation.program.nodes() if n.operation in operations]


def sources(node: Node) -> Iterator[Node]:
    """What a normal node may be at run time: the arms of its branches, past views and copies."""
    stack = [node]
    seen: set[Node] = set()
    while stack:
        inner = stack.pop()
        if inner in seen:
            continue
        seen.add(inner)
        if inner.operation == "choose":
            stack.extend(inner.inputs[1:])
        elif inner.operation in VIEWS:
            stack.append(inner.inputs[0])
        else:
            yield inner


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """The expression given for a parameter, by position or by name; None where it is not given (or may be in `*x`, `**x`)."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: position + 1]):
        return call.args[position]
    return None


def is_open(call: ast.Call) -> bool:
    """True for a call with `*x` or `**x`: it may be given more than is seen."""
    return any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


def needs_parentheses(node: ast.expr) -> bool:
    """True where an operator or an attribute in front of or behind the expression would bind to a part of it."""
    return not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
