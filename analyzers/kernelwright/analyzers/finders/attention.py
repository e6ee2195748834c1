"""Attention written out, with what stands between its scores and its softmax: for kernels that take more than a mask.

Looks at the translated function: a softmax over the last axis, of a matrix product, in front of another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node, Span
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.requirements import accelerator, not_run_by_us, package, user_knows
from kernelwright.analyzers.opportunity import Condition


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention of a function. `masks` are the operands that are added to the scores or select them, `cap` is the bound of
    `cap * tanh(scores / cap)`; `kinds` names what the masks are: alibi, causal, window, other. `shown` is True where the
    weights are used besides the product with the values."""

    span: Span
    masks: tuple[Node, ...]
    cap: Node | None
    kinds: frozenset[str]
    shown: bool
    fused: bool = False


def attentions(view: FunctionView) -> Iterator[Attention]:
    """The attentions of a function, written out or through `scaled_dot_product_attention`."""
    nodes = list(view.translation.program.nodes())
    operations = {node.operation for node in nodes}
    if "scaled_dot_product_attention" in operations:
        for node in nodes:
            if node.operation == "scaled_dot_product_attention" and node.span is not None and _is_own(view, node):
                mask = node.inputs[3]
                masks = () if mask.operation == "constant" else (mask,)
                yield Attention(node.span, masks, None, frozenset(map(_kind, masks)), False, True)
    if not {"softmax", "matmul"} <= operations:
        return
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for operand in node.inputs:
            users.setdefault(operand, []).append(node)
    for node in nodes:
        if node.operation != "softmax" or node.attribute("dim") not in (-1, 3) or node.span is None:
            continue
        scores = _Scores()
        if not _is_own(view, node) or not scores.reach(node.inputs[0]):
            continue
        multiplied, shown = _product(node, users)
        if multiplied:
            kinds = frozenset(map(_kind, scores.masks))
            yield Attention(node.span, tuple(scores.masks), scores.cap, kinds, shown)


def _is_own(view: FunctionView, node: Node) -> bool:
    """Whether the node is written in this function, not in one that it calls."""
    origin = view.translation.origins.get(node)
    return origin is not None and origin.inlined is None


class _Scores:
    """The way back from a softmax to the product of query and key, and what is met on it."""

    def __init__(self) -> None:
        self.masks: list[Node] = []
        self.cap: Node | None = None
        self._seen: dict[Node, bool] = {}

    def reach(self, node: Node) -> bool:
        """Whether a matrix product is reached through operations that a score may pass."""
        if node not in self._seen:
            self._seen[node] = False
            self._seen[node] = self._step(node)
        return self._seen[node]

    def _step(self, node: Node) -> bool:
        operation, operands = node.operation, node.inputs
        if operation == "matmul":
            return True
        if operation in ("cast", "reshape", "unsqueeze", "squeeze", "contiguous", "dropout"):
            return self.reach(operands[0])
        if operation in ("mul", "div"):
            for one, other in ((operands[0], operands[1]), (operands[1], operands[0])):
                if self.reach(one):
                    if one.operation == "tanh":
                        self.cap = other
                    return True
            return False
        if operation == "tanh":
            return operands[0].operation in ("mul", "div") and self.reach(operands[0])
        if operation in ("add", "sub"):
            for one, other in ((operands[0], operands[1]), (operands[1], operands[0])):
                if self.reach(one):
                    self.masks.append(other)
                    return True
            return False
        if operation == "where":
            if self.reach(operands[1]) or self.reach(operands[2]):
                self.masks.append(operands[0])
                return True
            return False
        if operation == "choose":
            return any([self.reach(operands[1]), self.reach(operands[2])])
        return False


def _product(softmax: Node, users: dict[Node, list[Node]]) -> tuple[bool, bool]:
    """Whether the weights are multiplied with values, and whether they are used otherwise too."""
    multiplied = shown = False
    todo, seen = [softmax], {softmax}
    while todo:
        current = todo.pop()
        for user in users.get(current, ()):
            if user.operation == "matmul" and user.inputs[0] is current:
                multiplied = True
            elif user.operation in ("cast", "dropout", "reshape", "choose", "contiguous"):
                if user not in seen:
                    seen.add(user)
                    todo.append(user)
            elif user.operation not in ("dtype_of", "size", "shape"):
                shown = True
    return multiplied, shown


_ALIBI = re.compile("alibi", re.IGNORECASE)
_WINDOW = re.compile(r"sliding|window_mask|local_mask", re.IGNORECASE)
_CAUSAL = re.compile("causal|tril|triu", re.IGNORECASE)


_QUERIES = frozenset({"size", "shape", "rank", "dtype_of"})


class _Queries:
    """Every node that asks a tensor for its shape or type: what that tensor is made of says nothing of a mask."""

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and node.operation in _QUERIES


def _kind(mask: Node) -> str:
    """What a mask is, by the operations that make it or by the names it has."""
    cone = [n for n in walk((mask,), _Queries()) if n.operation not in _QUERIES]
    names = " ".join(str(n.attribute(key) or "") for n in cone for key in ("name", "path", "target", "text"))
    operations = {n.operation for n in cone}
    if _ALIBI.search(names):
        return "alibi"
    if {"lower_triangle", "upper_triangle"} <= operations or _WINDOW.search(names):
        return "window"
    if {"lower_triangle", "upper_triangle"} & operations or _CAUSAL.search(names):
        return "causal"
    return "other"


# ---- flex-attention


def flex_attention(view: FunctionView) -> Iterator[Finding]:
    """Scores that are capped, biased by distance or limited to a window; one finding a function."""
    text = view.source.text
    if "flex_attention" in text or not re.search("tanh|alibi|sliding|tri[lu]", text, re.IGNORECASE):
        return
    for attention in attentions(view):
        kind = (
            "cap" if attention.cap is not None else next((k for k in ("alibi", "window") if k in attention.kinds), None)
        )
        if kind is None:
            continue
        message, function, given = _MODIFICATIONS[kind]
        conditions: list[Condition] = [
            accelerator(view.installed, "a CUDA GPU (Ampere or newer); on a CPU there is no gradient"),
            user_knows(
                "compiled", "flex_attention is compiled: without, it writes out all scores, as the code does now"
            ),
        ]
        if attention.shown:
            conditions.append(
                user_knows("weights", "the attention weights are not asked for: they are used here besides")
            )
        if "other" in attention.kinds:
            conditions.append(user_knows("mask", "the other mask is written as a mask_mod for create_block_mask"))
        yield Finding(
            attention.span,
            view.translation.function.qualified_name,
            kind,
            message,
            check="none",
            conditions=tuple(conditions),
            snippet=_FLEX.format(function=function.format(cap=_text(attention.cap)), given=given),
        )
        return


_FLEX = """
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

flex_attention = torch.compile(flex_attention)  # once, at module level

{function}

# query, key, value: (batch, heads, length, head size); scale is 1/sqrt(head size) unless given
output = flex_attention(query, key, value, {given})
"""

_MODIFICATIONS = {
    "cap": (
        "soft-capped attention: F.scaled_dot_product_attention cannot cap scores, flex_attention can",
        "def soft_cap(score, batch, head, q_index, kv_index):\n    return {cap} * torch.tanh(score / {cap})",
        "score_mod=soft_cap",
    ),
    "alibi": (
        "ALiBi as a mask is a tensor of heads × length × length: flex_attention computes it in passing",
        "def alibi(score, batch, head, q_index, kv_index):\n    return score + slopes[head] * (kv_index - q_index)",
        "score_mod=alibi",
    ),
    "window": (
        "a sliding window as a mask computes all scores: flex_attention skips what lies outside of it",
        "def in_window(batch, head, q_index, kv_index):\n"
        "    return (q_index >= kv_index) & (q_index - kv_index < window)\n\n"
        "block_mask = create_block_mask(in_window, None, None, q_length, kv_length, device=query.device)",
        "block_mask=block_mask",
    ),
}


def _text(node: Node | None) -> str:
    """A number as the code writes it: a constant, or an attribute of the module; else a name that stands for it."""
    if node is not None and node.operation == "constant":
        return repr(node.attribute("value"))
    if node is not None and node.operation == "attribute":
        return f"self.{node.attribute('path')}"
    return "cap"


# ---- flash-attention


def flash_attention(view: FunctionView) -> Iterator[Finding]:
    """Attention written out that is capped, biased by ALiBi or limited to a window, and causal at most besides."""
    text = view.source.text
    if "flash" in text.lower() or "softmax" not in text:
        return
    for attention in attentions(view):
        if attention.fused or attention.shown or "other" in attention.kinds:
            continue
        if attention.cap is None and not {"alibi", "window"} & attention.kinds:
            continue  # F.scaled_dot_product_attention does that, and needs no package
        given = ["dropout_p=0.0"]
        if "causal" in attention.kinds or "window" in attention.kinds:
            given.append("causal=True")
        if "window" in attention.kinds:
            given.append("window_size=(window - 1, 0)")
        if attention.cap is not None:
            given.append(f"softcap={_text(attention.cap)}")
        if "alibi" in attention.kinds:
            given.append("alibi_slopes=slopes")
        yield Finding(
            attention.span,
            view.translation.function.qualified_name,
            message="scores that F.scaled_dot_product_attention cannot say in passing: flash_attn can (GPU, half precision)",
            check="none",
            conditions=(
                package(view.installed, "flash-attn", (2, 6)),
                accelerator(
                    view.installed, "a CUDA GPU (Ampere or newer), in float16 or bfloat16, head size up to 256"
                ),
                user_knows("layout", "query, key and value are transposed to (batch, length, heads, head size)"),
                user_knows("alignment", "queries are as many as keys: its causal mask is aligned to the last query"),
                not_run_by_us("flash-attn 2.8.3"),
            ),
            snippet=_FLASH.format(given=", ".join(given)),
        )
        return


_FLASH = """
from flash_attn import flash_attn_func

# (batch, heads, length, head size) -> (batch, length, heads, head size), and back
query, key, value = (t.transpose(1, 2) for t in (query, key, value))
output = flash_attn_func(query, key, value, {given}).transpose(1, 2)
# dropout_p: the probability while training, 0.0 in eval; softmax_scale=: if it is not 1/sqrt(head size)
"""
