"""`kernelwright check` on every PyTorch modeling file of transformers 4.35.0: time, findings, what is not understood.

    python benchmarks/corpus/check_transformers.py [--fix] [--resolve] [--write]

Reads the corpus that `tests/cases/setup_corpus.sh` installs, in two processes. `--fix` also applies every fix and looks at the
result (it compiles, comments stay, a second time changes nothing); `--resolve` follows names into other files by jedi;
`--write` puts the tables into `docs/corpus.md`, between the marks of this program.
"""

from __future__ import annotations

import argparse
import ast
import functools
import statistics
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.analyzers.analysis import Settings, analyse, apply_edits, edits, fix
from kernelwright.analyzers.architecture import Program
from kernelwright.analyzers.architecture.operations import OPERATIONS
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.opportunity import Opportunity, Tier
from kernelwright.analyzers.resolve import JediResolver
from kernelwright.analyzers.source import Function, SourceFile, parse_source

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "cases"))
from corpus import CORPUS, comments, missing, modeling_files, read
from tables import machine, table, write_section

ALL_TIERS: frozenset[Tier] = frozenset({"exact", "guarded", "assumed"})
PLUMBING = frozenset({"tuple", "join", "item", "field", "choose", "raise"})
"""Structure that carries values about and computes nothing; not counted as operations."""


@dataclass
class Coverage:
    """How much of the `forward` functions is understood.

    `operations` of the programs, neither leaves nor plumbing; of these `opaque` are not understood themselves and
    `behind` read a value that hangs on one that is not. `written` counts calls and operators in the source of the same
    functions, `hidden` those that stand inside an expression or a loop that is one opaque operation.
    """

    functions: int = 0
    clear: int = 0
    operations: int = 0
    opaque: int = 0
    behind: int = 0
    written: int = 0
    hidden: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: Coverage) -> None:
        for name in ("functions", "clear", "operations", "opaque", "behind", "written", "hidden"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons += other.reasons


@dataclass(frozen=True)
class Finding:
    rule: str
    tier: Tier
    where: str
    reason: str | None = None
    """Why there is no fix; None: there is one."""


@dataclass(frozen=True)
class Report:
    """What one file gave. `seconds` is the analysis alone; `troubles` are crashes and faults of fixes."""

    path: str
    seconds: float
    findings: tuple[Finding, ...]
    coverage: Coverage
    troubles: tuple[str, ...]


def covered(source: SourceFile, function: Function, program: Program) -> Coverage:
    counted = Coverage(functions=1)
    tainted: set[int] = set()
    spans = []
    for node in program.nodes():
        opaque = node.operation == "opaque"
        behind = any(id(operand) in tainted for operand in node.inputs)
        if opaque or behind:
            tainted.add(id(node))
        if opaque:
            counted.reasons[_kind(str(node.attribute("reason")))] += 1
            if node.span is not None:
                spans.append(node.span)
        if OPERATIONS[node.operation].kind != "leaf" and node.operation not in PLUMBING:
            counted.operations += 1
            counted.opaque += opaque
            counted.behind += behind and not opaque
    counted.clear = counted.opaque == 0
    for part in ast.walk(function.node):
        if isinstance(part, ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare):
            counted.written += 1
            span = source.span(part)
            counted.hidden += any(outer.contains(span) for outer in spans)
    return counted


def _kind(reason: str) -> str:
    """Reasons that name the user's own things, told apart by kind only."""
    for start in ("call of logger.", "call of warnings.", "attribute ", "in-place method "):
        if reason.startswith(start):
            tail = " of something unknown" if reason.endswith(" of something unknown") else ""
            return f"{start.strip()} …{tail}" if not start.endswith(".") else f"{start}…"
    if reason.startswith("call of ") and "modeling_outputs." in reason:
        return "call of …modeling_outputs.… (a dataclass of results)"
    return reason


def name_of(opportunity: Opportunity) -> str:
    return f"{opportunity.qualified_name}, line {opportunity.span.start_line}"


@functools.cache
def resolver() -> JediResolver:
    """One for all files of a process: what it has read stays read."""
    return JediResolver((str(CORPUS),))


def look(path: Path, with_fixes: bool, resolve: bool) -> Report:
    """Everything about one file. Never raises: a crash is a trouble to be reported."""
    name = path.relative_to(CORPUS).as_posix()
    settings = Settings(torch_version=(2, 13), resolver=resolver() if resolve else None)
    text = read(path)
    try:
        begin = time.perf_counter()
        analysis = analyse(text, str(path), settings)
        seconds = time.perf_counter() - begin
        troubles = [f"{name}: {analysis.error}"] if analysis.error is not None else []
        coverage = Coverage()
        source = parse_source(text, str(path))
        scope = Scope(source, settings.resolver)
        for function in source.functions:
            if function.node.name == "forward" and "." in function.qualified_name:
                coverage.add(covered(source, function, translate(scope, function).program))
        findings = [Finding(o.rule, o.tier, f"{name}: {name_of(o)}") for o in analysis.opportunities]
        findings += [Finding(o.rule, o.tier, f"{name}: {name_of(o)}", o.declined) for o in analysis.declined]
        if with_fixes:
            for opportunity in analysis.opportunities:
                patched = apply_edits(text, edits(analysis, opportunity))
                where = f"{name}: {name_of(opportunity)}, {opportunity.rule}"
                troubles += [f"{where}: {fault}" for fault in faults(text, patched, str(path))]
            result = fix(text, str(path), settings, ALL_TIERS)
            if len(result.applied) < len(analysis.opportunities):
                troubles.append(f"{name}: {len(analysis.opportunities)} found, {len(result.applied)} applied")
            troubles += [f"{name}: all fixes: {fault}" for fault in faults(text, result.text, str(path))]
            if fix(result.text, str(path), settings, ALL_TIERS).text != result.text:
                troubles.append(f"{name}: a second fix changes something")
        return Report(name, seconds, tuple(findings), coverage, tuple(troubles))
    except Exception:
        return Report(name, 0.0, (), Coverage(), (f"{name}: crash: {traceback.format_exc(limit=-4)}",))


def faults(text: str, patched: str, path: str) -> list[str]:
    """What is wrong with a patched text, without running it."""
    try:
        compile(patched, path, "exec")
    except SyntaxError as error:
        return [f"does not compile: {error}"]
    found = ["comments changed"] if comments(text) != comments(patched) else []
    read_before, _ = _names(text)
    read_now, bound = _names(patched)
    return found + [f"{name} is read and bound nowhere" for name in sorted(read_now - read_before - bound)]


def _names(text: str) -> tuple[set[str], set[str]]:
    """Names that are read, and names that are bound, anywhere in a text."""
    reads: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            (reads if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    return reads, bound


def tables(reports: list[Report], options: argparse.Namespace) -> str:
    times = sorted(report.seconds for report in reports)
    coverage = Coverage()
    for report in reports:
        coverage.add(report.coverage)
    findings = [finding for report in reports for finding in report.findings]
    fixable = Counter((f.rule, f.tier) for f in findings if f.reason is None)
    declined = Counter((f.rule, _short(f.reason)) for f in findings if f.reason is not None)
    held = sum(n for (_, reason), n in declined.items() if reason.startswith("withheld"))
    crashes = sum("crash" in trouble for report in reports for trouble in report.troubles)
    troubles = sum(len(report.troubles) for report in reports) - crashes
    counted = Counter({rule: 0 for rule, _ in fixable})
    for (rule, _), count in fixable.items():
        counted[rule] += count
    p95 = times[int(0.95 * (len(times) - 1))]
    share = 100.0 / max(coverage.operations, 1)
    parts = [
        f"{machine()}. Names in other files are {'followed by jedi' if options.resolve else 'not followed'}.\n",
        table(
            ("what", "figure"),
            [
                ("files", f"{len(reports)}"),
                ("crashes", f"{crashes}"),
                (
                    "time a file: mean, median, 95th percentile, longest",
                    f"{statistics.mean(times):.2f} s, {statistics.median(times):.2f} s, {p95:.2f} s, {times[-1]:.2f} s",
                ),
                ("places with a fix", f"{sum(fixable.values())}"),
                ("places declined with a reason", f"{sum(declined.values())}, of these withheld by the check {held}"),
                ("faults of fixes (compile, comments, second fix)", f"{troubles}" if options.fix else "not looked at"),
                ("`forward` functions, and those with no opaque operation", f"{coverage.functions}, {coverage.clear}"),
                ("operations in them", f"{coverage.operations}"),
                ("… that are not opaque", f"{100 - share * coverage.opaque:.1f} %"),
                (
                    "… that are not opaque and read nothing that hangs on an opaque one",
                    f"{100 - share * (coverage.opaque + coverage.behind):.1f} %",
                ),
                (
                    "calls and operators in their source, not inside an opaque expression or loop",
                    f"{100 - 100 * coverage.hidden / max(coverage.written, 1):.1f} % of {coverage.written}",
                ),
            ],
        ),
        "An operation is a node of the program that computes: leaves (arguments, parameters, constants) and structure "
        "(tuples, branches) are not counted. A loop that is not unrolled is one opaque operation, so the last line counts "
        "in the source instead.\n",
        table(("rule", "tier", "places"), [(r, t, str(n)) for (r, t), n in sorted(fixable.items())]),
        table(("rule", "why there is no fix", "places"), [(r, t, str(n)) for (r, t), n in declined.most_common(40)]),
        table(("why an operation is opaque", "times"), [(t, str(n)) for t, n in coverage.reasons.most_common(20)]),
    ]
    return "\n".join(parts)


def _short(reason: str | None) -> str:
    """A reason without line numbers and names, so that equal ones count together."""
    import re

    text = re.sub(r", line \d+", "", reason or "")
    text = re.sub(r"`[^`]*`", "`…`", text)
    return text if len(text) < 140 else text[:139] + "…"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fix", action="store_true", help="apply every fix and look at the result")
    parser.add_argument("--resolve", action="store_true", help="follow names into other files")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/corpus.md")
    parser.add_argument("--only", default="", help="files whose path holds this text")
    parser.add_argument("--list", action="store_true", help="name every place with a fix, and every one without")
    options = parser.parse_args()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    files = [path for path in modeling_files() if options.only in path.as_posix()]
    count = len(files)
    with ProcessPoolExecutor(2) as pool:
        reports = list(pool.map(look, files, [options.fix] * count, [options.resolve] * count))
    for report in reports:
        for trouble in report.troubles:
            print("TROUBLE", trouble)
        for finding in report.findings if options.list else ():
            print(finding.rule, finding.tier, finding.where, finding.reason or "")
    for report in sorted(reports, key=lambda r: -r.seconds)[:5]:
        print(f"{report.seconds:.2f} s  {report.path}")
    text = tables(reports, options)
    print(text)
    if options.write:
        section = "check, names followed" if options.resolve else "check"
        write_section(section, text)
    return 1 if any(report.troubles for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
