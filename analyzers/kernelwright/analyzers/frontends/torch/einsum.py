"""`einsum` with one or two operands and at most one summed letter -> permutations around a matrix or outer product."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Attribute, Node
from kernelwright.analyzers.frontends.torch.graph import Graph, tensor
from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value


def einsum(graph: Graph, equation: Attribute, operands: tuple[Value, ...]) -> Node:
    """The contraction as `permute`s, `unsqueeze`s and a `matmul` or `mul`.

    Raises:
        NotUnderstood: more operands, an ellipsis that is not first everywhere, repeated letters, several summed letters.
    """
    if len(operands) == 1 and isinstance(operands[0], Node) and operands[0].operation == "tuple":
        operands = operands[0].inputs
    if not isinstance(equation, str):
        raise NotUnderstood("einsum of an equation that is not known")
    inputs, output, has_ellipsis = _parsed(equation)
    if len(inputs) != len(operands) or len(inputs) > 2:
        raise NotUnderstood("einsum of more than two tensors")
    values = [tensor(operand, "operand") for operand in operands]
    if not has_ellipsis:
        for value, letters in zip(values, inputs, strict=True):
            graph.prove_rank(value, len(letters))
    # A letter of one operand that the output lacks is summed right there.
    for i, letters in enumerate(inputs):
        others = "".join(other for j, other in enumerate(inputs) if j != i)
        lonely = [c for c in letters if c not in output and c not in others]
        if lonely:
            dims = tuple(letters.index(c) - len(letters) for c in lonely)
            values[i] = graph.node("sum", values[i], dims=dims, keepdim=False)
            inputs[i] = "".join(c for c in letters if c not in lonely)
    arrange = _Arranger(graph, has_ellipsis)
    if len(inputs) == 1:
        return arrange(values[0], inputs[0], output)
    return _product(arrange, values[0], inputs[0], values[1], inputs[1], output)


def _parsed(equation: str) -> tuple[list[str], str, bool]:
    """The letters of each operand and of the output, without an ellipsis that leads them all."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        output = ("..." if "..." in left else "") + output
    terms = [*inputs, output]
    has_ellipsis = "." in equation
    if has_ellipsis:
        if not all(term.startswith("...") for term in terms):
            raise NotUnderstood("einsum with an ellipsis that is not first everywhere")
        terms = [term[3:] for term in terms]
    if any((not term.isalpha() and term) or len(set(term)) != len(term) for term in terms):
        raise NotUnderstood("einsum with repeated letters")
    if any(c not in "".join(terms[:-1]) for c in terms[-1]):
        raise NotUnderstood("einsum with a letter that no operand has")
    return terms[:-1], terms[-1], has_ellipsis


def _product(arrange: _Arranger, a: Node, left: str, b: Node, right: str, output: str) -> Node:
    graph = arrange.graph
    summed = [c for c in left if c in right and c not in output]
    if len(summed) > 1:
        raise NotUnderstood("einsum that sums over several letters")
    if not summed:
        return graph.node(
            "mul", *(arrange.spread(x, have, output, all_axes=True) for x, have in ((a, left), (b, right)))
        )
    rows = [c for c in left if c not in right][-1:]
    columns = [c for c in right if c not in left][-1:]
    batch = "".join(c for c in left + right if c in output and c not in (*rows, *columns, *summed))
    batch = "".join(dict.fromkeys(batch))
    row, column, inner = "".join(rows), "".join(columns), "".join(summed)
    a = arrange.spread(a, left, batch + row + inner)
    b = arrange.spread(b, right, batch + inner + column)
    if not row:
        a = graph.node("unsqueeze", a, dim=-2)
    if not column:
        b = graph.node("unsqueeze", b, dim=-1)
    made = graph.node("matmul", a, b)
    if not column:
        made = graph.node("squeeze", made, dim=-1)
    if not row:
        made = graph.node("squeeze", made, dim=-1 if not column else -2)
    return arrange(made, batch + row + column, output)


class _Arranger:
    """Brings axes into an order. With an ellipsis the axes before them are not counted: exchanges from the end only."""

    def __init__(self, graph: Graph, has_ellipsis: bool) -> None:
        self.graph = graph
        self.has_ellipsis = has_ellipsis

    def __call__(self, value: Node, have: str, want: str) -> Node:
        if have == want:
            return value
        if not self.has_ellipsis:
            arranged = self.graph.node("permute", value, dims=tuple(have.index(letter) for letter in want))
            self.graph.ranks[arranged] = len(want)
            return arranged
        order = list(have)
        for place, letter in enumerate(want):
            other = order.index(letter)
            if other != place:
                value = self.graph.node("transpose", value, a=place - len(want), b=other - len(want))
                order[place], order[other] = order[other], order[place]
        return value

    def spread(self, value: Node, have: str, want: str, *, all_axes: bool = False) -> Node:
        """The axes in the order of `want`, those that are missing inserted with size 1; leading ones only if `all_axes`."""
        value = self(value, have, "".join(c for c in want if c in have))
        missing = [i for i, c in enumerate(want) if c not in have]
        leading = 0
        while not (self.has_ellipsis or all_axes) and leading < len(want) and want[leading] not in have:
            leading += 1
        for i in missing:
            if i >= leading:
                # Inserted from the left, so the axes behind are still to be counted from the end.
                behind = sum(1 for c in want[i + 1 :] if c in have)
                value = self.graph.node("unsqueeze", value, dim=-1 - behind)
        return value
