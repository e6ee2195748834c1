"""`kernelwright explain`: the page of a rule, or how far the matching got on a line and what blocked it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from kernelwright.server.card import Proof, card, plain
from kernelwright.server.cli.target import UsageError, add_verb, analysed, interpreter_of, read_target, settings_of
from kernelwright.server.measurements import Measurements, open_records, work_key


def add(verbs: Any) -> None:
    parser = add_verb(verbs, "explain", run, "Explain a rule, or what is (or is not) found on a line.")
    parser.add_argument("subject", metavar="RULE | FILE:LINE", help="a rule's name, or a place")


def run(options: argparse.Namespace) -> int:
    place = re.fullmatch(r"(.+):(\d+)", options.subject)
    if place is not None and Path(place.group(1)).is_file():
        print(_line(place.group(1), int(place.group(2)), options))
        return 0
    from kernelwright.analyzers.rules.loader import rules

    pages = {rule.name: rule.page for rule in rules()}
    if options.subject not in pages:
        raise UsageError(
            f"{options.subject} is neither FILE:LINE nor a rule; the rules are: {', '.join(sorted(pages))}"
        )
    print(pages[options.subject].rstrip())
    return 0


def _line(name: str, line: int, options: argparse.Namespace) -> str:
    """The cards of the findings on a line, and what the matcher says of it."""
    from kernelwright.analyzers.analysis import Withheld, edits, explain_line

    interpreter = interpreter_of(options)
    settings = settings_of(interpreter, advice=True)
    source, _ = read_target(name)
    analysis, _ = analysed(name, settings)
    measurements = Measurements(interpreter, open_records(), lambda text: None)
    parts = []
    for opportunity in (*analysis.opportunities, *analysis.declined):
        if not opportunity.span.start_line <= line <= opportunity.span.end_line:
            continue
        proof = None
        if opportunity.declined is None and opportunity.has_edit:
            try:
                edits(analysis, opportunity)
                proof = Proof()
            except Withheld as reason:
                proof = Proof(str(reason))
        key = work_key(opportunity)
        if key is not None and opportunity.workload is not None:
            measurements.look_up([(key, opportunity.workload)], assume=True)
        parts.append(card(opportunity, measurements.known(key), proof=proof))
    if parts:
        return plain("\n\n---\n\n".join(parts))
    return explain_line(source.text, name, line, settings).rstrip()
