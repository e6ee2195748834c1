"""What a verb works on, from its arguments: files, `FILE::Name` targets, rules, the interpreter and the settings."""

from __future__ import annotations

import argparse
import atexit
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.server.files import FileError, SourceText, read_source
from kernelwright.server.interpreter import Interpreter, choose

if TYPE_CHECKING:
    from kernelwright.analyzers.analysis import FileAnalysis, Settings
    from kernelwright.analyzers.opportunity import Opportunity
    from kernelwright.analyzers.resolve import JediResolver


class UsageError(Exception):
    """The command line asks for something that cannot be; exit status 2. The message says what and what to do."""


def add_verb(
    verbs: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str, *, python: bool = True
) -> argparse.ArgumentParser:
    """Add a verb's parser; `python` gives it the option that chooses the interpreter."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    if python:
        parser.add_argument(
            "--python",
            metavar="PROGRAM",
            help="the interpreter whose torch counts (default: this one if it has torch, "
            "else .venv or venv here, else the active environment)",
        )
    return parser


def add_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rules", metavar="A,B", help="only these rules")


def interpreter_of(options: argparse.Namespace) -> Interpreter:
    """The interpreter that `--python` names, else the default one."""
    return choose((options.python,) if options.python else (), [Path.cwd()])


def rules_of(options: argparse.Namespace) -> frozenset[str] | None:
    """The rules that `--rules` names, None for all.

    Raises:
        UsageError: an unknown name.
    """
    if not options.rules:
        return None
    from kernelwright.analyzers.rules.loader import rules

    known = {rule.name for rule in rules()}
    named = frozenset(name.strip() for name in options.rules.split(",") if name.strip())
    if unknown := sorted(named - known):
        raise UsageError(f"no rule {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
    return named


def settings_of(interpreter: Interpreter, rules: frozenset[str] | None = None, *, advice: bool = False) -> Settings:
    """The analyzers' settings. Names in other files are looked up for the interpreter's packages."""
    from kernelwright.analyzers.analysis import Settings

    return Settings(
        torch_version=interpreter.torch_version,
        rules=rules,
        resolver=_resolver(interpreter),
        advice=advice,
        packages=interpreter.packages,
        torch_build=interpreter.torch_build,
    )


@functools.cache
def _resolver(interpreter: Interpreter) -> JediResolver:
    """One a process, with one helper process; it ends with us."""
    from kernelwright.server.resolving import resolver_of

    made = resolver_of(interpreter)
    atexit.register(made.close)
    return made


def existing(paths: list[str]) -> list[str]:
    """The paths, which must all be there.

    Raises:
        UsageError: one is not.
    """
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"{path}: no such file or folder")
    return paths


def problem(path: str | Path, reason: str) -> None:
    """Tell on stderr what is wrong with a file; the others go on."""
    print(f"{path}: {reason}", file=sys.stderr)


def split_target(target: str) -> tuple[Path, str | None]:
    """`FILE` or `FILE::Class` or `FILE::Class.method` as file and qualified name.

    Raises:
        UsageError: the file is not there.
    """
    name, separator, qualified = target.partition("::")
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"{name}: no such file")
    if separator and not qualified:
        raise UsageError(f"{target}: a class or function is missing behind ::")
    return path, qualified or None


def read_target(target: str) -> tuple[SourceText, str | None]:
    """The text of a target and its qualified name.

    Raises:
        UsageError: the file is not there, or cannot be read.
    """
    path, qualified = split_target(target)
    try:
        return read_source(path), qualified
    except FileError as error:
        raise UsageError(f"{path}: {error}") from error


def analysed(target: str, settings: Settings) -> tuple[FileAnalysis, list[Opportunity]]:
    """A target's analysis, and its opportunities in the named class or function (all where none is named).

    Raises:
        UsageError: the file cannot be read or parsed, or holds nothing of that name with an opportunity.
    """
    from kernelwright.analyzers.analysis import analyse

    source, qualified = read_target(target)
    analysis = analyse(source.text, str(source.path), settings)
    if analysis.error is not None:
        raise UsageError(f"{source.path}: {analysis.error}")
    chosen = [
        opportunity
        for opportunity in analysis.opportunities
        if qualified is None
        or opportunity.qualified_name == qualified
        or opportunity.qualified_name.startswith(f"{qualified}.")
    ]
    if qualified is not None and not chosen:
        there = sorted({opportunity.qualified_name for opportunity in analysis.opportunities})
        raise UsageError(
            f"{source.path}: no opportunity in {qualified}; there are some in: {', '.join(there) or 'nothing'}"
        )
    return analysis, chosen


def columns(rows: list[tuple[str, ...]]) -> str:
    """Rows as aligned text columns."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
