"""Tensors for the inputs of a workload, filled by their roles and seeded. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.execute import Argument
from kernelwright.tuner.shapes import infer, input_types
from kernelwright.tuner.values import ShapeError, TensorType, Value, is_float

_MASKS = ("additive_mask", "keep_mask", "drop_mask")


@dataclass(frozen=True, slots=True)
class InputCase:
    """How the inputs are filled: the magnitude of the numbers, whether a mask hides a whole row, the strides."""

    name: str
    magnitude: float = 1.0
    masked_row: bool = False
    transposed: bool = False


def cases(workload: Workload) -> tuple[InputCase, ...]:
    """The input cases that make a difference for `workload`."""
    listed = [InputCase("normal"), InputCase("small", 1e-3), InputCase("large", 6.0)]
    if any(role in _MASKS for _, role in workload.roles):
        listed.append(InputCase("fully masked row", masked_row=True))
    if any(len(_shape(node)) >= 2 for node in workload.before.inputs):
        listed.append(InputCase("transposed strides", transposed=True))
    return tuple(listed)


def build(
    workload: Workload,
    case: InputCase,
    *,
    dtype: torch.dtype | None = None,
    training: bool | None = None,
    seed: int = 0,
) -> list[Argument]:
    """The arguments of both programs, in order.

    `dtype`: every floating-point input is of it (None: as declared). `training`: the value of the inputs that tell
    whether the module trains (None: as declared).

    Raises:
        ShapeError: an input without shape and value, or programs whose shapes do not fit.
    """
    types = input_types(workload.before)
    roles = dict(workload.roles)
    generator = torch.Generator().manual_seed(seed)
    bounds = _index_bounds(workload.before, types)
    flags = training_inputs(workload.before)
    arguments: list[Argument] = []
    for node in workload.before.inputs:
        name = str(node.attribute("name"))
        declared = types[name]
        if not isinstance(declared, TensorType):
            if training is not None and name in flags:
                declared = training
            if isinstance(declared, bool | int | float | str | None):
                arguments.append(declared)
                continue
            raise ShapeError(f"input {name} is a number without a value")
        shape = tuple(extent or 1 for extent in declared.shape)
        wanted = torch_dtype(declared.dtype)
        if dtype is not None and is_float(declared.dtype):
            wanted = dtype
        role = roles.get(name, "normal")
        tensor = _filled(role, shape, wanted, case, generator, bounds.get(name, 2))
        if case.transposed and role == "normal" and tensor.dim() >= 2:
            tensor = tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
        arguments.append(tensor)
    return arguments


def torch_dtype(name: str) -> torch.dtype:
    """The torch element type of that name.

    Raises:
        ShapeError: there is none.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ShapeError(f"no element type {name!r}")
    return found


def training_inputs(program: Program) -> frozenset[str]:
    """The inputs that say whether the module trains: named so, or used as such by dropout or batch normalisation."""
    found = set[str]()
    for node in program.nodes():
        name = str(node.attribute("name"))
        if node.operation == "input" and (name == "training" or name.endswith("_training")):
            found.add(name)
        flag = {"dropout": 2, "batch_norm": 5}.get(node.operation)
        if flag is not None and len(node.inputs) > flag and node.inputs[flag].operation == "input":
            found.add(str(node.inputs[flag].attribute("name")))
    return frozenset(found)


def _filled(
    role: str, shape: tuple[int, ...], dtype: torch.dtype, case: InputCase, generator: torch.Generator, bound: int
) -> torch.Tensor:
    if role in _MASKS:
        dropped = torch.rand(shape, generator=generator) < 0.25
        if shape:
            dropped[..., 0] = False  # no row is hidden by chance
            if case.masked_row:
                dropped[(0,) * (len(shape) - 1)] = True
        if role == "additive_mask":
            return torch.zeros(shape, dtype=dtype).masked_fill(dropped, torch.finfo(dtype).min)
        return dropped if role == "drop_mask" else ~dropped
    if role == "causal_mask":
        return torch.ones(shape).tril().to(dtype)
    if role == "index":
        return torch.randint(0, max(bound, 1), shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, 8, shape, generator=generator).to(dtype)
    if role == "positive":
        return ((torch.rand(shape, generator=generator) + 0.1) * case.magnitude).to(dtype)
    return (torch.randn(shape, generator=generator) * case.magnitude).to(dtype)


def _index_bounds(program: Program, types: Mapping[str, Value]) -> dict[str, int]:
    """How far each index input may point: the extent that it indexes, wherever it is used."""
    values = infer(program, types)
    bounds: dict[str, int] = {}

    def bound(index: Node, indexed: Node, axis: int) -> None:
        type_ = values.get(id(indexed))
        if index.operation == "input" and isinstance(type_, TensorType):
            extent = type_.shape[axis] or 1
            name = str(index.attribute("name"))
            bounds[name] = min(extent, bounds.get(name, extent))

    for node in program.nodes():
        if node.operation == "embedding":
            bound(node.inputs[0], node.inputs[1], 0)
        elif node.operation in ("gather", "pick") and isinstance(axis := node.attribute("dim"), int):
            bound(node.inputs[1], node.inputs[0], axis)
        elif node.operation in ("cross_entropy", "nll_loss"):
            bound(node.inputs[1], node.inputs[0], 1)
        elif node.operation == "take":
            for position, index in enumerate(node.inputs[1:]):
                bound(index, node.inputs[0], position)
    return bounds


def _shape(node: Node) -> tuple[object, ...]:
    shape = node.attribute("shape")
    return shape if isinstance(shape, tuple) else ()
