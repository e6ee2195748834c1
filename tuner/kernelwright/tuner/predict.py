"""A gain before anything has run: a roofline estimate from shapes and the device's figures. No torch here.

Eager torch pays for each launch the longest of its matrix products, its bytes and its hard functions, and the dispatch.
"""

from __future__ import annotations

import datetime
import itertools
import math

from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.costs import Launch, launches
from kernelwright.tuner.devices import Device
from kernelwright.tuner.evidence import Counts, Gain
from kernelwright.tuner.values import ShapeError

SPREAD = 1.5
"""A prediction's interval is the value over and times this: the measured gains of the tests' programs lie within."""

SPREAD_TRAINING = 1.9
"""The backward is estimated by factors of the forward: wider."""

SPREAD_UNPROBED = 1.4
"""Another factor where the device's figures are assumed, not measured."""


def predict(workload: Workload, device: Device) -> Gain:
    """The estimated gain of `workload` on `device`; `value` is None with a reason where an operation has no known cost.

    The estimate takes float32's peak for every element type; it does not know autocast's casts, so that mode's
    interval is as wide as training's.
    """
    try:
        before = _launches(workload, after=False)
        after = _launches(workload, after=True)
    except ShapeError as error:
        return _gain(workload, device, None, reason=f"no estimate: {error}")
    old, new = (sum(seconds(launch, device) for launch in made) for made in (before, after))
    if new <= 0 or old <= 0:
        return _gain(workload, device, None, reason="no estimate: nothing is computed")
    counts = (
        Counts(len(before), round(sum(x.bytes for x in before)), 0),
        Counts(len(after), round(sum(x.bytes for x in after)), 0),
    )
    if [(x.operation, x.bytes) for x in before] == [(x.operation, x.bytes) for x in after]:
        old = new  # the kernel makes the same launches: a tie, whatever the figures say
    return _gain(workload, device, old / new, old, new, counts)


def seconds(launch: Launch, device: Device) -> float:
    """The time of one launch on `device`."""
    memory = launch.bytes / (bandwidth(launch.largest, device) * 1e9)
    product = launch.flops / (device.peak_gflops * launch.efficiency * 1e9)
    hard = launch.hard / (device.transcendental_gops * 1e9)
    return max(memory, product + hard if launch.flops else hard) + device.dispatch_us * 1e-6


def bandwidth(size: float, device: Device) -> float:
    """GB/s for tensors of `size` bytes: between the measured sizes by the logarithm of the size."""
    curve = device.bandwidth_by_size or ((1, device.bandwidth_gbs),)
    if size <= curve[0][0]:
        return curve[0][1]
    for (low, speed), (high, next_speed) in itertools.pairwise(curve):
        if size <= high:
            part = math.log(size / low) / math.log(high / low)
            return float(speed * (next_speed / speed) ** part)
    return curve[-1][1]


def _launches(workload: Workload, *, after: bool) -> list[Launch]:
    program = workload.after if after else workload.before
    return launches(program, gradients_of=workload.needs_gradient if workload.mode == "training" else ())


def _gain(
    workload: Workload,
    device: Device,
    value: float | None,
    before: float | None = None,
    after: float | None = None,
    counts: tuple[Counts, Counts] | None = None,
    reason: str | None = None,
) -> Gain:
    spread = (SPREAD if workload.mode == "eval" else SPREAD_TRAINING) * (1.0 if device.probed else SPREAD_UNPROBED)
    return Gain(
        value=value,
        low=None if value is None else value / spread,
        high=None if value is None else value * spread,
        basis="predicted",
        device=device.name,
        shapes=workload.shapes,
        dtype=workload.dtype,
        mode=workload.mode,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        before_seconds=before,
        after_seconds=after,
        counts_before=None if counts is None else counts[0],
        counts_after=None if counts is None else counts[1],
        fingerprint=device.fingerprint,
        reason=reason,
    )
