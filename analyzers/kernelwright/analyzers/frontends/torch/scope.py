"""What a file's names stand for: its functions, its classes with what `__init__` makes, and its imports."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from kernelwright.analyzers.frontends.torch.values import ClassFacts
from kernelwright.analyzers.source import Function, SourceFile, blocks_of
from kernelwright.analyzers.syntax_tree import walk


class Resolver(Protocol):
    """Looks a name up in other files. Must be quick or give up: it is asked while someone types."""

    def definition(self, path: str, name: str) -> tuple[SourceFile, str] | None:
        """The file that defines the qualified `name` as seen from the file at `path`, and the name there; else None."""
        ...


OUT_OF_REACH = ("torch.", "numpy.", "abc.", "typing.", "enum.", "dataclasses.", "collections.")
"""Packages whose classes are not looked into."""
MAXIMUM_BASES = 8


@dataclass
class Scope:
    """A source file with the facts about its classes, worked out on first use."""

    source: SourceFile
    resolver: Resolver | None = None
    _classes: dict[str, ClassFacts] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _foreign: dict[str, Scope | None] = field(default_factory=dict)

    def defines(self, name: str) -> bool:
        """True for a name the module (or Python) may define: then reading it is no mistake."""
        if not self._names:
            tree = self.source.tree
            self._names.update(dir(builtins), self.source.imports, ("__file__", "__name__", "super"))
            if "import *" in self.source.text:
                self._names.add("*")
            if "global " in self.source.text:
                self._names.update(n for node in walk(tree) if isinstance(node, ast.Global) for n in node.names)
            self._names.update(_bound_names(tree.body))
        return name in self._names or "*" in self._names

    def class_facts(self, name: str, seen: frozenset[str] = frozenset()) -> ClassFacts | None:
        """Facts on a class of this file (not yet with the values `__init__` stores: the evaluator adds them)."""
        facts = self._classes.get(name)
        if facts is None:
            node = self.source.classes.get(name)
            if node is None:
                return None
            facts = ClassFacts(name, node, self.source)
            self._classes[name] = facts
            self._inherit(facts, seen)
            facts.bases = tuple(self.qualified(base) or "?" for base in node.bases)
            facts.overridden = self._overridden(name)
            facts.stored_elsewhere = frozenset(self._stored_elsewhere(name))
            facts.tensor_arguments = frozenset(self._tensor_arguments(node))
        return facts

    def _inherit(self, facts: ClassFacts, seen: frozenset[str] = frozenset()) -> None:
        """Fill in the methods: those of the bases that are in reach, then the class's own."""
        for base in reversed(facts.node.bases):
            base_name = self.qualified(base)
            if base_name is None:
                continue
            inherited = self.base_facts(base_name, seen | {facts.name})
            if inherited is None:
                continue
            facts.methods.update(inherited.methods)
            for name in inherited.methods:
                facts.sources.pop(name, None)
                if inherited.source_of(name) is not self.source:
                    facts.sources[name] = inherited.source_of(name)
        for statement in facts.node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                facts.methods[statement.name] = Function(statement, facts.node, f"{facts.name}.{statement.name}")
                facts.sources.pop(statement.name, None)

    def base_facts(self, name: str, seen: frozenset[str] = frozenset()) -> ClassFacts | None:
        """Facts on a base class, of this file or another; None where it is out of reach or its own base."""
        if name in self.source.classes:
            return None if name in seen else self.class_facts(name, seen)
        if name.startswith(OUT_OF_REACH) or "." not in name or len(seen) > MAXIMUM_BASES:
            return None
        found = self.elsewhere(name)
        return found[0].class_facts(found[1], seen) if found is not None else None

    def _derived(self, name: str) -> list[ast.ClassDef]:
        """Classes of this file that derive from `name`, also through others."""
        found: list[ast.ClassDef] = []
        for other, node in self.source.classes.items():
            if other != name and any(self.qualified(base) == name for base in node.bases):
                found.append(node)
                found.extend(self._derived(other))
        return found

    def _overridden(self, name: str) -> frozenset[str]:
        """Methods that a class deriving from `name` may have from elsewhere: its own, and those of its other bases."""
        found: set[str] = set()
        for node in self._derived(name):
            found.update(s.name for s in node.body if isinstance(s, ast.FunctionDef))
            for base in node.bases:
                other = self.source.classes.get(self.qualified(base) or "")
                if other is not None and self.qualified(base) != name:
                    found.update(s.name for s in other.body if isinstance(s, ast.FunctionDef))
        return frozenset(found | self._stores)

    @cached_property
    def _stores(self) -> frozenset[str]:
        """Attribute names the file assigns through anything but `self`: `self.inner.act = ...`."""
        stores = self.source.inventory.stores
        return frozenset(name for name, bases in stores.items() if any(base != "self" for base in bases))

    def _stored_elsewhere(self, name: str) -> set[str]:
        """Attributes that something besides the class's own `__init__` may set: its other methods, subclasses, other code."""
        found = set(self._stores)
        nodes = [(self.source.classes[name], True), *((node, False) for node in self._derived(name))]
        for inherited in self._classes[name].methods.values():
            if inherited.class_node is not None and all(inherited.class_node is not node for node, _ in nodes):
                nodes.append((inherited.class_node, True))
        for class_node, is_own in nodes:
            for method in class_node.body:
                if not isinstance(method, ast.FunctionDef) or (is_own and method.name == "__init__"):
                    continue
                for node in walk(method):
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                        found.add(node.attr)
        return found

    def _tensor_arguments(self, node: ast.ClassDef) -> set[str]:
        """Parameters of `__init__` that some call in this file gives a tensor made by torch."""
        init = next((s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
        if init is None:
            return set()
        names = [a.arg for a in init.args.args[1:]]
        found: set[str] = set()
        for call in self.source.inventory.calls.get(node.name, []):
            given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg)]
            for name, value in given:
                made = isinstance(value, ast.Call) and (self.qualified(value.func) or "").startswith("torch.")
                if made and name is not None:
                    found.add(name)
        return found

    def qualified(self, node: ast.expr) -> str | None:
        """The qualified name of a dotted expression; a name of this file stands for itself."""
        if isinstance(node, ast.Name):
            return f"?{node.id}" if node.id in self.source.ambiguous else self.source.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.qualified(node.value)
            return f"{base}.{node.attr}" if base else None
        if isinstance(node, ast.Subscript):
            return self.qualified(node.value)
        return None

    def of(self, source: SourceFile) -> Scope:
        """The scope of a file reached from here."""
        if source is self.source:
            return self
        found = self._foreign.get(source.path)
        return found if found is not None else Scope(source, self.resolver)

    def elsewhere(self, qualified_name: str) -> tuple[Scope, str] | None:
        """The scope and local name of something another file defines, or None where it is out of reach."""
        if self.resolver is None:
            return None
        found = self.resolver.definition(self.source.path, qualified_name)
        if found is None:
            return None
        source, name = found
        self._foreign.setdefault(self.source.path, self)
        scope = self._foreign.get(source.path)
        if scope is None:
            scope = Scope(source, self.resolver)
            scope._foreign = self._foreign
            self._foreign[source.path] = scope
        return scope, name


def _bound_names(body: list[ast.stmt]) -> set[str]:
    """Names a module's top level binds, also inside its `if`, `try` and loops."""
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
            continue
        for node in walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.alias):
                names.add((node.asname or node.name).partition(".")[0])
        for block in blocks_of(statement):
            names |= _bound_names(block)
    return names
