"""`kernelwright verify`: run before against after on generated inputs, in every mode, and list the cases."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from kernelwright.analyzers.opportunity import Opportunity
from kernelwright.server.card import NO_WORKLOAD
from kernelwright.server.cli.target import add_verb, analysed, columns, interpreter_of, problem, settings_of
from kernelwright.server.measurements import Measurements, open_records, work_key
from kernelwright.tuner.evidence import Verification


def add(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "verify",
        run,
        "Run the code before and after each fix on generated inputs. Exit status 1 if one differs.",
    )
    parser.add_argument("target", metavar="FILE[::Name]", help="a file, or a class or function in it")


def run(options: argparse.Namespace) -> int:
    interpreter = interpreter_of(options)
    _, chosen = analysed(options.target, settings_of(interpreter))
    if not chosen:
        print("nothing found to verify")
        return 0
    measurements = Measurements(interpreter, open_records(), lambda line: None)
    return asyncio.run(_verify(measurements, chosen))


async def _verify(measurements: Measurements, chosen: list[Opportunity]) -> int:
    held = True
    try:
        for opportunity in chosen:
            place = f"{opportunity.file}:{opportunity.span.start_line}"
            name = f"{opportunity.rule} in {opportunity.qualified_name}"
            key = work_key(opportunity)
            if key is None or opportunity.workload is None:
                problem(place, f"{name}: {NO_WORKLOAD}")
                held = False
                continue
            verification = (await measurements.verify(key, opportunity.workload)).verification
            assert verification is not None
            held &= verification.equal is True
            print(f"{place}: {name}: {verdict(verification)}")
            if verification.cases:
                print(columns(rows(verification)))
    finally:
        await measurements.close()
    return 0 if held else 1


def verdict(verification: Verification) -> str:
    if verification.equal is None:
        return f"could not be run: {verification.reason or 'no reason given'}"
    return "ran equal" if verification.equal else "DIFFERS"


def rows(verification: Verification) -> list[tuple[str, ...]]:
    """The table of cases: both programs' errors against the float64 oracle."""
    header = ("  case", "verdict", "error before", "error after", "")
    return [
        header,
        *(
            (
                f"  {case.name}",
                "equal" if case.equal else "DIFFERS",
                f"{case.error_before:.2g}",
                f"{case.error_after:.2g}",
                case.detail,
            )
            for case in verification.cases
        ),
    ]
