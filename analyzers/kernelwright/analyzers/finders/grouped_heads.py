"""Finder for attention written out over keys and values that are repeated for groups of queries."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.opportunity import Condition
from kernelwright.analyzers.rewrites_groups import HEADS


def enable_gqa(view: FunctionView) -> Iterator[Finding]:
    """Scores and output that both read repeated heads: told without an edit, since attention must become the kernel first."""
    normal = view.detector.normal
    for node in normal:
        if node.operation != "matmul" or node.span is None:
            continue
        weights, values = normal[node].inputs if normal[node].operation == "matmul" else (None, None)
        if weights is None or values is None or _repeated(values) is None:
            continue
        scores = next((n for n in walk((weights,)) if n.operation == "matmul" and _repeated(n.inputs[1])), None)
        softmax = any(n.operation == "softmax" for n in walk((weights,)))
        if scores is None or not softmax:
            continue
        count = _repeated(values)
        if count is not _repeated(scores.inputs[1]):
            continue
        origin = view.translation.origins.get(node)
        if origin is None or origin.inlined is not None:
            continue
        makers = [
            view.translation.origins[raw].statement
            for raw, made in normal.items()
            if made in (values, scores.inputs[1]) and raw in view.translation.origins
        ]
        first = min(makers, key=lambda s: s.lineno, default=origin.statement)
        span = view.source.span(first).joined(view.source.span(origin.statement))
        yield Finding(
            span,
            view.translation.function.qualified_name,
            "written out",
            message="keys and values are repeated for the query groups: the attention kernel can share them (enable_gqa=True)",
            title="Share the keys by enable_gqa=True",
            conditions=(
                Condition("kernel", "assumed", "this attention becomes scaled_dot_product_attention first"),
                Condition("grouped_kernel", "assumed", DEVICES),
            ),
        )


DEVICES = "it runs on a CPU, or on a GPU from Ampere on in half precision without a mask tensor (else torch's plain kernel runs)"


def _repeated(node: Node) -> Node | None:
    """How often the heads of a product's operand are repeated."""
    if node.operation == "repeat_interleave" and node.attribute("dim") == HEADS:
        return node.inputs[1]
    return None
