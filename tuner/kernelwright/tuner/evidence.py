"""What the tuner says about a workload: counts, gains and verifications, each with its basis. Plain data, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["predicted", "measured", "tuned"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures that cannot be noisy, for one run of a program.

    operations: kernels launched (views not counted). bytes_moved: bytes read and written by them. bytes_saved: bytes
    kept for the backward pass (training only, else 0).
    """

    operations: int
    bytes_moved: int
    bytes_saved: int


@dataclass(frozen=True, slots=True)
class Gain:
    """Speed-up of after over before (before seconds / after seconds) with its interval and where it comes from.

    `value` is None where timing was refused; `reason` then says why ("too noisy: A/A control 1.12"). `date` is
    ISO-8601. Seconds are medians. `device` is for people ("Intel Xeon 2.6 GHz, 2 threads"), `fingerprint` for keys.
    """

    value: float | None
    low: float | None
    high: float | None
    basis: Basis
    device: str
    shapes: str
    dtype: str
    mode: str
    date: str
    before_seconds: float | None = None
    after_seconds: float | None = None
    counts_before: Counts | None = None
    counts_after: Counts | None = None
    control: float | None = None
    fingerprint: str = ""
    reason: str | None = None

    @property
    def worth_showing(self) -> bool:
        """False for a measured tie or loss, or where no number could be had: the hint is withdrawn or bare."""
        return self.value is not None and self.low is not None and self.low > 1.0


@dataclass(frozen=True, slots=True)
class Case:
    """One leg of a verification: a mode and input case, the errors against the fp64 oracle, and the verdict."""

    name: str
    equal: bool
    error_before: float
    error_after: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """Did both programs run equal? `equal` is None where they could not be run; `reason` says why."""

    equal: bool | None
    cases: tuple[Case, ...] = ()
    reason: str | None = None
