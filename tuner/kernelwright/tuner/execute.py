"""A program of the architecture language as a torch callable. Needs torch; runs in the worker and in tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from kernelwright.analyzers.architecture import Program
from kernelwright.tuner.shapes import infer
from kernelwright.tuner.torch_code import function_code
from kernelwright.tuner.torch_spelling import NoSpelling
from kernelwright.tuner.values import DType, ShapeError, TensorType, Value

Argument = torch.Tensor | torch.dtype | bool | int | float | str | tuple[object, ...] | None
"""What a program's input may be bound to."""


class NotExecutable(Exception):
    """A program that cannot be run; the message names the operation and why."""


@dataclass(frozen=True, slots=True)
class Executable:
    """A program as a Python function of its inputs, in order, for arguments of the kinds it was compiled with.

    Numbers among the arguments (scalars, absent inputs) are compiled in: call it with the same ones.
    """

    function: Callable[..., object]
    source: str

    def __call__(self, *arguments: Argument) -> object:
        return self.function(*arguments)


def compile_program(
    program: Program, arguments: Sequence[Argument], *, oracle: bool = False, autocast: bool = False
) -> Executable:
    """`program` as a function for `arguments` (one per input, in order): plain torch code, no interpreter in between.

    `oracle`: every cast to a floating-point type and every created tensor is float64; give float64 tensors and run it
    under `torch.set_default_dtype(torch.float64)`. `autocast`: element types are taken as unknown until run.

    Raises:
        NotExecutable: an operation that is not understood or cannot be run alone, or shapes that do not fit.
    """
    if len(arguments) != len(program.inputs):
        raise NotExecutable(f"{program.name} takes {len(program.inputs)} inputs, {len(arguments)} given")
    types = {
        str(node.attribute("name")): describe(argument)
        for node, argument in zip(program.inputs, arguments, strict=True)
    }
    try:
        values = infer(program, types, dtypes_known=not autocast)
        source = function_code(program, values, "program", oracle=oracle)
    except (ShapeError, NoSpelling) as error:
        raise NotExecutable(f"{program.name}: {error}") from error
    # The text is made from closed lists of names and repr() of constants: nothing of the user's file is executed.
    names: dict[str, object] = {"torch": torch, "F": F, "math": math}
    exec(compile(source, f"<{program.name}>", "exec"), names)
    function = names["program"]
    assert callable(function)
    return Executable(function, source)


def run(program: Program, arguments: Sequence[Argument]) -> object:
    """The outputs of `program` (one value, or a tuple of them) on `arguments`."""
    return compile_program(program, arguments)(*arguments)


def describe(argument: Argument) -> Value:
    """What `shapes` knows of an argument."""
    if isinstance(argument, torch.Tensor):
        return TensorType(tuple(argument.shape), str(argument.dtype).removeprefix("torch."))
    if isinstance(argument, torch.dtype):
        return DType(str(argument).removeprefix("torch."))
    if isinstance(argument, tuple):
        return tuple(describe(part) for part in argument)  # type: ignore[arg-type]
    return argument
