"""Where a file uses an attribute of modules: the calls one knows of aside, what names a layer one by one."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache

from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.values import ClassFacts
from kernelwright.analyzers.source import SourceFile

PARTS = "packed_parts"
"""The attribute in which a packed layer keeps the names of its parts (see `packing`)."""


@dataclass(frozen=True, slots=True)
class Use:
    """An attribute access: its node, the class and the function around it ("" for none), whether it initialises weights,
    and whether it is called through `self`."""

    node: ast.Attribute
    class_name: str
    function: str
    initialises: bool
    called: bool


def uses_of(scope: Scope, facts: ClassFacts | None, name: str) -> list[Use]:
    """Accesses of the attribute that may mean the one a class has: through anything but `self`, or through `self` in the
    class itself or one that shares its code. The assignment in its `__init__` is left out."""
    if facts is None:
        return []
    family = _family(scope, facts.name)
    init = facts.methods.get("__init__")
    found = []
    for use in _attributes(scope.source.tree).get(name, ()):
        through_self = isinstance(use.node.value, ast.Name) and use.node.value.id == "self"
        if through_self and use.class_name not in family:
            continue
        if through_self and isinstance(use.node.ctx, ast.Store) and init is not None and _inside(init.node, use.node):
            continue
        found.append(use)
    return found


def mentioned_in_text(source: SourceFile, name: str) -> bool:
    """True where a string of the file (documentation aside) holds the name: code may look the module up by it."""
    return name in _words(source.tree)


def _inside(outer: ast.AST, node: ast.Attribute) -> bool:
    return bool(outer.lineno <= node.lineno <= (outer.end_lineno or 0))  # type: ignore[attr-defined]


def _family(scope: Scope, name: str) -> frozenset[str]:
    """The class, and the classes of this file that it derives from or that derive from it."""
    found = {name}
    while True:
        more = set(found)
        for other, node in scope.source.classes.items():
            bases = {scope.qualified(base) or "" for base in node.bases}
            if other in found:
                more |= bases & scope.source.classes.keys()
            if bases & found:
                more.add(other)
        if more == found:
            return frozenset(found)
        found = more


_INITIALISES = re.compile(r"init|reset_param", re.IGNORECASE)


@lru_cache(maxsize=2)
def _attributes(tree: ast.Module) -> dict[str, list[Use]]:
    found: dict[str, list[Use]] = {}
    called: set[int] = set()
    stack: list[tuple[ast.AST, str, str, bool]] = [(tree, "", "", False)]
    while stack:
        node, class_name, function, initialises = stack.pop()
        if isinstance(node, ast.ClassDef):
            class_name = f"{class_name}.{node.name}" if class_name else node.name
        elif isinstance(node, ast.FunctionDef):
            function = f"{class_name}.{node.name}"
            initialises = node.name != "__init__" and _INITIALISES.search(node.name) is not None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base = node.func.value
            if getattr(base, "attr", getattr(base, "id", "")) == "init":
                initialises = True  # nn.init.xavier_uniform_(...)
            if isinstance(base, ast.Name) and base.id == "self":
                called.add(id(node.func))
        elif isinstance(node, ast.Attribute):
            use = Use(node, class_name, function, initialises, id(node) in called)
            found.setdefault(node.attr, []).append(use)
        stack.extend((child, class_name, function, initialises) for child in ast.iter_child_nodes(node))
    for uses in found.values():
        uses.sort(key=lambda use: (use.node.lineno, use.node.col_offset))
    return found


@lru_cache(maxsize=2)
def _words(tree: ast.Module) -> frozenset[str]:
    words: set[str] = set()
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Assign) and any(getattr(t, "attr", "") == PARTS for t in node.targets):
            continue  # our own: another class of the file is packed already
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            words.update(re.findall(r"\w+", node.value))
        stack.extend(ast.iter_child_nodes(node))
    return frozenset(words)
