"""`kernelwright check`: what is found, as text or JSON. Starts no torch: its numbers are those already known."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.server.cli.target import add_rules, add_verb, existing, interpreter_of, problem, rules_of, settings_of
from kernelwright.server.files import FileError, decode, mentions_torch, read_bytes, walk
from kernelwright.server.findings import finding
from kernelwright.server.interpreter import Interpreter
from kernelwright.server.numbers import ratio

if TYPE_CHECKING:
    from kernelwright.analyzers.analysis import FileAnalysis
    from kernelwright.server.measurements import Measurements

FINDINGS = frozenset({"exact", "guarded", "assumed", "bug"})
"""Tiers that are printed and make the exit status 1; advice is printed on request and never does."""

MANY_FILES = 8
"""From how many files on a second process pays its start."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A file's findings as JSON objects (advice and declined ones apart), or why it could not be read."""

    path: str
    rows: tuple[dict[str, Any], ...] = ()
    advice: tuple[dict[str, Any], ...] = ()
    declined: tuple[dict[str, Any], ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Checker:
    """Checks one file; picklable, so that another process can."""

    interpreter: Interpreter
    rules: frozenset[str] | None
    records: Path
    advice: bool = False

    def __call__(self, path: Path) -> Checked:
        try:
            raw = read_bytes(path)
            if not mentions_torch(raw):
                return Checked(str(path))
            source = decode(path, raw)
        except FileError as error:
            return Checked(str(path), error=str(error))
        from kernelwright.analyzers.analysis import analyse

        try:
            analysis = analyse(source.text, str(path), settings_of(self.interpreter, self.rules, advice=self.advice))
            if analysis.error is not None:
                return Checked(str(path), error=analysis.error)
            return _rows(str(path), analysis, _measurements(self.interpreter, self.records))
        except Exception as error:  # a fault of ours in one file must not hide the others' findings
            return Checked(str(path), error=f"internal error: {type(error).__name__}: {error}")


@functools.cache
def _measurements(interpreter: Interpreter, records: Path) -> Measurements:
    """Once a process."""
    from kernelwright.server.measurements import Measurements, open_records

    return Measurements(interpreter, open_records(records), lambda line: None)


def _rows(path: str, analysis: FileAnalysis, measurements: Measurements) -> Checked:
    from kernelwright.server.measurements import work_key

    keyed = [(opportunity, work_key(opportunity)) for opportunity in analysis.opportunities]
    work = [(key, o.workload) for o, key in keyed if key is not None and o.workload is not None]
    measurements.look_up(work, assume=False)
    rows = [(o.tier, finding(o, measurements.known(key).best)) for o, key in keyed]
    return Checked(
        path,
        tuple(row for tier, row in rows if tier in FINDINGS),
        tuple(row for tier, row in rows if tier not in FINDINGS),
        tuple(finding(o, None) for o in analysis.declined),
    )


def checked(paths: list[Path], checker: Checker) -> Iterator[Checked]:
    """Every file checked, in order; by two processes where there are many."""
    if len(paths) < MANY_FILES or (os.cpu_count() or 1) < 2:
        yield from map(checker, paths)
        return
    with ProcessPoolExecutor(2) as pool:
        yield from pool.map(checker, paths, chunksize=2)


def add(verbs: Any) -> None:
    parser = add_verb(
        verbs, "check", run, "List what an optimized kernel can replace. Exit status 1 if there is something."
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a Python file, or a folder to search")
    parser.add_argument("--format", choices=("text", "json", "jsonl"), default="text")
    parser.add_argument("--advice", action="store_true", help="also advice: worth a thought, in no fix-all")
    parser.add_argument(
        "--show-declined", action="store_true", help="also places where a condition is violated, and why"
    )
    parser.add_argument("--exit-zero", action="store_true", help="exit with 0 also where there are findings")
    add_rules(parser)


def run(options: argparse.Namespace) -> int:
    from kernelwright.tuner.records import default_path

    interpreter = interpreter_of(options)
    checker = Checker(interpreter, rules_of(options), default_path(), options.advice)
    paths = list(walk(existing(options.paths), problem))
    found = False
    collected: list[dict[str, Any]] = []
    totals: dict[str, int] = {}
    for result in checked(paths, checker):
        if result.error is not None:
            problem(result.path, result.error)
        found |= bool(result.rows)
        shown = sorted(
            [
                *((row, False) for row in result.rows),
                *((row, False) for row in result.advice if options.advice),
                *((row, True) for row in result.declined if options.show_declined),
            ],
            key=lambda pair: (pair[0]["start_line"], pair[0]["start_column"]),
        )
        for row, declined in shown:
            kind = "declined" if declined else str(row["tier"])
            totals[kind] = totals.get(kind, 0) + 1
            if options.format == "jsonl":
                print(json.dumps(row))
            elif options.format == "text":
                print("\n".join(text(row, kind)))
        collected += [row for row, _ in shown] if options.format == "json" else []
    if options.format == "json":
        print(json.dumps(collected, indent=2))
    elif options.format == "text":
        print(summary(totals, len(paths)), file=sys.stderr)
    return 1 if found and not options.exit_zero else 0


def text(row: dict[str, Any], kind: str) -> Iterable[str]:
    """A finding for people: its place, rule, message, tier and number, then the conditions that are not proven."""
    gain = row["gain"]
    number = ""
    if gain is not None:
        mark = "~" if gain["basis"] == "predicted" else ""
        number = f" {mark}{ratio(gain['value'])} {gain['basis']}"
    yield f"{row['file']}:{row['start_line']}:{row['start_column']}: {row['rule']}: {row['message']} [{kind}]{number}"
    for condition in row["conditions"]:
        if condition["state"] != "proven":
            yield f"    {condition['state']}: {condition['text']}"


def summary(totals: dict[str, int], files: int) -> str:
    """The last line of the text: `3 findings (2 exact, 1 guarded) in 5 files`."""
    count = sum(totals.values())
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(totals.items()))
    where = f"{files} file{'' if files == 1 else 's'}"
    if not count:
        return f"nothing found in {where}"
    return f"{count} finding{'' if count == 1 else 's'} ({kinds}) in {where}"
