"""Rotary position embeddings written out: halves rotated, pairs rotated, or complex numbers."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.requirements import accelerator, package
from kernelwright.analyzers.opportunity import Condition

_LAYOUTS = {"halves": "the two halves of the last axis (GPT-NeoX, Llama of Hugging Face)",
            "pairs": "neighbouring pairs of the last axis (GPT-J, Llama of Meta)"}  # fmt: skip


def rope_fuse(view: FunctionView) -> Iterator[Finding]:
    """One finding a function: the rotations written in it."""
    if not view.detector.operations & {"concatenate", "stack", "call", "opaque"}:
        return
    found: list[tuple[Node, str]] = []
    for raw, expression in view.translation.expressions.items():
        if raw.operation not in ("add", "call", "concatenate", "stack") or raw not in view.detector.normal:
            continue
        if raw.span != view.source.span(expression):
            continue
        layout = _rotation(view.detector.normal[raw])
        if layout is not None:
            found.append((raw, layout))
    if not found:
        return
    first, layout = found[0]
    assert first.span is not None
    span = first.span
    for raw, _ in found[1:]:
        assert raw.span is not None
        span = span.joined(raw.span)
    yield Finding(
        span,
        view.translation.function.qualified_name,
        layout,
        "a rotary embedding written out makes several passes over q and k; a fused kernel makes one",
        "Rotate in one kernel",
        check="none",
        conditions=tuple(_conditions(view, layout)),
        snippet=SNIPPETS[layout],
    )


SNIPPETS = {
    "halves": "from liger_kernel.ops.rope import LigerRopeFunction\nq, k = LigerRopeFunction.apply(q, k, cos, sin)\n",
    "pairs": "from flash_attn.layers.rotary import apply_rotary_emb\nq = apply_rotary_emb(q, cos, sin, interleaved=True)\n",
}


def _conditions(view: FunctionView, layout: str) -> Iterator[Condition]:
    yield Condition("layout", "assumed", f"the kernel rotates {_LAYOUTS[layout]}, with cos and sin in that order")
    yield accelerator(view.installed, "a GPU with Triton")
    yield package(view.installed, "liger-kernel" if layout == "halves" else "flash-attn")


def _rotation(node: Node) -> str | None:
    """The layout of the rotation a value is, or None."""
    if node.operation == "add":
        return _real_rotation(node)
    if node.operation in ("concatenate", "stack"):
        return _by_parts(node)
    if node.operation == "call" and node.attribute("target") == "torch.view_as_real":
        product = node.inputs[0]
        if product.operation == "mul" and any(
            o.operation == "call" and o.attribute("target") == "torch.view_as_complex" for o in product.inputs
        ):
            return "pairs"
    return None


def _real_rotation(node: Node) -> str | None:
    """x * cos + rotated(x) * sin"""
    products = [term for term in node.inputs if term.operation == "mul" and len(term.inputs) == 2]
    if len(node.inputs) != 2 or len(products) != 2:
        return None
    for straight, turned in (products, products[::-1]):
        for place, rotated in enumerate(turned.inputs):
            made = _rotated(rotated)
            if made is None:
                continue
            source, layout = made
            other = turned.inputs[1 - place]
            if source in straight.inputs and other not in straight.inputs and source is not other:
                return layout
    return None


def _by_parts(node: Node) -> str | None:
    """(x1 * cos - x2 * sin, x2 * cos + x1 * sin), joined"""
    if not _joins_two(node) or any(part.operation != "add" or len(part.inputs) != 2 for part in node.inputs):
        return None
    terms = [[_term(term) for term in part.inputs] for part in node.inputs]
    (first, second) = terms
    if first[0][0] < first[1][0]:
        first = first[::-1]  # the positive one in front
    if [sign for sign, _ in first] != [1, -1] or [sign for sign, _ in second] != [1, 1]:
        return None
    for straight, crossed in (second, second[::-1]):
        cosine, sine = first[0][1] & straight[1], first[1][1] & crossed[1]
        if len(cosine) != 1 or len(sine) != 1 or cosine == sine:
            continue
        parts = [_half(next(iter(factors - common))) for factors, common in (
            (first[0][1], cosine), (first[1][1], sine), (straight[1], cosine), (crossed[1], sine))]  # fmt: skip
        if any(part is None for part in parts) or len({part[0] for part in parts if part is not None}) != 1:
            continue
        if [part[1] for part in parts if part is not None] == [0, 1, 1, 0]:
            return "pairs" if node.operation == "stack" else "halves"
    return None


def _term(node: Node) -> tuple[int, frozenset[Node]]:
    """The sign of a product, and its two factors (none where it is something else)."""
    factors, sign = list(node.inputs) if node.operation == "mul" else [], 1
    if factors and factors[0].operation == "constant" and factors[0].attribute("value") == -1:
        factors, sign = factors[1:], -1
    return sign, frozenset(factors) if len(factors) == 2 else frozenset()


def _rotated(node: Node) -> tuple[Node, str] | None:
    """(x, layout) where the node is x with its halves or pairs exchanged and one of them negated."""
    inner = node
    while _is_regrouping(inner):
        inner = inner.inputs[0]
    if not _joins_two(inner):
        return None
    first, second = inner.inputs
    positive = _negated(first)
    if positive is None:
        return None
    later, earlier = _half(positive), _half(second)
    if later is None or earlier is None or later[0] is not earlier[0] or (later[1], earlier[1]) != (1, 0):
        return None
    return later[0], "pairs" if inner.operation == "stack" else "halves"


def _negated(node: Node) -> Node | None:
    if node.operation == "mul" and len(node.inputs) == 2:
        constant, value = node.inputs
        if constant.operation == "constant" and constant.attribute("value") == -1:
            return value
    return None


def _half(part: Node) -> tuple[Node, int] | None:
    """(x, 0) for the first half (or the even ones) of x, (x, 1) for the second (or the odd ones)."""
    if part.operation == "slice":
        start = part.inputs[1]
        is_first = start.operation == "constant" and start.attribute("value") in (None, 0)
        return part.inputs[0], 0 if is_first else 1
    if part.operation == "item" and part.inputs[0].operation in ("chunk", "split", "unbind"):
        return _whole(part.inputs[0].inputs[0]), int(str(part.attribute("index")))
    if part.operation == "pick" and part.inputs[1].operation == "constant":
        index = part.inputs[1].attribute("value")
        return (_whole(part.inputs[0]), 0 if index == 0 else 1) if index in (0, 1, -1) else None
    return None


def _whole(node: Node) -> Node:
    """What was split into halves or pairs by one more axis."""
    while _is_regrouping(node):
        node = node.inputs[0]
    return node


def _is_regrouping(node: Node) -> bool:
    """True for a layout operation that splits or joins axes; `rearrange` with an ellipsis is one, too."""
    if node.operation == "opaque":
        return bool(node.inputs) and str(node.attribute("reason")).startswith("rearrange")
    return node.operation in ("reshape", "flatten", "unflatten")


def _joins_two(node: Node) -> bool:
    """True for two values joined along an axis that is not one of the first two."""
    dim = node.attribute("dim")
    is_late = isinstance(dim, int) and (dim == -1 or dim >= 2)
    return node.operation in ("concatenate", "stack") and len(node.inputs) == 2 and is_late
