"""Finders for kernels written out in a way that no edit of one function can replace: told in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.syntax import calls_in
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.normalise import instantiate
from kernelwright.analyzers.opportunity import Condition
from kernelwright.analyzers.source import Function, SourceFile

if TYPE_CHECKING:
    from kernelwright.analyzers.detect import Detector
    from kernelwright.analyzers.rules.loader import Variant

_CHANNELS_FIRST = '''"""A layer norm over axis 1."""
import torch
name = "layer-norm"
kernel = "torch.nn.functional.layer_norm"
tier = "exact"
numerics = "E"
min_torch = "1.8"
message = ""
def definition_unknown(x, eps: Number):
    c = x - x.mean(1, keepdim=True)
    return c * torch.rsqrt(c.pow(2).mean(1, keepdim=True) + eps)
def kernel_unknown(x, eps):
    return x * eps
def definition_four(x, eps: Number):
    c = x - x.mean(-3, keepdim=True)
    return c * torch.rsqrt(c.pow(2).mean(-3, keepdim=True) + eps)
def kernel_four(x, eps):
    return x * eps
'''


@lru_cache(maxsize=1)
def _channels_first() -> tuple[Variant, ...]:
    from kernelwright.analyzers.rules.loader import load_rule  # which reads the list of finders itself

    return load_rule(_CHANNELS_FIRST, "channels_first.py").variants


def layer_norm_over_channels(view: FunctionView) -> Iterator[Finding]:
    """`(x - x.mean(1)) / sqrt(var + eps)`: a layer norm over the channels of a picture."""
    detector, source = view.detector, view.source
    if ".mean(1" not in source.text and "dim=1" not in source.text and "dim = 1" not in source.text:
        return
    for variant in _channels_first():
        if not variant.required <= detector.operations:
            continue
        for node, normal in detector.normal.items():
            origin = view.translation.origins.get(node)
            expression = view.translation.expressions.get(node)
            if normal.operation != "mul" or origin is None or origin.inlined is not None or expression is None:
                continue
            if node.span != source.span(expression) or not _matches(detector, variant, normal):
                continue
            yield Finding(
                source.span(expression),
                view.translation.function.qualified_name,
                "channels first",
                message="a layer norm over axis 1 by hand: F.layer_norm of the channels-last permutation computes the same",
                title="Use F.layer_norm over the last axis",
                conditions=(
                    Condition("four_axes", "assumed", "x is a batch of pictures (N, C, H, W): permute to (N, H, W, C) and back"),
                    Condition("strides", "assumed", "nothing views the result by its old strides: after permuting back it is "
                              "channels-last in memory"),
                ),
            )  # fmt: skip
            return


def _matches(detector: Detector, variant: Variant, normal: Node) -> bool:
    from kernelwright.analyzers.match import Matcher

    arguments = {
        p.name: detector.form.interned("input", (), (("name", p.name), ("variable", True))) for p in variant.parameters
    }
    pattern = instantiate(detector.form, variant.definition, arguments)
    return any(not match.assumptions for match in Matcher(detector.form, variant.parameters).matches(pattern, normal))


def gelu_in_an_autograd_function(view: FunctionView) -> Iterator[Finding]:
    """`Gelu.apply(x)`, where the forward of that autograd function is a GELU."""
    source = view.source
    if ".apply(" not in source.text or "Function" not in source.text or not view.rule.variants:
        return
    for call in calls_in(view.translation.function.node):
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and len(call.args) == 1):
            continue
        name = view.scope.qualified(call.func.value) or ""
        forward = _forward_of(view.scope, source, name)
        if forward is None:
            continue
        flavour = _flavour(view, forward)
        if flavour is not None:
            text = {"tanh": 'F.gelu(x, approximate="tanh")', "erf": "F.gelu(x)"}[flavour]
            yield Finding(
                source.span(call),
                view.translation.function.qualified_name,
                "autograd function",
                message=f"an autograd function whose forward is GELU ({flavour}): {text} has it, and a backward in one pass",
                title=f"Use {text}",
                conditions=(
                    Condition("same_constants", "proven", "the forward is that of the kernel to seven digits"),
                    Condition("own_backward", "assumed", f"the backward of {name} is GELU's derivative up to rounding"),
                ),
            )


def _forward_of(scope: Scope, source: SourceFile, name: str) -> Function | None:
    node = source.classes.get(name)
    if node is None or not any((scope.qualified(base) or "").endswith("autograd.Function") for base in node.bases):
        return None
    return next((f for f in source.functions if f.qualified_name == f"{name}.forward"), None)


def _flavour(view: FunctionView, forward: Function) -> str | None:
    """The variant of the rule that the function returns, of its argument after `ctx`."""
    from kernelwright.analyzers.detect import Detector

    translation = translate(view.scope, forward)
    if len(translation.program.inputs) < 2:
        return None
    detector = Detector(translation)
    result = detector.normal[translation.program.outputs[0]]
    argument = detector.normal[translation.program.inputs[-1]]
    for variant in view.rule.variants:
        arguments = {p.name: argument for p in variant.parameters}
        if instantiate(detector.form, variant.definition, arguments) is result:
            return variant.name
    return None
