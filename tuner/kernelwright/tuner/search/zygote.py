"""The process that compiles and runs programs: it imports tvm once, without torch, and forks a child for every job.

Requests and answers are JSON lines on stdin and stdout. A child that crashes, hangs or eats memory costs its own
result and nothing else: it is ended when its time is over, by the kernel when the zygote dies, and first of all when
memory is short. The zygote itself never calls into tvm, so no tvm thread exists when it forks.

- `{"op": "check", "target", "limit"}`: can a tuning context be made here? `{"ok": true}` or `{"status", "detail"}`.
- `{"op": "sample", "task", "target", "seed", "count", "known", "elites", "out", "limit"}`: the same answers; the programs
  are in the .npz file `out`.
- `{"op": "build", "jobs": [{"id", "task", "target", "trace"}], "parallel", "limit", "cpu_limit"}`: for each job
  `{"id", "built"}` with the seconds it took, or `{"id", "status", "detail"}`; then `{"done": true}`.
- `{"op": "run", "id", "best", "threads", "realtime", "keep", "repeats", "repeat_ms", "limit"}`: `{"id", "status",
  "seconds", "once", "waited"}` or `{"id", "status", "detail"}`. Each run is a fork of the built job's process, so that one
  compilation serves several numbers of threads; with `keep` the job can run again.
- `{"op": "drop"}`: `{"done": true}`; built jobs that will not run are ended, but those with a negative id.

`status`: `ok`, `slow` (`once` is over five times `best`, seconds: not repeated), `crash`, `timeout`, `error`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.tuner.search import pinned, realtime

CRASHES = tuple(
    getattr(signal, name) for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name)
)
"""Signals of a crash in native code."""

SENTINEL = "sentinel"
"""The task of a job that is a fixed program: it is timed again and again to notice that the machine drifts."""

LATE: Mapping[str, Any] = {"status": "timeout", "detail": ""}


@dataclass(slots=True)
class Child:
    """A forked job. It writes JSON lines to `answers`; it goes on to run what it built when it reads one from `go`."""

    id: int
    pid: int
    answers: int
    go: int
    deadline: float
    buffer: bytes = b""


def main(parent: int, realtime_scheduling: bool = False) -> None:
    """Serve until stdin ends. `parent`: the process to die with. `realtime_scheduling`: of all but compiling."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches us too; the parent decides
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not stand between the answers
    if problem := pinned.problem():
        _write(output, {"error": problem})
        sys.exit(3)
    sys.modules["torch"] = None  # type: ignore[assignment]  # tvm would import it: 200 MB and seconds for nothing
    try:
        from kernelwright.tuner.search import spaces

        spaces.leave_out_tensor_intrinsics()
        cpu = spaces.host_cpu()
        # what the children use is imported here, once
        importlib.import_module("tvm.s_tir.meta_schedule")
        importlib.import_module("kernelwright.tuner.search.expressions")
    except Exception as error:
        _write(
            output, {"error": f"apache-tvm cannot be imported by {sys.executable} ({type(error).__name__}: {error})"}
        )
        sys.exit(3)
    _write(output, {"hello": "kernelwright zygote", **pinned.versions(), "host_cpu": cpu})
    if realtime_scheduling:
        realtime.hold_cores()
    _Zygote(output).serve()


class _Zygote:
    def __init__(self, output: Any) -> None:
        self._output = output
        self._built: dict[int, Child] = {}

    def serve(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            operation = request["op"]
            if operation in ("check", "sample"):
                work = _check if operation == "check" else _sample
                child = self._fork(0, lambda request=request, work=work: work(request), request["limit"])  # type: ignore[misc]
                self._answer({**self._await(child), "id": 0})
                self._end(child)
            elif operation == "build":
                self._build(request)
            elif operation == "run":
                self._run(request)
            elif operation == "drop":
                self._drop()
                self._answer({"done": True})
        for child in self._built.values():
            self._end(child)

    def _answer(self, message: Mapping[str, object]) -> None:
        _write(self._output, message)

    def _build(self, request: Mapping[str, Any]) -> None:
        """Compile all jobs, some at a time. What was built waits in its child, holding the code."""
        jobs, running = deque(request["jobs"]), dict[int, Child]()
        while jobs or running:
            while jobs and len(running) < request["parallel"]:
                job = jobs.popleft()
                child = self._fork(job["id"], lambda job=job: _candidate(job, request["cpu_limit"]), request["limit"])  # type: ignore[misc]
                running[child.answers] = child
            left = max(0.0, min(child.deadline for child in running.values()) - time.monotonic())
            ready, _, _ = select.select(list(running), [], [], left)
            late = [fd for fd, child in running.items() if fd not in ready and time.monotonic() >= child.deadline]
            for descriptor in [*ready, *late]:
                child = running[descriptor]
                answer = self._await(child) if descriptor in ready else dict(LATE)
                del running[descriptor]
                if "built" in answer:
                    self._built[child.id] = child
                else:
                    self._end(child)
                self._answer({**answer, "id": child.id})
        self._answer({"done": True})

    def _run(self, request: Mapping[str, Any]) -> None:
        child = self._built.pop(request["id"])
        child.deadline = time.monotonic() + request["limit"]
        with contextlib.suppress(BrokenPipeError):  # it died while it waited: the answer is its exit status
            os.write(child.go, json.dumps(request).encode() + b"\n")
        answer = self._await(child)
        if request["keep"] and child.pid and answer["status"] != "timeout":
            self._built[child.id] = child
        else:
            self._end(child)
        self._answer({**answer, "id": child.id})

    def _fork(self, identifier: int, work: Callable[[], Any], limit: float) -> Child:
        answers, answers_in = os.pipe()
        go_out, go = os.pipe()
        own = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become_child(own, answers_in, go_out)
            try:
                for message in work():
                    os.write(answers_in, json.dumps(message).encode() + b"\n")
            except BaseException as error:
                detail = f"{type(error).__name__}: {error}".strip()[:300]
                os.write(answers_in, json.dumps({"status": "error", "detail": detail}).encode() + b"\n")
            os._exit(0)
        os.close(answers_in)
        os.close(go_out)
        return Child(identifier, pid, answers, go, time.monotonic() + limit)

    def _await(self, child: Child) -> dict[str, Any]:
        """The next answer of a child, or what became of it."""
        while b"\n" not in child.buffer:
            left = child.deadline - time.monotonic()
            if left <= 0 or not select.select([child.answers], [], [], left)[0]:
                return dict(LATE)
            if not (part := os.read(child.answers, 1 << 16)):
                _, status = os.waitpid(child.pid, 0)
                child.pid = 0
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
                    return dict(LATE)
                how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {status >> 8}"
                return {"status": "crash", "detail": how}
            child.buffer += part
        line, _, child.buffer = child.buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self, child: Child) -> None:
        if child.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        os.close(child.answers)
        os.close(child.go)

    def _drop(self) -> None:
        for identifier in [known for known in self._built if known >= 0]:
            self._end(self._built.pop(identifier))


# --- in a child ------------------------------------------------------------------------------------------------------


def die_with_parent(parent: int) -> None:
    """Linux: be killed when the parent ends, however it ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _become_child(parent: int, answers: int, go: int) -> None:
    die_with_parent(parent)
    realtime.be_ordinary()
    for number in CRASHES:
        signal.signal(number, signal.SIG_DFL)  # tvm's own handler prints a backtrace, which takes it a minute
    with contextlib.suppress(OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")
    os.dup2(go, 0)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)


def _check(request: Mapping[str, Any]) -> Any:
    """Makes a context with a space generator: with a wrong apache-tvm-ffi just that ends in a segmentation fault."""
    from kernelwright.tuner.search import expressions, spaces
    from kernelwright.tuner.search.tasks import Task

    small = Task("matmul", "linear", "check", (("m", 16), ("n", 16), ("k", 16)))
    spaces.sample(expressions.prim_func(small), request["target"], seed=1, count=2)
    yield {"ok": True}


def _sample(request: Mapping[str, Any]) -> Any:
    from kernelwright.tuner.search import expressions, spaces
    from kernelwright.tuner.search.programs import save_programs
    from kernelwright.tuner.search.tasks import task

    function = expressions.prim_func(task(request["task"]))
    elites = [spaces.Elite(trace, seconds) for trace, seconds in request["elites"]]
    programs = spaces.sample(
        function, request["target"], seed=request["seed"], count=request["count"], known=request["known"], elites=elites
    )
    shapes = [[int(extent) for extent in tensor.shape] for tensor in expressions.tensors(task(request["task"]))]
    save_programs(
        request["out"], programs, {"flops": spaces.flops(function), "tensors": shapes, "space": spaces.VERSION}
    )
    yield {"ok": True}


def _candidate(job: Mapping[str, Any], cpu_limit: float) -> Any:
    """Builds, then runs each time it gets the word to go. `cpu_limit`: seconds of CPU that building may take."""
    import numpy as np
    import tvm

    from kernelwright.tuner.search import expressions, spaces
    from kernelwright.tuner.search.tasks import task

    begun = time.monotonic()
    with _limited_cpu(cpu_limit):
        if job["task"] == SENTINEL:
            tensors, module = spaces.sentinel()
        else:
            tensors = expressions.tensors(task(job["task"]))
            module = spaces.replay(expressions.prim_func(task(job["task"])), job["trace"]).mod
        library = tvm.compile(module, target=tvm.target.Target(job["target"])).jit()
        library.get_function("main")  # only now LLVM makes machine code
    yield {"built": time.monotonic() - begun}
    arguments: list[Any] = []
    while True:
        go = json.loads(_line_of_stdin())
        if go["realtime"]:
            realtime.hold_cores()
        if not arguments:
            source = np.random.default_rng(0)
            shapes = [[int(extent) for extent in tensor.shape] for tensor in tensors]
            arguments = [tvm.runtime.tensor(source.standard_normal(shape, dtype=np.float32)) for shape in shapes]
        yield _run_apart(library, arguments, go)


@contextlib.contextmanager
def _limited_cpu(seconds: float) -> Any:
    """End this process (SIGXCPU) when it has used so many seconds of CPU: a busy machine makes nothing late."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), hard))
    yield
    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))


def _run_apart(library: Any, arguments: Sequence[Any], go: Mapping[str, Any]) -> dict[str, Any]:
    """The run in a fork of this process, so that tvm's threads start anew in the number wanted, and a crash is the run's."""
    own = os.getpid()
    result, result_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        die_with_parent(own)
        try:
            os.environ["TVM_NUM_THREADS"] = str(go["threads"])  # read when the first parallel loop starts the pool
            if go["realtime"]:
                realtime.hold_cores(go["threads"])
            answer = measured(library, arguments, go)
        except Exception as error:
            answer = {"status": "error", "detail": f"{type(error).__name__}: {error}".strip()[:300]}
        os.write(result_in, json.dumps(answer).encode())
        os._exit(0)
    os.close(result_in)
    content = b""
    while part := os.read(result, 1 << 16):
        content += part
    os.close(result)
    _, status = os.waitpid(pid, 0)
    if not content:
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {status >> 8}"
        return {"status": "crash", "detail": how}
    found: dict[str, Any] = json.loads(content)
    return found


def _line_of_stdin() -> bytes:
    """Read past Python's own buffer, which may hold what the zygote has read ahead."""
    line = b""
    while not line.endswith(b"\n"):
        if not (part := os.read(0, 1 << 16)):
            os._exit(0)
        line += part
    return line


def measured(library: Any, arguments: Sequence[Any], go: Mapping[str, Any]) -> dict[str, Any]:
    """One warm run, and the repeats where it is not far behind the best. All times are seconds of one call.

    `waited`: seconds that the threads were ready to run but had no core, as a share of the time of the repeats.
    Repeats that spread over 10 % are taken once more, and the calmer ones count.
    """
    import tvm

    from kernelwright.tuner.scheduling import waited_seconds

    function, best = library.get_function("main"), go["best"]
    once = _timed(function, arguments)
    if best is not None and once > 5.0 * best:
        if once < 0.1:  # the start of the threads, or a neighbour, may have been the reason
            once = min(once, _timed(function, arguments))
        if once > 5.0 * best:
            return {"status": "slow", "seconds": [], "once": once, "waited": 0.0}
    evaluate = library.time_evaluator("main", tvm.cpu(), 1, go["repeats"], min_repeat_ms=go["repeat_ms"])
    attempts = []
    for _ in range(2):
        begun, waited = time.monotonic(), waited_seconds()
        seconds = [float(value) for value in evaluate(*arguments).results]
        share = (waited_seconds() - waited) / (time.monotonic() - begun)
        attempts.append((max(seconds) / min(seconds) - 1.0, seconds, share))
        if attempts[-1][0] < 0.1 or min(seconds) > 0.2:
            break
    _, seconds, share = min(attempts)
    return {"status": "ok", "seconds": seconds, "once": once, "waited": round(share, 4)}


def _timed(function: Any, arguments: Sequence[Any]) -> float:
    begun = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begun


def _write(output: Any, message: Mapping[str, object]) -> None:
    output.write(json.dumps(message) + "\n")
    output.flush()
