"""Closed-world matching of a definition against a normal node.

Every operation and operand between the bound variables and the output is consumed by the definition, or proven neutral,
or there is no match. Operands of sums and products are matched in any order. Where the code branches and the definition
does not, a match takes one arm and records the condition: it becomes the guard of the fix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.facts import is_one_wide, is_scalar
from kernelwright.analyzers.normalise import NormalForm
from kernelwright.analyzers.rules.loader import Parameter


@dataclass(frozen=True)
class Match:
    """What each variable is bound to (absent ones to their neutral constant), and the conditions the match assumes."""

    bindings: Mapping[str, Node]
    assumptions: Mapping[Node, bool] = field(default_factory=dict)


State = tuple[dict[str, Node], dict[Node, bool]]
_LIMIT = 4000


@dataclass
class Blocked:
    """The furthest point a failed match reached: how many operations of the definition were consumed, and the node there."""

    depth: int = -1
    node: Node | None = None
    expected: str = ""


class Matcher:
    """Matches one definition (a normal node over `input` leaves) in a normal form."""

    def __init__(self, form: NormalForm, parameters: tuple[Parameter, ...]) -> None:
        self.form = form
        self.parameters = {p.name: p for p in parameters}
        self.blocked = Blocked()
        self._steps = 0

    def matches(self, pattern: Node, node: Node) -> Iterator[Match]:
        """All matches, those with fewer assumptions tending to come first."""
        self._steps = 0
        for bindings, assumptions in self._match(pattern, node, ({}, {}), 0):
            complete = dict(bindings)
            for parameter in self.parameters.values():
                if parameter.name not in complete and parameter.neutral is not None:
                    complete[parameter.name] = self.form.constant(parameter.neutral)
            if len(complete) == len(self.parameters):
                yield Match(complete, assumptions)

    def _match(self, pattern: Node, node: Node, state: State, depth: int) -> Iterator[State]:
        self._steps += 1
        if self._steps > _LIMIT:
            return
        if pattern.operation == "input":
            yield from self._bind(str(pattern.attribute("name")), node, state)
            return
        matched = False
        looser = ("add", "constant") if node.operation == "add" else ("add", "mul", "constant")
        if node.operation in ("add", "mul") and pattern.operation not in looser:
            without = self._without_optional(node, state)
            if without is not None:
                yield from self._match(pattern, without[0], without[1], depth)
                return
        for found in self._shape(pattern, node, state, depth):
            matched = True
            yield found
        if node.operation == "where" and pattern.operation != "where":
            for found in self._match_without_mask(pattern, node, state, depth):
                matched = True
                yield found
        if node.operation == "choose" and pattern.operation != "choose":
            condition, first, second = node.inputs
            known = state[1].get(condition)
            for arm, value in ((first, True), (second, False)):
                if known is None or known is value:
                    assumed = {**state[1], condition: value}
                    for found in self._match(pattern, arm, (state[0], assumed), depth):
                        matched = True
                        yield found
        if not matched and depth > self.blocked.depth:
            self.blocked = Blocked(depth, node, pattern.operation)

    def _match_without_mask(self, pattern: Node, node: Node, state: State, depth: int) -> Iterator[State]:
        """Matches of what a mask selects from, where the mask is there under a condition only: as if it were not."""
        mask, kept, dropped = node.inputs
        if mask.operation != "choose":
            return
        condition, first, second = mask.inputs
        for arm, value in ((first, True), (second, False)):
            everything = arm.attribute("value") if arm.operation == "constant" else None
            if isinstance(everything, bool) and state[1].get(condition, value) is value:
                assumed = {**state[1], condition: value}
                yield from self._match(pattern, kept if everything else dropped, (state[0], assumed), depth)

    def _without_optional(self, node: Node, state: State) -> tuple[Node, State] | None:
        """A sum or product of which all operands but one may be absent: that one, and the conditions for it."""
        neutral = 0 if node.operation == "add" else 1
        optional = {part: self._optional(part, neutral) for part in node.inputs}
        kept = [part for part in node.inputs if optional[part] is None]
        if len(kept) != 1:
            return None
        assumptions = dict(state[1])
        for conditions in optional.values():
            for condition, value in (conditions or {}).items():
                if assumptions.setdefault(condition, value) is not value:
                    return None
        return kept[0], (state[0], assumptions)

    def _bind(self, name: str, node: Node, state: State) -> Iterator[State]:
        bound = state[0].get(name)
        if bound is not None:
            if bound is node:
                yield state
            return
        kind = self.parameters[name].kind
        if kind == "kept" and node.operation == "choose":
            # The kernel's text selects by it: it must be there.
            condition, first, second = node.inputs
            for arm, other, value in ((first, second, True), (second, first, False)):
                if (
                    other in (self.form.constant(True), self.form.constant(0))
                    and state[1].get(condition, value) is value
                ):
                    yield {**state[0], name: arm}, {**state[1], condition: value}
                    return
        if not _fits(kind, node):
            return
        yield {**state[0], name: node}, state[1]

    def _shape(self, pattern: Node, node: Node, state: State, depth: int) -> Iterator[State]:
        operation = pattern.operation
        if operation == "constant":
            if node.operation == "constant" and node is self.form.constant(pattern.attribute("value")):
                yield state
        elif operation in ("add", "mul"):
            yield from self._commutative(pattern, node, state, depth)
        elif operation == "permute" and pattern.inputs[0].operation == "input":
            # k appears transposed in the definition: whatever stands there, k is its transpose.
            inverse = self.form.build("permute", node, dims=_inverse(pattern.attribute("dims")), full=False)
            yield from self._bind(str(pattern.inputs[0].attribute("name")), inverse, state)
        elif operation == "dropout":
            inner, probability = pattern.inputs
            if node.operation == "dropout":
                for found in self._match(probability, node.inputs[1], state, depth + 1):
                    yield from self._match(inner, node.inputs[0], found, depth + 1)
            elif self._is_neutral(probability, 0):
                yield from self._match(inner, node, state, depth)
        elif operation == "where" and node.operation == "where":
            mask, a, b = pattern.inputs
            condition, first, second = node.inputs
            for test, x, y in ((condition, first, second), (self._negated(condition), second, first)):
                for found in self._match(a, x, state, depth + 1):
                    for more in self._match(b, y, found, depth + 1):
                        yield from self._match(mask, test, more, depth + 1)
        elif (
            node.operation == operation
            and node.attributes == pattern.attributes
            and len(node.inputs) == len(pattern.inputs)
        ):
            yield from self._operands(pattern.inputs, node.inputs, state, depth + 1)

    def _negated(self, condition: Node) -> Node:
        if condition.operation == "choose":
            arms = (self._negated(arm) for arm in condition.inputs[1:])
            return self.form.build("choose", condition.inputs[0], *arms)
        return self.form.build("logical_not", condition)

    def _operands(
        self, patterns: tuple[Node, ...], nodes: tuple[Node, ...], state: State, depth: int
    ) -> Iterator[State]:
        if not patterns:
            yield state
            return
        for found in self._match(patterns[0], nodes[0], state, depth):
            yield from self._operands(patterns[1:], nodes[1:], found, depth)

    def _is_neutral(self, pattern: Node, value: int) -> bool:
        if pattern.operation != "input":
            return False
        neutral = self.parameters[str(pattern.attribute("name"))].neutral
        return neutral is not None and not isinstance(neutral, bool) and neutral == value

    def _commutative(self, pattern: Node, node: Node, state: State, depth: int) -> Iterator[State]:
        """Match the operands of a sum or product in any order.

        Constants and compound operands first, each against one operand; bound variables take theirs; the last unbound
        variable takes all that is left. Nothing may remain.
        """
        fixed = [p for p in pattern.inputs if p.operation != "input"]
        fixed.sort(key=lambda p: p.operation == "constant", reverse=True)
        variables = [str(p.attribute("name")) for p in pattern.inputs if p.operation == "input"]
        operands = list(node.inputs) if node.operation == pattern.operation else [node]
        for chosen, rest in self._assign(fixed, operands, state, depth):
            yield from self._leftover(pattern.operation, variables, rest, chosen)

    def _assign(
        self, fixed: list[Node], operands: list[Node], state: State, depth: int
    ) -> Iterator[tuple[State, list[Node]]]:
        if not fixed:
            yield state, operands
            return
        for position, operand in enumerate(operands):
            for found in self._match(fixed[0], operand, state, depth + 1):
                yield from self._assign(fixed[1:], operands[:position] + operands[position + 1 :], found, depth)

    def _leftover(self, operation: str, variables: list[str], rest: list[Node], state: State) -> Iterator[State]:
        neutral = 0 if operation == "add" else 1
        bindings, assumptions = dict(state[0]), dict(state[1])
        unbound = []
        for name in variables:
            bound = bindings.get(name)
            if bound is None:
                unbound.append(name)
                continue
            taken = list(bound.inputs) if bound.operation == operation else [bound]
            if self._neutral_constant(bound, neutral):
                taken = []
            if any(part not in rest for part in taken):
                return
            for part in taken:
                rest = [*rest]
                rest.remove(part)
        kept: list[Node] = []
        for part in rest:
            optional = self._optional(part, neutral)
            passed = any(self._may_be_bound(name, part) for name in unbound)
            if optional is None or passed or any(assumptions.get(c, v) is not v for c, v in optional.items()):
                kept.append(part)
            else:
                assumptions.update(optional)
        if len(kept) > 1 and all(self._optional(part, neutral) is not None for part in kept):
            # None cannot be added to anything: of several terms that may be absent each must be there.
            for position, part in enumerate(kept):
                if self._may_be_passed(part) and assumptions.setdefault(part.inputs[0], False) is False:
                    kept[position] = part.inputs[2] if self._neutral_constant(part.inputs[1], 0) else part.inputs[1]
        if not unbound:
            if not kept:
                yield bindings, assumptions
            return
        for index, name in enumerate(unbound):
            others = [n for n in unbound if n != name]
            if any(not self._has_neutral(other, neutral) for other in others):
                if len(unbound) != 2 or len(kept) != 2 or index:
                    continue
                for a, b in ((kept[0], kept[1]), (kept[1], kept[0])):
                    for found in self._bind(name, a, (bindings, assumptions)):
                        yield from self._bind(others[0], b, found)
                return
            if kept:
                whole = self.form.make(operation, tuple(kept), ()) if len(kept) > 1 else kept[0]
                yield from self._bind(name, whole, (bindings, assumptions))
            elif self._has_neutral(name, neutral):
                yield {**bindings, name: self.form.constant(neutral)}, assumptions
            if not kept:
                return

    def _neutral_constant(self, node: Node, value: int) -> bool:
        return node is self.form.constant(value)

    def _has_neutral(self, name: str, value: int) -> bool:
        neutral = self.parameters[name].neutral
        return neutral is not None and not isinstance(neutral, bool) and neutral == value

    def _optional(self, part: Node, neutral: int) -> dict[Node, bool] | None:
        """For a term that is there under conditions only: the conditions with their values where it is absent."""
        if part.operation != "choose":
            return None
        condition, first, second = part.inputs
        for arm, value in ((second, False), (first, True)):
            if self._neutral_constant(arm, neutral):
                return {condition: value}
            deeper = self._optional(arm, neutral)
            if deeper is not None and condition not in deeper:
                return {condition: value, **deeper}
        return None

    def _may_be_bound(self, name: str, part: Node) -> bool:
        """True for a term that the variable can take with the condition in it."""
        kind = self.parameters[name].kind
        return self._may_be_passed(part) or kind == "added" or (kind == "number" and is_scalar(part))

    def _may_be_passed(self, part: Node) -> bool:
        """True for a term that is absent exactly where an argument is None: the kernel takes None for it."""
        if part.operation != "choose":
            return False
        condition, first, second = part.inputs
        present = second if self._neutral_constant(first, 0) else first
        return condition.operation == "is_none" and condition.inputs[0] is present


def _fits(kind: str, node: Node) -> bool:
    if kind == "any":
        return True
    if kind == "number":
        return is_scalar(node)
    if kind == "weight":
        return node.operation == "parameter"
    if kind == "rows":
        return is_one_wide(node) and not is_scalar(node)
    return not is_scalar(node)


def _inverse(dims: object) -> tuple[int, ...]:
    assert isinstance(dims, tuple)
    depth = len(dims)
    order = [0] * depth
    for position, axis in enumerate(dims):
        order[axis + depth] = position - depth
    return tuple(order)
