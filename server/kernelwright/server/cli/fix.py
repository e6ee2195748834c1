"""`kernelwright fix`: apply the fixes. Exact and guarded ones; with `--unsafe` also those the user must vouch for."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.server.cli.target import add_rules, add_verb, existing, interpreter_of, problem, rules_of, settings_of
from kernelwright.server.files import FileError, decode, mentions_torch, read_bytes, split_lines, walk, write_source

if TYPE_CHECKING:
    from kernelwright.analyzers.analysis import Settings
    from kernelwright.analyzers.opportunity import FixResult, Tier


def add(verbs: Any) -> None:
    parser = add_verb(verbs, "fix", run, "Apply the fixes, or show them. Only files that change are written.")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a Python file, or a folder to search")
    parser.add_argument("--diff", action="store_true", help="print the changes, write nothing")
    parser.add_argument("--unsafe", action="store_true", help="also fixes with a condition that you must know to hold")
    add_rules(parser)


def run(options: argparse.Namespace) -> int:
    rules = rules_of(options)
    settings = settings_of(interpreter_of(options), rules)
    tiers: frozenset[Tier] = frozenset({"exact", "guarded", "assumed"} if options.unsafe else {"exact", "guarded"})
    fixes = 0
    for path in walk(existing(options.paths), problem):
        try:
            fixes += _fix(path, settings, tiers, rules, diff=options.diff)
        except FileError as error:
            problem(path, str(error))
        except Exception as error:  # a fault of ours in one file must not keep the others from being fixed
            problem(path, f"internal error, not changed: {type(error).__name__}: {error}")
    if not options.diff:
        print(f"{fixes} fix{'' if fixes == 1 else 'es'} applied", file=sys.stderr)
    return 0


def _fix(path: Path, settings: Settings, tiers: frozenset[Tier], rules: frozenset[str] | None, *, diff: bool) -> int:
    """Fix one file; returns how many fixes were made."""
    raw = read_bytes(path)
    if not mentions_torch(raw):
        return 0
    source = decode(path, raw)
    from kernelwright.analyzers.analysis import analyse, fix

    if (error := analyse(source.text, str(path), settings).error) is not None:
        raise FileError(error)
    result = fix(source.text, str(path), settings, tiers, rules)
    for opportunity, reason in result.withheld:
        place = f"{path}:{opportunity.span.start_line}"
        problem(place, f"{opportunity.rule} in {opportunity.qualified_name} not applied: {reason}")
    if result.text == source.text:
        return 0
    if diff:
        sys.stdout.write("".join(differences(str(path), source.text, result.text)))
    else:
        write_source(source, result.text)
        print(f"{path}: {_listed(result)}")
    return len(result.applied)


def _listed(result: FixResult) -> str:
    return ", ".join(f"{o.rule} in {o.qualified_name}" for o in result.applied)


def differences(name: str, old: str, new: str) -> Iterator[str]:
    """A unified diff that `patch -p1` and `git apply` take, line ends as in the file."""
    name = name.lstrip("/")
    for line in difflib.unified_diff(split_lines(old), split_lines(new), f"a/{name}", f"b/{name}"):
        yield line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n"
