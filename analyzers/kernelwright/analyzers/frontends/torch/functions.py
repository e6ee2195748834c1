"""torch functions and tensor methods -> operations of the architecture language.

One row a function: the qualified names it has, the method name if tensors have it, its parameters, and how it is built.
An argument that is not in the row makes the call opaque (closed world): nothing is ever dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.dtypes import DTYPES
from kernelwright.analyzers.frontends.torch.einsum import einsum
from kernelwright.analyzers.frontends.torch.graph import Graph, static, static_int, tensor
from kernelwright.analyzers.frontends.torch.rearrange import rearrange
from kernelwright.analyzers.frontends.torch.signatures import bind
from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value

Arguments = dict[str, Value]
Build = Callable[[Graph, Arguments, tuple[Value, ...]], Node]


@dataclass(frozen=True, slots=True)
class TorchFunction:
    parameters: str
    build: Build


FUNCTIONS: dict[str, TorchFunction] = {}
METHODS: dict[str, TorchFunction] = {}

_T, _F = "torch.", "torch.nn.functional."


def _row(names: str, parameters: str, build: Build, method: str = "") -> None:
    row = TorchFunction(parameters, build)
    for name in names.split():
        FUNCTIONS[name] = row
    for name in method.split():
        METHODS[name] = row


def call_function(
    graph: Graph, name: str, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]
) -> Node:
    """Translate a call of a qualified name.

    Raises:
        NotUnderstood: the name is not in the table, or its arguments are not those of the table.
        KeyError: never; an unknown name raises NotUnderstood.
    """
    row = FUNCTIONS.get(name)
    if row is None:
        raise NotUnderstood(f"{name} is not in the table")
    bound, rest = bind(row.parameters, arguments, keywords)
    return row.build(graph, bound, rest)


def call_method(
    graph: Graph, receiver: Node, name: str, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]
) -> Node:
    """Translate a call of a tensor method (same errors as `call_function`)."""
    row = METHODS.get(name)
    if row is None:
        raise NotUnderstood(f"method {name} is not in the table")
    bound, rest = bind(row.parameters, (receiver, *arguments), keywords)
    return row.build(graph, bound, rest)


def _one(operation: str) -> Build:
    return lambda g, a, _: g.unary(operation, tensor(a["input"], operation))


def _two(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        left, right = tensor(a["input"], operation), tensor(a["other"], operation)
        alpha = a.get("alpha")
        if alpha is not None:
            right = g.binary("mul", right, tensor(alpha, "alpha"))
        if "rounding_mode" in a and static(a["rounding_mode"], "rounding_mode") is not None:
            raise NotUnderstood("division with rounding")
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
    _row(f"{_T}{_name} {_F}{_name} torch.special.{_name}", "input", _one(_name), _name)
_row("torch.special.expit", "input", _one("sigmoid"))
_row("torch.negative", "input", _one("neg"), "negative")
_row("torch.logical_not torch.bitwise_not", "input", _one("logical_not"), "logical_not bitwise_not")


def _of_number(operation: str) -> Build:
    """A function of Python numbers: it says that its argument is one."""

    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        x = tensor(a["input"], operation)
        return g.unary(operation, x if x.operation == "constant" else g.node("number", x))

    return build


for _name in ("sqrt", "exp", "log", "tanh", "erf"):
    _row(f"math.{_name}", "input", _of_number(_name))
_row("numpy.sqrt", "input", _of_number("sqrt"))
_row(f"{_F}softplus", "input", _one("softplus"))
_row(
    "torch.square",
    "input",
    lambda g, a, _: g.binary("pow", tensor(a["input"], "x"), g.constant(2)),
    "square",
)
for _name, _names, _method in (
    ("add", "torch.add", "add"),
    ("sub", "torch.sub torch.subtract", "sub subtract"),
):
    _row(_names, "input other alpha?", _two(_name), _method)
_row("torch.div torch.divide torch.true_divide", "input other rounding_mode?", _two("div"), "div divide true_divide")
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
    _row(_names, "input other", _two(_name), _method)


def _batched(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    """bmm takes three axes and nothing else."""
    left, right = tensor(a["input"], "a"), tensor(a["mat2"], "b")
    product = g.node("matmul", left, right)
    for node in (left, right, product):
        g.prove_rank(node, 3)
    return product


_row("torch.bmm", "input mat2", _batched, "bmm")


def _upcast(g: Graph, a: Arguments) -> Node:
    x = tensor(a["input"], "input")
    dtype = a.get("dtype")
    if dtype is None or (
        isinstance(dtype, Node) and dtype.operation == "constant" and dtype.attribute("value") is None
    ):
        return x
    return g.node("cast", x, element_type(g, dtype))


def element_type(g: Graph, value: Value) -> Node:
    """A dtype argument as a node: `dtype` or `dtype_of`.

    Raises:
        NotUnderstood: it may be anything (a device, a name from outside).
    """
    if isinstance(value, Node):
        if value.operation in ("dtype", "dtype_of", "choose"):
            return value
        if value.operation == "global":
            name = DTYPES.get(str(value.attribute("name")))
            if name is not None:
                return g.node("dtype", name=name)
    raise NotUnderstood("the element type is not known")


def _softmax(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        return g.node(operation, _upcast(g, a), dim=static_int(a.get("dim"), "dim"))

    return build


for _name in ("softmax", "log_softmax"):
    _row(f"{_F}{_name}", "input dim? _stacklevel? dtype?", _softmax(_name))
    _row(f"{_T}{_name} torch.special.{_name}", "input dim dtype?", _softmax(_name), _name)


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


def _flag(value: Value | None, default: bool) -> bool:
    return default if value is None else bool(static(value, "flag"))


def _reduce(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        return g.node(operation, _upcast(g, a), dims=_dims(a.get("dim")), keepdim=_flag(a.get("keepdim"), False))

    return build


_row("torch.mean", "input dim? keepdim? dtype?", _reduce("mean"), "mean")
_row("torch.sum", "input dim? keepdim? dtype?", _reduce("sum"), "sum")
_row("torch.amax", "input dim? keepdim?", _reduce("amax"), "amax")
_row("torch.amin", "input dim? keepdim?", _reduce("amin"), "amin")


def _variance(root: bool) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        dim, unbiased = a.get("dim"), a.get("unbiased")
        # x.var(False): a lone bool in the place of dim is `unbiased` over all axes.
        if isinstance(dim, Node) and isinstance(dim.attribute("value"), bool):
            raise NotUnderstood("variance over all axes")
        correction = 1 if _flag(unbiased, True) else 0
        if "correction" in a:
            correction = static_int(a["correction"], "correction")
        x = tensor(a["input"], "input")
        out = g.node("variance", x, dims=_dims(dim), keepdim=_flag(a.get("keepdim"), False), correction=correction)
        return g.unary("sqrt", out) if root else out

    return build


_row("torch.var", "input dim? unbiased? keepdim? correction?", _variance(False), "var")
_row("torch.std", "input dim? unbiased? keepdim? correction?", _variance(True), "std")


def _cast(name: str) -> Build:
    return lambda g, a, _: g.node("cast", tensor(a["input"], "x"), g.node("dtype", name=name))


for _method, _name in (("float", "float32"), ("half", "float16"), ("bfloat16", "bfloat16"), ("double", "float64")):
    _row("", "input", _cast(_name), _method)
for _method, _name in (("bool", "bool"), ("long", "int64"), ("int", "int32"), ("byte", "uint8")):
    _row("", "input", _cast(_name), _method)


def _is_device(value: Node) -> bool:
    if value.operation == "field":
        return value.attribute("name") == "device"
    return value.operation == "constant" and isinstance(value.attribute("value"), str)


def _to(g: Graph, a: Arguments, rest: tuple[Value, ...]) -> Node:
    x = tensor(a["input"], "x")
    given = [value for value in (a.get("target"), a.get("dtype"), *rest) if value is not None]
    moved = a.get("device") is not None
    for value in given:
        if not isinstance(value, Node):
            raise NotUnderstood("to() with something that is no dtype, device or tensor")
        if value.operation in ("dtype", "dtype_of") or DTYPES.get(str(value.attribute("name"))) is not None:
            x = g.node("cast", x, element_type(g, value))
        elif _is_device(value):
            moved = True
        else:
            raise NotUnderstood("to() with a value that may be a dtype, a device or a tensor")
    if moved:
        # Moving between devices keeps values: it does not block, but stays visible.
        x = g.node("contiguous", x)
    return x


_row("", "input target? dtype? device? non_blocking? copy?", _to, "to")
_row(
    "",
    "input other",
    lambda g, a, _: g.node("cast", tensor(a["input"], "x"), g.node("dtype_of", tensor(a["other"], "other"))),
    "type_as",
)
_row("", "input dtype", lambda g, a, _: g.node("cast", tensor(a["input"], "x"), element_type(g, a["dtype"])), "type")


def _sizes(g: Graph, first: Value | None, rest: tuple[Value, ...]) -> tuple[Node, ...]:
    """Sizes given one by one or as one tuple; a shape of unknown length stays one operand."""
    values = ([] if first is None else [first]) + list(rest)
    if len(values) == 1 and isinstance(values[0], Node) and values[0].operation == "tuple":
        values = list(values[0].inputs)
    return tuple(tensor(value, "size") for value in values)


def _sized(operation: str) -> Build:
    def build(g: Graph, a: Arguments, rest: tuple[Value, ...]) -> Node:
        return g.node(operation, tensor(a["input"], "x"), *_sizes(g, a.get("shape"), rest))

    return build


_row("torch.reshape", "input shape *rest", _sized("reshape"), "view reshape")
_row("", "input shape *rest", _sized("expand"), "expand")
_row("", "input shape *rest", _sized("repeat"), "repeat")
_row(
    "",
    "input other",
    lambda g, a, _: g.node("reshape", tensor(a["input"], "x"), g.node("shape", tensor(a["other"], "other"))),
    "view_as reshape_as",
)


def _transpose(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node(
        "transpose", tensor(a["input"], "x"), a=static_int(a["dim0"], "axis"), b=static_int(a["dim1"], "axis")
    )


_row("torch.transpose torch.swapaxes torch.swapdims", "input dim0 dim1", _transpose, "transpose swapaxes swapdims")


def _permute(g: Graph, a: Arguments, rest: tuple[Value, ...]) -> Node:
    dims = tuple(static_int(d, "axis") for d in _sizes(g, a.get("dims"), rest))
    return g.node("permute", tensor(a["input"], "x"), dims=dims)


_row("torch.permute", "input dims? *rest", _permute, "permute")


def _axis(operation: str, default: int | None) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        dim = a.get("dim")
        return g.node(operation, tensor(a["input"], "x"), dim=default if dim is None else static_int(dim, "dim"))

    return build


_row("torch.unsqueeze", "input dim", _axis("unsqueeze", None), "unsqueeze")
_row("torch.squeeze", "input dim?", _axis("squeeze", None), "squeeze")
_row("torch.unbind", "input dim?", _axis("unbind", 0), "unbind")
_row("torch.cumsum", "input dim", _axis("cumsum", None), "cumsum")


def _flatten(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    start = 0 if a.get("start_dim") is None else static_int(a["start_dim"], "start_dim")
    end = -1 if a.get("end_dim") is None else static_int(a["end_dim"], "end_dim")
    return g.node("flatten", tensor(a["input"], "x"), start=start, end=end)


_row("torch.flatten", "input start_dim? end_dim?", _flatten, "flatten")
_row(
    "",
    "input memory_format?",
    lambda g, a, _: g.node("contiguous", tensor(a["input"], "x")),
    "contiguous clone cpu cuda",
)
_row("torch.clone", "input", lambda g, a, _: g.node("contiguous", tensor(a["input"], "x")))
_row("", "input", lambda g, a, _: g.node("detach", tensor(a["input"], "x")), "detach")
_row("", "input", lambda g, a, _: g.node("transpose", tensor(a["input"], "x"), a=0, b=1), "t")


def _parts(operation: str, size: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        dim = 0 if a.get("dim") is None else static_int(a["dim"], "dim")
        x = tensor(a["input"], "x")
        if operation == "chunk":
            return g.node("chunk", x, count=static_int(a[size], "chunks"), dim=dim)
        return g.node("split", x, tensor(a[size], "size"), dim=dim)

    return build


_row("torch.chunk", "input chunks dim?", _parts("chunk", "chunks"), "chunk")
_row("torch.split", "input split_size dim?", _parts("split", "split_size"), "split")


def _join(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        parts = a["tensors"]
        if not (isinstance(parts, Node) and parts.operation == "tuple"):
            raise NotUnderstood("a list of tensors of unknown length")
        dim = 0 if a.get("dim") is None else static_int(a["dim"], "dim")
        return g.node(operation, *parts.inputs, dim=dim)

    return build


_row("torch.cat torch.concat torch.concatenate", "tensors dim?", _join("concatenate"))
_row("torch.stack", "tensors dim?", _join("stack"))


def _repeat_interleave(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    dim = a.get("dim")
    return g.node(
        "repeat_interleave",
        tensor(a["input"], "x"),
        tensor(a["repeats"], "repeats"),
        dim=None if dim is None else static_int(dim, "dim"),
    )


_row("torch.repeat_interleave", "input repeats dim?", _repeat_interleave, "repeat_interleave")


def _where(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node("where", *(tensor(a[k], k) for k in ("condition", "input", "other")))


_row("torch.where", "condition input other", _where)


def _masked_fill(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node("where", tensor(a["mask"], "mask"), tensor(a["value"], "value"), tensor(a["input"], "x"))


_row("torch.masked_fill", "input mask value", _masked_fill, "masked_fill")


def _clamp(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    low, high = a.get("min"), a.get("max")
    return g.node(
        "clamp",
        tensor(a["input"], "x"),
        g.none if low is None else tensor(low, "min"),
        g.none if high is None else tensor(high, "max"),
    )


_row("torch.clamp torch.clip", "input min? max?", _clamp, "clamp clip")


def _dropout(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    if a.get("inplace") is not None and _flag(a["inplace"], False):
        raise NotUnderstood("dropout in place")
    p = tensor(a.get("p") or g.constant(0.5), "p")
    return g.node("dropout", tensor(a["input"], "x"), p, tensor(a.get("training") or g.constant(True), "training"))


_row(f"{_F}dropout", "input p? training? inplace?", _dropout)
_row(
    "torch.dropout",
    "input p train",
    lambda g, a, _: g.node("dropout", *(tensor(a[k], k) for k in ("input", "p", "train"))),
)


def _optional(g: Graph, a: Arguments, name: str) -> Node:
    value = a.get(name)
    return g.none if value is None else tensor(value, name)


def _linear(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node("linear", tensor(a["input"], "x"), tensor(a["weight"], "weight"), _optional(g, a, "bias"))


_row(f"{_F}linear torch._C._nn.linear", "input weight bias?", _linear)


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


_row("torch.baddbmm", "input batch1 batch2 beta? alpha?", lambda g, a, _: _scaled_add(g, a, 3), "baddbmm")
_row(
    "torch.addmm",
    "input mat1 mat2 beta? alpha?",
    lambda g, a, _: _scaled_add(g, {**a, "batch1": a["mat1"], "batch2": a["mat2"]}, 2),
    "addmm",
)
_row("torch.einsum", "equation *operands", lambda g, a, rest: einsum(g, static(a["equation"], "equation"), rest))
_row("einops.rearrange", "tensor pattern", lambda g, a, _: rearrange(g, tensor(a["tensor"], "x"), a["pattern"], {}))


def _gelu(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    flavour = "none" if a.get("approximate") is None else static(a["approximate"], "approximate")
    if flavour not in ("none", "tanh"):
        raise NotUnderstood("unknown GELU flavour")
    return g.node("gelu", tensor(a["input"], "x"), approximate=flavour)


_row(f"{_F}gelu torch._C._nn.gelu", "input approximate?", _gelu)
for _name in ("silu", "mish", "hardswish"):
    _row(f"{_F}{_name}", "input", _one(_name))


def _attention(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node(
        "scaled_dot_product_attention",
        tensor(a["query"], "query"),
        tensor(a["key"], "key"),
        tensor(a["value"], "value"),
        _optional(g, a, "attn_mask"),
        tensor(a.get("dropout_p") or g.constant(0.0), "dropout_p"),
        _optional(g, a, "scale"),
        tensor(a.get("is_causal") or g.constant(False), "is_causal"),
        tensor(a.get("enable_gqa") or g.constant(False), "enable_gqa"),
    )


_row(
    f"{_F}scaled_dot_product_attention torch._C._nn.scaled_dot_product_attention",
    "query key value attn_mask? dropout_p? is_causal? scale? enable_gqa?",
    _attention,
)


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
    return g.node("rms_norm", tensor(a["input"], "x"), _optional(g, a, "weight"), _optional(g, a, "eps"), dims=dims)


def _layer_norm(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    dims = _normalized_dims(a["normalized_shape"])
    eps = tensor(a.get("eps") or g.constant(1e-5), "eps")
    return g.node(
        "layer_norm", tensor(a["input"], "x"), _optional(g, a, "weight"), _optional(g, a, "bias"), eps, dims=dims
    )


_row(f"{_F}rms_norm torch.rms_norm", "input normalized_shape weight? eps?", _rms_norm)
_row(f"{_F}layer_norm torch.layer_norm", "input normalized_shape weight? bias? eps?", _layer_norm)


def _size(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    x = tensor(a["input"], "x")
    return g.node("shape", x) if a.get("dim") is None else g.node("size", x, dim=static_int(a["dim"], "dim"))


_row("", "input dim?", _size, "size")
_row("", "input", lambda g, a, _: g.node("rank", tensor(a["input"], "x")), "dim ndimension")


def _triangle(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        diagonal = a.get("diagonal")
        return g.node(operation, tensor(a["input"], "x"), g.constant(0) if diagonal is None else tensor(diagonal, "k"))

    return build


_row("torch.tril", "input diagonal?", _triangle("lower_triangle"), "tril")
_row("torch.triu", "input diagonal?", _triangle("upper_triangle"), "triu")


def _full(value: float) -> Build:
    def build(g: Graph, a: Arguments, rest: tuple[Value, ...]) -> Node:
        return _filled(g, g.constant(value), _sizes(g, a.get("size"), rest), a)

    return build


def _filled(g: Graph, value: Node, sizes: tuple[Node, ...], a: Arguments) -> Node:
    dtype = a.get("dtype")
    name = None if dtype is None else element_type(g, dtype).attribute("name")
    return g.node("full", value, *sizes, dtype=name)


for _name, _value in (("ones", 1.0), ("zeros", 0.0)):
    FUNCTIONS[f"{_T}{_name}"] = TorchFunction("size *rest dtype? device? requires_grad? layout?", _full(_value))


def _full_value(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return _filled(g, tensor(a["fill_value"], "value"), _sizes(g, a["size"], ()), a)


_row("torch.full", "size fill_value dtype? device? requires_grad?", _full_value)


def _like(value: float | None) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        filled = g.constant(value) if value is not None else tensor(a["fill_value"], "value")
        made = g.node("full_like", tensor(a["input"], "x"), filled)
        dtype = a.get("dtype")
        return made if dtype is None else g.node("cast", made, element_type(g, dtype))

    return build


_row("torch.zeros_like", "input dtype? device? memory_format?", _like(0))
_row("torch.ones_like", "input dtype? device? memory_format?", _like(1))
_row("torch.full_like", "input fill_value dtype? device? memory_format?", _like(None))
