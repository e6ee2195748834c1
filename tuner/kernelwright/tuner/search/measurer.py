"""The collector's hold on a zygote: starts it, asks it, ends it; and the timing of one candidate as a `Measurement`.

No tvm here. Nothing of a candidate can end this process: its crash, hang or error is a status.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kernelwright.tuner
from kernelwright.tuner.search.pseudo_devices import PseudoDevice, Toolchain, environment
from kernelwright.tuner.search.record_store import Measurement

LIMIT_SECONDS = 5.0
"""Of CPU for compiling a candidate, and by the clock for running it."""

WALL_LIMIT_SECONDS = 60.0
"""For compiling a candidate by the clock: it works at the lowest priority, so a busy machine makes it late."""

SAMPLE_SECONDS = 120.0
START_SECONDS = 120.0
REPEATS, REPEAT_MS, REALTIME_REPEAT_MS = 3, 20, 12
BUILDERS = 2
"""Compilers that run at once; nothing is measured meanwhile."""

SENTINEL = "sentinel"


class MeasurerError(Exception):
    """No zygote can be had; the message says what, why and what to do."""


class ZygoteDied(Exception):
    """The zygote ended or stopped answering; a new one can be started."""


class Measurer:
    """One zygote. `threads`: on how many a program runs where `run` is not told."""

    def __init__(
        self, interpreter: Sequence[str], threads: int, temporary: Path, *, realtime_scheduling: bool = False
    ) -> None:
        """Starts it. `interpreter`: the command of a Python with tvm. `temporary`: an own folder for scratch files.

        `realtime_scheduling`: programs run under it, see `realtime`.

        Raises:
            MeasurerError: the interpreter cannot be started, or has no tvm that works.
        """
        self._buffer = b""
        self._temporary, self._threads, self._realtime = temporary, threads, realtime_scheduling
        self._sentinels: dict[str, Measurement] = {}
        try:
            with self._words(threads).open("wb") as words:
                self._process = subprocess.Popen(
                    [*interpreter, "-c", _bootstrap(realtime_scheduling)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=words,
                    env=environment(threads, str(temporary)),
                    cwd=temporary,
                )
        except OSError as error:
            raise MeasurerError(
                f"{' '.join(interpreter)} cannot be started ({error.strerror}): name another interpreter with --python"
            ) from error
        try:
            hello = self._answer(START_SECONDS)
            if "error" not in hello:
                self.toolchain = Toolchain(str(hello["tvm"]), str(hello["tvm_ffi"]), str(hello["host_cpu"]))
                target = PseudoDevice("sse", threads).target(self.toolchain.host_cpu)
                check = self._ask({"op": "check", "target": target, "limit": START_SECONDS}, START_SECONDS)
                if "ok" not in check:
                    hello = {"error": f"apache-tvm does not work in {' '.join(interpreter)}: making a tuning context ends "
                                      f"in {check['status']} ({check['detail']}); install it anew there"}  # fmt: skip
        except ZygoteDied as error:
            self.close()
            raise MeasurerError(
                f"apache-tvm does not start in {' '.join(interpreter)} ({error}): {self._last_words(threads)}"
            ) from error
        if "error" in hello:
            self.close()
            raise MeasurerError(str(hello["error"]))

    @property
    def pid(self) -> int:
        return self._process.pid

    def sample(
        self, task: str, target: Mapping[str, object], seed: int, count: int, known: Sequence[str],
        elites: Sequence[tuple[str, float]], out: Path,
    ) -> str | None:  # fmt: skip
        """Write new programs of a task to `out`. Returns None, or what went wrong.

        Raises:
            ZygoteDied: it must be started again.
        """
        request = {"op": "sample", "task": task, "target": target, "seed": seed, "count": count, "known": list(known),
                   "elites": list(elites), "out": str(out), "limit": SAMPLE_SECONDS}  # fmt: skip
        answer = self._ask(request, SAMPLE_SECONDS)
        return None if "ok" in answer else f"{answer['status']}: {answer['detail']}"

    def build(
        self,
        task: str,
        target: Mapping[str, object],
        traces: Mapping[int, str],
        limit: float = LIMIT_SECONDS,
        wall_limit: float = WALL_LIMIT_SECONDS,
    ) -> dict[int, Measurement]:
        """Compile programs by number. Returns a result for each: a failure, or one to `run` with its time of building.

        Raises:
            ZygoteDied: it must be started again.
        """
        jobs = [{"id": number, "task": task, "target": target, "trace": trace} for number, trace in traces.items()]
        self._send({"op": "build", "jobs": jobs, "parallel": BUILDERS, "limit": wall_limit, "cpu_limit": limit})
        results = {}
        while "done" not in (answer := self._answer(wall_limit * len(jobs) + 30.0)):
            number = answer["id"]
            results[number] = (
                Measurement(number, "ok", build=answer["built"])
                if "built" in answer
                else Measurement(number, answer["status"], detail=answer["detail"])
            )
        return results

    def run(
        self, built: Measurement, best: float | None, *, repeats: int = REPEATS, limit: float = LIMIT_SECONDS,
        threads: int | None = None, keep: bool = False,
    ) -> Measurement:  # fmt: skip
        """Time a built program; one whose first call takes over five times `best` seconds is not repeated.

        `threads`: how many it runs on (None: those of this measurer). `keep`: it will be run again.

        Raises:
            ZygoteDied: it must be started again.
        """
        request = {
            "op": "run", "id": built.program, "best": best, "threads": threads or self._threads, "keep": keep,
            "realtime": self._realtime, "repeats": repeats, "limit": limit,
            "repeat_ms": REALTIME_REPEAT_MS if self._realtime else REPEAT_MS,
        }  # fmt: skip
        answer = self._ask(request, limit)
        if answer["status"] not in ("ok", "slow"):
            return Measurement(built.program, answer["status"], build=built.build, detail=answer["detail"])
        return Measurement(
            built.program, answer["status"], tuple(answer["seconds"]), answer["once"], built.build, answer["waited"]
        )

    def drop(self) -> None:
        """End what is built and will not run; the sentinel stays."""
        self._ask({"op": "drop"}, 1.0)

    def sentinel(self, target: Mapping[str, object], threads: int | None = None) -> float:
        """Seconds of the fixed program: the least of five repeats.

        Raises:
            ZygoteDied: it must be started again.
        """
        kind = json.dumps(target)
        if kind not in self._sentinels:
            number = -1 - len(self._sentinels)
            self._sentinels[kind] = self.build(SENTINEL, target, {number: ""}, limit=30.0)[number]
        built = self._sentinels[kind]
        result = self.run(built, None, repeats=5, limit=30.0, threads=threads, keep=True) if built.build else built
        if not result.seconds:
            raise ZygoteDied(f"the sentinel ended in {result.status} ({result.detail})")
        return min(result.seconds)

    def close(self) -> None:
        """End the zygote and all its children."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, request: Mapping[str, object], limit: float) -> dict[str, Any]:
        self._send(request)
        return self._answer(limit + 30.0)

    def _send(self, request: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ZygoteDied(str(error)) from error

    def _answer(self, limit: float) -> dict[str, Any]:
        """The next line. The pipe is read by hand: a buffered reader would hide from `select` what it has read."""
        assert self._process.stdout is not None
        descriptor, deadline = self._process.stdout.fileno(), time.monotonic() + limit
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise ZygoteDied(f"no answer for {limit:.0f} s")
            if not (part := os.read(descriptor, 1 << 16)):
                raise ZygoteDied(f"exit status {self._process.wait()}")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _words(self, threads: int) -> Path:
        return self._temporary / f"zygote-{threads}.log"

    def _last_words(self, threads: int) -> str:
        lines = self._words(threads).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no last words"


def _bootstrap(realtime_scheduling: bool) -> str:
    """Python source that runs the zygote in any interpreter with tvm: only the package `kernelwright` is lent to it."""
    root = str(Path(kernelwright.tuner.__file__ or "").parent.parent)
    return (
        "import sys, types\n"
        "if sys.path and sys.path[0] == '': del sys.path[0]\n"
        "if sys.version_info < (3, 11):\n"
        '    print(\'{"error": "the interpreter is Python %d.%d, tuning needs 3.11 or newer: name another with '
        "--python\"}' % sys.version_info[:2])\n"
        "    sys.exit(3)\n"
        f"package = types.ModuleType('kernelwright'); package.__path__ = [{root!r}]\n"
        "sys.modules['kernelwright'] = package\n"
        "from kernelwright.tuner.search.zygote import main\n"
        f"main({os.getpid()}, {realtime_scheduling})\n"
    )


def own_interpreter() -> tuple[str, ...]:
    """The interpreter this process runs in: the choice where the user made none."""
    return (sys.executable,)
