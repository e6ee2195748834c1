"""The torch front end: a function of a source file -> its program in the architecture language."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.frontends.torch.classes import layers_of, prepare_class
from kernelwright.analyzers.frontends.torch.evaluate import Evaluator
from kernelwright.analyzers.frontends.torch.expressions import Environment, Frame
from kernelwright.analyzers.frontends.torch.graph import Graph, Origin
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.values import ClassFacts, ModuleValue, Value
from kernelwright.analyzers.source import Function, FunctionNode, SourceFile
from kernelwright.analyzers.syntax_tree import walk


@dataclass(frozen=True)
class Translation:
    """A function's program, and what an edit needs to know: where each node was made and which names live where.

    `expressions` maps a node to the expression of this function it is the value of; `environments` maps each statement of
    the function (not of followed calls) to the names before it runs, `paths` to the conditions of the branches it stands
    in. `ranks` holds axis counts proven by unpacking or patterns, `contexts` the `with` statements around a node. `facts` is the
    class of a method; `unbound_reads` are names that may be read without having been assigned; `assigned` maps a statement to
    what it binds its names to.
    """

    function: Function
    program: Program
    origins: dict[Node, Origin] = field(repr=False)
    expressions: dict[Node, ast.expr | ast.AugAssign] = field(repr=False)
    environments: dict[ast.stmt, Environment] = field(repr=False)
    paths: dict[ast.stmt, tuple[Node, ...]] = field(repr=False)
    ranks: dict[Node, int] = field(repr=False)
    contexts: dict[Node, tuple[ast.AST, ...]] = field(repr=False)
    source: SourceFile = field(repr=False)
    facts: ClassFacts | None = None
    unbound_reads: frozenset[str] = frozenset()
    assigned: dict[ast.stmt, dict[str, Value]] = field(default_factory=dict, repr=False)


def translate(scope: Scope, function: Function, *, follow_submodules: bool = False) -> Translation:
    """Translate one function or method; what cannot be understood becomes `opaque` operations inside the program."""
    graph = Graph()
    evaluator = Evaluator(scope, graph, follow_submodules=follow_submodules)
    facts = _class_of(scope, function)
    owner = ModuleValue(facts) if facts is not None else None
    if facts is not None:
        prepare_class(scope, facts)
    form = function.node.args
    names = [a.arg for a in (*form.posonlyargs, *form.args)]
    environment: Environment = {}
    is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.node.decorator_list)
    if owner is not None and names and not is_static:
        environment[names.pop(0)] = owner
    names += [a.arg for a in form.kwonlyargs]
    inputs = []
    for name in [*names, *(a.arg for a in (form.vararg, form.kwarg) if a is not None)]:
        node = graph.node("input", name=name)
        inputs.append(node)
        environment[name] = node
    evaluator.frames.append(Frame(environment, owner, function=function))
    evaluator.active.add(function.node)
    evaluator.captured = _captured_names(function.node)
    falls = evaluator.run(function.node.body)
    output = evaluator.result(evaluator.frame, falls)
    layers = layers_of(facts) if facts is not None else ()
    program = Program(function.qualified_name, tuple(inputs), (output,), tuple(evaluator.effects), layers)
    return Translation(
        function,
        program,
        graph.origins,
        graph.expressions,
        evaluator.environments,
        evaluator.paths,
        graph.ranks,
        graph.contexts,
        scope.source,
        facts,
        frozenset(evaluator.unbound_reads),
        evaluator.assigned,
    )


_READ_ALL_NAMES = ("locals", "vars", "eval", "exec")


def _captured_names(function: FunctionNode) -> frozenset[str]:
    """Names of the function that something inside it may read at any time: nested functions, `locals()`, `eval`."""
    names: set[str] = set()
    for node in walk(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node is not function:
            names.update(n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        elif isinstance(node, ast.Global | ast.Nonlocal):
            names.update(node.names)
        elif isinstance(node, ast.ClassDef | ast.ExceptHandler):
            # Not interpreted: whatever they read must stay as it is.
            names.update(n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _READ_ALL_NAMES:
            names.update(n.id for n in walk(function) if isinstance(n, ast.Name))
    return frozenset(names)


def _class_of(scope: Scope, function: Function) -> ClassFacts | None:
    if function.class_node is None:
        return None
    return scope.class_facts(function.qualified_name.rpartition(".")[0])
