"""From a site to a workload: the user's own operations and the kernel call as two programs on the same typed inputs."""

from __future__ import annotations

import dataclasses

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.assumptions import decided
from kernelwright.analyzers.detect import Detector, Site
from kernelwright.analyzers.workload import Dimension, Workload

DEFAULTS = {"B": 4, "L": 512, "S": 512, "H": 12, "D": 64, "E": 768, "M": 3072, "V": 32000, "G": 4, "one": 1}
"""Extents where the code and the settings tell nothing: a BERT-base-sized layer."""

_NUMBERS = {"p": 0.0, "scale": 0.125, "eps": 1e-6, "n": 3}


def workload_of(detector: Detector, site: Site, batch: int | None, sequence: int | None) -> Workload:
    """The before and after programs of a site with default shapes.

    Raises:
        ValueError: the site computes with something that cannot run outside the model.
    """
    rule, variant = site.rule, site.variant
    settings = {"B": (batch, "setting"), "L": (sequence, "setting"), "S": (sequence, "setting")}
    dimensions: dict[str, Dimension] = {}
    inputs: dict[str, Node] = {}
    roles: list[tuple[str, str]] = []
    for parameter in variant.parameters:
        bound = site.match.bindings[parameter.name]
        axes = rule.shapes.get(parameter.name)
        if parameter.neutral is not None and bound is detector.form.constant(parameter.neutral):
            # An absent mask is None to a kernel; 0 would be one more addition.
            absent = None if parameter.kind == "mask" else parameter.neutral
            inputs[parameter.name] = Node("constant", (), (("value", absent),))
            continue
        if axes is None:
            value = bound.attribute("value") if bound.operation == "constant" else _NUMBERS.get(parameter.name)
            if value is None:
                raise ValueError(f"no value for {parameter.name}")
            inputs[parameter.name] = Node("constant", (), (("value", value),))
            continue
        extents = []
        for axis in axes:
            if isinstance(axis, int):
                extents.append(axis)
                continue
            if axis not in dimensions:
                set_value, origin = settings.get(axis, (None, ""))
                dimensions[axis] = Dimension(axis, set_value or DEFAULTS[axis], origin if set_value else "default")
            extents.append(dimensions[axis].extent)
        role = rule.roles.get(parameter.name, "normal")
        dtype = {"keep_mask": "bool", "drop_mask": "bool", "index": "int64"}.get(role, "float32")
        inputs[parameter.name] = Node(
            "input", (), (("name", parameter.name), ("shape", tuple(extents)), ("dtype", dtype))
        )
        roles.append((parameter.name, role))
    before = _before(detector, site, inputs)
    after = _instantiated(variant.kernel, inputs)
    if site.joined:
        after = Node("flatten", (after,), (("start", 0), ("end", 1)))
    tensors = tuple(n for n in inputs.values() if n.operation == "input")
    gradients = tuple(name for name, role in roles if role in ("normal", "positive"))
    name = site.translation.function.qualified_name
    return Workload(
        rule.name,
        Program(name, tensors, (before,)),
        Program(name, tensors, (after,)),
        tuple(roles),
        gradients,
        tuple(dimensions.values()),
    )


def _before(detector: Detector, site: Site, inputs: dict[str, Node]) -> Node:
    """The source operations of the region, with what the variables are bound to replaced by the inputs."""
    by_normal: dict[Node, Node] = {}
    for name, bound in site.match.bindings.items():
        if bound.operation == "constant":
            continue
        by_normal[bound] = inputs[name]
        if bound.operation == "unflatten":
            _add_joined(bound, inputs[name], by_normal)
        if bound.operation == "choose" and bound.inputs[0].operation == "is_none":
            # An optional argument: the workload has it.
            by_normal[bound.inputs[0].inputs[0]] = inputs[name]
    memo: dict[Node, Node] = {}
    for raw in walk((site.output,)):
        normal = detector.normal[raw]
        if raw is not site.output and normal in by_normal:
            memo[raw] = by_normal[normal]
        elif raw.operation in ("constant", "dtype"):
            memo[raw] = Node(raw.operation, (), raw.attributes)
        elif raw in site.region:
            memo[raw] = _copied(detector, site, raw, memo, by_normal, inputs)
    return memo[site.output]


def _add_joined(bound: Node, four_axes: Node, by_normal: dict[Node, Node]) -> None:
    """The code has batch and heads in one axis: give it the input in that form, and the two sizes."""
    shape = four_axes.attribute("shape")
    by_normal[bound.inputs[0]] = Node("flatten", (four_axes,), (("start", 0), ("end", 1)))
    if isinstance(shape, tuple):
        for size, extent in zip(bound.inputs[1:], shape, strict=False):
            by_normal[size] = Node("constant", (), (("value", extent),))


def _copied(
    detector: Detector,
    site: Site,
    raw: Node,
    memo: dict[Node, Node],
    by_normal: dict[Node, Node],
    inputs: dict[str, Node],
) -> Node:
    if raw.operation == "choose":
        value = decided(detector.normal[raw.inputs[0]], site.assumptions)
        arms = raw.inputs[1:]
        if value is None:
            # An optional mask: the workload has it.
            known = [arm for arm in arms if arm in memo]
            present = [arm for arm in known if memo[arm].operation not in ("constant",)]
            longest = max(present or known, key=lambda arm: sum(1 for _ in walk((memo[arm],))))
            return memo[longest]
        taken = arms[0 if value else 1]
        return memo[taken] if taken in memo else _stand_in(detector, detector.normal[taken], by_normal, inputs)
    operands = []
    for operand in raw.inputs:
        if operand in memo:
            operands.append(memo[operand])
            continue
        made = _stand_in(detector, detector.normal[operand], by_normal, inputs)
        operands.append(made)
    return Node(raw.operation, tuple(operands), raw.attributes)


def _stand_in(detector: Detector, normal: Node, by_normal: dict[Node, Node], inputs: dict[str, Node]) -> Node:
    """A number or flag that the region reads from the model, as the constant the workload uses for it."""
    if normal in by_normal:
        return by_normal[normal]
    if normal.operation == "constant":
        return Node("constant", (), normal.attributes)
    opposite = by_normal.get(detector.form.build("logical_not", normal))
    if opposite is not None:
        return Node("logical_not", (opposite,))
    for bound, made in by_normal.items():
        # Part of a composite binding: the probability and flag of a dropout, the factors of a scale.
        if bound.operation == "choose" and normal in bound.inputs:
            return Node("constant", (), (("value", False if normal is bound.inputs[0] else 0.0),))
        if normal in bound.inputs and bound.operation == "pow":
            value = made.attribute("value")
            exponent = bound.inputs[1].attribute("value")
            if isinstance(value, int | float) and isinstance(exponent, int | float) and exponent:
                return Node("constant", (), (("value", float(value) ** (1.0 / exponent)),))
    if normal.operation in ("attribute", "size"):
        return Node("constant", (), (("value", 1.0 if normal.attribute("kind") == "number" else False),))
    raise ValueError(f"{normal.operation} cannot run outside the model")


def _instantiated(program: Program, inputs: dict[str, Node]) -> Node:
    memo: dict[Node, Node] = {node: inputs[str(node.attribute("name"))] for node in program.inputs}
    for node in walk(program.outputs):
        if node not in memo:
            operands = tuple(memo[o] for o in node.inputs)
            memo[node] = dataclasses.replace(node, inputs=operands, span=None)
    return memo[program.outputs[0]]
