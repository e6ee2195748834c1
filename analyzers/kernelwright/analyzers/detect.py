"""Finding sites: where a rule's definition matches what a function computes, which source nodes that covers, and whether
anything else still needs the values in between."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from kernelwright.analyzers import syntax_tree
from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.assumptions import decided
from kernelwright.analyzers.facts import is_scalar
from kernelwright.analyzers.frontends.torch.translate import Translation
from kernelwright.analyzers.match import Blocked, Match, Matcher
from kernelwright.analyzers.normalise import NormalForm, instantiate
from kernelwright.analyzers.rules.loader import Rule, Variant
from kernelwright.analyzers.source import blocks_of


@dataclass(frozen=True)
class Site:
    """A match in a function.

    `output` is the source node the kernel call replaces; `region` the source nodes it makes needless (output included);
    `assumptions` the branch conditions (normal nodes) under which all this holds; `leak` names a value of the region that
    is needed elsewhere whatever the conditions, or None; `done` is set for the old path that a guard already keeps, `joined`
    where the code has the first two axes of the kernel's result in one.
    """

    rule: Rule
    variant: Variant
    translation: Translation
    output: Node
    match: Match
    region: frozenset[Node]
    assumptions: Mapping[Node, bool]
    leak: str | None
    done: bool = False
    joined: bool = False


@dataclass(frozen=True)
class NearMiss:
    """A place where a definition began to match and then did not."""

    rule: str
    node: Node
    blocked: Blocked


class Detector:
    """Looks for the sites of rules in one translated function."""

    def __init__(self, translation: Translation) -> None:
        self.translation = translation
        self.form = NormalForm()
        self.normal: dict[Node, Node] = {}
        program = translation.program
        for node in program.nodes():
            self.normal[node] = self.form.of(node, translation.ranks)
        self.operations = {inner.operation for inner in walk(tuple(self.normal.values()))}
        self.near_misses: list[NearMiss] = []
        self.returned = self._returned()
        """Values that a called method of the own class makes and a statement `a, b = self.method(...)` binds."""

    def sites(self, rule: Rule) -> Iterator[Site]:
        """The sites of one rule, outermost first where two overlap; each source node is in one site at most."""
        taken: set[Node] = set()
        candidates = [n for n in self.normal if self._is_own(n)]
        for variant in rule.variants:
            if not variant.required <= self.operations:
                continue
            pattern = self._pattern(variant)
            for node in reversed(candidates):
                target = self._before_joining(rule, node)
                if node in taken or target.operation not in _roots(pattern):
                    continue
                matcher = Matcher(self.form, variant.parameters)
                found: Site | None = None
                for match in self._with_scaled_operands(matcher.matches(pattern, target)):
                    site = self._site(rule, variant, node, match)
                    if site is not None and (found is None or found.leak):
                        found = site
                    if found is not None and found.leak is None:
                        break
                if found is not None:
                    taken |= found.region
                    yield found
                elif matcher.blocked.depth >= 2:
                    self.near_misses.append(NearMiss(rule.name, node, matcher.blocked))

    def _before_joining(self, rule: Rule, node: Node) -> Node:
        """The normal form of a candidate; what its first two axes are joined from, where the rule's kernel has them apart."""
        normal = self.normal[node]
        joins = normal.operation == "flatten" and (normal.attribute("start"), normal.attribute("end")) == (0, 1)
        return normal.inputs[0] if joins and rule.lifted and node.operation != "flatten" else normal

    def _with_scaled_operands(self, matches: Iterator[Match]) -> Iterator[Match]:
        """Each match, then those in which a scaled operand that the code has (`q * s`) is taken as it is.

        Needed where the scaled value is used elsewhere too: then it must stay, and the kernel's scale is what is left.
        """
        present = set(self.normal.values())
        for match in matches:
            yield match
            scale = match.bindings.get("scale")
            for name in ("q", "k"):
                bound = match.bindings.get(name)
                if scale is None or bound is None or scale is self.form.constant(1):
                    continue
                parts = scale.inputs if scale.operation == "mul" else (scale,)
                for part in (scale, *parts):
                    scaled = self.form.build("mul", part, bound)
                    if scaled in present:
                        rest = self.form.build("div", scale, part)
                        yield Match({**match.bindings, name: scaled, "scale": rest}, match.assumptions)

    def _pattern(self, variant: Variant) -> Node:
        arguments = {
            p.name: self.form.interned("input", (), (("name", p.name), ("variable", True))) for p in variant.parameters
        }
        return instantiate(self.form, variant.definition, arguments)

    def _returned(self) -> dict[Node, ast.Assign]:
        found = {}
        for statement, names in self.translation.assigned.items():
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                for value in names.values():
                    origin = self.translation.origins.get(value) if isinstance(value, Node) else None
                    if origin is not None and origin.inlined is not None and origin.statement is statement:
                        assert isinstance(value, Node)
                        found[value] = statement
        return found

    def _is_own(self, node: Node) -> bool:
        """True for a node written in this function itself, or returned by a method it calls."""
        if node in self.returned and node.operation != "choose":
            return True
        if node.operation in ("input", "constant", "choose", "attribute", "parameter") or node.span is None:
            return False
        expression = self.translation.expressions.get(node)
        return expression is not None and node.span == self.translation.source.span(expression)

    # ---- the region

    def _site(self, rule: Rule, variant: Variant, output: Node, match: Match) -> Site | None:
        cuts = self._cuts(output, match)
        region: set[Node] = set()
        stack = [output]
        while stack:
            node = stack.pop()
            if node in region:
                continue
            if node is not output and (self.normal[node] in cuts or self.normal[node].operation == "constant"):
                continue
            if node.operation in ("input", "parameter", "attribute"):
                continue
            region.add(node)
            if node.operation == "choose":
                value = decided(self.normal[node.inputs[0]], match.assumptions)
                stack.extend(node.inputs[1:] if value is None else [node.inputs[1 if value else 2]])
            elif is_scalar(self.normal[node]):
                # A size is read off tensors that have their own place in the region, or none.
                stack.extend(o for o in node.inputs if is_scalar(self.normal[o]))
            else:
                stack.extend(node.inputs)
        if len(region) < 2 or output not in region:
            return None
        call = self.returned.get(output)
        if call is not None and not any(
            value is not output and value in region for value in self.translation.assigned[call].values()
        ):
            return None  # the method gives nothing away but its result: the fix belongs there
        assumptions = dict(match.assumptions)
        leak = self._closed(output, region, assumptions)
        inner = self._inner_values(output, region)
        if not all(_is_testable(condition, inner) for condition in assumptions):
            leak = leak or "it depends on a condition that cannot be tested beforehand"
        contexts = self.translation.contexts
        if any(
            contexts.get(node, ()) != contexts.get(output, ()) for node in region if not is_scalar(self.normal[node])
        ):
            leak = leak or "parts of it stand in different `with` blocks"
        done = self._already_done(rule, variant, output, match, assumptions)
        return Site(
            rule,
            variant,
            self.translation,
            output,
            match,
            frozenset(region),
            assumptions,
            leak,
            done,
            self._before_joining(rule, output) is not self.normal[output],
        )

    def _already_done(
        self, rule: Rule, variant: Variant, output: Node, match: Match, assumptions: Mapping[Node, bool]
    ) -> bool:
        """True where the site is the old path that a guard keeps: its own guard, or a branch beside the kernel's."""
        statement = self.translation.origins[output].statement
        path = [self.form.of(c, self.translation.ranks) for c in self.translation.paths.get(statement, ())]
        if assumptions and any(decided(c, assumptions) is False for c in path):
            return True
        if variant.guard_program is not None:
            guard = instantiate(self.form, variant.guard_program, match.bindings)
            if self.form.build("logical_not", guard) in path:
                return True
        operation = (variant.kernel_name or rule.kernel).rpartition(".")[2]
        calls = [o.statement for n, o in self.translation.origins.items() if n.operation == operation]
        return any(is_alternative(self.translation.function.node.body, call, statement) for call in calls)

    def _cuts(self, output: Node, match: Match) -> set[Node]:
        """The normal nodes at which the region ends: what the variables are bound to, and the parts of masks and scales."""
        cuts: set[Node] = set()
        under = {self.normal[n] for n in walk((output,))}
        for bound in match.bindings.values():
            stack = [bound]
            while stack:
                node = stack.pop()
                cuts.add(node)
                if node in under and node.operation not in ("add", "mul", "choose", "logical_not"):
                    continue
                if node.operation in ("add", "mul", "choose", "logical_not"):
                    stack.extend(node.inputs)
                elif node.operation == "unflatten" and node not in under:
                    stack.append(node.inputs[0])  # the code has it with batch and heads in one axis only
                elif node.operation == "permute" and node not in under:
                    # k stands in the code in its transposed form only.
                    transposed = self.form.build("permute", node, dims=(-1, -2), full=False)
                    if transposed not in cuts:
                        stack.append(transposed)
        return {c for c in cuts if c.operation != "constant"}

    def _closed(self, output: Node, region: set[Node], assumptions: dict[Node, bool]) -> str | None:
        """Make sure nothing outside the region needs its inner values; add conditions under which that is so.

        Returns what leaks in spite of all conditions, or None. `assumptions` is extended in place.
        """
        for _ in range(6):
            user = self._outside_user(output, region, assumptions)
            if user is None:
                return None
            extra = self._condition_without(output, region, assumptions, user)
            if extra is None:
                return self._described(user)
            assumptions.update(extra)
        return "too many conditions"

    def _inner_values(self, output: Node, region: set[Node]) -> set[Node]:
        """The normal nodes of tensors that only the region makes."""
        made = {self.normal[n] for n in region if not is_scalar(self.normal[n]) and not self._cheap(n)}
        return made - {self.normal[o] for n in region for o in n.inputs if o not in region}

    def _outside_user(
        self, output: Node, region: set[Node], assumptions: Mapping[Node, bool]
    ) -> tuple[Node, Node] | None:
        inner = {n for n in region if n is not output and not is_scalar(self.normal[n]) and not self._cheap(n)}
        for user in self._reachable(output, assumptions):
            if user in region:
                continue
            for operand in self._live_operands(user, assumptions):
                if operand in inner:
                    return user, operand
        return None

    def _cheap(self, node: Node) -> bool:
        """Values that may be read elsewhere: the code keeps the statement that makes them."""
        return node.operation in ("shape", "size", "tuple", "dtype", "dtype_of", "global", "field")

    def _live_operands(self, node: Node, assumptions: Mapping[Node, bool]) -> tuple[Node, ...]:
        if node.operation == "choose":
            value = decided(self.normal[node.inputs[0]], assumptions)
            if value is not None:
                return (node.inputs[1 if value else 2],)
        if node.operation in ("shape", "size", "rank", "dtype_of") or node.attribute("name") == "device":
            return ()  # a look at a shape is no use: a check of shapes goes with the values it checks
        return node.inputs

    def _reachable(self, output: Node, assumptions: Mapping[Node, bool]) -> list[Node]:
        """Nodes still computed under the assumptions, not looking below the output."""
        program = self.translation.program
        seen: set[Node] = set()
        order: list[Node] = []
        stack = [*program.outputs, *program.effects]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            order.append(node)
            if node is not output:
                stack.extend(self._live_operands(node, assumptions))
        return order

    def _condition_without(
        self, output: Node, region: set[Node], assumptions: Mapping[Node, bool], user: tuple[Node, Node]
    ) -> dict[Node, bool] | None:
        """A condition under which nothing outside reads the region any more; else one under which `user` does not."""
        tried: set[Node] = set()
        partial: dict[Node, bool] | None = None
        inner = self._inner_values(output, region)
        for node in self._reachable(output, assumptions):
            if node.operation != "choose":
                continue
            condition = self.normal[node.inputs[0]]
            atom = condition.inputs[0] if condition.operation == "logical_not" else condition
            if atom in tried or atom in assumptions or not _is_testable(atom, inner):
                continue
            tried.add(atom)
            for value in (False, True):
                extended = {**assumptions, atom: value}
                if output not in (reachable := self._reachable(output, extended)):
                    continue
                if self._outside_user(output, region, extended) is None:
                    return {atom: value}
                if user[0] not in reachable and partial is None:
                    partial = {atom: value}
        return partial

    def _described(self, user: tuple[Node, Node]) -> str:
        node, operand = user
        line = f", line {node.span.start_line}" if node.span is not None else ""
        what = "returned" if node.operation == "tuple" else f"used in {node.operation}"
        return f"{operand.operation} is {what}{line}"


def _roots(pattern: Node) -> frozenset[str]:
    """Operations a match can begin at: the pattern's own, and what it may have become without neutral parts."""
    return frozenset({pattern.operation, "choose"} if pattern.operation != "choose" else {"choose"})


def is_alternative(body: list[ast.stmt], one: ast.stmt, other: ast.stmt) -> bool:
    """True where the two statements stand in different branches of one `if`, or `one` in a branch that returns before
    `other` is reached."""
    for index, statement in enumerate(body):
        inside = set(syntax_tree.walk(statement))
        if one not in inside:
            continue
        if isinstance(statement, ast.If):
            in_body = any(one in set(syntax_tree.walk(s)) for s in statement.body)
            taken, rest = (statement.body, statement.orelse) if in_body else (statement.orelse, statement.body)
            if any(other in set(syntax_tree.walk(s)) for s in rest):
                return True
            later = any(other in set(syntax_tree.walk(s)) for s in body[index + 1 :])
            if later and taken and isinstance(taken[-1], ast.Return):
                return True
        return any(is_alternative(block, one, other) for block in blocks_of(statement))
    return False


def _is_testable(condition: Node, inner: Container[Node]) -> bool:
    """True for a condition that can be tested before the region runs: it reads none of the region's values, or their
    element types only. Whether it can be written with the names at hand is seen when the edit is planned."""
    stack = [condition]
    while stack:
        node = stack.pop()
        if node in inner:
            return False
        if node.operation != "dtype_of":
            stack.extend(node.inputs)
    return True
