"""What Kernelwright says of published PyTorch code: the ecosystem digest, and what a change does to it.

    python benchmarks/ecosystem/fetch.py                    # once
    python benchmarks/ecosystem/digest.py --write           # writes digest.txt anew
    python benchmarks/ecosystem/digest.py --diff            # what this working tree changes of the committed digest
    python benchmarks/ecosystem/digest.py --check --here    # the same for what CI has: 1 where anything differs

The digest names every finding of every package by rule, file and function, without lines, and for a fix a fingerprint of its
edit, so that a change of the rules shows as lines that come, go, or change their fingerprint. Names in other files are not
followed.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packages import Package, packages

from kernelwright.analyzers.analysis import FileAnalysis, Settings, analyse
from kernelwright.analyzers.opportunity import Opportunity

DIGEST = Path(__file__).with_name("digest.txt")
SETTINGS = Settings(torch_version=(2, 13), advice=True)
SECTIONS = ("fix", "bug", "no fix", "advice")


@dataclass(frozen=True, order=True)
class Line:
    """One finding as it stands in the digest. `section` is one of `SECTIONS`."""

    section: str
    rule: str
    where: str
    what: str
    """The tier and the edit's fingerprint, or why there is no fix."""


def look(folder: Path, path: Path) -> tuple[list[Line], str | None]:
    """The findings of a file, and the error where it cannot be read."""
    name = path.relative_to(folder).as_posix()
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        return [], f"{name}: not UTF-8"
    try:
        analysis = analyse(text, name, SETTINGS)
    except Exception as error:  # a crash belongs into the digest, where the next change can be seen to mend it
        return [], f"{name}: crash: {type(error).__name__}: {error}"
    if analysis.error is not None:
        return [], f"{name}: {analysis.error}"
    lines = [_found(analysis, opportunity) for opportunity in analysis.opportunities]
    lines += [
        Line("no fix", o.rule, _where(o), " ".join((o.declined or "").split()))
        for o in analysis.declined
        if o.tier != "advice"
    ]
    return lines, None


def _found(analysis: FileAnalysis, opportunity: Opportunity) -> Line:
    section = opportunity.tier if opportunity.tier in ("bug", "advice") else "fix"
    edits = analysis.plans.get(opportunity.key, ())
    text = "|".join(f"{analysis.text[e.start : e.end]}>{e.replacement}" for e in edits)
    mark = f" {hashlib.sha256(text.encode()).hexdigest()[:8]}" if edits else ""
    return Line(section, opportunity.rule, _where(opportunity), f"{opportunity.tier}{mark}")


def _where(opportunity: Opportunity) -> str:
    return f"{opportunity.file} {opportunity.qualified_name}".strip()


def digest_of(package: Package, pool: ProcessPoolExecutor) -> str:
    """The part of one package."""
    files = list(package.files())
    lines: list[Line] = []
    errors: list[str] = []
    for found, error in pool.map(look, [package.folder] * len(files), files, chunksize=4):
        lines += found
        errors += [error] if error is not None else []
    counts = Counter(line.section for line in lines)
    head = ", ".join(f"{section} {counts[section]}" for section in SECTIONS)
    parts = [f"== {package.name} {package.version}: {len(files)} files, {head}, errors {len(errors)}"]
    for section in SECTIONS:
        parts += _section(section, [line for line in lines if line.section == section])
    parts += [f"error  {error}" for error in sorted(errors)]
    return "\n".join(parts) + "\n"


def _section(section: str, lines: list[Line]) -> Iterable[str]:
    """Lines of one section: by rule, equal ones counted; findings without a fix by rule and reason."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        if section == "no fix":
            groups[f"{section}  {line.rule}: {line.what}"][line.where] += 1
        else:
            groups[f"{section}  {line.rule}"][f"{line.where}  {line.what}"] += 1
    for title, counted in sorted(groups.items()):
        yield f"{title}  ({counted.total()})"
        for text, count in sorted(counted.items()):
            yield f"    {text}{f'  x{count}' if count > 1 else ''}"


def parts_of(digest: str) -> dict[str, str]:
    """A digest's text by package."""
    parts: dict[str, list[str]] = {}
    name = ""
    for line in digest.splitlines(keepends=True):
        if line.startswith("== "):
            name = line.split()[1]
        if name:
            parts.setdefault(name, []).append(line)
    return {name: "".join(lines) for name, lines in parts.items()}


HEAD = (
    "Findings of Kernelwright in published packages; written by benchmarks/ecosystem/digest.py, which also shows what a change\n"
    "does to them. A fix has its tier and a fingerprint of its edit. Advice is given on request and adds to no total.\n"
)


def totals(parts: Iterable[str]) -> str:
    """The number of findings by section and rule over all packages, as the digest's first lines."""
    counts: Counter[tuple[str, str]] = Counter()
    for part in parts:
        for line in part.splitlines():
            if line[:1].strip() and not line.startswith(("==", "error")):
                section = next(s for s in SECTIONS if line.startswith(f"{s}  "))
                rule = line.removeprefix(f"{section}  ").split()[0].rstrip(":")
                counts[section, rule] += int(line.rpartition("(")[2].rstrip(")"))
    lines = []
    for section in SECTIONS:
        rules = ", ".join(f"{rule} {n}" for (s, rule), n in sorted(counts.items()) if s == section)
        lines.append(
            f"{section}: {sum(n for (s, _), n in counts.items() if s == section)}{f' ({rules})' if rules else ''}"
        )
    return "\n".join(lines) + "\n"


def write(parts: dict[str, str]) -> None:
    """Put new parts into digest.txt; those of other packages of the list stay."""
    on_disk = DIGEST.read_text(encoding="utf-8") if DIGEST.is_file() else ""
    known = {package.name for package in packages()}
    every = {name: part for name, part in parts_of(on_disk).items() if name in known} | parts
    ordered = [every[name] for name in sorted(every)]
    DIGEST.write_text("\n".join((HEAD, totals(ordered), *ordered)), encoding="utf-8")


def committed(base: str) -> str:
    """The digest as `base` has it."""
    name = DIGEST.relative_to(DIGEST.parents[2]).as_posix()
    done = subprocess.run(
        ["git", "show", f"{base}:{name}"], cwd=DIGEST.parent, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def difference(old: dict[str, str], new: dict[str, str]) -> str:
    """What came, went and changed, by package, as a unified diff under each package's two head lines."""
    shown = []
    for name, part in new.items():
        before = old.get(name, "")
        if before != part:
            shown += list(difflib.unified_diff(before.splitlines(), part.splitlines(), name, name, n=1, lineterm=""))
    return "\n".join(shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="these packages only")
    parser.add_argument("--write", action="store_true", help="write digest.txt; parts of other packages stay")
    parser.add_argument("--diff", action="store_true", help="show what changes against the committed digest")
    parser.add_argument("--base", default="HEAD", help="the commit whose digest is compared with (HEAD)")
    parser.add_argument(
        "--check", action="store_true", help="as --diff against the file on disk; fails where it differs"
    )
    parser.add_argument("--here", action="store_true", help="only packages that the tests' corpus holds")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    chosen = [p for p in packages() if (not options.names or p.name in options.names) and (p.here or not options.here)]
    if absent := [package.name for package in chosen if not package.is_there]:
        print(f"not downloaded: {', '.join(absent)}; run benchmarks/ecosystem/fetch.py", file=sys.stderr)
        return 2
    parts: dict[str, str] = {}
    with ProcessPoolExecutor(options.processes) as pool:
        for package in chosen:
            parts[package.name] = digest_of(package, pool)
            print(parts[package.name].partition("\n")[0], file=sys.stderr, flush=True)
            if options.write:  # each as it is done: an interrupted run loses nothing
                write(parts)
    if options.write:
        return 0
    on_disk = DIGEST.read_text(encoding="utf-8") if DIGEST.is_file() else ""
    shown = difference(parts_of(committed(options.base) if options.diff else on_disk), parts)
    if options.diff or options.check:
        print(shown or "no finding changes")
        return 1 if options.check and shown else 0
    print("\n".join((totals(parts.values()), *parts.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
