"""`kernelwright arch`: a file's functions in the architecture language, as the rules see them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kernelwright.analyzers.architecture import Program, print_program
from kernelwright.server.cli.target import UsageError, add_verb, read_target


def add(verbs: Any) -> None:
    parser = add_verb(verbs, "arch", run, "Print the programs that a file's modules and functions mean.", python=False)
    parser.add_argument("target", metavar="FILE[::Class]", help="a file, or a class or function in it")
    parser.add_argument("--stats", action="store_true", help="how much is understood, and why the rest is not")


def run(options: argparse.Namespace) -> int:
    from kernelwright.analyzers.analysis import analyse, programs

    source, qualified = read_target(options.target)
    if (error := analyse(source.text, str(source.path)).error) is not None:
        raise UsageError(f"{source.path}: {error}")
    try:
        found = programs(source.text, str(source.path), qualified)
    except KeyError as error:
        raise UsageError(f"{source.path}: there is no class or function {qualified}") from error
    print(statistics(found) if options.stats else "\n".join(print_program(p, spans=False) for p in found), end="")
    return 0


def statistics(found: Iterable[Program]) -> str:
    """Per program the operations and how many are opaque, then the reasons with their counts."""
    reasons: Counter[str] = Counter()
    lines = []
    total = opaque_total = 0
    for program in found:
        operations = [node for node in program.nodes() if node.operation != "input"]
        opaque = [node for node in operations if node.operation == "opaque"]
        reasons.update(str(node.attribute("reason")) for node in opaque)
        total += len(operations)
        opaque_total += len(opaque)
        lines.append(f"{program.name}: {len(operations)} operations, {len(opaque)} opaque")
    share = 100.0 * (total - opaque_total) / total if total else 100.0
    lines.append(f"all: {total} operations, {opaque_total} opaque: {share:.1f} % understood")
    lines += [f"  {count} x {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines) + "\n"
