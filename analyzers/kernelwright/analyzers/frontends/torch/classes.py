"""Working out what a class's `__init__` stores under `self`: layers, parameters, buffers, plain values."""

from __future__ import annotations

import ast

from kernelwright.analyzers.architecture import Layer, Node
from kernelwright.analyzers.frontends.torch.graph import Graph
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.values import ClassFacts, LayerValue, ModuleValue, Value


def prepare_class(scope: Scope, facts: ClassFacts) -> None:
    """Interpret `__init__` once and fill `facts.attributes`, `parameters`, `buffers`."""
    if facts.ready:
        return
    facts.ready = True  # before the work: a class that makes its own kind must not recur
    init = facts.methods.get("__init__")
    if init is None:
        return
    # The evaluator builds on calls, which ask for class facts: the only circle in the front end, broken here.
    from kernelwright.analyzers.frontends.torch.evaluate import Evaluator
    from kernelwright.analyzers.frontends.torch.expressions import Frame

    evaluator = Evaluator(scope.of(facts.source_of("__init__")), Graph())
    own = ModuleValue(facts)
    frame = Frame({}, own, function=init)
    arguments = init.node.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    numeric = _numeric_defaults(arguments)
    for parameter in parameters[1:]:
        annotation = parameter.annotation
        if parameter.arg in facts.tensor_arguments:
            made = evaluator.graph.node("call", target="torch.Tensor", keywords=(), text=parameter.arg)
            frame.environment[parameter.arg] = made
            continue
        if parameter.arg in numeric or (isinstance(annotation, ast.Name) and annotation.id in ("int", "float")):
            frame.environment[parameter.arg] = evaluator.graph.node("input", name=parameter.arg, dtype="number")
        else:
            frame.environment[parameter.arg] = evaluator.graph.node("input", name=parameter.arg)
    if parameters:
        frame.environment[parameters[0].arg] = own
    evaluator.frames.append(frame)
    evaluator.active.add(init.node)
    evaluator.run(init.node.body)
    for name, value in frame.environment.items():
        if name.startswith("self."):
            _store(facts, name.removeprefix("self."), value)
    for effect in evaluator.effects:
        _register(facts, effect.inputs[1] if effect.operation == "choose" else effect)


def _numeric_defaults(arguments: ast.arguments) -> set[str]:
    """Parameters whose default is a number: they hold numbers."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return {
        a.arg
        for a, d in pairs
        if isinstance(d, ast.Constant) and isinstance(d.value, int | float) and not isinstance(d.value, bool)
    }


def _store(facts: ClassFacts, name: str, value: Value) -> None:
    if isinstance(value, LayerValue):
        if value.class_name == "torch.nn.Parameter" or value.class_name == "torch.nn.parameter.Parameter":
            facts.parameters.add(name)
            if value.arguments:
                facts.attributes[name] = value.arguments[0]
            return
        facts.attributes[name] = LayerValue(name, value.class_name, value.arguments, value.keywords)
    elif isinstance(value, ModuleValue):
        facts.attributes[name] = ModuleValue(value.facts, name)
    else:
        facts.attributes[name] = value
        if isinstance(value, Node) and _may_hold_parameter(value):
            facts.parameters.add(name)


def _may_hold_parameter(value: Node) -> bool:
    """True where one of the values a branch may have stored is a Parameter."""
    if value.operation == "choose":
        return any(_may_hold_parameter(operand) for operand in value.inputs[1:])
    return value.operation == "attribute" and value.attribute("kind") == "module"


def _register(facts: ClassFacts, effect: Node) -> None:
    """`self.register_buffer("name", value)` and `register_parameter`, found among the calls of `__init__`."""
    called = effect.attribute("path") if effect.operation == "layer" else None
    for method, names in (("register_buffer", facts.buffers), ("register_parameter", facts.parameters)):
        if called == method and effect.inputs:
            first = effect.inputs[0]
            name = first.attribute("value")
            if first.operation == "constant" and isinstance(name, str):
                names.add(name)
                if len(effect.inputs) > 1:
                    facts.attributes[name] = effect.inputs[1]


def layers_of(facts: ClassFacts) -> tuple[Layer, ...]:
    """The layers of a class for the printed program; constructor arguments that are constants are shown."""
    layers = []
    for name, value in facts.attributes.items():
        if isinstance(value, LayerValue):
            shown = [(f"argument{i}", v) for i, v in enumerate(value.arguments)] + list(value.keywords)
            arguments = tuple((k, text) for k, v in shown if (text := _shown(v)) is not None)
            layers.append(Layer(name, value.class_name, arguments))
        elif isinstance(value, ModuleValue):
            layers.append(Layer(name, value.facts.name))
    return tuple(layers)


def _shown(value: Value) -> str | None:
    if isinstance(value, Node):
        if value.operation == "constant":
            return repr(value.attribute("value"))
        if value.operation == "input":
            return str(value.attribute("name"))
        if value.operation == "field":
            inner = _shown(value.inputs[0])
            return f"{inner}.{value.attribute('name')}" if inner else None
    return None
