"""The worker process: requests as JSON lines on stdin, answers and progress as JSON lines on stdout. Needs torch.

`python -m kernelwright.tuner.worker` starts one by hand. It first says `{"hello": ..., "torch": ...}`; then each
request `{"id", "method", "params"}` gets progress notes and one `result` or `error`. It works on one request at a time,
in order; `cancel` acts on the named one, between rounds. It is niced, and dies with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TextIO

from kernelwright.tuner.lock import LockTimeout, machine_lock
from kernelwright.tuner.wire import workload_from_json

_NO_TORCH = "the interpreter has no torch: choose one that has (kernelwright.interpreter) or install torch into it"


class Cancelled(Exception):
    """The client does not want the answer any more."""


def main(parent: int | None = None) -> None:
    """Serve until stdin ends. `parent`: the process to die with."""
    _die_with_parent(parent)
    with contextlib.suppress(OSError, AttributeError):
        os.nice(19)
    output = _claim_stdout()
    try:
        import torch
    except ImportError as error:
        _write(output, {"error": {"message": f"{_NO_TORCH} ({error})"}})
        sys.exit(3)
    _write(
        output, {"hello": "kernelwright worker", "torch": str(torch.__version__), "threads": torch.get_num_threads()}
    )
    _Worker(output).serve()


class _Worker:
    """Reads on a thread of its own, so that a cancel is heard while a request is worked on."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._write_lock = threading.Lock()
        self._requests: queue.Queue[Mapping[str, object]] = queue.Queue()
        self._cancelled: set[object] = set()

    def serve(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
        while (request := self._requests.get()).get("method") != "shutdown":
            self._answer(request)

    def _read(self) -> None:
        for line in sys.stdin:
            try:
                message = json.loads(line)
            except json.JSONDecodeError as error:
                self._send({"id": None, "error": {"message": f"not a JSON line: {error}"}})
                continue
            if not isinstance(message, dict):
                self._send({"id": None, "error": {"message": "a request is a JSON object with id, method and params"}})
            elif message.get("method") == "cancel":
                self._cancelled.add(_params(message).get("id"))
            else:
                self._requests.put(message)
        os._exit(0)  # the parent is gone or done: nobody wants what is being measured

    def _answer(self, request: Mapping[str, object]) -> None:
        identifier = request.get("id")

        def check() -> None:
            if identifier in self._cancelled:
                raise Cancelled

        def progress(message: str, fraction: float | None) -> None:
            self._send({"id": identifier, "progress": {"message": message, "fraction": fraction}})

        try:
            check()
            self._send({"id": identifier, "result": _work(request, progress, check)})
        except Cancelled:
            self._send({"id": identifier, "error": {"message": "cancelled"}})
        except (LockTimeout, ValueError) as error:
            self._send({"id": identifier, "error": {"message": str(error)}})
        except MemoryError:
            self._send(
                {"id": identifier, "error": {"message": "out of memory: set smaller shapes (kernelwright.batch)"}}
            )
        except Exception as error:
            # a program that torch cannot run must not end the worker: the next one may be fine
            self._send({"id": identifier, "error": {"message": f"{type(error).__name__}: {error}"}})
        self._cancelled.discard(identifier)

    def _send(self, message: Mapping[str, object]) -> None:
        with self._write_lock:
            _write(self._output, message)


def _work(
    request: Mapping[str, object], progress: Callable[[str, float | None], None], check: Callable[[], None]
) -> Mapping[str, object]:
    """The result of one request. Imports here need torch, which `main` has found."""
    from kernelwright.tuner.measure import measure
    from kernelwright.tuner.probe import probe
    from kernelwright.tuner.verify import verify

    method, params = request.get("method"), _params(request)
    if method == "probe":
        with machine_lock(waiting=lambda message: progress(message, None), check=check):
            progress("probing this machine", None)
            return probe(check).to_json()
    if method not in ("measure", "verify"):
        raise ValueError(f"unknown method {method!r}: expected probe, verify, measure, cancel or shutdown")
    workload = workload_from_json(_params(params, "workload"))
    if method == "verify":
        return dataclasses.asdict(verify(workload, progress=progress, check=check))
    budget = params.get("budget_seconds", 6.0)
    if not isinstance(budget, int | float) or budget <= 0:
        raise ValueError(f"budget_seconds must be a positive number, found {budget!r}")
    with machine_lock(waiting=lambda message: progress(message, None), check=check):
        gain = measure(workload, budget_seconds=float(budget), progress=progress, check=check)
    return dataclasses.asdict(gain)


def _params(request: Mapping[str, object], key: str = "params") -> Mapping[str, object]:
    params = request.get(key, {})
    if not isinstance(params, Mapping):
        raise ValueError(f"{key} must be a JSON object, found {params!r}")
    return params


def _claim_stdout() -> TextIO:
    """The protocol's own stream; whatever else prints to stdout (torch's C++ parts too) goes to stderr."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return output


def _write(output: TextIO, message: Mapping[str, object]) -> None:
    try:
        output.write(json.dumps(message) + "\n")
        output.flush()
    except (BrokenPipeError, ValueError):
        os._exit(0)  # nobody listens any more


def _die_with_parent(parent: int | None) -> None:
    """Linux: the kernel kills this process when the thread that started it ends. Elsewhere the end of stdin does it."""
    if not sys.platform.startswith("linux"):
        return
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG, <linux/prctl.h>
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:  # it died before the call above
        os._exit(0)


if __name__ == "__main__":
    main()
