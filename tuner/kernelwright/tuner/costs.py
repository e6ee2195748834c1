"""What running a program costs: its kernel launches with floating-point operations, bytes and hard functions. No torch.

One entry a launch, as torch's eager CPU path makes them; views are none. The weights were fitted to measured times of
torch 2.13 on an AVX-512 Xeon; a prediction carries an interval of a factor for what they miss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.tuner.layouts import VIEWS, Strides, copies, row_major, strides_of, view_strides
from kernelwright.tuner.shapes import Values, infer, input_types
from kernelwright.tuner.values import ShapeError, TensorType, Value


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel: matrix-product FLOPs (at `efficiency` of the peak), bytes read and written, elements through hard
    functions in units of one tanh, and the bytes of its largest tensor (which decides the bandwidth)."""

    operation: str
    bytes: float
    largest: float
    flops: float = 0.0
    efficiency: float = 1.0
    hard: float = 0.0

    def scaled(self, factor: float) -> Launch:
        return Launch(
            self.operation, self.bytes * factor, self.largest, self.flops * factor, self.efficiency, self.hard * factor
        )


_HARD = {
    "exp": 0.65, "log": 0.95, "sin": 1.35, "cos": 1.35, "tanh": 1.0, "erf": 1.75, "sigmoid": 1.2, "softplus": 4.6,
    "softmax": 1.75, "log_softmax": 1.65, "silu": 1.4, "mish": 12.0, "hardswish": 0.5, "sqrt": 0.3, "rsqrt": 1.25,
    "div": 0.6, "reciprocal": 0.6, "where": 12.0, "variance": 18.0, "pow": 7.5,
}  # fmt: skip
"""Cost of one element in units of a tanh, measured on 64 Ki elements in cache (a `where` is not vectorised)."""

_CHEAP_POWERS = (2, 3, 0.5, -0.5, -1, -2, 1)
"""torch computes these powers with multiplications and roots."""

_MATMUL_EFFICIENCY = 0.7
_FLASH_EFFICIENCY = 0.65
_CONV_EFFICIENCY = 0.5
_DROPOUT = 39.0
"""Random numbers are drawn one by one."""

_FREE = frozenset(
    [
        "input",
        "constant",
        "dtype",
        "size",
        "shape",
        "join",
        "rank",
        "dtype_of",
        "finfo_min",
        "finfo_max",
        "finfo_eps",
        "is_none",
        "is_tensor",
        "truth",
        "number",
    ]
)

_UNKNOWN = frozenset(
    [
        *("opaque", "field", "call", "layer", "global", "parameter", "attribute", "raise", "store", "updated"),
        *("carried", "element", "iteration", "loop"),
    ]
)


def launches(program: Program, *, gradients_of: Collection[str] = ()) -> list[Launch]:
    """The launches of one run of `program` at its declared shapes; with the backward for the inputs `gradients_of`.

    Raises:
        ShapeError: shapes do not fit or an operation's cost is not known.
    """
    values = infer(program, input_types(program))
    walk = _Walk(values, frozenset(gradients_of))
    for node in program.nodes():
        if id(node) in values:
            walk.visit(node)
    return [*walk.forward, *walk.backward]


class _Walk:
    def __init__(self, values: Values, gradients_of: frozenset[str]) -> None:
        self._values = values
        self._gradients_of = gradients_of
        self._strides: dict[int, Strides] = {}
        self._differentiable: set[int] = set()
        self._uses: dict[int, int] = {}
        self.forward: list[Launch] = []
        self.backward: list[Launch] = []

    def visit(self, node: Node) -> None:
        value = self._values[id(node)]
        made = self._forward(node, value)
        self.forward += made
        if isinstance(value, TensorType):
            self._strides[id(node)] = strides_of(node, value, self._values, self._strides)
        if node.operation == "input":
            if node.attribute("name") in self._gradients_of:
                self._differentiable.add(id(node))
            return
        operands = [o for o in node.inputs if id(o) in self._differentiable]
        if not operands or node.operation == "detach":
            return
        self._differentiable.add(id(node))
        tensors = len(self._tensors(node))
        self.backward += [launch.scaled(_backward_factor(launch.operation, tensors)) for launch in made]
        for operand in operands:
            seen = self._uses.get(id(operand), 0)
            self._uses[id(operand)] = seen + 1
            type_ = self._values[id(operand)]
            if seen and isinstance(type_, TensorType) and node.operation not in VIEWS:
                self.backward.append(Launch("accumulate", 3 * type_.bytes, type_.bytes))

    def _tensors(self, node: Node) -> list[TensorType]:
        found = (self._values.get(id(o)) for o in node.inputs)
        return [v for v in found if isinstance(v, TensorType)]

    def _forward(self, node: Node, value: Value) -> list[Launch]:
        name = node.operation
        if name in _UNKNOWN:
            raise ShapeError(f"the cost of {name} is not known")
        if name in _FREE or not isinstance(value, TensorType):
            return []
        if special := _SPECIAL.get(name):
            return special(node, value, self._values, self._strides)
        if name in VIEWS:
            return [_moving(name, value.bytes, value.bytes)] if copies(node, value, self._values, self._strides) else []
        if name == "full_like":
            return [Launch(name, value.bytes, value.bytes)]
        read = sum(self._touched(o) for o in node.inputs)
        elements = max([value.elements, *(t.elements for t in self._tensors(node))])
        weight = _HARD.get(name, 0.0)
        if name == "pow" and self._values[id(node.inputs[1])] in _CHEAP_POWERS:
            weight = 0.5
        return [Launch(name, read + value.bytes, max(read / 2, value.bytes), hard=weight * elements)]

    def _touched(self, node: Node) -> float:
        type_ = self._values.get(id(node))
        if not isinstance(type_, TensorType):
            return 0.0
        strides = self._strides.get(id(node), row_major(type_.shape))
        count = 1.0
        for extent, stride in zip(type_.shape, strides, strict=True):
            count *= (extent or 1) if stride else 1
        return count * (type_.bytes / max(type_.elements, 1))


def _backward_factor(operation: str, tensors: int) -> float:
    """A launch's backward in units of the launch itself."""
    if operation in ("mul", "div", "maximum", "minimum"):
        return 2.0 if tensors > 1 else 0.8
    return _BACKWARD.get(operation, 1.5)


_BACKWARD = {
    "add": 0.1, "sub": 0.1, "matmul": 2.0, "linear": 2.0, "conv": 2.0, "scaled_dot_product_attention": 2.5, "pow": 2.5,
    "layer_norm": 2.0, "gelu": 1.1,
}  # fmt: skip


_Cost = Callable[[Node, TensorType, Values, Mapping[int, Strides]], list[Launch]]


def _moving(name: str, read: float, written: float) -> Launch:
    return Launch(name, read + written, max(read, written))


def _tensor(node: Node, position: int, values: Values) -> TensorType:
    value = values[id(node.inputs[position])]
    if not isinstance(value, TensorType):
        raise ShapeError(f"{node.operation}: operand {position + 1} is no tensor")
    return value


def _scalar(node: Node, position: int, values: Values) -> Value:
    return values[id(node.inputs[position])] if position < len(node.inputs) else None


def _matmul(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    a, b = _tensor(node, 0, values), _tensor(node, 1, values)
    made: list[Launch] = []
    for operand, type_ in zip(node.inputs, (a, b), strict=True):
        if len(type_.shape) > 3 and not _joins(type_, strides.get(id(operand), row_major(type_.shape))):
            made.append(_moving("copy", type_.bytes, type_.bytes))  # batch axes must become one for bmm
    flops = 2.0 * value.elements * (a.shape[-1] or 1)
    moved = a.bytes + b.bytes + value.bytes
    made.append(Launch("matmul", moved, max(a.bytes, b.bytes, value.bytes), flops, _MATMUL_EFFICIENCY))
    return made


def _joins(type_: TensorType, strides: Strides) -> bool:
    batch = type_.shape[:-2]
    count = 1
    for extent in batch:
        count *= extent or 1
    return view_strides(batch, strides[:-2], (count,)) is not None


def _linear(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    x, weight = _tensor(node, 0, values), _tensor(node, 1, values)
    flops = 2.0 * value.elements * (weight.shape[-1] or 1)
    return [
        Launch("linear", x.bytes + weight.bytes + value.bytes, max(x.bytes, value.bytes), flops, _MATMUL_EFFICIENCY)
    ]


def _conv(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    x, weight = _tensor(node, 0, values), _tensor(node, 1, values)
    flops = 2.0 * value.elements * weight.elements / max(weight.shape[0] or 1, 1)
    return [Launch("conv", x.bytes + weight.bytes + value.bytes, max(x.bytes, value.bytes), flops, _CONV_EFFICIENCY)]


def _attention(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    q, k, v = (_tensor(node, i, values) for i in range(3))
    mask, p = _scalar(node, 3, values), _scalar(node, 4, values)
    scores = float((q.elements // max(q.shape[-1] or 1, 1)) * (k.shape[-2] or 1))
    flops = 2.0 * scores * ((q.shape[-1] or 1) + (v.shape[-1] or 1))
    moved = float(q.bytes + k.bytes + v.bytes + value.bytes)
    fused = len(q.shape) == 4 and q.shape[-1] == v.shape[-1] and p in (0, 0.0, None)
    if fused:
        return [Launch(node.operation, moved, q.bytes, flops, _FLASH_EFFICIENCY, 0.4 * scores)]
    size = scores * q.bytes / max(q.elements, 1)
    made = [_moving("mul", q.bytes, q.bytes), _moving("mul", k.bytes, k.bytes)]
    made += [Launch("matmul", size + moved / 2, size, flops / 2, _MATMUL_EFFICIENCY)] * 2
    made.append(Launch("softmax", 2 * size, size, hard=_HARD["softmax"] * scores))
    if isinstance(mask, TensorType):
        made.append(_moving("add", size, size))
    if not fused and p not in (0, 0.0, None):
        made.append(Launch("dropout", 3 * size, size, hard=_DROPOUT * scores))
    return made


def _rms_norm(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    """Not one kernel on a CPU: square, mean, add, root and two products, as the code it replaces."""
    size = float(value.bytes)
    small = size / max(value.shape[-1] or 1, 1)
    made = [_moving("pow", size, size), _moving("mean", size, small), _moving("add", small, small)]
    made += [_moving("rsqrt", small, small), _moving("mul", size, size)]
    return [*made, _moving("mul", size, size)] if _scalar(node, 1, values) is not None else made


def _norm(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    return [Launch(node.operation, 2.5 * value.bytes, value.bytes, hard=2.5 * value.elements)]


def _gelu(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    weight = 5.8 if node.attribute("approximate") == "tanh" else 1.9
    return [Launch("gelu", 2.0 * value.bytes, value.bytes, hard=weight * value.elements)]


def _dropout(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    if _scalar(node, 1, values) in (0, 0.0) or _scalar(node, 2, values) is False:
        return []
    return [Launch("dropout", 3.0 * value.bytes, value.bytes, hard=_DROPOUT * value.elements)]


def _cast(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    source = _tensor(node, 0, values)
    return [] if source.dtype == value.dtype else [_moving("cast", source.bytes, value.bytes)]


def _rows(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    return [_moving(node.operation, value.bytes, value.bytes)]


def _cross_entropy(node: Node, value: TensorType, values: Values, strides: Mapping[int, Strides]) -> list[Launch]:
    x = _tensor(node, 0, values)
    first = Launch("log_softmax", 2.0 * x.bytes, x.bytes, hard=_HARD["log_softmax"] * x.elements)
    return [first, _moving("nll_loss", value.bytes, value.bytes)]


_SPECIAL: dict[str, _Cost] = {
    "matmul": _matmul,
    "linear": _linear,
    "conv": _conv,
    "scaled_dot_product_attention": _attention,
    "rms_norm": _rms_norm,
    "layer_norm": _norm,
    "batch_norm": _norm,
    "gelu": _gelu,
    "dropout": _dropout,
    "cast": _cast,
    "cross_entropy": _cross_entropy,
    "nll_loss": _rows,
    **dict.fromkeys(("embedding", "gather", "take", "full", "arange", "concatenate", "stack", "repeat"), _rows),
}
