"""Strides of a program's values, and with them which layout operations are free and which copy. No torch here.

Follows torch's eager rules: views keep the storage, elementwise results keep their operand's order of axes, everything
else is row-major.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelwright.analyzers.architecture import Node
from kernelwright.tuner.values import TensorType, Value

Strides = tuple[int, ...]

VIEWS = frozenset(
    [
        "transpose",
        "permute",
        "unsqueeze",
        "squeeze",
        "expand",
        "expand_as",
        "chunk",
        "split",
        "unbind",
        "slice",
        "detach",
        "item",
        "tuple",
        "choose",
        "reshape",
        "flatten",
        "unflatten",
    ]
) | {"pick", "contiguous", "cast", "dropout"}
"""Operations that may give their operand's storage; `copies` tells whether one does."""


def row_major(shape: Sequence[int | None]) -> Strides:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent or 1, 1)
    return tuple(reversed(strides))


def is_row_major(shape: Sequence[int | None], strides: Strides) -> bool:
    return all(e == 1 or s == r for e, s, r in zip(shape, strides, row_major(shape), strict=True))


def strides_of(node: Node, value: TensorType, values: Mapping[int, Value], known: Mapping[int, Strides]) -> Strides:
    """The strides of `node`'s value; `known` holds those of its tensor operands by `id(node)`."""
    default = row_major(value.shape)
    operands = [(values[id(o)], known[id(o)]) for o in node.inputs if id(o) in known]
    tensors = [(v, s) for v, s in operands if isinstance(v, TensorType)]
    if not tensors or node.operation in ("matmul", "linear", "contiguous", "concatenate", "stack", "layer_norm"):
        return default
    source, strides = tensors[0]
    rank = len(source.shape)
    if node.operation == "transpose":
        a, b = int(str(node.attribute("a"))) % rank, int(str(node.attribute("b"))) % rank
        swapped = list(strides)
        swapped[a], swapped[b] = swapped[b], swapped[a]
        return tuple(swapped)
    if node.operation == "permute":
        dims = node.attribute("dims")
        return tuple(strides[int(str(d)) % rank] for d in dims) if isinstance(dims, tuple) else default
    if node.operation in ("expand", "expand_as"):
        lead = len(value.shape) - rank
        old = (*((1,) * lead), *source.shape)
        steps = (*((0,) * lead), *strides)
        return tuple(0 if e == 1 and n != 1 else s for e, n, s in zip(old, value.shape, steps, strict=True))
    if node.operation in ("unsqueeze", "squeeze", "reshape", "flatten", "unflatten"):
        return view_strides(source.shape, strides, value.shape) or default
    if node.operation in ("slice", "detach", "dropout", "cast"):
        return strides if len(strides) == len(value.shape) else default
    if node.operation == "pick" and isinstance(axis := node.attribute("dim"), int) and rank == len(value.shape) + 1:
        return tuple(s for i, s in enumerate(strides) if i != axis % rank)
    full = [s for v, s in tensors if v.shape == value.shape]
    if full and node.operation not in ("gather", "take", "embedding", "where"):
        # a dense operand in another order of axes passes its order on
        return full[0] if _dense(value.shape, full[0]) else default
    return default


def _dense(shape: Sequence[int | None], strides: Strides) -> bool:
    step = 1
    for stride, extent in sorted((s, e or 1) for s, e in zip(strides, shape, strict=True) if e != 1):
        if stride != step:
            return False
        step *= extent
    return True


def view_strides(old: Sequence[int | None], strides: Strides, new: Sequence[int | None]) -> Strides | None:
    """The strides of a view of the shape `new`, or None where the elements must be copied (torch's computeStride)."""
    if any(extent in (None, 0) for extent in (*old, *new)):
        return None
    sizes = [e for e in old if e is not None]
    wanted = [e for e in new if e is not None]
    if not sizes:
        return (1,) * len(wanted)
    result = [0] * len(wanted)
    at = len(wanted) - 1
    base, count, viewed = strides[-1], 1, 1
    for axis in range(len(sizes) - 1, -1, -1):
        count *= sizes[axis]
        if axis == 0 or (sizes[axis - 1] != 1 and strides[axis - 1] != count * base):
            while at >= 0 and (viewed < count or wanted[at] == 1):
                result[at] = viewed * base
                viewed *= wanted[at]
                at -= 1
            if viewed != count:
                return None
            if axis > 0:
                base, count, viewed = strides[axis - 1], 1, 1
    return tuple(result) if at == -1 else None


def copies(node: Node, value: Value, values: Mapping[int, Value], known: Mapping[int, Strides]) -> bool:
    """Whether a layout operation copies its operand rather than viewing it."""
    operand = node.inputs[0] if node.inputs else None
    source = None if operand is None else values.get(id(operand))
    if operand is None or not isinstance(source, TensorType) or not isinstance(value, TensorType):
        return False
    if id(operand) not in known:
        return False
    if node.operation == "contiguous":
        return not is_row_major(source.shape, known[id(operand)])
    if node.operation in ("reshape", "flatten", "unflatten"):
        return view_strides(source.shape, known[id(operand)], value.shape) is None
    return False
