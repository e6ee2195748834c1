"""Code for which the package liger-kernel has Triton kernels: RMS norms by hand, gated layers with SiLU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.modules import under_self
from kernelwright.analyzers.finders.requirements import accelerator, not_run_by_us, package, user_knows
from kernelwright.analyzers.opportunity import Condition

_CASTING = {"cast_first": "llama"}
"""liger's name for where a norm casts, by the variant of the rule rms-norm that matches; others do not tell it for sure."""


def liger(view: FunctionView) -> Iterator[Finding]:
    """An RMS norm in a class's `forward`, or `silu(gate(x)) * up(x)`; one finding a function."""
    function = view.translation.function
    if "liger" in view.source.text or function.class_node is None or function.node.name != "forward":
        return
    common = (
        package(view.installed, "liger-kernel", (0, 5)),
        accelerator(view.installed, "a GPU that Triton compiles for (there is no CPU kernel)"),
        not_run_by_us("liger-kernel 0.8.5"),
    )
    yield from _gated(view, common)
    yield from _norm(view, common)


def _norm(view: FunctionView, common: tuple[Condition, ...]) -> Iterator[Finding]:
    from kernelwright.analyzers.rules.loader import rules  # the loader reads the registry that lists this finder

    rule = next(r for r in rules() if r.name == "rms-norm")
    function = view.translation.function
    assert function.class_node is not None
    for site in view.detector.sites(rule):
        casting = _CASTING.get(site.variant.name)
        if casting is None or site.output.span is None or view.translation.origins[site.output].inlined is not None:
            continue
        offset = 1.0 if re.search(r"\b1(\.0)?\s*\+\s*self\.\w+", view.source.segment(function.node)) else 0.0
        weight = user_knows(
            "weight", "the norm has one weight, named `weight`, over the last axis: else the keys change"
        )
        yield Finding(
            site.output.span,
            function.qualified_name,
            "norm",
            f"{function.class_node.name} is an RMS norm by hand: LigerRMSNorm is one kernel (on a GPU)",
            check="none",
            conditions=(*common, weight),
            snippet=_NORM.format(offset=offset, casting=casting),
        )
        return


_NORM = """
from liger_kernel.transformers import LigerRMSNorm

# in_place=True, the default, overwrites gradients that others may still read
self.norm = LigerRMSNorm(hidden_size, eps=eps, offset={offset}, casting_mode="{casting}", in_place=False)
"""


def _gated(view: FunctionView, common: tuple[Condition, ...]) -> Iterator[Finding]:
    function = view.translation.function
    for node in ast.walk(function.node):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for activated, up in ((node.left, node.right), (node.right, node.left)):
            gate = activated.args[0] if isinstance(activated, ast.Call) and len(activated.args) == 1 else None
            if not isinstance(activated, ast.Call) or not isinstance(gate, ast.Call) or not isinstance(up, ast.Call):
                continue
            silu = view.scope.qualified(activated.func) == "torch.nn.functional.silu"
            layers = under_self(gate.func), under_self(up.func)
            same = [ast.dump(a) for a in gate.args] == [ast.dump(a) for a in up.args]
            if not silu or None in layers or layers[0] == layers[1] or len(up.args) != 1 or not same:
                continue
            yield Finding(
                view.source.span(node),
                function.qualified_name,
                "gated",
                "silu(gate) * up keeps both factors for backward: liger's kernel recomputes (on a GPU)",
                check="none",
                conditions=common,
                snippet=_GATED.format(gate=ast.unparse(gate), up=ast.unparse(up)),
            )
            return


_GATED = """
from liger_kernel.transformers.functional import liger_swiglu

hidden = liger_swiglu({gate}, {up})
"""
