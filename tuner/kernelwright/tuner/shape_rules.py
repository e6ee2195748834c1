"""The shape rule of every operation on tensors: the node and what is known of its operands in, its value out. No torch.

Scalar arithmetic and branches stand in `shapes`; the rules here are torch's own (checked against torch by a test over
the table of operations).
"""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.analyzers.architecture import Node
from kernelwright.tuner.layout_rules import LAYOUT_RULES
from kernelwright.tuner.shape_facts import Rule, Shape, as_tensor, axis_of, dims_of
from kernelwright.tuner.values import (
    UNKNOWN,
    DType,
    ShapeError,
    TensorType,
    Unknown,
    Value,
    broadcast,
    dtype_name,
    is_float,
    promote,
)


def _same(node: Node, o: tuple[Value, ...]) -> Value:
    return as_tensor(o[0])


def _float_of_first(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    return x if is_float(x.dtype) else TensorType(x.shape, "float32")


def _elementwise(dtype: Callable[[str], str]) -> Rule:
    def rule(node: Node, o: tuple[Value, ...]) -> Value:
        numbers = tuple(v for v in o if v is not None)
        shapes = [v.shape for v in numbers if isinstance(v, TensorType)]
        return TensorType(broadcast(*shapes), dtype(promote(numbers)))

    return rule


def _where(node: Node, o: tuple[Value, ...]) -> Value:
    shapes = [v.shape for v in o if isinstance(v, TensorType)]
    return TensorType(broadcast(*shapes), promote(o[1:]))


def _cast(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    if isinstance(o[1], Unknown):
        return x
    if not isinstance(o[1], DType):
        raise ShapeError(f"an element type is needed, found {o[1]!r}")
    return TensorType(x.shape, o[1].name)


def _reduction(dtype: Callable[[str], str]) -> Rule:
    def rule(node: Node, o: tuple[Value, ...]) -> Value:
        x = as_tensor(o[0])
        dims = dims_of(node, len(x.shape))
        if node.attribute("keepdim"):
            shape: Shape = tuple(1 if axis in dims else e for axis, e in enumerate(x.shape))
        else:
            shape = tuple(e for axis, e in enumerate(x.shape) if axis not in dims)
        return TensorType(shape, dtype(x.dtype))

    return rule


def _matmul(node: Node, o: tuple[Value, ...]) -> Value:
    a, b = as_tensor(o[0]), as_tensor(o[1])
    if not a.shape or not b.shape:
        raise ShapeError("matrix product of a number")
    inner = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    if a.shape[-1] is not None and inner is not None and a.shape[-1] != inner:
        raise ShapeError(f"{a.shape} @ {b.shape}")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2:-1] if len(a.shape) > 1 else ()
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    return TensorType((*batch, *rows, *columns), a.dtype)


def _size(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    extents: tuple[Value, ...] = tuple(UNKNOWN if e is None else e for e in x.shape)
    return extents if node.attribute("dim") is None else extents[axis_of(node, "dim", len(x.shape))]


def _shape(node: Node, o: tuple[Value, ...]) -> Value:
    return tuple(UNKNOWN if e is None else e for e in as_tensor(o[0]).shape)


def _truth(value: Value) -> bool:
    if isinstance(value, TensorType):
        raise ShapeError("whether a tensor counts as true is known at run time only")
    return bool(value)


def _join(node: Node, o: tuple[Value, ...]) -> Value:
    if not isinstance(o[0], tuple) or not isinstance(o[1], tuple):
        raise ShapeError(f"two tuples are needed, found {o[0]!r} and {o[1]!r}")
    return o[0] + o[1]


def _finfo(pick: Callable[[str], float]) -> Rule:
    def rule(node: Node, o: tuple[Value, ...]) -> Value:
        if isinstance(o[0], Unknown):
            return UNKNOWN
        if not isinstance(o[0], DType) or not is_float(o[0].name):
            raise ShapeError(f"a floating-point element type is needed, found {o[0]!r}")
        return pick(o[0].name)

    return rule


_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def _linear(node: Node, o: tuple[Value, ...]) -> Value:
    x, weight = as_tensor(o[0]), as_tensor(o[1])
    if x.shape[-1] != weight.shape[-1]:
        raise ShapeError(f"{x.shape} by weight {weight.shape}")
    return TensorType((*x.shape[:-1], *weight.shape[:-1]), x.dtype)


def _embedding(node: Node, o: tuple[Value, ...]) -> Value:
    weight = as_tensor(o[1])
    return TensorType((*as_tensor(o[0]).shape, weight.shape[1]), weight.dtype)


def per_axis(value: object, dimensions: int) -> tuple[int, ...]:
    """A convolution's stride, padding or dilation, one number an axis."""
    if isinstance(value, int):
        return (value,) * dimensions
    if isinstance(value, tuple):
        numbers = tuple(v for v in value if isinstance(v, int))
        return numbers * dimensions if len(numbers) == 1 else numbers
    raise ShapeError(f"{value!r} is no stride, padding or dilation")


def _conv(node: Node, o: tuple[Value, ...]) -> Value:
    x, weight = as_tensor(o[0]), as_tensor(o[1])
    dimensions = len(weight.shape) - 2
    stride = per_axis(node.attribute("stride", 1), dimensions)
    dilation = per_axis(node.attribute("dilation", 1), dimensions)
    padding = node.attribute("padding", 0)
    spatial: list[int | None] = []
    for axis in range(dimensions):
        extent, window = x.shape[axis - dimensions], weight.shape[2 + axis]
        if extent is None or window is None or padding == "same":
            spatial.append(extent)
            continue
        pad = 0 if padding == "valid" else per_axis(padding, dimensions)[axis]
        spatial.append((extent + 2 * pad - dilation[axis] * (window - 1) - 1) // stride[axis] + 1)
    return TensorType((*x.shape[: -dimensions - 1], weight.shape[0], *spatial), x.dtype)


def _attention(node: Node, o: tuple[Value, ...]) -> Value:
    q, v = as_tensor(o[0]), as_tensor(o[2])
    return TensorType((*q.shape[:-1], v.shape[-1]), q.dtype)


def _cross_entropy(node: Node, o: tuple[Value, ...]) -> Value:
    x, target = as_tensor(o[0]), as_tensor(o[1])
    if (o[4] if len(o) > 4 else node.attribute("reduction", "mean")) != "none":
        return TensorType((), x.dtype)
    return TensorType(target.shape if not is_float(target.dtype) else (x.shape[0], *x.shape[2:]), x.dtype)


def _nll_loss(node: Node, o: tuple[Value, ...]) -> Value:
    x, target = as_tensor(o[0]), as_tensor(o[1])
    return TensorType(() if o[4] != "none" else target.shape, x.dtype)


def _constant(node: Node, o: tuple[Value, ...]) -> Value:
    return node.attribute("value")


def _item(node: Node, o: tuple[Value, ...]) -> Value:
    index = node.attribute("index")
    if not isinstance(o[0], tuple) or not isinstance(index, int):
        raise ShapeError(f"{o[0]!r} is not several values")
    return o[0][index]


def _keep(dtype: str) -> str:
    return dtype


def _as_float(dtype: str) -> str:
    return dtype if is_float(dtype) else "float32"


def _as_sum(dtype: str) -> str:
    return dtype if is_float(dtype) else "int64"


def _cumsum(node: Node, o: tuple[Value, ...]) -> Value:
    x = as_tensor(o[0])
    return TensorType(x.shape, _as_sum(x.dtype))


def _as_bool(dtype: str) -> str:
    return "bool"


_UNARY_FLOAT = [
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "softplus",
    "softmax",
    "log_softmax",
]
_COMPARISONS = [
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_not",
]
_SAME = [
    "neg",
    "abs",
    "relu",
    "contiguous",
    "detach",
    "lower_triangle",
    "upper_triangle",
    "full_like",
    "dropout",
    "batch_norm",
    "gelu",
    "silu",
    "mish",
]

RULES: dict[str, Rule] = {
    **dict.fromkeys(_UNARY_FLOAT, _float_of_first),
    **dict.fromkeys([*_SAME, "hardswish", "rms_norm", "layer_norm"], _same),
    **dict.fromkeys(_COMPARISONS, _elementwise(_as_bool)),
    **dict.fromkeys(
        ["add", "sub", "mul", "floordiv", "mod", "pow", "maximum", "minimum", "clamp"], _elementwise(_keep)
    ),
    **dict.fromkeys(["mean", "variance", "norm"], _reduction(_as_float)),
    **dict.fromkeys(("amax", "amin"), _reduction(_keep)),
    "div": _elementwise(_as_float),
    "sum": _reduction(_as_sum),
    "where": _where,
    "cast": _cast,
    "cumsum": _cumsum,
    "matmul": _matmul,
    **LAYOUT_RULES,
    "size": _size,
    "shape": _shape,
    "join": _join,
    "rank": lambda node, o: len(as_tensor(o[0]).shape),
    "dtype_of": lambda node, o: DType(as_tensor(o[0]).dtype),
    "finfo_min": _finfo(lambda name: -_LARGEST[name]),
    "finfo_max": _finfo(lambda name: _LARGEST[name]),
    "finfo_eps": _finfo(lambda name: _EPSILON[name]),
    "is_none": lambda node, o: o[0] is None,
    "truth": lambda node, o: _truth(o[0]),
    "number": lambda node, o: o[0],
    "is_tensor": lambda node, o: isinstance(o[0], TensorType),
    "linear": _linear,
    "embedding": _embedding,
    "conv": _conv,
    "scaled_dot_product_attention": _attention,
    "cross_entropy": _cross_entropy,
    "nll_loss": _nll_loss,
    "constant": _constant,
    "dtype": lambda node, o: DType(dtype_name(str(node.attribute("name")))),
    "tuple": lambda node, o: o,
    "item": _item,
}
