"""The client with a real worker: answers, records, cancel, crashes, silence, and no process left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.analyzers.architecture import parse_program
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner import client as client_module
from kernelwright.tuner.client import TunerClient, default_interpreter
from kernelwright.tuner.devices import fingerprint
from kernelwright.tuner.records import Records


@pytest.fixture
async def client() -> AsyncIterator[TunerClient]:
    made = TunerClient(default_interpreter(), Records(":memory:"), log=lambda line: None)
    yield made
    await made.close()


def pid_of(client: TunerClient) -> int:
    process = client._process
    assert process is not None
    return process.pid


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def test_verify_measure_and_device_and_again_from_the_records(client: TunerClient, workloads: Any) -> None:
    notes: list[str] = []
    workload = workloads.silu("16, 64")
    verification = await client.verify(workload, progress=lambda message, fraction: notes.append(message))
    assert verification.equal is True
    assert any("verifying: train, float32, normal" in note for note in notes)
    gain = await client.measure(workload, progress=lambda message, fraction: notes.append(message), budget_seconds=0.5)
    assert gain.counts_before is not None
    assert gain.value is not None or gain.reason
    assert any(note.startswith("timing eval: round") for note in notes)
    device = await client.device()
    assert device.probed
    assert device.fingerprint == gain.fingerprint == fingerprint(device.torch_version)
    assert client.available is None
    assert os.getpriority(os.PRIO_PROCESS, pid_of(client)) == 19

    os.kill(pid_of(client), signal.SIGKILL)  # what is recorded needs no worker
    assert await client.verify(workload.with_mode("training")) == verification
    if gain.value is not None:
        assert await client.measure(workload) == gain
    assert await client.device() == device


async def test_neither_a_cancel_nor_a_broken_program_ends_the_worker(client: TunerClient, workloads: Any) -> None:
    started = asyncio.Event()
    task = asyncio.create_task(
        client.measure(workloads.gelu_tanh(), progress=lambda message, fraction: started.set(), budget_seconds=60.0)
    )
    await asyncio.wait_for(started.wait(), 60)
    pid = pid_of(client)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    verification = await asyncio.wait_for(client.verify(workloads.silu("4, 8")), 20)
    assert verification.equal is True

    broken = parse_program('program p {\ninput %x: float32[4]\n%y = opaque(%x, reason="a loop")\nreturn %y\n}')
    gain = await client.measure(Workload("none", broken, broken, (), (), ()))
    assert gain.value is None
    assert "opaque" in (gain.reason or "")
    assert (await client.verify(Workload("none", broken, broken, (), (), ()))).equal is None
    assert pid_of(client) == pid


async def test_a_worker_that_dies_is_started_again_once(client: TunerClient, workloads: Any) -> None:
    killed: list[int] = []

    def kill_once(message: str, fraction: float | None) -> None:
        if not killed:
            killed.append(pid_of(client))
            os.kill(killed[0], signal.SIGKILL)

    gain = await client.measure(workloads.silu("16, 64"), progress=kill_once, budget_seconds=0.3)
    assert gain.counts_after is not None
    assert pid_of(client) != killed[0]

    def kill_always(message: str, fraction: float | None) -> None:
        os.kill(pid_of(client), signal.SIGKILL)

    gain = await client.measure(workloads.silu("32, 64"), progress=kill_always, budget_seconds=5.0)
    assert gain.value is None
    assert "ended twice" in (gain.reason or "")
    assert client.available is None  # this program is to blame, not the interpreter


async def test_a_silent_worker_is_ended(client: TunerClient, workloads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.verify(workloads.silu("4, 8"))
    pid = pid_of(client)
    monkeypatch.setattr(client_module, "SILENCE_SECONDS", 0.5)
    os.kill(pid, signal.SIGSTOP)
    verification = await client.verify(workloads.silu("6, 8"))
    assert verification.equal is None
    assert "silent" in (verification.reason or "")
    assert not alive(pid)


async def test_an_interpreter_without_torch_says_what_to_do(workloads: Any, tmp_path: Path) -> None:
    # an environment of its own, without the packages of the test environment
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True, timeout=60)
    client = TunerClient([str(tmp_path / "bare" / "bin" / "python")], Records(":memory:"), log=lambda line: None)
    gain = await client.measure(workloads.silu())
    assert gain.value is None
    assert client.available is not None
    assert "no torch" in client.available
    assert "kernelwright.interpreter" in client.available
    assert (await client.verify(workloads.silu())).reason == client.available
    await client.close()


async def test_an_interpreter_that_is_none_says_so(workloads: Any) -> None:
    client = TunerClient(["/nowhere/python"], Records(":memory:"), log=lambda line: None)
    assert (await client.verify(workloads.silu())).equal is None
    assert "/nowhere/python" in (client.available or "")
    await client.close()
    assert "closed" in ((await client.verify(workloads.silu())).reason or "")


_PARENT = """
import asyncio
from kernelwright.tuner.client import TunerClient, default_interpreter
from kernelwright.tuner.records import Records

async def main():
    client = TunerClient(default_interpreter(), Records(":memory:"), log=lambda line: None)
    process = await client._started()
    print(process.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_the_worker_dies_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert alive(worker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(worker)


def test_the_worker_answers_bad_requests_with_errors() -> None:
    """By hand, as `python -m kernelwright.tuner.worker` serves: one JSON object a line."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "kernelwright.tuner.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    requests = [
        "nonsense", '["a list"]', '{"id": 1, "method": "dance"}', '{"id": 2, "method": "measure", "params": {}}',
        '{"id": 3, "method": "shutdown"}',
    ]  # fmt: skip
    output, _ = worker.communicate("\n".join(requests) + "\n", timeout=60)
    lines = output.splitlines()
    assert '"hello"' in lines[0]
    assert "not a JSON line" in output
    assert "a request is a JSON object" in output
