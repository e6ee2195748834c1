"""Writing a kernel call at a place in the code: by live names, by source text that still means the same, or not at all."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.backends.torch.emit import Unprintable, kernel_text, parenthesised, value_text
from kernelwright.analyzers.detect import Detector, Site
from kernelwright.analyzers.facts import is_scalar
from kernelwright.analyzers.frontends.torch.values import Value
from kernelwright.analyzers.imports import module_spelling
from kernelwright.analyzers.layout import comments
from kernelwright.analyzers.normalise import instantiate
from kernelwright.analyzers.source import SourceFile, blocks_of


class NoEdit(Exception):
    """The site cannot be rewritten in place; the message is the reason, for people."""


class CallWriter:
    """Writes a site's kernel call with the names that live at a place."""

    def __init__(self, detector: Detector, site: Site) -> None:
        self.site = site
        self.detector = detector
        self.translation = site.translation
        self.source: SourceFile = site.translation.source
        self.statement = self.translation.origins[site.output].statement
        self.spelling, self.import_edits = module_spelling(self.source, site.variant.expression)
        self.blocks = statement_blocks(self.translation.function.node.body)
        self.environments = dict(self.translation.environments)
        self.values = {expression: node for node, expression in self.translation.expressions.items()}
        self.going: set[ast.stmt] = set()
        written = [e for e in (site.variant.expression, site.variant.guard) if e is not None]
        self.used = {n.id for e in written for n in ast.walk(e) if isinstance(n, ast.Name)}

    def _texts(self, place: ast.stmt) -> dict[str, str | None]:
        texts: dict[str, str | None] = {}
        for parameter in self.site.variant.parameters:
            bound = self.site.match.bindings[parameter.name]
            neutral = parameter.neutral
            if parameter.name not in self.used or _is_none(bound):
                texts[parameter.name] = None
                continue
            if neutral is not None and bound is self.detector.form.constant(neutral) and parameter.name != "eps":
                # A scale of exactly 1 must be written: the kernel's default is another one.
                texts[parameter.name] = "1.0" if parameter.name == "scale" else None
                continue
            text = self._text(bound, place)
            if parameter.kind == "added" and bound.operation == "choose" and bound.inputs[0].operation == "is_none":
                text = f"0.0 if {self._text(bound.inputs[0], place)} else {text}"
            if self._lifts() and parameter.name in self.site.rule.lifted:
                text = f"{parenthesised(text, 'atom')}.unsqueeze(0)"
            texts[parameter.name] = text
        return texts

    def _lifts(self) -> bool:
        """True where the code has three axes and the kernel is fast for four only (T51)."""
        names = self.site.rule.lifted
        return bool(names) and self.detector.form.rank(self.site.match.bindings[names[0]]) == 3

    def _text(self, node: Node, place: ast.stmt) -> str:
        try:
            return value_text(node, lambda n: self._named(n, place), self.spelling)
        except Unprintable as error:
            raise NoEdit(str(error)) from error

    def _named(self, node: Node, place: ast.stmt) -> str | None:
        """A live name for a normal node at a statement, or the source text of an expression that still means the same."""
        if node.operation in ("constant", "dtype"):
            return None
        environment = self.environments[place]
        live = [
            name
            for name, value in environment.items()
            if isinstance(value, Node) and self._normal(value) is node and not name.startswith("self.")
        ]
        if live:
            preferred = [n for n in live if any(environment[n] in r.inputs for r in self.site.region)]
            return (preferred or live)[-1]
        for raw, normal in self.detector.normal.items():
            if normal is not node or raw.operation in ("constant", "choose"):
                continue
            text = self._expression_text(raw, place)
            if text is not None:
                return text
        return self._size_named(node, environment) or self._inverse_named(node, place)

    def _size_named(self, node: Node, environment: Mapping[str, Value]) -> str | None:
        """`query.size(-2)` for an extent of what `query` was permuted from."""
        if node.operation != "size":
            return None
        for name, value in reversed(list(environment.items())):
            if not isinstance(value, Node) or name.startswith("self.") or is_scalar(value):
                continue
            normal = self._normal(value)
            if normal is None or normal.operation not in ("permute", "choose", "reshape", "concatenate", "cast"):
                continue
            for dim in (-1, -2, -3, -4):
                if self.detector.form.build("size", normal, dim=dim) is node:
                    return f"{name}.size({dim})"
        return None

    def _inverse_named(self, node: Node, place: ast.stmt) -> str | None:
        """`1.0 / sqrt(d)` for a negative power of which the code has the inverse: reads as it was written."""
        exponent = node.inputs[1].attribute("value") if node.operation == "pow" else None
        if not isinstance(exponent, int | float) or exponent >= 0:
            return None
        text = self._named(self.detector.form.build("pow", node, self.detector.form.constant(-1)), place)
        return None if text is None else f"1.0 / {parenthesised(text, 'atom')}"

    def _normal(self, value: Node) -> Node | None:
        found = self.detector.normal.get(value)
        return found if found is not None else self.detector.form.of(value, self.translation.ranks)

    def _expression_text(self, raw: Node, place: ast.stmt) -> str | None:
        """The source text of the expression that made `raw`, if it is pure and its names still hold the same values."""
        origin = self.translation.origins.get(raw)
        expression = self.translation.expressions.get(raw)
        if origin is None or not isinstance(expression, ast.expr):
            return None
        # An expression that goes away where it stands may be written here instead; any other is evaluated a second time,
        # so it must be cheap and pure.
        moves = origin.statement in self.going and raw.operation != "opaque"
        if not _is_movable(expression) or not (moves or _is_pure(expression)):
            return None
        before = self.translation.environments.get(origin.statement)
        now = self.environments[place]
        if before is None:
            return None
        for name in {n.id for n in ast.walk(expression) if isinstance(n, ast.Name)}:
            if before.get(name) is not now.get(name):
                return None
        text = self.source.segment(expression)
        if len(text.splitlines()) == 1:
            return text
        return None if comments(text) else ast.unparse(expression)

    def _guard_node(self) -> str | None:
        guard = self.site.variant.guard
        if guard is None:
            return None
        place = self.statement
        program = self.site.variant.guard_program
        if program is not None:
            condition = instantiate(self.detector.form, program, self.site.match.bindings)
            if condition is self.detector.form.constant(True):
                return None
        try:
            return kernel_text(guard, self._texts(place), self.spelling)
        except Unprintable as error:
            raise NoEdit(str(error)) from error

    def _call(self, place: ast.stmt) -> str:
        try:
            text = kernel_text(self.site.variant.expression, self._texts(place), self.spelling)
        except Unprintable as error:
            raise NoEdit(str(error)) from error
        if self.site.joined:
            return f"{parenthesised(text, 'atom')}.flatten(0, 1)"
        return f"{parenthesised(text, 'atom')}.squeeze(0)" if self._lifts() else text


def _is_none(node: Node) -> bool:
    """True for the constant None: an argument that is not given."""
    return node.operation == "constant" and node.attribute("value") is None


def statement_blocks(body: list[ast.stmt]) -> dict[ast.stmt, tuple[list[ast.stmt], int]]:
    found: dict[ast.stmt, tuple[list[ast.stmt], int]] = {}
    for index, statement in enumerate(body):
        found[statement] = (body, index)
        for block in blocks_of(statement):
            found.update(statement_blocks(block))
    return found


_PURE_METHODS = frozenset(
    [
        "size",
        "transpose",
        "permute",
        "view",
        "reshape",
        "unsqueeze",
        "squeeze",
        "bool",
        "to",
        "float",
        "dim",
        "contiguous",
    ]
)


def _is_movable(expression: ast.expr) -> bool:
    """True where the expression binds nothing and may stand at another place of the function."""
    bad = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.ListComp, ast.GeneratorExp)
    return not any(isinstance(node, bad) for node in ast.walk(expression))


def _is_pure(expression: ast.expr) -> bool:
    """True where evaluating the expression twice changes nothing and costs little: views, shapes, square roots."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name not in _PURE_METHODS and name not in ("sqrt", "float", "int", "len"):
                return False
    return True
