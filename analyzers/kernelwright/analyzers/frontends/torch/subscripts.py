"""`x[...]` on a tensor, a shape or a tuple -> `slice`, `pick`, `unsqueeze`, `take`."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.graph import Graph
from kernelwright.analyzers.frontends.torch.values import NotUnderstood


def subscript(graph: Graph, base: Node, index: list[Node | slice]) -> Node:
    """The indexing, one axis after the other.

    Raises:
        NotUnderstood: two ellipses.
    """
    if base.operation == "shape" and len(index) == 1 and isinstance(index[0], Node):
        number = index[0].attribute("value")
        if index[0].operation == "constant" and isinstance(number, int):
            return graph.node("size", base.inputs[0], dim=number)
    if base.operation == "tuple" and len(index) == 1 and isinstance(index[0], slice):
        bounds = [
            None if b is None else b.attribute("value", "?") for b in (index[0].start, index[0].stop, index[0].step)
        ]
        if all(b is None or isinstance(b, int) for b in bounds):
            return graph.tuple(*base.inputs[slice(*bounds)])
    ellipses = [i for i, part in enumerate(index) if _is_ellipsis(part)]
    if len(ellipses) > 1:
        raise NotUnderstood("index with two ellipses")
    if any(isinstance(part, Node) and not _is_simple(part) for part in index):
        flat = [p if isinstance(p, Node) else _slice(graph, p) for p in index]
        return graph.node("take", base, *flat)
    value = base
    front = index[: ellipses[0]] if ellipses else index
    back = index[ellipses[0] + 1 :] if ellipses else []
    axis = 0
    for part in front:
        value, axis = _apply(graph, value, part, axis, forward=True)
    axis = -1
    for part in reversed(back):
        value, axis = _apply(graph, value, part, axis, forward=False)
    return value


def _is_ellipsis(part: Node | slice) -> bool:
    return isinstance(part, Node) and part.operation == "global" and part.attribute("name") == "Ellipsis"


def _is_simple(part: Node) -> bool:
    """An axis index or a new axis: constants, sizes and arithmetic on them; a tensor is not."""
    if part.operation in ("constant", "size", "number") or _is_ellipsis(part):
        return True
    if part.operation in ("add", "sub", "neg", "mul", "floordiv"):
        return all(_is_simple(operand) for operand in part.inputs)
    return False


def _apply(graph: Graph, value: Node, part: Node | slice, axis: int, *, forward: bool) -> tuple[Node, int]:
    """Apply one index to `axis`; return the value and the axis for the next index (counted from the other end)."""
    step = 1 if forward else -1
    if isinstance(part, slice):
        if part.start is None and part.stop is None and part.step is None:
            return value, axis + step
        bounds = (b if b is not None else graph.none for b in (part.start, part.stop, part.step))
        return graph.node("slice", value, *bounds, dim=axis), axis + step
    if part.operation == "constant" and part.attribute("value") is None:
        return graph.node("unsqueeze", value, dim=axis), axis + step
    # The axis goes away: the next index from the front meets the same number; from the back too.
    return graph.node("pick", value, part, dim=axis), axis


def _slice(graph: Graph, part: slice) -> Node:
    bounds = (b if b is not None else graph.none for b in (part.start, part.stop, part.step))
    return graph.node("call", *bounds, target="builtins.slice", keywords=())
