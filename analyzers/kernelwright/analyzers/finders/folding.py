"""A batch norm right after a convolution or a linear layer: at inference one layer computes both."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kernelwright.analyzers.architecture import Span
from kernelwright.analyzers.finders.constructors import class_of
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
    stack = [_Place(view.source.tree, "", None, None)]
    while stack:
        place = stack.pop()
        node = place.node
        if isinstance(node, FunctionNode):
            place = _Place(node, _joined(place.function, node.name), place.owner, node)
        elif isinstance(node, ast.ClassDef):
            place = _Place(node, _joined(place.function, node.name), node, None)
        elif isinstance(node, ast.Call) and _is_sequence(view.scope, node, place.owner):
            yield from _neighbours(view, _items(view.scope, node), place, kind, indexed=True)
        elif isinstance(node, ast.List) and isinstance(node.ctx, ast.Load) and _grows_a_sequence(view.scope, place):
            yield from _neighbours(view, node.elts, place, kind)
        if isinstance(node, FunctionNode | ast.If | ast.For):
            yield from _neighbours(view, _appended(view.scope, node.body, place), place, kind)
        children = reversed(list(ast.iter_child_nodes(node)))
        stack.extend(_Place(child, place.function, place.owner, place.around) for child in children)


@dataclass(frozen=True, slots=True)
class _Place:
    """A node on the way down: the qualified name of the function or class around it, the class, and the function."""

    node: ast.AST
    function: str
    owner: ast.ClassDef | None
    around: ast.FunctionDef | ast.AsyncFunctionDef | None


def _joined(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def _is_sequential_class(scope: Scope, owner: ast.ClassDef | None) -> bool:
    return owner is not None and [scope.qualified(b) for b in owner.bases] == ["torch.nn.Sequential"]


def _is_sequence(scope: Scope, call: ast.Call, owner: ast.ClassDef | None) -> bool:
    if scope.qualified(call.func) == "torch.nn.Sequential":
        return True
    is_super = (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "__init__"
        and isinstance(call.func.value, ast.Call)
        and isinstance(call.func.value.func, ast.Name)
        and call.func.value.func.id == "super"
    )
    return is_super and _is_sequential_class(scope, owner)


def _grows_a_sequence(scope: Scope, place: _Place) -> bool:
    """True for a list in a function that makes its one list of layers an nn.Sequential: `nn.Sequential(*layers)`."""
    if place.around is None:
        return False
    for node in ast.walk(place.around):
        if isinstance(node, ast.Call) and scope.qualified(node.func) == "torch.nn.Sequential":
            for argument in node.args:
                if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Name):
                    return any(
                        isinstance(n, ast.Assign | ast.AugAssign | ast.AnnAssign)
                        and n.value is place.node
                        and argument.value.id in {t.id for t in _targets(n) if isinstance(t, ast.Name)}
                        for n in ast.walk(place.around)
                    )
    return False


def _targets(statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _appended(scope: Scope, body: list[ast.stmt], place: _Place) -> list[ast.expr]:
    """What neighbouring statements append to one list of layers, or add to a class that is a sequence; anything else, None
    among them, parts them."""
    items: list[ast.expr] = []
    last: str | None = None
    for statement in body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        receiver, item = None, None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.keywords:
            owner = ast.unparse(call.func.value)
            if call.func.attr == "append" and len(call.args) == 1 and f"Sequential(*{owner})" in _text(place.around):
                receiver, item = owner, call.args[0]
            elif call.func.attr == "add_module" and len(call.args) == 2 and owner == "self":
                is_sequence = _is_sequential_class(scope, place.owner)
                receiver, item = (owner, call.args[1]) if is_sequence else (None, None)
        if receiver is None or receiver != last:
            items.append(ast.Constant(None))
        if item is not None:
            items.append(item)
        last = receiver
    return items


@lru_cache(maxsize=4)
def _text(around: ast.AST | None) -> str:
    """The function around a place, spelled in one way."""
    return ast.unparse(around) if around is not None else ""


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


def _neighbours(
    view: FileView, items: list[ast.expr], place: _Place, kind: str, indexed: bool = False
) -> Iterator[Finding]:
    for index, (first, second) in enumerate(itertools.pairwise(items)):
        made = _made(first, place)
        if made is None or not isinstance(second, ast.Call):
            continue
        (layer, _), (norm, presumed) = (class_of(view.scope, e, place.around) for e in (made, second))
        if not _fits(layer, norm, kind) or _without_statistics(second):
            continue
        short = [name.rpartition(".")[2] for name in (layer, norm)]
        names = (f"block[{index}]", f"block[{index + 1}]") if indexed else ("block.layer", "block.norm")
        extra = user_knows("class", f"the norm is a {short[1]}, the default of a parameter")
        yield Finding(
            view.source.span(first).joined(view.source.span(second)),
            place.function,
            f"{index} {short[0]}",
            f"at inference this {short[1]} is a scale and a shift that the {short[0]} before it can hold",
            f"Fold {short[1]} into {short[0]} for inference",
            check="none",
            conditions=(*_conditions(), extra) if presumed else _conditions(),
            state_dict_changes=(f"the keys of {short[1]} go away, {short[0]} gets a bias: fold after loading",),
            snippet=_snippet(kind, *names, "Transpose" in short[0]),
        )


def _made(item: ast.expr, place: _Place) -> ast.Call | None:
    """The call that makes an item: itself, or what the function assigns to its name once."""
    if isinstance(item, ast.Call):
        return item
    if isinstance(item, ast.Name) and place.around is not None:
        values = [
            n.value
            for n in ast.walk(place.around)
            if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == item.id for t in n.targets)
        ]
        if len(values) == 1 and isinstance(values[0], ast.Call):
            return values[0]
    return None


def _without_statistics(call: ast.Call) -> bool:
    return any(
        k.arg == "track_running_stats" and not (isinstance(k.value, ast.Constant) and k.value.value is True)
        for k in call.keywords
    )
