"""Calls of Python's builtins in a model file."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.containers import Containers
from kernelwright.analyzers.frontends.torch.values import IterationValue, NotUnderstood, TableValue, Value

Keywords = tuple[tuple[str, Value], ...]
Arguments = tuple[Value, ...]


class Builtins(Containers):
    """One method a builtin, named `_builtin_<name>`; `Calls` looks them up."""

    def _builtin_len(self, arguments: Arguments, keywords: Keywords) -> Value:
        items = self.items(arguments[0])
        if items is not None:
            return self.graph.constant(len(items))
        return self.graph.node("call", self.node_of(arguments[0]), target="builtins.len", keywords=())

    def _builtin_float(self, arguments: Arguments, keywords: Keywords) -> Value:
        value = arguments[0] if arguments else self.graph.constant(0.0)
        if isinstance(value, Node) and value.operation == "constant":
            try:
                return self.graph.constant(float(value.attribute("value")))  # type: ignore[arg-type]
            except (TypeError, ValueError):
                pass
        return self.node_of(value)

    def _builtin_int(self, arguments: Arguments, keywords: Keywords) -> Value:
        value = self.node_of(arguments[0])
        number = value.attribute("value")
        if value.operation == "constant" and isinstance(number, int | float):
            return self.graph.constant(int(number))
        return (
            value
            if value.operation in ("size", "floordiv", "rank")
            else self.graph.node("call", value, target="builtins.int", keywords=())
        )

    def _builtin_tuple(self, arguments: Arguments, keywords: Keywords) -> Value:
        if not arguments:
            return self.graph.tuple()
        items = self.items(arguments[0])
        if items is None:
            return arguments[0]
        return self.sequence(items)

    _builtin_list = _builtin_tuple

    def _builtin_map(self, arguments: Arguments, keywords: Keywords) -> Value:
        items = self.items(arguments[1]) if len(arguments) == 2 else None
        if items is None:
            raise NotUnderstood("map over a sequence of unknown length")
        return self.graph.tuple(*(self.node_of(self.invoke(arguments[0], (item,), ())) for item in items))

    def _builtin_zip(self, arguments: Arguments, keywords: Keywords) -> Value:
        made = IterationValue("zip", arguments)
        rows = self.items(made)
        return made if rows is None else self.sequence(rows)

    def _builtin_enumerate(self, arguments: Arguments, keywords: Keywords) -> Value:
        if len(arguments) != 1 or keywords:
            raise NotUnderstood("enumerate from another start")
        made = IterationValue("enumerate", arguments)
        rows = self.items(made)
        return made if rows is None else self.sequence(rows)

    def _builtin_range(self, arguments: Arguments, keywords: Keywords) -> Value:
        bounds = [
            a.attribute("value") if isinstance(a, Node) and a.operation == "constant" else None for a in arguments
        ]
        if bounds and all(isinstance(b, int) for b in bounds):
            numbers = range(*(b for b in bounds if isinstance(b, int)))
            if len(numbers) <= 64:
                return self.graph.tuple(*(self.graph.constant(n) for n in numbers))
        return self.graph.node("call", *(self.node_of(a) for a in arguments), target="builtins.range", keywords=())

    def _builtin_isinstance(self, arguments: Arguments, keywords: Keywords) -> Value:
        value, kinds = arguments
        if isinstance(kinds, Node) and kinds.operation == "global" and kinds.attribute("name") == "torch.Tensor":
            return self.graph.node("is_tensor", self.node_of(value))
        return self.graph.node(
            "call", self.node_of(value), self.node_of(kinds), target="builtins.isinstance", keywords=()
        )

    def _builtin_hasattr(self, arguments: Arguments, keywords: Keywords) -> Value:
        return self.graph.node("call", *(self.node_of(a) for a in arguments), target="builtins.hasattr", keywords=())

    def _builtin_getattr(self, arguments: Arguments, keywords: Keywords) -> Value:
        name = arguments[1].attribute("value") if isinstance(arguments[1], Node) else None
        if isinstance(name, str) and len(arguments) == 2:
            return self.field(arguments[0], name)
        return self.graph.node("call", *(self.node_of(a) for a in arguments), target="builtins.getattr", keywords=())

    def _builtin_min(self, arguments: Arguments, keywords: Keywords) -> Value:
        return self.graph.node("call", *(self.node_of(a) for a in arguments), target="builtins.min", keywords=())

    def _builtin_max(self, arguments: Arguments, keywords: Keywords) -> Value:
        return self.graph.node("call", *(self.node_of(a) for a in arguments), target="builtins.max", keywords=())

    def _builtin_str(self, arguments: Arguments, keywords: Keywords) -> Value:
        return self.graph.node("call", *(self.node_of(a) for a in arguments), target="builtins.str", keywords=())

    def _builtin_print(self, arguments: Arguments, keywords: Keywords) -> Value:
        return self.graph.node("call", *(self.node_of(a) for a in arguments), target="builtins.print", keywords=())

    def _builtin_dict(self, arguments: Arguments, keywords: Keywords) -> Value:
        if arguments:
            raise NotUnderstood("a dict of unknown keys")
        return TableValue(dict(keywords))

    def _builtin_reversed(self, arguments: Arguments, keywords: Keywords) -> Value:
        items = self.items(arguments[0])
        return self.plain_builtin("reversed", arguments, keywords) if items is None else self.sequence(items[::-1])

    def _builtin_bool(self, arguments: Arguments, keywords: Keywords) -> Value:
        return self.graph.truth(arguments[0]) if arguments else self.graph.constant(False)

    def _builtin_abs(self, arguments: Arguments, keywords: Keywords) -> Value:
        return self.graph.unary("abs", self.node_of(arguments[0]))

    def _builtin_sum(self, arguments: Arguments, keywords: Keywords) -> Value:
        items = self.items(arguments[0])
        if items is None or len(items) > 8 or len(arguments) > 1 or keywords:
            return self.plain_builtin("sum", arguments, keywords)
        total: Node = self.graph.constant(0)
        for item in items:
            total = self.graph.binary("add", total, self.node_of(item))
        return total

    def plain_builtin(self, name: str, arguments: Arguments, keywords: Keywords) -> Value:
        """A builtin that is not looked into and changes nothing."""
        nodes = (*(self.node_of(v) for v in arguments), *(self.node_of(v) for _, v in keywords))
        return self.graph.node("call", *nodes, target=f"builtins.{name}", keywords=tuple(n for n, _ in keywords))


PLAIN_BUILTINS = frozenset(
    {
        "all", "any", "bytes", "callable", "complex", "divmod", "filter", "format", "frozenset", "hash", "id", "issubclass",
        "iter", "pow", "repr", "round", "set", "slice", "sorted", "type", "vars", "enumerate", "dict", "map", "next",
    }
)  # fmt: skip
"""Builtins that change nothing and are not looked into. (`next` moves an iterator on: no two calls are one.)"""
