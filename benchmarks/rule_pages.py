"""The pages of the rules, written from the rule files and from the gains measured here.

    python benchmarks/rule_pages.py            # writes docs/rules/*.md
    python benchmarks/rule_pages.py --check    # 1 where a committed page is not what would be written

A page has the rule file's own text, its conditions and examples, and the table of `benchmarks/rules/NAME.json` where
`benchmarks/measure_rules.py` has measured the rule's example on some machine. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path
from typing import Any

from kernelwright.analyzers.rules.loader import Example, Rule, rules

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "rules"
GAINS = ROOT / "benchmarks" / "rules"

TIERS = {
    "exact": "exact: in fix-all",
    "guarded": "guarded: the old path stays behind an `if` where it is needed, or equal within the element type's tolerance",
    "assumed": "assumed: marked unsafe, never in fix-all",
    "advice": "advice: on request (`--advice`), never in fix-all",
    "bug": "bug: the code looks wrong",
}
NUMERICS = {
    "E": "the same up to rounding",
    "T": "the same within the element type's tolerance",
    "S": "what is computed changes",
}


def page_of(rule: Rule) -> str:
    """The page of one rule, as Markdown."""
    title, _, text = rule.page.partition("\n")
    parts = [f"# {rule.name}", "", title, "", _facts(rule), text.strip(), ""]
    parts += _examples(rule)
    parts += _gains(rule)
    parts += ["", f"<!-- written by benchmarks/rule_pages.py from rules/torch/{Path(rule.path).name} -->", ""]
    return "\n".join(parts)


def _facts(rule: Rule) -> str:
    rows = [
        ("kernel", f"`{rule.kernel}`"),
        ("tier", TIERS[rule.tier]),
        ("numerics", NUMERICS[rule.numerics]),
        ("torch from", ".".join(map(str, rule.min_torch))),
        ("stays the same", ", ".join(rule.keeps) or "see below"),
        ("conditions looked at", ", ".join(f"`{name}`" for name in rule.conditions) or "the finder's own"),
    ]
    return "| | |\n| --- | --- |\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)


def _examples(rule: Rule) -> list[str]:
    changed = [example for example in rule.examples if example.after is not None]
    kept = [example for example in rule.examples if example.after is None]
    parts: list[str] = []
    if changed:
        parts += ["## Example", "", "```diff", *_diff(changed[0]), "```", ""]
    elif rule.reports:
        parts += ["## Reported here, in words", "", "```python", rule.reports[0].strip("\n"), "```", ""]
    if kept:
        parts += ["## Left alone", "", "```python", kept[0].before.strip("\n"), "```", ""]
    return parts


def _diff(example: Example) -> list[str]:
    """The whole example, its changed lines marked."""
    before, after = example.before.strip("\n").split("\n"), (example.after or "").strip("\n").split("\n")
    lines = difflib.unified_diff(before, after, n=len(before), lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _gains(rule: Rule) -> list[str]:
    """The measured gains of the rule's example; nothing where it has not been measured."""
    file = GAINS / f"{rule.name}.json"
    if not file.is_file():
        return []
    measured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    parts = [
        "## Measured",
        "",
        f"{measured['date']}, {measured['machine']}, torch {measured['torch']}, {measured['threads']} thread(s). "
        f"The example above before and after; 1.0 is no gain, in brackets the 90 % interval. {measured['remark']}".strip(),
        "",
        "| shapes | element type | mode | times as fast |",
        "| --- | --- | --- | --- |",
    ]
    for row in measured["rows"]:
        figure = f"{row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})" if row["value"] else "too noisy to tell"
        parts.append(f"| {row['shapes']} | {row['dtype']} | {row['mode']} | {figure} |")
    return parts


def index(found: tuple[Rule, ...]) -> str:
    """The list of all rules."""
    lines = ["# The rules", "", "| rule | tier | what it does |", "| --- | --- | --- |"]
    lines += [f"| [{rule.name}]({rule.name}.md) | {rule.tier} | {rule.title.rstrip('.')} |" for rule in found]
    return "\n".join([*lines, "", "<!-- written by benchmarks/rule_pages.py -->", ""])


def pages() -> dict[str, str]:
    """Every page by its file name."""
    found = tuple(sorted(rules(), key=lambda rule: rule.name))
    return {"README.md": index(found)} | {f"{rule.name}.md": page_of(rule) for rule in found}


def stale() -> list[str]:
    """The files of `docs/rules` that are not what would be written, and those of rules that are gone."""
    made = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    return sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is out of date")
    options = parser.parse_args()
    old = stale()
    if options.check:
        print("\n".join(f"docs/rules/{name} is out of date" for name in old) or "all pages are current")
        if old:
            print("run: python benchmarks/rule_pages.py", file=sys.stderr)
        return 1 if old else 0
    made = pages()
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in old:
        if name in made:
            (PAGES / name).write_text(made[name], encoding="utf-8")
        else:
            (PAGES / name).unlink()
        print(f"docs/rules/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
