"""The registry of torch functions and tensor methods, and what their translations share.

The rows themselves stand in `functions_arithmetic`, `functions_layout` and `functions_network`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.dtypes import DTYPES
from kernelwright.analyzers.frontends.torch.graph import Graph, static, tensor
from kernelwright.analyzers.frontends.torch.signatures import bind
from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value

Arguments = dict[str, Value]
Build = Callable[[Graph, Arguments, tuple[Value, ...]], Node]


@dataclass(frozen=True, slots=True)
class TorchFunction:
    parameters: str
    build: Build


FUNCTIONS: dict[str, TorchFunction] = {}
METHODS: dict[str, TorchFunction] = {}


def row(names: str, parameters: str, build: Build, method: str = "") -> None:
    row = TorchFunction(parameters, build)
    for name in names.split():
        FUNCTIONS[name] = row
    for name in method.split():
        METHODS[name] = row


def one(operation: str) -> Build:
    """A function of one tensor that is one operation."""
    return lambda g, a, _: g.unary(operation, tensor(a["input"], operation))


def call_function(
    graph: Graph, name: str, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]
) -> Node:
    """Translate a call of a qualified name.

    Raises:
        NotUnderstood: the name is not in the table, or its arguments are not those of the table.
        KeyError: never; an unknown name raises NotUnderstood.
    """
    row = FUNCTIONS.get(name)
    if row is None:
        raise NotUnderstood(f"{name} is not in the table")
    bound, rest = bind(row.parameters, arguments, keywords)
    return row.build(graph, bound, rest)


def call_method(
    graph: Graph, receiver: Node, name: str, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]
) -> Node:
    """Translate a call of a tensor method (same errors as `call_function`)."""
    row = METHODS.get(name)
    if row is None:
        raise NotUnderstood(f"method {name} is not in the table")
    bound, rest = bind(row.parameters, (receiver, *arguments), keywords)
    return row.build(graph, bound, rest)


def element_type(g: Graph, value: Value) -> Node:
    """A dtype argument as a node: `dtype` or `dtype_of`.

    Raises:
        NotUnderstood: it may be anything (a device, a name from outside).
    """
    if isinstance(value, Node):
        if value.operation in ("dtype", "dtype_of", "choose"):
            return value
        if value.operation == "global":
            name = DTYPES.get(str(value.attribute("name")))
            if name is not None:
                return g.node("dtype", name=name)
    raise NotUnderstood("the element type is not known")


def flag(value: Value | None, default: bool) -> bool:
    return default if value is None else bool(static(value, "flag"))


def sizes(g: Graph, first: Value | None, rest: tuple[Value, ...]) -> tuple[Node, ...]:
    """Sizes given one by one or as one tuple; a shape of unknown length stays one operand."""
    values = ([] if first is None else [first]) + list(rest)
    if len(values) == 1 and isinstance(values[0], Node) and values[0].operation == "tuple":
        values = list(values[0].inputs)
    return tuple(tensor(value, "size") for value in values)
