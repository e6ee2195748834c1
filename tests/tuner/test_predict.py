"""The roofline estimate and the evidence script: on a made-up machine by hand, and as a script that really runs."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelwright.analyzers.architecture import parse_program
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.costs import launches
from kernelwright.tuner.devices import Device, assumed
from kernelwright.tuner.evidence_script import script
from kernelwright.tuner.predict import SPREAD, bandwidth, predict
from kernelwright.tuner.probe import probe

MACHINE = Device(
    name="made up", fingerprint="f", torch_version="2.13.0", cores=2, threads=2, isa=(), peak_gflops=300.0,
    bandwidth_gbs=10.0, bandwidth_by_size=((1 << 16, 50.0), (1 << 24, 30.0), (1 << 26, 10.0)), transcendental_gops=5.0,
    dispatch_us=2.0, probed=True,
)  # fmt: skip


def test_launches_of_attention_by_hand(workloads: Any) -> None:
    scores = 4 * 12 * 512 * 512
    tensor, mask = 4 * 12 * 512 * 64 * 4, 4 * 512 * 4
    made = launches(workloads.attention().before)
    assert [x.operation for x in made] == ["matmul", "div", "add", "softmax", "matmul"]
    assert made[0].flops == 2 * scores * 64
    assert [x.bytes for x in made] == [
        2 * tensor + scores * 4, 2 * scores * 4, 2 * scores * 4 + mask, 2 * scores * 4, 2 * tensor + scores * 4,
    ]  # fmt: skip
    (fused,) = launches(workloads.attention().after)
    assert fused.flops == 4 * scores * 64
    assert fused.bytes == 4 * tensor


def test_views_cost_nothing_and_copies_do() -> None:
    def operations(body: str) -> list[str]:
        program = parse_program(f"program p {{\ninput %x: float32[4, 512, 768]\n{body}\nreturn %y\n}}")
        return [launch.operation for launch in launches(program)]

    sizes = "%a = constant(value=4)\n%b = constant(value=512)\n%c = constant(value=12)\n%d = constant(value=64)\n"
    split = sizes + "%h = reshape(%x, %a, %b, %c, %d)\n%t = permute(%h, dims=(0, 2, 1, 3))\n"
    assert operations(split + "%y = transpose(%t, a=-1, b=-2)") == []
    assert (
        operations(
            split + "%u = permute(%t, dims=(0, 2, 1, 3))\n%e = constant(value=768)\n%y = reshape(%u, %a, %b, %e)"
        )
        == []
    )
    assert operations(split + "%e = constant(value=-1)\n%y = reshape(%t, %e)") == ["reshape"]
    assert operations(split + "%y = contiguous(%t)") == ["contiguous"]
    # torch.matmul joins the batch axes of a permuted operand by a copy
    assert operations(split + "%k = transpose(%t, a=-1, b=-2)\n%y = matmul(%t, %k)") == ["copy", "copy", "matmul"]


def test_bandwidth_is_interpolated_between_the_measured_sizes() -> None:
    assert bandwidth(100, MACHINE) == 50.0
    assert bandwidth(1 << 30, MACHINE) == 10.0
    assert bandwidth(1 << 25, MACHINE) == pytest.approx((30.0 * 10.0) ** 0.5)


def test_gains_are_predicted_in_the_right_order(workloads: Any) -> None:
    gains = {
        name: predict(workload, MACHINE)
        for name, workload in {
            "gelu": workloads.gelu_tanh(), "silu": workloads.silu(), "rms": workloads.rms_norm(),
            "sdpa": workloads.attention(),
        }.items()
    }  # fmt: skip
    for name in ("gelu", "silu", "sdpa"):
        assert gains[name].worth_showing, name
        assert gains[name].basis == "predicted"
    # F.rms_norm makes the same launches on a CPU: no gain may be promised
    assert not gains["rms"].worth_showing
    value = gains["gelu"].value
    assert value is not None
    assert gains["gelu"].low == pytest.approx(value / SPREAD)
    assert gains["gelu"].high == pytest.approx(value * SPREAD)


def test_the_interval_is_wider_in_training_and_without_a_probe(workloads: Any) -> None:
    def width(gain: Any) -> float:
        return float(gain.high / gain.low)

    plain = width(predict(workloads.silu(), MACHINE))
    assert width(predict(workloads.silu().with_mode("training"), MACHINE)) > plain
    assert width(predict(workloads.silu(), assumed())) > plain


def test_small_tensors_are_bound_by_the_dispatch(workloads: Any) -> None:
    slow = dataclasses.replace(MACHINE, dispatch_us=1000.0)
    value = predict(workloads.gelu_tanh("2, 2"), slow).value
    assert value == pytest.approx(8.0, rel=0.01)  # eight launches against one


def test_dropout_or_another_value_width_takes_the_kernels_slow_way(workloads: Any) -> None:
    after = workloads.attention().after
    dropped = parse_program(_replaced(after, "0.0)", "0.1)"))
    assert len(launches(after)) == 1
    assert len(launches(dropped)) > 5


def test_what_has_no_known_cost_has_no_number(workloads: Any) -> None:
    opaque = parse_program('program p {\ninput %x: float32[4]\n%y = opaque(%x, reason="a loop")\nreturn %y\n}')
    fine = parse_program("program p {\ninput %x: float32[4]\n%y = silu(%x)\nreturn %y\n}")
    gain = predict(Workload("none", opaque, fine, (), (), ()), MACHINE)
    assert gain.value is None
    assert "opaque" in (gain.reason or "")


def test_a_probe_gives_figures_of_this_machine() -> None:
    device = probe()
    assert device.probed
    assert device.peak_gflops > 1
    assert device.dispatch_us > 0
    assert [size for size, _ in device.bandwidth_by_size] == sorted(size for size, _ in device.bandwidth_by_size)
    assert device.bandwidth_gbs == device.bandwidth_by_size[-1][1]
    assert device.fingerprint == assumed(device.torch_version).fingerprint


@pytest.mark.parametrize("mode", ["eval", "training", "autocast"])
def test_the_evidence_script_runs_alone(workloads: Any, tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "evidence.py"
    path.write_text(script(workloads.gelu_tanh("8, 256", mode=mode)), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-I", str(path)], capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr
    difference = re.search(r"largest difference: (\S+)", run.stdout)
    gain = re.search(r"gain: ([\d.]+) \(([\d.]+) to ([\d.]+)\)", run.stdout)
    control = re.search(r"control, before against before: ([\d.]+)", run.stdout)
    assert difference is not None
    assert gain is not None
    assert control is not None
    assert float(difference.group(1)) < 1e-5
    assert float(gain.group(2)) <= float(gain.group(1)) <= float(gain.group(3))
    assert "Warning" not in run.stderr


def test_the_evidence_script_reads_like_a_persons(workloads: Any) -> None:
    text = script(workloads.attention())
    assert "return torch.softmax(q @ k.transpose(-1, -2) / 8.0 + mask, dim=-1) @ v" in text
    assert "return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)" in text
    assert "kernelwright" not in text.lower().replace("kernelwright's evidence", "")
    assert "Shapes: batch = 4 (default); sequence = 512 (default)." in script(workloads.gelu_tanh())


def test_no_script_for_what_cannot_run_alone() -> None:
    opaque = parse_program('program p {\ninput %x: float32[4]\n%y = opaque(%x, reason="a loop")\nreturn %y\n}')
    with pytest.raises(ValueError, match="opaque"):
        script(Workload("none", opaque, opaque, (), (), ()))


def _replaced(program: Any, old: str, new: str) -> str:
    from kernelwright.analyzers.architecture import print_program

    text = print_program(program)
    assert old in text
    return text.replace(old, new)
