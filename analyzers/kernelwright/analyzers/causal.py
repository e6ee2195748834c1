"""Recognising a causal mask: a square slice of a lower triangle of ones, kept in a buffer or made on the spot."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.values import ClassFacts
from kernelwright.analyzers.normalise import NormalForm


def is_causal_keep(form: NormalForm, keep: Node, facts: ClassFacts | None) -> bool:
    """True where `keep` (True keeps) is provably the lower triangle over a square: each row keeps its own key.

    Proven only for slices that take the first n rows and the first n columns of the triangle, with one n.
    """
    node = keep
    if node.operation == "logical_not" and node.inputs[0].operation == "equal":
        inner, zero = node.inputs[0].inputs
        if zero.attribute("value") != 0:
            return False
        node = inner
    bounds: dict[int, Node] = {}
    while node.operation in ("slice", "unsqueeze", "cast"):
        if node.operation == "slice":
            _, start, stop, step = node.inputs
            dim = node.attribute("dim")
            if not isinstance(dim, int) or not _is_none_or(start, 0) or not _is_none_or(step, 1):
                return False
            bounds[dim] = stop
        node = node.inputs[0]
    stops = list(bounds.values())
    square = not stops or (len(stops) == 2 and stops[0] is stops[1])
    if not square:
        return False
    if node.operation == "parameter" and facts is not None:
        name = str(node.attribute("path"))
        stored = facts.attributes.get(name)
        if name not in facts.buffers or not isinstance(stored, Node):
            return False
        return _is_lower_triangle(stored)
    return _is_lower_triangle(node)


def _is_none_or(node: Node, value: int) -> bool:
    return node.operation == "constant" and node.attribute("value") in (None, value)


def _is_lower_triangle(node: Node) -> bool:
    while node.operation in ("reshape", "unsqueeze", "cast", "contiguous"):
        node = node.inputs[0]
    if node.operation != "lower_triangle" or node.inputs[1].attribute("value") != 0:
        return False
    full = node.inputs[0]
    if full.operation != "full" or full.inputs[0].attribute("value") not in (1, 1.0, True):
        return False
    sizes = full.inputs[1:]
    if len(sizes) == 1 and sizes[0].operation == "tuple":
        sizes = sizes[0].inputs
    return len(sizes) == 2 and _same_size(sizes[0], sizes[1])


def _same_size(a: Node, b: Node) -> bool:
    if a is b:
        return True
    return (
        a.operation == b.operation
        and a.attributes == b.attributes
        and len(a.inputs) == len(b.inputs)
        and all(_same_size(x, y) for x, y in zip(a.inputs, b.inputs, strict=True))
    )
