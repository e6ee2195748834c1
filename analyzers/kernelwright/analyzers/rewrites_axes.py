"""Rewrites of an axis split in two and joined again: batch and heads kept in one axis or in two are one program.

`unflatten(x, a, b)` of the first axis moves inward to the leaves, `flatten` of the first two axes moves outward.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.facts import is_scalar
from kernelwright.analyzers.normalise import NormalForm, rewrite

Split = tuple[Node, Node]


def _joins_first_two(node: Node) -> bool:
    return node.operation == "flatten" and node.attribute("start") == 0 and node.attribute("end") == 1


def _splits_first(node: Node) -> bool:
    return node.operation == "unflatten" and node.attribute("dim") == 0 and len(node.inputs) == 3


def split_of(node: Node, depth: int = 0) -> Split | None:
    """The two sizes into which the first axis of a four-axis value was split, where the program shows it."""
    if _splits_first(node):
        return node.inputs[1], node.inputs[2]
    if depth > 24:
        return None
    if node.operation in ("softmax", "dropout", "cast", "permute", "matmul"):
        return split_of(node.inputs[0], depth + 1)
    if node.operation in ("mul", "add", "where", "maximum", "choose"):
        found = (split_of(operand, depth + 1) for operand in node.inputs)
        return next((split for split in found if split is not None), None)
    return None


@rewrite("unflatten")
def split_axis_joined_again(f: NormalForm, n: Node) -> Node | None:
    """flatten(0, 1) and then unflatten into the same sizes is nothing"""
    inner = n.inputs[0]
    if _splits_first(n) and _joins_first_two(inner) and split_of(inner.inputs[0]) == n.inputs[1:]:
        return inner.inputs[0]
    return None


@rewrite("flatten")
def joined_axis_split_before(f: NormalForm, n: Node) -> Node | None:
    """unflatten of the first axis and then flatten(0, 1) is nothing"""
    return n.inputs[0].inputs[0] if _joins_first_two(n) and _splits_first(n.inputs[0]) else None


@rewrite("unflatten")
def split_moves_inward(f: NormalForm, n: Node) -> Node | None:
    """The first axis of a batched product, of scaled or softmaxed scores is that of the operands"""
    if not _splits_first(n):
        return None
    inner, *sizes = n.inputs

    def split(x: Node) -> Node:
        return f.build("unflatten", x, *sizes, dim=0)

    if inner.operation == "matmul" and f.rank(inner) == 3:
        return f.build("matmul", split(inner.inputs[0]), split(inner.inputs[1]))
    if inner.operation == "permute" and inner.attribute("dims") == (-1, -2):
        return f.make("permute", (split(inner.inputs[0]),), inner.attributes)
    if inner.operation == "add":
        return _split_sum(f, inner, sizes, split)
    if not _reaches_scores(f, inner):
        return None
    if inner.operation == "mul":
        return f.make("mul", tuple(o if is_scalar(o) else split(o) for o in inner.inputs), ())
    return f.make(inner.operation, (split(inner.inputs[0]), *inner.inputs[1:]), inner.attributes)


def _split_sum(f: NormalForm, inner: Node, sizes: list[Node], split: Callable[[Node], Node]) -> Node | None:
    """Scores and what is added to them: that may be 1 wide in the first axis, so it is brought to its size first."""
    scores = [o for o in inner.inputs if _reaches_scores(f, o)]
    if len(scores) != 1 or any(is_scalar(o) or o.operation == "choose" for o in inner.inputs):
        return None
    whole, rest = f.build("mul", *sizes), f.constant(-1)
    terms = (split(o) if o in scores else split(f.build("expand", o, whole, rest, rest)) for o in inner.inputs)
    return f.make("add", tuple(terms), ())


def _reaches_scores(f: NormalForm, node: Node) -> bool:
    """True where a split can move through to the product that the scores are: half the way would make two forms of one
    program."""
    while True:
        if node.operation in ("cast", "dropout") or (node.operation == "softmax" and node.attribute("dim") == -1):
            node = node.inputs[0]
        elif node.operation == "mul":
            tensors = [o for o in node.inputs if not is_scalar(o)]
            if len(tensors) != 1:
                return False
            node = tensors[0]
        else:
            return _joins_first_two(node) or (node.operation == "matmul" and f.rank(node) == 3)


@rewrite("softmax", "dropout", "cast")
def join_moves_outward(f: NormalForm, n: Node) -> Node | None:
    """An operation along the last axis, or on each element, is the same before the first two axes are joined"""
    inner = n.inputs[0]
    if not _joins_first_two(inner) or split_of(inner.inputs[0]) is None:
        return None
    if n.operation == "softmax" and n.attribute("dim") != -1:
        return None
    made = f.make(n.operation, (inner.inputs[0], *n.inputs[1:]), n.attributes)
    return f.build("flatten", made, start=0, end=1)


@rewrite("matmul")
def join_moves_out_of_a_product(f: NormalForm, n: Node) -> Node | None:
    """A batched product with a joined operand is the product before joining"""
    a, b = n.inputs
    joined = a if _joins_first_two(a) else b
    if not _joins_first_two(joined):
        return None
    sizes = split_of(joined.inputs[0])
    if sizes is None:
        return None
    sides = (o.inputs[0] if _joins_first_two(o) else f.build("unflatten", o, *sizes, dim=0) for o in (a, b))
    return f.build("flatten", f.build("matmul", *sides), start=0, end=1)


@rewrite("choose")
def join_of_an_optional_part(f: NormalForm, n: Node) -> Node | None:
    """x if c else flatten(y) = flatten(unflatten(x) if c else y)"""
    condition, *arms = n.inputs
    joined = [arm for arm in arms if _joins_first_two(arm) and split_of(arm.inputs[0]) is not None]
    if not joined or any(arm.operation in ("constant", "opaque") for arm in arms):
        return None
    sizes = split_of(joined[0].inputs[0])
    if sizes is None:
        return None
    inner = [a.inputs[0] if a in joined else f.build("unflatten", a, *sizes, dim=0) for a in arms]
    if any(_splits_first(one) and not _splits_first(arm) for one, arm in zip(inner, arms, strict=True)):
        # Only where the split goes through to what the scores are made of; else nothing is won.
        return None
    return f.build("flatten", f.build("choose", condition, *inner), start=0, end=1)


@rewrite("size")
def size_of_a_split_or_joined_axis(f: NormalForm, n: Node) -> Node | None:
    """Splitting and joining the first axis leave the last two as they are; a split axis has the size it was given"""
    inner, dim = n.inputs[0], n.attribute("dim")
    if not isinstance(dim, int):
        return None
    if _splits_first(inner) and dim in (-4, -3):
        return inner.inputs[1 if dim == -4 else 2] if f.rank(inner) == 4 else None
    if (_splits_first(inner) or _joins_first_two(inner)) and dim in (-1, -2) and f.rank(inner) in (3, 4):
        return f.build("size", inner.inputs[0], dim=dim)
    return None
