"""The evidence of a number: a short script with before, after, inputs, control and timing. It needs torch; this not.

The two functions are printed by the same code that the worker runs, so what a reader sees is what was measured.
"""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.shapes import infer, input_types
from kernelwright.tuner.torch_code import function_code, input_names
from kernelwright.tuner.torch_spelling import NoSpelling, literal
from kernelwright.tuner.values import ShapeError, TensorType, Value, is_float

ROUNDS = 15


def script(workload: Workload) -> str:
    """Python source for `workload` in its mode; run it with any Python that has torch.

    It prints the largest difference of the outputs and, over paired rounds, the gain with its range and the control.

    Raises:
        ValueError: the programs cannot be run alone; the message says why.
    """
    try:
        before = _function(workload.before, "before", autocast=workload.mode == "autocast")
        after = _function(workload.after, "after", autocast=workload.mode == "autocast")
        inputs = _inputs(workload)
    except (ShapeError, NoSpelling) as error:
        raise ValueError(f"no script: {error}") from error
    names = ", ".join(input_names(workload.before))
    declared = [str(node.attribute("name")) for node in workload.before.inputs]
    given = zip(declared, input_names(workload.before), strict=True)
    needs = [name for written, name in given if written in workload.needs_gradient]
    return _TEMPLATE.format(
        rule=workload.rule,
        mode=workload.mode,
        dimensions=_dimensions(workload),
        math="import math\n" if "math." in before + after else "",
        before=before,
        after=after,
        inputs=inputs,
        names=names + ("," if len(workload.before.inputs) == 1 else ""),
        gradients=", ".join(needs) + ("," if len(needs) == 1 else ""),
        run=_RUN[workload.mode],
        rounds=ROUNDS,
    )


def _function(program: Program, name: str, *, autocast: bool) -> str:
    values = infer(program, input_types(program), dtypes_known=not autocast)
    return function_code(program, values, name)


def _dimensions(workload: Workload) -> str:
    lines = [f"{d.name} = {d.extent} ({d.source})" for d in workload.dimensions]
    # the text goes into a docstring: nothing of it may end that
    text = "; ".join(lines).replace("\\", "/").replace('"', "'").replace("\n", " ")
    return f"Shapes: {text}.\n" if text else ""


def _inputs(workload: Workload) -> str:
    types = input_types(workload.before)
    roles = dict(workload.roles)
    lines = []
    for node, name in zip(workload.before.inputs, input_names(workload.before), strict=True):
        declared = str(node.attribute("name"))
        lines.append(f"{name} = {_filled(node, types[declared], roles.get(declared, 'normal'), workload)}")
    return "\n".join(lines)


def _filled(node: Node, type_: Value, role: str, workload: Workload) -> str:
    if isinstance(type_, bool) and _tells_training(node):
        return str(workload.mode == "training")
    if isinstance(type_, bool | int | float | str | None):
        return literal(type_)
    if not isinstance(type_, TensorType):
        raise ShapeError(f"input {node.attribute('name')} is a number without a value")
    shape = literal(tuple(extent or 1 for extent in type_.shape))
    dtype = f"torch.{type_.dtype}"
    cast = "" if type_.dtype == "float32" else f".to({dtype})"
    if role == "additive_mask":
        return f"torch.where(torch.rand({shape}) < 0.25, torch.finfo({dtype}).min, 0.0){cast}"
    if role in ("keep_mask", "drop_mask"):
        return f"torch.rand({shape}) {'>=' if role == 'keep_mask' else '<'} 0.25"
    if role == "causal_mask":
        return f"torch.ones({shape}).tril(){cast}"
    if role == "index" or not is_float(type_.dtype):
        return f"torch.randint(0, 2, {shape}).to({dtype})"
    return f"torch.rand({shape}).add(0.1){cast}" if role == "positive" else f"torch.randn({shape}){cast}"


def _tells_training(node: Node) -> bool:
    name = str(node.attribute("name"))
    return name == "training" or name.endswith("_training")


_RUN = {
    "eval": """\
    with torch.no_grad():
        return function(*inputs)""",
    "training": """\
    output = function(*inputs)
    first = output[0] if isinstance(output, tuple) else output
    torch.autograd.grad(first, gradients, upstream(first), allow_unused=True)
    return output""",
    "autocast": """\
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        return function(*inputs)""",
}

_TEMPLATE = '''\
"""Kernelwright's evidence for {rule}, mode {mode}: before against after, with a control. Needs torch only.
{dimensions}"""

{math}import statistics
import time

import torch
import torch.nn.functional as F


{before}

{after}

torch.manual_seed(0)
{inputs}
inputs = ({names})
gradients = ({gradients})


def upstream(output):
    """A gradient that differs from element to element."""
    return torch.sin(0.7 * torch.arange(output.numel())).add(0.3).reshape(output.shape).to(output.dtype)


def run(function):
{run}


def seconds(function, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        run(function)
    return (time.perf_counter() - start) / repeats


def main():
    for tensor in gradients:
        tensor.requires_grad_(MODE == "training")
    old, new = run(before), run(after)
    old, new = (old[0], new[0]) if isinstance(old, tuple) else (old, new)
    print("largest difference:", float((old.detach().double() - new.detach().double()).abs().max()))
    for function in (before, after):  # warm up
        seconds(function, 5)
    repeats = [max(1, round(0.002 / seconds(function, 1))) for function in (before, after)]
    gains, controls = [], []
    for _ in range({rounds}):
        first, second, again = seconds(before, repeats[0]), seconds(after, repeats[1]), seconds(before, repeats[0])
        gains.append((first + again) / 2 / second)
        controls.append(first / again)
    print(f"gain: {{statistics.median(gains):.2f}} ({{min(gains):.2f}} to {{max(gains):.2f}})")
    print(f"control, before against before: {{statistics.median(controls):.2f}} (should be 1)")


MODE = "{mode}"

if __name__ == "__main__":
    main()
'''
