"""From a site to text edits that change just what they must."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.assumptions import decided, specialised
from kernelwright.analyzers.backends.torch.emit import (
    Unprintable,
    condition_text,
    literal,
    parenthesised,
)
from kernelwright.analyzers.detect import Detector, Site
from kernelwright.analyzers.facts import is_scalar
from kernelwright.analyzers.frontends.torch.values import Value
from kernelwright.analyzers.guarded import GuardedRange, wrapped_range
from kernelwright.analyzers.kernel_call import CallWriter, NoEdit
from kernelwright.analyzers.layout import broken, comments, fitted, indent_unit, indentation, line_ending, line_limit
from kernelwright.analyzers.opportunity import TextEdit
from kernelwright.analyzers.source import blocks_of


@dataclass(frozen=True, slots=True)
class Plan:
    """The edits for a site, the guard's text where the old path stays, and the kernel call as written.

    `dropped_checks` are the `raise` effects of shape checks among the replaced statements.
    """

    edits: tuple[TextEdit, ...]
    guard: str | None
    call: str
    dropped_checks: frozenset[Node] = frozenset()


def plan_edit(detector: Detector, site: Site) -> Plan:
    """Work out the edits.

    Raises:
        NoEdit: a value has no name at that place, the code is in a shape that cannot be edited safely.
    """
    return _Rewriter(detector, site).plan()


class _Rewriter(CallWriter):
    """Plans the edits of one site."""

    def plan(self) -> Plan:
        guard = self._guard_node()
        if self.site.assumptions or guard is not None:
            return self._guarded(guard)
        return self._direct()

    # ---- an edit without a guard: the output's expression becomes the call, dead temporaries go

    def _direct(self) -> Plan:
        if self.site.output in self.detector.returned:
            call = self._call(self.statement)
            text = self._result_of_call(call)
            edit = self._fitted_edit(self.source.start(self.statement), self.source.end(self.statement), text)
            return Plan((*self.import_edits, edit), None, call)
        expression = self.translation.expressions[self.site.output]
        dead = self._dead_statements()
        self.going = {self.statement, *dead}
        self.environments[self.statement] = self._names_without(dead)
        call = self._call(self.statement)
        if isinstance(expression, ast.AugAssign) and isinstance(expression.target, ast.Name):
            replaced = f"{expression.target.id} = {call}"
            start, end = self.source.start(expression), self.source.end(expression)
        elif isinstance(expression, ast.expr):
            start, end = self.source.start(expression), self.source.end(expression)
            start, end = self._with_parentheses(expression, start, end)
            replaced = call if self._stands_alone(expression) else parenthesised(call, "atom")
        else:
            raise NoEdit("the result is no expression of its own")
        edits = [self._fitted_edit(start, end, replaced)]
        kept = self._comment_lines(self.statement, start, end)
        if kept:
            place = self.source.starts[self.statement.lineno - 1]
            edits.append(TextEdit(place, place, kept))
        edits.extend(self._deletions(dead))
        ordered = tuple(sorted([*edits, *self.import_edits], key=lambda e: (e.start, e.end)))
        return Plan(ordered, None, call, self._dropped_checks())

    def _with_parentheses(self, expression: ast.expr, start: int, end: int) -> tuple[int, int]:
        """Take in the parentheses around a whole right-hand side that spans lines: the call needs none."""
        statement = self.statement
        if isinstance(statement, ast.Assign | ast.Return) and statement.value is expression:  # no argument of a call
            head = self.source.text[self.source.start(statement) : start]
            tail = self.source.text[end : self.source.end(statement)]
            opening = len(head) - len(head.rstrip().rstrip("("))
            inner_open, inner_close = head[len(head) - opening :], tail
            if inner_open.strip() == "(" and inner_close.strip() == ")":
                return start - opening, end + len(tail)
        return start, end

    def _stands_alone(self, expression: ast.expr) -> bool:
        """True where the expression is a whole right-hand side, returned value or call argument."""
        s = self.statement
        if getattr(s, "value", None) is expression:
            return True
        return any(
            isinstance(n, ast.Call) and (expression in n.args or any(k.value is expression for k in n.keywords))
            for n in ast.walk(s)
        )

    def _dead_statements(self) -> list[ast.stmt]:
        """Statements before the output's that nothing needs any more: assignments of the region, checks of their shapes."""
        block, index = self.blocks[self.statement]
        inner = {
            target.id
            for statement in block[:index]
            for target in _simple_targets(statement)
            if self._is_inner(self._value_of(statement))
        }
        return [statement for statement in block[:index] if self._is_dead(statement, inner)]

    def _is_dead(self, statement: ast.stmt, inner: set[str]) -> bool:
        if isinstance(statement, ast.If):
            if self._is_shape_check(statement, inner):
                return True
            parts = [*statement.body, *statement.orelse]
            return bool(parts) and all(isinstance(s, ast.Pass) or self._is_dead(s, inner) for s in parts)
        value = self._value_of(statement)
        return bool(_simple_targets(statement)) and self._is_inner(value) and not self._read_outside(value)

    def _is_inner(self, value: Node | None) -> bool:
        return value is not None and value in self.site.region and value is not self.site.output

    def _names_without(self, dead: list[ast.stmt]) -> dict[str, Value]:
        """The names at the output's statement once the dead ones are gone: what they rebound keeps its earlier value."""
        names = dict(self.translation.environments[self.statement])
        for statement in reversed(dead):
            for target in _simple_targets(statement):
                earlier = self.translation.environments[statement].get(target.id)
                if earlier is None:
                    names.pop(target.id, None)
                else:
                    names[target.id] = earlier
            before = self.translation.environments[statement]
            rebound = (t.id for block in blocks_of(statement) for s in block for t in _simple_targets(s))
            names.update({name: before[name] for name in rebound if name in before})
        return names

    def _value_of(self, statement: ast.stmt) -> Node | None:
        """What an assignment stores."""
        if isinstance(statement, ast.AugAssign):
            return self.values.get(statement)
        value = getattr(statement, "value", None)
        return self.values.get(value) if isinstance(value, ast.expr) else None

    def _read_outside(self, node: Node | None) -> bool:
        """True where a node that stays needs this one (numbers and shapes are not checked by the detector)."""
        region = self.site.region
        for user in self.detector.normal:
            if user not in region and node in user.inputs and user.operation not in ("shape", "size", "rank", "raise"):
                return True
        return False

    def _is_shape_check(self, statement: ast.If, inner: set[str]) -> bool:
        """`if scores.size() != (...): raise ...` on a value that goes away."""
        only_raises = len(statement.body) == 1 and isinstance(statement.body[0], ast.Raise) and not statement.orelse
        read = {n.id for n in ast.walk(statement.test) if isinstance(n, ast.Name)}
        return only_raises and bool(read & inner) and _compares_shapes(statement.test)

    def _dropped_checks(self) -> frozenset[Node]:
        """Errors raised by comparisons of shapes in the statements that go: the kernel checks its operands itself."""
        found = set()
        for effect in self.translation.program.effects:
            origin = self.translation.origins.get(effect)
            if effect.operation != "raise" or origin is None or origin.inlined is not None:
                continue
            block, _ = self.blocks.get(origin.statement, ([], 0))
            holder = next((s for s in self.blocks if isinstance(s, ast.If) and s.body is block), None)
            moves = origin.statement in self.going or holder in self.going
            if moves and holder is not None and isinstance(holder, ast.If) and _compares_shapes(holder.test):
                found.add(effect)
        return frozenset(found)

    def _comment_lines(self, statement: ast.stmt, start: int, end: int) -> str:
        """The comments between two offsets of a statement's lines, as lines of their own: comments are never lost."""
        assert statement.end_lineno is not None
        begin, stop = self.source.starts[statement.lineno - 1], self.source.starts[statement.end_lineno]
        indent, newline = indentation(self.source, statement), line_ending(self.source)
        inside = [t for p, t in comments(self.source.text[begin:stop]) if start <= begin + p < end]
        return "".join(f"{indent}{text}{newline}" for text in inside)

    # ---- an edit that keeps the old path behind a guard

    def _guarded(self, extra: str | None) -> Plan:
        block, last = self.blocks[self.statement]
        first = self._first_statement(block, last)
        try:
            return self._guarded_from(GuardedRange(block, first, last), extra)
        except NoEdit as reason:
            # Something the kernel needs is computed among the operations that go: it is left in front of the guard.
            for later in range(first + 1, last + 1):
                makers = self._movers(block[first:later])
                if makers and len(makers) < later - first:
                    with contextlib.suppress(NoEdit):
                        return self._guarded_from(GuardedRange(block, first, last, later, frozenset(makers)), extra)
            raise reason

    def _movers(self, statements: list[ast.stmt]) -> set[ast.stmt]:
        """Of some statements those that go behind the guard: what makes the region, checks of its shapes, and what gives
        another value to a name that one of these reads before."""
        moving = {s for s in statements if self._makes_region(s)}
        inner = {t.id for s in moving for t in _simple_targets(s)}
        read: set[str] = set()
        for statement in statements:
            check = isinstance(statement, ast.If) and self._is_shape_check(statement, inner)
            if check or any(t.id in read for t in _simple_targets(statement)):
                moving.add(statement)
            if statement in moving:
                read |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        return moving

    def _guarded_from(self, chosen: GuardedRange, extra: str | None) -> Plan:
        place, moved = chosen.place, chosen.moved
        self.going = {s for statement in moved for s in ast.walk(statement) if isinstance(s, ast.stmt)}
        call = self._call(place)
        tests = [
            condition_text(c, v, lambda n: self._named(n, place), self.spelling)
            for c, v in self._guard_conditions(place)
        ]
        if extra is not None:
            tests.append(extra)
        guard = " and ".join(parenthesised(t, "not") for t in tests) if len(tests) > 1 else tests[0]
        self._check_range(moved)
        result = [self._result_statement(call), *self._still_needed(chosen)]
        anchor = self._texts(place).get(self.site.variant.parameters[0].name)
        start, end, text = wrapped_range(self.source, chosen, guard, result, anchor)
        return Plan((*self.import_edits, TextEdit(start, end, text)), guard, call, self._dropped_checks())

    def _still_needed(self, chosen: GuardedRange) -> list[str]:
        """Assignments for names that the replaced statements bind and later ones read, where they are plain on the fast path.

        A name that holds an inner value stays unbound there: the detector made sure that nothing reads it under the guard.
        """
        block, last = chosen.block, chosen.last
        if last + 1 >= len(block):
            return []
        after = self.translation.environments.get(block[last + 1], {})
        before = self.environments[chosen.place]
        read: set[str] = set()
        bound: set[str] = set()
        for s in block[last + 1 :]:
            read |= {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} - bound
            bound |= {t.id for t in _simple_targets(s)}
        lines = []
        for name in sorted(read):
            value = after.get(name)
            if not isinstance(value, Node) or value is before.get(name) or value is self.site.output:
                continue
            normal = self._normal(value)
            if normal is None:
                continue
            fast = specialised(self.detector.form, normal, self.site.assumptions)
            if fast.operation == "constant":
                lines.append(f"{name} = {literal(fast.attribute('value'))}")
            elif not self.site.region & set(walk((value,))):
                raise NoEdit(f"{name} is read afterwards")
        return lines

    def _guard_conditions(self, place: ast.stmt) -> list[tuple[Node, bool]]:
        conditions = sorted(self.site.assumptions.items(), key=lambda item: self.detector.form.serial(item[0]))
        for condition, value in conditions:
            try:
                condition_text(condition, value, lambda n: self._named(n, place), self.spelling)
            except Unprintable as error:
                raise NoEdit(f"the condition cannot be tested here: {error}") from error
        return conditions

    def _first_statement(self, block: list[ast.stmt], last: int) -> int:
        """The first statement of the block that makes a value of the region."""
        first = last
        for index in range(last, -1, -1):
            if self._makes_region(block[index]):
                first = index
        return first

    def _makes_region(self, statement: ast.stmt) -> bool:
        """True for a statement that makes a tensor of the region."""
        inside = set(ast.walk(statement))
        return any(
            n in self.translation.origins
            and self.translation.origins[n].statement in inside
            and not is_scalar(self.detector.normal[n])
            for n in self.site.region
        )

    def _check_range(self, moved: list[ast.stmt]) -> None:
        """What the range computes besides the region must not be needed after it, and nothing may happen in it."""
        inside = {s for statement in moved for s in ast.walk(statement) if isinstance(s, ast.stmt)}
        for effect in self.translation.program.effects:
            origin = self.translation.origins.get(effect)
            if origin is None or origin.statement not in inside or effect.operation == "raise":
                continue
            conditional = effect.operation == "choose"
            if not conditional or decided(self.detector.normal[effect.inputs[0]], self.site.assumptions) is not False:
                raise NoEdit("something else happens among the operations that would be replaced")
        for statement in inside - {self.statement}:
            if isinstance(statement, ast.Return | ast.Break | ast.Continue | ast.Yield | ast.FunctionDef):
                raise NoEdit("the operations that would be replaced hold a return")

    def _result_of_call(self, call: str) -> str:
        """`output, weights = <kernel>, None` for `output, weights = self.method(...)`: what else it returned is not read."""
        assert isinstance(self.statement, ast.Assign)
        target, values = self.statement.targets[0], self.translation.assigned[self.statement]
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        if len(self.statement.targets) != 1 or not all(isinstance(n, ast.Name) for n in names):
            raise NoEdit("the result is unpacked into something else than names")
        results = []
        for name in names:
            assert isinstance(name, ast.Name)
            value = values.get(name.id)
            if value is self.site.output:
                results.append(call)
            elif isinstance(value, Node) and value in self.site.region:
                results.append("None")
            else:
                raise NoEdit(f"the call also returns {name.id}")
        return f"{self.source.segment(target)} = {', '.join(results)}"

    def _result_statement(self, call: str) -> str:
        s = self.statement
        if self.site.output in self.detector.returned:
            return self._result_of_call(call)
        expression = self.translation.expressions[self.site.output]
        if isinstance(s, ast.Assign) and s.value is expression:
            targets = " = ".join(self.source.segment(t) for t in s.targets)
            return f"{targets} = {call}"
        if isinstance(s, ast.AugAssign) and s is expression:
            return f"{self.source.segment(s.target)} = {call}"
        if isinstance(s, ast.Return) and s.value is expression:
            return f"return {call}"
        if isinstance(expression, ast.expr) and isinstance(s, ast.Assign | ast.Return):
            written = call if self._stands_alone(expression) else parenthesised(call, "atom")
            return self._with_replaced(s, expression, written)
        raise NoEdit("the result is part of a statement that cannot be written twice")

    def _with_replaced(self, statement: ast.stmt, expression: ast.expr, written: str) -> str:
        """The statement with one expression replaced, its further lines relative to its first."""
        source, newline = self.source, line_ending(self.source)
        indent = indentation(source, statement)
        before = source.text[source.start(statement) : source.start(expression)]
        after = source.text[source.end(expression) : source.end(statement)]
        if newline in before:
            margin = before.rpartition(newline)[2].removeprefix(indent)
            unit = indent_unit(source)
            if margin.isspace() and len(indent + unit + margin + written) > (limit := line_limit(source, statement)):
                written = broken(written, margin, unit, newline, limit - len(indent + unit))
        parts = (newline.join(line.removeprefix(indent) for line in part.split(newline)) for part in (before, after))
        return written.join(parts)

    # ---- layout

    def _fitted_edit(self, start: int, end: int, text: str) -> TextEdit:
        limit = line_limit(self.source, self.statement)
        return TextEdit(start, end, fitted(self.source, start, end, text, limit))

    def _deletions(self, dead: list[ast.stmt]) -> list[TextEdit]:
        """Whole lines of dead statements; of the blank lines around them as many go as would be left doubled."""
        edits: list[TextEdit] = []
        lines, starts = self.source.lines, self.source.starts
        gone: set[int] = set()
        for statement in dead:
            edit = self._deletion(statement)
            assert statement.end_lineno is not None
            if edit.replacement:
                edits.append(edit)
                continue
            gone.update(range(statement.lineno - 1, statement.end_lineno))
            above = statement.lineno - 2
            while above in gone:
                above -= 1
            below = statement.end_lineno
            if above >= 0 and not lines[above].strip():
                while below < len(lines) and not lines[below].strip():
                    gone.add(below)
                    below += 1
        return edits + [TextEdit(starts[line], starts[line + 1], "") for line in sorted(gone)]

    def _deletion(self, statement: ast.stmt) -> TextEdit:
        """The statement's lines, for the comments among them."""
        line_start = self.source.starts[statement.lineno - 1]
        if self.source.text[line_start : self.source.start(statement)].strip():
            raise NoEdit("several statements on one line")
        assert statement.end_lineno is not None
        line_end = self.source.starts[statement.end_lineno]
        rest = self.source.text[self.source.end(statement) : line_end].strip()
        if rest and not rest.startswith("#"):
            raise NoEdit("several statements on one line")
        return TextEdit(line_start, line_end, self._comment_lines(statement, line_start, line_end))


def _compares_shapes(test: ast.expr) -> bool:
    """True for `x.size() != (...)` and the like, also behind `x is not None and`: every value it reads, it reads the shape of."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        present = [t for t in test.values if isinstance(t, ast.Compare) and isinstance(t.ops[0], ast.IsNot)]
        return len(present) == len(test.values) - 1 and any(
            _compares_shapes(t) for t in test.values if t not in present
        )
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotEq)):
        return False
    return any(isinstance(n, ast.Attribute) and n.attr in ("shape", "size", "dim", "ndim") for n in ast.walk(test.left))


def _simple_targets(statement: ast.stmt) -> list[ast.Name]:
    """The names an assignment binds; none for anything that is no assignment to plain names."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    else:
        return []
    names = [t for t in targets if isinstance(t, ast.Name)]
    return names if len(names) == len(targets) else []
