"""`kernelwright tune`: verify and measure every opportunity of a file now, and print the table."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from kernelwright.analyzers.opportunity import Opportunity
from kernelwright.server.card import TUNE_HEADER, tune_row
from kernelwright.server.cli.target import add_verb, analysed, columns, interpreter_of, settings_of
from kernelwright.server.measurements import Measurements, open_records, work_key
from kernelwright.server.numbers import when


def add(verbs: Any) -> None:
    parser = add_verb(verbs, "tune", run, "Measure before against after of every opportunity on this machine.")
    parser.add_argument("target", metavar="FILE[::Class]", help="a file, or a class or function in it")
    parser.add_argument(
        "--budget", type=float, default=6.0, metavar="SECONDS", help="how long measuring one may take (default: 6)"
    )


def run(options: argparse.Namespace) -> int:
    interpreter = interpreter_of(options)
    _, chosen = analysed(options.target, settings_of(interpreter))
    if not chosen:
        print("nothing found that a known kernel computes")
        return 0
    measurements = Measurements(interpreter, open_records(), _log)
    return asyncio.run(_tune(measurements, chosen, options.budget))


def _log(line: str) -> None:
    print(line, file=sys.stderr)


async def _tune(measurements: Measurements, chosen: list[Opportunity], budget: float) -> int:
    rows: list[tuple[str, ...]] = [TUNE_HEADER]
    device = ""
    measured = 0
    try:
        await measurements.probe()
        for number, opportunity in enumerate(chosen):
            place = f"{opportunity.rule} in {opportunity.qualified_name}"
            show = _Progress(f"[{number + 1}/{len(chosen)}] {place}")
            key = work_key(opportunity)
            if key is not None and opportunity.workload is not None:
                show("", None)
                numbers = await measurements.measure(key, opportunity.workload, budget_seconds=budget, progress=show)
                if numbers.measured is not None and numbers.measured.value is not None:
                    measured += 1
                    gain = numbers.measured
                    device = f"{gain.device} · {gain.dtype} · {gain.mode} · against torch eager · {when(gain.date)}"
            show.done()
            rows.append(tune_row(opportunity, measurements.known(key)))
        unavailable = measurements.unavailable
    finally:
        await measurements.close()
    print(columns(rows))
    if device:
        print(f"\n{device}")
    if unavailable is not None:
        print(unavailable, file=sys.stderr)
    return 0 if measured or unavailable is None else 1


class _Progress:
    """One line on stderr that is written over, only where somebody watches."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._shown = sys.stderr.isatty()

    def __call__(self, message: str, fraction: float | None) -> None:
        if self._shown:
            part = "" if fraction is None else f" {100 * fraction:.0f} %"
            sys.stderr.write(f"\r\x1b[2K{self._title} {message}{part}"[:120])
            sys.stderr.flush()

    def done(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
