"""The queue: one at a time, nothing twice, and it gives way. The work is real: the tuner's worker on small programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from kernelwright.analyzers.architecture import parse_program
from kernelwright.analyzers.workload import Workload
from kernelwright.server.background import Background, Job
from kernelwright.server.interpreter import choose
from kernelwright.server.load import LIMIT_VARIABLE
from kernelwright.server.measurements import Measurements, open_records
from kernelwright.tuner.records import key

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(choose([], []).torch is None, reason="this interpreter has no torch: nothing can be run"),
]


def workload(rows: int) -> Workload:
    """silu written by hand, on `rows` rows of 64."""
    before = f"""program before {{
      input %x: float32[{rows}, 64]
      %0 = sigmoid(%x)
      %1 = mul(%x, %0)
      return %1
    }}"""
    after = f"""program after {{
      input %x: float32[{rows}, 64]
      %0 = silu(%x)
      return %0
    }}"""
    return Workload("silu", parse_program(before), parse_program(after), (("x", "normal"),), ("x",), ())


def job(rows: int, uri: str = "file:///m.py") -> Job:
    made = workload(rows)
    return Job(uri, key(made), made, f"silu of {rows}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Measurements]:
    """One worker for all tests here: it takes seconds to start."""
    path = tmp_path_factory.mktemp("records") / "records.sqlite"
    made = Measurements(choose([], []), open_records(path), print)
    yield made
    await made.close()


class Watched:
    """A queue, and what it said it was doing, in order."""

    def __init__(self, worker: Measurements) -> None:
        self.states: list[str] = []
        self.landed = 0
        self.background = Background(lambda: worker, landed=self._land, changed=self._change, log=print)
        self.background.budget_seconds = 0.3

    def _land(self) -> None:
        self.landed += 1

    def _change(self) -> None:
        if not self.states or self.states[-1] != self.background.state:
            self.states.append(self.background.state)

    async def until(self, condition: Callable[[], bool]) -> None:
        async def poll() -> None:
            while not condition():
                await asyncio.sleep(0.01)

        await asyncio.wait_for(poll(), 300)

    async def finish(self) -> None:
        await self.until(lambda: self.background.state == "idle" and self.background.queue == 0)


@pytest_asyncio.fixture(loop_scope="module")
async def watched(worker: Measurements, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Watched]:
    monkeypatch.setenv(LIMIT_VARIABLE, "inf")
    worker.clear()
    made = Watched(worker)
    yield made
    await made.background.close()


async def test_jobs_are_done_in_order_one_at_a_time_and_none_twice(worker: Measurements, watched: Watched) -> None:
    watched.background.want("file:///m.py", [job(3), job(4), job(3)])
    watched.background.want("file:///other.py", [job(4, "file:///other.py")])
    assert watched.background.queue == 2
    await watched.finish()
    assert [s for s in watched.states if s.startswith("measuring")] == ["measuring silu of 3", "measuring silu of 4"]
    for rows in (3, 4):
        assert worker.known(key(workload(rows))).verification is not None
    watched.background.want("file:///m.py", [job(3)])
    assert watched.background.queue == 0
    assert watched.background.state == "idle"


async def test_what_was_closed_is_not_measured(worker: Measurements, watched: Watched) -> None:
    watched.background.budget_seconds = 600.0
    watched.background.want("file:///m.py", [job(5)])
    await watched.until(lambda: watched.background.state == "measuring silu of 5")
    watched.background.forget("file:///m.py")
    await watched.finish()
    assert not worker.complete(job(5).key)


async def test_what_another_document_wants_too_goes_on(worker: Measurements, watched: Watched) -> None:
    watched.background.want("file:///m.py", [job(6)])
    watched.background.want("file:///other.py", [job(6, "file:///other.py")])
    await watched.until(lambda: watched.background.state == "measuring silu of 6")
    watched.background.forget("file:///m.py")
    await watched.finish()
    assert worker.complete(job(6).key)


async def test_pause_cancels_and_resume_begins_again(worker: Measurements, watched: Watched) -> None:
    watched.background.budget_seconds = 600.0
    watched.background.want("file:///m.py", [job(7)])
    await watched.until(lambda: watched.background.state == "measuring silu of 7")
    watched.background.pause()
    await watched.until(lambda: watched.background.state == "paused")
    assert watched.background.queue == 1
    assert not worker.complete(job(7).key)
    watched.background.budget_seconds = 0.3
    watched.background.resume()
    await watched.finish()
    assert worker.complete(job(7).key)


async def test_while_held_nothing_runs_and_the_worker_is_free(worker: Measurements, watched: Watched) -> None:
    watched.background.budget_seconds = 600.0
    watched.background.want("file:///m.py", [job(8)])
    await watched.until(lambda: watched.background.state == "measuring silu of 8")
    async with watched.background.held():
        watched.background.budget_seconds = 0.3
        other = workload(9)
        await worker.measure(key(other), other, budget_seconds=0.3)
        assert worker.complete(key(other))
        assert not worker.complete(job(8).key)
    await watched.finish()
    assert worker.complete(job(8).key)


async def test_when_disabled_nothing_runs(worker: Measurements, watched: Watched) -> None:
    watched.background.enable(False)
    watched.background.want("file:///m.py", [job(10)])
    await asyncio.sleep(0)
    assert watched.background.state == "off"
    assert watched.landed == 0
    watched.background.enable(True)
    await watched.finish()
    assert worker.complete(job(10).key)
