"""A linear layer with bias whose output goes to an activation and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.finders.dataflow import dataflow
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.requirements import accelerator
from kernelwright.analyzers.opportunity import Condition

_EPILOGUES = frozenset({"relu", "gelu"})
"""Activations that a matrix product of cuBLASLt can end with."""


def linear_act(view: FunctionView) -> Iterator[Finding]:
    """`act(linear(x))`, written in this function, where nothing else reads what the linear layer gives."""
    if not view.detector.operations & _EPILOGUES:
        return
    flow = dataflow(view)
    linears = {call.normal: call for call in flow.calls if call.node.operation == "linear"}
    for raw, expression in view.translation.expressions.items():
        if raw.operation not in _EPILOGUES or raw.span != view.source.span(expression):
            continue
        activation = view.detector.normal.get(raw)
        if activation is None or not activation.inputs:
            continue
        linear = activation.inputs[0]
        call = linears.get(linear)
        if call is None or _is_none(linear.inputs[2]) or flow.only_user(linear) is not activation:
            continue
        assert raw.span is not None
        yield Finding(
            view.source.span(call.expression).joined(raw.span),
            view.translation.function.qualified_name,
            call.path,
            f"bias and {raw.operation} after {call.path} are a pass over memory that the matrix product can end with",
            "Let the matrix product add the bias and activate",
            check="none",
            conditions=tuple(_conditions(view, raw)),
            snippet="mlp.compile()  # torch joins the bias and the activation into one kernel behind the product\n",
        )


def _is_none(node: Node) -> bool:
    return node.operation == "constant" and node.attribute("value") is None


def _conditions(view: FunctionView, activation: Node) -> Iterator[Condition]:
    yield Condition("unused_elsewhere", "proven", "nothing else reads the value before the activation")
    yield accelerator(view.installed, "a GPU")
