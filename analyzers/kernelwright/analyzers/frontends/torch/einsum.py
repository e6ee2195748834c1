"""`einsum` with two operands and one summed letter -> permutations around a matrix product."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Attribute, Node
from kernelwright.analyzers.frontends.torch.graph import Graph, tensor
from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value


def einsum(graph: Graph, equation: Attribute, operands: tuple[Value, ...]) -> Node:
    """The contraction as `permute`s and a `matmul`.

    Raises:
        NotUnderstood: another number of operands, an ellipsis, repeated letters, or no single summed letter.
    """
    if len(operands) == 1 and isinstance(operands[0], Node) and operands[0].operation == "tuple":
        operands = operands[0].inputs
    if not isinstance(equation, str) or len(operands) != 2 or "..." in equation or "->" not in equation:
        raise NotUnderstood("einsum that is no product of two tensors")
    left_side, _, output = equation.replace(" ", "").partition("->")
    left, comma, right = left_side.partition(",")
    if not comma or any(len(set(part)) != len(part) for part in (left, right, output)):
        raise NotUnderstood("einsum with repeated letters")
    batch = [c for c in left if c in right and c in output]
    summed = [c for c in left if c in right and c not in output]
    free_left = [c for c in left if c not in right]
    free_right = [c for c in right if c not in left]
    if len(summed) != 1 or len(free_left) != 1 or len(free_right) != 1:
        raise NotUnderstood("einsum that is no batched matrix product")
    if set(output) != {*batch, *free_left, *free_right}:
        raise NotUnderstood("einsum that sums over a letter of one operand")
    a = _arranged(graph, tensor(operands[0], "operand"), left, "".join([*batch, *free_left, *summed]))
    b = _arranged(graph, tensor(operands[1], "operand"), right, "".join([*batch, *summed, *free_right]))
    return _arranged(graph, graph.node("matmul", a, b), "".join([*batch, *free_left, *free_right]), output)


def _arranged(graph: Graph, value: Node, have: str, want: str) -> Node:
    graph.prove_rank(value, len(have))
    if have == want:
        return value
    arranged = graph.node("permute", value, dims=tuple(have.index(letter) for letter in want))
    graph.ranks[arranged] = len(want)
    return arranged
