"""What advice rules ask of a translated function: which layers it calls on what, and who uses a value.

Worked out once a function, for all rules that ask.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.finders.constructors import class_of
from kernelwright.analyzers.finders.finding import FunctionView
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.values import ClassFacts, LayerValue, ModuleValue

if TYPE_CHECKING:
    from kernelwright.analyzers.detect import Detector


@dataclass(frozen=True, slots=True)
class LayerCall:
    """A call of a layer under `self`, written in the function itself.

    `path` is the layer's path, `class_name` its class, qualified where it is imported ("" where it is not known), `x` the
    normal form of its first argument. `presumed` is set where the class is a default that a caller may replace.
    """

    node: Node
    normal: Node
    path: str
    class_name: str
    x: Node
    expression: ast.Call
    presumed: bool = False

    @property
    def short_class(self) -> str:
        return self.class_name.rpartition(".")[2]


@dataclass(frozen=True)
class Dataflow:
    """The layer calls of a function in source order, and the users of each normal node among what the function computes."""

    calls: tuple[LayerCall, ...]
    users: dict[Node, list[Node]] = field(repr=False)
    nodes: tuple[Node, ...] = field(repr=False)

    def only_user(self, node: Node) -> Node | None:
        """The one user of a normal node, or None where there are several or none."""
        users = self.users.get(node, [])
        return users[0] if len(users) == 1 else None

    def times_called(self, path: str) -> int:
        return sum(call.path == path for call in self.calls)

    def masks(self, sources: tuple[Node, ...]) -> dict[Node, int]:
        """For each normal node the set of `sources` it depends on, as bits; also through what is stored under `self` and
        read again (a cache)."""
        given = {source: 1 << place for place, source in enumerate(sources)}
        found = self._reached(given)
        stored: dict[str, int] = {}
        for node in self.nodes:
            if node.operation == "store" and found[node]:
                changed = node.inputs[1:] if node.attribute("path") == "in place" else (node,)
                path = str(changed[0].attribute("path"))
                stored[path] = stored.get(path, 0) | found[node]
        if not stored:
            return found
        caches = {
            node: stored[str(node.attribute("path"))]
            for node in self.nodes
            if node.operation in ("attribute", "parameter") and node.attribute("path") in stored
        }
        return self._reached(caches | given)

    def _reached(self, given: dict[Node, int]) -> dict[Node, int]:
        found = dict(given)
        for node in self.nodes:
            if node not in found:
                mask = 0
                if node.operation in _LOOKS:
                    found[node] = 0
                    continue
                for operand in node.inputs:
                    mask |= found.get(operand, 0)
                found[node] = mask
        return found


_known: WeakKeyDictionary[Detector, Dataflow] = WeakKeyDictionary()


_LOOKS = frozenset({"size", "shape", "rank", "dtype_of", "is_none", "is_tensor", "finfo_min", "finfo_max"})
"""Operations that look at a tensor's form, not at its numbers."""


def dataflow(view: FunctionView) -> Dataflow:
    """The dataflow of the view's function; rules that look at one function share it."""
    found = _known.get(view.detector)
    if found is None:
        found = _known[view.detector] = _dataflow(view.detector, view.scope)
    return found


def _dataflow(detector: Detector, scope: Scope) -> Dataflow:
    program = detector.translation.program
    nodes = tuple(walk(tuple(detector.normal[n] for n in (*program.effects, *program.outputs))))
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for operand in dict.fromkeys(node.inputs):
            users.setdefault(operand, []).append(node)
    return Dataflow(tuple(_layer_calls(detector, scope)), users, nodes)


def _layer_calls(detector: Detector, scope: Scope) -> Iterator[LayerCall]:
    translation = detector.translation
    facts = translation.facts
    if facts is None:
        return
    found = []
    for node, expression in translation.expressions.items():
        if not isinstance(expression, ast.Call) or not node.inputs or node not in detector.normal:
            continue
        name = own_attribute(expression.func)
        if name is None or node.span != translation.source.span(expression):
            continue
        if node.operation in ("opaque", "layer") or node.inputs[0].operation != "parameter":
            class_name, presumed = layer_class(facts, scope, name)
            if name in facts.methods:
                continue
            normal = detector.normal[node]
            found.append(
                LayerCall(node, normal, name, class_name, detector.normal[node.inputs[0]], expression, presumed)
            )
    found.sort(key=lambda call: (call.expression.lineno, call.expression.col_offset))
    yield from found


def own_attribute(e: ast.expr) -> str | None:
    """`name` for the expression `self.name`."""
    if isinstance(e, ast.Attribute) and isinstance(e.value, ast.Name) and e.value.id == "self":
        return e.attr
    return None


def layer_class(facts: ClassFacts, scope: Scope, name: str) -> tuple[str, bool]:
    """The class of the layer `self.name`, and whether that is only what a constructor's argument stands for by default."""
    value = facts.attributes.get(name)
    if isinstance(value, LayerValue):
        return value.class_name, False
    if isinstance(value, ModuleValue):
        return value.facts.name, False
    if not isinstance(value, Node) or name in facts.stored_elsewhere:
        return "", False
    call = _constructor(facts, name)
    init = facts.methods["__init__"].node if "__init__" in facts.methods else None
    return class_of(scope.of(facts.source), call, init) if call is not None else ("", False)


def _constructor(facts: ClassFacts, name: str) -> ast.Call | None:
    """The one call whose value `__init__` stores under `self.name`."""
    init = facts.methods.get("__init__")
    if init is None:
        return None
    stores = [
        node.value
        for node in ast.walk(init.node)
        if isinstance(node, ast.Assign) and any(own_attribute(target) == name for target in node.targets)
    ]
    return stores[0] if len(stores) == 1 and isinstance(stores[0], ast.Call) else None
