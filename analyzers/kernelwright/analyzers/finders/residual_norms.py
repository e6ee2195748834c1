"""A norm that directly follows a residual sum: one kernel can add (with dropout) and normalise in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.facts import is_scalar
from kernelwright.analyzers.finders.dataflow import LayerCall, dataflow
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.requirements import accelerator, package, user_knows
from kernelwright.analyzers.opportunity import Condition

_OTHER_NORMS = re.compile(r"batch|group|instance|weight|spectral|local|response|2d|3d|1d|ada", re.IGNORECASE)


def dropout_add_norm(view: FunctionView) -> Iterator[Finding]:
    """Norms over the last axis whose input is `residual + dropout(x)`, both in this function."""
    flow = dataflow(view)
    norms = {call.node: call for call in flow.calls}
    for node, expression in view.translation.expressions.items():
        call = norms.get(node)
        if node.operation not in ("layer_norm", "rms_norm") and (call is None or not _is_norm(call)):
            continue
        if not node.inputs or node not in view.detector.normal or node.span != view.source.span(expression):
            continue
        found = _sum_before(view, node.inputs[0])
        if found is None:
            continue
        total, condition = found
        if total.span is None or not _is_residual(view, total):
            continue
        assert node.span is not None
        yield Finding(
            total.span.joined(node.span),
            view.translation.function.qualified_name,
            call.path if call is not None else "",
            _message(view, total),
            "Add and normalise in one kernel",
            check="none",
            conditions=tuple(_conditions(view, node, total, call, condition)),
            snippet=SNIPPET,
        )


SNIPPET = """# stock torch: the compiler joins dropout, sum and norm
block.compile()
# or a kernel that also gives back the sum, which is the next residual
from liger_kernel.transformers.fused_add_rms_norm import LigerFusedAddRMSNorm
"""


def _is_norm(call: LayerCall) -> bool:
    name = call.short_class
    return name.endswith("Norm") and not _OTHER_NORMS.search(name) and len(call.node.inputs) == 1


def _sum_before(view: FunctionView, raw: Node) -> tuple[Node, str | None] | None:
    """The sum written in this function that a value is, and the condition under which it is that sum."""
    for _ in range(8):
        if raw.operation in ("contiguous", "cast"):
            raw = raw.inputs[0]
        elif raw.operation == "choose":
            arms = [(arm, found) for arm in raw.inputs[1:] if (found := _sum_before(view, arm)) is not None]
            if len(arms) != 1:
                return None
            return arms[0][1][0], "only where the branch that adds is taken"
        else:
            break
    written = view.translation.expressions.get(raw)
    if raw.operation != "add" or written is None or raw.span != view.source.span(written):
        return None
    return raw, None


def _is_residual(view: FunctionView, total: Node) -> bool:
    """True where one term is worked out from the other, or comes out of a layer while the other is a value passed along."""
    normal = view.detector.normal
    terms = [normal[operand] for operand in total.inputs]
    if any(is_scalar(term) or _is_table(term) for term in terms):
        return False
    for branch, residual in (terms, terms[::-1]):
        if residual.operation in ("constant", "parameter"):
            return False
        if _is_dropped(branch) and _depends_on_layer(branch):
            return True
        if residual is not branch and _depends_on(branch, residual) and _depends_on_layer(branch):
            return True
        if residual.operation in ("input", "choose") and _core(branch).operation in ("linear", "layer"):
            return True
    return False


def _core(node: Node) -> Node:
    """A branch without its dropout and its scale."""
    while True:
        if node.operation in ("dropout", "cast"):
            node = node.inputs[0]
        elif node.operation == "mul":
            rest = [o for o in node.inputs if not is_scalar(o) and o.operation != "parameter"]
            if len(rest) != 1:
                return node
            node = rest[0]
        elif node.operation in ("opaque", "layer") and len(node.inputs) == 1 and node.inputs[0].operation != "input":
            inner = _core(node.inputs[0])
            return inner if inner.operation in ("linear", "layer") else node
        else:
            return node


def _is_dropped(node: Node) -> bool:
    return node.operation == "dropout"


def _is_table(node: Node) -> bool:
    """True for what is looked up or made of parameters: embeddings, positions."""
    node = _core(node)
    if node.operation in ("embedding", "parameter", "arange", "full", "attribute", "global"):
        return True
    if node.operation in ("layer", "opaque"):
        name = f"{node.attribute('class')} {node.attribute('path')} {node.attribute('text')}"
        return re.search(r"embed|position|\bpos_|patch", name, re.IGNORECASE) is not None
    if node.operation in ("slice", "pick", "unsqueeze", "expand", "permute", "reshape", "take", "add"):
        return all(_is_table(o) for o in (node.inputs if node.operation == "add" else node.inputs[:1]))
    return False


def _depends_on(node: Node, other: Node) -> bool:
    return any(inner is other for inner in walk((node,)))


def _depends_on_layer(node: Node) -> bool:
    return any(inner.operation in ("linear", "layer", "opaque", "call") for inner in walk((node,)))


def _message(view: FunctionView, total: Node) -> str:
    dropped = any(view.detector.normal[o].operation == "dropout" for o in total.inputs)
    what = "dropout, residual sum and norm are three passes" if dropped else "residual sum and norm are two passes"
    return f"{what} over memory; one kernel makes one of them"


def _conditions(
    view: FunctionView, node: Node, total: Node, call: LayerCall | None, condition: str | None
) -> Iterator[Condition]:
    yield Condition("following_norm", "proven", "the norm reads the sum itself")
    if condition is not None:
        yield user_knows("branch", condition)
    if call is not None and call.presumed:
        yield user_knows("norm", f"{call.path} is a {call.short_class}, its constructor's default")
    if any(total in user.inputs for user in view.detector.normal if user is not node and user.operation != "choose"):
        yield Condition("sum_returned", "assumed", "the kernel gives back the sum too: it is read again after the norm")
    yield accelerator(view.installed, "a GPU with Triton")
    yield package(view.installed, "liger-kernel")
