"""The one node type of the architecture language, and the program that holds nodes.

A program is a directed acyclic graph in SSA form: control flow is data (`choose`), a loop or anything not understood is
one `opaque` operation. Nodes compare by identity: two equal computations written at two places are two nodes, each with
its own source span. Structural equality is the business of `normalise`, which interns nodes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import lru_cache

Attribute = bool | int | float | str | None | tuple["Attribute", ...]
"""A constant argument of an operation: a scalar, a string or a (nested) tuple of them."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A source region. Lines and columns count from 1 in code points; both ends are included."""

    start_line: int
    start_column: int
    end_line: int
    end_column: int

    def contains(self, other: Span) -> bool:
        return (self.start_line, self.start_column) <= (other.start_line, other.start_column) and (
            other.end_line,
            other.end_column,
        ) <= (self.end_line, self.end_column)

    def joined(self, other: Span) -> Span:
        start = min((self.start_line, self.start_column), (other.start_line, other.start_column))
        end = max((self.end_line, self.end_column), (other.end_line, other.end_column))
        return Span(*start, *end)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation: its name (see `operations`), operands in order, constant attributes by name, and where it stands."""

    operation: str
    inputs: tuple[Node, ...] = ()
    attributes: tuple[tuple[str, Attribute], ...] = ()
    span: Span | None = None

    def attribute(self, name: str, default: Attribute = None) -> Attribute:
        """The value of the attribute `name`, or `default` where the node has none."""
        for key, value in self.attributes:
            if key == name:
                return value
        return default


@dataclass(frozen=True, slots=True)
class Layer:
    """A submodule made in `__init__`: its attribute path under `self`, its class, its constructor arguments as source."""

    path: str
    class_name: str
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A function as dataflow.

    `inputs` are nodes of operation `input`; `outputs` are what it returns (one tuple is one `tuple` node); `effects` are
    nodes that happen besides (`raise`, opaque calls whose value is dropped), in source order.
    """

    name: str
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    effects: tuple[Node, ...] = ()
    layers: tuple[Layer, ...] = ()

    def nodes(self) -> Iterator[Node]:
        """Every node once, operands before their users; inputs first, in order."""
        return iter(_nodes_of(self))


@lru_cache(maxsize=4)
def _nodes_of(program: Program) -> tuple[Node, ...]:
    """The nodes of a program; many rules ask for those of one program, one after the other."""
    return tuple(walk((*program.inputs, *program.effects, *program.outputs)))


def walk(roots: tuple[Node, ...], known: Container[Node] = ()) -> Iterator[Node]:
    """All nodes under `roots`, operands before users, each once; nothing below nodes in `known`, and not those.

    Iterative: programs are deeper than Python's stack.
    """
    seen: set[Node] = set()
    for root in roots:
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                yield node
                continue
            if node in seen or node in known:
                continue
            seen.add(node)
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(node.inputs) if operand not in seen)
