"""The closed list of conditions a rule may name, each with how it is proven, guarded, assumed or violated at a site."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.causal import is_causal_keep
from kernelwright.analyzers.detect import Detector, Site
from kernelwright.analyzers.finders.grouped_heads import DEVICES
from kernelwright.analyzers.opportunity import Condition


@dataclass(frozen=True, slots=True)
class Place:
    """What a predicate may look at."""

    detector: Detector
    site: Site
    guard: str | None
    torch_version: tuple[int, int] | None
    dropped_checks: int = 0


Predicate = Callable[[Place], Condition | None]


def version_condition(need: tuple[int, int], have: tuple[int, int] | None) -> Condition:
    """The condition that the chosen interpreter's torch (`have`, None where there is none) is new enough."""
    wanted = f"torch >= {need[0]}.{need[1]}"
    if have is None:
        return Condition("min_version", "proven", f"{wanted} (no torch found in the chosen interpreter to compare)")
    if have >= need:
        return Condition("min_version", "proven", f"{wanted} (installed: {have[0]}.{have[1]})")
    return Condition("min_version", "violated", f"{wanted} is needed, {have[0]}.{have[1]} is installed")


def _min_version(place: Place) -> Condition:
    return version_condition(place.site.rule.min_torch, place.torch_version)


def _same_input(place: Place) -> Condition:
    return Condition("same_input", "proven", "every place of the formula reads the same value")


def _same_constants(place: Place) -> Condition:
    return Condition("same_constants", "proven", "the constants are those of the kernel to seven digits")


def _last_axis(place: Place) -> Condition:
    return Condition("last_axis", "proven", "the reduction runs over the last axis")


def _unused_elsewhere(place: Place) -> Condition:
    leak = place.site.leak
    if leak is not None:
        return Condition("unused_elsewhere", "violated", f"an inner value is needed elsewhere: {leak}")
    if place.guard is not None:
        return Condition("unused_elsewhere", "guarded", f"the old path stays for all but: {place.guard}")
    return Condition("unused_elsewhere", "proven", "no inner value is read by anything else")


def _scale(place: Place) -> Condition:
    return Condition("scale", "proven", "the scale is a Python number and is passed on as it is")


def _rank(place: Place) -> Condition | None:
    query = place.site.match.bindings.get("q")
    rank = place.detector.form.rank(query) if query is not None else None
    if rank is None:
        return Condition("rank", "proven", "batched matrix products: the last two axes are length and width")
    if rank == 3:
        return Condition("rank", "proven", "three axes: passed with a fourth of size 1, so that the fast kernel runs")
    return Condition("rank", "proven", f"{rank} axes, length and width last")


def _dropout_flag(place: Place) -> Condition | None:
    p = place.site.match.bindings.get("p")
    if p is None or p.operation == "constant":
        return None
    return Condition(
        "dropout_flag", "proven", "dropout runs by the same probability and flag as before; its random numbers differ"
    )


def _mask(place: Place) -> Condition | None:
    mask = (
        place.site.match.bindings.get("mask")
        or place.site.match.bindings.get("keep")
        or place.site.match.bindings.get("drop")
    )
    if mask is None or mask.operation == "constant":
        return None
    if "mask" in place.site.match.bindings:
        text = (
            "the mask is added to the scores, as the code does, so it is a float tensor; "
            "a row it masks altogether keeps its values in float32, not its gradients"
        )
        return Condition("mask", "proven", text)
    return Condition("mask", "proven", "the mask acts on the scores before the softmax, with the same polarity")


def _shape_checks(place: Place) -> Condition | None:
    if not place.dropped_checks:
        return None
    text = (
        f"{place.dropped_checks} check(s) of shapes that raise: the kernel checks its operands itself, in its own words"
    )
    return Condition("shape_checks", "proven" if place.guard is None else "guarded", text)


def _masked_rows(place: Place) -> Condition | None:
    drop = place.site.match.bindings.get("drop")
    if drop is not None:
        if _keeps_a_key(place, place.detector.form.build("logical_not", drop)):
            return Condition("masked_rows", "proven", "a causal mask leaves every row at least one key")
        text = "no row is masked altogether (its values stay the mean, its gradients would be others)"
        return Condition("masked_rows", "assumed", text)
    keep = place.site.match.bindings.get("keep")
    if keep is None or keep.operation == "constant" or "mask" in place.site.match.bindings:
        return None  # filled with the least number and added to: a float mask, and `mask` tells of it
    if _keeps_a_key(place, keep):
        return Condition("masked_rows", "proven", "a causal mask leaves every row at least one key")
    return Condition("masked_rows", "assumed", "no row is masked altogether (such a row was NaN and would be 0)")


def _keeps_a_key(place: Place, keep: Node) -> bool:
    """True for a square slice of a lower-triangular buffer."""
    facts = place.site.translation.facts
    return is_causal_keep(place.detector.form, keep, facts)


def _hooks(place: Place) -> Condition | None:
    """Modules whose call goes away: a forward hook on them would not run any more."""
    origins = place.site.translation.origins
    called = sorted(
        {
            str(node.attribute("path")).rpartition(".")[0]
            for region in place.site.region
            for node in region.inputs
            if region.operation == "dropout"
            and node.operation == "attribute"
            and str(node.attribute("path")).endswith(".training")
        }
        - {""}
    )
    softmaxes = [n for n in place.site.region if n.operation == "softmax"]
    source = place.site.translation.source
    for node in softmaxes:
        origin = origins.get(node)
        if origin is not None and node.span is not None:
            text = source.text[slice(*source.offsets(node.span))]
            found = re.match(r"self\.([\w.]+)\(", text)
            if found and found.group(1) in getattr(place.site.translation.facts, "attributes", {}):
                called.append(found.group(1))
    if not called:
        return None
    names = ", ".join(f"self.{name}" for name in called)
    if "register_forward_hook" in source.text or "register_forward_pre_hook" in source.text:
        return Condition("hooks", "assumed", f"no forward hook reads {names} (the file registers hooks)")
    return Condition("hooks", "proven", f"this file registers no forward hook on {names}")


def _double_backward(place: Place) -> Condition:
    text = place.site.translation.source.text
    if re.search(r"create_graph\s*=\s*True|functorch|torch\.func\.(hessian|jac)|gradgradcheck", text):
        return Condition("double_backward", "assumed", "no second derivatives are taken (the fused kernel has none)")
    return Condition("double_backward", "proven", "this file takes no second derivatives (the fused kernel has none)")


def _output_type(place: Place) -> Condition:
    if place.site.variant.guard is not None:
        return Condition("output_type", "guarded", f"the kernel runs only where no cast can differ: {place.guard}")
    return Condition("output_type", "proven", "every cast is written out; the result has the same element type")


def _not_overridden(place: Place) -> Condition | None:
    facts = place.site.translation.facts
    if facts is None:
        return None
    called = {
        origin.inlined
        for node in place.site.region
        if (origin := place.site.translation.origins.get(node)) is not None and origin.inlined is not None
    }
    clash = sorted(name for name in called if name in facts.overridden)
    if clash:
        return Condition(
            "not_overridden", "violated", f"a subclass overrides {clash[0]}, which would not be called any more"
        )
    return None


def _grouped_heads(place: Place) -> Condition:
    return Condition(
        "grouped_heads", "proven", "each head is repeated in place, which is the order of the kernel's groups"
    )


def _grouped_kernel(place: Place) -> Condition:
    return Condition("grouped_kernel", "assumed", DEVICES)


def _class_axis(place: Place) -> Condition:
    if place.guard is not None:
        return Condition("class_axis", "guarded", f"the last axis is that of the classes: {place.guard}")
    return Condition("class_axis", "proven", "the softmax runs over the axis of the classes")


PREDICATES: dict[str, Predicate] = {
    "min_version": _min_version,
    "same_input": _same_input,
    "class_axis": _class_axis,
    "grouped_heads": _grouped_heads,
    "grouped_kernel": _grouped_kernel,
    "same_constants": _same_constants,
    "last_axis": _last_axis,
    "unused_elsewhere": _unused_elsewhere,
    "scale": _scale,
    "rank": _rank,
    "dropout_flag": _dropout_flag,
    "mask": _mask,
    "masked_rows": _masked_rows,
    "hooks": _hooks,
    "shape_checks": _shape_checks,
    "double_backward": _double_backward,
    "output_type": _output_type,
    "not_overridden": _not_overridden,
}

ALWAYS = ("unused_elsewhere", "shape_checks", "not_overridden", "min_version")
"""Checked for every rule, named or not."""


def conditions_of(place: Place) -> tuple[Condition, ...]:
    """All conditions of the site's rule with their states."""
    names = [n for n in place.site.rule.conditions if n not in ALWAYS] + list(ALWAYS)
    found = (PREDICATES[name](place) for name in names)
    return tuple(condition for condition in found if condition is not None)
