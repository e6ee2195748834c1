"""Whether background work should wait: the load by others, our own share taken out, and the battery."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kernelwright.server.load import LIMIT_VARIABLE, OwnWork, busy, damped_share, limit, on_battery


def test_our_share_is_what_an_exponentially_damped_average_would_show() -> None:
    assert damped_share([(0.0, 1e6)], 1e6) == pytest.approx(1.0)
    assert damped_share([(0.0, 60.0)], 60.0) == pytest.approx(1 - math.exp(-1))
    assert damped_share([(0.0, 60.0)], 120.0) == pytest.approx(math.exp(-1) - math.exp(-2))
    assert damped_share([(0.0, 10.0), (20.0, 30.0)], 30.0) < damped_share([(0.0, 30.0)], 30.0)
    assert damped_share([(5.0, 9.0)], 4.0) == 0.0


def test_the_limit_is_half_of_the_cores_or_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LIMIT_VARIABLE, raising=False)
    assert [limit(cores) for cores in (1, 2, 16)] == [1.0, 1.0, 8.0]
    monkeypatch.setenv(LIMIT_VARIABLE, "inf")
    assert limit(2) == math.inf
    monkeypatch.setenv(LIMIT_VARIABLE, "much")
    assert limit(2) == 1.0


def test_a_machine_is_busy_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "-1e9")
    assert busy(OwnWork()) is not None
    monkeypatch.setenv(LIMIT_VARIABLE, "inf")
    assert busy(OwnWork()) in (None, "on battery")


def supply(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def test_on_battery_is_discharging_without_mains(tmp_path: Path) -> None:
    supply(tmp_path / "a" / "BAT0", type="Battery", status="Discharging")
    supply(tmp_path / "a" / "AC", type="Mains", online="0")
    supply(tmp_path / "b" / "BAT0", type="Battery", status="Discharging")
    supply(tmp_path / "b" / "AC", type="Mains", online="1")
    supply(tmp_path / "c" / "BAT0", type="Battery", status="Charging")
    assert [on_battery(tmp_path / name) for name in "abcd"] == [True, False, False, False]
