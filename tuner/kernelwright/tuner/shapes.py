"""Shapes and element types of every value of a program without running it: input types in, a value a node out.

Python arithmetic on sizes is done, so branches that hang on shapes, constants and absent inputs are decided here: the
result holds the nodes that are computed, and only those. No torch here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.tuner.shape_rules import RULES
from kernelwright.tuner.values import UNKNOWN, DType, ShapeError, TensorType, Unknown, Value, dtype_name, promote

Values = Mapping[int, Value]
"""What is known of each computed node, by `id(node)`."""


def input_types(program: Program) -> dict[str, Value]:
    """The declared type of each input: a tensor where it has a shape, its `value` where it carries one.

    Raises:
        ShapeError: an input with neither.
    """
    types: dict[str, Value] = {}
    for node in program.inputs:
        name, shape, dtype = str(node.attribute("name")), node.attribute("shape"), node.attribute("dtype")
        carried = dict(node.attributes)
        if "value" in carried:
            types[name] = carried["value"]
        elif isinstance(shape, tuple) and isinstance(dtype, str):
            types[name] = TensorType(tuple(e for e in shape if isinstance(e, int)), dtype_name(dtype))
        elif isinstance(dtype, str):
            types[name] = UNKNOWN
        else:
            raise ShapeError(f"input {name} has no shape and no value")
    return types


def infer(program: Program, types: Mapping[str, Value], *, dtypes_known: bool = True) -> dict[int, Value]:
    """The value of each node that running `program` computes, branches decided where they can be.

    `dtypes_known=False`: element types may change at run time (autocast), so nothing is decided by them.

    Raises:
        ShapeError: shapes do not fit, or an operation has no rule (`opaque`, `call`, ...).
    """
    values: dict[int, Value] = {}
    for root in (*program.inputs, *program.effects, *program.outputs):
        _evaluate(root, types, values, dtypes_known)
    return values


def decided(node: Node, values: Values) -> Node | None:
    """The operand that a `choose` node takes, or None where only running tells."""
    condition = truth(values[id(node.inputs[0])])
    return None if condition is None else node.inputs[1] if condition else node.inputs[2]


def truth(value: Value) -> bool | None:
    """Python's truth of a value, None where it is not known."""
    if isinstance(value, Unknown | TensorType):
        return None
    return bool(value) if not isinstance(value, DType) else True


def _evaluate(root: Node, types: Mapping[str, Value], values: dict[int, Value], dtypes_known: bool) -> None:
    stack = [root]
    while stack:
        node = stack[-1]
        if id(node) in values:
            stack.pop()
            continue
        missing = [operand for operand in _needed(node, values) if id(operand) not in values]
        if missing:
            stack.extend(reversed(missing))
            continue
        try:
            values[id(node)] = _value(node, types, values, dtypes_known)
        except ShapeError as error:
            raise ShapeError(f"{node.operation}: {error}") from None
        except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError) as error:
            raise ShapeError(f"{node.operation} cannot take these operands: {error}") from error
        stack.pop()


def _needed(node: Node, values: Values) -> tuple[Node, ...]:
    if node.operation != "choose":
        return node.inputs
    if id(node.inputs[0]) not in values:
        return node.inputs[:1]
    taken = decided(node, values)
    return node.inputs if taken is None else (taken,)


def _value(node: Node, types: Mapping[str, Value], values: Values, dtypes_known: bool) -> Value:
    if node.operation == "input":
        name = str(node.attribute("name"))
        if name not in types:
            raise ShapeError(f"no type given for %{name}")
        return types[name]
    if node.operation == "choose":
        taken = decided(node, values)
        if taken is not None:
            return values[id(taken)]
        return _joined(values[id(node.inputs[1])], values[id(node.inputs[2])])
    if node.operation == "raise":
        return None
    if node.operation == "dtype_of" and not dtypes_known:
        return UNKNOWN
    operands = tuple(values[id(operand)] for operand in node.inputs)
    scalar = _SCALAR.get(node.operation)
    if scalar is not None and not any(isinstance(o, TensorType) for o in operands):
        if any(isinstance(o, Unknown) for o in operands):
            return UNKNOWN
        result: Value = scalar(*operands)
        return result
    rule = RULES.get(node.operation)
    if rule is None:
        raise ShapeError("it has no shape rule")
    return rule(node, operands)


def _joined(a: Value, b: Value) -> Value:
    """What is known of a value that is one of two."""
    if a == b and type(a) is type(b):
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType) and len(a.shape) == len(b.shape):
        shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
        return TensorType(shape, a.dtype if a.dtype == b.dtype else promote((a, b)))
    if isinstance(a, int | float | Unknown) and isinstance(b, int | float | Unknown):
        return UNKNOWN
    raise ShapeError("the branches of an undecided condition give values of different kinds")


def _clamp(x: float, low: float | None, high: float | None) -> float:
    lower = x if low is None else max(x, low)
    return lower if high is None else min(lower, high)


def _cast(x: float, dtype: DType) -> float | int | bool:
    return bool(x) if dtype.name == "bool" else float(x) if "float" in dtype.name else int(x)


_SCALAR: dict[str, Callable[..., Value]] = {
    "neg": operator.neg,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "erf": math.erf,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "relu": lambda x: max(x, 0),
    "logical_not": operator.not_,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "maximum": max,
    "minimum": min,
    "clamp": _clamp,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "logical_and": lambda a, b: a and b,
    "logical_or": lambda a, b: a or b,
    "cast": _cast,
}
"""Python's meaning of the elementwise operations on numbers; sizes and scales are computed with it."""
