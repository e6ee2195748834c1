"""The background queue: what open documents hold is verified and measured, one workload at a time, while nobody waits.

It pauses on request, waits while the machine is busy with other work, steps back for a Tune command (`held`), and drops
what belongs to a document that was closed or changed. Nothing is measured twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from kernelwright.analyzers.workload import Workload
from kernelwright.server.load import OwnWork, busy
from kernelwright.server.measurements import Measurements

BUSY_SECONDS = 10.0
"""How long to wait before the load is looked at again."""


@dataclass(frozen=True, slots=True)
class Job:
    """A workload to verify and measure, the document that wants it, and its name for the status line."""

    uri: str
    key: str
    workload: Workload
    label: str


class Background:
    """The queue and its one runner. Everything runs on the event loop; the work itself is in the tuner's process."""

    def __init__(
        self,
        measurements: Callable[[], Measurements],
        *,
        landed: Callable[[], None],
        changed: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        """`landed` is called when a number has come, `changed` when `state` or the queue's length has."""
        self._measurements = measurements
        self._landed = landed
        self._changed = changed
        self._log = log
        self._queues: dict[str, list[Job]] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._own = OwnWork()
        self._holds = 0
        self._current: Job | None = None
        self._work: asyncio.Task[None] | None = None
        self._runner: asyncio.Task[None] | None = None
        self.budget_seconds = 6.0
        self.enabled = True
        self.paused = False
        self.state = "idle"

    @property
    def queue(self) -> int:
        """How many workloads wait, the one that runs included."""
        keys = {job.key for job in self._waiting()}
        return len(keys | ({self._current.key} if self._current else set()))

    def want(self, uri: str, jobs: Sequence[Job]) -> None:
        """Replace what a document wants. The first is done first; what is known already is left out."""
        self._queues[uri] = list(jobs)
        self._revise()

    def forget(self, uri: str) -> None:
        """A document was closed: nothing of it is measured any more, also what runs now (unless another wants it)."""
        self._queues.pop(uri, None)
        self._revise()

    def pause(self) -> None:
        """Stop now, until `resume`; what runs is cancelled and comes first again."""
        self.paused = True
        self._revise()

    def resume(self) -> None:
        self.paused = False
        self._revise()

    def enable(self, enabled: bool) -> None:
        """As the settings (and the workspace's trust) have it."""
        self.enabled = enabled
        self._revise()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """While this is open, the worker is the caller's: what runs is cancelled, and comes first again afterwards."""
        self._holds += 1
        try:
            self._revise()
            await self._idle.wait()
            yield
        finally:
            self._holds -= 1
            self._revise()

    async def close(self) -> None:
        """Stop for good."""
        self._queues.clear()
        if self._runner is not None:
            self._runner.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._runner

    def _waiting(self) -> list[Job]:
        if not self._queues:
            return []
        complete = self._measurements().complete
        return [job for jobs in self._queues.values() for job in jobs if not complete(job.key)]

    def _allowed(self) -> bool:
        return self.enabled and not self.paused and self._holds == 0

    def _revise(self) -> None:
        """Something changed: cancel what must not run on, wake the runner for what may."""
        if self._work is not None and self._current is not None:
            wanted = any(job.key == self._current.key for jobs in self._queues.values() for job in jobs)
            if not wanted or not self._allowed():
                self._work.cancel()
        if self._allowed() and self._waiting():
            if self._runner is None:
                self._runner = asyncio.get_running_loop().create_task(self._run())
            self._wake.set()
        elif self._work is None:
            self._say("off" if not self.enabled else "paused" if self.paused else "idle")
        else:
            self._changed()

    def _say(self, state: str) -> None:
        self.state = state
        self._changed()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._allowed() and (waiting := self._waiting()):
                if self._measurements().unavailable is not None:
                    self._say("unavailable")
                    break
                if (reason := busy(self._own)) is not None:
                    self._say(f"waiting: {reason}")
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), BUSY_SECONDS)
                    self._wake.clear()
                    continue
                await self._do(waiting[0])
            else:
                self._say("off" if not self.enabled else "paused" if self.paused else "idle")

    async def _do(self, job: Job) -> None:
        start = time.monotonic()
        self._current = job
        self._idle.clear()
        self._say(f"measuring {job.label}")
        self._work = asyncio.get_running_loop().create_task(self._measure(job))
        try:
            await asyncio.wait({self._work})
            if not self._work.cancelled() and (error := self._work.exception()) is not None:
                # A fault of ours: drop the document's queue rather than meet it again and again.
                self._log(f"measuring {job.label}: {type(error).__name__}: {error}")
                self._queues[job.uri] = [j for j in self._queues.get(job.uri, []) if j.key != job.key]
        finally:
            self._work.cancel()
            self._work = self._current = None
            self._own.ran(start, time.monotonic())
            self._idle.set()
        self._landed()

    async def _measure(self, job: Job) -> None:
        measurements = self._measurements()
        if await measurements.probe():
            self._landed()
        await measurements.measure(job.key, job.workload, budget_seconds=self.budget_seconds)
