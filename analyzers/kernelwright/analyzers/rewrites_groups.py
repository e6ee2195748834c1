"""Rewrites of heads that several queries share: keys and values repeated head by head, in any spelling, are one operation."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.normalise import NormalForm, rewrite
from kernelwright.analyzers.rewrites_arithmetic import number

HEADS = -3
"""The axis of the heads, counted from the end."""


@rewrite("repeat_interleave")
def repeated_axis_from_the_end(f: NormalForm, n: Node) -> Node | None:
    """repeat_interleave along axis 1 of four is along -3"""
    dim, rank = n.attribute("dim"), f.rank(n.inputs[0])
    if isinstance(dim, int) and dim >= 0 and rank is not None:
        return f.build("repeat_interleave", *n.inputs, dim=dim - rank)
    return None


@rewrite("reshape")
def expanded_axis_joined_is_repetition(f: NormalForm, n: Node) -> Node | None:
    """x[:, :, None].expand(b, h, r, l, d).reshape(b, h * r, l, d) = repeat_interleave(x, r, 1)"""
    expanded, *sizes = n.inputs
    if expanded.operation != "expand" or expanded.inputs[0].operation != "unsqueeze":
        return None
    added, *extents = expanded.inputs
    x, dim = added.inputs[0], added.attribute("dim")
    rank = f.rank(x)
    if rank is None or not isinstance(dim, int) or len(extents) != rank + 1 or len(sizes) != rank:
        return None
    place = dim if dim >= 0 else dim + rank + 1
    if place == 0:
        return None
    count = extents[place]
    kept = [*extents[:place], *extents[place + 1 :]]
    if number(count) == -1 or not all(_is_extent(f, x, axis - rank, extent) for axis, extent in enumerate(kept)):
        return None
    if sum(number(size) == -1 for size in sizes) > 1:
        return None
    for axis, size in enumerate(sizes):
        own = f.build("size", x, dim=axis - rank)
        wanted = f.build("mul", own, count) if axis == place - 1 else own
        if size is not wanted and number(size) != -1:
            return None
    return f.build("repeat_interleave", x, count, dim=place - 1 - rank)


def _is_extent(f: NormalForm, x: Node, dim: int, extent: Node) -> bool:
    return number(extent) == -1 or extent is f.build("size", x, dim=dim)


@rewrite("choose")
def repeated_once_is_not_repeated(f: NormalForm, n: Node) -> Node | None:
    """x if r == 1 else repeat_interleave(x, r) = repeat_interleave(x, r)"""
    condition, plain, repeated = n.inputs
    if repeated.operation != "repeat_interleave" or repeated.inputs[0] is not plain:
        return None
    if (
        condition.operation == "equal"
        and condition.inputs[0] is repeated.inputs[1]
        and number(condition.inputs[1]) == 1
    ):
        return repeated
    return None


@rewrite("permute")
def repetition_moves_outward(f: NormalForm, n: Node) -> Node | None:
    """permute(repeat_interleave(x)) = repeat_interleave(permute(x)) along the axis where it went"""
    inner, dims = n.inputs[0], n.attribute("dims")
    if inner.operation != "repeat_interleave" or not isinstance(dims, tuple) or n.attribute("full") is not False:
        return None
    dim = inner.attribute("dim")
    if not isinstance(dim, int) or dim >= 0:
        return None
    moved = dims.index(dim) - len(dims) if dim in dims else dim
    x, count = inner.inputs
    return f.build("repeat_interleave", f.make("permute", (x,), n.attributes), count, dim=moved)


@rewrite("size")
def size_beside_a_repeated_axis(f: NormalForm, n: Node) -> Node | None:
    """Repeating along one axis leaves the extents of the others"""
    inner, dim = n.inputs[0], n.attribute("dim")
    repeated = inner.attribute("dim")
    if inner.operation != "repeat_interleave" or not isinstance(dim, int) or not isinstance(repeated, int):
        return None
    return f.build("size", inner.inputs[0], dim=dim) if dim < 0 and repeated < 0 and dim != repeated else None


@rewrite("matmul")
def heads_are_repeated_to_fit(f: NormalForm, n: Node) -> Node | None:
    """In a product of heads the count of repetitions is what makes the heads of both sides as many: nothing else can run.

    Only where two programs are compared (kernels are written out): a match must see the code's own count.
    """
    if not f.expands:
        return None
    fitted = []
    for operand in n.inputs:
        if operand.operation == "repeat_interleave" and operand.attribute("dim") == HEADS:
            operand = f.build("repeat_interleave", operand.inputs[0], f.constant(None), dim=HEADS)
        fitted.append(operand)
    return f.build("matmul", *fitted) if tuple(fitted) != n.inputs else None
