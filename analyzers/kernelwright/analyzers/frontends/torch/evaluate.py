"""Abstract interpretation of a function: Python statements in, dataflow out.

Branches become `choose`, returns and raises carry the condition under which they are reached, a loop runs once on
unknown values. What is not understood becomes `opaque`, never nothing.
"""

from __future__ import annotations

import ast

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.calls import CONTEXT_DECORATORS
from kernelwright.analyzers.frontends.torch.conditions import conjunction
from kernelwright.analyzers.frontends.torch.expressions import Environment, Frame
from kernelwright.analyzers.frontends.torch.graph import Graph, Origin
from kernelwright.analyzers.frontends.torch.loops import Loops, stored_names
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.values import Closure, NotUnderstood, Value
from kernelwright.analyzers.source import FunctionNode, blocks_of, import_names
from kernelwright.analyzers.syntax_tree import walk

MAXIMUM_DEPTH = 8
"""Calls followed into each other; deeper ones become opaque."""
MAXIMUM_NODES = 30_000
"""Nodes of one translation; past that every further call becomes opaque."""


class Evaluator(Loops):
    """Interprets one function and everything it calls. Use `translate`, not this class."""

    def __init__(self, scope: Scope, graph: Graph, *, follow_submodules: bool = False) -> None:
        super().__init__(scope, graph, follow_submodules)
        self.environments: dict[ast.stmt, Environment] = {}
        self.paths: dict[ast.stmt, tuple[Node, ...]] = {}

    # ---- statements

    def run(self, body: list[ast.stmt]) -> bool:
        """Interpret a block; True where it falls through its end, False where every path leaves the function."""
        for statement in body:
            self.locate(statement)
            if len(self.frames) == 1:
                self.environments[statement] = dict(self.frame.environment)
                self.paths[statement] = tuple(self.frame.path)
            if not self.statement(statement):
                return False
        return True

    def locate(self, node: ast.expr | ast.stmt) -> None:
        """Note where the nodes made next stand; inside a followed call that stays the place of the call."""
        inside = self.scope.source is self.home
        self.graph.span = self.scope.source.span(node) if inside else None
        if len(self.frames) == 1 and isinstance(node, ast.stmt):
            self.graph.origin = Origin(node)

    def statement(self, s: ast.stmt) -> bool:
        if isinstance(s, ast.Assign):
            value = self.evaluate(s.value)
            for target in s.targets:
                self.assign(target, value, s)
        elif isinstance(s, ast.AnnAssign):
            if s.value is not None:
                self.assign(s.target, self.evaluate(s.value), s)
        elif isinstance(s, ast.AugAssign):
            self.augmented(s)
        elif isinstance(s, ast.Return):
            value = self.node_of(self.evaluate(s.value)) if s.value is not None else self.graph.none
            self.frame.returns.append((conjunction(self.graph, self.frame.path), value))
            return False
        elif isinstance(s, ast.Raise):
            self.raising(s)
            return False
        elif isinstance(s, ast.If):
            return self.branch(s)
        elif isinstance(s, ast.Expr):
            self.expression_statement(s.value)
        elif isinstance(s, ast.For | ast.AsyncFor):
            self.loop(s)
        elif isinstance(s, ast.While):
            self.while_loop(s)
        elif isinstance(s, ast.With | ast.AsyncWith):
            return self.context(s)
        elif isinstance(s, FunctionNode):
            self.frame.environment[s.name] = Closure(
                s, self.scope.source, self.frame.environment, self.frame.owner, frame=self.frame
            )
        elif isinstance(s, ast.Import | ast.ImportFrom):
            for name, imported in import_names(s).items():
                self.frame.environment[name] = self.graph.node("global", name=imported)
        elif isinstance(s, ast.Assert):
            failed = self.graph.unary("logical_not", self.test(s.test))
            self.effect("raise", conjunction(self.graph, [*self.frame.path, failed]) or failed)
            self.facts.remember(failed, False)
        elif isinstance(s, ast.Delete):
            for target in s.targets:
                if isinstance(target, ast.Name):
                    self.frame.environment.pop(target.id, None)
                else:
                    self.deleted(target)
        elif isinstance(s, ast.Try) or type(s).__name__ == "TryStar":
            return self.attempt(s)
        elif isinstance(s, ast.Continue | ast.Break):
            self.jump(s)
            return False
        elif isinstance(s, ast.Global | ast.Nonlocal):
            for name in s.names:
                self.frame.environment[name] = self.graph.node("opaque", reason="global", text=name)
        elif not isinstance(s, ast.Pass):
            self.blur(s, f"{type(s).__name__.lower()} statement")
        return True

    def expression_statement(self, expression: ast.expr) -> None:
        value = self.evaluate(expression)
        if isinstance(value, Node) and value.operation in ("opaque", "call", "layer"):
            self.happens(value)

    def raising(self, s: ast.Raise) -> None:
        read: list[Node] = []
        if s.exc is not None:
            read = [
                n for n in (self.node_of(self.evaluate(e)) for e in _values_read(s.exc)) if n.operation != "constant"
            ]
        condition = conjunction(self.graph, self.frame.path) or self.graph.constant(True)
        self.locate(s)
        self.effect("raise", condition, *read)

    def branch(self, s: ast.If) -> bool:
        condition = self.facts.known(self.graph, self.test(s.test))
        if condition.operation == "constant":
            return self.run(s.body if condition.attribute("value") else s.orelse)
        before = self.frame.environment
        negated = self.graph.unary("logical_not", condition)
        self.frame.environment = dict(before)
        with self.facts.assuming(condition, True):
            self.frame.path.append(condition)
            first_falls = self.run(s.body)
            self.frame.path.pop()
        first = self.frame.environment
        self.frame.environment = dict(before)
        with self.facts.assuming(condition, False):
            self.frame.path.append(negated)
            second_falls = self.run(s.orelse)
            self.frame.path.pop()
        second = self.frame.environment
        self.locate(s)
        if first_falls and second_falls:
            self.frame.environment = self.merged(condition, first, second)
        elif first_falls:
            self.frame.environment = first
            self.facts.remember(condition, True)
        elif second_falls:
            self.frame.environment = second
            self.facts.remember(condition, False)
        else:
            return False
        return True

    def merged(self, condition: Node, first: Environment, second: Environment) -> Environment:
        out: Environment = {}
        for name in first.keys() | second.keys():
            a, b = first.get(name), second.get(name)
            if a is b and a is not None:
                out[name] = a
            elif a is None or b is None:
                # Bound on one path only: reading it later is right only on that path.
                bound = a if a is not None else b
                assert bound is not None
                missing = self.graph.node("opaque", reason="unbound", text=name)
                if isinstance(bound, Node):
                    out[name] = self.graph.node(
                        "choose", condition, *((bound, missing) if a is not None else (missing, bound))
                    )
                else:
                    out[name] = bound
            else:
                out[name] = self.choose(condition, a, b)
        return out

    def context(self, s: ast.With | ast.AsyncWith) -> bool:
        for item in s.items:
            value = self.node_of(self.evaluate(item.context_expr))
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, s)
            self.happens(value)
        outside = self.graph.context
        self.graph.context = (*outside, s)
        try:
            return self.run(s.body)
        finally:
            self.graph.context = outside

    def attempt(self, s: ast.stmt) -> bool:
        blocks = blocks_of(s)
        body, final = blocks[0], blocks[-1]
        falls = self.run(body)
        handlers = getattr(s, "handlers", [])
        if falls:
            falls = self.run(getattr(s, "orelse", []))
        if any(not _leaves(handler.body) for handler in handlers):
            self.blur_names(body, s, "try")
            for handler in handlers:
                self.blur_names(handler.body, s, "try")
            falls = True
        return self.run(final) and falls

    def blur(self, s: ast.stmt, reason: str) -> None:
        names = sorted({n.id for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)})
        read = [value for n in names if isinstance(value := self.frame.environment.get(n), Node)]
        self.effect("opaque", *read, reason=reason, text=self.scope.source.segment(s))
        self.blur_names([s], s, reason)
        for block in blocks_of(s):
            self.blur_names(block, s, reason)

    def blur_names(self, body: list[ast.stmt], s: ast.stmt, reason: str) -> None:
        """Everything the block may bind or change becomes unknown."""
        for name in sorted(stored_names(body)):
            if name in self.frame.environment or "." not in name:
                old = self.frame.environment.get(name)
                inputs = (old,) if isinstance(old, Node) else ()
                self.frame.environment[name] = self.graph.node("opaque", *inputs, reason=reason, text=name)

    # ---- calls that are followed

    def follow(self, closure: Closure, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]) -> Value:
        """Interpret a called function of the file (or another file) in a frame of its own.

        Raises:
            NotUnderstood: too deep, recursive, too large, a generator, or arguments that do not fit.
        """
        if len(self.frames) > MAXIMUM_DEPTH or len(self.graph.origins) > MAXIMUM_NODES:
            raise NotUnderstood("call too deep to follow")
        if closure.node in self.active:
            raise NotUnderstood("recursion")
        decorators = getattr(closure.node, "decorator_list", [])
        if any(not self.transparent(decorator) for decorator in decorators):
            raise NotUnderstood("decorated function")
        defined_in = closure.frame
        seen = defined_in.environment if isinstance(defined_in, Frame) and defined_in in self.frames else None
        environment = dict(closure.environment if seen is None else seen)
        environment.update(self.bind_parameters(closure, arguments, keywords))
        frame = Frame(environment, closure.owner, function=closure.function)
        is_own = self.is_own(closure)
        if is_own:
            environment.update((n, v) for n, v in self.frame.environment.items() if n.startswith("self."))
        span, scope, facts = self.graph.span, self.scope, self.facts
        outside = self.graph.context
        for decorator in decorators:
            if (
                self.scope.qualified(decorator.func if isinstance(decorator, ast.Call) else decorator)
                in CONTEXT_DECORATORS
            ):
                self.graph.context = (*self.graph.context, decorator)
        # What the callee learns on its way ("x is None, so return") does not hold for the caller.
        self.facts = facts.copy()
        self.frames.append(frame)
        self.active.add(closure.node)
        self.scope = self.scope_of(closure)
        is_whole = False
        try:
            if isinstance(closure.node, ast.Lambda):
                return self.evaluate(closure.node.body)
            if any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in walk(closure.node)):
                raise NotUnderstood("generator or coroutine")
            falls = self.run(closure.node.body)
            is_whole = falls and not frame.returns
            return self.result(frame, falls)
        finally:
            self.frames.pop()
            self.active.discard(closure.node)
            self.scope, self.facts = scope, facts
            self.graph.span, self.graph.context = span, outside
            if is_own:
                self.changed_attributes(frame, is_whole)

    def is_own(self, closure: Closure) -> bool:
        """True for a method of the object whose method calls it: both see the same attributes."""
        owners = (closure.owner, self.frame.owner)
        return all(owner is not None and not owner.path for owner in owners)

    def changed_attributes(self, callee: Frame, is_whole: bool) -> None:
        """What a followed call stored under `self`; unless it ran to its end on every path, a branch may have decided it."""
        for name, value in callee.environment.items():
            if name.startswith("self.") and self.frame.environment.get(name) is not value:
                changed = value if is_whole else self.graph.node("opaque", reason="changed by a call", text=name)
                self.frame.environment[name] = changed

    def result(self, frame: Frame, falls: bool) -> Node:
        """What a frame returns: its returns in order, each under its condition."""
        returns = list(frame.returns)
        value: Node | None = self.graph.none if falls or not returns else None
        for condition, returned in reversed(returns):
            if value is None or condition is None:
                value = returned
            else:
                chosen = self.choose(condition, returned, value)
                value = self.node_of(chosen)
        assert value is not None
        return value


def _values_read(expression: ast.expr) -> list[ast.expr]:
    """The expressions a raise reads besides text: names and attribute chains inside its message."""
    return [
        n.value for n in walk(expression) if isinstance(n, ast.FormattedValue) and not isinstance(n.value, ast.Constant)
    ]


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise | ast.Return | ast.Continue)
