"""Programs changed node by node. No torch here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kernelwright.analyzers.architecture import Attribute, Node, Program


def rebuilt(program: Program, change: Callable[[Node], Node]) -> Program:
    """`program` with `change` applied to every node, operands first; what nothing changes keeps its identity."""
    made: dict[int, Node] = {}
    for node in program.nodes():
        operands = tuple(made[id(operand)] for operand in node.inputs)
        same = all(new is old for new, old in zip(operands, node.inputs, strict=True))
        made[id(node)] = change(node if same else dataclasses.replace(node, inputs=operands))

    def new(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(made[id(node)] for node in nodes)

    return dataclasses.replace(
        program, inputs=new(program.inputs), outputs=new(program.outputs), effects=new(program.effects)
    )


def with_attribute(node: Node, name: str, value: Attribute) -> Node:
    """`node` with one attribute set."""
    others = tuple(pair for pair in node.attributes if pair[0] != name)
    return dataclasses.replace(node, attributes=(*others, (name, value)))
