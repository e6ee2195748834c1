"""Kernel operations written out by their reference definitions (`kernels/torch.py`): the other half of the same-program check."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.facts import is_boolean
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.normalise import Expansion, NormalForm, instantiate
from kernelwright.analyzers.source import parse_source


@lru_cache(maxsize=1)
def references() -> dict[str, Program]:
    """The reference definitions of the torch kernels, by function name."""
    file = resources.files("kernelwright.analyzers.kernels") / "torch.py"
    source = parse_source(file.read_text(encoding="utf-8"), "kernels/torch.py")
    scope = Scope(source)
    return {f.node.name: translate(scope, f).program for f in source.functions}


def _is_none(node: Node) -> bool:
    return node.operation == "constant" and node.attribute("value") is None


def _reference(f: NormalForm, name: str, **arguments: Node) -> Node:
    return instantiate(f, references()[name], arguments)


def _gelu(f: NormalForm, n: Node) -> Node | None:
    return _reference(f, f"gelu_{n.attribute('approximate')}", x=n.inputs[0])


def _unary(f: NormalForm, n: Node) -> Node | None:
    return _reference(f, n.operation, x=n.inputs[0])


MAYBE_NONE = frozenset(
    {
        "input",
        "item",
        "layer",
        "attribute",
        "parameter",
        "field",
        "global",
        "opaque",
        "call",
        "pick",
        "carried",
        "loop",
        "element",
    }
)


def _attention(f: NormalForm, n: Node) -> Node | None:
    q, k, v, mask, p, scale, is_causal, enable_gqa = n.inputs
    if is_causal.operation != "constant" or enable_gqa.operation != "constant":
        return None
    if enable_gqa.attribute("value"):
        # As many times as it takes to have the queries' heads.
        k, v = (f.build("repeat_interleave", x, f.constant(None), dim=-3) for x in (k, v))
    if is_causal.attribute("value"):
        if not _is_none(mask):
            return None  # an error, or both, by the backend
        lengths = (f.build("size", q, dim=-2), f.build("size", k, dim=-2))
        ones = f.build("full", f.constant(True), *lengths, dtype="bool")
        mask = f.build("lower_triangle", ones, f.constant(0))
    if _is_none(scale):
        scale = f.build("pow", f.build("size", q, dim=-1), f.constant(-0.5))
    if mask.operation == "choose" and any(_is_none(arm) for arm in mask.inputs[1:]):
        arms = (_attention(f, Node(n.operation, (q, k, v, arm, *n.inputs[4:]))) for arm in mask.inputs[1:])
        first, second = arms
        return f.build("choose", mask.inputs[0], first, second) if first is not None and second is not None else None
    if _is_none(mask):
        return _reference(f, "attention_plain", q=q, k=k, v=v, p=p, scale=scale)
    if is_boolean(mask) or mask in f.booleans or (mask.operation == "logical_not" and mask.inputs[0] in f.booleans):
        return _reference(f, "attention_boolean", q=q, k=k, v=v, mask=mask, p=p, scale=scale)
    # A mask that may be None adds nothing then.
    absent = f.build("is_none", mask)
    if absent.operation != "constant":
        mask = f.build("choose", absent, f.constant(0), mask)
    return _reference(f, "attention_additive", q=q, k=k, v=v, mask=mask, p=p, scale=scale)


def _rms_norm(f: NormalForm, n: Node) -> Node | None:
    x, weight, eps = n.inputs
    if n.attribute("dims") != 1 or _is_none(eps):
        return None  # eps=None is the type's epsilon, which differs between versions of torch
    if _is_none(weight):
        return _reference(f, "rms_norm_plain", x=x, eps=eps)
    return _reference(f, "rms_norm_weight", x=x, weight=weight, eps=eps)


def _layer_norm(f: NormalForm, n: Node) -> Node | None:
    x, weight, bias, eps = n.inputs
    if n.attribute("dims") != 1:
        return None
    if _is_none(weight) and _is_none(bias):
        return _reference(f, "layer_norm_plain", x=x, eps=eps)
    if _is_none(bias):
        return _reference(f, "layer_norm_weight", x=x, weight=weight, eps=eps)
    if _is_none(weight):
        return None
    return _reference(f, "layer_norm_affine", x=x, weight=weight, bias=bias, eps=eps)


def _cross_entropy(f: NormalForm, n: Node) -> Node | None:
    x, target, weight, *more = n.inputs
    if n.attribute("label_smoothing") != 0:
        return None
    ignore_index, reduction = more or (f.constant(n.attribute("ignore_index")), f.constant(n.attribute("reduction")))
    # The class axis is the second; of a single row, without a batch, the only one.
    probabilities = f.build("log_softmax", x, dim=-1 if f.rank(x) == 1 else 1)
    return f.build("nll_loss", probabilities, target, weight, ignore_index, reduction)


EXPANSIONS: dict[str, Expansion] = {
    "gelu": _gelu,
    "silu": _unary,
    "mish": _unary,
    "hardswish": _unary,
    "scaled_dot_product_attention": _attention,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "cross_entropy": _cross_entropy,
}
