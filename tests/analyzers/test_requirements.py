"""Conditions of advice on packages and devices: their states and words."""

from __future__ import annotations

import pytest

from kernelwright.analyzers.finders.finding import Installed
from kernelwright.analyzers.finders.requirements import accelerator, package


@pytest.mark.parametrize(
    ("packages", "minimum", "state", "words"),
    [
        ({"flash_attn": (2, 8, 3)}, (2, 7), "proven", "flash-attn >= 2.7 (installed: 2.8.3)"),
        ({"flash_attn": (2, 7, 0)}, (2, 7), "proven", "installed: 2.7.0"),
        ({"flash_attn": (2, 8, 3)}, (), "proven", "flash-attn (installed: 2.8.3)"),
        ({"flash_attn": (1, 0, 9)}, (2, 7), "violated", "flash-attn >= 2.7 is needed, 1.0.9 is installed"),
        ({"torch": (2, 13, 0)}, (2, 7), "assumed", "none is in the chosen interpreter"),
        ({}, (2, 7), "assumed", "no interpreter to look in"),
    ],
)
def test_a_package_is_looked_up(
    packages: dict[str, tuple[int, ...]], minimum: tuple[int, ...], state: str, words: str
) -> None:
    condition = package(Installed((2, 13), packages), "flash-attn", minimum)
    assert condition.state == state and words in condition.text


def test_a_cpu_build_is_told() -> None:
    assert "CPU build" in accelerator(Installed(torch_build="cpu"), "a CUDA GPU").text
    assert "CPU build" not in accelerator(Installed(torch_build="cu130"), "a CUDA GPU").text
