"""Random programs of one operation each, over everything the architecture language can run: what predictions learn from.

Pure text, no torch: `draw(generator)` gives an operation's name and a program with shapes. Sizes are drawn over orders of
magnitude, with the extents that models have (768, 64, 3072 …) as often as odd ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

WIDTHS = (32, 48, 64, 80, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1408, 2048, 3072, 4096)
LENGTHS = (1, 7, 16, 32, 49, 50, 64, 77, 100, 128, 196, 197, 256, 384, 512, 1024)
BATCHES = (1, 1, 1, 2, 2, 4, 4, 8, 16)

Shape = tuple[int, ...]


def _width(r: random.Random) -> int:
    return r.choice(WIDTHS) if r.random() < 0.7 else round(2 ** r.uniform(4, 12))


def _length(r: random.Random) -> int:
    return r.choice(LENGTHS) if r.random() < 0.7 else round(2 ** r.uniform(0, 10))


def rows(r: random.Random, limit: float = 2**22.5) -> Shape:
    """The shape of an activation: (batch, length, width), (batch, heads, length, length) or fewer axes."""
    while True:
        kind = r.random()
        batch, length, width = r.choice(BATCHES), _length(r), _width(r)
        if kind < 0.5:
            shape: Shape = (batch, length, width)
        elif kind < 0.7:
            shape = (
                batch,
                r.choice((2, 4, 8, 12, 16)),
                length,
                length if r.random() < 0.5 else r.choice((32, 64, 80, 128)),
            )
        elif kind < 0.85:
            shape = (batch * length, width)
        elif kind < 0.93:
            side = r.choice((7, 14, 28, 32, 56))
            shape = (batch, width, side, side)
        else:
            shape = (round(2 ** r.uniform(2, 22)),)
        if math.prod(shape) <= limit and (math.prod(shape) > 2**11 or r.random() < 0.5):
            return shape


def _text(inputs: list[tuple[str, Shape, str]], *lines: str) -> str:
    declared = [f"  input %{name}: {dtype}[{', '.join(map(str, shape))}]" for name, shape, dtype in inputs]
    return "\n".join(["program op {", *declared, *(f"  {line}" for line in lines), "  return %y", "}"]) + "\n"


def _sizes(shape: Shape, prefix: str = "s") -> tuple[list[str], str]:
    lines = [f"%{prefix}{i} = constant(value={extent})" for i, extent in enumerate(shape)]
    return lines, ", ".join(f"%{prefix}{i}" for i in range(len(shape)))


def _unary(name: str, attributes: str = "") -> Callable[[random.Random], str]:
    return lambda r: _text([("x", rows(r), "float32")], f"%y = {name}(%x{attributes})")


def _binary(name: str, constants: tuple[float, ...] = (0.5, 2.0, 3.0)) -> Callable[[random.Random], str]:
    def made(r: random.Random) -> str:
        shape, kind = rows(r), r.random()
        if kind < 0.3 and constants:
            return _text(
                [("x", shape, "float32")], f"%c = constant(value={r.choice(constants)})", f"%y = {name}(%x, %c)"
            )
        other = shape
        if kind < 0.5:
            other = shape[-1:]
        elif kind < 0.65:
            other = (*shape[:-1], 1)
        elif kind < 0.75 and len(shape) > 2:
            other = (shape[0], *(1,) * (len(shape) - 2), shape[-1])
        return _text([("x", shape, "float32"), ("b", other, "float32")], f"%y = {name}(%x, %b)")

    return made


def _power(r: random.Random) -> str:
    exponent = r.choice((2, 2, 2.0, 3, 3.0, 0.5, -0.5, 1.5, 4))
    return _text([("x", rows(r), "float32")], f"%c = constant(value={exponent})", "%y = pow(%x, %c)")


def _compare(name: str) -> Callable[[random.Random], str]:
    return _binary(name, (0.0, 1.0))


def _mask_of(r: random.Random, shape: Shape) -> Shape:
    if len(shape) > 2 and r.random() < 0.6:
        return (shape[0], *(1,) * (len(shape) - 2), shape[-1])
    return shape


def _where(r: random.Random) -> str:
    shape = rows(r)
    mask = ("m", _mask_of(r, shape), "bool")
    if r.random() < 0.5:
        return _text([mask, ("x", shape, "float32")], "%c = constant(value=-10000.0)", "%y = where(%m, %x, %c)")
    return _text([mask, ("x", shape, "float32"), ("b", shape, "float32")], "%y = where(%m, %x, %b)")


def _clamp(r: random.Random) -> str:
    return _text(
        [("x", rows(r), "float32")], "%a = constant(value=-1.0)", "%b = constant(value=1.0)", "%y = clamp(%x, %a, %b)"
    )


def _cast(r: random.Random) -> str:
    source, target = r.choice(
        (
            ("bool", "float32"),
            ("int64", "float32"),
            ("bfloat16", "float32"),
            ("float32", "bfloat16"),
            ("float32", "bool"),
        )
    )
    return _text([("x", rows(r), source)], f'%d = dtype(name="{target}")', "%y = cast(%x, %d)")


def _not(r: random.Random) -> str:
    return _text([("x", rows(r), "bool")], "%y = logical_not(%x)")


def _logical(name: str) -> Callable[[random.Random], str]:
    def made(r: random.Random) -> str:
        shape = rows(r)
        return _text([("x", shape, "bool"), ("b", _mask_of(r, shape), "bool")], f"%y = {name}(%x, %b)")

    return made


def _reduction(name: str, extra: str = "") -> Callable[[random.Random], str]:
    def made(r: random.Random) -> str:
        shape, kind = rows(r), r.random()
        dims: tuple[int, ...] | None = (-1,)
        if kind > 0.9:
            dims = None
        elif kind > 0.75 and len(shape) > 1:
            dims = (r.randrange(len(shape) - 1),)
        elif kind > 0.65 and len(shape) == 4:
            dims = (2, 3)
        keep = dims is not None and r.random() < 0.7
        return _text([("x", shape, "float32")], f"%y = {name}(%x, dims={dims}, keepdim={keep}{extra})")

    return made


def _along(name: str) -> Callable[[random.Random], str]:
    def made(r: random.Random) -> str:
        shape = rows(r)
        dim = r.randrange(len(shape)) - len(shape) if r.random() < 0.12 else -1
        return _text([("x", shape, "float32")], f"%y = {name}(%x, dim={dim})")

    return made


def _matmul(r: random.Random) -> str:
    while True:
        kind = r.random()
        if kind < 0.3:
            batch: Shape = ()
        elif kind < 0.5:
            batch = (r.choice((2, 4, 8, 12, 24, 48)),)
        else:
            batch = (r.choice(BATCHES), r.choice((2, 4, 8, 12, 16)))
        m = _length(r)
        if batch and r.random() < 0.8:
            d = r.choice((32, 64, 80, 96, 128))
            k, n = (d, m) if r.random() < 0.5 else (m, d)
        else:
            k, n = _width(r), _width(r)
        if 2.0 * math.prod(batch) * m * k * n < 1.5e9 and math.prod(batch) * m * n < 2**23:
            break
    if r.random() < 0.5:
        inputs = [("a", (*batch, m, k), "float32"), ("b", (*batch, n, k), "float32")]
        return _text(inputs, "%t = transpose(%b, a=-2, b=-1)", "%y = matmul(%a, %t)")
    return _text([("a", (*batch, m, k), "float32"), ("b", (*batch, k, n), "float32")], "%y = matmul(%a, %b)")


def _linear(r: random.Random) -> str:
    while True:
        shape: Shape = (r.choice(BATCHES), _length(r))
        k, n = _width(r), _width(r)
        if 2.0 * math.prod(shape) * k * n < 1.5e9:
            break
    inputs = [("x", (*shape, k), "float32"), ("w", (n, k), "float32")]
    if r.random() < 0.7:
        return _text([*inputs, ("b", (n,), "float32")], "%y = linear(%x, %w, %b)")
    return _text(inputs, "%n = constant(value=None)", "%y = linear(%x, %w, %n)")


def _conv(r: random.Random) -> str:
    while True:
        batch, side = r.choice((1, 1, 2, 4)), r.choice((7, 14, 28, 32, 56, 64, 112, 224))
        c, o = r.choice((3, 16, 32, 64, 96, 128, 256, 512)), r.choice((16, 32, 64, 96, 128, 256, 512))
        kernel, stride = r.choice((1, 1, 3, 3, 3, 5, 7, 16)), r.choice((1, 1, 2))
        stride = kernel if kernel == 16 else stride
        groups = 1
        if r.random() < 0.2:
            o, groups = c, c
        padding = 0 if kernel == 16 else kernel // 2
        out = (side + 2 * padding - kernel) // stride + 1
        if out > 0 and 2.0 * batch * o * out * out * c // groups * kernel * kernel < 1e9:
            break
    inputs = [("x", (batch, c, side, side), "float32"), ("w", (o, c // groups, kernel, kernel), "float32")]
    line = f"dimensions=2, stride={stride}, padding={padding}, dilation=1, groups={groups})"
    if r.random() < 0.6:
        return _text([*inputs, ("b", (o,), "float32")], f"%y = conv(%x, %w, %b, {line}")
    return _text(inputs, "%n = constant(value=None)", f"%y = conv(%x, %w, %n, {line}")


def _embedding(r: random.Random) -> str:
    shape = (r.choice(BATCHES), _length(r))
    width = min(_width(r), 2**22 // math.prod(shape))
    return _text(
        [("i", shape, "int64"), ("w", (r.choice((512, 5000, 30522)), width), "float32")], "%y = embedding(%i, %w)"
    )


def _dropout(r: random.Random) -> str:
    return _text(
        [("x", rows(r, 2**19), "float32")],
        "%p = constant(value=0.1)",
        "%t = constant(value=True)",
        "%y = dropout(%x, %p, %t)",
    )


def _batch_norm(r: random.Random) -> str:
    while True:
        c, side = r.choice((16, 32, 64, 128, 256, 512)), r.choice((7, 14, 28, 56, 112))
        shape = (r.choice((1, 2, 4)), c, side, side)
        if math.prod(shape) < 2**22:
            break
    vectors = [(name, (c,), "float32") for name in ("m", "v", "w", "b")]
    return _text(
        [("x", shape, "float32"), *vectors],
        "%t = constant(value=False)",
        "%e = constant(value=1e-05)",
        "%y = batch_norm(%x, %m, %v, %w, %b, %t, %e)",
    )


def _attention(r: random.Random) -> str:
    while True:
        batch, heads, length, d = (
            r.choice((1, 1, 2, 4)),
            r.choice((2, 4, 8, 12, 16)),
            _length(r),
            r.choice((32, 64, 80, 128)),
        )
        keys = length if r.random() < 0.8 else _length(r)
        if 4.0 * batch * heads * length * keys * d < 1e9:
            break
    inputs = [("q", (batch, heads, length, d), "float32"), ("k", (batch, heads, keys, d), "float32")]
    inputs += [("v", (batch, heads, keys, d), "float32")]
    mask, causal = "%n", "%f"
    kind = r.random()
    if kind < 0.35:
        inputs.append(("mask", (batch, 1, 1, keys) if r.random() < 0.7 else (batch, 1, length, keys), "float32"))
        mask = "%mask"
    elif kind < 0.55 and keys == length:
        causal = "%t"
    return _text(
        inputs,
        "%n = constant(value=None)",
        "%p = constant(value=0.0)",
        "%f = constant(value=False)",
        "%t = constant(value=True)",
        f"%y = scaled_dot_product_attention(%q, %k, %v, {mask}, %p, %n, {causal}, %f)",
    )


def _rms_norm(r: random.Random) -> str:
    shape = rows(r)
    return _text(
        [("x", shape, "float32"), ("w", shape[-1:], "float32")],
        "%e = constant(value=1e-06)",
        "%y = rms_norm(%x, %w, %e, dims=1)",
    )


def _layer_norm(r: random.Random) -> str:
    shape = rows(r)
    return _text(
        [("x", shape, "float32"), ("w", shape[-1:], "float32"), ("b", shape[-1:], "float32")],
        "%e = constant(value=1e-05)",
        "%y = layer_norm(%x, %w, %b, %e, dims=1)",
    )


def _cross_entropy(r: random.Random) -> str:
    n, classes = _length(r), r.choice((2, 10, 100, 1000, 5000, 30522))
    while n * classes > 2**22:
        n = n // 2
    return _text(
        [("x", (max(n, 1), classes), "float32"), ("t", (max(n, 1),), "int64")],
        "%n = constant(value=None)",
        '%y = cross_entropy(%x, %t, %n, ignore_index=-100, reduction="mean", label_smoothing=0.0)',
    )


def _copied(r: random.Random) -> str:
    while len(shape := rows(r)) < 2:
        pass
    a, b = r.choice(((-1, -2), (1, 2))) if len(shape) > 2 else (-1, -2)
    return _text([("x", shape, "float32")], f"%t = transpose(%x, a={a}, b={b})", "%y = contiguous(%t)")


def _joined(name: str) -> Callable[[random.Random], str]:
    def made(r: random.Random) -> str:
        shape, count = rows(r, 2**21), r.choice((2, 2, 2, 3, 4))
        names = [f"x{i}" for i in range(count)]
        arguments = ", ".join(f"%{n}" for n in names)
        dim = r.choice((-1, 0)) if len(shape) > 1 else 0
        return _text([(n, shape, "float32") for n in names], f"%y = {name}({arguments}, dim={dim})")

    return made


def _repeat(r: random.Random) -> str:
    shape = rows(r, 2**20)
    lines, arguments = _sizes((r.choice((2, 3, 4)), *(1,) * (len(shape) - 1)))
    return _text([("x", shape, "float32")], *lines, f"%y = repeat(%x, {arguments})")


def _interleave(r: random.Random) -> str:
    shape = rows(r, 2**20)
    return _text(
        [("x", shape, "float32")],
        f"%c = constant(value={r.choice((2, 4, 8))})",
        f"%y = repeat_interleave(%x, %c, dim={r.randrange(len(shape))})",
    )


def _triangle(name: str) -> Callable[[random.Random], str]:
    def made(r: random.Random) -> str:
        side = max(2, _length(r))
        return _text(
            [("x", (side, side), "float32")], f"%d = constant(value={r.choice((0, 1))})", f"%y = {name}(%x, %d)"
        )

    return made


def _full(r: random.Random) -> str:
    lines, arguments = _sizes(rows(r))
    return _text([], *lines, "%v = constant(value=0.0)", f'%y = full(%v, {arguments}, dtype="float32")')


def _arange(r: random.Random) -> str:
    return _text(
        [],
        "%a = constant(value=0)",
        f"%b = constant(value={_length(r)})",
        "%c = constant(value=1)",
        '%y = arange(%a, %b, %c, dtype="int64")',
    )


def _full_like(r: random.Random) -> str:
    return _text([("x", rows(r), "float32")], "%v = constant(value=1.0)", "%y = full_like(%x, %v)")


DRAWS: dict[str, Callable[[random.Random], str]] = {
    **{name: _unary(name) for name in ("neg", "abs", "exp", "log", "sin", "cos", "tanh", "erf", "sqrt", "rsqrt")},
    **{name: _unary(name) for name in ("reciprocal", "sigmoid", "softplus", "relu", "silu", "mish", "hardswish")},
    "gelu": _unary("gelu", ', approximate="none"'),
    "gelu_tanh": _unary("gelu", ', approximate="tanh"'),
    **{name: _binary(name) for name in ["add", "sub", "mul", "div", "maximum", "minimum"]},
    **{name: _binary(name, (2.0, 3.0)) for name in ["floordiv", "mod"]},
    **{name: _compare(name) for name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]},
    "pow": _power,
    "where": _where,
    "clamp": _clamp,
    "cast": _cast,
    "logical_not": _not,
    **{name: _logical(name) for name in ["logical_and", "logical_or"]},
    **{name: _reduction(name) for name in ["sum", "mean", "amax", "amin"]},
    "variance": _reduction("variance", ", correction=0"),
    "norm": _reduction("norm", ", order=2"),
    **{name: _along(name) for name in ["softmax", "log_softmax", "cumsum"]},
    "matmul": _matmul,
    "linear": _linear,
    "conv": _conv,
    "embedding": _embedding,
    "dropout": _dropout,
    "batch_norm": _batch_norm,
    "scaled_dot_product_attention": _attention,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "cross_entropy": _cross_entropy,
    "contiguous": _copied,
    "concatenate": _joined("concatenate"),
    "stack": _joined("stack"),
    "repeat": _repeat,
    "repeat_interleave": _interleave,
    **{name: _triangle(name) for name in ("lower_triangle", "upper_triangle")},
    "full": _full,
    "full_like": _full_like,
    "arange": _arange,
}
"""How each operation's programs are drawn."""

HEAVY = ("matmul", "linear", "conv", "scaled_dot_product_attention", "softmax", "layer_norm", "mul", "add")
"""Drawn four times as often: their time hangs on more than the number of elements."""


def draw(r: random.Random) -> tuple[str, str]:
    """An operation and a program of it."""
    name = r.choice((*DRAWS, *HEAVY * 3))
    return name, DRAWS[name](r)
