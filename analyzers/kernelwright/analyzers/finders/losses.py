"""Finder for losses that are given probabilities where they want logits, or logarithms of probabilities."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.finders.calls_and_views import argument, is_open, own_call, sources
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.opportunity import TextEdit

_F, _NN = "torch.nn.functional.", "torch.nn."
_LOSSES = {
    f"{_F}cross_entropy": ("softmax", "logits"),
    f"{_NN}CrossEntropyLoss": ("softmax", "logits"),
    f"{_F}nll_loss": ("softmax", "log"),
    f"{_NN}NLLLoss": ("softmax", "log"),
    f"{_F}kl_div": ("softmax", "log"),
    f"{_NN}KLDivLoss": ("softmax", "log"),
    f"{_F}binary_cross_entropy_with_logits": ("sigmoid", "logits"),
    f"{_NN}BCEWithLogitsLoss": ("sigmoid", "logits"),
}
"""What each loss must not be given, and what it wants instead."""
_SAID = {
    (
        "softmax",
        "logits",
    ): "cross entropy of probabilities: it takes the softmax itself, of logits, and so takes it twice",
    (
        "softmax",
        "log",
    ): "this loss wants logarithms of probabilities (log_softmax) and is given probabilities (softmax)",
    (
        "sigmoid",
        "logits",
    ): "this loss takes the sigmoid itself, of logits: it is given probabilities, and so takes it twice",
}


def loss_of_softmax(view: FunctionView) -> Iterator[Finding]:
    """`cross_entropy(softmax(x), y)`, `nll_loss(softmax(x), y)`, `bce_with_logits(sigmoid(x), y)` and their modules."""
    for node in view.translation.program.nodes():
        call = own_call(view, node)
        loss = _loss(node)
        if call is None or loss is None or is_open(call) or not node.inputs:
            continue
        kind, wanted = _LOSSES[loss]
        given = node.inputs[0]
        written = argument(call, 0, "input")
        if written is None or (call.keywords and not call.args):
            continue
        if not _is_all(view, given, kind):
            continue
        edit, title = _edit(view, written, wanted)
        yield Finding(
            view.source.span(call),
            view.translation.function.qualified_name,
            ast.unparse(call.func),
            message=_SAID[kind, wanted],
            title=f"{title} (the program changes)" if edit is not None else None,
            edits=(edit,) if edit is not None else (),
            check="none",
        )


def _loss(node: Node) -> str | None:
    if node.operation in ("cross_entropy", "nll_loss"):
        return f"{_F}{node.operation}"
    name = node.attribute("target") if node.operation == "call" else node.attribute("class")
    if node.operation not in ("call", "layer") or not isinstance(name, str):
        return None
    name = name.replace("torch.nn.modules.loss.", _NN)
    return name if name in _LOSSES else None


def _is_all(view: FunctionView, given: Node, kind: str) -> bool:
    """True where the value is a softmax (sigmoid) on every path, seen through views."""
    found = list(sources(view.detector.normal[given]))
    return bool(found) and all(n.operation == kind and _over_classes(n) for n in found)


def _over_classes(node: Node) -> bool:
    """A softmax over the last axis or the second: where classes are."""
    return node.operation != "softmax" or node.attribute("dim") in (-1, 1)


def _edit(view: FunctionView, written: ast.expr, wanted: str) -> tuple[TextEdit | None, str]:
    """Where the softmax is written as the argument itself, that is what to change."""
    if not isinstance(written, ast.Call) or is_open(written):
        return None, ""
    if any(k.arg not in ("dim", "input") for k in written.keywords):
        return None, ""  # a softmax in another type: the logits would lose that
    source = view.source
    name = view.scope.qualified(written.func) or ""
    is_function = name in ("torch.softmax", f"{_F}softmax", "torch.sigmoid", f"{_F}sigmoid")
    method = written.func.attr if isinstance(written.func, ast.Attribute) else ""
    if wanted == "log":
        if method != "softmax" or not (is_function or "." not in name or not name.startswith("torch.")):
            return None, ""
        end = source.end(written.func)
        return TextEdit(end - len("softmax"), end, "log_softmax"), "Use log_softmax"
    if is_function and written.args:
        return TextEdit(source.start(written), source.end(written), source.segment(written.args[0])), "Pass the logits"
    if method in ("softmax", "sigmoid") and not name.startswith("torch."):
        assert isinstance(written.func, ast.Attribute)
        logits = source.segment(written.func.value)
        return TextEdit(source.start(written), source.end(written), logits), "Pass the logits"
    return None, ""
