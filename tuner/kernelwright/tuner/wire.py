"""How a workload travels to the worker: a JSON object with both programs in their textual form. No torch here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from kernelwright.analyzers.architecture import Attribute, Node, Program, parse_program, print_program
from kernelwright.analyzers.workload import Dimension, Workload
from kernelwright.tuner.records import scalar_values
from kernelwright.tuner.rewriting import rebuilt, with_attribute


def workload_to_json(workload: Workload) -> dict[str, object]:
    """JSON data for `workload`; `values` holds what the textual form leaves out of scalar inputs."""
    return {
        "rule": workload.rule,
        "before": print_program(workload.before, spans=False),
        "after": print_program(workload.after, spans=False),
        "roles": [list(role) for role in workload.roles],
        "needs_gradient": list(workload.needs_gradient),
        "dimensions": [dataclasses.asdict(dimension) for dimension in workload.dimensions],
        "mode": workload.mode,
        "values": dict(scalar_values(workload)),
    }


def workload_from_json(data: Mapping[str, object]) -> Workload:
    """The workload that `workload_to_json` wrote.

    Raises:
        ValueError: a part is missing or malformed (`ProgramSyntaxError` for a program).
    """
    try:
        values = data.get("values") or {}
        assert isinstance(values, Mapping)
        mode = data["mode"]
        if mode not in ("eval", "training", "autocast"):
            raise ValueError(f"unknown mode {mode!r}: expected eval, training or autocast")
        return Workload(
            rule=str(data["rule"]),
            before=_with_values(parse_program(str(data["before"])), values),
            after=_with_values(parse_program(str(data["after"])), values),
            roles=tuple((str(role[0]), str(role[1])) for role in _list(data["roles"])),
            needs_gradient=tuple(str(name) for name in _list(data["needs_gradient"])),
            dimensions=tuple(Dimension(**dimension) for dimension in _list(data["dimensions"])),
            mode=mode,
        )
    except (KeyError, TypeError, AssertionError) as error:
        raise ValueError(f"malformed workload: {error!r}") from error


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"expected a list, found {value!r}")
    return value


def _with_values(program: Program, values: Mapping[str, Attribute]) -> Program:
    """`program` whose scalar inputs carry their values again."""

    def change(node: Node) -> Node:
        name = node.attribute("name")
        if node.operation != "input" or not isinstance(name, str) or name not in values:
            return node
        return with_attribute(node, "value", values[name])

    return rebuilt(program, change)
