"""A batch norm right after a convolution or a linear layer: at inference one layer computes both."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from kernelwright.analyzers.architecture import Span
from kernelwright.analyzers.finders.dataflow import LayerCall, dataflow
from kernelwright.analyzers.finders.finding import FileView, Finding, FunctionView
from kernelwright.analyzers.finders.requirements import user_knows
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.opportunity import Condition
from kernelwright.analyzers.source import FunctionNode

_CONVOLUTIONS = re.compile(r"torch\.nn\.(?:modules\.conv\.)?Conv(Transpose)?([123])d")
_LINEAR = re.compile(r"torch\.nn\.(?:modules\.linear\.)?Linear")
_BATCH_NORM = re.compile(r"torch\.nn\.(?:modules\.batchnorm\.)?(?:BatchNorm([123])d|SyncBatchNorm)")


def conv_bn_in_forward(view: FunctionView) -> Iterator[Finding]:
    """Convolutions whose output goes to a batch norm and nowhere else."""
    return _in_forward(view, "conv")


def linear_bn_in_forward(view: FunctionView) -> Iterator[Finding]:
    """Linear layers whose output goes to a batch norm and nowhere else."""
    return _in_forward(view, "linear")


def conv_bn_in_sequence(view: FileView) -> Iterator[Finding]:
    """The same where both are neighbours in an nn.Sequential."""
    return _in_sequences(view, "conv")


def linear_bn_in_sequence(view: FileView) -> Iterator[Finding]:
    return _in_sequences(view, "linear")


def _fits(first: str, second: str, kind: str) -> bool:
    """True where the classes are a layer of the kind and the batch norm for its output."""
    norm = _BATCH_NORM.fullmatch(second)
    if norm is None:
        return False
    if kind == "linear":
        return _LINEAR.fullmatch(first) is not None and norm.group(1) in ("1", None)
    convolution = _CONVOLUTIONS.fullmatch(first)
    return convolution is not None and norm.group(1) in (convolution.group(2), None)


def _in_forward(view: FunctionView, kind: str) -> Iterator[Finding]:
    flow = dataflow(view)
    by_value = {call.normal: call for call in flow.calls}
    for norm in flow.calls:
        layer = by_value.get(norm.x)
        if layer is None or layer is norm or not _fits(layer.class_name, norm.class_name, kind):
            continue
        if flow.only_user(layer.normal) is not norm.normal:
            continue
        if flow.times_called(layer.path) != 1 or flow.times_called(norm.path) != 1:
            continue
        span = view.source.span(layer.expression).joined(view.source.span(norm.expression))
        function = view.translation.function.qualified_name
        yield _finding(span, function, layer, norm)


def _finding(span: Span, function: str, layer: LayerCall, norm: LayerCall) -> Finding:
    extra: tuple[Condition, ...] = ()
    if layer.presumed or norm.presumed:
        presumed = norm if norm.presumed else layer
        extra = (user_knows("class", f"{presumed.path} is a {presumed.short_class}, its constructor's default"),)
    kind = "linear" if _LINEAR.fullmatch(layer.class_name) else "conv"
    return Finding(
        span,
        function,
        f"{layer.path} {norm.path}",
        f"at inference {norm.path} is a scale and a shift that {layer.path} can hold",
        f"Fold {norm.path} into {layer.path} for inference",
        check="none",
        conditions=(*_conditions(), *extra),
        state_dict_changes=(f"{norm.path}'s keys go away, {layer.path} gets a bias: fold after loading",),
        snippet=_snippet(kind, f"model.{layer.path}", f"model.{norm.path}", "Transpose" in layer.class_name),
    )


def _snippet(kind: str, layer: str, norm: str, transposed: bool) -> str:
    flag = ", transpose=True" if transposed else ""
    return (
        f"model.eval()  # after loading the checkpoint\n"
        f"{layer} = torch.nn.utils.fusion.fuse_{kind}_bn_eval({layer}, {norm}{flag})\n"
        f"{norm} = torch.nn.Identity()\n"
    )


def _conditions() -> tuple[Condition, ...]:
    return (
        Condition("directly_following", "proven", "the batch norm reads the layer's output, and nothing else does"),
        user_knows("inference", "inference only: the statistics are frozen, no training after folding"),
    )


# ---- sequences


def _in_sequences(view: FileView, kind: str) -> Iterator[Finding]:
    if "BatchNorm" not in view.source.text:
        return
    stack: list[tuple[ast.AST, str, ast.ClassDef | None]] = [(view.source.tree, "", None)]
    while stack:
        node, function, owner = stack.pop()
        if isinstance(node, FunctionNode):
            function = f"{function}.{node.name}" if function else node.name
        elif isinstance(node, ast.ClassDef):
            function, owner = f"{function}.{node.name}" if function else node.name, node
        elif isinstance(node, ast.Call) and _is_sequence(view.scope, node, owner):
            yield from _neighbours(view, _items(view.scope, node), function, kind)
        stack.extend((child, function, owner) for child in reversed(list(ast.iter_child_nodes(node))))


def _is_sequence(scope: Scope, call: ast.Call, owner: ast.ClassDef | None) -> bool:
    if (scope.qualified(call.func) or "").startswith("torch.nn.") and scope.qualified(
        call.func
    ) == "torch.nn.Sequential":
        return True
    is_super = (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "__init__"
        and isinstance(call.func.value, ast.Call)
        and isinstance(call.func.value.func, ast.Name)
        and call.func.value.func.id == "super"
    )
    return is_super and owner is not None and [scope.qualified(b) for b in owner.bases] == ["torch.nn.Sequential"]


def _items(scope: Scope, call: ast.Call) -> list[ast.expr]:
    """The modules of a sequence in order, where they are written out."""
    items: list[ast.expr] = []
    for argument in call.args:
        inner = argument.value if isinstance(argument, ast.Starred) else argument
        if isinstance(inner, ast.Call) and (scope.qualified(inner.func) or "").endswith("OrderedDict") and inner.args:
            inner = inner.args[0]
        if isinstance(inner, ast.List | ast.Tuple):
            items += [e.elts[1] if isinstance(e, ast.Tuple) and len(e.elts) == 2 else e for e in inner.elts]
        else:
            items.append(argument)
    return items


def _neighbours(view: FileView, items: list[ast.expr], function: str, kind: str) -> Iterator[Finding]:
    for place, (first, second) in enumerate(itertools.pairwise(items)):
        if not isinstance(first, ast.Call) or not isinstance(second, ast.Call):
            continue
        names = [view.scope.qualified(e.func) or "" for e in (first, second)]
        if not _fits(names[0], names[1], kind) or _without_statistics(second):
            continue
        short = [name.rpartition(".")[2] for name in names]
        yield Finding(
            view.source.span(first).joined(view.source.span(second)),
            function,
            f"{place} {short[0]}",
            f"at inference this {short[1]} is a scale and a shift that the {short[0]} before it can hold",
            f"Fold {short[1]} into {short[0]} for inference",
            check="none",
            conditions=_conditions(),
            state_dict_changes=(f"the keys of {short[1]} go away, {short[0]} gets a bias: fold after loading",),
            snippet=_snippet(kind, f"block[{place}]", f"block[{place + 1}]", "Transpose" in short[0]),
        )


def _without_statistics(call: ast.Call) -> bool:
    return any(
        k.arg == "track_running_stats" and not (isinstance(k.value, ast.Constant) and k.value.value is True)
        for k in call.keywords
    )
