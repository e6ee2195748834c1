"""The classes of a file as modules: what `__init__` makes and what `forward` calls, read from the syntax tree alone.

For advice on a whole class or file, where the dataflow of one function says too little.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.source import FunctionNode


@dataclass(frozen=True, slots=True)
class ModuleClass:
    """A class with a `forward`. `made` maps attributes under `self` to the expressions `__init__` stores there."""

    name: str
    node: ast.ClassDef
    forward: FunctionNode
    made: dict[str, tuple[ast.expr, ...]]

    def calls_of(self, attribute: str) -> list[ast.Call]:
        """The calls of `self.<attribute>(...)` in `forward`."""
        return [n for n in ast.walk(self.forward) if isinstance(n, ast.Call) and under_self(n.func) == attribute]


def module_classes(scope: Scope) -> tuple[ModuleClass, ...]:
    """The classes of the file that have a `forward(self, ...)` of their own, in the file's order."""
    found = []
    for name, node in scope.source.classes.items():
        methods = {s.name: s for s in node.body if isinstance(s, FunctionNode)}
        forward = methods.get("forward")
        if forward is None or not forward.args.args or not node.bases:
            continue
        found.append(ModuleClass(name, node, forward, _made(methods.get("__init__"))))
    return tuple(found)


def _made(init: FunctionNode | None) -> dict[str, tuple[ast.expr, ...]]:
    made: dict[str, list[ast.expr]] = {}
    for node in ast.walk(init) if init is not None else ():
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for whole in targets:
                for target, value in pairs(whole, node.value):
                    name = under_self(target) if target is not None else None
                    if name is not None:
                        made.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in made.items()}


def pairs(target: ast.expr | None, value: ast.expr) -> list[tuple[ast.expr | None, ast.expr]]:
    """What an assignment gives to what: `a, b = c, d` taken apart."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def under_self(node: ast.AST) -> str | None:
    """`attribute` where the expression is `self.attribute`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None


def constructed(scope: Scope, node: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call below a node, with the qualified name of what it calls where that is known."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            name = scope.qualified(inner.func)
            if name is not None:
                yield name, inner


def torch_layer(name: str) -> str | None:
    """`Conv2d` of `torch.nn.Conv2d`, also through `torch.nn.modules`; None for anything else."""
    return name.rpartition(".")[2] if name.startswith("torch.nn.") else None


def used_classes(scope: Scope, node: ast.AST) -> set[str]:
    """Classes of the file that are named below a node: made, or handed on to be made."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return names & set(scope.source.classes)
