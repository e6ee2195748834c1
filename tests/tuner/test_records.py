"""Devices, records and the wire: what is stored comes back the same, and only for the machine it was measured on."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelwright.analyzers.architecture import parse_program
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner import records as records_module
from kernelwright.tuner.devices import Machine, assumed, device_from_json, device_name, fingerprint, machine
from kernelwright.tuner.evidence import Case, Counts, Gain, Verification
from kernelwright.tuner.records import Records, default_path, key
from kernelwright.tuner.rewriting import rebuilt, with_attribute
from kernelwright.tuner.toolchain import installed_torch
from kernelwright.tuner.wire import workload_from_json, workload_to_json

GAIN = Gain(
    2.4, 2.3, 2.5, "measured", "Xeon, 2 threads", "x 4x4", "float32", "eval", "2026-11-30T20:00:00+00:00",
    0.02, 0.01, Counts(8, 100, 0), Counts(1, 20, 0), 1.01, "abc",
)  # fmt: skip
VERIFICATION = Verification(True, (Case("eval, float32, normal", True, 1e-7, 2e-7, "detail"),))


def scalar_workload(value: float) -> Workload:
    program = parse_program("program p {\ninput %x: float32[4]\ninput %eps: float\n%y = add(%x, %eps)\nreturn %y\n}")
    valued = rebuilt(program, lambda n: with_attribute(n, "value", value) if n.attribute("name") == "eps" else n)
    return Workload("none", valued, valued, (("eps", "scalar"),), (), ())


def test_a_gain_comes_back_the_same_for_its_mode_device_and_toolchain_only(tmp_path: Path, workloads: Any) -> None:
    records = Records(tmp_path / "deep" / "records.sqlite")
    workload = workloads.gelu_tanh()
    records.store_gain(workload, "device", "torch 2.13.0", GAIN)
    assert records.gain(workload, "device", "torch 2.13.0") == GAIN
    assert records.gain(workload.with_mode("training"), "device", "torch 2.13.0") is None
    assert records.gain(workload, "other device", "torch 2.13.0") is None
    assert records.gain(workload, "device", "torch 2.12.0") is None
    assert records.gain(workloads.gelu_tanh("4, 512, 1024"), "device", "torch 2.13.0") is None
    records.close()
    again = Records(tmp_path / "deep" / "records.sqlite")
    assert again.gain(workload, "device", "torch 2.13.0") == GAIN
    again.clear()
    assert again.gain(workload, "device", "torch 2.13.0") is None


def test_a_verification_holds_for_every_mode(tmp_path: Path, workloads: Any) -> None:
    records = Records(":memory:")
    records.store_verification(workloads.gelu_tanh(), "device", "torch", VERIFICATION)
    assert records.verification(workloads.gelu_tanh(mode="training"), "device", "torch") == VERIFICATION


def test_a_probe_comes_back_the_same(tmp_path: Path) -> None:
    records = Records(":memory:")
    device = assumed("2.13.0")
    assert device_from_json(json.loads(json.dumps(device.to_json()))) == device
    records.store_probe(device)
    assert records.probe(device.fingerprint) == device
    assert records.probe("other") is None
    with pytest.raises(ValueError, match="no device record"):
        device_from_json({"name": "x"})


def test_two_windows_share_one_file(tmp_path: Path, workloads: Any) -> None:
    one, two = Records(tmp_path / "r.sqlite"), Records(tmp_path / "r.sqlite")
    one.store_gain(workloads.silu(), "d", "t", GAIN)
    assert two.gain(workloads.silu(), "d", "t") == GAIN
    two.store_gain(workloads.silu(), "d", "t", dataclasses.replace(GAIN, value=3.0))
    assert one.gain(workloads.silu(), "d", "t") == dataclasses.replace(GAIN, value=3.0)


def test_records_of_another_format_are_dropped(tmp_path: Path, workloads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Records(tmp_path / "r.sqlite")
    first.store_gain(workloads.silu(), "d", "t", GAIN)
    first.close()
    monkeypatch.setattr(records_module, "FORMAT", "next")
    assert Records(tmp_path / "r.sqlite").gain(workloads.silu(), "d", "t") is None


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path, workloads: Any) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(b"no database at all, " * 100)
    records = Records(path)
    records.store_gain(workloads.silu(), "d", "t", GAIN)
    assert records.gain(workloads.silu(), "d", "t") == GAIN
    assert (tmp_path / "r.sqlite.broken").exists()
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_default_place_is_the_users_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "kernelwright" / "records.sqlite"


def test_scalar_values_are_part_of_the_key_and_travel() -> None:
    assert key(scalar_workload(1e-5)) != key(scalar_workload(1e-6))
    there = workload_from_json(json.loads(json.dumps(workload_to_json(scalar_workload(1e-5)))))
    assert key(there) == key(scalar_workload(1e-5))
    assert there.before.inputs[1].attribute("value") == 1e-5


def test_a_workload_travels_unchanged(workloads: Any) -> None:
    for workload in (workloads.gelu_tanh(mode="training"), workloads.attention()):
        there = workload_from_json(json.loads(json.dumps(workload_to_json(workload))))
        assert key(there) == key(workload)
        assert there.dimensions == workload.dimensions
        assert there.needs_gradient == workload.needs_gradient
    with pytest.raises(ValueError, match="malformed workload"):
        workload_from_json({"rule": "gelu", "mode": "eval"})
    with pytest.raises(ValueError, match="unknown mode"):
        workload_from_json(workload_to_json(workloads.silu()) | {"mode": "fast"})


def test_the_fingerprint_follows_what_changes_numbers() -> None:
    this = machine()
    assert fingerprint("2.13.0") == fingerprint("2.13.0", this)
    assert fingerprint("2.13.0") != fingerprint("2.12.0")
    # one wheel: 2.13.0 in its metadata, 2.13.0+cu130 when imported
    assert fingerprint("2.13.0") == fingerprint("2.13.0+cu130")
    for change in (
        {"cores": this.cores + 1},
        {"cpu": "another"},
        {"isa": ()},
        {"thread_settings": "OMP_NUM_THREADS=1"},
    ):
        assert fingerprint("2.13.0", dataclasses.replace(this, **change)) != fingerprint("2.13.0", this)  # type: ignore[arg-type]


def test_a_device_has_a_name_for_people() -> None:
    described = Machine("Intel(R) Xeon(R) Processor @ 2.60GHz", 2, (), "Linux x86_64", "")
    assert device_name(described, 2) == "Intel Xeon Processor @ 2.60GHz, 2 threads"
    assert device_name(described, 1).endswith("1 thread")


def test_the_torch_of_an_interpreter_is_read_not_run(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    (site / "torch-2.9.1+cu128.dist-info").mkdir(parents=True)
    (site / "torch-geometric-2.6.dist-info").mkdir()
    assert installed_torch([str(tmp_path / "bin" / "python")]) == "2.9.1+cu128"
    assert installed_torch([str(tmp_path / "none" / "bin" / "python")]) is None
    assert installed_torch(["python"]) is None
    assert installed_torch(["uv", "run", "python"]) is None


def test_what_the_server_imports_loads_neither_torch_nor_numpy() -> None:
    code = (
        "import sys\n"
        "from kernelwright.tuner import client, devices, evidence, evidence_script, lock, predict, records, wire\n"
        "print([m for m in ('torch', 'numpy', 'tvm') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
