"""Loops and comprehensions: short ones over known sequences are written out, all others become `loop` operations.

A `loop` is complete: what it runs over, the values before it, and what an iteration makes of the values it finds
(`carried`). Its body is translated once, on those values; so operations inside a body are found like any others.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.calls import Calls
from kernelwright.analyzers.frontends.torch.conditions import conjunction
from kernelwright.analyzers.frontends.torch.expressions import REPEATED, Environment, Jump
from kernelwright.analyzers.frontends.torch.values import (
    LayerValue,
    ModuleValue,
    NotUnderstood,
    TableValue,
    Value,
)
from kernelwright.analyzers.source import FunctionNode
from kernelwright.analyzers.syntax_tree import walk

MAXIMUM_UNROLLED = 8
"""Iterations of a loop over a sequence of known length that are written out."""
MAXIMUM_ATTEMPTS = 4
"""Translations of one body until all that it changes is known; past that, all it changes is unknown."""

Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp


@dataclass
class _Body:
    """A body's translation: the values before the loop and after an iteration, by name, and how iterations end."""

    inits: dict[str, Node]
    nexts: dict[str, Value]
    breaks: list[Node]
    start: int
    leaves: bool = False


class Loops(Calls):
    """Adds loops; `Evaluator` adds the other statements."""

    def run(self, body: list[ast.stmt]) -> bool:
        raise NotImplementedError

    def merged(self, condition: Node, first: Environment, second: Environment) -> Environment:
        raise NotImplementedError

    # ---- statements

    def loop(self, s: ast.For | ast.AsyncFor) -> None:
        iterable = self.evaluate(s.iter)
        items = self.items(iterable)
        leaves = any(isinstance(n, ast.Break | ast.Continue | ast.Return) for b in s.body for n in walk(b))
        if items is not None and len(items) <= MAXIMUM_UNROLLED and not leaves:
            for item in items:
                self.assign(s.target, item, s)
                if not self.run(s.body):
                    return
            self.run(s.orelse)
            return
        number = self.next_loop()

        def bind() -> list[Node]:
            self.assign(s.target, self.each(iterable, number), s)
            return []

        changed = {n.id for n in walk(s.target) if isinstance(n, ast.Name)} | stored_names(s.body)
        self.repeat(s.body, number, self.node_of(iterable), changed, bind)
        self.otherwise(s)

    def while_loop(self, s: ast.While) -> None:
        number = self.next_loop()

        def bind() -> list[Node]:
            test = self.test(s.test)
            self.facts.remember(test, True)
            return [test]

        self.repeat(s.body, number, self.graph.none, stored_names(s.body), bind)
        self.otherwise(s)

    def otherwise(self, s: ast.For | ast.AsyncFor | ast.While) -> None:
        """The `else` of a loop: after a `break` it does not run, so what it stores is not known then."""
        self.run(s.orelse)
        if s.orelse and any(isinstance(n, ast.Break) for b in s.body for n in walk(b)):
            for name in sorted(stored_names(s.orelse)):
                self.frame.environment[name] = self.graph.node("opaque", reason="else of a loop", text=name)

    def next_loop(self) -> int:
        self.graph.loops += 1
        return self.graph.loops

    def jump(self, s: ast.Continue | ast.Break) -> None:
        condition = conjunction(self.graph, self.frame.path[self.frame.base :])
        self.frame.jumps.append(Jump(condition, self.frame.environment, isinstance(s, ast.Break)))

    def repeat(
        self, body: list[ast.stmt], number: int, over: Node, changed: set[str], bind: Callable[[], list[Node]]
    ) -> None:
        """Translate a body and leave the names as they are after the loop."""
        before = self.frame.environment
        facts = self.facts
        conditions, translated = self.translated_body(body, number, over, changed, bind)
        self.facts = facts
        self.frame.environment = dict(before)
        if translated is None or not _is_plain(body):
            for name in sorted(changed if translated is None else translated.inits):
                old = before.get(name)
                inputs = (old,) if isinstance(old, Node) else ()
                self.frame.environment[name] = self.graph.node("opaque", *inputs, reason="loop", text=name)
            return
        if translated.leaves:
            return  # every iteration raises: what stands behind the loop is reached only if there was none
        results = self.loop_results(translated, [over, *conditions, *translated.breaks], number)
        for name, value in results.items():
            self.frame.environment[name] = value

    def translated_body(
        self, body: list[ast.stmt], number: int, over: Node, changed: set[str], bind: Callable[[], list[Node]]
    ) -> tuple[list[Node], _Body | None]:
        """One iteration on unknown values for all that iterations change. `changed` grows to all that they do change."""
        frame, before, facts = self.frame, self.frame.environment, self.facts
        counts = (len(self.effects), len(frame.returns), self.graph.loops)
        changed.intersection_update({n for n in changed if "." not in n or n.startswith("self.")})
        for _ in range(MAXIMUM_ATTEMPTS):
            self.facts = facts.copy()
            start = len(self.graph.made)
            frame.environment = dict(before)
            inits = {name: self.before_loop(name, before) for name in sorted(changed)}
            for name, init in inits.items():
                frame.environment[name] = self.graph.node("carried", init, name=name, loop=number)
            marker = self.graph.node("iteration", over, loop=number)
            saved, frame.jumps, base = frame.jumps, [], frame.base
            frame.path.append(marker)
            frame.base = len(frame.path)
            conditions = bind()
            falls = self.run(body)
            frame.path.pop()
            jumps, frame.jumps, frame.base = frame.jumps, saved, base
            ends = [jump.environment for jump in jumps] + ([frame.environment] if falls else [])
            grown = {
                name
                for end in ends
                for name in end.keys() | before.keys()
                if name not in changed and end.get(name) is not before.get(name)
            }
            if not grown:
                if len(frame.returns) > counts[1]:
                    self.happens(marker)
                nexts = self.after_iteration(jumps, frame.environment if falls else None)
                breaks = [j.condition or self.graph.constant(True) for j in jumps if j.leaves]
                return conditions, _Body(inits, nexts, breaks, start, nexts is not None and not ends)
            changed |= grown
            del self.effects[counts[0] :], frame.returns[counts[1] :]
            self.graph.loops = counts[2]
        return [], None

    def before_loop(self, name: str, before: Environment) -> Node:
        value = before.get(name)
        if isinstance(value, TableValue):
            value.unknown = True
        if value is not None:
            return self.node_of(value)
        if name.startswith("self.") and self.frame.owner is not None:
            return self.node_of(self.field(self.frame.owner, name.removeprefix("self.")))
        return self.graph.node("opaque", reason="unbound", text=name)

    def after_iteration(self, jumps: list[Jump], end: Environment | None) -> dict[str, Value]:
        """The names after an iteration, whichever way it ended: at the first jump whose condition held, or at its end."""
        result = end
        for jump in reversed(jumps):
            if result is None or jump.condition is None:
                result = jump.environment
            else:
                result = self.merged(jump.condition, jump.environment, result)
        return result or {}

    def loop_results(self, body: _Body, conditions: list[Node], number: int) -> dict[str, Value]:
        """For each name its value after the loop: a `loop` over just the names that it depends on."""
        names = list(body.inits)
        unbound = [n for n in names if n not in body.nexts]
        nexts = {n: self.node_of(body.nexts[n]) for n in names if n in body.nexts}
        nexts.update({n: self.graph.node("opaque", reason="unbound", text=n) for n in unbound})
        places = {name: 1 << i for i, name in enumerate(names)}
        reaches: dict[Node, int] = {}
        for node in self.graph.made[body.start :]:
            if node.operation == "carried" and node.attribute("loop") == number:
                reaches[node] = places.get(str(node.attribute("name")), 0)
                continue
            reached = 0
            for operand in node.inputs:
                reached |= reaches.get(operand, 0)
            if reached:
                reaches[node] = reached
        ending = 0
        for condition in conditions:
            ending |= reaches.get(condition, 0)
        results: dict[str, Value] = {}
        for name in names:
            following = nexts[name]
            if following.operation == "carried" and reaches.get(following, 0) == places[name]:
                value = self.frame.environment.get(name)
                if value is not None:
                    results[name] = value
                continue
            needed, queue = 0, places[name] | ending
            while queue & ~needed:
                fresh = queue & ~needed
                needed |= fresh
                for other in names:
                    if places[other] & fresh:
                        queue |= reaches.get(nexts[other], 0)
            chosen = [name, *(n for n in names if n != name and places[n] & needed)]
            operands = [*conditions, *(body.inits[n] for n in chosen), *(nexts[n] for n in chosen)]
            results[name] = self.graph.node(
                "loop", *operands, names=tuple(chosen), conditions=len(conditions), loop=number
            )
        return results

    # ---- comprehensions

    def _listcomp(self, e: Comprehension) -> Value:
        saved = dict(self.frame.environment)
        facts = self.facts
        try:
            self.facts = facts.copy()
            if isinstance(e, ast.ListComp | ast.GeneratorExp) and len(e.generators) == 1:
                written = self.written_out(e, e.generators[0])
                if written is not None:
                    return written
            return self.collected(e)
        finally:
            self.frame.environment, self.facts = saved, facts

    _generatorexp = _listcomp
    _setcomp = _listcomp
    _dictcomp = _listcomp

    def written_out(self, e: ast.ListComp | ast.GeneratorExp, generator: ast.comprehension) -> Value | None:
        """Over a sequence of known length, element by element; None where that is not known."""
        iterable = self.evaluate(generator.iter)
        items = self.items(iterable)
        if items is None or len(items) > MAXIMUM_UNROLLED:
            return self.layers_alike(e, generator, iterable)
        kept: list[Value] = []
        result: Node | None = None
        for item in items:
            self.assign(generator.target, item, None)
            condition = self.filtered(generator.ifs)
            if condition.operation == "constant" and not condition.attribute("value"):
                continue
            value = self.passed(e.elt)
            if condition.operation == "constant" and result is None:
                kept.append(value)
                continue
            part = self.graph.tuple(self.node_of(value))
            if condition.operation != "constant":
                part = self.graph.node("choose", condition, part, self.graph.tuple())
            if result is None:
                result = self.graph.tuple(*(self.node_of(v) for v in kept))
            result = (
                part if result.operation == "tuple" and not result.inputs else self.graph.node("join", result, part)
            )
        self.place(e)
        return result if result is not None else self.sequence(kept)

    def layers_alike(
        self, e: ast.ListComp | ast.GeneratorExp, generator: ast.comprehension, iterable: Value
    ) -> Value | None:
        """A list of layers made in a loop: one stands for all."""
        if generator.ifs:
            return None
        self.assign(generator.target, self.each(iterable, 0), None)
        made = len(self.effects)
        try:
            value = self.evaluate(e.elt)
        except NotUnderstood:
            return None
        if isinstance(value, LayerValue | ModuleValue):
            return LayerValue("*", REPEATED, (value,))
        del self.effects[made:]
        return None

    def filtered(self, conditions: list[ast.expr]) -> Node:
        """Whether an element stays."""
        kept: Node = self.graph.constant(True)
        for test in conditions:
            condition = self.facts.known(self.graph, self.test(test))
            if condition.operation == "constant" and condition.attribute("value"):
                continue
            kept = condition if kept.operation == "constant" else self.graph.node("logical_and", kept, condition)
        return kept

    def collected(self, e: Comprehension) -> Value:
        """A comprehension as a loop that joins one element at a time to what it has."""
        number = self.next_loop()
        counts = [number]
        start = len(self.graph.made)
        empty = self.graph.tuple()
        carried = self.graph.node("carried", empty, name="comprehension", loop=number)
        over: list[Node] = []
        kept: Node = self.graph.constant(True)
        for generator in e.generators:
            iterable = self.evaluate(generator.iter)
            over.append(self.node_of(iterable))
            self.assign(generator.target, self.each(iterable, counts[-1]), None)
            counts.append(self.next_loop())
            condition = self.filtered(generator.ifs)
            if condition.operation != "constant":
                kept = condition if kept.operation == "constant" else self.graph.node("logical_and", kept, condition)
        marker = self.graph.node("iteration", *over[:1], loop=number)
        self.frame.path.append(marker)
        try:
            if isinstance(e, ast.DictComp):
                element = self.graph.tuple(self.node_of(self.passed(e.key)), self.node_of(self.passed(e.value)))
            else:
                element = self.node_of(self.passed(e.elt))
        finally:
            self.frame.path.pop()
        self.place(e)
        following = self.graph.node("join", carried, self.graph.tuple(element))
        if kept.operation != "constant":
            following = self.graph.node("choose", kept, following, carried)
        body = _Body({"comprehension": empty}, {"comprehension": following}, [], start)
        result = self.loop_results(body, over, number)["comprehension"]
        if isinstance(e, ast.ListComp | ast.GeneratorExp):
            return result
        kind = "dict" if isinstance(e, ast.DictComp) else "set"
        return self.graph.node("call", self.node_of(result), target=f"builtins.{kind}", keywords=())


def _is_plain(body: list[ast.stmt]) -> bool:
    """True where iterations end at the body's end, or by a `break` or `continue` that stands in `if` and `with` only."""
    for statement in body:
        if isinstance(statement, ast.If):
            if not (_is_plain(statement.body) and _is_plain(statement.orelse)):
                return False
        elif isinstance(statement, ast.With | ast.AsyncWith):
            if not _is_plain(statement.body):
                return False
        elif isinstance(statement, ast.Return):
            return False
        elif isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            if any(isinstance(n, ast.Return) for n in walk(statement)):
                return False
        elif not isinstance(statement, FunctionNode | ast.Break | ast.Continue) and any(
            isinstance(n, ast.Break | ast.Continue | ast.Return) for n in walk(statement)
        ):
            return False
    return True


def stored_names(body: list[ast.stmt]) -> set[str]:
    """Names that the statements may bind, or whose values they may change; `base.name` for attributes."""
    names: set[str] = set()
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                names.add(node.id)
            elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name is not None:
                names.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest is not None:
                names.add(node.rest)
            elif isinstance(node, ast.ExceptHandler) and node.name is not None:
                names.add(node.name)
            elif isinstance(node, ast.alias):
                names.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, FunctionNode | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
                base = node.value
                while isinstance(base, ast.Subscript | ast.Attribute):
                    base = base.value
                if isinstance(base, ast.Name):
                    names.add(base.id if isinstance(node, ast.Subscript) else f"{base.id}.{node.attr}")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                method = node.func.attr
                mutates = method in ("append", "extend", "insert", "update", "pop") or (
                    method.endswith("_") and not method.endswith("__")
                )
                if mutates and isinstance(node.func.value, ast.Name):
                    names.add(node.func.value.id)
    return names
