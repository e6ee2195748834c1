"""The committed pages of the rules say what the rule files say today."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from kernelwright.analyzers.rules.loader import rules


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "rule_pages.py"
    spec = importlib.util.spec_from_file_location("rule_pages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_current(generator: ModuleType) -> None:
    assert generator.stale() == [], "run: python benchmarks/rule_pages.py"


def test_every_rule_has_a_page_with_all_it_must_say(generator: ModuleType) -> None:
    pages = generator.pages()
    for rule in rules():
        page = pages[f"{rule.name}.md"]
        for heading in ("What it finds", "Why it is the same", "When it is not", "What it gains", "Fix safety"):
            assert page.count(f"## {heading}\n") == 1, (rule.name, heading)
        assert rule.kernel in page
