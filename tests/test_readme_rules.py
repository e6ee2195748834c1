"""The rule list of the README says what the rule files say."""

from __future__ import annotations

import re
from pathlib import Path

from kernelwright.analyzers.rules.loader import rules

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_rule_list_is_that_of_the_rule_files() -> None:
    listed = set(re.findall(r"^\| `[\w-]+` \| (?:exact|guarded|assumed|advice|bug) \| .*\|$", README, re.MULTILINE))
    written = {f"| `{rule.name}` | {rule.tier} | {rule.title} |" for rule in rules()}
    assert len(written) > 20
    assert listed == written, listed ^ written
