"""Making nodes while a function is translated, and noting for each where it was made."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.analyzers.architecture import Attribute, Node, Span
from kernelwright.analyzers.frontends.torch.values import LayerValue, NotUnderstood, SequenceValue, TableValue, Value


@dataclass(frozen=True, slots=True)
class Origin:
    """The statement of the translated function in which a node was made; `inlined` names the method of `self` that the node
    came out of, if any."""

    statement: ast.stmt
    inlined: str | None = None


_FOLD: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
}
_COMPARE: dict[str, Callable[[object, object], bool]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,  # type: ignore[dict-item]
    "less_equal": operator.le,  # type: ignore[dict-item]
    "greater": operator.gt,  # type: ignore[dict-item]
    "greater_equal": operator.ge,  # type: ignore[dict-item]
}


@dataclass
class Graph:
    """Nodes under construction with their origins.

    `expressions` tells of which expression of the translated function a node is the value; `ranks` holds axis counts that
    the code itself proves; `contexts` the `with` statements (and decorators like them) around a node, `shapes` those of
    values that split or join axes. `made` has all nodes in the order they were made: operands stand before their users.
    `memory` maps what an in-place operation made to what it changed, `roots` keeps answers of `stores.memory_roots`. `records`
    has the fields of instances of dataclasses.
    """

    origins: dict[Node, Origin] = field(default_factory=dict)
    expressions: dict[Node, ast.expr | ast.AugAssign] = field(default_factory=dict)
    ranks: dict[Node, int] = field(default_factory=dict)
    contexts: dict[Node, tuple[ast.AST, ...]] = field(default_factory=dict)
    shapes: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    made: list[Node] = field(default_factory=list)
    memory: dict[Node, Node] = field(default_factory=dict)
    roots: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    records: dict[Node, dict[str, Value]] = field(default_factory=dict)
    context: tuple[ast.AST, ...] = ()
    origin: Origin | None = None
    span: Span | None = None
    loops: int = 0

    def node(self, operation: str, *inputs: Node, **attributes: Attribute) -> Node:
        made = Node(operation, inputs, tuple(attributes.items()), self.span)
        return self.noted(made)

    def noted(self, made: Node) -> Node:
        """Note where a node was made."""
        self.made.append(made)
        if self.origin is not None:
            self.origins[made] = self.origin
        if self.context:
            self.contexts[made] = self.context
        return made

    def prove_rank(self, node: Node, rank: int) -> None:
        """Note a proven number of axes, also for what the value is a plain view of."""
        self.ranks.setdefault(node, rank)
        while node.operation in ("transpose", "permute", "contiguous", "cast", "softmax", "dropout", "detach"):
            node = node.inputs[0]
            self.ranks.setdefault(node, rank)

    def constant(self, value: Attribute) -> Node:
        return self.node("constant", value=value)

    @property
    def none(self) -> Node:
        return self.constant(None)

    def binary(self, operation: str, left: Node, right: Node) -> Node:
        """A binary operation, folded where both sides are constants."""
        if left.operation == right.operation == "constant":
            a, b = left.attribute("value"), right.attribute("value")
            try:
                if operation in _COMPARE:
                    return self.constant(_COMPARE[operation](a, b))
                if isinstance(a, int | float) and isinstance(b, int | float):
                    folded = _FOLD[operation](a, b)
                    if isinstance(folded, int | float):
                        return self.constant(folded)
                if operation == "add" and isinstance(a, str) and isinstance(b, str):
                    return self.constant(a + b)
            except (ArithmeticError, TypeError, ValueError, KeyError):
                pass
        if operation == "add" and left.operation == right.operation == "tuple":
            return self.node("tuple", *left.inputs, *right.inputs)
        if operation == "add" and (_is_sequence(left) or _is_sequence(right)):
            return self.node("join", left, right)
        return self.node(operation, left, right)

    def unary(self, operation: str, value: Node) -> Node:
        if value.operation == "constant":
            number = value.attribute("value")
            if operation == "logical_not":
                return self.constant(not number)
            if isinstance(number, int | float):
                try:
                    if operation == "neg":
                        return self.constant(-number)
                    if operation == "sqrt":
                        return self.constant(math.sqrt(number))
                    if operation in ("exp", "log", "tanh", "erf"):
                        return self.constant(float(getattr(math, operation)(number)))
                except (ValueError, OverflowError):
                    pass
        return self.node(operation, value)

    def is_none(self, value: Value) -> Node:
        if isinstance(value, LayerValue) and (value.class_name == "?" or value.class_name.endswith("[...]")):
            return self.node("is_none", self.node("attribute", path=value.path, kind="module"))
        if not isinstance(value, Node):
            return self.constant(False)
        if value.operation == "constant":
            return self.constant(value.attribute("value") is None)
        if value.operation in MAYBE_NONE:
            return self.node("is_none", value)
        return self.constant(False)

    def truth(self, value: Value) -> Node:
        """The value as a condition: a constant bool where Python's truth of it is known."""
        if isinstance(value, LayerValue) and (value.class_name == "?" or value.class_name.endswith("[...]")):
            return self.node("truth", self.node("attribute", path=value.path, kind="module"))
        if isinstance(value, SequenceValue):
            return self.constant(bool(value.items))
        if isinstance(value, TableValue):
            unknown = self.node("opaque", reason="a dict that changes", text="")
            return self.node("truth", unknown) if value.unknown else self.constant(bool(value.entries))
        if not isinstance(value, Node):
            return self.constant(True)
        if value.operation == "constant":
            return self.constant(bool(value.attribute("value")))
        if value.operation == "tuple":
            return self.constant(bool(value.inputs))
        if value.operation in CONDITIONS or value.attribute("kind") == "flag":
            return value
        return self.node("truth", value)

    def tuple(self, *values: Node) -> Node:
        return self.node("tuple", *values)


def _is_sequence(node: Node) -> bool:
    """True for a tuple or a shape: `+` joins them and must keep their order."""
    if node.operation == "slice":
        return _is_sequence(node.inputs[0])
    if node.operation == "choose":
        return _is_sequence(node.inputs[1]) or _is_sequence(node.inputs[2])
    return node.operation in ("tuple", "shape", "join")


CONDITIONS = frozenset(
    {
        "is_none", "is_tensor", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_not",
        "logical_and", "logical_or", "truth", "iteration",
    }
)  # fmt: skip
"""Operations that give a truth value."""

MAYBE_NONE = frozenset(
    {
        "input", "attribute", "item", "choose", "call", "layer", "opaque", "field", "global", "parameter", "carried", "loop",
        "element",
    }
)  # fmt: skip
"""Operations whose value may be None; everything else is a tensor or a number."""


def static(value: Value | None, what: str) -> Attribute:
    """The constant a value stands for (tuples of constants included).

    Raises:
        NotUnderstood: it is not known before run time.
    """
    if isinstance(value, Node):
        if value.operation == "constant":
            return value.attribute("value")
        if value.operation == "tuple":
            return tuple(static(part, what) for part in value.inputs)
        if value.operation == "dtype":
            return value.attribute("name")
    raise NotUnderstood(f"{what} is not a constant")


def static_int(value: Value | None, what: str) -> int:
    number = static(value, what)
    if isinstance(number, bool) or not isinstance(number, int):
        raise NotUnderstood(f"{what} is not a constant integer")
    return number


def tensor(value: Value | None, what: str) -> Node:
    if not isinstance(value, Node):
        raise NotUnderstood(f"{what} is not a tensor")
    return value
