"""What is known about branch conditions on the path being interpreted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.graph import Graph

_MAXIMUM_KEY = 40


def conjunction(graph: Graph, conditions: list[Node]) -> Node | None:
    """All of them, or None for no condition at all."""
    result: Node | None = None
    for condition in conditions:
        result = condition if result is None else graph.node("logical_and", result, condition)
    return result


def condition_key(node: Node, budget: list[int] | None = None) -> object:
    """A structural key for a small condition; None for one too large to compare."""
    budget = budget if budget is not None else [_MAXIMUM_KEY]
    budget[0] -= 1
    if budget[0] < 0:
        return None
    if node.operation in ("input", "opaque", "call", "layer", "item", "carried", "loop", "element"):
        return id(node)
    return (node.operation, node.attributes, tuple(condition_key(operand, budget) for operand in node.inputs))


class Facts:
    """Conditions known to hold or not to hold here, by structure. Pure ones only: they must not change in between."""

    def __init__(self) -> None:
        self._known: dict[object, bool] = {}
        self.shapes: dict[Node, tuple[Node, ...]] = {}
        """Shapes that a check has found to be so: after `if x.size() != (...): raise`."""

    def copy(self) -> Facts:
        other = Facts()
        other._known = dict(self._known)
        other.shapes = dict(self.shapes)
        return other

    def known(self, graph: Graph, condition: Node) -> Node:
        """The condition, or a constant where it is already decided."""
        if condition.operation == "constant":
            return condition
        if condition.operation == "logical_not":
            inner = self.known(graph, condition.inputs[0])
            return graph.unary("logical_not", inner) if inner.operation == "constant" else condition
        value = self._known.get(condition_key(condition))
        if value is None and condition.operation in ("logical_and", "logical_or"):
            # One operand may decide the whole.
            deciding = condition.operation == "logical_or"
            parts = [self.known(graph, operand) for operand in condition.inputs]
            known = [bool(p.attribute("value")) for p in parts if p.operation == "constant"]
            if deciding in known:
                value = deciding
            elif len(known) == len(parts):
                value = not deciding
        return condition if value is None else graph.constant(value)

    def remember(self, condition: Node, value: bool) -> None:
        if condition.operation == "logical_not":
            self.remember(condition.inputs[0], not value)
        elif condition.operation == "logical_and" and value:
            for operand in condition.inputs:
                self.remember(operand, True)
        elif condition.operation == "logical_or" and not value:
            for operand in condition.inputs:
                self.remember(operand, False)
        elif condition.operation == ("equal" if value else "not_equal"):
            compared = condition.inputs
            for one, other in (compared, compared[::-1]):
                if one.operation == "shape" and other.operation == "tuple":
                    self.shapes[one.inputs[0]] = other.inputs
        key = condition_key(condition)
        if key is not None:
            self._known[key] = value

    @contextmanager
    def assuming(self, condition: Node, value: bool) -> Iterator[None]:
        saved, shapes = dict(self._known), dict(self.shapes)
        self.remember(condition, value)
        try:
            yield
        finally:
            self._known, self.shapes = saved, shapes
