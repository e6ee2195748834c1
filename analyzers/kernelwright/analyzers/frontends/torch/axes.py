"""Views whose shapes a check has proven: splitting the first axis of a tensor, and joining the first two again.

Code that keeps batch and heads in one axis views its scores as four axes to add a mask, and back. Where the shape is known,
such a view is `unflatten` or `flatten` and not an arbitrary new shape.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.operations import ELEMENTWISE
from kernelwright.analyzers.frontends.torch.conditions import condition_key
from kernelwright.analyzers.frontends.torch.graph import Graph

Shape = tuple[Node, ...]


def split_or_joined(graph: Graph, checked: Mapping[Node, Shape], made: Node) -> Node:
    """A `reshape` as what it is for sure; itself where nothing is."""
    if made.operation != "reshape" or not made.inputs:
        return made
    x, *sizes = made.inputs
    shape = _shape(graph, checked, x)
    if shape is None:
        return made
    if len(shape) == 3 and len(sizes) == 4 and _are(sizes[2:], shape[1:]) and _is_product(shape[0], *sizes[:2]):
        split = graph.node("unflatten", x, sizes[0], sizes[1], dim=0)
        graph.shapes[split] = tuple(sizes)
        return split
    if len(shape) == 4 and len(sizes) == 3 and _are(sizes[1:], shape[2:]) and _is_product(sizes[0], *shape[:2]):
        joined = graph.node("flatten", x, start=0, end=1)
        graph.shapes[joined] = tuple(sizes)
        return joined
    return made


def _shape(graph: Graph, checked: Mapping[Node, Shape], node: Node) -> Shape | None:
    """The shape of a value, if it is one of a checked value's.

    A sum with a mask has the shape of the scores: one that broadcasts further has more elements than the view back takes.
    """
    known = checked.get(node) or graph.shapes.get(node)
    if known is not None:
        return known
    if node.operation == "reshape":
        sizes = node.inputs[1:]
        return sizes if len(sizes) > 2 and all(s.attribute("value") != -1 for s in sizes) else None
    if node.operation == "matmul":
        left, right = node.inputs
        shape = _shape(graph, checked, left)
        if shape is None or len(shape) != 3 or graph.ranks.get(right) not in (None, 3):
            return None
        return (*shape[:2], (_shape(graph, checked, right) or (Node("size", (right,), (("dim", 2),)),))[-1])
    if node.operation in ("softmax", "dropout", "cast"):
        return _shape(graph, checked, node.inputs[0])
    if node.operation == "choose":
        first, second = (_shape(graph, checked, arm) for arm in node.inputs[1:])
        return first if first is not None and second is not None and _are(first, second) else None
    if node.operation in ELEMENTWISE:
        operands = node.inputs[1:] if node.operation == "where" else node.inputs
        shapes = [shape for o in operands if (shape := _shape(graph, checked, o)) is not None]
        longest = max(map(len, shapes), default=0)
        return _broadcast([shape for shape in shapes if len(shape) == longest])
    return None


def _broadcast(shapes: list[Shape]) -> Shape | None:
    """The one shape of operands with as many axes, where it is known."""
    axes = []
    for extents in zip(*shapes, strict=True):
        long = [e for e in extents if e.attribute("value") != 1] or [extents[0]]
        if not _are(long, long[:1] * len(long)):
            return None
        axes.append(long[0])
    return tuple(axes) or None


def unit_axes(made: Node) -> tuple[int, ...]:
    """The axes, counted from the end, that are 1 wide in a tensor that `__init__` makes with a written shape."""
    while made.operation in ("log", "exp", "mul", "cast", "neg", "sqrt"):
        tensors = [o for o in made.inputs if o.operation not in ("constant", "dtype")]
        if len(tensors) != 1:
            return ()
        made = tensors[0]
    if made.operation != "full":
        return ()
    sizes = made.inputs[1:]
    if len(sizes) == 1 and sizes[0].operation == "tuple":
        sizes = sizes[0].inputs
    return tuple(i - len(sizes) for i, size in enumerate(sizes) if size.attribute("value") == 1)[::-1]


def _are(a: list[Node] | Shape, b: list[Node] | Shape) -> bool:
    return len(a) == len(b) and all(_is(x, y) for x, y in zip(a, b, strict=True))


def _is(a: Node, b: Node) -> bool:
    if a is b or (a.operation == b.operation == "size" and a.attributes == b.attributes and a.inputs[0] is b.inputs[0]):
        return True
    return condition_key(a) == condition_key(b) is not None


def _is_product(whole: Node, a: Node, b: Node) -> bool:
    return whole.operation == "mul" and (_are(whole.inputs, (a, b)) or _are(whole.inputs, (b, a)))
