"""What a normal node is for sure: how many axes, whether a Python number, whether boolean, of which element type."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.operations import ELEMENTWISE
from kernelwright.analyzers.normalise import NormalForm

BOOLEAN = frozenset(
    [
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_not",
        "logical_and",
        "logical_or",
        "is_none",
        "is_tensor",
        "truth",
    ]
)


def is_scalar(node: Node) -> bool:
    """True for a Python number: it commutes with every linear operation on tensors."""
    if node.operation == "constant":
        return isinstance(node.attribute("value"), int | float) and not isinstance(node.attribute("value"), bool)
    if node.operation in ("number", "size", "rank", "finfo_min", "finfo_max", "finfo_eps"):
        return True
    if node.operation == "attribute":
        return node.attribute("kind") == "number"
    if node.operation in ("add", "mul", "pow", "floordiv", "mod", "exp", "log"):
        return all(is_scalar(operand) for operand in node.inputs)
    if node.operation == "choose":
        return is_scalar(node.inputs[1]) and is_scalar(node.inputs[2])
    if node.operation == "call":
        return node.attribute("target") in ("builtins.int", "builtins.float", "builtins.len")
    return False


def is_boolean(node: Node) -> bool:
    """True for a tensor (or value) of booleans."""
    if node.operation in BOOLEAN:
        return True
    if node.operation == "constant":
        return isinstance(node.attribute("value"), bool)
    if node.operation == "choose":
        return is_boolean(node.inputs[1]) and is_boolean(node.inputs[2])
    if node.operation in (
        "slice",
        "unsqueeze",
        "permute",
        "expand",
        "expand_as",
        "reshape",
        "pick",
        "lower_triangle",
        "upper_triangle",
    ):
        return is_boolean(node.inputs[0])
    if node.operation == "full":
        return node.attribute("dtype") == "bool"
    if node.operation == "cast":
        return node.inputs[1].attribute("name") == "bool"
    return False


def rank_of(form: NormalForm, node: Node, depth: int = 0) -> int | None:
    """The number of axes, or None.

    A broadcast of operands of which one is known is taken to have that one's rank: an operand of more axes would change
    the rank of what the code goes on to unpack or permute by number.
    """
    known = form.ranks.get(node, form.assumed_ranks.get(node))
    if known is not None or depth > 24:
        return known
    found = _rank(form, node, depth + 1)
    if found is not None and not form.assumed_ranks:
        form.ranks[node] = found
    return found


def _rank(form: NormalForm, node: Node, depth: int) -> int | None:
    operation = node.operation
    if operation == "permute":
        if node.attribute("full"):
            dims = node.attribute("dims")
            return len(dims) if isinstance(dims, tuple) else None
        return rank_of(form, node.inputs[0], depth)
    if operation == "reshape":
        if len(node.inputs) > 2 or (len(node.inputs) == 2 and is_scalar(node.inputs[1])):
            return len(node.inputs) - 1
        return None
    if operation == "matmul":
        ranks = [rank_of(form, operand, depth) for operand in node.inputs]
        return max((r for r in ranks if r is not None and r > 2), default=None)
    if operation in (
        "softmax",
        "cast",
        "expand",
        "lower_triangle",
        "upper_triangle",
        "slice",
        "linear",
        "concatenate",
        "repeat_interleave",
        "detach",
        "layer_norm",
        "rms_norm",
    ):
        return next(
            (
                r
                for o in node.inputs[: 8 if operation == "concatenate" else 1]
                if (r := rank_of(form, o, depth)) is not None
            ),
            None,
        )
    if operation == "unsqueeze":
        inner = rank_of(form, node.inputs[0], depth)
        return None if inner is None else inner + 1
    if operation == "expand_as":
        return rank_of(form, node.inputs[1], depth)
    if operation == "unflatten":
        inner = rank_of(form, node.inputs[0], depth)
        return None if inner is None else inner + len(node.inputs) - 2
    if operation == "flatten" and node.attribute("start") == 0 and node.attribute("end") == 1:
        inner = rank_of(form, node.inputs[0], depth)
        return None if inner is None else inner - 1
    if operation == "pick":
        inner = rank_of(form, node.inputs[0], depth)
        return None if inner is None else inner - 1
    if operation == "item" and node.inputs[0].operation in ("chunk", "split"):
        return rank_of(form, node.inputs[0].inputs[0], depth)
    if operation == "item" and node.inputs[0].operation == "unbind":
        inner = rank_of(form, node.inputs[0].inputs[0], depth)
        return None if inner is None else inner - 1
    if operation == "choose":
        first, second = rank_of(form, node.inputs[1], depth), rank_of(form, node.inputs[2], depth)
        return first if first == second or second is None else (second if first is None else None)
    if operation in ELEMENTWISE:
        ranks = [rank_of(form, operand, depth) for operand in node.inputs if not is_scalar(operand)]
        return max((r for r in ranks if r is not None), default=None)
    if operation in ("mean", "sum", "amax", "amin") and node.attribute("keepdim"):
        return rank_of(form, node.inputs[0], depth)
    return None


def element_type(form: NormalForm, node: Node, depth: int = 0) -> Node:
    """The element type as a `dtype` node, or as `dtype_of` the value that decides it.

    Mixed operands follow torch's promotion only where all known ones agree, else the result's type is its own; a product
    takes that of its first operand, which the kernel requires to be that of the second.
    """
    known = form.types.get(node)
    if known is not None:
        return known
    itself = form.interned("dtype_of", (node,), ())
    if depth > 16:
        return itself
    if node.operation == "cast":
        return node.inputs[1]
    if node.operation == "item" and node.inputs[0].operation in ("unbind", "chunk", "split"):
        return element_type(form, node.inputs[0].inputs[0], depth + 1)
    if node.operation == "choose":
        first, second = (element_type(form, arm, depth + 1) for arm in node.inputs[1:])
        return first if first is second else itself
    if node.operation in (
        "pick",
        "matmul",
        "softmax",
        "permute",
        "reshape",
        "slice",
        "dropout",
        "expand",
        "unsqueeze",
        "flatten",
        "unflatten",
        "mean",
        "rms_norm",
    ):
        return element_type(form, node.inputs[0], depth + 1)
    if node.operation in ("mul", "add", "pow", "where", "maximum", "tanh", "exp", "sigmoid", "erf"):
        operands = node.inputs[1:] if node.operation == "where" else node.inputs
        tensors = [o for o in operands if not is_scalar(o)]
        contraction = next((o for o in tensors if holds_product(o)), None)
        if contraction is not None:
            return element_type(form, contraction, depth + 1)
        types = {element_type(form, o, depth + 1) for o in tensors}
        return types.pop() if len(types) == 1 else itself
    return itself


def is_one_wide(node: Node) -> bool:
    """True for a number, and for a tensor whose last axis is proven to be 1 wide: it scales whole rows of scores."""
    if is_scalar(node):
        return True
    if node.operation == "parameter":
        unit = node.attribute("unit_axes")
        return isinstance(unit, tuple) and -1 in unit
    if node.operation in ("exp", "mul", "add", "pow", "clamp", "cast", "sigmoid", "maximum", "minimum"):
        operands = node.inputs[:1] if node.operation in ("cast", "clamp") else node.inputs
        return all(is_one_wide(operand) for operand in operands)
    return False


def holds_product(node: Node) -> bool:
    """True for a matrix product, scaled or not: the scores of an attention."""
    if node.operation == "matmul":
        return True
    if node.operation in ("cast", "flatten", "unflatten"):
        return holds_product(node.inputs[0])
    return node.operation in ("mul", "add", "where", "maximum") and any(
        holds_product(operand) for operand in node.inputs
    )
