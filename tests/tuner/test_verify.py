"""Right kernels verify, wrong ones do not: the verdicts that a fix hangs on."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kernelwright.analyzers.architecture import parse_program
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.evidence import Verification
from kernelwright.tuner.verify import verify


def failing(verification: Verification) -> set[str]:
    return {case.name for case in verification.cases if not case.equal}


def test_the_right_kernels_are_equal_in_every_case(workloads: Any) -> None:
    for workload in (workloads.gelu_tanh(), workloads.silu(), workloads.rms_norm(), workloads.attention()):
        verification = verify(workload)
        assert verification.equal is True, failing(verification)
        assert verification.reason is None
        modes = {case.name.split(", ")[0] for case in verification.cases}
        precisions = {case.name.split(", ")[1] for case in verification.cases}
        assert modes == {"train", "eval", "no_grad"}
        assert precisions == {"float32", "bfloat16", "autocast bfloat16"}


def test_erf_for_tanh_gelu_is_found_in_float32_and_hides_in_bfloat16(workloads: Any) -> None:
    verification = verify(workloads.gelu_tanh(after='gelu(%x, approximate="none")'))
    assert verification.equal is False
    wrong = failing(verification)
    assert "eval, float32, normal" in wrong
    assert "train, float32, normal" in wrong
    # the two differ by less than bfloat16 can hold, and at small numbers not at all: float32 has to catch it
    assert not any("bfloat16" in name for name in wrong)
    assert "eval, float32, small" not in wrong
    case = next(case for case in verification.cases if case.name == "eval, float32, normal")
    assert case.error_after > 1e-4 > 1e-6 > case.error_before
    assert "output: error" in case.detail


def test_a_wrong_scale_is_found(workloads: Any) -> None:
    assert verify(workloads.attention(after_scale="0.25")).equal is False
    assert verify(workloads.attention(after_scale="0.125")).equal is True


def test_a_dropped_mask_is_found(workloads: Any) -> None:
    verification = verify(workloads.attention(after_mask="%none"))
    assert verification.equal is False
    assert len(failing(verification)) == len(verification.cases)


def test_a_changed_output_element_type_is_found(workloads: Any) -> None:
    verification = verify(workloads.rms_norm(restore_dtype=False))
    assert verification.equal is False
    wrong = failing(verification)
    assert wrong
    assert all(", bfloat16, " in name for name in wrong)
    assert all("element type torch.float32 instead of" in c.detail for c in verification.cases if not c.equal)


def test_another_epsilon_shows_at_small_numbers_only(workloads: Any) -> None:
    wrong = failing(verify(workloads.rms_norm(eps=1e-5)))
    assert "eval, float32, small" in wrong
    assert "no_grad, bfloat16, normal" not in wrong


def test_a_wrong_gradient_behind_a_right_output_is_found() -> None:
    workload = _one_input(before="%y = mul(%x, %x)\nreturn %y", after="%d = detach(%x)\n%y = mul(%d, %x)\nreturn %y")
    wrong = failing(verify(workload))
    assert "train, float32, normal" in wrong
    assert "eval, float32, normal" not in wrong


def test_a_uniform_upstream_gradient_would_hide_this() -> None:
    """softmax's backward is zero under a uniform gradient, so detaching it would pass unseen."""
    workload = _one_input(
        before="%y = softmax(%x, dim=-1)\nreturn %y", after="%s = softmax(%x, dim=-1)\n%d = detach(%s)\n"
        "%z = sub(%x, %x)\n%y = add(%d, %z)\nreturn %y",
    )  # fmt: skip
    assert "train, float32, normal" in failing(verify(workload))


def test_another_shape_or_number_of_outputs_is_found() -> None:
    shape = verify(_one_input("%y = abs(%x)\nreturn %y", "%a = abs(%x)\n%y = transpose(%a, a=0, b=1)\nreturn %y"))
    assert shape.equal is False
    assert "shape" in shape.cases[0].detail
    arity = verify(_one_input("%y = abs(%x)\nreturn %y", "%y = abs(%x)\nreturn %y, %x"))
    assert arity.equal is False
    assert arity.cases[0].detail == "2 outputs instead of 1"


def test_a_fully_masked_row_filled_with_infinity_was_nan_and_is_told(workloads: Any) -> None:
    verification = verify(workloads.dropped_attention("-1e999"))
    assert verification.equal is True, failing(verification)
    told = [case for case in verification.cases if "fully masked row: NaN before" in case.name]
    assert told
    assert all("old is NaN (fully masked row), new is 0" in case.detail for case in told)


def test_a_fully_masked_row_filled_with_a_finite_number_is_another_program(workloads: Any) -> None:
    """`masked_fill(-1e9)` gives the mean of the values there, the kernel's boolean mask gives 0 (trap T06)."""
    wrong = failing(verify(workloads.dropped_attention("-1e9")))
    assert "eval, float32, fully masked row" in wrong
    assert all("fully masked row" in name for name in wrong)


def test_an_additive_mask_tells_where_the_kernel_differs_in_the_masked_row(workloads: Any) -> None:
    """Forward is the mean of the values on both sides in float32; backward is not, and autocast rounds to -inf."""
    names = {case.name for case in verify(workloads.attention()).cases}
    assert "train, float32, fully masked row: other gradients" in names
    assert "eval, float32, fully masked row" in names
    assert "eval, autocast bfloat16, fully masked row: other values" in names


def test_nan_cured_without_a_mask_is_not_equal() -> None:
    workload = _one_input("%y = sqrt(%x)\nreturn %y", "%a = abs(%x)\n%y = sqrt(%a)\nreturn %y")
    verification = verify(workload)
    assert verification.equal is False
    assert any("old is NaN, new is finite" in case.detail for case in verification.cases)
    both = _one_input("%y = sqrt(%x)\nreturn %y", "%h = constant(value=0.5)\n%y = pow(%x, %h)\nreturn %y")
    assert verify(both).equal is True


def test_dropout_is_compared_with_probability_zero() -> None:
    head = "%p = constant(value=0.4)\n%t = tanh(%x)\n"
    text = "%y = dropout(%t, %p, %training)\nreturn %y"
    before, after = _program(head + text, training=True), _program(head + text, training=True)
    workload = Workload("none", before, after, (("training", "scalar"),), ("x",), ())
    workload = dataclasses.replace(workload, before=_training(before), after=_training(after))
    assert verify(workload).equal is True


def test_a_program_that_cannot_be_run_has_no_verdict() -> None:
    workload = _one_input('%y = opaque(%x, reason="a loop")\nreturn %y', "%y = abs(%x)\nreturn %y")
    verification = verify(workload)
    assert verification.equal is None
    assert "opaque" in (verification.reason or "")


def test_after_that_raises_is_not_equal() -> None:
    before = '%y = gelu(%x, approximate="none")\nreturn %y'
    after = '%y = gelu(%x, approximate="other")\nreturn %y'
    verification = verify(_one_input(before, after))
    assert verification.equal is False
    assert verification.cases[0].detail.startswith("after raises:")


def test_cancelling_stops_between_cases(workloads: Any) -> None:
    class Stop(Exception):
        pass

    seen: list[str] = []

    def check() -> None:
        if len(seen) == 2:
            raise Stop

    with pytest.raises(Stop):
        verify(workloads.silu(), progress=lambda message, fraction: seen.append(message), check=check)
    assert len(seen) == 2


def _program(body: str, *, training: bool = False) -> Any:
    flag = "input %training: bool\n" if training else ""
    return parse_program(f"program p {{\ninput %x: float32[6, 10]\n{flag}{body}\n}}")


def _training(program: Any) -> Any:
    from kernelwright.tuner.rewriting import rebuilt, with_attribute

    return rebuilt(program, lambda n: with_attribute(n, "value", True) if n.attribute("name") == "training" else n)


def _one_input(before: str, after: str) -> Workload:
    return Workload("none", _program(before), _program(after), (("x", "normal"),), ("x",), ())
