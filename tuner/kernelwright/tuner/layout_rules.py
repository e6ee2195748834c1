"""The shape rules of layout and creation operations. No torch here."""

from __future__ import annotations

import math

from kernelwright.analyzers.architecture import Node
from kernelwright.tuner.shape_facts import Rule, Shape, as_extent, as_tensor, axis_of, dims_of, product_of, sizes_of
from kernelwright.tuner.values import ShapeError, TensorType, Unknown, Value, broadcast, dtype_name, promote


def _transpose(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    a, b = axis_of(node, "a", len(x.shape)), axis_of(node, "b", len(x.shape))
    shape = list(x.shape)
    shape[a], shape[b] = shape[b], shape[a]
    return TensorType(tuple(shape), x.dtype)


def _permute(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    dims = dims_of(node, len(x.shape))
    if sorted(dims) != list(range(len(x.shape))):
        raise ShapeError(f"{dims} does not reorder {len(x.shape)} axes")
    return TensorType(tuple(x.shape[d] for d in dims), x.dtype)


def _reshape(node: Node, o: tuple[Value, ...]) -> Value:
    x, sizes = as_tensor(o[0]), list(sizes_of(o[1:]))
    total = product_of(x.shape)
    if -1 in sizes:
        rest = product_of(tuple(s for s in sizes if s != -1))
        if total is not None and rest and total % rest:
            raise ShapeError(f"{x.shape} into {tuple(sizes)}")
        sizes[sizes.index(-1)] = None if total is None or rest is None else total // max(rest, 1)
    elif total is not None and product_of(tuple(sizes)) not in (None, total):
        raise ShapeError(f"{x.shape} into {tuple(sizes)}")
    return TensorType(tuple(sizes), x.dtype)


def _flatten(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    start, end = axis_of(node, "start", len(x.shape)), axis_of(node, "end", len(x.shape))
    return TensorType((*x.shape[:start], product_of(x.shape[start : end + 1]), *x.shape[end + 1 :]), x.dtype)


def _unflatten(node: Node, o: tuple[Value, ...]) -> Value:
    x, sizes = as_tensor(o[0]), sizes_of(o[1:])
    axis = axis_of(node, "dim", len(x.shape))
    if None not in sizes and x.shape[axis] not in (None, product_of(sizes)):
        raise ShapeError(f"{x.shape[axis]} into {sizes}")
    return TensorType((*x.shape[:axis], *sizes, *x.shape[axis + 1 :]), x.dtype)


def _unsqueeze(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    axis = axis_of(node, "dim", len(x.shape), insert=True)
    return TensorType((*x.shape[:axis], 1, *x.shape[axis:]), x.dtype)


def _squeeze(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    if node.attribute("dim") is None:
        return TensorType(tuple(e for e in x.shape if e != 1), x.dtype)
    axis = axis_of(node, "dim", len(x.shape))
    return TensorType(tuple(e for i, e in enumerate(x.shape) if i != axis or e != 1), x.dtype)


def _expand(node: Node, o: tuple[Value, ...]) -> Value:
    x, sizes = as_tensor(o[0]), sizes_of(o[1:])
    old = (*(1 for _ in range(len(sizes) - len(x.shape))), *x.shape)
    return TensorType(tuple(e if s == -1 else s for e, s in zip(old, sizes, strict=True)), x.dtype)


def _repeat(node: Node, o: tuple[Value, ...]) -> Value:
    x, counts = as_tensor(o[0]), sizes_of(o[1:])
    old = (*(1 for _ in range(len(counts) - len(x.shape))), *x.shape)
    return TensorType(tuple(product_of((e, c)) for e, c in zip(old, counts, strict=True)), x.dtype)


def _repeat_interleave(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    count = as_extent(o[1]) if not isinstance(o[1], TensorType) else None
    if node.attribute("dim") is None:
        return TensorType((product_of((*x.shape, count)),), x.dtype)
    axis = axis_of(node, "dim", len(x.shape))
    return TensorType((*x.shape[:axis], product_of((x.shape[axis], count)), *x.shape[axis + 1 :]), x.dtype)


def _parts(o: tuple[Value, ...]) -> list[TensorType]:
    if len(o) == 1 and isinstance(o[0], tuple):
        o = o[0]
    return [as_tensor(value) for value in o]


def _concatenate(node: Node, o: tuple[Value, ...]) -> Value:
    parts = _parts(o)
    axis = axis_of(node, "dim", len(parts[0].shape))
    extents = [p.shape[axis] for p in parts]
    total = None if None in extents else sum(e for e in extents if e is not None)
    first = parts[0].shape
    return TensorType((*first[:axis], total, *first[axis + 1 :]), promote(tuple(parts)))


def _stack(node: Node, o: tuple[Value, ...]) -> Value:
    parts = _parts(o)
    axis = axis_of(node, "dim", len(parts[0].shape), insert=True)
    first = parts[0].shape
    return TensorType((*first[:axis], len(parts), *first[axis:]), promote(tuple(parts)))


def _cut(x: TensorType, axis: int, sizes: list[int]) -> Value:
    return tuple(TensorType((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes)


def _chunk(node: Node, o: tuple[Value, ...]) -> Value:
    x, count = as_tensor(o[0]), as_extent(o[1])
    axis = axis_of(node, "dim", len(x.shape))
    extent = x.shape[axis]
    if extent is None or count is None:
        raise ShapeError("chunks of an unknown extent")
    size = max(1, -(-extent // count))
    return _cut(x, axis, [min(size, extent - at) for at in range(0, max(extent, 1), size)])


def _split(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    axis = axis_of(node, "dim", len(x.shape))
    if isinstance(o[1], tuple):
        return _cut(x, axis, [s for s in o[1] if isinstance(s, int)])
    size, extent = as_extent(o[1]), x.shape[axis]
    if extent is None or size is None:
        raise ShapeError("parts of an unknown extent")
    return _cut(x, axis, [min(size, extent - at) for at in range(0, max(extent, 1), max(size, 1))])


def _unbind(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    axis = axis_of(node, "dim", len(x.shape))
    extent = x.shape[axis]
    if extent is None:
        raise ShapeError("slices of an unknown extent")
    return tuple(TensorType((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype) for _ in range(extent))


def _slice(node: Node, o: tuple[Value, ...]) -> Value:
    bounds = (*o[1:], None, None, None)[:3]
    known = [b for b in bounds if b is None or (isinstance(b, int) and not isinstance(b, bool))]
    if isinstance(o[0], tuple) and len(known) == 3:
        return o[0][slice(*known)]
    x = as_tensor(o[0])
    axis = axis_of(node, "dim", len(x.shape))
    extent = x.shape[axis]
    size = None if extent is None or len(known) != 3 else len(range(extent)[slice(*known)])
    return TensorType((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)


def _pick(node: Node, o: tuple[Value, ...]) -> Value:
    if isinstance(o[0], tuple) and isinstance(o[1], int):
        return o[0][o[1]]
    x = as_tensor(o[0])
    axis = axis_of(node, "dim", len(x.shape))
    index = o[1].shape if isinstance(o[1], TensorType) else ()
    extent = x.shape[axis]
    if isinstance(o[1], int) and extent is not None and not -extent <= o[1] < extent:
        raise ShapeError(f"index {o[1]} of {extent}")
    return TensorType((*x.shape[:axis], *index, *x.shape[axis + 1 :]), x.dtype)


def _gather(node: Node, o: tuple[Value, ...]) -> Value:
    return TensorType(as_tensor(o[1]).shape, as_tensor(o[0]).dtype)


def _take(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    taken, shapes = 0, list[Shape]()
    for index in o[1:]:
        if isinstance(index, TensorType) and index.dtype == "bool":
            taken += len(index.shape)
            shapes.append((None,))
        elif isinstance(index, TensorType):
            taken += 1
            shapes.append(index.shape)
        elif isinstance(index, int | Unknown):
            taken += 1
        else:
            raise ShapeError(f"index {index!r}")
    return TensorType((*broadcast(*shapes), *x.shape[taken:]), x.dtype)


def _creation_dtype(node: Node, values: tuple[Value, ...]) -> str:
    name = node.attribute("dtype")
    return dtype_name(name) if isinstance(name, str) else promote(values)


def _full(node: Node, o: tuple[Value, ...]) -> Value:
    return TensorType(sizes_of(o[1:]), _creation_dtype(node, o[:1]))


def _arange(node: Node, o: tuple[Value, ...]) -> Value:
    start, stop, step = (0 if o[0] is None else o[0]), o[1], (1 if o[2] is None else o[2])
    known = [v for v in (start, stop, step) if isinstance(v, int | float)]
    count = None if len(known) < 3 else math.ceil((known[1] - known[0]) / known[2])
    return TensorType((count,), _creation_dtype(node, (start, stop, step)))


LAYOUT_RULES: dict[str, Rule] = {
    "transpose": _transpose,
    "permute": _permute,
    "reshape": _reshape,
    "flatten": _flatten,
    "unflatten": _unflatten,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "expand_as": lambda node, o: TensorType(as_tensor(o[1]).shape, as_tensor(o[0]).dtype),
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
    "concatenate": _concatenate,
    "stack": _stack,
    "chunk": _chunk,
    "split": _split,
    "unbind": _unbind,
    "slice": _slice,
    "pick": _pick,
    "gather": _gather,
    "take": _take,
    "full": _full,
    "arange": _arange,
}
