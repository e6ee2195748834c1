"""Python expressions of a model file -> values. The base of the evaluator: operators, names, attributes, subscripts.

Calls are in `calls`, statements in `evaluate`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.conditions import Facts, condition_key, conjunction
from kernelwright.analyzers.frontends.torch.dtypes import DTYPES
from kernelwright.analyzers.frontends.torch.graph import Graph, static
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.subscripts import subscript
from kernelwright.analyzers.frontends.torch.values import (
    BoundMethod,
    Closure,
    IterationValue,
    LayerValue,
    ModuleValue,
    NotUnderstood,
    SequenceValue,
    TableValue,
    Value,
)
from kernelwright.analyzers.source import Function
from kernelwright.analyzers.syntax_tree import walk

Environment = dict[str, Value]

CONTAINERS = ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict")
REPEATED = "list"
"""Class name of a list of layers that a comprehension makes: its one argument stands for all of them."""

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "logical_and",
    ast.BitOr: "logical_or",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
CONSTANTS = {
    "math.pi": 3.141592653589793,
    "numpy.pi": 3.141592653589793,
    "torch.pi": 3.141592653589793,
    "math.e": 2.718281828459045,
    "math.inf": float("inf"),
    "numpy.inf": float("inf"),
    "torch.inf": float("inf"),
}


@dataclass(frozen=True, slots=True)
class Jump:
    """A `continue` or `break`: under which conditions since the loop's start, and the names as they were there."""

    condition: Node | None
    environment: Environment
    leaves: bool


@dataclass(eq=False)
class Frame:
    """One function being interpreted: its names, the conditions on the way here, and what it has returned so far."""

    environment: Environment
    owner: ModuleValue | None
    path: list[Node] = field(default_factory=list)
    returns: list[tuple[Node | None, Node]] = field(default_factory=list)
    function: Function | None = None
    jumps: list[Jump] = field(default_factory=list)
    base: int = 0
    """How many of the conditions in `path` stand outside the innermost loop."""


class Expressions:
    """Evaluates expressions in the current frame."""

    def __init__(self, scope: Scope, graph: Graph) -> None:
        self.scope = scope
        self.home = scope.source
        self.graph = graph
        self.frames: list[Frame] = []
        self.assigned: dict[ast.stmt, dict[str, Value]] = {}
        self.effects: list[Node] = []
        self.active: set[ast.AST] = set()
        self.unbound_reads: set[str] = set()
        self.captured: frozenset[str] = frozenset()
        self.facts = Facts()

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def call(self, e: ast.Call) -> Value:
        raise NotImplementedError

    def passed(self, e: ast.expr) -> Value:
        """An argument's value; an attribute of an object (`config.size`) is a value here, not a method to be called."""
        value = self.evaluate(e)
        return self.node_of(value) if isinstance(value, BoundMethod) else value

    def invoke(self, callee: Value, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]) -> Value:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value, statement: ast.stmt | None) -> None:
        raise NotImplementedError

    def class_attribute(self, module: ModuleValue, name: str) -> Value:
        raise NotImplementedError

    def global_value(self, name: str) -> Value:
        raise NotImplementedError

    def table_entry(self, table: Node, key: ast.expr) -> Value | None:
        raise NotImplementedError

    # ---- small things

    def effect(self, operation: str, *inputs: Node, **attributes: str) -> None:
        self.happens(self.graph.node(operation, *inputs, **attributes))

    def happens(self, node: Node) -> None:
        """Note an effect, under the conditions of the branches it stands in."""
        path = [condition for frame in self.frames for condition in frame.path]
        if path and node.operation != "raise":
            condition = conjunction(self.graph, path)
            assert condition is not None
            node = self.graph.node("choose", condition, node, self.graph.none)
        self.effects.append(node)

    def place(self, e: ast.expr) -> None:
        """Nodes made next stand at this expression."""
        if len(self.frames) <= 1 or self.scope.source is self.home:
            self.graph.span = self.scope.source.span(e)

    def opaque(self, e: ast.expr, reason: str, *inputs: Value) -> Node:
        self.place(e)
        nodes = tuple(value for value in map(self.as_input, inputs) if value is not None)
        return self.graph.node("opaque", *nodes, reason=reason, text=self.scope.source.segment(e))

    def as_input(self, value: Value) -> Node | None:
        return value if isinstance(value, Node) else None

    def node_of(self, value: Value) -> Node:
        """The value as a node: a module or function becomes a `global` by name, a table an opaque."""
        if isinstance(value, Node):
            return value
        if isinstance(value, LayerValue | ModuleValue):
            return self.graph.node("attribute", path=value.path or "self", kind="module")
        if isinstance(value, Closure):
            if isinstance(value.node, ast.Lambda):
                names = sorted({n.id for n in walk(value.node.body) if isinstance(n, ast.Name)})
                read = [v for n in names if isinstance(v := value.environment.get(n), Node)]
                return self.graph.node("call", *read, target="lambda", keywords=(), text=ast.unparse(value.node))
            return self.graph.node("global", name=value.node.name)
        if isinstance(value, BoundMethod):
            return self.graph.node("field", value.receiver, name=value.name)
        if isinstance(value, SequenceValue):
            return self.graph.tuple(*(self.node_of(item) for item in value.items))
        if isinstance(value, IterationValue):
            parts = (self.node_of(part) for part in value.parts)
            return self.graph.node("call", *parts, target=f"builtins.{value.kind}", keywords=())
        if value.unknown:
            return self.graph.node("opaque", reason="a dict that changes", text="")
        entries = [(k, v) for k, v in value.entries.items()]
        return self.graph.node(
            "call", *(self.node_of(v) for _, v in entries), target="dict", keywords=tuple(str(k) for k, _ in entries)
        )

    def choose(self, condition: Node, a: Value, b: Value) -> Value:
        if a is b:
            return a
        if isinstance(a, Node) and isinstance(b, Node):
            if a.operation == b.operation == "constant" and repr(a.attribute("value")) == repr(b.attribute("value")):
                return a
            if a.operation == b.operation == "tuple" and len(a.inputs) == len(b.inputs):
                parts = (self.node_of(self.choose(condition, x, y)) for x, y in zip(a.inputs, b.inputs, strict=True))
                return self.graph.tuple(*parts)
            return self.graph.node("choose", condition, a, b)
        if isinstance(a, LayerValue) and isinstance(b, LayerValue) and _same_layer(a, b):
            return a
        if isinstance(a, ModuleValue) and isinstance(b, ModuleValue) and a.facts is b.facts and a.path == b.path:
            return a
        if isinstance(a, LayerValue | ModuleValue) and isinstance(b, LayerValue | ModuleValue) and a.path == b.path:
            return LayerValue(a.path, "?")
        for layer, other in ((a, b), (b, a)):
            given = isinstance(other, Node) and other.operation in ("input", "field")
            if isinstance(layer, LayerValue) and given and layer.class_name.endswith("[...]"):
                # `ACT2FN[config.act]` where that is a name, else what it is itself.
                return LayerValue(layer.path, layer.class_name)
        return self.graph.node("choose", condition, self.node_of(a), self.node_of(b))

    def items(self, value: Value) -> list[Value] | None:
        """The elements of a sequence of known length, else None."""
        if isinstance(value, Node):
            if value.operation == "tuple":
                return list(value.inputs)
            if value.operation == "chunk":
                count = value.attribute("count")
                if isinstance(count, int):
                    return [self.graph.node("item", value, index=i) for i in range(count)]
        if isinstance(value, SequenceValue):
            return list(value.items)
        if isinstance(value, IterationValue):
            columns = [self.items(part) for part in value.parts]
            known = [column for column in columns if column is not None]
            if len(known) != len(columns):
                return None
            if value.kind == "enumerate":
                return [self.sequence((self.graph.constant(i), item)) for i, item in enumerate(known[0])]
            return [self.sequence(row) for row in zip(*known, strict=False)]
        if isinstance(value, LayerValue) and value.class_name in ("torch.nn.ModuleList", "torch.nn.Sequential"):
            given = value.arguments
            if value.class_name == "torch.nn.ModuleList" and len(given) == 1:
                given = tuple(self.items(given[0]) or ())
            layers = [v for v in given if isinstance(v, LayerValue | ModuleValue)]
            whole = layers and len(layers) == len(given) and not any(_is_repeated(layer) for layer in layers)
            if whole and not value.keywords:
                return [placed(layer, f"{value.path}.{i}") for i, layer in enumerate(layers)]
        return None

    def sequence(self, items: Iterable[Value]) -> Value:
        """A tuple of these values: a node where all are nodes."""
        values = tuple(items)
        nodes = [v for v in values if isinstance(v, Node)]
        return self.graph.tuple(*nodes) if len(nodes) == len(values) else SequenceValue(values)

    def each(self, value: Value, loop: int) -> Value:
        """What an iteration of loop number `loop` over `value` is about."""
        if isinstance(value, IterationValue):
            parts = [self.each(part, loop) for part in value.parts]
            if value.kind == "enumerate":
                count = self.graph.node("element", self.graph.node("global", name="itertools.count"), loop=loop)
                parts.insert(0, self.graph.node("number", count))
            return self.sequence(parts)
        if isinstance(value, LayerValue) and (layer := repeated_layer(value)) is not None:
            return placed(layer, f"{value.path}.*{loop}")
        if isinstance(value, LayerValue) and value.class_name in CONTAINERS:
            return LayerValue(f"{value.path}.*{loop}", "?")
        node = self.node_of(value)
        made = self.graph.node("element", node, loop=loop)
        if node.operation == "call" and node.attribute("target") == "builtins.range":
            return self.graph.node("number", made)
        return made

    # ---- expressions

    def evaluate(self, e: ast.expr) -> Value:
        method = getattr(self, f"_{type(e).__name__.lower()}", None)
        if method is None:
            return self.opaque(e, f"{type(e).__name__.lower()} expression")
        try:
            value: Value = method(e)
        except NotUnderstood as error:
            value = self.opaque(e, str(error))
        if isinstance(value, Node) and len(self.frames) == 1 and not isinstance(e, ast.Name):
            self.graph.expressions.setdefault(value, e)
        return value

    def _constant(self, e: ast.Constant) -> Value:
        self.place(e)
        if e.value is ... or isinstance(e.value, bytes | complex):
            return self.graph.node("global", name=repr(e.value))
        return self.graph.constant(e.value)

    def _name(self, e: ast.Name) -> Value:
        value = self.frame.environment.get(e.id)
        while isinstance(value, Node) and value.operation == "choose":
            known = self.facts.known(self.graph, value.inputs[0])
            arms = value.inputs[1:]
            is_bound = all(arm.operation != "opaque" or arm.attribute("reason") != "unbound" for arm in arms)
            if known.operation != "constant" or is_bound:
                break  # both arms are values: which one it is stays visible
            value = arms[0 if known.attribute("value") else 1]
        if value is None:
            value = self.global_value(e.id)
            if isinstance(value, Node) and value.operation == "global" and not self.scope.defines(e.id):
                self.unbound_reads.add(e.id)
        elif isinstance(value, Node) and self.may_be_unbound(value, 12):
            self.unbound_reads.add(e.id)
        return value

    def may_be_unbound(self, value: Node, depth: int) -> bool:
        """True where a name may not have been assigned on the path that reads it."""
        if value.operation == "opaque":
            return value.attribute("reason") == "unbound"
        if value.operation != "choose" or depth == 0:
            return False
        condition, *arms = value.inputs
        known = self.facts.known(self.graph, condition)
        if known.operation == "constant":
            return self.may_be_unbound(arms[0 if known.attribute("value") else 1], depth - 1)
        for arm, outcome in zip(arms, (True, False), strict=True):
            with self.facts.assuming(condition, outcome):
                if self.may_be_unbound(arm, depth - 1):
                    return True
        return False

    def _tuple(self, e: ast.Tuple | ast.List) -> Value:
        parts: list[Value] = []
        for element in e.elts:
            if isinstance(element, ast.Starred):
                value = self.evaluate(element.value)
                items = self.items(value)
                if items is None:
                    raise NotUnderstood("a sequence of unknown length")
                parts.extend(items)
            else:
                parts.append(self.passed(element))
        self.place(e)
        return self.sequence(parts)

    _list = _tuple

    def _dict(self, e: ast.Dict) -> Value:
        entries: dict[object, Value] = {}
        for key, item in zip(e.keys, e.values, strict=True):
            if key is None:
                raise NotUnderstood("a dict of unknown keys")
            entries[static(self.evaluate(key), "key")] = self.evaluate(item)
        return TableValue(entries)

    def _namedexpr(self, e: ast.NamedExpr) -> Value:
        value = self.evaluate(e.value)
        self.frame.environment[e.target.id] = value
        return value

    def _lambda(self, e: ast.Lambda) -> Value:
        return Closure(e, self.scope.source, self.frame.environment, self.frame.owner, frame=self.frame)

    def _starred(self, e: ast.Starred) -> Value:
        raise NotUnderstood("star expression")

    def _joinedstr(self, e: ast.JoinedStr) -> Value:
        parts = [self.node_of(self.evaluate(v.value)) for v in e.values if isinstance(v, ast.FormattedValue)]
        self.place(e)
        written = ast.unparse(e)
        return self.graph.node("call", *parts, target="str.format", keywords=(), text=written)

    def _binop(self, e: ast.BinOp) -> Value:
        # Down the left side in a loop: sums of hundreds of terms are deeper than Python's stack.
        spine = [e]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        value = self.evaluate(spine[-1].left)
        for inner in reversed(spine):
            value = self.combined(inner, value, self.evaluate(inner.right))
            if inner is not e and isinstance(value, Node):
                self.own(value, inner)
        return value

    def combined(self, e: ast.BinOp, left: Value, right: Value) -> Value:
        operation = BINARY.get(type(e.op))
        if operation is None:
            return self.opaque(e, f"operator {type(e.op).__name__.lower()}", left, right)
        a, b = self.node_of(left), self.node_of(right)
        self.place(e)
        return self.graph.binary(operation, a, b)

    def _unaryop(self, e: ast.UnaryOp) -> Value:
        if isinstance(e.op, ast.Not):
            return self.test(e)
        value = self.evaluate(e.operand)
        self.place(e)
        node = self.node_of(value)
        if isinstance(e.op, ast.USub):
            return self.graph.unary("neg", node)
        if isinstance(e.op, ast.Invert):
            return self.graph.node("logical_not", node)
        return node

    def test(self, e: ast.expr) -> Node:
        """An expression where only its truth counts: `and` and `or` may be taken as conjunctions there."""
        if isinstance(e, ast.BoolOp):
            return self.conjunction(e)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not):
            inner = self.facts.known(self.graph, self.test(e.operand))
            self.place(e)
            return self.own(self.graph.unary("logical_not", inner), e)
        return self.graph.truth(self.evaluate(e))

    def conjunction(self, e: ast.BoolOp) -> Node:
        operation = "logical_and" if isinstance(e.op, ast.And) else "logical_or"
        decided = operation == "logical_or"
        result: Node | None = None
        saved = self.facts
        self.facts = saved.copy()
        try:
            for part in e.values:
                value = self.facts.known(self.graph, self.test(part))
                if value.operation == "constant" and bool(value.attribute("value")) == decided:
                    self.place(e)
                    # `x and False` is False whatever x is; the operands so far have no effects of their own.
                    return value
                # The later operands are evaluated only where the earlier ones did not decide.
                self.facts.remember(value, not decided)
                if value.operation == "constant":
                    continue
                self.place(e)
                result = value if result is None else self.graph.node(operation, result, value)
        finally:
            self.facts = saved
        return self.own(result, e) if result is not None else self.graph.constant(not decided)

    def own(self, node: Node, e: ast.expr) -> Node:
        """Note that the node is the value of this expression of the translated function."""
        if len(self.frames) == 1:
            self.graph.expressions.setdefault(node, e)
        return node

    def _boolop(self, e: ast.BoolOp) -> Value:
        """As a value: one of the operands, the first that decides."""
        value = self.evaluate(e.values[-1])
        if all(isinstance(v, ast.Compare) or _is_not(v) for v in e.values):
            return self.conjunction(e)
        for part in reversed(e.values[:-1]):
            first = self.evaluate(part)
            truth = self.facts.known(self.graph, self.graph.truth(first))
            if truth.operation == "constant":
                value = value if bool(truth.attribute("value")) == isinstance(e.op, ast.And) else first
                continue
            self.place(e)
            arms = (value, first) if isinstance(e.op, ast.And) else (first, value)
            value = self.choose(truth, *arms)
        return value

    def _compare(self, e: ast.Compare) -> Value:
        left = self.evaluate(e.left)
        result: Node | None = None
        for op, right_expression in zip(e.ops, e.comparators, strict=True):
            right = self.evaluate(right_expression)
            self.place(e)
            part = self.comparison(op, left, right)
            result = part if result is None else self.graph.node("logical_and", result, part)
            left = right
        assert result is not None
        return result

    def comparison(self, op: ast.cmpop, left: Value, right: Value) -> Node:
        a, b = self.node_of(left), self.node_of(right)
        if isinstance(op, ast.Is | ast.IsNot):
            for one, other in ((left, b), (right, a)):
                if other.operation == "constant" and other.attribute("value") is None:
                    test = self.facts.known(self.graph, self.graph.is_none(one))
                    return self.graph.unary("logical_not", test) if isinstance(op, ast.IsNot) else test
            test = self.graph.node("call", a, b, target="is", keywords=())
            return self.graph.node("logical_not", test) if isinstance(op, ast.IsNot) else test
        if isinstance(op, ast.In | ast.NotIn):
            items = self.items(right)
            if isinstance(right, TableValue) and not right.unknown and a.operation == "constant":
                inside = self.graph.constant(a.attribute("value") in right.entries)
                return self.graph.unary("logical_not", inside) if isinstance(op, ast.NotIn) else inside
            if items is None:
                test = self.graph.node("call", a, b, target="in", keywords=())
                return self.graph.node("logical_not", test) if isinstance(op, ast.NotIn) else test
            found: Node = self.graph.constant(False)
            for item in items:
                test = self.graph.binary("equal", a, self.node_of(item))
                found = test if found.operation == "constant" else self.graph.node("logical_or", found, test)
            return self.graph.unary("logical_not", found) if isinstance(op, ast.NotIn) else found
        return self.graph.binary(_COMPARE[type(op)], a, b)

    def _ifexp(self, e: ast.IfExp) -> Value:
        condition = self.facts.known(self.graph, self.test(e.test))
        if condition.operation == "constant":
            return self.evaluate(e.body if condition.attribute("value") else e.orelse)
        with self.facts.assuming(condition, True):
            first = self.evaluate(e.body)
        with self.facts.assuming(condition, False):
            second = self.evaluate(e.orelse)
        self.place(e)
        return self.choose(condition, first, second)

    def _call(self, e: ast.Call) -> Value:
        return self.call(e)

    def _subscript(self, e: ast.Subscript) -> Value:
        base = self.evaluate(e.value)
        if isinstance(base, TableValue):
            key = static(self.evaluate(e.slice), "key")
            if key in base.entries and not base.unknown:
                return base.entries[key]
            raise NotUnderstood("unknown key")
        if isinstance(base, Node):
            entry = self.table_entry(base, e.slice)
            if entry is not None:
                return entry
        items = self.items(base)
        if isinstance(base, SequenceValue) and isinstance(e.slice, ast.Slice):
            base = self.node_of(base)
        if items is not None and not isinstance(e.slice, ast.Slice) and not isinstance(e.slice, ast.Tuple):
            index = static(self.evaluate(e.slice), "index")
            if isinstance(index, int) and -len(items) <= index < len(items):
                return items[index]
        if not isinstance(base, Node):
            if isinstance(base, LayerValue) and base.class_name in CONTAINERS:
                # Which one is not known: a place of its own for each time that one is looked up.
                self.graph.loops += 1
                layer = repeated_layer(base)
                path = f"{base.path}.*{self.graph.loops}"
                return placed(layer, path) if layer is not None else LayerValue(path, "?")
            raise NotUnderstood("subscript of something unknown")
        index_values = self.indices(e.slice)
        self.place(e)
        return subscript(self.graph, base, index_values)

    def indices(self, e: ast.expr) -> list[Node | slice]:
        """The parts of an index, one an axis; bounds of slices are nodes or None."""
        made: list[Node | slice] = []
        for part in e.elts if isinstance(e, ast.Tuple) else [e]:
            if isinstance(part, ast.Slice):
                bounds = (
                    self.node_of(self.evaluate(b)) if b is not None else None
                    for b in (part.lower, part.upper, part.step)
                )
                made.append(slice(*bounds))
            else:
                made.append(self.node_of(self.evaluate(part)))
        return made

    def _attribute(self, e: ast.Attribute) -> Value:
        base = self.evaluate(e.value)
        self.place(e)
        return self.field(base, e.attr)

    def function_attribute(self, function: Function, name: str) -> Node | None:
        """`gelu._a`, which the file stores at one place and as a number: what a function keeps for its next call."""
        source = self.scope.source
        if source.inventory.stores.get(name) != [function.node.name] or function.qualified_name != function.node.name:
            return None
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                target = node.targets[0]
                read = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                if read & self.frame.environment.keys() or not read <= source.imports.keys():
                    continue
                if target.attr == name and len(node.targets) == 1:
                    value = self.evaluate(node.value)
                    is_number = isinstance(value, Node) and isinstance(value.attribute("value"), int | float)
                    return value if is_number and isinstance(value, Node) and value.operation == "constant" else None
        return None

    def field(self, base: Value, name: str) -> Value:
        if isinstance(base, ModuleValue):
            stored = self.frame.environment.get(f"self.{name}") if not base.path else None
            return stored if stored is not None else self.class_attribute(base, name)
        if isinstance(base, LayerValue):
            kind = "flag" if name == "training" else "number"
            if name in ("weight", "bias"):
                return self.graph.node("parameter", path=f"{base.path}.{name}")
            return self.graph.node("attribute", path=f"{base.path}.{name}", kind=kind)
        if isinstance(base, TableValue) and name not in ("get", "keys", "values", "items", "copy"):
            base.unknown = True  # update, pop and the like
        if isinstance(base, Closure) and base.function is not None:
            stored_value = self.function_attribute(base.function, name)
            if stored_value is not None:
                return stored_value
        if not isinstance(base, Node):
            raise NotUnderstood(f"attribute {name} of something unknown")
        if base.operation == "global":
            full = f"{base.attribute('name')}.{name}"
            if full in CONSTANTS:
                return self.graph.constant(CONSTANTS[full])
            if full in DTYPES:
                return self.graph.node("dtype", name=DTYPES[full])
            return self.graph.node("global", name=full)
        if base in self.graph.records and name in self.graph.records[base]:
            return self.graph.records[base][name]
        if base.operation == "call" and base.attribute("target") == "torch.finfo":
            return (
                self.graph.node(f"finfo_{name}", *base.inputs)
                if name in ("min", "max", "eps")
                else BoundMethod(base, name)
            )
        simple = {"shape": "shape", "dtype": "dtype_of", "ndim": "rank"}.get(name)
        if simple is not None:
            return self.graph.node(simple, base)
        if name in ("T", "mT"):
            return (
                self.graph.node("transpose", base, a=-2, b=-1)
                if name == "mT"
                else self.graph.node("transpose", base, a=0, b=1)
            )
        if name == "data":
            return self.graph.node("detach", base)
        if name in ("device", "is_cuda", "requires_grad", "grad", "layout"):
            return self.graph.node("field", base, name=name)
        return BoundMethod(base, name)


def _is_not(e: ast.expr) -> bool:
    return isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not)


def placed(layer: LayerValue | ModuleValue, path: str) -> LayerValue | ModuleValue:
    """A layer of a container, under its place there."""
    if isinstance(layer, ModuleValue):
        return ModuleValue(layer.facts, path)
    return LayerValue(path, layer.class_name, layer.arguments, layer.keywords)


def _is_repeated(layer: LayerValue | ModuleValue) -> bool:
    return isinstance(layer, LayerValue) and layer.class_name == REPEATED


def repeated_layer(container: LayerValue) -> LayerValue | ModuleValue | None:
    """The layer that a container holds any number of, all made alike, or None."""
    for argument in container.arguments if len(container.arguments) == 1 else ():
        if isinstance(argument, LayerValue) and argument.class_name == REPEATED:
            inner = argument.arguments[0]
            return inner if isinstance(inner, LayerValue | ModuleValue) else None
    return None


def _same_layer(a: LayerValue, b: LayerValue) -> bool:
    """True for two layers made alike: class, place and arguments."""
    if (a.class_name, a.path, len(a.arguments)) != (b.class_name, b.path, len(b.arguments)):
        return False
    keys = [[(name, _argument_key(v)) for name, v in layer.keywords] for layer in (a, b)]
    return keys[0] == keys[1] and list(map(_argument_key, a.arguments)) == list(map(_argument_key, b.arguments))


def _argument_key(value: Value) -> object:
    return condition_key(value) if isinstance(value, Node) else id(value)
