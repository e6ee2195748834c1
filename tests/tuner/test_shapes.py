"""What is known of a program before it runs: shapes, promoted element types, decided branches, small versions of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies

from kernelwright.analyzers.architecture import parse_program
from kernelwright.tuner.layouts import row_major, view_strides
from kernelwright.tuner.miniature import miniature
from kernelwright.tuner.shapes import infer, input_types
from kernelwright.tuner.values import ShapeError, TensorType, broadcast, promote

DTYPES = ("bool", "uint8", "int64", "int32", "float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), ())])
def test_promotion_is_torchs(a: str, b: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    left, right = torch.ones(shapes[0], dtype=getattr(torch, a)), torch.ones(shapes[1], dtype=getattr(torch, b))
    wanted = str(torch.result_type(left, right)).removeprefix("torch.")
    assert promote((TensorType(shapes[0], a), TensorType(shapes[1], b))) == wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [True, 2, 0.5])
def test_promotion_with_numbers_is_torchs(dtype: str, number: float) -> None:
    wanted = str(torch.result_type(torch.ones(2, dtype=getattr(torch, dtype)), number)).removeprefix("torch.")
    assert promote((TensorType((2,), dtype), number)) == wanted


extents = strategies.lists(strategies.sampled_from([1, 2, 3]), max_size=4).map(tuple)


@given(extents, extents)
@settings(max_examples=200, deadline=None)
def test_broadcasting_is_torchs(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        wanted = tuple(torch.broadcast_shapes(a, b))
    except RuntimeError:
        with pytest.raises(ShapeError):
            broadcast(a, b)
    else:
        assert broadcast(a, b) == wanted


@given(
    strategies.permutations([0, 1, 2, 3]),
    strategies.sampled_from([(2, 3, 4, 5), (6, 20), (2, 60), (2, 3, 20), (120,), (2, 12, 5)]),
)
@settings(max_examples=200, deadline=None)
def test_a_reshape_is_a_view_exactly_where_torch_makes_one(order: list[int], new: tuple[int, ...]) -> None:
    tensor = torch.empty(2, 3, 4, 5).permute(order)
    found = view_strides(tuple(tensor.shape), tensor.stride(), new)
    try:
        wanted = tensor.view(new).stride()
    except RuntimeError:
        assert found is None
    else:
        assert found == wanted
    assert row_major(new) == torch.empty(new).stride()


def test_shapes_that_do_not_fit_name_the_operation() -> None:
    program = parse_program(
        "program p {\ninput %x: float32[3, 4]\ninput %y: float32[3, 5]\n%z = matmul(%x, %y)\nreturn %z\n}"
    )
    with pytest.raises(ShapeError, match="matmul"):
        infer(program, input_types(program))


def test_sizes_are_computed_and_branches_on_them_decided() -> None:
    program = parse_program("""
        program p {
          input %x: float32[8, 12]
          %n = size(%x, dim=-1)
          %four = constant(value=4)
          %heads = floordiv(%n, %four)
          %three = constant(value=3)
          %fits = equal(%heads, %three)
          %minus = constant(value=-1)
          %a = reshape(%x, %minus, %heads, %four)
          %b = opaque(%x, reason="never taken")
          %y = choose(%fits, %a, %b)
          return %y
        }""")
    values = infer(program, input_types(program))
    assert values[id(program.outputs[0])] == TensorType((8, 3, 4), "float32")


def test_a_miniature_keeps_what_constants_say_of_an_extent(workloads: Any) -> None:
    """64 stays: 8.0 is its root; 512 becomes small, and the same everywhere."""
    small = miniature(workloads.attention())
    shapes = {str(n.attribute("name")): n.attribute("shape") for n in small.before.inputs}
    length = shapes["q"][2]  # type: ignore[index]
    assert length < 32
    assert shapes["q"] == shapes["k"] == shapes["v"] == (4, 12, length, 64)
    assert shapes["mask"] == (4, 1, 1, length)
    assert [n.attribute("shape") for n in small.after.inputs] == list(shapes.values())


def test_a_miniature_keeps_different_extents_different_and_shapes_that_must_fit(workloads: Any) -> None:
    small = miniature(workloads.rms_norm())
    (batch, sequence, width), (weight,) = (n.attribute("shape") for n in small.before.inputs)  # type: ignore[misc]
    assert batch == 4
    assert sequence != width == weight
    before = "%h = constant(value=12)\n%m = constant(value=-1)\n%y = reshape(%x, %m, %h)\nreturn %y"
    program = parse_program(f"program p {{\ninput %x: float32[96, 50]\n{before}\n}}")
    from kernelwright.analyzers.workload import Workload

    kept = miniature(Workload("none", program, program, (), (), ()))
    shape = kept.before.inputs[0].attribute("shape")
    assert isinstance(shape, tuple)
    assert shape[0] * shape[1] % 12 == 0  # type: ignore[operator]
