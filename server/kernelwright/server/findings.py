"""Opportunities as the JSON of `kernelwright check --format json|jsonl`: one object a finding, its keys fixed."""

from __future__ import annotations

from typing import Any

from kernelwright.analyzers.opportunity import Opportunity
from kernelwright.tuner.evidence import Gain


def finding(opportunity: Opportunity, gain: Gain | None) -> dict[str, Any]:
    """The JSON object of an opportunity. Lines and columns count from 1 in code points, both ends included.

    A declined one has at least one condition in state `violated`, and its message ends with the reason.
    """
    conditions = [{"name": c.name, "state": c.state, "text": c.text} for c in opportunity.conditions]
    message = opportunity.message
    if opportunity.declined is not None:
        message = f"{message} (no fix: {opportunity.declined})"
        if all(condition["state"] != "violated" for condition in conditions):
            conditions.append({"name": "offered", "state": "violated", "text": opportunity.declined})
    return {
        "file": opportunity.file,
        "rule": opportunity.rule,
        "class": opportunity.class_name,
        "function": opportunity.function,
        "start_line": opportunity.span.start_line,
        "start_column": opportunity.span.start_column,
        "end_line": opportunity.span.end_line,
        "end_column": opportunity.span.end_column,
        "tier": opportunity.tier,
        "conditional": opportunity.conditional,
        "conditions": conditions,
        "kernel": opportunity.kernel,
        "numerics": opportunity.numerics,
        "state_dict_changes": list(opportunity.state_dict_changes),
        "message": message,
        "gain": gain_object(gain),
    }


def gain_object(gain: Gain | None) -> dict[str, Any] | None:
    """The JSON object of a gain, or None where there is no value."""
    if gain is None or gain.value is None:
        return None
    return {
        "value": gain.value,
        "low": gain.low,
        "high": gain.high,
        "basis": gain.basis,
        "device": gain.device,
        "shapes": gain.shapes,
        "dtype": gain.dtype,
        "mode": gain.mode,
    }
