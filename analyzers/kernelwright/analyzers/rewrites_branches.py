"""Rewrites of branches and conditions: decided ones vanish, optional terms become neutral elements."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.facts import is_boolean, is_scalar
from kernelwright.analyzers.normalise import NormalForm, rewrite


@rewrite("logical_not")
def double_negation(f: NormalForm, n: Node) -> Node | None:
    """not not a = a"""
    inner = n.inputs[0]
    if inner.operation == "logical_not":
        return inner.inputs[0]
    if inner.operation == "constant":
        return f.constant(not inner.attribute("value"))
    return None


@rewrite("truth")
def truth_of_a_condition(f: NormalForm, n: Node) -> Node | None:
    """The truth of a comparison is the comparison; of None, of a number, of a flag it is known"""
    inner = n.inputs[0]
    if inner.operation == "constant":
        return f.constant(bool(inner.attribute("value")))
    return inner if is_boolean(inner) or inner.attribute("kind") == "flag" else None


@rewrite("logical_or")
def either_is_not_neither(f: NormalForm, n: Node) -> Node | None:
    """a or b = not (not a and not b)"""
    return f.build("logical_not", f.make("logical_and", tuple(f.build("logical_not", x) for x in n.inputs), ()))


@rewrite("logical_and")
def conjunction_in_order(f: NormalForm, n: Node) -> Node | None:
    """Conjunctions are flat, sorted and without repeats"""
    flat: list[Node] = []
    for operand in n.inputs:
        flat.extend(operand.inputs if operand.operation == "logical_and" else (operand,))
    parts: list[Node] = []
    for part in flat:
        if part.operation == "constant":
            if not part.attribute("value"):
                return f.constant(False)
        elif part not in parts:
            parts.append(part)
    if any(p.operation == "logical_not" and p.inputs[0] in parts for p in parts):
        return f.constant(False)
    parts.sort(key=f.serial)
    if not parts:
        return f.constant(True)
    if len(parts) == 1:
        return parts[0]
    made = f.interned("logical_and", tuple(parts), ())
    return None if made is n else made


@rewrite("choose")
def decided_branch(f: NormalForm, n: Node) -> Node | None:
    """A branch on a constant, or with two equal arms, is no branch; a negated condition exchanges the arms"""
    condition, a, b = n.inputs
    if a is b:
        return a
    if condition.operation == "constant":
        return a if condition.attribute("value") else b
    if condition.operation == "logical_not":
        return f.build("choose", condition.inputs[0], b, a)
    return None


@rewrite("choose")
def conjunction_is_two_branches(f: NormalForm, n: Node) -> Node | None:
    """a if (c and d) else b = (a if d else b) if c else b"""
    condition, a, b = n.inputs
    if condition.operation != "logical_and":
        return None
    result = a
    for part in reversed(condition.inputs):
        result = f.build("choose", part, result, b)
    return result


@rewrite("choose")
def arms_know_the_condition(f: NormalForm, n: Node) -> Node | None:
    """Inside its own arms the condition is decided"""
    condition, a, b = n.inputs
    if a.operation == "choose" and a.inputs[0] is condition:
        return f.build("choose", condition, a.inputs[1], b)
    if b.operation == "choose" and b.inputs[0] is condition:
        return f.build("choose", condition, a, b.inputs[2])
    return None


@rewrite("choose")
def optional_term_is_a_neutral_element(f: NormalForm, n: Node) -> Node | None:
    """(s + x) if c else s = s + (x if c else 0); likewise with products and 1"""
    condition, a, b = n.inputs
    for operation, neutral in (("add", 0), ("mul", 1)):
        common, more_a, more_b = _shared(operation, a, b)
        if all(part.operation == "constant" for part in common):
            continue
        first = f.make(operation, tuple(more_a), ()) if more_a else f.constant(neutral)
        second = f.make(operation, tuple(more_b), ()) if more_b else f.constant(neutral)
        return f.make(operation, (*common, f.build("choose", condition, first, second)), ())
    return None


def _shared(operation: str, a: Node, b: Node) -> tuple[list[Node], list[Node], list[Node]]:
    parts_a = list(a.inputs) if a.operation == operation else [a]
    parts_b = list(b.inputs) if b.operation == operation else [b]
    common = [part for part in parts_a if part in parts_b]
    return common, [p for p in parts_a if p not in common], [p for p in parts_b if p not in common]


@rewrite("mul")
def scale_goes_into_an_optional_term(f: NormalForm, n: Node) -> Node | None:
    """s * (x if c else 0) = s * x if c else 0, for a Python number s"""
    zero = f.constant(0)
    optional = [p for p in n.inputs if _may_vanish(p, zero)]
    rest = [p for p in n.inputs if p not in optional]
    if len(optional) != 1 or not rest or not all(is_scalar(p) for p in rest):
        return None
    condition, *arms = optional[0].inputs
    return f.build("choose", condition, *(arm if arm is zero else f.make("mul", (*rest, arm), ()) for arm in arms))


def _may_vanish(node: Node, zero: Node) -> bool:
    """True for a term that is 0 under some condition."""
    if node.operation != "choose":
        return False
    return any(arm is zero or _may_vanish(arm, zero) for arm in node.inputs[1:])


@rewrite("choose")
def optional_mask_is_an_empty_one(f: NormalForm, n: Node) -> Node | None:
    """where(m, fill, s) if c else s = where(m if c else False, fill, s)"""
    condition, a, b = n.inputs
    for masked, plain, swapped in ((a, b, False), (b, a, True)):
        if masked.operation != "where":
            continue
        mask, first, second = masked.inputs
        if plain is second:
            neutral = f.constant(False)
        elif plain is first:
            neutral = f.constant(True)
        else:
            continue
        arms = (neutral, mask) if swapped else (mask, neutral)
        return f.build("where", f.build("choose", condition, *arms), first, second)
    return None


@rewrite("is_none")
def none_is_none(f: NormalForm, n: Node) -> Node | None:
    """None is None; a branch of which one side is None is None where it takes that side"""
    inner = n.inputs[0]
    if inner.operation == "constant":
        return f.constant(inner.attribute("value") is None)
    if inner.operation == "choose":
        tests = [f.build("is_none", arm) for arm in inner.inputs[1:]]
        if any(t.operation == "constant" for t in tests):
            return f.build("choose", inner.inputs[0], *tests)
        return None
    if inner.operation not in (
        "input",
        "attribute",
        "item",
        "call",
        "layer",
        "opaque",
        "field",
        "global",
        "parameter",
        "pick",
        "carried",
        "loop",
        "element",
    ):
        return f.constant(False)
    return None
