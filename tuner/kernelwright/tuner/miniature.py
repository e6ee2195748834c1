"""A workload with smaller shapes that means the same: what verification runs, to take a second. No torch here."""

from __future__ import annotations

import dataclasses
import math

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.rewriting import rebuilt, with_attribute
from kernelwright.tuner.shapes import infer, input_types
from kernelwright.tuner.values import ShapeError

LARGE = 32
"""Extents above this are made smaller."""

_SMALL = (24, 20, 28, 18, 30, 22, 26, 32, 17, 19, 21, 23, 25, 27, 29, 31)


def miniature(workload: Workload) -> Workload:
    """`workload` with large extents made small; equal extents stay equal, different ones different.

    An extent stays as it is where a constant of the programs follows from it (a size, `1 / sqrt(64)`), where shapes
    would no longer fit, or where a branch would go another way: a smaller program that means something else proves
    nothing.
    """
    constants = _numbers(workload.before) | _numbers(workload.after)
    taken = {extent for node in workload.before.inputs for extent in _shape(node)}
    free = [size for size in _SMALL if size not in taken]
    result = workload
    for extent in sorted((e for e in taken if e > LARGE), reverse=True):
        if not free:
            break
        if _derived(extent) & constants:
            continue
        candidate = _with_extent(result, extent, free[0])
        if _same_way(workload, candidate):
            result = candidate
            free.pop(0)
    return result


def _with_extent(workload: Workload, old: int, new: int) -> Workload:
    def change(node: Node) -> Node:
        shape = _shape(node)
        if old not in shape:
            return node
        return with_attribute(node, "shape", tuple(new if extent == old else extent for extent in shape))

    return dataclasses.replace(workload, before=rebuilt(workload.before, change), after=rebuilt(workload.after, change))


def _shape(node: Node) -> tuple[int, ...]:
    shape = node.attribute("shape") if node.operation == "input" else None
    return tuple(e for e in shape if isinstance(e, int)) if isinstance(shape, tuple) else ()


def _same_way(workload: Workload, smaller: Workload) -> bool:
    """Whether both programs of `smaller` fit and compute the same operations as those of `workload`."""
    try:
        for old, new in ((workload.before, smaller.before), (workload.after, smaller.after)):
            if _computed(old) != _computed(new):
                return False
    except ShapeError:
        return False
    return True


def _computed(program: Program) -> list[str]:
    values = infer(program, input_types(program))
    return [node.operation for node in program.nodes() if id(node) in values]


def _numbers(program: Program) -> set[float]:
    found: set[float] = set()
    for node in program.nodes():
        if node.operation == "input":
            value = node.attribute("value")
            stack = [value]
        else:
            stack = [value for _, value in node.attributes]
        while stack:
            value = stack.pop()
            if isinstance(value, tuple):
                stack.extend(value)
            elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                found.add(_rounded(abs(value)))
    return found


def _derived(extent: int) -> set[float]:
    """Numbers that code writes down for an extent: itself, its half, double and fourfold, roots and reciprocals."""
    powers = {_rounded(float(extent) ** power) for power in (1.0, -1.0, 0.5, -0.5, 0.25, -0.25)}
    return powers | {_rounded(n) for n in (extent / 2, extent * 2, extent * 4, extent - 1, extent + 1)}


def _rounded(number: float) -> float:
    return float(f"{number:.5g}")
