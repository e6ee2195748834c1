"""Every function of transformers 4.35.0 that holds a softmax and two products: a fix, or the operation that blocks one.

    python benchmarks/corpus/attention_census.py [--write] [--only TEXT] [--out FILE]

The functions are counted by a scan of the syntax trees that knows nothing of the engine: a call whose name holds `softmax`, and
two of `@`, `matmul`, `bmm`, `baddbmm`, `mm`, `einsum`, in one function, nested ones apart. For each the engine is then asked:
is there a fix, is one declined and why, or which operation stopped the match. `--write` puts the table into `docs/corpus.md`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernelwright.analyzers.analysis import Settings, analyse
from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.detect import Detector, NearMiss
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.opportunity import Opportunity
from kernelwright.analyzers.rules.loader import rules
from kernelwright.analyzers.source import Function, SourceFile, parse_source

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "cases"))
from corpus import CORPUS, missing, modeling_files, read
from tables import machine, table, write_section

PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "mm", "einsum"})
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Candidate:
    """A function that the scan found, and what the engine says of it: `state` is `fix`, `declined` or `no match`."""

    path: str
    name: str
    lines: tuple[int, int]
    state: str
    cause: str = ""
    """Why there is no fix, without names and lines, so that equal causes count together."""
    detail: str = ""


def candidates(tree: ast.Module) -> Iterator[FunctionNode]:
    """Functions with a softmax and two products, written in the function itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            softmaxes = products = 0
            for part in own_parts(node):
                if isinstance(part, ast.Call):
                    softmaxes += "softmax" in called(part).lower()
                    products += called(part) in PRODUCTS
                elif isinstance(part, ast.BinOp):
                    products += isinstance(part.op, ast.MatMult)
            if softmaxes and products >= 2:
                yield node


def own_parts(function: FunctionNode) -> Iterator[ast.AST]:
    stack = list(ast.iter_child_nodes(function))
    while stack:
        node = stack.pop()
        if not isinstance(node, FunctionNode | ast.ClassDef):
            yield node
            stack.extend(ast.iter_child_nodes(node))


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def look(path: Path) -> list[Candidate]:
    """What the engine says of every candidate of a file."""
    name = path.relative_to(CORPUS).as_posix()
    text = read(path)
    wanted = {(node.lineno, node.name) for node in candidates(ast.parse(text))}
    if not wanted:
        return []
    analysis = analyse(text, str(path), Settings(torch_version=(2, 13), rules=frozenset({"sdpa"})))
    source = parse_source(text, str(path))
    scope = Scope(source, None)
    return [
        _judged(name, function, analysis.opportunities, analysis.declined, scope)
        for function in source.functions
        if (function.node.lineno, function.node.name) in wanted
    ]


def _judged(
    path: str, function: Function, fixes: tuple[Opportunity, ...], declined: tuple[Opportunity, ...], scope: Scope
) -> Candidate:
    lines = function.node.lineno, function.node.end_lineno or function.node.lineno
    name = function.qualified_name

    def stands_here(found: Opportunity) -> bool:
        return found.qualified_name == name and lines[0] <= found.span.start_line <= lines[1]

    if any(stands_here(found) for found in fixes):
        return Candidate(path, name, lines, "fix")
    owner = name.rpartition(".")[0]
    for found in fixes:  # a guard that only the caller can write stands at the call
        caller = next((f for f in scope.source.functions if f.qualified_name == found.qualified_name), None)
        if found.class_name == owner and caller is not None and _calls(caller, function.node.name):
            return Candidate(path, name, lines, "fix", detail=f"at its call in {found.qualified_name}")
    for found in declined:
        if stands_here(found):
            return Candidate(path, name, lines, "declined", _kind(found.declined or ""), found.declined or "")
    cause, detail = _block(scope, function)
    return Candidate(path, name, lines, "no match", cause, detail)


def _calls(caller: Function, name: str) -> bool:
    return any(isinstance(part, ast.Call) and called(part) == name for part in ast.walk(caller.node))


def _kind(reason: str) -> str:
    """A reason without lines and the code's own names."""
    return re.sub(r"`[^`]*`", "`…`", re.sub(r",? line \d+", "", reason))[:140]


def _block(scope: Scope, function: Function) -> tuple[str, str]:
    """The operation at which the furthest match of attention stopped; else what stands around the softmax."""
    detector = Detector(translate(scope, function))
    rule = next(rule for rule in rules() if rule.name == "sdpa")
    for _ in detector.sites(rule):
        pass
    misses = sorted(detector.near_misses, key=lambda miss: -miss.blocked.depth)
    for miss in misses:
        if miss.blocked.node is not None:
            return _described(scope.source, detector, miss)
    program = detector.translation.program
    softmaxes = [node for node in program.nodes() if "softmax" in node.operation]
    if not softmaxes:
        opaque = Counter(str(node.attribute("reason")) for node in program.nodes() if node.operation == "opaque")
        return "the softmax is inside what is not understood", "; ".join(reason for reason, _ in opaque.most_common(4))
    users = [node for node in program.nodes() if any(operand in softmaxes for operand in node.inputs)]
    kinds = sorted({_operation(node) for node in users})
    before = sorted({_operation(node.inputs[0]) for node in softmaxes if node.inputs})
    return (
        f"softmax of {', '.join(before)}, used by {', '.join(kinds) or 'nothing but what is returned'}",
        "; ".join(_quoted(scope.source, node) for node in (*softmaxes, *users))[:300],
    )


def _described(source: SourceFile, detector: Detector, miss: NearMiss) -> tuple[str, str]:
    node = miss.blocked.node
    assert node is not None
    raw = next((raw for raw, normal in detector.normal.items() if normal is node and raw.span is not None), None)
    cause = f"blocked by {_operation(node)}, expected {miss.blocked.expected}"
    return cause, f"depth {miss.blocked.depth}: {_quoted(source, raw) if raw is not None else 'a value without a line'}"


def _operation(node: Node) -> str:
    reason = node.attribute("reason")
    return f"{node.operation} ({_kind(str(reason))})" if reason is not None else str(node.operation)


def _quoted(source: SourceFile, node: Node) -> str:
    if node.span is None:
        return str(node.operation)
    lines = source.text[slice(*source.offsets(node.span))].split("\n")
    return f"line {node.span.start_line} `{lines[0]}{' …' if len(lines) > 1 else ''}`"


def report(found: list[Candidate]) -> str:
    """The functions without a fix, grouped by cause, commonest first."""
    groups: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in found:
        if candidate.state != "fix":
            groups[f"{candidate.state}: {candidate.cause}"].append(candidate)
    parts = []
    for cause, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        parts.append(f"{len(group)}  {cause}")
        parts += [f"      {c.path}:{c.lines[0]} {c.name}: {c.detail}" for c in group]
    return "\n".join(parts)


def tables(found: list[Candidate]) -> str:
    states = Counter(candidate.state for candidate in found)
    fixed = [candidate for candidate in found if candidate.state == "fix"]
    causes = Counter((c.state, c.cause) for c in found if c.state != "fix")
    return "\n".join(
        (
            f"{machine()}.\n",
            table(
                ("functions with a softmax and two products", "functions", "files"),
                [
                    ("all", str(len(found)), str(len({c.path for c in found}))),
                    ("with a fix", str(len(fixed)), str(len({c.path for c in fixed}))),
                    ("matched, no fix, the reason named", str(states["declined"]), ""),
                    ("no match, the blocking operation named", str(states["no match"]), ""),
                ],
            ),
            table(
                ("why there is no fix", "cause", "functions"), [(s, c, str(n)) for (s, c), n in causes.most_common()]
            ),
            table(
                ("function without a fix", "line", "what stands in the way"),
                [
                    (f"{c.path.removeprefix('transformers/models/')}: {c.name}", str(c.lines[0]), c.detail or c.cause)
                    for c in found
                    if c.state != "fix"
                ],
            ),
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/corpus.md")
    parser.add_argument("--only", default="", help="files whose path holds this text")
    parser.add_argument("--out", help="write the functions without a fix there, grouped by cause")
    options = parser.parse_args()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    files = [path for path in modeling_files() if options.only in path.as_posix()]
    with ProcessPoolExecutor(1) as pool:
        found = [candidate for some in pool.map(look, files, chunksize=4) for candidate in some]
    text = report(found)
    print(text)
    print(dict(Counter(c.state for c in found)), len({c.path for c in found if c.state == "fix"}), "files with a fix")
    if options.out:
        Path(options.out).write_text(text + "\n", encoding="utf-8")
    if options.write:
        write_section("census", tables(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
