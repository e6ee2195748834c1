"""What is known of one workload on this machine, and what follows for the hint: shown, bare, or withdrawn."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from kernelwright.tuner.evidence import Gain, Verification


@dataclass(frozen=True, slots=True)
class Numbers:
    """The figures of a workload: each is None until it is had. `failure` says in a line why a measurement failed."""

    predicted: Gain | None = None
    measured: Gain | None = None
    verification: Verification | None = None
    failure: str | None = None

    @property
    def best(self) -> Gain | None:
        """The gain to show: measured or tuned where timing gave a value, else predicted, else None."""
        if self.measured is not None and self.measured.value is not None:
            return self.measured
        if self.predicted is not None and self.predicted.value is not None:
            return self.predicted
        return None

    @property
    def withdrawn(self) -> str | None:
        """Why the hint is withdrawn: a measured tie or loss, or programs that did not run equal. None: it stands.

        A prediction withdraws nothing, and neither does a measurement that was too noisy for a value.
        """
        if self.verification is not None and self.verification.equal is False:
            return "the two did not run equal here, so no fix is offered"
        gain = self.measured
        if gain is not None and gain.value is not None and not gain.worth_showing:
            return f"tried here: {ratio(gain.value)}, not worth it"
        return None

    @property
    def unequal(self) -> bool:
        """True where a verification ran and found a difference: then nothing may be offered at all."""
        return self.verification is not None and self.verification.equal is False


NOTHING = Numbers()


def ratio(value: float) -> str:
    """A speed-up for people: `0.98×`, `2.4×`, `12×`; two decimals where one would hide which side of 1 it is on."""
    if value >= 9.95:
        return f"{value:.0f}×"
    return f"{value:.2f}×" if value < 1.095 else f"{value:.1f}×"


def gain_label(gain: Gain) -> str:
    """`2.4×` measured or tuned, `~2.1×` predicted. The gain has a value."""
    assert gain.value is not None
    return ("~" if gain.basis == "predicted" else "") + ratio(gain.value)


def interval(gain: Gain) -> str:
    """`2.1× to 2.7×`, or nothing where there is no interval."""
    if gain.low is None or gain.high is None:
        return ""
    return f"{ratio(gain.low)} to {ratio(gain.high)}"


def seconds(value: float) -> str:
    """A time for people, three significant digits: `1.23 ms`."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1.0:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def when(date: str) -> str:
    """An ISO-8601 date and time as the user's clock shows it, to the minute; other text as it is."""
    try:
        return datetime.datetime.fromisoformat(date).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return date


def size(count: int) -> str:
    """A number of bytes for people: `12.6 MB` (decimal units)."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000.0:
            return f"{amount:.3g} {unit}"
        amount /= 1000.0
    return f"{amount:.3g} TB"
