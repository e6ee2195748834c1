"""Assignments and changes in place: what a name, an attribute or a memory holds afterwards."""

from __future__ import annotations

import ast

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.expressions import BINARY, Expressions
from kernelwright.analyzers.frontends.torch.graph import Graph
from kernelwright.analyzers.frontends.torch.values import ModuleValue, TableValue, Value

VIEWS = frozenset(
    {
        "transpose", "permute", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "expand", "slice", "pick", "item",
        "chunk", "split", "unbind", "detach", "contiguous", "cast", "dropout", "element",
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
            holder = self.node_of(base)
            self.graph.records.pop(holder, None)
            self.place(target)
            inputs = (self.node_of(value),) if isinstance(base, ModuleValue) else (self.node_of(value), holder)
            path = f"{base.path}.{target.attr}".lstrip(".") if isinstance(base, ModuleValue) else target.attr
            self.happens(self.graph.node("store", *inputs, path=path))
        elif isinstance(target, ast.Subscript):
            self.element_stored(target, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, self.graph.node("opaque", reason="star target", text=""), statement)

    def element_stored(self, target: ast.Subscript, value: Value) -> None:
        base = self.passed(target.value)
        if isinstance(base, TableValue):
            self.entry_stored(base, target, value)
            return
        if not isinstance(base, Node):
            self.happens(self.opaque(target, "store", base, value))
            return
        parts: list[Node] = []
        kinds: list[str] = []
        for index in self.indices(target.slice):
            if isinstance(index, slice):
                parts.extend(
                    bound if bound is not None else self.graph.none for bound in (index.start, index.stop, index.step)
                )
                kinds.append("slice")
            else:
                parts.append(index)
                kinds.append("part")
        self.place(target)
        changed = self.graph.node("updated", base, self.node_of(value), *parts, index=tuple(kinds))
        self.replaced(base, changed)

    def entry_stored(self, table: TableValue, target: ast.Subscript, value: Value) -> None:
        """`d[k] = v`: the names of the dict hold a new one; what else may hold the old one does not know it any more."""
        key = self.evaluate(target.slice)
        is_constant = isinstance(key, Node) and key.operation == "constant"
        if is_constant and isinstance(key, Node) and not table.unknown and isinstance(target.value, ast.Name):
            self.table_replaced(table, TableValue({**table.entries, key.attribute("value"): value}))
        else:
            self.happens(self.opaque(target, "store", key, value))
            table.unknown = True

    def table_replaced(self, old: TableValue, new: TableValue) -> None:
        """The names of a dict hold a changed one; whatever else holds the old one does not know it any more."""
        for frame in self.frames:
            for name, held in frame.environment.items():
                if held is old:
                    frame.environment[name] = new
        old.unknown = True

    def deleted(self, target: ast.expr) -> None:
        """`del` of an element or attribute: what held it is not known any more."""
        base = self.evaluate(target.value) if isinstance(target, ast.Subscript | ast.Attribute) else None
        if isinstance(base, TableValue):
            base.unknown = True
        elif isinstance(base, Node):
            self.replaced(base, self.opaque(target, "deletion", base))
        elif isinstance(base, ModuleValue) and isinstance(target, ast.Attribute):
            self.frame.environment[f"self.{target.attr}"] = self.opaque(target, "deletion")
        self.happens(self.opaque(target, "deletion"))

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
            if isinstance(old, Node) and old.operation not in ("constant", "tuple", "size", "number"):
                self.replaced(old, new, sure=not may_be_number(old))
            self.frame.environment[s.target.id] = new
        else:
            self.assign(s.target, new, s)

    def replaced(self, old: Node, new: Node, *, sure: bool = True, is_list: bool = False) -> None:
        """`old` was changed in place and now holds `new`: say so wherever it is known, and blur what shares its memory.

        Not `sure`: it may be a number, which is not changed; other names for it are unknown then. `is_list`: a list
        changed, not what it holds.
        """
        if new is not old:
            self.graph.memory[new] = old
        roots = memory_roots(self.graph, old)
        if is_list:
            roots = tuple(root for root in roots if root.operation in ("tuple", "join"))
        for frame in self.frames:
            for name, value in frame.environment.items():
                if isinstance(value, Node) and value is not new:
                    frame.environment[name] = self.after_change(value, old, new, roots, name, sure)
        for root in roots:
            if root.operation in _OUTSIDE:
                # The caller's tensor changes, or one of the module's: that is visible outside.
                self.happens(self.graph.node("store", new, root, path="in place"))
                self.attribute_changed(root, new if root is old else None)

    def after_change(self, value: Node, old: Node, new: Node, roots: tuple[Node, ...], name: str, sure: bool) -> Node:
        """A value after the change; a tuple holds what its parts are then."""
        if value is old and sure:
            return new
        if value.operation in ("constant", "size", "shape", "global", "dtype") or set(roots).isdisjoint(
            memory_roots(self.graph, value)
        ):
            return value
        is_changed_list = value in roots
        if (value.operation == "tuple" or (value.operation == "join" and sure)) and not is_changed_list:
            parts = tuple(self.after_change(part, old, new, roots, name, sure) for part in value.inputs)
            if all(part is before for part, before in zip(parts, value.inputs, strict=True)):
                return value
            return self.graph.node(value.operation, *parts)
        blurred = self.graph.node("opaque", value, new, reason="changed in place", text=name)
        self.graph.memory[blurred] = value
        return blurred

    def attribute_changed(self, root: Node, new: Node | None) -> None:
        """An attribute of `self` was changed in place: reading it later gives what it holds now."""
        path = root.attribute("path")
        if not isinstance(path, str) or "." in path or root.operation not in ("parameter", "attribute"):
            return
        for frame in self.frames:
            if frame.owner is not None and not frame.owner.path:
                blurred = new or self.graph.node("opaque", root, reason="changed in place", text=path)
                frame.environment[f"self.{path}"] = blurred


_OUTSIDE = frozenset({"input", "parameter", "attribute", "field", "global"})


def memory_roots(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The values whose memory `node` may share: what it is a view of, on whichever path and in whichever iteration."""
    known = graph.roots.get(node)
    if known is not None:
        return known
    roots: list[Node] = []
    seen: set[Node] = set()
    stack = [node]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        before = graph.memory.get(value)
        if before is not None:
            stack.append(before)
        if value.operation in VIEWS and value.inputs:
            stack.append(value.inputs[0])
        elif value.operation == "choose":
            stack.extend(value.inputs[1:])
        elif value.operation == "carried":
            stack.append(value.inputs[0])
        elif value.operation == "loop":
            names, conditions = value.attribute("names"), value.attribute("conditions")
            count = len(names) if isinstance(names, tuple) else 0
            start = conditions if isinstance(conditions, int) else 0
            stack.extend((value.inputs[start], value.inputs[start + count]))
        elif value.operation in ("tuple", "join"):
            # A list is a memory of its own, and holds those of its elements.
            roots.append(value)
            stack.extend(value.inputs)
        elif before is None:
            roots.append(value)
    graph.roots[node] = tuple(roots)
    return graph.roots[node]


def may_be_number(node: Node) -> bool:
    """True where the value may be a Python number (or a list), which `+=` gives a new value instead of changing it."""
    if node.operation in ("add", "sub", "mul", "div", "floordiv", "mod", "pow", "neg", "choose", "number"):
        return all(may_be_number(operand) for operand in node.inputs[-2:])
    return node.operation in _UNKNOWN_KIND


_UNKNOWN_KIND = frozenset(
    {
        "input", "attribute", "item", "field", "call", "element", "carried", "loop", "opaque", "constant", "size", "rank",
        "global", "join", "pick", "slice", "layer",
    }
)  # fmt: skip


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target
