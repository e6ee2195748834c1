"""torch functions of elements and reductions: arithmetic, comparison, softmax, means."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.graph import Graph, static, static_int, tensor
from kernelwright.analyzers.frontends.torch.registry import (
    Arguments,
    Build,
    element_type,
    flag,
    one,
    row,
)
from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value

_T, _F = "torch.", "torch.nn.functional."


def _two(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        left, right = tensor(a["input"], operation), tensor(a["other"], operation)
        alpha = a.get("alpha")
        if alpha is not None:
            right = g.binary("mul", right, tensor(alpha, "alpha"))
        if "rounding_mode" in a and static(a["rounding_mode"], "rounding_mode") is not None:
            if static(a["rounding_mode"], "rounding_mode") != "floor":
                raise NotUnderstood("division with rounding")
            return g.binary("floordiv", left, right)
        return g.binary(operation, left, right)

    return build


for _name in (
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sqrt",
    "rsqrt",
    "abs",
    "neg",
    "reciprocal",
    "sigmoid",
    "relu",
):
    row(f"{_T}{_name} {_F}{_name} torch.special.{_name}", "input", one(_name), _name)
row("torch.special.expit", "input", one("sigmoid"))
row("torch.negative", "input", one("neg"), "negative")
row("torch.logical_not torch.bitwise_not", "input", one("logical_not"), "logical_not bitwise_not")


def _of_number(operation: str) -> Build:
    """A function of Python numbers: it says that its argument is one."""

    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        x = tensor(a["input"], operation)
        return g.unary(operation, x if x.operation == "constant" else g.node("number", x))

    return build


for _name in ("sqrt", "exp", "log", "tanh", "erf"):
    row(f"math.{_name}", "input", _of_number(_name))
row("numpy.sqrt", "input", _of_number("sqrt"))
row(f"{_F}softplus", "input", one("softplus"))


def _clamped(offset: float, low: float, high: float, divisor: float) -> Build:
    """clamp(x + offset, low, high) / divisor"""

    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        if a.get("inplace") is not None and flag(a["inplace"], False):
            raise NotUnderstood("an activation in place")
        x = tensor(a["input"], "x")
        shifted = g.binary("add", x, g.constant(offset)) if offset else x
        bounds = [
            tensor(a[k], k) if a.get(k) is not None else g.constant(v)
            for k, v in zip(_BOUNDS, (low, high), strict=True)
        ]
        clamped = g.node("clamp", shifted, *bounds)
        return g.binary("div", clamped, g.constant(divisor)) if divisor != 1 else clamped

    return build


_BOUNDS = ("min_val", "max_val")
row(f"{_F}relu6", "input inplace?", _clamped(0, 0, 6, 1))
row(f"{_F}hardsigmoid", "input inplace?", _clamped(3, 0, 6, 6))
row(f"{_F}hardtanh", "input min_val? max_val? inplace?", _clamped(0, -1, 1, 1))


def _log1p(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    x = tensor(a["input"], "x")
    if x.operation != "exp":
        raise NotUnderstood("log1p of anything but exp")
    return g.unary("softplus", x.inputs[0])


row("torch.log1p", "input", _log1p, "log1p")
row(
    "torch.square",
    "input",
    lambda g, a, _: g.binary("pow", tensor(a["input"], "x"), g.constant(2)),
    "square",
)
for _name, _names, _method in (
    ("add", "torch.add", "add"),
    ("sub", "torch.sub torch.subtract", "sub subtract"),
):
    row(_names, "input other alpha?", _two(_name), _method)
row("torch.div torch.divide torch.true_divide", "input other rounding_mode?", _two("div"), "div divide true_divide")
for _name, _names, _method in (
    ("mul", "torch.mul torch.multiply", "mul multiply"),
    ("pow", "torch.pow", "pow"),
    ("maximum", "torch.maximum", "maximum"),
    ("minimum", "torch.minimum", "minimum"),
    ("equal", "torch.eq", "eq"),
    ("not_equal", "torch.ne torch.not_equal", "ne not_equal"),
    ("less", "torch.lt torch.less", "lt less"),
    ("less_equal", "torch.le torch.less_equal", "le less_equal"),
    ("greater", "torch.gt torch.greater", "gt greater"),
    ("greater_equal", "torch.ge torch.greater_equal", "ge greater_equal"),
    ("logical_and", "torch.logical_and torch.bitwise_and", "logical_and bitwise_and"),
    ("logical_or", "torch.logical_or torch.bitwise_or", "logical_or bitwise_or"),
    ("matmul", "torch.matmul torch.mm", "matmul mm"),
):
    row(_names, "input other", _two(_name), _method)


_SURELY_TENSORS = frozenset({"matmul", "mul", "add", "softmax", "where", "full", "reshape", "cast", "expand"})


def _larger(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    """torch.max of two tensors; with an axis, or a value that may be one, it is something else."""
    other = tensor(a["other"], "other")
    if other.operation not in _SURELY_TENSORS and other.attribute("target") != "torch.tensor":
        raise NotUnderstood("max() with a value that may be an axis")
    return g.node("maximum", tensor(a["input"], "x"), other)


row("torch.max", "input other", _larger, "max")


def _batched(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    """bmm takes three axes and nothing else."""
    left, right = tensor(a["input"], "a"), tensor(a["mat2"], "b")
    product = g.node("matmul", left, right)
    for node in (left, right, product):
        g.prove_rank(node, 3)
    return product


row("torch.bmm", "input mat2", _batched, "bmm")


def _upcast(g: Graph, a: Arguments) -> Node:
    x = tensor(a["input"], "input")
    dtype = a.get("dtype")
    if dtype is None or (
        isinstance(dtype, Node) and dtype.operation == "constant" and dtype.attribute("value") is None
    ):
        return x
    return g.node("cast", x, element_type(g, dtype))


def _softmax(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        return g.node(operation, _upcast(g, a), dim=static_int(a.get("dim"), "dim"))

    return build


for _name in ("softmax", "log_softmax"):
    row(f"{_F}{_name}", "input dim? _stacklevel? dtype?", _softmax(_name))
    row(f"{_T}{_name} torch.special.{_name}", "input dim dtype?", _softmax(_name), _name)


def _dims(value: Value | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    number = static(value, "dim")
    if number is None:
        return None
    if isinstance(number, tuple):
        if all(isinstance(n, int) for n in number):
            return tuple(n for n in number if isinstance(n, int))
    elif isinstance(number, int):
        return (number,)
    raise NotUnderstood("dim is not a constant")


def _reduce(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        return g.node(operation, _upcast(g, a), dims=_dims(a.get("dim")), keepdim=flag(a.get("keepdim"), False))

    return build


row("torch.mean", "input dim? keepdim? dtype?", _reduce("mean"), "mean")
row("torch.sum", "input dim? keepdim? dtype?", _reduce("sum"), "sum")
row("torch.amax", "input dim? keepdim?", _reduce("amax"), "amax")
row("torch.amin", "input dim? keepdim?", _reduce("amin"), "amin")


def _variance(root: bool) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        dim, unbiased = a.get("dim"), a.get("unbiased")
        # x.var(False): a lone bool in the place of dim is `unbiased` over all axes.
        if isinstance(dim, Node) and isinstance(dim.attribute("value"), bool):
            raise NotUnderstood("variance over all axes")
        correction = 1 if flag(unbiased, True) else 0
        if "correction" in a:
            correction = static_int(a["correction"], "correction")
        x = tensor(a["input"], "input")
        out = g.node("variance", x, dims=_dims(dim), keepdim=flag(a.get("keepdim"), False), correction=correction)
        return g.unary("sqrt", out) if root else out

    return build


row("torch.var", "input dim? unbiased? keepdim? correction?", _variance(False), "var")
row("torch.std", "input dim? unbiased? keepdim? correction?", _variance(True), "std")
