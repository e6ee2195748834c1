"""torch functions that arrange or make tensors: casts, views, axes, joins, masks, filled tensors."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.dtypes import DTYPES
from kernelwright.analyzers.frontends.torch.graph import Graph, static_int, tensor
from kernelwright.analyzers.frontends.torch.registry import (
    FUNCTIONS,
    Arguments,
    Build,
    TorchFunction,
    element_type,
    row,
    sizes,
)
from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value

_T, _F = "torch.", "torch.nn.functional."


def _cast(name: str) -> Build:
    return lambda g, a, _: g.node("cast", tensor(a["input"], "x"), g.node("dtype", name=name))


for _method, _name in (("float", "float32"), ("half", "float16"), ("bfloat16", "bfloat16"), ("double", "float64")):
    row("", "input", _cast(_name), _method)
for _method, _name in (("bool", "bool"), ("long", "int64"), ("int", "int32"), ("byte", "uint8")):
    row("", "input", _cast(_name), _method)


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
        if value is a.get("dtype") and value.operation in ("attribute", "input", "field", "call", "choose"):
            x = g.node("cast", x, value)  # whatever it is, it is an element type
        elif value.operation in ("dtype", "dtype_of") or DTYPES.get(str(value.attribute("name"))) is not None:
            x = g.node("cast", x, element_type(g, value))
        elif _is_device(value):
            moved = True
        else:
            raise NotUnderstood("to() with a value that may be a dtype, a device or a tensor")
    if moved:
        # Moving between devices keeps values: it does not block, but stays visible.
        x = g.node("contiguous", x)
    return x


row("", "input target? dtype? device? non_blocking? copy?", _to, "to")
row(
    "",
    "input other",
    lambda g, a, _: g.node("cast", tensor(a["input"], "x"), g.node("dtype_of", tensor(a["other"], "other"))),
    "type_as",
)
row("", "input dtype", lambda g, a, _: g.node("cast", tensor(a["input"], "x"), element_type(g, a["dtype"])), "type")


def _sized(operation: str) -> Build:
    def build(g: Graph, a: Arguments, rest: tuple[Value, ...]) -> Node:
        return g.node(operation, tensor(a["input"], "x"), *sizes(g, a.get("shape"), rest))

    return build


row("torch.reshape", "input shape *rest", _sized("reshape"), "view reshape")
row("", "input shape *rest", _sized("expand"), "expand")
row(
    "",
    "input other",
    lambda g, a, _: g.node("expand_as", tensor(a["input"], "x"), tensor(a["other"], "other")),
    "expand_as",
)
row("", "input shape *rest", _sized("repeat"), "repeat")
row(
    "",
    "input other",
    lambda g, a, _: g.node("reshape", tensor(a["input"], "x"), g.node("shape", tensor(a["other"], "other"))),
    "view_as reshape_as",
)


def _transpose(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node(
        "transpose", tensor(a["input"], "x"), a=static_int(a["dim0"], "axis"), b=static_int(a["dim1"], "axis")
    )


row("torch.transpose torch.swapaxes torch.swapdims", "input dim0 dim1", _transpose, "transpose swapaxes swapdims")


def _permute(g: Graph, a: Arguments, rest: tuple[Value, ...]) -> Node:
    dims = tuple(static_int(d, "axis") for d in sizes(g, a.get("dims"), rest))
    return g.node("permute", tensor(a["input"], "x"), dims=dims)


row("torch.permute", "input dims? *rest", _permute, "permute")


def _axis(operation: str, default: int | None) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        dim = a.get("dim")
        return g.node(operation, tensor(a["input"], "x"), dim=default if dim is None else static_int(dim, "dim"))

    return build


row("torch.unsqueeze", "input dim", _axis("unsqueeze", None), "unsqueeze")
row("torch.squeeze", "input dim?", _axis("squeeze", None), "squeeze")
row("torch.unbind", "input dim?", _axis("unbind", 0), "unbind")
row("torch.cumsum", "input dim", _axis("cumsum", None), "cumsum")


def _flatten(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    start = 0 if a.get("start_dim") is None else static_int(a["start_dim"], "start_dim")
    end = -1 if a.get("end_dim") is None else static_int(a["end_dim"], "end_dim")
    return g.node("flatten", tensor(a["input"], "x"), start=start, end=end)


def _unflatten(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    dim = static_int(a["dim"], "dim")
    return g.node("unflatten", tensor(a["input"], "x"), *sizes(g, a["sizes"], ()), dim=dim)


row("torch.unflatten", "input dim sizes", _unflatten, "unflatten")
row("torch.flatten", "input start_dim? end_dim?", _flatten, "flatten")
row(
    "",
    "input memory_format?",
    lambda g, a, _: g.node("contiguous", tensor(a["input"], "x")),
    "contiguous clone cpu cuda",
)
row("torch.clone", "input", lambda g, a, _: g.node("contiguous", tensor(a["input"], "x")))
row("", "input", lambda g, a, _: g.node("detach", tensor(a["input"], "x")), "detach")
row("", "input", lambda g, a, _: g.node("transpose", tensor(a["input"], "x"), a=0, b=1), "t")


def _parts(operation: str, size: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        dim = 0 if a.get("dim") is None else static_int(a["dim"], "dim")
        x = tensor(a["input"], "x")
        if operation == "chunk":
            return g.node("chunk", x, count=static_int(a[size], "chunks"), dim=dim)
        return g.node("split", x, tensor(a[size], "size"), dim=dim)

    return build


row("torch.chunk", "input chunks dim?", _parts("chunk", "chunks"), "chunk")
row("torch.split", "input split_size dim?", _parts("split", "split_size"), "split")


def _join(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        parts = a["tensors"]
        if not (isinstance(parts, Node) and parts.operation == "tuple"):
            raise NotUnderstood("a list of tensors of unknown length")
        dim = 0 if a.get("dim") is None else static_int(a["dim"], "dim")
        return g.node(operation, *parts.inputs, dim=dim)

    return build


row("torch.cat torch.concat torch.concatenate", "tensors dim?", _join("concatenate"))
row("torch.stack", "tensors dim?", _join("stack"))


def _repeat_interleave(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    dim = a.get("dim")
    return g.node(
        "repeat_interleave",
        tensor(a["input"], "x"),
        tensor(a["repeats"], "repeats"),
        dim=None if dim is None else static_int(dim, "dim"),
    )


row("torch.repeat_interleave", "input repeats dim?", _repeat_interleave, "repeat_interleave")


def _where(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node("where", *(tensor(a[k], k) for k in ("condition", "input", "other")))


row("torch.where", "condition input other", _where)


def _masked_fill(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return g.node("where", tensor(a["mask"], "mask"), tensor(a["value"], "value"), tensor(a["input"], "x"))


row("torch.masked_fill", "input mask value", _masked_fill, "masked_fill")


def _clamp(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    low, high = a.get("min"), a.get("max")
    return g.node(
        "clamp",
        tensor(a["input"], "x"),
        g.none if low is None else tensor(low, "min"),
        g.none if high is None else tensor(high, "max"),
    )


row("torch.clamp torch.clip", "input min? max?", _clamp, "clamp clip")


def _size(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    x = tensor(a["input"], "x")
    return g.node("shape", x) if a.get("dim") is None else g.node("size", x, dim=static_int(a["dim"], "dim"))


row("", "input dim?", _size, "size")
row("", "input", lambda g, a, _: g.node("rank", tensor(a["input"], "x")), "dim ndimension")


def _triangle(operation: str) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        diagonal = a.get("diagonal")
        return g.node(operation, tensor(a["input"], "x"), g.constant(0) if diagonal is None else tensor(diagonal, "k"))

    return build


row("torch.tril", "input diagonal?", _triangle("lower_triangle"), "tril")
row("torch.triu", "input diagonal?", _triangle("upper_triangle"), "triu")


def _full(value: float) -> Build:
    def build(g: Graph, a: Arguments, rest: tuple[Value, ...]) -> Node:
        return _filled(g, g.constant(value), sizes(g, a.get("size"), rest), a)

    return build


def _filled(g: Graph, value: Node, sizes: tuple[Node, ...], a: Arguments) -> Node:
    dtype = a.get("dtype")
    name = None if dtype is None else element_type(g, dtype).attribute("name")
    return g.node("full", value, *sizes, dtype=name)


for _name, _value in (("ones", 1.0), ("zeros", 0.0)):
    FUNCTIONS[f"{_T}{_name}"] = TorchFunction("size *rest dtype? device? requires_grad? layout?", _full(_value))


def _full_value(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
    return _filled(g, tensor(a["fill_value"], "value"), sizes(g, a["size"], ()), a)


row("torch.full", "size fill_value dtype? device? requires_grad?", _full_value)


def _like(value: float | None) -> Build:
    def build(g: Graph, a: Arguments, _: tuple[Value, ...]) -> Node:
        filled = g.constant(value) if value is not None else tensor(a["fill_value"], "value")
        made = g.node("full_like", tensor(a["input"], "x"), filled)
        dtype = a.get("dtype")
        return made if dtype is None else g.node("cast", made, element_type(g, dtype))

    return build


row("torch.zeros_like", "input dtype? device? memory_format?", _like(0))
row("torch.ones_like", "input dtype? device? memory_format?", _like(1))
row("torch.full_like", "input fill_value dtype? device? memory_format?", _like(None))
