"""How each operation is spelled in torch: a node with its operands' code in, one Python expression out. No torch here.

The code is run in the worker, and programs come from files nobody vouches for: only names from closed lists and `repr`
of constants may enter an expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Attribute, Node
from kernelwright.tuner.values import DType, TensorType, Unknown, Value, dtype_name, is_float

COMPARE, SUM, PRODUCT, SIGN, POWER, ATOM = range(6)
"""Python's binding strengths, weakest first."""

DTYPES = frozenset(["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"])


@dataclass(frozen=True, slots=True)
class Code:
    """A Python expression, how strongly it binds, and what is known of its value."""

    text: str
    strength: int
    value: Value

    def at(self, strength: int) -> str:
        """The expression, in parentheses where it binds weaker than `strength`."""
        return self.text if self.strength >= strength else f"({self.text})"

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.value, TensorType)

    @property
    def absent(self) -> bool:
        return self.value is None


class NoSpelling(Exception):
    """An operation that torch code cannot express; the message says which and why."""


Spelling = Callable[[Node, tuple[Code, ...], bool], tuple[str, int]]
"""Node, operands, whether the double-precision oracle is spelled -> expression and its strength."""


def literal(value: Attribute) -> str:
    """A constant as a Python expression."""
    if isinstance(value, tuple):
        inner = ", ".join(literal(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def dtype_code(name: str, oracle: bool) -> str:
    """`torch.float32`; every floating-point type is float64 in the oracle.

    Raises:
        NoSpelling: no element type of that name.
    """
    known = dtype_name(name)
    if known not in DTYPES:
        raise NoSpelling(f"no element type {name!r}")
    return "torch.float64" if oracle and is_float(known) else f"torch.{known}"


def _call(template: str) -> Spelling:
    """`torch.exp({0})`: operands are filled in as arguments, `{name}` by the node's attribute."""

    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        attributes = {key: literal(value) for key, value in node.attributes}
        return template.format(*(code.text for code in o), **attributes), ATOM

    return spell


def _method(template: str) -> Spelling:
    """`{0}.transpose({a}, {b})`: the first operand is the object."""

    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        attributes = {key: literal(value) for key, value in node.attributes}
        return template.format(o[0].at(ATOM), *(code.text for code in o[1:]), **attributes), ATOM

    return spell


def _unary(tensor: str, scalar: str) -> Spelling:
    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        return (tensor if o[0].is_tensor else scalar).format(o[0].text), ATOM

    return spell


def _binary(symbol: str, strength: int) -> Spelling:
    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        left = o[0].at(strength + 1 if strength in (COMPARE, POWER) else strength)
        return f"{left} {symbol} {o[1].at(strength + 1 if strength != POWER else SIGN)}", strength

    return spell


def _neg(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    return f"-{o[0].at(POWER)}", SIGN


def _not(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    value = o[0].value
    if not isinstance(value, TensorType):
        return f"(not {o[0].text})", ATOM
    return (f"~{o[0].at(POWER)}", SIGN) if value.dtype == "bool" else (f"torch.logical_not({o[0].text})", ATOM)


def _logical(symbol: str, word: str) -> Spelling:
    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        if not any(code.is_tensor for code in o):
            return f"({o[0].text} {word} {o[1].text})", ATOM
        if all(code.is_tensor for code in o):
            booleans = all(isinstance(c.value, TensorType) and c.value.dtype == "bool" for c in o)
            if not booleans:
                return f"torch.logical_{word}({o[0].text}, {o[1].text})", ATOM
        return f"({o[0].text}) {symbol} ({o[1].text})", COMPARE

    return spell


def _extreme(word: str, bound: str) -> Spelling:
    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        if all(code.is_tensor for code in o):
            return f"torch.{word}imum({o[0].text}, {o[1].text})", ATOM
        if not any(code.is_tensor for code in o):
            return f"{word}({o[0].text}, {o[1].text})", ATOM
        tensor, number = (o[0], o[1]) if o[0].is_tensor else (o[1], o[0])
        return f"torch.clamp({tensor.text}, {bound}={number.text})", ATOM

    return spell


def _clamp(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    low, high = (*o[1:], None, None)[:2]
    bounds = [f"{name}={c.text}" for name, c in (("min", low), ("max", high)) if c is not None and not c.absent]
    if not o[0].is_tensor:
        text = o[0].text if low is None or low.absent else f"max({o[0].text}, {low.text})"
        return (text if high is None or high.absent else f"min({text}, {high.text})"), ATOM
    return f"torch.clamp({', '.join([o[0].text, *bounds])})", ATOM


def _cast(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    target = o[1].text
    if isinstance(o[1].value, DType) and target.startswith("torch."):
        target = dtype_code(o[1].value.name, oracle)
    if not o[0].is_tensor:
        word = o[1].value.name if isinstance(o[1].value, DType) else "float"
        return f"{'bool' if word == 'bool' else 'float' if 'float' in word else 'int'}({o[0].text})", ATOM
    return f"{o[0].at(ATOM)}.to({target})", ATOM


def _reduction(function: str) -> Spelling:
    """A reduction over `dims`; None is all."""

    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        arguments = [o[0].text]
        if "order" in dict(node.attributes):
            order = node.attribute("order")
            arguments.append(f"ord={literal(2 if order in (None, 'fro') else order)}")
        dims = node.attribute("dims")
        if dims is not None and dims != ():
            arguments.append(f"dim={literal(dims)}")
        if "correction" in dict(node.attributes):
            arguments.append(f"correction={literal(node.attribute('correction'))}")
        if node.attribute("keepdim"):
            if dims is None or dims == ():
                arguments.append("dim=None" if function == "torch.sum" else "dim=()")
            arguments.append("keepdim=True")
        return f"{function}({', '.join(arguments)})", ATOM

    return spell


def _sizes(codes: tuple[Code, ...]) -> str:
    return ", ".join(code.text for code in codes)


def _unflatten(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    sizes = ", ".join(code.text for code in o[1:])
    return f"{o[0].at(ATOM)}.unflatten({node.attribute('dim')}, ({sizes}))", ATOM


def _sized(method: str) -> Spelling:
    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        return f"{o[0].at(ATOM)}.{method}({_sizes(o[1:])})", ATOM

    return spell


def _joining(function: str) -> Spelling:
    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        parts = o[0].text if len(o) == 1 and isinstance(o[0].value, tuple) else f"[{_sizes(o)}]"
        return f"torch.{function}({parts}, dim={literal(node.attribute('dim'))})", ATOM

    return spell


def _index(node: Node, x: Code, index: str) -> tuple[str, int]:
    """`x[:, :, index]` along the node's axis."""
    axis = node.attribute("dim")
    if not isinstance(axis, int) or not x.is_tensor:
        return f"{x.at(ATOM)}[{index}]", ATOM
    before = ":, " * axis if axis >= 0 else "..., "
    after = "" if axis >= 0 else ", :" * (-axis - 1)
    return f"{x.at(ATOM)}[{before}{index}{after}]", ATOM


def _slice(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    start, stop, step = ("" if code is None or code.absent else code.text for code in (*o[1:], None, None, None)[:3])
    return _index(node, o[0], f"{start}:{stop}" + (f":{step}" if step else ""))


def _pick(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    return _index(node, o[0], o[1].text)


def _take(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    return f"{o[0].at(ATOM)}[{_sizes(o[1:])}]", ATOM


def _dtype_argument(node: Node, oracle: bool) -> str:
    name = node.attribute("dtype")
    return f", dtype={dtype_code(name, oracle)}" if isinstance(name, str) else ""


def _full(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    sizes = o[1].text if len(o) == 2 and isinstance(o[1].value, tuple) else f"({_sizes(o[1:])},)" if o[1:] else "()"
    return f"torch.full({sizes}, {o[0].text}{_dtype_argument(node, oracle)})", ATOM


def _arange(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    start, stop, step = ("0" if o[0].absent else o[0].text, o[1].text, "1" if o[2].absent else o[2].text)
    return f"torch.arange({start}, {stop}, {step}{_dtype_argument(node, oracle)})", ATOM


def _size(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    dim = node.attribute("dim")
    return (f"{o[0].at(ATOM)}.size({dim})" if isinstance(dim, int) else f"tuple({o[0].at(ATOM)}.shape)"), ATOM


def _optional(function: str, names: str, *, attributes: str = "") -> Spelling:
    """Operands by position while given, by name after a gap; absent ones are left out; then attributes by name."""

    def spell(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
        arguments = []
        for name, code in zip(names.split(), o, strict=False):
            if not code.absent:
                arguments.append(code.text if name.endswith("!") else f"{name}={code.text}")
        given = dict(node.attributes)
        arguments += [f"{name}={literal(given[name])}" for name in attributes.split() if name in given]
        return f"{function}({', '.join(arguments)})", ATOM

    return spell


def _conv(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    dimensions = node.attribute("dimensions")
    if dimensions not in (1, 2, 3):
        raise NoSpelling(f"convolution over {dimensions!r} axes")
    return _optional(f"F.conv{dimensions}d", "x! weight! bias", attributes="stride padding dilation groups")(
        node, o, oracle
    )


def _normalised_shape(node: Node, x: Code) -> str:
    axes = node.attribute("dims")
    if not isinstance(axes, int) or not isinstance(x.value, TensorType):
        raise NoSpelling(f"normalisation over {axes!r} axes of {x.value!r}")
    extents = x.value.shape[-axes:]
    if None in extents:
        return f"{x.at(ATOM)}.shape[-{axes}:]"
    return literal(tuple(e for e in extents if e is not None))


def _rms_norm(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    arguments = [o[0].text, _normalised_shape(node, o[0])]
    arguments += [f"{name}={c.text}" for name, c in zip(("weight", "eps"), o[1:], strict=False) if not c.absent]
    return f"F.rms_norm({', '.join(arguments)})", ATOM


def _layer_norm(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    arguments = [o[0].text, _normalised_shape(node, o[0])]
    arguments += [f"{name}={c.text}" for name, c in zip(("weight", "bias", "eps"), o[1:], strict=False) if not c.absent]
    return f"F.layer_norm({', '.join(arguments)})", ATOM


def _attention(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    arguments = [code.text for code in o[:3]]
    names = ("attn_mask", "dropout_p", "scale", "is_causal", "enable_gqa")
    for name, code in zip(names, o[3:], strict=False):
        # the definition adds the mask: a mask of 0 is none, as a dropout of 0 is
        zero = name in ("attn_mask", "dropout_p") and not code.is_tensor and code.value == 0
        neutral = code.absent or code.value is False or zero
        if not neutral or isinstance(code.value, Unknown):
            arguments.append(f"{name}={code.text}")
    return f"F.scaled_dot_product_attention({', '.join(arguments)})", ATOM


def _tuple(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    return f"({_sizes(o)}{',' if len(o) == 1 else ''})", ATOM


def _gelu(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    flavour = node.attribute("approximate", "none")
    return f"F.gelu({o[0].text}{'' if flavour == 'none' else f', approximate={literal(flavour)}'})", ATOM


def _squeeze(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    dim = node.attribute("dim")
    return f"{o[0].at(ATOM)}.squeeze({'' if dim is None else literal(dim)})", ATOM


def _repeat_interleave(node: Node, o: tuple[Code, ...], oracle: bool) -> tuple[str, int]:
    dim = node.attribute("dim")
    return f"{o[0].at(ATOM)}.repeat_interleave({o[1].text}{'' if dim is None else f', dim={literal(dim)}'})", ATOM


def _finfo(field: str) -> Spelling:
    return lambda node, o, oracle: (f"torch.finfo({o[0].text}).{field}", ATOM)


_SIGMOID = "1 / (1 + math.exp(-({0})))"

SPELLINGS: dict[str, Spelling] = {
    "dtype": lambda node, o, oracle: (dtype_code(str(node.attribute("name")), False), ATOM),
    "neg": _neg,
    "abs": _unary("torch.abs({0})", "abs({0})"),
    **{
        name: _unary(f"torch.{name}({{0}})", f"math.{name}({{0}})")
        for name in ["exp", "log", "sin", "cos", "tanh", "erf", "sqrt"]
    },
    "rsqrt": _unary("torch.rsqrt({0})", "(1 / math.sqrt({0}))"),
    "reciprocal": _unary("torch.reciprocal({0})", "(1 / ({0}))"),
    "sigmoid": _unary("torch.sigmoid({0})", f"({_SIGMOID})"),
    "softplus": _unary("F.softplus({0})", "math.log1p(math.exp({0}))"),
    "relu": _unary("F.relu({0})", "max({0}, 0)"),
    "logical_not": _not,
    "add": _binary("+", SUM),
    "sub": _binary("-", SUM),
    "mul": _binary("*", PRODUCT),
    "div": _binary("/", PRODUCT),
    "floordiv": _binary("//", PRODUCT),
    "mod": _binary("%", PRODUCT),
    "pow": _binary("**", POWER),
    "maximum": _extreme("max", "min"),
    "minimum": _extreme("min", "max"),
    "clamp": _clamp,
    "equal": _binary("==", COMPARE),
    "not_equal": _binary("!=", COMPARE),
    "less": _binary("<", COMPARE),
    "less_equal": _binary("<=", COMPARE),
    "greater": _binary(">", COMPARE),
    "greater_equal": _binary(">=", COMPARE),
    "logical_and": _logical("&", "and"),
    "logical_or": _logical("|", "or"),
    "where": _call("torch.where({0}, {1}, {2})"),
    "cast": _cast,
    "sum": _reduction("torch.sum"),
    "mean": _reduction("torch.mean"),
    "amax": _reduction("torch.amax"),
    "amin": _reduction("torch.amin"),
    "variance": _reduction("torch.var"),
    "norm": _reduction("torch.linalg.vector_norm"),
    "softmax": _call("torch.softmax({0}, dim={dim})"),
    "log_softmax": _call("torch.log_softmax({0}, dim={dim})"),
    "cumsum": _call("torch.cumsum({0}, dim={dim})"),
    "matmul": _binary("@", PRODUCT),
    "transpose": _method("{0}.transpose({a}, {b})"),
    "permute": _method("{0}.permute({dims})"),
    "reshape": _sized("reshape"),
    "flatten": _method("{0}.flatten({start}, {end})"),
    "unflatten": _unflatten,
    "unsqueeze": _method("{0}.unsqueeze({dim})"),
    "squeeze": _squeeze,
    "expand": _sized("expand"),
    "expand_as": _method("{0}.expand_as({1})"),
    "repeat": _sized("repeat"),
    "repeat_interleave": _repeat_interleave,
    "concatenate": _joining("cat"),
    "stack": _joining("stack"),
    "chunk": _method("{0}.chunk({1}, dim={dim})"),
    "split": _method("{0}.split({1}, dim={dim})"),
    "unbind": _method("{0}.unbind({dim})"),
    "slice": _slice,
    "pick": _pick,
    "gather": _call("torch.gather({0}, {dim}, {1})"),
    "take": _take,
    "contiguous": _method("{0}.contiguous()"),
    "detach": _method("{0}.detach()"),
    "lower_triangle": _call("torch.tril({0}, {1})"),
    "upper_triangle": _call("torch.triu({0}, {1})"),
    "full": _full,
    "arange": _arange,
    "full_like": _call("torch.full_like({0}, {1})"),
    "size": _size,
    "shape": lambda node, o, oracle: (f"tuple({o[0].at(ATOM)}.shape)", ATOM),
    "join": _binary("+", SUM),
    "rank": _method("{0}.dim()"),
    "dtype_of": _method("{0}.dtype"),
    "finfo_min": _finfo("min"),
    "finfo_max": _finfo("max"),
    "finfo_eps": _finfo("eps"),
    "is_none": lambda node, o, oracle: (f"({o[0].text} is None)", ATOM),
    "truth": _call("bool({0})"),
    "number": lambda node, o, oracle: (o[0].text, o[0].strength),
    "is_tensor": _call("isinstance({0}, torch.Tensor)"),
    "linear": _optional("F.linear", "x! weight! bias"),
    "embedding": _call("F.embedding({0}, {1})"),
    "dropout": _call("F.dropout({0}, {1}, training={2})"),
    "conv": _conv,
    "batch_norm": lambda node, o, oracle: (
        f"F.batch_norm({_sizes(o[:3])}, weight={o[3].text}, bias={o[4].text}, training={o[5].text}, eps={o[6].text})",
        ATOM,
    ),
    "gelu": _gelu,
    "silu": _call("F.silu({0})"),
    "mish": _call("F.mish({0})"),
    "hardswish": _call("F.hardswish({0})"),
    "scaled_dot_product_attention": _attention,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "nll_loss": _call("F.nll_loss({0}, {1}, weight={2}, ignore_index={3}, reduction={4})"),
    "cross_entropy": _optional(
        "F.cross_entropy",
        "x! target! weight ignore_index reduction",
        attributes="ignore_index reduction label_smoothing",
    ),
    "tuple": _tuple,
    "item": _method("{0}[{index}]"),
}
"""Every operation with a torch spelling. `input`, `constant`, `choose` and `raise` are the business of `torch_code`."""
