"""What a shape rule asks of its node and operands: a tensor, an extent, an axis, sizes. No torch here."""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.analyzers.architecture import Node
from kernelwright.tuner.values import ShapeError, TensorType, Unknown, Value

Rule = Callable[[Node, tuple[Value, ...]], Value]
"""The node and what is known of its operands in, what is known of its value out; raises ShapeError."""

Shape = tuple[int | None, ...]


def as_tensor(value: Value) -> TensorType:
    if not isinstance(value, TensorType):
        raise ShapeError(f"a tensor is needed, found {value!r}")
    return value


def as_extent(value: Value) -> int | None:
    if isinstance(value, Unknown):
        return None
    if not isinstance(value, int):
        raise ShapeError(f"an int is needed, found {value!r}")
    return value


def axis_of(node: Node, name: str, rank: int, *, insert: bool = False) -> int:
    value = node.attribute(name)
    if not isinstance(value, int):
        raise ShapeError(f"axis {name} is {value!r}")
    rank += insert
    if not -rank <= value < max(rank, 1):
        raise ShapeError(f"axis {value} of a tensor of {rank} axes")
    return value % max(rank, 1)


def sizes_of(operands: tuple[Value, ...]) -> Shape:
    """Sizes given one operand an axis, or as one tuple."""
    if len(operands) == 1 and isinstance(operands[0], tuple):
        operands = operands[0]
    return tuple(as_extent(operand) for operand in operands)


def dims_of(node: Node, rank: int) -> tuple[int, ...]:
    dims = node.attribute("dims")
    if dims is None or dims == ():
        return tuple(range(rank))
    listed = dims if isinstance(dims, tuple) else (dims,)
    return tuple(d % max(rank, 1) for d in listed if isinstance(d, int))


def product_of(shape: Shape) -> int | None:
    total = 1
    for extent in shape:
        if extent is None:
            return None
        total *= extent
    return total
