"""Lists, dicts and tables: methods that change them, and module-level tables of layers such as `ACT2FN`."""

from __future__ import annotations

import ast

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.graph import Graph
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.stores import Stores
from kernelwright.analyzers.frontends.torch.values import LayerValue, TableValue, Value

CHANGING = frozenset(
    {
        "append", "extend", "insert", "update", "pop", "remove", "clear", "add", "discard", "setdefault", "popitem",
        "appendleft", "popleft", "sort", "reverse",
    }
)  # fmt: skip
"""Methods that change the list, dict or set they are called on."""
_TENSOR_METHODS = frozenset({"add", "sort", "remove", "reverse"})
"""Of those the names that tensors and others have with another meaning: they count only where a list is known."""


class Containers(Stores):
    """Adds what changes a container."""

    def container_changed(self, receiver: Node, name: str, arguments: tuple[Value, ...]) -> Node:
        """The result of a method that changes a list, dict or set; the receiver holds another value afterwards."""
        inputs = [self.node_of(value) for value in arguments]
        if is_list(self.graph, receiver) and len(inputs) == 1 and name in ("append", "extend"):
            added = self.graph.tuple(*inputs) if name == "append" else inputs[0]
            changed = self.graph.binary("add", receiver, added) if name == "append" else self._joined(receiver, added)
            self.replaced(receiver, changed, is_list=True)
            return self.graph.none
        result = self.graph.node("call", receiver, *inputs, target=f"Tensor.{name}", keywords=())
        changed = self.graph.node("call", result, receiver, target=f"after.{name}", keywords=())
        self.replaced(receiver, changed, is_list=is_list(self.graph, receiver))
        return result

    def _joined(self, receiver: Node, added: Node) -> Node:
        if receiver.operation == added.operation == "tuple":
            return self.graph.tuple(*receiver.inputs, *added.inputs)
        return self.graph.node("join", receiver, added)

    def table_method(self, table: TableValue, name: str, e: ast.Call) -> Value | None:
        """`d.get(k)`, `d.pop(k, default)`, `d.items()` of a dict whose entries are known, or None for anything else."""
        if name in ("keys", "values", "items") and not e.args and not e.keywords:
            keys: list[Value] = [self._key(k) for k in table.entries]
            values = list(table.entries.values())
            if name == "items":
                return self.sequence([self.sequence(pair) for pair in zip(keys, values, strict=True)])
            return self.sequence(keys if name == "keys" else values)
        if name not in ("get", "pop") or e.keywords or len(e.args) not in (1, 2) or isinstance(e.args[0], ast.Starred):
            return None
        if not isinstance(e.args[0], ast.Constant) or (name == "pop" and len(e.args) == 1):
            return None
        key = e.args[0].value
        default = self.evaluate(e.args[1]) if len(e.args) == 2 else self.graph.none
        if key not in table.entries:
            return default
        if name == "pop":
            rest = TableValue({k: v for k, v in table.entries.items() if k != key})
            self.table_replaced(table, rest)
        return table.entries[key]

    def _key(self, key: object) -> Node:
        return self.graph.constant(key if isinstance(key, bool | int | float | str) else None)

    def table_entry(self, table: Node, key: ast.expr) -> Value | None:
        """An entry of a module-level table of layers or functions, or None where `table` is none that can be read."""
        if table.operation != "global":
            return None
        name = str(table.attribute("name"))
        found = _table(self.scope, name)
        if found is None:
            return None
        scope, entries, makes_instances = found
        asked = self.node_of(self.evaluate(key))
        if asked.operation == "constant":
            for k, v in zip(entries.keys, entries.values, strict=True):
                if isinstance(k, ast.Constant) and k.value == asked.attribute("value"):
                    return self._entry(scope, v, makes_instances)
            return None
        # One of the table's layers: which one is known at run time only.
        return LayerValue("", f"{name.rpartition('.')[2]}[...]") if makes_instances else None

    def _entry(self, scope: Scope, e: ast.expr, makes_instance: bool) -> Value | None:
        own, self.scope = self.scope, scope
        try:
            keywords: tuple[tuple[str, Value], ...] = ()
            made, given = e.elts if isinstance(e, ast.Tuple) and len(e.elts) == 2 else (e, None)
            if makes_instance and isinstance(given, ast.Dict):
                keywords = tuple(
                    (str(k.value), self.evaluate(v))
                    for k, v in zip(given.keys, given.values, strict=True)
                    if isinstance(k, ast.Constant)
                )
            value = self.evaluate(made if makes_instance else e)
            return self.invoke(value, (), keywords) if makes_instance else value
        finally:
            self.scope = own


def _table(scope: Scope, name: str) -> tuple[Scope, ast.Dict, bool] | None:
    """The dict behind a name of a module, and whether looking something up makes an instance of it."""
    if name not in scope.source.module_values:
        found = scope.elsewhere(name) if "." in name else None
        if found is None:
            return None
        scope, name = found
    value = scope.source.module_values.get(name)
    if isinstance(value, ast.Dict):
        return scope, value, False
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and len(value.args) == 1:
        inner = value.args[0]
        entries = scope.source.module_values.get(inner.id) if isinstance(inner, ast.Name) else inner
        class_node = scope.source.classes.get(value.func.id)
        makes = class_node is not None and any(
            isinstance(s, ast.FunctionDef) and s.name == "__getitem__" for s in class_node.body
        )
        if isinstance(entries, ast.Dict) and makes:
            return scope, entries, True
    return None


def is_list(graph: Graph, node: Node, depth: int = 8) -> bool:
    """True for a list or tuple, whichever way the code took and whatever a loop made of it."""
    if depth == 0:
        return False
    if node.operation in ("tuple", "join"):
        return True
    if node.operation == "choose":
        return all(is_list(graph, arm, depth - 1) for arm in node.inputs[1:])
    if node.operation == "carried":
        return is_list(graph, node.inputs[0], depth - 1)
    if node.operation == "loop":
        names, conditions = node.attribute("names"), node.attribute("conditions")
        if isinstance(names, tuple) and isinstance(conditions, int):
            return is_list(graph, node.inputs[conditions], depth - 1)
    return False


def changes(graph: Graph, receiver: Node, name: str) -> bool:
    """True where calling the method changes the receiver, a list, dict or set."""
    return name in CHANGING and (name not in _TENSOR_METHODS or is_list(graph, receiver))
