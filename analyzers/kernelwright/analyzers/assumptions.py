"""Branch conditions taken as decided: evaluating them, and specialising a normal form under them."""

from __future__ import annotations

from collections.abc import Mapping

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.normalise import NormalForm


def decided(condition: Node, assumptions: Mapping[Node, bool]) -> bool | None:
    """The value of a normal condition under the assumptions, or None."""
    known = assumptions.get(condition)
    if known is not None:
        return known
    if condition.operation == "constant":
        return bool(condition.attribute("value"))
    if condition.operation == "logical_not":
        inner = decided(condition.inputs[0], assumptions)
        return None if inner is None else not inner
    if condition.operation == "logical_and":
        parts = [decided(part, assumptions) for part in condition.inputs]
        if any(part is False for part in parts):
            return False
        return True if all(parts) else None
    return None


def specialised(form: NormalForm, root: Node, assumptions: Mapping[Node, bool]) -> Node:
    """`root` where the assumptions hold: their conditions are constants, a value known to be None is None.

    A decided comparison of an element type also decides the type: under `x.dtype == torch.float32`, casts of x to
    float32 are nothing. So does one of the number of axes: under `x.dim() == 2` axis 1 is the last.
    """
    replacements: dict[Node, Node] = {}
    for condition, value in assumptions.items():
        replacements[condition] = form.constant(value)
        if value and condition.operation == "is_none":
            replacements[condition.inputs[0]] = form.constant(None)
        if value and condition.operation == "equal" and condition.inputs[0].operation == "dtype_of":
            replacements[condition.inputs[0]] = condition.inputs[1]
            form.types[condition.inputs[0].inputs[0]] = condition.inputs[1]
        if value and condition.operation == "equal" and condition.inputs[0].operation == "rank":
            count = condition.inputs[1].attribute("value")
            if isinstance(count, int):
                replacements[condition.inputs[0]] = condition.inputs[1]
                form.assumed_ranks[condition.inputs[0].inputs[0]] = count
    return form.substitute(root, replacements)
