"""The server's hold on the worker: starts it when first needed, asks it, cancels it, restarts it once, ends it.

No torch here. `measure` and `verify` raise nothing but `asyncio.CancelledError`: what went wrong stands in the `reason`
of the result, a sentence with what to do. Results with a number or a verdict go to the records and come from there.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import kernelwright.analyzers
import kernelwright.tuner
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.devices import Device, device_from_json, fingerprint, toolchain
from kernelwright.tuner.evidence import Gain, Verification
from kernelwright.tuner.records import Records, gain_from_json, verification_from_json
from kernelwright.tuner.toolchain import installed_torch
from kernelwright.tuner.wire import workload_to_json

Progress = Callable[[str, float | None], None]
"""Called with a message for people and the fraction done (None: not known)."""

START_SECONDS = 120.0
"""Importing torch takes 1 to 3 s from a warm disk, a minute from a cold network one."""

SILENCE_SECONDS = 90.0
"""The worker reports every round; one silent for longer is stuck in a single operation and is ended."""

_LINE_LIMIT = 1 << 26


class TunerError(Exception):
    """The worker cannot be had or did not answer; the message says what, why and what to do."""


class _Crash(Exception):
    """The worker died while it worked on a request."""


class TunerClient:
    """One worker process, used by one request at a time. Make and use it on one event loop.

    On Linux the worker dies with the *thread* that started it (PR_SET_PDEATHSIG), so run the loop on a thread that
    lives as long as the server does.
    """

    def __init__(self, interpreter: Sequence[str], records: Records, *, log: Callable[[str], None]) -> None:
        """`interpreter`: the command of the Python that has torch, usually the workspace's. `log` takes one line."""
        self._interpreter = tuple(interpreter)
        self._records = records
        self._log = log
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None
        self._last_words: deque[str] = deque(maxlen=8)
        self._torch = installed_torch(self._interpreter)
        self._unavailable: str | None = None
        self._closed = False
        self._device: Device | None = None
        self._next_id = 0

    @property
    def available(self) -> str | None:
        """None while the worker is fine or not yet tried; else one line: why there are no numbers and what to do."""
        return self._unavailable

    async def device(self) -> Device:
        """This machine, probed once for each fingerprint.

        Raises:
            TunerError: the worker cannot be started or does not answer.
        """
        key = fingerprint(await self._torch_version())
        if (known := self._records.probe(key) or self._device) is not None:
            return known
        device = device_from_json(await self._ask("probe", {}, None, SILENCE_SECONDS))
        if device.quiet:
            self._records.store_probe(device)
        self._device = device  # a busy machine's figures serve this session only
        return device

    async def measure(
        self, workload: Workload, *, progress: Progress | None = None, budget_seconds: float = 6.0
    ) -> Gain:
        """The measured gain of `workload` in its mode: from the records, else timed now within `budget_seconds`.

        A gain without a value (too noisy, cannot run, no torch) has its `reason` and is not recorded.
        """
        try:
            version = await self._torch_version()
            key = fingerprint(version)
            if (known := self._records.gain(workload, key, toolchain(version))) is not None:
                return known
            params = {"workload": workload_to_json(workload), "budget_seconds": budget_seconds}
            gain = gain_from_json(await self._ask("measure", params, progress, SILENCE_SECONDS + budget_seconds))
        except TunerError as error:
            return _no_gain(workload, str(error))
        if gain.value is not None:
            self._records.store_gain(workload, key, toolchain(version), gain)
        return gain

    async def verify(self, workload: Workload, *, progress: Progress | None = None) -> Verification:
        """Whether before and after ran equal in every mode: from the records, else run now."""
        try:
            version = await self._torch_version()
            key = fingerprint(version)
            if (known := self._records.verification(workload, key, toolchain(version))) is not None:
                return known
            params = {"workload": workload_to_json(workload)}
            verification = verification_from_json(await self._ask("verify", params, progress, SILENCE_SECONDS))
        except TunerError as error:
            return Verification(None, reason=str(error))
        if verification.equal is not None:
            self._records.store_verification(workload, key, toolchain(version), verification)
        return verification

    async def close(self) -> None:
        """End the worker. The client cannot be used afterwards."""
        self._closed = True
        await self._kill()

    async def _torch_version(self) -> str:
        """From the interpreter's site-packages, else from the worker itself."""
        if self._torch is None:
            async with self._turn:
                await self._started()
        assert self._torch is not None
        return self._torch

    async def _ask(
        self, method: str, params: Mapping[str, object], progress: Progress | None, silence: float
    ) -> Mapping[str, object]:
        async with self._turn:
            for attempt in (1, 2):
                process = await self._started()
                try:
                    return await self._converse(process, method, params, progress, silence)
                except _Crash as crash:
                    await self._kill()
                    self._log(f"tuner worker ended during {method} ({crash}), attempt {attempt}")
                    last = str(crash)
            raise TunerError(
                f"the tuner's worker ended twice during {method} ({last}): this program cannot be run here; "
                "see the output channel for its last words"
            )

    async def _converse(
        self,
        process: asyncio.subprocess.Process,
        method: str,
        params: Mapping[str, object],
        progress: Progress | None,
        silence: float,
    ) -> Mapping[str, object]:
        self._next_id += 1
        identifier = self._next_id
        try:
            self._send(process, {"id": identifier, "method": method, "params": params})
            while True:
                message = await self._receive(process, silence, method)
                if message.get("id") != identifier:
                    continue  # the tail of a cancelled request
                if isinstance(note := message.get("progress"), Mapping):
                    if progress is not None:
                        fraction = note.get("fraction")
                        progress(str(note.get("message")), fraction if isinstance(fraction, int | float) else None)
                elif isinstance(error := message.get("error"), Mapping):
                    raise TunerError(str(error.get("message")))
                elif isinstance(result := message.get("result"), Mapping):
                    return result
        except asyncio.CancelledError:
            self._next_id += 1
            try:
                self._send(process, {"id": self._next_id, "method": "cancel", "params": {"id": identifier}})
            except _Crash:
                await self._kill()
            raise

    def _send(self, process: asyncio.subprocess.Process, message: Mapping[str, object]) -> None:
        if process.stdin is None or process.stdin.is_closing() or process.returncode is not None:
            raise _Crash(self._obituary(process))
        process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _receive(self, process: asyncio.subprocess.Process, silence: float, method: str) -> Mapping[str, object]:
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), silence)
        except TimeoutError:
            await self._kill()
            raise TunerError(
                f"the tuner's worker was silent for {silence:.0f} s during {method} and was ended: the program is too "
                "large for this machine; set smaller shapes (kernelwright.batch, kernelwright.sequence)"
            ) from None
        except (ConnectionError, ValueError) as error:
            raise _Crash(str(error)) from error
        if not line:
            await process.wait()
            raise _Crash(self._obituary(process))
        try:
            message = json.loads(line)
        except json.JSONDecodeError as error:
            raise _Crash(f"unreadable answer {line[:80]!r}") from error
        return message if isinstance(message, Mapping) else {}

    async def _started(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise TunerError("the tuner is closed")
        if self._unavailable is not None:
            raise TunerError(self._unavailable)
        if self._process is not None and self._process.returncode is None:
            return self._process
        try:
            return await self._start()
        except (TunerError, _Crash, OSError) as error:
            await self._kill()
            self._unavailable = f"no numbers: {error}"
            raise TunerError(self._unavailable) from error
        except asyncio.CancelledError:
            await self._kill()
            raise

    async def _start(self) -> asyncio.subprocess.Process:
        self._last_words.clear()
        command = (*self._interpreter, "-c", _bootstrap())
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tempfile.gettempdir(),
            limit=_LINE_LIMIT,
        )
        self._drain = asyncio.create_task(self._read_stderr(self._process))
        hello = await self._receive(self._process, START_SECONDS, "its start")
        if isinstance(error := hello.get("error"), Mapping):
            raise TunerError(f"{error.get('message')} (interpreter: {' '.join(self._interpreter)})")
        found = str(hello.get("torch"))
        if self._torch is not None and toolchain(self._torch) != toolchain(found):
            self._log(f"site-packages say torch {self._torch}, the interpreter imports {found}")
        self._torch = found
        return self._process

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            text = line.decode(errors="replace").rstrip()
            self._last_words.append(text)
            self._log(f"tuner worker: {text}")

    def _obituary(self, process: asyncio.subprocess.Process) -> str:
        words = self._last_words[-1] if self._last_words else "no last words"
        return f"exit status {process.returncode}: {words}"

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
        if self._drain is not None:
            self._drain.cancel()
            self._drain = None


def _bootstrap() -> str:
    """Python source that runs the worker in any interpreter that has torch.

    Only the package `kernelwright` is lent to it: this environment's other packages must not shadow the user's, and no
    module of the working folder must be imported.
    """
    roots = sorted({str(Path(m.__file__ or "").parent.parent) for m in (kernelwright.analyzers, kernelwright.tuner)})
    return (
        "import sys, types\n"
        "if sys.path and sys.path[0] == '': del sys.path[0]\n"
        "if sys.version_info < (3, 11):\n"
        '    print(\'{"error": {"message": "the interpreter is Python %d.%d, the tuner needs 3.11 or newer: choose '
        "another with kernelwright.interpreter\"}}' % sys.version_info[:2])\n"
        "    sys.exit(3)\n"
        f"package = types.ModuleType('kernelwright'); package.__path__ = {roots!r}\n"
        "sys.modules['kernelwright'] = package\n"
        "from kernelwright.tuner.worker import main\n"
        f"main(parent={os.getpid()})\n"
    )


def _no_gain(workload: Workload, reason: str) -> Gain:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Gain(None, None, None, "measured", "", workload.shapes, workload.dtype, workload.mode, now, reason=reason)


def default_interpreter() -> tuple[str, ...]:
    """The interpreter this process runs in: the choice where the user made none."""
    return (sys.executable,)
