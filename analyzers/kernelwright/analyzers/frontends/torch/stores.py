"""Assignments and changes in place: what a name, an attribute or a memory holds afterwards."""

from __future__ import annotations

import ast

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.expressions import BINARY, Expressions
from kernelwright.analyzers.frontends.torch.values import ModuleValue, TableValue, Value

VIEWS = frozenset(
    {
        "transpose", "permute", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "expand", "slice", "pick", "item",
        "chunk", "split", "unbind", "detach", "contiguous", "cast",
    }
)  # fmt: skip
"""Operations whose result may share memory with their first operand."""


class Stores(Expressions):
    """Adds stores to expressions."""

    def assign(self, target: ast.expr, value: Value, statement: ast.stmt | None) -> None:
        if isinstance(target, ast.Name):
            self.frame.environment[target.id] = value
            if statement is not None and len(self.frames) == 1:
                self.assigned.setdefault(statement, {})[target.id] = value
            if target.id in self.captured and isinstance(value, Node) and len(self.frames) == 1:
                # A nested function reads the name whenever it is called.
                self.effect("opaque", value, reason="captured", text=target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, value, statement)
        elif isinstance(target, ast.Attribute):
            base = self.evaluate(target.value)
            if isinstance(base, ModuleValue) and not base.path:
                self.frame.environment[f"self.{target.attr}"] = value
            self.effect_of_store(target, value)
        elif isinstance(target, ast.Subscript):
            base = self.evaluate(target.value)
            self.effect_of_store(target, value)
            if isinstance(base, TableValue):
                base.unknown = True
            if isinstance(base, Node):
                changed = self.opaque(target, "assignment to elements", base, value)
                self.replaced(base, changed)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, self.graph.node("opaque", reason="star target", text=""), statement)

    def effect_of_store(self, target: ast.expr, value: Value) -> None:
        self.happens(self.opaque(target, "store", value))

    def unpack(self, target: ast.Tuple | ast.List, value: Value, statement: ast.stmt | None) -> None:
        count = len(target.elts)
        if any(isinstance(t, ast.Starred) for t in target.elts):
            for t in target.elts:
                self.assign(t, self.opaque(target, "star target", value), statement)
            return
        items = self.items(value)
        if items is not None and len(items) == count:
            for t, item in zip(target.elts, items, strict=True):
                self.assign(t, item, statement)
            return
        node = self.node_of(value)
        if node.operation == "shape":
            self.graph.ranks.setdefault(node.inputs[0], count)
        for i, t in enumerate(target.elts):
            self.assign(t, self.element_at(node, i), statement)

    def element_at(self, node: Node, index: int) -> Node:
        if node.operation == "shape":
            return self.graph.node("size", node.inputs[0], dim=index)
        if node.operation == "slice" and node.inputs[0].operation == "shape":
            start = node.inputs[1].attribute("value")
            offset = start if isinstance(start, int) else 0
            if offset >= 0 or index + offset < 0:
                return self.graph.node("size", node.inputs[0].inputs[0], dim=offset + index)
        return self.graph.node("item", node, index=index)

    def augmented(self, s: ast.AugAssign) -> None:
        old = self.evaluate(ast.copy_location(_loaded(s.target), s.target))
        right = self.evaluate(s.value)
        operation = BINARY.get(type(s.op))
        if operation is None or not isinstance(old, Node):
            new: Node = self.opaque(s.target, "augmented assignment", old, right)
        else:
            self.place(s.target)
            self.graph.span = self.scope.source.span(s) if self.scope.source is self.home else None
            new = self.graph.binary(operation, old, self.node_of(right))
            if len(self.frames) == 1:
                self.graph.expressions.setdefault(new, s)
        if isinstance(s.target, ast.Name):
            if isinstance(old, Node) and old.operation not in ("constant", "tuple", "size"):
                self.replaced(old, new)
            self.frame.environment[s.target.id] = new
        else:
            self.assign(s.target, new, s)

    def replaced(self, old: Node, new: Node) -> None:
        """`old` was changed in place and now holds `new`: rename it everywhere, and blur whatever shares its memory."""
        root = view_root(old)
        for frame in self.frames:
            for name, value in frame.environment.items():
                if value is old:
                    frame.environment[name] = new
                elif (
                    isinstance(value, Node)
                    and value is not new
                    and view_root(value) is root
                    and value.operation != "tuple"
                ):
                    blurred = self.graph.node("opaque", value, new, reason="changed in place", text=name)
                    frame.environment[name] = blurred
        if root.operation in ("input", "parameter", "attribute"):
            # The caller's tensor changes: that is visible outside.
            self.happens(self.graph.node("opaque", new, reason="store", text="in place"))


def view_root(node: Node) -> Node:
    while node.operation in VIEWS and node.inputs:
        node = node.inputs[0]
    return node


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target
