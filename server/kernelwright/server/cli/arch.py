"""`kernelwright arch`: a file's functions in the architecture language, as the rules see them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.server.cli.target import UsageError, add_verb, interpreter_of, problem, read_target, settings_of

if TYPE_CHECKING:
    from kernelwright.analyzers.coverage import Coverage

COMMONEST = 20
"""Causes that `--stats` lists."""


def add(verbs: Any) -> None:
    parser = add_verb(verbs, "arch", run, "Print the programs that a file's modules and functions mean.")
    parser.add_argument("targets", metavar="FILE[::Class]", nargs="+", help="files, or a class or function in one")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="how much is understood, and why the rest is not: in the forward methods of files and folders, or in what is named",
    )


def run(options: argparse.Namespace) -> int:
    if options.stats:
        return print_statistics(options)
    from kernelwright.analyzers.analysis import analyse, programs
    from kernelwright.analyzers.architecture import print_program

    for target in options.targets:
        source, qualified = read_target(target)
        if (error := analyse(source.text, str(source.path)).error) is not None:
            raise UsageError(f"{source.path}: {error}")
        try:
            found = programs(source.text, str(source.path), qualified)
        except KeyError as error:
            raise UsageError(f"{source.path}: there is no class or function {qualified}") from error
        print("\n".join(print_program(p, spans=False) for p in found), end="")
    return 0


def print_statistics(options: argparse.Namespace) -> int:
    from kernelwright.analyzers.analysis import programs
    from kernelwright.analyzers.coverage import Coverage, forward_programs
    from kernelwright.analyzers.source import SourceError, mentions_torch
    from kernelwright.server.files import FileError, read_source, walk

    settings = settings_of(interpreter_of(options))
    total = Coverage()
    files = 0
    for target in options.targets:
        if "::" in target:
            source, qualified = read_target(target)
            try:
                found = programs(source.text, str(source.path), qualified, settings)
            except (KeyError, SourceError) as error:
                raise UsageError(f"{source.path}: {error}") from error
            files += 1
            for program in found:
                total.add(program)
            continue
        if not Path(target).exists():
            raise UsageError(f"{target}: no such file or folder")
        for path in walk([target], problem):
            try:
                text = read_source(path).text
                if not mentions_torch(text):
                    continue
                for program in forward_programs(text, str(path), settings.resolver):
                    total.add(program)
                files += 1
            except (FileError, SourceError) as error:
                problem(path, str(error))
    print(statistics(total, files), end="")
    return 0


def statistics(coverage: Coverage, files: int) -> str:
    """The share that is understood, then the commonest causes with their counts and an example each."""
    lines = [
        f"{files} files, {coverage.programs} functions: {coverage.operations} operations, {coverage.opaque} opaque: "
        f"{coverage.understood:.1f} % understood",
        f"{coverage.closed} of the operations are calls of functions and submodules that are known but not looked into",
    ]
    for reason, count in coverage.causes.most_common(COMMONEST):
        example = coverage.examples[reason]
        lines.append(f"  {count} x {reason}" + (f": {example}" if example else ""))
    return "\n".join(lines) + "\n"
