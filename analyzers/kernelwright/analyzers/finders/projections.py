"""Projections of one input that one matrix product can make: q, k, v of an attention, gate and value of a gated unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.finders.attribute_uses import Use, uses_of
from kernelwright.analyzers.finders.dataflow import Dataflow, LayerCall, dataflow
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.packing import NoPacking, Packing, plan_packing
from kernelwright.analyzers.finders.requirements import user_knows
from kernelwright.analyzers.opportunity import Condition

QKV_CHANGES = "{parts} become one module {packed}; saved checkpoints keep the old keys, both ways, by hooks"
OPTIMIZER_CHANGES = (
    "optimizer states saved before have one entry a parameter: load_state_dict refuses them, "
    "and the page of qkv-fuse has the conversion"
)


def qkv_fuse(view: FunctionView) -> Iterator[Finding]:
    """Three projections of one input that become query, key and value of one attention."""
    flow = dataflow(view)
    for group in _projections(flow, 3):
        for triple in _attended(flow, group):
            yield _finding(view, flow, triple, "qkv_proj")


def glu_fuse(view: FunctionView) -> Iterator[Finding]:
    """Two projections of one input, one through an activation, multiplied."""
    flow = dataflow(view)
    for group in _projections(flow, 2):
        for pair in _gated(flow, group):
            yield _finding(view, flow, pair, "gate_up_proj")


_WRAPPED = re.compile(r"lora|quant|[48]bit|int8|fp8|adapter", re.IGNORECASE)


def _is_projection(call: LayerCall) -> bool:
    """A linear map over the last axis by a layer of one argument, or a convolution of kernel size 1 over channels."""
    if _WRAPPED.search(call.class_name) or call.presumed or call.expression.keywords or len(call.expression.args) != 1:
        return False
    if call.class_name == "torch.nn.Linear":
        return call.node.operation == "linear"
    if call.class_name in ("torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d"):
        return call.node.operation == "conv"
    return call.short_class in ("ColumnParallelLinear", "Conv1D") and call.node.operation in ("layer", "opaque")


def _projections(flow: Dataflow, least: int) -> Iterator[list[LayerCall]]:
    """Groups of calls of different layers of one kind on one value."""
    groups: dict[tuple[object, ...], list[LayerCall]] = {}
    for call in flow.calls:
        if _is_projection(call):
            shape = call.node.attributes if call.node.operation == "conv" else ()
            groups.setdefault((call.x, call.class_name, shape), []).append(call)
    for group in groups.values():
        distinct = {call.path: call for call in group}
        if least <= len(distinct) <= 8:
            yield list(distinct.values())


# ---- attention


def _attended(flow: Dataflow, group: Sequence[LayerCall]) -> Iterator[tuple[LayerCall, ...]]:
    """The triples of a group that meet as query, key and value: a product (or an unknown function) in which two of them are
    already joined with each other and the third comes in, or a function of all three."""
    masks = flow.masks(tuple(call.normal for call in group))
    taken = 0
    for node in flow.nodes:
        if node.operation not in ("matmul", "scaled_dot_product_attention", "call", "layer", "opaque"):
            continue
        parts = [mask for operand in node.inputs if (mask := masks.get(operand, 0))]
        together = 0
        for mask in parts:
            together |= mask
        if together.bit_count() != 3 or together & taken or together in parts:
            continue
        taken |= together
        yield tuple(call for place, call in enumerate(group) if together >> place & 1)


# ---- gated units

_ACTIVATIONS = frozenset({"silu", "gelu", "mish", "relu", "sigmoid", "tanh", "hardswish", "softplus"})


def _gated(flow: Dataflow, group: Sequence[LayerCall]) -> Iterator[tuple[LayerCall, ...]]:
    by_value = {call.normal: call for call in group}
    taken: set[Node] = set()
    for value, up in by_value.items():
        for product in flow.users.get(value, ()):
            if product.operation != "mul":
                continue
            for factor in product.inputs:
                source = _activated(factor)
                gate = by_value.get(source) if source is not None else None
                if gate is not None and gate is not up and not {gate.normal, value} & taken:
                    taken |= {gate.normal, value}
                    yield gate, up


def _activated(node: Node) -> Node | None:
    """What an activation is applied to; an unknown function of one value counts as one."""
    if node.operation in _ACTIVATIONS:
        return node.inputs[0]
    if node.operation in ("opaque", "layer", "call") and len(node.inputs) == 1:
        is_method = str(node.attribute("target") or "").startswith("Tensor.")
        return None if is_method else node.inputs[0]
    return None


# ---- the finding


@dataclass(frozen=True, slots=True)
class _Uses:
    """What else the file does with the layers: initialises them by name, calls all of them in another method too, or calls,
    hooks and replaces them one by one."""

    initialising: tuple[Use, ...]
    together: tuple[Use, ...]
    others: tuple[Use, ...]


def _other_uses(view: FunctionView, calls: Sequence[LayerCall], flow: Dataflow) -> _Uses:
    known = {id(call.expression.func) for call in flow.calls}
    uses = [
        use
        for call in calls
        for use in uses_of(view.scope, view.translation.facts, call.path)
        if id(use.node) not in known
    ]
    callers: dict[str, set[str]] = {}
    for use in uses:
        if use.called:
            callers.setdefault(use.function, set()).add(use.node.attr)
    all_in = {function for function, paths in callers.items() if len(paths) == len(calls)}
    own = view.translation.function.qualified_name
    together = [use for use in uses if use.called and use.function in all_in and use.function != own]
    rest = [use for use in uses if use not in together]
    return _Uses(
        tuple(use for use in rest if use.initialises),
        tuple(together),
        tuple(use for use in rest if not use.initialises),
    )


def _finding(view: FunctionView, flow: Dataflow, calls: tuple[LayerCall, ...], packed: str) -> Finding:
    source = view.source
    span = source.span(calls[0].expression)
    for call in calls[1:]:
        span = span.joined(source.span(call.expression))
    names = ", ".join(call.path for call in calls)
    function = view.translation.function.qualified_name
    uses = _other_uses(view, calls, flow)
    declined: str | None = None
    packing: Packing | None = None
    reason = ""
    if uses.others:
        use = uses.others[0]
        declined = (
            f"{use.node.attr} is used by itself in line {use.node.lineno}: {source.lines[use.node.lineno - 1].strip()}"
        )
    else:
        try:
            if uses.together:
                raise NoPacking(f"{uses.together[0].function} calls the layers too")
            packing = plan_packing(view, flow, calls, packed, uses.initialising)
        except NoPacking as error:
            reason = str(error)
    conditions = list(_conditions(flow, calls, uses))
    message = f"{names} read the same value: one matrix product can make them all"
    changes = (QKV_CHANGES.format(parts=names, packed=packed), OPTIMIZER_CHANGES)
    if packing is None and declined is None:
        message += f" (no edit: {reason})"
    return Finding(
        span,
        function,
        names,
        message,
        f"Pack {names} into one projection",
        packing.edits if packing is not None else (),
        "none",
        tuple(conditions),
        state_dict_changes=changes,
        declined=declined,
    )


def _conditions(flow: Dataflow, calls: Sequence[LayerCall], uses: _Uses) -> Iterator[Condition]:
    yield Condition("same_input", "proven", "all of them read the same value")
    elsewhere = [c.path for call in calls for c in flow.calls if c.path == call.path and c.x is not call.x]
    if elsewhere:
        yield user_knows("self_attention", f"self-attention only: {elsewhere[0]} also reads another value here")
    if calls[0].short_class == "ColumnParallelLinear":
        yield user_knows("shards", "ColumnParallelLinear is sharded: rows must be packed rank by rank")
    if uses.together:
        yield user_knows("callers", f"{uses.together[0].function} calls the same layers and must follow")
    if uses.initialising:
        use = uses.initialising[0]
        yield user_knows(
            "initialisation", f"line {use.node.lineno} initialises {use.node.attr} by name and must follow"
        )
    yield user_knows(
        "names", "nothing outside this file names these modules (LoRA targets, sharding plans, weight decay groups)"
    )
