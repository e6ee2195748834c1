"""torch.nn modules -> operations: what a call of each does, with its constructor's arguments.

A layer not listed here becomes a `layer` operation: known to be a submodule, not looked into.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.graph import Graph, static, static_int, tensor
from kernelwright.analyzers.frontends.torch.signatures import bind
from kernelwright.analyzers.frontends.torch.values import LayerValue, NotUnderstood, Value

Arguments = dict[str, Value]
Call = Callable[[Graph, LayerValue, Arguments, Node], Node]

_LAYERS: dict[str, tuple[str, Call]] = {}


def call_layer(graph: Graph, layer: LayerValue, inputs: tuple[Node, ...]) -> Node:
    """What calling the layer computes.

    Raises:
        NotUnderstood: the class is not listed, or takes other arguments; the caller makes a `layer` operation.
    """
    row = _LAYERS.get(layer.class_name.removeprefix("torch.nn.modules.").rpartition(".")[2])
    if row is None or not layer.class_name.startswith("torch.nn.") or len(inputs) != 1:
        raise NotUnderstood(f"layer {layer.class_name}")
    parameters, call = row
    bound, _ = bind(parameters, layer.arguments, layer.keywords)
    return call(graph, layer, bound, inputs[0])


def _attribute(graph: Graph, layer: LayerValue, name: str, kind: str = "number") -> Node:
    return graph.node("attribute", path=f"{layer.path}.{name}", kind=kind)


def _parameter(graph: Graph, layer: LayerValue, name: str) -> Node:
    return graph.node("parameter", path=f"{layer.path}.{name}")


def _absent(value: Value | None) -> bool:
    """True where the argument is the constant False or None."""
    return isinstance(value, Node) and value.operation == "constant" and not value.attribute("value")


def _unary(operation: str) -> Call:
    return lambda g, layer, a, x: g.unary(operation, x)


for _class, _operation in (
    ("SiLU", "silu"),
    ("Mish", "mish"),
    ("Hardswish", "hardswish"),
    ("ReLU", "relu"),
):
    _LAYERS[_class] = ("inplace?", _unary(_operation))
for _class, _operation in (("Tanh", "tanh"), ("Sigmoid", "sigmoid"), ("Softplus", "softplus")):
    _LAYERS[_class] = ("", _unary(_operation))


def _clamped(offset: float, high: float, divisor: float) -> Call:
    """clamp(x + offset, 0, high) / divisor; in place it is the same value, but the argument changes too."""

    def call(g: Graph, layer: LayerValue, a: Arguments, x: Node) -> Node:
        if "inplace" in a and static(a["inplace"], "inplace"):
            raise NotUnderstood("an activation in place")
        shifted = g.binary("add", x, g.constant(offset)) if offset else x
        clamped = g.node("clamp", shifted, g.constant(0), g.constant(high))
        return g.binary("div", clamped, g.constant(divisor)) if divisor != 1 else clamped

    return call


_LAYERS["ReLU6"] = ("inplace?", _clamped(0, 6, 1))
_LAYERS["Hardsigmoid"] = ("inplace?", _clamped(3, 6, 6))


def _softmax(operation: str) -> Call:
    return lambda g, layer, a, x: g.node(operation, x, dim=static_int(a.get("dim"), "dim"))


_LAYERS["Softmax"] = ("dim?", _softmax("softmax"))
_LAYERS["LogSoftmax"] = ("dim?", _softmax("log_softmax"))
_LAYERS["Identity"] = ("a? b? c? d?", lambda g, layer, a, x: x)


def _dropout(g: Graph, layer: LayerValue, a: Arguments, x: Node) -> Node:
    if "inplace" in a and static(a["inplace"], "inplace"):
        raise NotUnderstood("dropout in place")
    return g.node("dropout", x, _attribute(g, layer, "p"), _attribute(g, layer, "training", "flag"))


_LAYERS["Dropout"] = ("p? inplace?", _dropout)


def _gelu(g: Graph, layer: LayerValue, a: Arguments, x: Node) -> Node:
    return g.node("gelu", x, approximate=static(a["approximate"], "approximate") if "approximate" in a else "none")


_LAYERS["GELU"] = ("approximate?", _gelu)


def _linear(g: Graph, layer: LayerValue, a: Arguments, x: Node) -> Node:
    bias = g.none if _absent(a.get("bias")) else _parameter(g, layer, "bias")
    return g.node("linear", x, _parameter(g, layer, "weight"), bias)


_LAYERS["Linear"] = ("in_features out_features bias? device? dtype?", _linear)


def _layer_norm(g: Graph, layer: LayerValue, a: Arguments, x: Node) -> Node:
    shape = a["normalized_shape"]
    dims = len(shape.inputs) if isinstance(shape, Node) and shape.operation == "tuple" else 1
    affine = not _absent(a.get("elementwise_affine"))
    bias = affine and not _absent(a.get("bias"))
    return g.node(
        "layer_norm",
        x,
        _parameter(g, layer, "weight") if affine else g.none,
        _parameter(g, layer, "bias") if bias else g.none,
        _attribute(g, layer, "eps"),
        dims=dims,
    )


_LAYERS["LayerNorm"] = ("normalized_shape eps? elementwise_affine? bias? device? dtype?", _layer_norm)


def _embedding(g: Graph, layer: LayerValue, a: Arguments, x: Node) -> Node:
    if "max_norm" in a and not _absent(a["max_norm"]):
        raise NotUnderstood("an embedding that renormalises its weight")
    return g.node("embedding", x, _parameter(g, layer, "weight"))


_LAYERS["Embedding"] = (
    "num_embeddings embedding_dim padding_idx? max_norm? norm_type? scale_grad_by_freq? sparse? _weight? device? dtype?",
    _embedding,
)


def _conv(g: Graph, layer: LayerValue, a: Arguments, x: Node) -> Node:
    if "padding_mode" in a and static(a["padding_mode"], "padding_mode") != "zeros":
        raise NotUnderstood("convolution with another padding mode")
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    attributes = {name: static(a[name], name) if name in a else default for name, default in defaults.items()}
    dimensions = int(layer.class_name[-2])
    bias = g.none if _absent(a.get("bias")) else _parameter(g, layer, "bias")
    return g.node("conv", x, _parameter(g, layer, "weight"), bias, dimensions=dimensions, **attributes)


for _class in ("Conv1d", "Conv2d", "Conv3d"):
    _LAYERS[_class] = (
        "in_channels out_channels kernel_size stride? padding? dilation? groups? bias? padding_mode? device? dtype?",
        _conv,
    )

CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})


def layer_operation(graph: Graph, path: str, class_name: str, inputs: tuple[Node, ...]) -> Node:
    """A call of a submodule that is not looked into."""
    return graph.node("layer", *(tensor(value, "argument") for value in inputs), path=path, **{"class": class_name})


_IN_PLACE_PLACES = {"Dropout": 1, "LeakyReLU": 1, "ELU": 1, "CELU": 1, "Threshold": 2, "Hardtanh": 2}
"""Where `inplace` stands among the positional arguments of an activation; first in all others."""


def works_in_place(layer: LayerValue) -> bool:
    """True for a layer that may write its result over its argument (`nn.ReLU(inplace=True)`)."""
    given = dict(layer.keywords).get("inplace")
    name = layer.class_name.rpartition(".")[2]
    if given is None and name in (
        "ReLU",
        "ReLU6",
        "SiLU",
        "Mish",
        "Hardswish",
        "Hardsigmoid",
        "SELU",
        *_IN_PLACE_PLACES,
    ):
        place = _IN_PLACE_PLACES.get(name, 0)
        given = layer.arguments[place] if len(layer.arguments) > place else None
    return given is not None and not _absent(given)
