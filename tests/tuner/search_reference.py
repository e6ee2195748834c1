"""Every program of the task list against numpy, as written and under a random schedule. Runs in an interpreter with tvm;
prints one JSON object: for each program its largest error, relative to the largest value, of both."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[Any]
erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu_erf(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))


def gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight + bias)


def rms_norm(x: Array, weight: Array) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * weight)


def rotary(x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    return np.asarray(x * cos + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin)


def windows(x: Array, r: int, s: int, p: int, d: int = 1, fill: float = 0.0) -> Array:
    """[1, C, H, W] -> [C, H', W', r, r]."""
    padded = np.pad(x[0], ((0, 0), (p, p), (p, p)), constant_values=fill)
    span = (r - 1) * d + 1
    return sliding_window_view(padded, (span, span), (1, 2))[:, ::s, ::s, ::d, ::d]


def conv(x: Array, weight: Array, s: int, p: int, d: int = 1, g: int = 1) -> Array:
    seen, filters = np.split(windows(x, weight.shape[-1], s, p, d), g), np.split(weight, g)
    parts = [np.einsum("cyxab,ocab->oyx", a, b) for a, b in zip(seen, filters, strict=True)]
    return np.concatenate(parts)[None]


def transposed(x: Array, weight: Array, s: int, p: int) -> Array:
    _, _, h, w = x.shape
    r = weight.shape[-1]
    out = np.zeros((weight.shape[1], (h - 1) * s + r, (w - 1) * s + r))
    for y in range(h):
        for z in range(w):
            out[:, y * s : y * s + r, z * s : z * s + r] += np.einsum("c,coab->oab", x[0, :, y, z], weight)
    return out[None, :, p : out.shape[1] - p, p : out.shape[2] - p]


def nhwc(x: Array, weight: Array) -> Array:
    return conv(x.transpose(0, 3, 1, 2), weight.transpose(3, 2, 0, 1), 1, 1).transpose(0, 2, 3, 1)


def logsumexp(x: Array) -> Array:
    return np.asarray(np.log(np.exp(x).sum(1)))


ROWS = {"m": 5, "n": 24}
PRODUCT = {"m": 6, "n": 8, "k": 12}
IMAGE = {"c": 4, "hw": 9, "o": 6, "r": 3, "s": 1, "p": 1}
CASES: dict[str, tuple[dict[str, int], Callable[..., Array]]] = {
    "linear": (PRODUCT, lambda x, w: x @ w.T),
    "matmul": (PRODUCT, lambda a, b: a @ b),
    "linear_gelu": (PRODUCT, lambda x, w, b: gelu_erf(x @ w.T + b)),
    "attention_scores": ({"b": 2, "q": 5, "t": 7, "d": 16}, lambda q, k: q @ k.transpose(0, 2, 1) / 4),
    "attention_values": ({"b": 2, "q": 5, "t": 7, "d": 16}, lambda w, v: w @ v),
    "softmax": (ROWS, softmax),
    "layer_norm": (ROWS, layer_norm),
    "rms_norm": (ROWS, rms_norm),
    "residual_layer_norm": (ROWS, lambda x, r, w, b: layer_norm(x + r, w, b)),
    "residual_rms_norm": (ROWS, lambda x, r, w: rms_norm(x + r, w)),
    "swiglu": (ROWS, lambda g, u: silu(g) * u),
    "geglu": (ROWS, lambda g, u: gelu_tanh(g) * u),
    "rotary": ({"h": 2, "t": 3, "d": 8}, rotary),
    "conv2d": (IMAGE | {"s": 2}, lambda x, w: conv(x, w, 2, 1)),
    "conv2d_nhwc": (IMAGE, nhwc),
    "depthwise_conv2d": ({"c": 4, "hw": 9, "r": 3, "s": 2, "p": 1}, lambda x, w: conv(x, w, 2, 1, g=4)),
    "grouped_conv2d": (IMAGE | {"g": 2}, lambda x, w: conv(x, w, 1, 1, g=2)),
    "dilated_conv2d": (IMAGE | {"p": 2, "d": 2}, lambda x, w: conv(x, w, 1, 2, d=2)),
    "conv2d_bn_relu": (IMAGE, lambda x, w, f, a: np.maximum(conv(x, w, 1, 1) * f[:, None, None] + a[:, None, None], 0)),
    "transposed_conv2d": (IMAGE | {"r": 4, "s": 2}, lambda x, w: transposed(x, w, 2, 1)),
    "max_pool2d": (
        {"c": 4, "hw": 9, "r": 3, "s": 2, "p": 1},
        lambda x: windows(x, 3, 2, 1, fill=-np.inf).max((3, 4))[None],
    ),
    "avg_pool2d": ({"c": 4, "hw": 8, "r": 2, "s": 2, "p": 0}, lambda x: windows(x, 2, 2, 0).mean((3, 4))[None]),
    "row_sum": (ROWS, lambda x: x.sum(1)),
    "row_logsumexp": (ROWS, logsumexp),
    "column_mean": (ROWS, lambda x: x.mean(0)),
    "gelu_erf": (ROWS, gelu_erf),
    "gelu_tanh": (ROWS, gelu_tanh),
    "silu": (ROWS, silu),
    "bias_gelu_tanh": (ROWS, lambda x, b: gelu_tanh(x + b)),
}


def main() -> None:
    sys.modules["torch"] = None  # type: ignore[assignment]  # as in the zygote
    import tvm

    from kernelwright.tuner.search import spaces

    spaces.leave_out_tensor_intrinsics()
    from kernelwright.tuner.search import expressions
    from kernelwright.tuner.search.pseudo_devices import PseudoDevice
    from kernelwright.tuner.search.tasks import Task

    target = PseudoDevice("native", 1).target(spaces.host_cpu())
    source = np.random.default_rng(0)
    errors = {}
    for program, (shapes, reference) in CASES.items():
        task = Task("", program, "", tuple(shapes.items()))
        function = expressions.prim_func(task)
        *inputs, output = ([int(n) for n in tensor.shape] for tensor in expressions.tensors(task))
        arrays = [source.standard_normal(shape, dtype=np.float32) for shape in inputs]
        expected = reference(*(array.astype(np.float64) for array in arrays))
        (sampled, *_) = spaces.sample(function, target, seed=3, count=1)
        errors[program] = []
        for module in (tvm.IRModule({"main": function}), spaces.replay(function, sampled.trace).mod):
            result = tvm.runtime.tensor(np.full(output, np.nan, np.float32))
            tvm.compile(module, target=tvm.target.Target(target)).jit()["main"](
                *(tvm.runtime.tensor(array) for array in arrays), result
            )
            assert expected.shape == tuple(output), (program, expected.shape, output)
            errors[program].append(float(np.max(np.abs(result.numpy() - expected)) / np.max(np.abs(expected))))
    print(json.dumps(errors))


if __name__ == "__main__":
    main()
