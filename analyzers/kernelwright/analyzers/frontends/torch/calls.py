"""Calls: torch functions, tensor methods, layers, own methods and functions of the file, Python builtins."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.frontends.torch.axes import split_or_joined, unit_axes
from kernelwright.analyzers.frontends.torch.builtin_calls import PLAIN_BUILTINS, Arguments, Builtins, Keywords
from kernelwright.analyzers.frontends.torch.classes import prepare_class
from kernelwright.analyzers.frontends.torch.conditions import Facts
from kernelwright.analyzers.frontends.torch.containers import changes
from kernelwright.analyzers.frontends.torch.expressions import CONSTANTS, Frame
from kernelwright.analyzers.frontends.torch.functions import FUNCTIONS, METHODS, call_function, call_method
from kernelwright.analyzers.frontends.torch.graph import Graph, tensor
from kernelwright.analyzers.frontends.torch.layers import call_layer, layer_operation, works_in_place
from kernelwright.analyzers.frontends.torch.rearrange import rearrange
from kernelwright.analyzers.frontends.torch.records import record_fields
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.values import (
    BoundMethod,
    ClassFacts,
    Closure,
    LayerValue,
    ModuleValue,
    NotUnderstood,
    TableValue,
    Value,
)
from kernelwright.analyzers.source import Function, SourceFile
from kernelwright.analyzers.syntax_tree import walk

CONTEXT_DECORATORS = frozenset({"torch.no_grad", "torch.inference_mode", "torch.enable_grad"})
"""Decorators that change how a function's body runs, as a `with` around it would."""

_PURE_MODULES = ("torch.", "math.", "numpy.", "einops.", "operator.", "typing.", "builtins.", "warnings.", "copy.")
_BUILTINS_WITH_ROWS = frozenset(
    {"len", "int", "float", "min", "max", "isinstance", "getattr", "hasattr", "str", "list", "tuple"}
)
_TRANSPARENT_DECORATORS = frozenset(
    {
        "staticmethod",
        "classmethod",
        "property",
        *CONTEXT_DECORATORS,
        "torch.jit.ignore",
        "torch.jit.export",
        "typing.overload",
    }
)


class Calls(Builtins):
    """Evaluates calls; `Evaluator` adds statements and the following of functions."""

    def __init__(self, scope: Scope, graph: Graph, follow_submodules: bool) -> None:
        super().__init__(scope, graph)
        self.follow_submodules = follow_submodules
        self.facts = Facts()

    def follow(self, closure: Closure, arguments: Arguments, keywords: Keywords) -> Value:
        raise NotImplementedError

    # ---- names

    def global_value(self, name: str) -> Value:
        source = self.scope.source
        if name in source.ambiguous:
            return self.graph.node("global", name=f"?{name}")
        if name in source.imports:
            full = source.imports[name]
            return self.graph.constant(CONSTANTS[full]) if full in CONSTANTS else self.graph.node("global", name=full)
        function = source.module_functions.get(name)
        if function is not None:
            return Closure(function.node, source, {}, None, function)
        value = _module_constant(source.tree.body, name)
        return self.graph.constant(value) if value is not None else self.graph.node("global", name=name)

    def class_attribute(self, module: ModuleValue, name: str) -> Value:
        facts = module.facts
        prepare_class(self.scope, facts)
        path = f"{module.path}.{name}" if module.path else name
        method = facts.methods.get(name)
        if method is not None and name not in facts.attributes:
            closure = Closure(method.node, facts.source_of(name), {}, module, method)
            if facts.source_of(name) is not facts.source and any(
                _decorator_name(d) in ("property", "cached_property") for d in method.node.decorator_list
            ):
                return self.graph.node("attribute", path=path, kind="value")
            if any(_decorator_name(d) in ("property", "cached_property") for d in method.node.decorator_list):
                return self.follow(replace(closure), (), ())
            return closure
        value = facts.attributes.get(name)
        elsewhere = name in facts.stored_elsewhere
        if isinstance(value, LayerValue | ModuleValue) and elsewhere:
            return LayerValue(path, "?")
        if isinstance(value, LayerValue):
            return LayerValue(path, value.class_name, value.arguments, value.keywords)
        if isinstance(value, ModuleValue):
            return ModuleValue(value.facts, path)
        if name in facts.parameters or name in facts.buffers:
            unit = unit_axes(value) if isinstance(value, Node) and not elsewhere else ()
            return self.graph.node("parameter", path=path, **({"unit_axes": unit} if unit else {}))
        if isinstance(value, Closure):
            return value
        if isinstance(value, Node) and _is_computed_constant(value) and not elsewhere:
            return self.graph.node("attribute", path=path, kind="number", value=value.attribute("value"))
        kind = "number" if isinstance(value, Node) and is_number(value, nested=False) and not elsewhere else "value"
        return self.graph.node("attribute", path=path, kind="flag" if name == "training" else kind)

    def scope_of(self, closure: Closure) -> Scope:
        return self.scope.of(closure.source)

    # ---- calls

    def call(self, e: ast.Call) -> Value:
        if isinstance(e.func, ast.Name) and e.func.id == "super":
            return self.graph.node("global", name="super")
        if isinstance(e.func, ast.Attribute) and isinstance(e.func.value, ast.Name):
            table = self.frame.environment.get(e.func.value.id)
            if isinstance(table, TableValue) and not table.unknown:
                value = self.table_method(table, e.func.attr, e)
                if value is not None:
                    return value
        callee = self.evaluate(e.func)
        arguments: list[Value] = []
        keywords: list[tuple[str, Value]] = []
        unknown: list[Value] = []
        for argument in e.args:
            if isinstance(argument, ast.Starred):
                value = self.evaluate(argument.value)
                items = self.items(value)
                if items is not None:
                    arguments.extend(items)
                elif isinstance(callee, BoundMethod) and isinstance(value, Node):
                    # `x.view(*shape)` takes the shape as well in one piece.
                    arguments.append(value)
                else:
                    unknown.append(value)
            else:
                arguments.append(self.passed(argument))
        for keyword in e.keywords:
            value = self.passed(keyword.value)
            if keyword.arg is None:
                if isinstance(value, TableValue) and not value.unknown:
                    keywords.extend((str(k), v) for k, v in value.entries.items())
                else:
                    unknown.append(value)
            else:
                keywords.append((keyword.arg, value))
        self.place(e)
        if unknown:
            return self.spread(e, callee, arguments, keywords, unknown)
        try:
            value = self.invoke(callee, tuple(arguments), tuple(keywords))
            return split_or_joined(self.graph, self.facts.shapes, value) if isinstance(value, Node) else value
        except NotUnderstood as error:
            known = self.known_function(callee, tuple(arguments), tuple(keywords))
            if known is not None:
                return known
            inputs = [self.node_of(v) for v in (*arguments, *(v for _, v in keywords))]
            if isinstance(callee, BoundMethod):
                inputs.insert(0, callee.receiver)
            made = self.opaque(e, str(error), *inputs)
            for name, value in keywords:
                if name == "out" and isinstance(value, Node):
                    self.replaced(value, made)
            if _is_in_place(keywords) and arguments and isinstance(arguments[0], Node):
                self.replaced(arguments[0], made)
            return made

    def spread(
        self,
        e: ast.expr,
        callee: Value,
        arguments: list[Value],
        keywords: list[tuple[str, Value]],
        unknown: list[Value],
    ) -> Value:
        """A call with `*args` or `**kwargs` that are not known: what is called is known, what it is given is not."""
        values = (*arguments, *(v for _, v in keywords), *unknown)
        names = (*(n for n, _ in keywords), *("*" for _ in unknown))
        if isinstance(callee, LayerValue | ModuleValue) and callee.path:
            name = callee.class_name if isinstance(callee, LayerValue) else callee.facts.name
            made = layer_operation(self.graph, callee.path, name, tuple(self.node_of(v) for v in values))
            return self.graph.noted(replace(made, attributes=(*made.attributes, ("keywords", names))))
        if isinstance(callee, Node) and callee.operation == "global":
            name = str(callee.attribute("name"))
            if name.startswith(_PURE_MODULES):
                return self.graph.node("call", *(self.node_of(v) for v in values), target=name, keywords=names)
        return self.opaque(e, "arguments of unknown number", *values)

    def known_function(self, callee: Value, arguments: Arguments, keywords: Keywords) -> Node | None:
        """A call of a library's function with arguments that its row does not take: known, but not looked into."""
        names = tuple(name for name, _ in keywords)
        values = (*arguments, *(v for _, v in keywords))
        if "out" in names or "inplace" in names:
            return None
        if isinstance(callee, Node) and callee.operation == "global":
            name = str(callee.attribute("name"))
            if name.startswith(_PURE_MODULES) and not name.endswith("_"):
                return self.graph.node("call", *(self.node_of(v) for v in values), target=name, keywords=names)
            if name in PLAIN_BUILTINS or name in _BUILTINS_WITH_ROWS:
                made = self.plain_builtin(name, arguments, keywords)
                return made if isinstance(made, Node) else None
        if isinstance(callee, BoundMethod) and callee.name in METHODS:
            nodes = (callee.receiver, *(self.node_of(v) for v in values))
            return self.graph.node("call", *nodes, target=f"Tensor.{callee.name}", keywords=names)
        return None

    def invoke(self, callee: Value, arguments: Arguments, keywords: Keywords) -> Value:
        if isinstance(callee, Closure):
            return self.followed(callee, arguments, keywords)
        if isinstance(callee, LayerValue):
            return self.call_layer_value(callee, arguments, keywords)
        if isinstance(callee, ModuleValue):
            return self.call_module(callee, arguments, keywords)
        if isinstance(callee, BoundMethod):
            return self.call_method(callee, arguments, keywords)
        if isinstance(callee, Node) and callee.operation == "global":
            return self.call_global(str(callee.attribute("name")), arguments, keywords)
        if isinstance(callee, Node) and callee.operation in (
            "attribute",
            "input",
            "item",
            "element",
            "field",
            "choose",
        ):
            return self.call_value(callee, arguments, keywords)
        if isinstance(callee, Node):
            raise NotUnderstood("call of a value that is only known at run time")
        raise NotUnderstood("call of something unknown")

    def call_value(self, callee: Node, arguments: Arguments, keywords: Keywords) -> Value:
        """A call of something that is only known at run time: an argument, an attribute that `__init__` does not decide."""
        nodes = (*(self.node_of(v) for v in arguments), *(self.node_of(v) for _, v in keywords))
        names = tuple(n for n, _ in keywords)
        if callee.operation == "attribute":
            made = layer_operation(self.graph, str(callee.attribute("path")), "?", nodes)
            return (
                self.graph.noted(replace(made, attributes=(*made.attributes, ("keywords", names)))) if names else made
            )
        return self.graph.node("call", callee, *nodes, target="value", keywords=names)

    def followed(self, callee: Closure, arguments: Arguments, keywords: Keywords) -> Value:
        origin = self.graph.origin
        if len(self.frames) == 1 and origin is not None and callee.owner is not None:
            self.graph.origin = replace(origin, inlined=getattr(callee.node, "name", None))
        try:
            return self.follow(callee, arguments, keywords)
        finally:
            self.graph.origin = origin

    def call_layer_value(self, layer: LayerValue, arguments: Arguments, keywords: Keywords) -> Value:
        items = self.items(layer)
        if layer.class_name == "torch.nn.Sequential" and items is not None and len(arguments) == 1 and not keywords:
            value: Value = arguments[0]
            for item in items:
                value = self.invoke(item, (value,), ())
            return value
        nodes = tuple(self.node_of(v) for v in arguments)
        if not keywords:
            try:
                made = call_layer(self.graph, layer, nodes)
                if nodes and works_in_place(layer) and made is not nodes[0]:
                    self.replaced(nodes[0], made)
                return made
            except NotUnderstood:
                pass
        names = tuple(name for name, _ in keywords)
        values = (*nodes, *(self.node_of(v) for _, v in keywords))
        made = layer_operation(self.graph, layer.path, layer.class_name, values)
        if nodes and works_in_place(layer):
            self.replaced(nodes[0], made)
        if names:
            made = self.graph.noted(replace(made, attributes=(*made.attributes, ("keywords", names))))
        return made

    def call_module(self, module: ModuleValue, arguments: Arguments, keywords: Keywords) -> Value:
        forward = module.facts.methods.get("forward")
        if (module.path and not self.follow_submodules) or forward is None:
            nodes = (*(self.node_of(v) for v in arguments), *(self.node_of(v) for _, v in keywords))
            made = layer_operation(self.graph, module.path or "self", module.facts.name, nodes)
            if keywords:
                made = self.graph.noted(
                    replace(made, attributes=(*made.attributes, ("keywords", tuple(n for n, _ in keywords))))
                )
            return made
        return self.followed(
            Closure(forward.node, module.facts.source_of("forward"), {}, module, forward), arguments, keywords
        )

    def call_method(self, method: BoundMethod, arguments: Arguments, keywords: Keywords) -> Value:
        receiver, name = method.receiver, method.name
        if receiver.operation == "global" and receiver.attribute("name") == "super":
            return self.graph.none
        if changes(self.graph, receiver, name):
            return self.container_changed(receiver, name, (*arguments, *(v for _, v in keywords)))
        if name.endswith("_") and not name.startswith("_") and name[:-1] in METHODS:
            new = call_method(self.graph, receiver, name[:-1], arguments, keywords)
            self.replaced(receiver, new)
            return new
        if name == "split" and keywords and keywords[0][0] == "split_size_or_sections":
            keywords = (("split_size", keywords[0][1]), *keywords[1:])
        if name in METHODS:
            return call_method(self.graph, receiver, name, arguments, keywords)
        if name.endswith("_") and not name.endswith("__"):
            inputs = (receiver, *(self.node_of(v) for v in (*arguments, *(v for _, v in keywords))))
            changed = self.graph.node("opaque", *inputs, reason=f"in-place method {name}", text=name)
            self.replaced(receiver, changed)
            return changed
        nodes = (receiver, *(self.node_of(v) for v in arguments), *(self.node_of(v) for _, v in keywords))
        names = tuple(n for n, _ in keywords)
        return self.graph.node("call", *nodes, target=f"Tensor.{name}", keywords=names)

    def call_global(self, name: str, arguments: Arguments, keywords: Keywords) -> Value:
        if name == "einops.rearrange" and len(arguments) == 2:
            return rearrange(self.graph, tensor(arguments[0], "x"), arguments[1], dict(keywords))
        if name in FUNCTIONS:
            result = call_function(self.graph, name, arguments, keywords)
            if _is_in_place(keywords) and arguments and isinstance(arguments[0], Node) and result is not arguments[0]:
                self.replaced(arguments[0], result)
            return result
        builtin = getattr(self, f"_builtin_{name}", None)
        if builtin is not None:
            made_by_row: Value = builtin(arguments, keywords)
            return made_by_row
        if name in PLAIN_BUILTINS:
            return self.plain_builtin(name, arguments, keywords)
        made = self.constructed(name, arguments, keywords)
        if made is not None:
            return made
        if self.is_logger(name.partition(".")[0]):
            nodes = (*(self.node_of(v) for v in arguments), *(self.node_of(v) for _, v in keywords))
            target = f"logging.{name.partition('.')[2]}"
            return self.graph.node("call", *nodes, target=target, keywords=tuple(n for n, _ in keywords))
        if name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper():
            return LayerValue("", name, arguments, keywords)
        if name.startswith("super."):
            return self.super_call(name.removeprefix("super."), arguments, keywords)
        elsewhere = self.scope.elsewhere(name) if not name.startswith(_PURE_MODULES) else None
        if elsewhere is not None:
            scope, local = elsewhere
            function = scope.source.module_functions.get(local)
            if function is not None:
                return self.followed(Closure(function.node, scope.source, {}, None, function), arguments, keywords)
        if name.startswith(_PURE_MODULES):
            nodes = (*(self.node_of(v) for v in arguments), *(self.node_of(v) for _, v in keywords))
            return self.graph.node("call", *nodes, target=name, keywords=tuple(n for n, _ in keywords))
        raise NotUnderstood(f"call of {name}")

    def is_logger(self, name: str) -> bool:
        """True for a module-level name that holds a logger."""
        value = self.scope.source.module_values.get(name)
        made_by = self.scope.qualified(value.func) if isinstance(value, ast.Call) else None
        return (made_by or "").rpartition(".")[2] in ("get_logger", "getLogger")

    def constructed(self, name: str, arguments: Arguments, keywords: Keywords) -> Value | None:
        """An instance of a module class of this file or of one in reach, if `name` is one."""
        scope, local = self.scope, name
        facts = scope.class_facts(name)
        if facts is None and not name.startswith(_PURE_MODULES):
            found = self.scope.elsewhere(name)
            if found is not None:
                scope, local = found
                facts = scope.class_facts(local)
        if facts is None:
            return None
        if "forward" in facts.methods:
            return ModuleValue(facts, "")
        fields = record_fields(scope, facts)
        return self.record(facts.name, fields, arguments, keywords) if fields is not None else None

    def record(self, name: str, fields: tuple[str, ...], arguments: Arguments, keywords: Keywords) -> Node:
        """An instance of a dataclass or named tuple: its fields by name."""
        given = dict(zip(fields, arguments, strict=False))
        given.update((n, v) for n, v in keywords)
        if len(arguments) > len(fields) or not set(given) <= set(fields):
            raise NotUnderstood(f"arguments that {name} does not take")
        made = self.graph.node("call", *(self.node_of(v) for v in given.values()), target=name, keywords=tuple(given))
        self.graph.records[made] = given
        return made

    def super_call(self, name: str, arguments: Arguments, keywords: Keywords) -> Value:
        owner = self.frame.owner
        if owner is None:
            raise NotUnderstood("super outside a class")
        base = self.base_method(owner.facts, name)
        if base is None:
            if name == "__init__":
                return self.graph.none
            raise NotUnderstood(f"super().{name} of a class in another file")
        source, function = base
        return self.followed(Closure(function.node, source, {}, owner, function), arguments, keywords)

    def base_method(self, facts: ClassFacts, name: str) -> tuple[SourceFile, Function] | None:
        """The method that `super()` finds from the function that is being interpreted.

        That is the next base of the class in which the function stands, not of the object's class.
        """
        current = next((f for f in self.active_methods if f.class_node is not None), None)
        scope, node = self.scope, facts.node
        if current is not None and current.class_node is not None:
            node = current.class_node
        elif scope.source is not facts.source:
            return None
        for base in node.bases:
            found = scope.base_facts(scope.qualified(base) or "", frozenset({node.name}))
            if found is not None and found.node is not node and name in found.methods:
                return found.source_of(name), found.methods[name]
        return None

    @property
    def active_methods(self) -> list[Function]:
        """The functions being interpreted, innermost first."""
        return [frame.function for frame in reversed(self.frames) if frame.function is not None]

    # ---- binding parameters

    def bind_parameters(self, closure: Closure, arguments: Arguments, keywords: Keywords) -> dict[str, Value]:
        form = closure.node.args
        names = [a.arg for a in (*form.posonlyargs, *form.args)]
        bound: dict[str, Value] = {}
        static_method = any(_decorator_name(d) == "staticmethod" for d in getattr(closure.node, "decorator_list", []))
        is_method = (
            closure.owner is not None and closure.function is not None and not isinstance(closure.node, ast.Lambda)
        )
        if is_method and closure.owner is not None and names and not static_method:
            bound[names.pop(0)] = closure.owner
        bound.update(zip(names, arguments, strict=False))
        extra = arguments[len(names) :]
        if form.vararg is not None:
            bound[form.vararg.arg] = self.graph.tuple(*(self.node_of(v) for v in extra))
        elif extra:
            raise NotUnderstood("more arguments than the function takes")
        only = [a.arg for a in form.kwonlyargs]
        rest: dict[object, Value] = {}
        for name, value in keywords:
            if name in names or name in only:
                bound[name] = value
            elif form.kwarg is not None:
                rest[name] = value
            else:
                raise NotUnderstood(f"unknown argument {name}")
        if form.kwarg is not None:
            bound[form.kwarg.arg] = TableValue(rest)
        defaults = (
            dict(zip(names[len(names) - len(form.defaults) :], form.defaults, strict=True)) if form.defaults else {}
        )
        defaults.update({a.arg: d for a, d in zip(form.kwonlyargs, form.kw_defaults, strict=True) if d is not None})
        for name in (*names, *only):
            if name not in bound:
                if name not in defaults:
                    raise NotUnderstood(f"argument {name} is missing")
                bound[name] = self.default_value(closure, defaults[name])
        return bound

    def default_value(self, closure: Closure, e: ast.expr) -> Value:
        """A parameter's default, read where the function is defined, not where it is called.

        Raises:
            NotUnderstood: it reads a name that the class body binds.
        """
        class_node = closure.function.class_node if closure.function is not None else None
        if class_node is not None:
            own = {
                n.id
                for s in class_node.body
                for n in walk(s)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            if any(isinstance(n, ast.Name) and n.id in own for n in walk(e)):
                raise NotUnderstood("a default that the class body decides")
        scope, self.scope = self.scope, self.scope_of(closure)
        self.frames.append(Frame(dict(closure.environment), None))
        try:
            return self.evaluate(e)
        finally:
            self.frames.pop()
            self.scope = scope

    def transparent(self, decorator: ast.expr) -> bool:
        """True for a decorator that leaves the function's result alone."""
        name = self.scope.qualified(decorator.func if isinstance(decorator, ast.Call) else decorator)
        return name in _TRANSPARENT_DECORATORS or (name or "").rpartition(".")[2] in (
            "cached_property",
            "torch_compile",
        )


def is_number(node: Node, nested: bool = True) -> bool:
    """True where the value is a Python number for sure: constants, sizes, and arithmetic on numbers and arguments.

    An argument of `__init__` counts as a number by its annotation, or inside arithmetic that tensors are not stored by
    (`head_dim ** -0.5`, `dim // heads`): a parameter or buffer is never written that way.
    """
    operation = node.operation
    if operation == "constant":
        value = node.attribute("value")
        return isinstance(value, int | float) and not isinstance(value, bool)
    if operation == "input":
        return nested or node.attribute("dtype") == "number"
    if operation == "field":
        return nested
    if operation in ("size", "rank", "number"):
        return True
    if operation == "call":
        return node.attribute("target") in ("builtins.int", "builtins.float", "builtins.len")
    if operation in ("pow", "floordiv", "sqrt", "mod", "div", "reciprocal"):
        return all(is_number(operand) for operand in node.inputs)
    if operation in ("add", "sub", "mul", "neg"):
        return all(is_number(operand, nested) for operand in node.inputs)
    if operation == "choose":
        return all(is_number(operand, nested) for operand in node.inputs[1:])
    return operation == "attribute" and node.attribute("kind") == "number"


def _is_computed_constant(value: Node) -> bool:
    """A constant that `__init__` works out (sqrt(2 / pi)): part of the formula. A short literal (eps) stays symbolic,
    so that the edit goes on reading it from where it is kept."""
    number = value.attribute("value") if value.operation == "constant" else None
    return isinstance(number, float) and len(repr(number)) > 10


def _is_in_place(keywords: Iterable[tuple[str, Value]]) -> bool:
    """True where `inplace=` is given and may be true."""
    given = next((value for name, value in keywords if name == "inplace"), None)
    if given is None:
        return False
    return not (isinstance(given, Node) and given.operation == "constant" and not given.attribute("value"))


def _decorator_name(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute):
        return decorator.attr
    return decorator.id if isinstance(decorator, ast.Name) else ""


def _module_constant(body: list[ast.stmt], name: str) -> int | float | str | None:
    """The value of a module-level `NAME = literal` that is assigned exactly once."""
    values = [
        s.value
        for s in body
        if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in s.targets)
    ]
    if len(values) == 1 and isinstance(values[0], ast.Constant) and isinstance(values[0].value, int | float | str):
        return values[0].value
    return None
