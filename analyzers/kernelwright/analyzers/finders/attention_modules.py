"""Finder for calls of `nn.MultiheadAttention` whose weights nobody reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.syntax import added_keyword, keyword_of, passes_unknown_keywords
from kernelwright.analyzers.opportunity import Condition

_CLASSES = frozenset({"torch.nn.MultiheadAttention", "torch.nn.modules.activation.MultiheadAttention"})
_BEFORE_NEED_WEIGHTS = 4
"""Positional parameters in front of `need_weights`: query, key, value, key_padding_mask."""


def mha_need_weights(view: FunctionView) -> Iterator[Finding]:
    """`self.attention(q, k, v)[0]`: the second result, the weights, is computed and dropped."""
    translation = view.translation
    nodes = list(translation.program.nodes())
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for operand in node.inputs:
            users.setdefault(operand, []).append(node)
    kept = {*translation.program.outputs, *translation.program.effects}
    for node in nodes:
        if node.operation != "layer" or node.attribute("class") not in _CLASSES or node in kept:
            continue
        call = translation.expressions.get(node)
        origin = translation.origins.get(node)
        if not isinstance(call, ast.Call) or origin is None or origin.inlined is not None:
            continue
        if len(call.args) > _BEFORE_NEED_WEIGHTS or keyword_of(call, "need_weights") or passes_unknown_keywords(call):
            continue
        if any(isinstance(a, ast.Starred) for a in call.args):
            continue
        read = users.get(node, [])
        if not read or not all(_is_first(user) for user in read):
            continue
        yield Finding(
            view.source.span(call),
            translation.function.qualified_name,
            str(node.attribute("path")),
            edits=(added_keyword(view.source, call, "need_weights=False"),),
            check="keywords",
            title="Pass need_weights=False",
            conditions=_conditions(view, str(node.attribute("path"))),
        )


def _is_first(user: Node) -> bool:
    """`out, _ = ...` and `...[0]`."""
    if user.operation == "pick":
        return user.attribute("dim") == 0 and user.inputs[1].attribute("value") == 0
    return user.operation == "item" and user.attribute("index") == 0


def _conditions(view: FunctionView, path: str) -> tuple[Condition, ...]:
    text = view.source.text
    conditions = [Condition("weights_unused", "proven", "nothing in this function reads the attention weights")]
    if "register_forward_hook" in text or "register_forward_pre_hook" in text:
        said = f"no forward hook reads the weights of self.{path} (the file registers hooks)"
        conditions.append(Condition("hooks", "assumed", said))
    if re.search(r"create_graph\s*=\s*True|functorch|torch\.func\.(hessian|jac)|gradgradcheck", text):
        said = "no second derivatives are taken (the fused kernel has none)"
        conditions.append(Condition("double_backward", "assumed", said))
    return tuple(conditions)
