"""torch functions of networks: dropout, linear maps, contractions, kernels."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Attribute, Node
from kernelwright.analyzers.frontends.torch.einsum import einsum
from kernelwright.analyzers.frontends.torch.graph import Graph, static, tensor
from kernelwright.analyzers.frontends.torch.rearrange import rearrange
from kernelwright.analyzers.frontends.torch.registry import (
    Arguments,
    flag,
    one,
    row,
)
from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value

_T, _F = "torch.", "torch.nn.functional."


def _dropout(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    if a.get("inplace") is not None and flag(a["inplace"], False):
        raise NotUnderstood("dropout in place")
    p = tensor(a.get("p") or g.constant(0.5), "p")
    return g.node("dropout", tensor(a["input"], "x"), p, tensor(a.get("training") or g.constant(True), "training"))


row(f"{_F}dropout", "input p? training? inplace?", _dropout)
row(
    "torch.dropout",
    "input p train",
    lambda g, a, _: g.node("dropout", *(tensor(a[k], k) for k in ("input", "p", "train"))),
)


def optional(g: Graph, a: Arguments, name: str) -> Node:
    value = a.get(name)
    return g.none if value is None else tensor(value, name)


def _linear(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node("linear", tensor(a["input"], "x"), tensor(a["weight"], "weight"), optional(g, a, "bias"))


row(f"{_F}linear torch._C._nn.linear", "input weight bias?", _linear)


def _scaled_add(g: Graph, a: Arguments, axes: int) -> Node:
    base: Node = tensor(a["input"], "input")
    product: Node = g.node("matmul", tensor(a["batch1"], "a"), tensor(a["batch2"], "b"))
    if axes:
        for node in (*product.inputs, product):
            g.prove_rank(node, axes)
    if a.get("alpha") is not None:
        product = g.binary("mul", product, tensor(a["alpha"], "alpha"))
    if a.get("beta") is not None:
        beta = tensor(a["beta"], "beta")
        # beta=0 ignores the first operand altogether, even NaN in it.
        if beta.operation == "constant" and beta.attribute("value") in (0, 0.0):
            return product
        base = g.binary("mul", base, beta)
    return g.node("add", base, product)


row("torch.baddbmm", "input batch1 batch2 beta? alpha?", lambda g, a, _: _scaled_add(g, a, 3), "baddbmm")
row(
    "torch.addmm",
    "input mat1 mat2 beta? alpha?",
    lambda g, a, _: _scaled_add(g, {**a, "batch1": a["mat1"], "batch2": a["mat2"]}, 2),
    "addmm",
)
row("torch.einsum", "equation *operands", lambda g, a, rest: einsum(g, static(a["equation"], "equation"), rest))
row("einops.rearrange", "tensor pattern", lambda g, a, _: rearrange(g, tensor(a["tensor"], "x"), a["pattern"], {}))


def _gelu(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    flavour = "none" if a.get("approximate") is None else static(a["approximate"], "approximate")
    if flavour not in ("none", "tanh"):
        raise NotUnderstood("unknown GELU flavour")
    return g.node("gelu", tensor(a["input"], "x"), approximate=flavour)


row(f"{_F}gelu torch._C._nn.gelu", "input approximate?", _gelu)
for _name in ("silu", "mish", "hardswish"):
    row(f"{_F}{_name}", "input", one(_name))


def _attention(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node(
        "scaled_dot_product_attention",
        tensor(a["query"], "query"),
        tensor(a["key"], "key"),
        tensor(a["value"], "value"),
        optional(g, a, "attn_mask"),
        tensor(a.get("dropout_p") or g.constant(0.0), "dropout_p"),
        optional(g, a, "scale"),
        tensor(a.get("is_causal") or g.constant(False), "is_causal"),
        tensor(a.get("enable_gqa") or g.constant(False), "enable_gqa"),
    )


row(
    f"{_F}scaled_dot_product_attention torch._C._nn.scaled_dot_product_attention",
    "query key value attn_mask? dropout_p? is_causal? scale? enable_gqa?",
    _attention,
)


_LOSS = "input target weight? size_average? ignore_index? reduce? reduction?"


def _not_deprecated(a: Arguments) -> None:
    if "size_average" in a or "reduce" in a:
        raise NotUnderstood("a loss with size_average or reduce")


def _nll_loss(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    _not_deprecated(a)
    return g.node(
        "nll_loss",
        tensor(a["input"], "input"),
        tensor(a["target"], "target"),
        optional(g, a, "weight"),
        tensor(a.get("ignore_index") or g.constant(-100), "ignore_index"),
        tensor(a.get("reduction") or g.constant("mean"), "reduction"),
    )


def _cross_entropy(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    _not_deprecated(a)
    defaults: dict[str, Attribute] = {"ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0}
    operands = [tensor(a["input"], "input"), tensor(a["target"], "target"), optional(g, a, "weight")]
    if all(name not in a or _is_constant(a[name]) for name in defaults):
        attributes = {name: static(a[name], name) if name in a else default for name, default in defaults.items()}
        return g.node("cross_entropy", *operands, **attributes)
    smoothing = static(a["label_smoothing"], "label_smoothing") if "label_smoothing" in a else 0.0
    operands += [tensor(a.get(name) or g.constant(defaults[name]), name) for name in ("ignore_index", "reduction")]
    return g.node("cross_entropy", *operands, label_smoothing=smoothing)


def _is_constant(value: Value) -> bool:
    return isinstance(value, Node) and value.operation == "constant"


row(f"{_F}nll_loss", _LOSS, _nll_loss)
row(f"{_F}cross_entropy", f"{_LOSS} label_smoothing?", _cross_entropy)


def _normalized_dims(shape: Value) -> int:
    if isinstance(shape, Node):
        if shape.operation == "tuple":
            return len(shape.inputs)
        if shape.operation == "slice" and shape.inputs[0].operation == "shape":
            start = static(shape.inputs[1], "start")
            if isinstance(start, int) and start < 0 and static(shape.inputs[2], "stop") is None:
                return -start
        if shape.operation == "field" and shape.attribute("name") == "shape":
            return 1
    raise NotUnderstood("the normalized shape is not known")


def _rms_norm(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    dims = _normalized_dims(a["normalized_shape"])
    return g.node("rms_norm", tensor(a["input"], "x"), optional(g, a, "weight"), optional(g, a, "eps"), dims=dims)


def _layer_norm(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    dims = _normalized_dims(a["normalized_shape"])
    eps = tensor(a.get("eps") or g.constant(1e-5), "eps")
    return g.node(
        "layer_norm", tensor(a["input"], "x"), optional(g, a, "weight"), optional(g, a, "bias"), eps, dims=dims
    )


row(f"{_F}rms_norm torch.rms_norm", "input normalized_shape weight? eps?", _rms_norm)
row(f"{_F}layer_norm torch.layer_norm", "input normalized_shape weight? bias? eps?", _layer_norm)
