"""Prints a program as torch Python code: what the worker runs and what the evidence script shows are the same text.

No torch here. Values used once are written in place, so temporaries die as early as in a person's code; sizes and other
numbers that are known are written as numbers; branches that shapes and constants decide are gone.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.tuner.shapes import Values, decided, truth
from kernelwright.tuner.torch_spelling import ATOM, SIGN, SPELLINGS, Code, NoSpelling, literal
from kernelwright.tuner.values import DType, TensorType, Unknown, Value

_WIDTH = 92
"""An expression longer than this gets a line and a name of its own."""

_RESERVED = frozenset(("torch", "F", "math", *keyword.kwlist))


def function_code(program: Program, values: Values, name: str, *, oracle: bool = False) -> str:
    """Source of `def NAME(inputs): ...` that computes `program` for inputs such as `values` tells of.

    `values` comes from `shapes.infer` on the same program. `oracle`: casts to floating-point types become float64.

    Raises:
        NoSpelling: an operation that torch code cannot express (`opaque`, `call`, `layer`, ...).
    """
    return _Printer(program, values, oracle).function(name)


def input_names(program: Program) -> tuple[str, ...]:
    """The parameter names of the printed function, in order."""
    return tuple(_identifier(str(node.attribute("name"))) for node in program.inputs)


def _identifier(name: str) -> str:
    if not name.isidentifier():
        raise NoSpelling(f"{name!r} is no Python name")
    return f"{name}_" if name in _RESERVED else name


class _Printer:
    """One program being printed: the names given so far and the number of uses of each value."""

    def __init__(self, program: Program, values: Values, oracle: bool) -> None:
        self._program = program
        self._values = values
        self._oracle = oracle
        self._names = set(input_names(program))
        self._order = self._topological((*program.effects, *program.outputs))
        self._users: dict[int, list[Node | None]] = {}
        for node in self._order:
            for operand in self._operands(node):
                self._users.setdefault(id(self._actual(operand)), []).append(node)
        for root in (*program.effects, *program.outputs):
            self._users.setdefault(id(self._actual(root)), []).append(None)

    def function(self, name: str) -> str:
        scope: dict[int, Code] = {}
        for node, identifier in zip(self._program.inputs, input_names(self._program), strict=True):
            scope[id(node)] = Code(identifier, ATOM, self._values[id(node)])
        lines = [f"def {name}({', '.join(input_names(self._program))}):"]
        lines += self._block((*self._program.effects, *self._program.outputs), scope, "    ")
        results = ", ".join(scope[id(self._actual(output))].text for output in self._program.outputs)
        lines.append(f"    return {results}")
        return "\n".join(lines) + "\n"

    def _block(self, roots: Iterable[Node], scope: dict[int, Code], indent: str) -> list[str]:
        """Statements that make `roots` in `scope`; what only one way of a branch needs is made inside it."""
        certain = self._certain(roots)
        lines: list[str] = []
        for node in self._order:
            if id(node) not in certain or id(node) in scope:
                continue
            if node.operation == "raise":
                lines += self._raise(node, scope, indent)
            elif node.operation == "choose":
                lines += self._branch(node, scope, indent)
            else:
                code = self._expression(node, scope)
                users = self._users.get(id(node), [])
                once = len(users) == 1 and (users[0] is None or id(users[0]) in certain)
                trivial = not isinstance(code.value, TensorType | tuple)
                if not trivial and (not once or len(code.text) > _WIDTH):
                    identifier = self._name(node)
                    lines.append(f"{indent}{identifier} = {code.text}")
                    code = Code(identifier, ATOM, code.value)
                scope[id(node)] = code
        return lines

    def _branch(self, node: Node, scope: dict[int, Code], indent: str) -> list[str]:
        identifier = self._name(node)
        lines = [f"{indent}if {scope[id(self._actual(node.inputs[0]))].text}:"]
        for operand in node.inputs[1:]:
            inner = dict(scope)
            lines += self._block((operand,), inner, indent + "    ")
            lines.append(f"{indent}    {identifier} = {inner[id(self._actual(operand))].text}")
            lines.append(f"{indent}else:")
        scope[id(node)] = Code(identifier, ATOM, self._values[id(node)])
        return lines[:-1]

    def _raise(self, node: Node, scope: dict[int, Code], indent: str) -> list[str]:
        condition = self._actual(node.inputs[0])
        known = truth(self._values[id(condition)])
        if known:
            raise NoSpelling("the program raises an error on these inputs")
        scope[id(node)] = Code("None", ATOM, None)
        if known is None:
            return [f'{indent}if {scope[id(condition)].text}: raise RuntimeError("the program raises an error here")']
        return []

    def _expression(self, node: Node, scope: Mapping[int, Code]) -> Code:
        value = self._values[id(node)]
        operands = tuple(scope[id(self._actual(operand))] for operand in node.inputs)
        if _is_constant(value) and not _depends_on_dtype(node):
            text = literal(value)  # type: ignore[arg-type]  # _is_constant leaves attributes only
            return Code(text, SIGN if text.startswith("-") else ATOM, value)
        spelling = SPELLINGS.get(node.operation)
        if spelling is None:
            raise NoSpelling(
                f"operation {node.operation} cannot be run: {node.attribute('reason') or 'not understood'}"
            )
        text, strength = spelling(node, operands, self._oracle)
        return Code(text, strength, value)

    def _operands(self, node: Node) -> tuple[Node, ...]:
        return () if node.operation == "input" else node.inputs

    def _actual(self, node: Node) -> Node:
        """`node`, or what a decided branch takes instead of it."""
        while node.operation == "choose":
            taken = decided(node, self._values)
            if taken is None:
                return node
            node = taken
        return node

    def _topological(self, roots: Iterable[Node]) -> list[Node]:
        order: list[Node] = []
        seen: set[int] = set()
        for root in roots:
            stack = [(self._actual(root), False)]
            while stack:
                node, done = stack.pop()
                if done:
                    order.append(node)
                elif id(node) not in seen:
                    seen.add(id(node))
                    stack.append((node, True))
                    stack.extend((self._actual(operand), False) for operand in reversed(self._operands(node)))
        return order

    def _certain(self, roots: Iterable[Node]) -> set[int]:
        """The nodes needed for `roots` whichever way the undecided branches go."""
        certain: set[int] = set()
        stack = [self._actual(root) for root in roots]
        while stack:
            node = stack.pop()
            if id(node) not in certain:
                certain.add(id(node))
                needed = node.inputs[:1] if node.operation == "choose" else self._operands(node)
                stack.extend(self._actual(operand) for operand in needed)
        return certain

    def _name(self, node: Node) -> str:
        number = 1
        while (name := f"{node.operation}_{number}") in self._names:
            number += 1
        self._names.add(name)
        return name


def _is_constant(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(part) for part in value)
    return not isinstance(value, TensorType | DType | Unknown)


def _depends_on_dtype(node: Node) -> bool:
    """Whether a number follows from an element type: autocast changes those at run time, so it is computed there."""
    stack, seen = [node], set[int]()
    while stack:
        current = stack.pop()
        if current.operation == "dtype_of":
            return True
        if current.operation not in ("size", "rank", "is_none", "is_tensor") and id(current) not in seen:
            seen.add(id(current))
            stack.extend(current.inputs)
    return False
