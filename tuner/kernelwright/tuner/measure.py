"""How much faster is after than before, here? Paired, interleaved, warmed, with a control in the same run. Needs torch.

A round times before, after, before (the order alternates): the mean of the two befores over after is the round's gain,
so a drift of the machine within a round cancels, and one before over the other is the control. The gain is the median
over the rounds with the interval that order statistics give, widened by how far the control is from 1. Where control
or spread says that the machine was not quiet enough, or threads waited for a core, there is no number, only the reason.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.counts import count
from kernelwright.tuner.devices import device_name, fingerprint, machine
from kernelwright.tuner.evidence import Counts, Gain
from kernelwright.tuner.execute import Argument, Executable, NotExecutable, compile_program
from kernelwright.tuner.inputs import InputCase, build
from kernelwright.tuner.scheduling import QUIET, waited_seconds
from kernelwright.tuner.values import ShapeError
from kernelwright.tuner.verify import upstream

MINIMUM_ROUNDS = 6
"""With fewer, order statistics give no 95 % interval of a median."""

SAMPLE_SECONDS = 0.002
"""A sample repeats the program until it takes about this long: a clock read and a wake-up cost microseconds."""

CONTROL_LIMIT = 0.05
"""The control's median may be this far from 1."""

SPREAD_LIMIT = 0.4
"""The interval may be this wide relative to the gain."""

CLOSE_ENOUGH = 0.02
"""An interval this narrow ends the run before its budget."""

PATIENCE = 3.0
"""A busy machine is given this many budgets of time to become quiet."""

PAUSE_SECONDS = 0.2
"""After a round on a busy machine: what makes it busy (a build, a test run) comes in bursts."""

HOPELESS = 0.8
"""A gain whose interval ends below this is not measured any longer than needed."""


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of one run each: before, after, before again; and the share of it that threads waited for a core."""

    first: float
    after: float
    second: float
    waited: float = 0.0

    @property
    def gain(self) -> float:
        return (self.first + self.second) / 2 / self.after

    @property
    def control(self) -> float:
        return self.first / self.second


def measure(
    workload: Workload,
    *,
    budget_seconds: float = 6.0,
    progress: Callable[[str, float | None], None] = lambda message, fraction: None,
    check: Callable[[], None] = lambda: None,
) -> Gain:
    """The gain of `workload` in its mode; without a value where it cannot be had, with the reason.

    `budget_seconds` is for the rounds; warming up takes about a sixth of it before. `check` is called between rounds and
    may raise to cancel.
    """
    try:
        runs = _prepare(workload)
        progress("counting operations", 0.0)
        counts = runs.counts()
        check()
        repeats = _warm(runs, budget_seconds / 12, check)
    except (ShapeError, NotExecutable) as error:
        return _refused(workload, f"cannot be run alone: {error}")
    except torch.OutOfMemoryError:
        return _refused(workload, "does not fit into memory at these shapes; set smaller ones (kernelwright.batch)")
    except RuntimeError as error:  # torch's own errors; a cancel is none of them
        return _refused(workload, f"does not run: {str(error).splitlines()[0]}")
    rounds: list[Round] = []
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    started = time.monotonic()
    try:
        while not _enough(rounds, time.monotonic() - started, budget_seconds):
            check()
            rounds.append(_round(runs, repeats, swapped=bool(len(rounds) % 2)))
            spent = time.monotonic() - started
            progress(f"timing {workload.mode}: round {len(rounds)}", min(spent / budget_seconds, 1.0))
            if rounds[-1].waited > QUIET:
                progress("waiting for a quiet moment", min(spent / budget_seconds, 1.0))
                time.sleep(PAUSE_SECONDS)
    finally:
        if collecting:
            gc.enable()
    return _gain(workload, rounds, counts)


@dataclass(frozen=True, slots=True)
class Summary:
    """The gain over finished rounds with its interval, the control, and the reason to refuse it (None: it holds)."""

    value: float
    low: float
    high: float
    control: float
    reason: str | None


def summarise(rounds: Sequence[Round]) -> Summary:
    """What finished rounds say.

    Only rounds whose threads had their cores count, and of many the quieter half: those that took least in all. Which
    half that is says nothing of the ratio.
    """
    quiet = _quiet(rounds)
    counted = quiet if len(quiet) >= MINIMUM_ROUNDS else list(rounds)
    if len(counted) >= 2 * MINIMUM_ROUNDS:
        counted = sorted(counted, key=lambda r: r.first + r.after + r.second)[: (len(counted) + 1) // 2]
    gains = sorted(r.gain for r in counted)
    control = statistics.median(r.control for r in counted)
    value = statistics.median(gains)
    low, high = median_interval(gains)
    # a control off by 3 % means that a gain of 1.03 may be nothing
    off = abs(control - 1.0)
    low, high = low / (1 + off), high * (1 + off)
    reason = None
    if len(quiet) < MINIMUM_ROUNDS:
        waited = f"{len(rounds) - len(quiet)} of {len(rounds)} rounds"
        reason = f"too noisy: the machine is busy, threads waited for a core in {waited}"
    elif off > CONTROL_LIMIT:
        reason = f"too noisy: A/A control {control:.2f}"
    elif (high - low) / value > SPREAD_LIMIT:
        reason = f"too noisy: between {low:.2f} and {high:.2f} over {len(counted)} rounds"
    return Summary(value, low, high, control, reason)


def _quiet(rounds: Sequence[Round]) -> list[Round]:
    return [r for r in rounds if r.waited <= QUIET]


def median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median by order statistics: no assumption on the distribution, the same at each call."""
    n = len(ordered)
    below, rank = 0.0, 0
    while rank < n // 2:
        below += math.comb(n, rank) / 2**n
        if below > 0.025:
            break
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[n - 1 - rank]


class _Runs:
    """Both programs bound to their inputs in the workload's mode."""

    def __init__(
        self, workload: Workload, before: Executable, after: Executable, arguments: Sequence[Argument]
    ) -> None:
        self._mode = workload.mode
        names = [str(node.attribute("name")) for node in workload.before.inputs]
        wanted = [self._mode == "training" and name in workload.needs_gradient for name in names]
        self._arguments = tuple(
            a.requires_grad_(w) if isinstance(a, torch.Tensor) else a for a, w in zip(arguments, wanted, strict=True)
        )
        self._leaves = [a for a, w in zip(self._arguments, wanted, strict=True) if w and isinstance(a, torch.Tensor)]
        self._functions = (before.function, after.function)
        self._upstream: tuple[torch.Tensor, ...] | None = None

    def seconds(self, which: int, repeats: int) -> float:
        """Seconds of one run of program `which` (0 before, 1 after), averaged over `repeats` in a row."""
        function, arguments = self._functions[which], self._arguments
        with self._context():
            start = time.perf_counter()
            if self._mode == "training":
                for _ in range(repeats):
                    self._backward(lambda: function(*arguments))
            else:
                for _ in range(repeats):
                    function(*arguments)
            return (time.perf_counter() - start) / repeats

    def counts(self) -> tuple[Counts, Counts]:
        with self._context():
            self._backward_targets(self._functions[0](*self._arguments))
            both = [
                count(
                    self._backward if self._mode == "training" else lambda forward: forward(),
                    lambda function=function: function(*self._arguments),  # type: ignore[misc]
                )
                for function in self._functions
            ]
        return both[0], both[1]

    def _backward(self, forward: Callable[[], object]) -> None:
        targets = self._backward_targets(forward())
        if targets:
            assert self._upstream is not None
            torch.autograd.grad(targets, self._leaves, self._upstream, allow_unused=True)

    def _backward_targets(self, result: object) -> list[torch.Tensor]:
        """The outputs that carry a gradient; the upstream ones are made once, outside the timing."""
        outputs = result if isinstance(result, tuple | list) else (result,)
        targets = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
        if self._upstream is None and targets:
            self._upstream = tuple(upstream(t) for t in targets)
        return targets

    def _context(self) -> contextlib.AbstractContextManager[object]:
        if self._mode == "training":
            return contextlib.nullcontext()
        stack = contextlib.ExitStack()
        stack.enter_context(torch.no_grad())
        if self._mode == "autocast":
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        return stack


def _prepare(workload: Workload) -> _Runs:
    arguments = build(workload, InputCase("normal"), training=workload.mode == "training")
    autocast = workload.mode == "autocast"
    before = compile_program(workload.before, arguments, autocast=autocast)
    after = compile_program(workload.after, arguments, autocast=autocast)
    return _Runs(workload, before, after, arguments)


def _warm(runs: _Runs, seconds: float, check: Callable[[], None]) -> tuple[int, int]:
    """Warms each program up for about `seconds` and gives how often it runs in a sample.

    The first runs pay for page faults, thread start and the allocator's growth: twice the time of the tenth is usual.
    """
    repeats = []
    for which in (0, 1):
        begun = time.perf_counter()
        once, runs_made = runs.seconds(which, 1), 1
        while runs_made < 3 or (time.perf_counter() - begun < seconds and runs_made < 50):
            check()
            once = min(once, runs.seconds(which, 1))
            runs_made += 1
        repeats.append(max(1, round(SAMPLE_SECONDS / max(once, 1e-7))))
    return repeats[0], repeats[1]


def _round(runs: _Runs, repeats: tuple[int, int], *, swapped: bool) -> Round:
    # `swapped` exchanges the roles of the two befores, so that "first in a round" is no property of one side of the
    # control.
    waited, start = waited_seconds(), time.perf_counter()
    a, x, b = runs.seconds(0, repeats[0]), runs.seconds(1, repeats[1]), runs.seconds(0, repeats[0])
    share = (waited_seconds() - waited) / (time.perf_counter() - start)
    return Round(b, x, a, share) if swapped else Round(a, x, b, share)


def _enough(rounds: Sequence[Round], spent: float, budget: float) -> bool:
    quiet = _quiet(rounds)
    if len(quiet) < MINIMUM_ROUNDS:
        # a slow program or a busy machine; if that does not change there is no number
        return spent > PATIENCE * budget
    if spent > budget:
        return True
    if len(quiet) < 2 * MINIMUM_ROUNDS:
        return median_interval(sorted(r.gain for r in quiet))[1] < HOPELESS
    found = summarise(rounds)
    return found.reason is None and (found.high - found.low) / found.value < CLOSE_ENOUGH


def _gain(workload: Workload, rounds: Sequence[Round], counts: tuple[Counts, Counts]) -> Gain:
    if len(rounds) < MINIMUM_ROUNDS:
        return _refused(workload, f"too slow to time within the budget: {len(rounds)} rounds", counts)
    found = summarise(rounds)
    before = statistics.median((r.first + r.second) / 2 for r in rounds)
    after = statistics.median(r.after for r in rounds)
    if found.reason is not None:
        return _refused(workload, found.reason, counts, found.control, before, after)
    return _filled(workload, (found.value, found.low, found.high), None, counts, found.control, before, after)


def _refused(
    workload: Workload,
    reason: str,
    counts: tuple[Counts, Counts] | None = None,
    control: float | None = None,
    before: float | None = None,
    after: float | None = None,
) -> Gain:
    return _filled(workload, (None, None, None), reason, counts, control, before, after)


def _filled(
    workload: Workload,
    interval: tuple[float | None, float | None, float | None],
    reason: str | None,
    counts: tuple[Counts, Counts] | None,
    control: float | None,
    before: float | None,
    after: float | None,
) -> Gain:
    version = str(torch.__version__)
    this = machine()
    return Gain(
        value=interval[0],
        low=interval[1],
        high=interval[2],
        basis="measured",
        device=device_name(this, torch.get_num_threads()),
        shapes=workload.shapes,
        dtype=workload.dtype,
        mode=workload.mode,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        before_seconds=before,
        after_seconds=after,
        counts_before=None if counts is None else counts[0],
        counts_after=None if counts is None else counts[1],
        control=control,
        fingerprint=fingerprint(version, this),
        reason=reason,
    )
