"""What a Python expression of a model file can be worth to the translation: a node, or something that makes nodes."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.source import Function, SourceFile


class NotUnderstood(Exception):
    """The construct has no translation; the message is the reason that the `opaque` operation carries."""


@dataclass(eq=False, slots=True)
class Closure:
    """A function of the file, a nested function or a lambda, with the names it sees."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    source: SourceFile
    environment: dict[str, Value]
    owner: ModuleValue | None = None
    function: Function | None = None
    frame: object = None
    """The frame it was defined in: while that runs, the closure sees its names as they are now."""


@dataclass(eq=False, slots=True)
class LayerValue:
    """A submodule of a class that torch (or another package) provides, with its constructor's arguments."""

    path: str
    class_name: str
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(eq=False, slots=True)
class ModuleValue:
    """`self`, or a submodule whose class is in reach: its class facts and its path under the outermost `self`."""

    facts: ClassFacts
    path: str = ""


@dataclass(eq=False, slots=True)
class BoundMethod:
    """A method looked up on a node: `x.softmax`."""

    receiver: Node
    name: str


@dataclass(eq=False, slots=True)
class TableValue:
    """A dict, a ModuleDict or anything else with keys; `entries` by constant key, `unknown` once it may have changed."""

    entries: dict[object, Value]
    unknown: bool = False


@dataclass(eq=False, slots=True)
class SequenceValue:
    """A tuple or list that holds something other than nodes: layers, functions, tables."""

    items: tuple[Value, ...]


@dataclass(eq=False, slots=True)
class IterationValue:
    """What a loop runs over besides a sequence itself: `kind` is `zip` or `enumerate`, `parts` what it goes through."""

    kind: str
    parts: tuple[Value, ...]


Value = Node | Closure | LayerValue | ModuleValue | BoundMethod | TableValue | SequenceValue | IterationValue


@dataclass(eq=False)
class ClassFacts:
    """What a class defines: its methods (inherited ones of reachable bases included) and what `__init__` stores.

    `attributes` maps a name under `self` to the value `__init__` gives it; a name missing there is not known.
    `buffers` and `parameters` are the names that live in the state dict. `overridden` are methods that a subclass in the
    file defines again, `stored_elsewhere` names that something besides its `__init__` may set,
    `tensor_arguments` parameters of `__init__` that are given tensors.
    """

    name: str
    node: ast.ClassDef
    source: SourceFile
    methods: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)
    parameters: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)
    overridden: frozenset[str] = frozenset()
    stored_elsewhere: frozenset[str] = frozenset()
    tensor_arguments: frozenset[str] = frozenset()
    bases: tuple[str, ...] = ()
    ready: bool = False
    sources: dict[str, SourceFile] = field(default_factory=dict)
    """The files of inherited methods that are defined in another file."""

    def source_of(self, method: str) -> SourceFile:
        return self.sources.get(method, self.source)
