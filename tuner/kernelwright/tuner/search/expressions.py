"""Tasks as TVM tensor programs: one function a program, extents in, tensors out (inputs first, the output last). Needs tvm.

Weights keep torch's layout and are not marked free to be packed: what is tuned can be called with the user's own
parameters. Exponential, tanh and erf are topi's polynomials (relative error near 1e-6): LLVM's calls of libm do not
vectorise, and a softmax with them is four times slower than torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx, topi

from kernelwright.tuner.search.tasks import Task

Tensors = list[Any]

EPSILON = 1e-5
ROOT_HALF = 0.7071067811865476
ROOT_2_OVER_PI = 0.7978845608028654


def tensors(task: Task) -> Tensors:
    """The tensors of a task: inputs in order, then the output, all float32 of static shape."""
    return PROGRAMS[task.program](**dict(task.shapes))


def prim_func(task: Task) -> Any:
    """The task as an unscheduled TVM function `main`."""
    function = te.create_prim_func(tensors(task))
    # topi's NHWC convolution declares its weight free to be packed, see above
    return function.without_attr("layout_free_buffers") if "layout_free_buffers" in function.attrs else function


def _input(name: str, *shape: int) -> Any:
    return te.placeholder(shape, name=name, dtype="float32")


# --- pieces ----------------------------------------------------------------------------------------------------------


def _gelu_erf(x: Any) -> Any:
    erf = topi.fast_erf(topi.multiply(x, ROOT_HALF))
    return te.compute(x.shape, lambda *i: 0.5 * x(*i) * (1.0 + erf(*i)), name="gelu")


def _gelu_tanh(x: Any) -> Any:
    inner = te.compute(x.shape, lambda *i: ROOT_2_OVER_PI * (x(*i) + 0.044715 * x(*i) * x(*i) * x(*i)), name="inner")
    tanh = topi.fast_tanh(inner)
    return te.compute(x.shape, lambda *i: 0.5 * x(*i) * (1.0 + tanh(*i)), name="gelu")


def _silu(x: Any) -> Any:
    exp = topi.fast_exp(topi.negative(x))
    return te.compute(x.shape, lambda *i: x(*i) / (1.0 + exp(*i)), name="silu")


def _row_of(x: Any, m: int, n: int, weight: Any) -> Any:
    """x normalised by the root of its rows' mean square, times the weight."""
    k = te.reduce_axis((0, n), name="k")
    square = te.compute((m,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="square")
    return te.compute(
        (m, n), lambda i, j: x[i, j] * tirx.rsqrt(square[i] * (1.0 / n) + EPSILON) * weight[j], name="normal"
    )


# --- matrix products -------------------------------------------------------------------------------------------------


def linear(m: int, n: int, k: int) -> Tensors:
    x, weight = _input("x", m, k), _input("weight", n, k)
    return [x, weight, _linear(x, weight, m, n, k)]


def _linear(x: Any, weight: Any, m: int, n: int, k: int) -> Any:
    axis = te.reduce_axis((0, k), name="k")
    return te.compute((m, n), lambda i, j: te.sum(x[i, axis] * weight[j, axis], axis=axis), name="linear")


def linear_gelu(m: int, n: int, k: int) -> Tensors:
    x, weight, bias = _input("x", m, k), _input("weight", n, k), _input("bias", n)
    product = _linear(x, weight, m, n, k)
    biased = te.compute((m, n), lambda i, j: product[i, j] + bias[j], name="biased")
    return [x, weight, bias, _gelu_erf(biased)]


def matmul(m: int, n: int, k: int) -> Tensors:
    a, b = _input("a", m, k), _input("b", k, n)
    axis = te.reduce_axis((0, k), name="k")
    return [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), name="matmul")]


def attention_scores(b: int, q: int, t: int, d: int) -> Tensors:
    query, key = _input("query", b, q, d), _input("key", b, t, d)
    k = te.reduce_axis((0, d), name="k")
    product = te.compute((b, q, t), lambda h, i, j: te.sum(query[h, i, k] * key[h, j, k], axis=k), name="product")
    return [query, key, te.compute((b, q, t), lambda h, i, j: product[h, i, j] * (d**-0.5), name="scores")]


def attention_values(b: int, q: int, t: int, d: int) -> Tensors:
    weights, value = _input("weights", b, q, t), _input("value", b, t, d)
    k = te.reduce_axis((0, t), name="k")
    out = te.compute((b, q, d), lambda h, i, j: te.sum(weights[h, i, k] * value[h, k, j], axis=k), name="values")
    return [weights, value, out]


# --- rows ------------------------------------------------------------------------------------------------------------


def softmax(m: int, n: int) -> Tensors:
    x = _input("x", m, n)
    return [x, topi.nn.fast_softmax(x, axis=1)]


def layer_norm(m: int, n: int) -> Tensors:
    x, weight, bias = _input("x", m, n), _input("weight", n), _input("bias", n)
    return [x, weight, bias, topi.nn.layer_norm(x, weight, bias, [1], EPSILON)]


def rms_norm(m: int, n: int) -> Tensors:
    x, weight = _input("x", m, n), _input("weight", n)
    return [x, weight, _row_of(x, m, n, weight)]


def residual_layer_norm(m: int, n: int) -> Tensors:
    x, residual, weight, bias = _input("x", m, n), _input("residual", m, n), _input("weight", n), _input("bias", n)
    return [x, residual, weight, bias, topi.nn.layer_norm(topi.add(x, residual), weight, bias, [1], EPSILON)]


def residual_rms_norm(m: int, n: int) -> Tensors:
    x, residual, weight = _input("x", m, n), _input("residual", m, n), _input("weight", n)
    return [x, residual, weight, _row_of(topi.add(x, residual), m, n, weight)]


def row_sum(m: int, n: int) -> Tensors:
    x = _input("x", m, n)
    return [x, topi.sum(x, axis=1)]


def row_logsumexp(m: int, n: int) -> Tensors:
    x = _input("x", m, n)
    k, l = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="l")  # noqa: E741
    peak = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="peak")
    exp = topi.fast_exp(te.compute((m, n), lambda i, j: x[i, j] - peak[i], name="shifted"))
    total = te.compute((m,), lambda i: te.sum(exp[i, l], axis=l), name="total")
    return [x, te.compute((m,), lambda i: tirx.log(total[i]) + peak[i], name="logsumexp")]


def column_mean(m: int, n: int) -> Tensors:
    x = _input("x", m, n)
    k = te.reduce_axis((0, m), name="k")
    total = te.compute((n,), lambda j: te.sum(x[k, j], axis=k), name="total")
    return [x, te.compute((n,), lambda j: total[j] * (1.0 / m), name="mean")]


# --- elementwise -----------------------------------------------------------------------------------------------------


def swiglu(m: int, n: int) -> Tensors:
    gate, up = _input("gate", m, n), _input("up", m, n)
    return [gate, up, topi.multiply(_silu(gate), up)]


def geglu(m: int, n: int) -> Tensors:
    gate, up = _input("gate", m, n), _input("up", m, n)
    return [gate, up, topi.multiply(_gelu_tanh(gate), up)]


def gelu_erf(m: int, n: int) -> Tensors:
    x = _input("x", m, n)
    return [x, _gelu_erf(x)]


def gelu_tanh(m: int, n: int) -> Tensors:
    x = _input("x", m, n)
    return [x, _gelu_tanh(x)]


def silu(m: int, n: int) -> Tensors:
    x = _input("x", m, n)
    return [x, _silu(x)]


def bias_gelu_tanh(m: int, n: int) -> Tensors:
    x, bias = _input("x", m, n), _input("bias", n)
    return [x, bias, _gelu_tanh(te.compute((m, n), lambda i, j: x[i, j] + bias[j], name="biased"))]


def rotary(h: int, t: int, d: int) -> Tensors:
    """x·cos + rotate_half(x)·sin, as Llama's code has it."""
    x, cos, sin = _input("x", h, t, d), _input("cos", t, d), _input("sin", t, d)
    half = d // 2

    def turned(b: Any, i: Any, j: Any) -> Any:
        # if_then_else, not select: the branch that is not taken would read outside of x
        other = tirx.if_then_else(j < half, 0.0 - x[b, i, j + half], x[b, i, j - half])
        return x[b, i, j] * cos[i, j] + other * sin[i, j]

    return [x, cos, sin, te.compute((h, t, d), turned, name="rotary")]


# --- images, batch 1 -------------------------------------------------------------------------------------------------


def conv2d(c: int, hw: int, o: int, r: int, s: int, p: int) -> Tensors:
    x, weight = _input("x", 1, c, hw, hw), _input("weight", o, c, r, r)
    return [x, weight, topi.nn.conv2d_nchw(x, weight, s, p, 1)]


def conv2d_nhwc(c: int, hw: int, o: int, r: int, s: int, p: int) -> Tensors:
    """The image in torch's channels_last; the weight as height, width, in, out."""
    x, weight = _input("x", 1, hw, hw, c), _input("weight", r, r, c, o)
    return [x, weight, topi.nn.conv2d_nhwc(x, weight, s, p, 1)]


def dilated_conv2d(c: int, hw: int, o: int, r: int, s: int, p: int, d: int) -> Tensors:
    x, weight = _input("x", 1, c, hw, hw), _input("weight", o, c, r, r)
    return [x, weight, topi.nn.conv2d_nchw(x, weight, s, p, d)]


def grouped_conv2d(c: int, hw: int, o: int, r: int, s: int, p: int, g: int) -> Tensors:
    x, weight = _input("x", 1, c, hw, hw), _input("weight", o, c // g, r, r)
    return [x, weight, topi.nn.group_conv2d_nchw(x, weight, s, p, 1, g)]


def depthwise_conv2d(c: int, hw: int, r: int, s: int, p: int) -> Tensors:
    x, weight = _input("x", 1, c, hw, hw), _input("weight", c, 1, r, r)
    return [x, weight, topi.nn.depthwise_conv2d_nchw(x, weight, s, p, 1)]


def conv2d_bn_relu(c: int, hw: int, o: int, r: int, s: int, p: int) -> Tensors:
    """Batch norm as in inference: folded into one factor and one summand a channel."""
    x, weight, factor, summand = _input("x", 1, c, hw, hw), _input("weight", o, c, r, r), _input("f", o), _input("a", o)
    out = topi.nn.conv2d_nchw(x, weight, s, p, 1)
    normal = te.compute(out.shape, lambda b, j, y, z: out[b, j, y, z] * factor[j] + summand[j], name="normal")
    return [x, weight, factor, summand, topi.nn.relu(normal)]


def transposed_conv2d(c: int, hw: int, o: int, r: int, s: int, p: int) -> Tensors:
    x, weight = _input("x", 1, c, hw, hw), _input("weight", c, o, r, r)
    return [x, weight, topi.nn.conv2d_transpose_nchw(x, weight, (s, s), (p, p), "float32", (0, 0))]


def _pool2d(kind: str) -> Callable[..., Tensors]:
    def pool(c: int, hw: int, r: int, s: int, p: int) -> Tensors:
        x = _input("x", 1, c, hw, hw)
        return [x, topi.nn.pool2d(x, (r, r), (s, s), (1, 1), (p, p, p, p), kind, False, "NCHW", True)]

    return pool


PROGRAMS: dict[str, Callable[..., Tensors]] = {
    function.__name__: function
    for function in (
        linear, matmul, linear_gelu, attention_scores, attention_values,
        softmax, layer_norm, rms_norm, residual_layer_norm, residual_rms_norm, row_sum, row_logsumexp, column_mean,
        swiglu, geglu, gelu_erf, gelu_tanh, silu, bias_gelu_tanh, rotary,
        conv2d, conv2d_nhwc, dilated_conv2d, grouped_conv2d, depthwise_conv2d, conv2d_bn_relu, transposed_conv2d,
    )
} | {"max_pool2d": _pool2d("max"), "avg_pool2d": _pool2d("avg")}  # fmt: skip
"""Every program of `tasks.FAMILIES`."""
