"""Finder for dropout that evaluation does not switch off."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from kernelwright.analyzers import syntax_tree
from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.finders.calls_and_views import argument, is_open, own_call
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.syntax import added_keyword
from kernelwright.analyzers.frontends.torch.values import LayerValue
from kernelwright.analyzers.opportunity import TextEdit

_FUNCTIONS = {f"torch.nn.functional.dropout{axes}" for axes in ("", "1d", "2d", "3d")}
"""Functions of torch that drop unless they are told `training=False`."""
_ATTENTION = "scaled_dot_product_attention"
_MEANT = re.compile(
    r"monte.?carlo|\bmc.?drop|mcdrop|uncertain|bayes|always.{0,20}(on|drop)|test.?time|augment|prenet", re.IGNORECASE
)
"""Words of code that wants dropout in evaluation too."""


@lru_cache(maxsize=4)
def _is_meant(text: str) -> bool:
    """True for a file that says it wants dropout in eval; asked once for each of its functions."""
    return _MEANT.search(text) is not None


def dropout_in_eval(view: FunctionView) -> Iterator[Finding]:
    """`F.dropout(x, self.p)` without `training=`, attention with `dropout_p=self.p`, `nn.Dropout(p)(x)`: in what a module's
    `forward` runs, where no condition around them asks whether it trains."""
    owner = _name_of_self(view)
    if owner is None or not _runs_in_forward(view) or _is_meant(view.source.text):
        return
    for node in view.translation.program.nodes():
        call = own_call(view, node)
        if call is None or is_open(call) or not _is_dropout(node) or _stands_under_a_mode(view, call):
            continue
        name = view.scope.qualified(call.func) or ""
        if name in _FUNCTIONS and argument(call, 2, "training") is None:
            if argument(call, 1, "p") is None or _is_probability(view, _operand(node, 1, "p")):
                edit = added_keyword(view.source, call, f"training={owner}.training")
                yield _finding(view, call, _FUNCTION_SAID, edit, f"Pass training={owner}.training")
        elif name.endswith(f".{_ATTENTION}") and node.operation == _ATTENTION:
            written = argument(call, 4, "dropout_p")
            if written is not None and _is_probability(view, node.inputs[4]):
                text = view.source.segment(written)
                flag = (
                    f"{text.removesuffix('.p')}.training" if _is_of_layer(view, node.inputs[4]) else f"{owner}.training"
                )
                edit = TextEdit(view.source.start(written), view.source.end(written), f"{text} if {flag} else 0.0")
                yield _finding(view, call, _ATTENTION_SAID, edit, f"Drop only while {flag}")
        elif isinstance(call.func, ast.Call) and node.inputs[2].attribute("path") == ".training":
            p = argument(call.func, 0, "p")
            if not is_open(call.func) and not (isinstance(p, ast.Constant) and not p.value):
                yield _finding(view, call, _MADE_SAID, None, "")


_FUNCTION_SAID = "dropout stays on in evaluation: F.dropout drops unless it is told training=False"
_ATTENTION_SAID = "dropout stays on in evaluation: the function knows no mode, it drops whenever dropout_p > 0"
_MADE_SAID = "dropout stays on in evaluation: a Dropout made here is in training mode, whatever mode its owner is in"


def _is_dropout(node: Node) -> bool:
    return node.operation in ("dropout", _ATTENTION) or node.attribute("target") in _FUNCTIONS


def _operand(call: Node, position: int, name: str) -> Node:
    """The operand for a parameter that is given."""
    names = call.attribute("keywords")
    if isinstance(names, tuple) and name in names:
        return call.inputs[len(call.inputs) - len(names) + names.index(name)]
    return call.inputs[position]


def _finding(view: FunctionView, call: ast.Call, message: str, edit: TextEdit | None, title: str) -> Finding:
    return Finding(
        view.source.span(call),
        view.translation.function.qualified_name,
        ast.unparse(call.func),
        message=message,
        title=f"{title} (the program changes)" if title else None,
        edits=(edit,) if edit is not None else (),
        check="none",
    )


def _name_of_self(view: FunctionView) -> str | None:
    """What a method of a module class calls its object."""
    facts, node = view.translation.facts, view.translation.function.node
    if facts is None or "forward" not in facts.methods or not node.args.args or node.decorator_list:
        return None
    return node.args.args[0].arg


def _runs_in_forward(view: FunctionView) -> bool:
    """True for `forward` and the methods of its class that it calls, also through others."""
    facts = view.translation.facts
    assert facts is not None
    reached: set[str] = set()
    waiting = ["forward"]
    while waiting:
        name = waiting.pop()
        method = facts.methods.get(name)
        if name in reached or method is None:
            continue
        reached.add(name)
        owner = method.node.args.args[0].arg if method.node.args.args else "self"
        waiting.extend(
            node.attr
            for node in syntax_tree.walk(method.node)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == owner
        )
    return view.translation.function.node.name in reached


def _stands_under_a_mode(view: FunctionView, call: ast.Call) -> bool:
    """True where a condition of the class that reads a mode decides about the call, or about the method it is in."""
    facts, own = view.translation.facts, view.translation.function.node
    assert facts is not None
    for method in facts.methods.values():
        for node in syntax_tree.walk(method.node):
            test = getattr(node, "test", None)
            if not isinstance(test, ast.expr) or not _MODE.search(ast.unparse(test)):
                continue
            for inner in syntax_tree.walk(node):
                if inner is call or isinstance(inner, ast.Return):
                    return True
                if isinstance(inner, ast.Attribute) and inner.attr == own.name:
                    return True
    return False


_MODE = re.compile(r"train|eval|infer|deterministic|apply_drop|use_drop")


def _is_probability(view: FunctionView, p: Node) -> bool:
    """True for a positive constant, or a value kept under `self` that only `__init__` sets."""
    normal = view.detector.normal.get(p, p)
    if normal.operation == "constant":
        value = normal.attribute("value")
        return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    if normal.operation == "field":
        return _is_probability(view, normal.inputs[0])
    if normal.operation != "attribute":
        return False
    facts = view.translation.facts
    assert facts is not None
    name = str(normal.attribute("path")).partition(".")[0]
    stored = facts.attributes.get(name)
    if name in facts.stored_elsewhere or stored is None:
        return False
    if not isinstance(stored, Node):
        return True
    if any("train" in str(n.attributes) for n in walk((stored,))):
        return False
    return stored.operation != "constant" or bool(stored.attribute("value"))


def _is_of_layer(view: FunctionView, p: Node) -> bool:
    """`self.dropout.p`: the module's own flag says whether it drops."""
    facts = view.translation.facts
    name, _, rest = str(p.attribute("path")).partition(".")
    return facts is not None and rest == "p" and isinstance(facts.attributes.get(name), LayerValue)
