"""Where numbers come from: what this process knows already, the records, a prediction, or the tuner's worker.

One `Measurements` belongs to one interpreter. It imports the tuner when it is first asked, and starts the worker only
where something is run. The server and the command line share it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.analyzers.workload import Workload
from kernelwright.server.interpreter import Interpreter
from kernelwright.server.numbers import NOTHING, Numbers

if TYPE_CHECKING:
    from kernelwright.analyzers.opportunity import Opportunity
    from kernelwright.tuner.client import TunerClient
    from kernelwright.tuner.devices import Device
    from kernelwright.tuner.records import Records

Progress = Callable[[str, float | None], None]
"""Called with a message for people and the fraction done (None: not known)."""


def work_key(opportunity: Opportunity) -> str | None:
    """The records' key of an opportunity's workload, None where it has none."""
    from kernelwright.tuner.records import key

    return None if opportunity.workload is None else key(opportunity.workload)


def open_records(path: Path | None = None) -> Records:
    """The user's records, or those at `path`."""
    from kernelwright.tuner.records import Records

    return Records(path)


class Measurements:
    """Numbers of workloads by their key. `look_up` may run in any thread; the rest belongs on one event loop."""

    def __init__(self, interpreter: Interpreter, records: Records, log: Callable[[str], None]) -> None:
        self.interpreter = interpreter
        self._records = records
        self._log = log
        self._client: TunerClient | None = None
        self._device: Device | None = None
        self._known: dict[str, Numbers] = {}
        self._complete: set[str] = set()

    def known(self, key: str | None) -> Numbers:
        """What this process knows of a workload, without looking anywhere."""
        return NOTHING if key is None else self._known.get(key, NOTHING)

    def complete(self, key: str) -> bool:
        """Whether a workload was verified and measured, or tried: it is not measured again of its own accord."""
        return key in self._complete

    @property
    def device_name(self) -> str | None:
        """The device for people; None before it is known."""
        return None if self._device is None else self._device.name

    @property
    def unavailable(self) -> str | None:
        """None while measuring works or was not tried; else one line: why not and what to do."""
        return None if self._client is None else self._client.available

    def stored_device(self) -> Device | None:
        """This machine with the interpreter's torch as an earlier probe measured it, or None. Starts nothing."""
        from kernelwright.tuner.devices import fingerprint

        if self.interpreter.torch is None:
            return None
        return self._records.probe(fingerprint(self.interpreter.torch))

    def look_up(self, work: Iterable[tuple[str, Workload]], *, assume: bool) -> bool:
        """Fill in records and predictions for the workloads whose numbers are not known. True where something is new.

        Without a stored probe, predictions rest on assumed figures of the machine, or are left out where `assume` is
        false. Blocking, some milliseconds a workload: call it in a thread.
        """
        from kernelwright.tuner.devices import assumed
        from kernelwright.tuner.predict import predict

        device = self._device or self.stored_device()
        if device is None and assume:
            device = assumed(self.interpreter.torch or "")
        if device is None:
            return False
        self._device = device
        new = False
        for key, workload in work:
            numbers = self.known(key)
            if numbers.predicted is not None or numbers.measured is not None:
                continue
            gain = self._records.gain(workload, device.fingerprint, device.toolchain)
            verification = self._records.verification(workload, device.fingerprint, device.toolchain)
            if gain is not None and verification is not None:
                self._complete.add(key)
            self._known[key] = dataclasses.replace(
                numbers,
                predicted=predict(workload, device) if gain is None else None,
                measured=gain,
                verification=verification or numbers.verification,
            )
            new = True
        return new

    async def probe(self) -> bool:
        """Have the device probed, so that predictions rest on it; False where it was known, or cannot be.

        Predictions made on other figures are dropped: look up again.
        """
        from kernelwright.tuner.client import TunerError

        if self._device is not None and self._device.probed:
            return False
        try:
            self._device = await self.client().device()
        except TunerError as error:
            self._log(str(error))
            return False
        for key, numbers in list(self._known.items()):
            self._known[key] = dataclasses.replace(numbers, predicted=None)
        return True

    async def measure(
        self, key: str, workload: Workload, *, budget_seconds: float, progress: Progress | None = None
    ) -> Numbers:
        """Verify, then measure; each comes from the records where they have it. Raises only `asyncio.CancelledError`.

        Programs that do not run equal are not timed: their speed means nothing.
        """
        client = self.client()
        verification = await client.verify(workload, progress=progress)
        numbers = dataclasses.replace(self.known(key), verification=verification, failure=None)
        self._known[key] = numbers
        if verification.equal is not False:
            gain = await client.measure(workload, progress=progress, budget_seconds=budget_seconds)
            failure = None if gain.value is not None else gain.reason
            numbers = dataclasses.replace(numbers, measured=gain, failure=failure)
            self._known[key] = numbers
        self._complete.add(key)
        return numbers

    async def verify(self, key: str, workload: Workload, progress: Progress | None = None) -> Numbers:
        """Verify only."""
        verification = await self.client().verify(workload, progress=progress)
        self._known[key] = dataclasses.replace(self.known(key), verification=verification)
        return self._known[key]

    def client(self) -> TunerClient:
        """The tuner's client, made at first use (which starts no process yet)."""
        if self._client is None:
            from kernelwright.tuner.client import TunerClient

            self._client = TunerClient(self.interpreter.command, self._records, log=self._log)
        return self._client

    def clear(self) -> None:
        """Forget every number, in the records too."""
        self._records.clear()
        self._known.clear()
        self._complete.clear()
        self._device = None

    async def close(self) -> None:
        """End the worker, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
