"""The same-program check: is an edited function the old one, on every path?

Both are brought to one normal form, with every kernel expanded to its reference definition. Where they branch, the
conditions are split one by one until both sides are decided; equal means the same interned node on each path.
"""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.assumptions import specialised
from kernelwright.analyzers.expansions import EXPANSIONS
from kernelwright.analyzers.frontends.torch.translate import Translation
from kernelwright.analyzers.normalise import NormalForm

MAXIMUM_PATHS = 256
"""Combinations of conditions compared; a function with more differing paths is "not shown equal", never "equal"."""


def difference(old: Translation, new: Translation, droppable: frozenset[Node] = frozenset()) -> str | None:
    """None where `new` is the same program as `old`; else what differs, in a sentence for people.

    `droppable` are `raise` effects of the old program that may go or stand under a guard: shape checks of what the kernel
    takes over.
    """
    unbound = new.unbound_reads - old.unbound_reads
    if unbound:
        return f"the edited code may read {min(unbound)} where it is not assigned"
    form = NormalForm(EXPANSIONS)
    olds: list[Node] = []
    news: list[Node] = []
    errors_before: list[Node] = []
    errors_after: list[Node] = []
    for translation, out, errors in ((old, olds, errors_before), (new, news, errors_after)):
        form.begin()  # what is random or unknown is told apart by its order, in each program from the start
        out.append(_wrapped(form, translation))
        out.extend(form.of(n, translation.ranks) for n in translation.program.effects if n.operation != "raise")
        raised = (n for n in translation.program.effects if n.operation == "raise")
        errors.extend(form.of(n.inputs[0], translation.ranks) for n in raised)
    if len(olds) != len(news):
        return f"the edit changes what happens besides: {len(olds) - 1} effects before, {len(news) - 1} after"
    checks = _Comparison(form)
    for before, after in zip(olds, news, strict=True):
        reason = checks.difference(before, after, {})
        if reason is not None:
            return reason
    old_errors = [n for n in old.program.effects if n.operation == "raise"]
    for condition in errors_after:
        if not any(checks.is_weaker(condition, known) for known in errors_before):
            return "the edit adds an error path"
    for effect, condition in zip(old_errors, errors_before, strict=True):
        if effect not in droppable and not any(
            checks.difference(condition, other, {}) is None for other in errors_after
        ):
            return "the edit drops an error path"
    return None


def _parts(condition: Node) -> tuple[Node, ...]:
    return condition.inputs if condition.operation == "logical_and" else (condition,)


def _wrapped(form: NormalForm, translation: Translation) -> Node:
    return form.of(translation.program.outputs[0], translation.ranks)


class _Comparison:
    def __init__(self, form: NormalForm) -> None:
        self.form = form
        self.paths = 0

    def is_weaker(self, condition: Node, known: Node) -> bool:
        """True where an error arises only if it arose before: the old condition, or that and more (the guard)."""
        return all(
            any(part is old or self.difference(old, part, {}) is None for part in _parts(condition))
            for old in _parts(known)
        )

    def difference(self, a: Node, b: Node, assumptions: dict[Node, bool]) -> str | None:
        if a is b or _raises(a):
            return None
        condition = _first_condition(a, b)
        if condition is None:
            where, left, right = _first_difference(a, b)
            return f"not the same program{where}: {_shown(left)} before, {_shown(right)} after"
        self.paths += 1
        if self.paths > MAXIMUM_PATHS:
            return f"more than {MAXIMUM_PATHS} paths to compare"
        for value in (True, False):
            assumed = {condition: value}
            types, ranks = dict(self.form.types), dict(self.form.assumed_ranks)
            reason = self.difference(
                specialised(self.form, a, assumed), specialised(self.form, b, assumed), {**assumptions, **assumed}
            )
            self.form.types, self.form.assumed_ranks = types, ranks
            if reason is not None:
                return reason
        return None


def _raises(node: Node) -> bool:
    """True where the old program computes with None on this path: Python raises there, so nothing needs to be kept."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        inner = stack.pop()
        if inner in seen or inner.operation == "choose":
            continue  # an undecided branch may not be taken
        seen.add(inner)
        arithmetic = inner.operation in ("add", "mul", "pow", "matmul", "where", "less", "permute", "softmax", "cast")
        if arithmetic and any(o.operation == "constant" and o.attribute("value") is None for o in inner.inputs):
            return True
        stack.extend(inner.inputs)
    return False


def _first_condition(a: Node, b: Node) -> Node | None:
    """An atomic condition that one of the two branches on; shared branches are left alone where they are one node."""
    shared = {id(n) for n in walk((a,))} & {id(n) for n in walk((b,))}
    for root in (b, a):
        for node in walk((root,)):
            if node.operation == "choose" and id(node) not in shared:
                return node.inputs[0]
    for root in (b, a):
        for node in walk((root,)):
            if node.operation == "choose":
                return node.inputs[0]
    return None


def _first_difference(a: Node, b: Node) -> tuple[str, Node, Node]:
    where = ""
    while a.operation == b.operation and a.attributes == b.attributes and len(a.inputs) == len(b.inputs):
        pairs = [(x, y) for x, y in zip(a.inputs, b.inputs, strict=True) if x is not y]
        if len(pairs) != 1:
            break
        where = f" in {a.operation}"
        a, b = pairs[0]
    return where, a, b


def _shown(node: Node, depth: int = 3) -> str:
    if node.operation == "input":
        return str(node.attribute("name"))
    if node.operation in ("attribute", "parameter"):
        return f"self.{node.attribute('path')}"
    if node.operation in ("constant", "dtype"):
        return str(node.attribute("value", node.attribute("name")))
    if depth == 0:
        return "…"
    attributes = [f"{k}={v}" for k, v in node.attributes]
    return f"{node.operation}({', '.join([*(_shown(o, depth - 1) for o in node.inputs), *attributes])})"
