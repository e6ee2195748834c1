"""The finder mechanism: what a finding's edit may change, by the check it names."""

from __future__ import annotations

import ast

import pytest

from kernelwright.analyzers.architecture import Span
from kernelwright.analyzers.finders.finding import Check, Finding
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.offers import Surroundings, offer_of_finding
from kernelwright.analyzers.opportunity import TextEdit, Tier
from kernelwright.analyzers.rules.loader import Rule, RuleError, load_rule
from kernelwright.analyzers.source import parse_source

TEXT = """import torch
import torch.nn.functional as F
def f(x, optimizer):
    optimizer.zero_grad()
    y = F.silu(x)
    return y + 1
"""

RULE = '''"""A rule under test."""
name = "tested"
kernel = "torch.x"
tier = "{tier}"
numerics = "E"
min_torch = "2.0"
message = "m"
finder = "{finder}"
'''


@pytest.fixture(autouse=True)
def _finder(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.analyzers.finders.registry import FILE_FINDERS

    monkeypatch.setitem(FILE_FINDERS, "tested", lambda view: ())


def rule(tier: Tier) -> Rule:
    return load_rule(RULE.format(tier=tier, finder="tested"), "tested.py")


def declined(tier: Tier, check: Check, old: str, new: str, version: tuple[int, int] = (2, 1)) -> str | None:
    source = parse_source(TEXT, "m.py")
    start = TEXT.index(old)
    edit = TextEdit(start, start + len(old), new)
    finding = Finding(Span(1, 1, 1, 1), "f", edits=(edit,), check=check)
    translation = translate(Scope(source), source.functions[0])
    return offer_of_finding(rule(tier), finding, source, translation, Surroundings(version)).opportunity.declined


@pytest.mark.parametrize(
    ("check", "old", "new", "offered"),
    [
        ("same program", "F.silu(x)", "torch.nn.functional.silu(x)", True),
        ("same program", "F.silu(x)", "F.gelu(x)", False),
        ("same program", "y + 1", "y + 2", False),
        ("keywords", "zero_grad()", "zero_grad(set_to_none=True)", True),
        ("keywords", "zero_grad()", "step(set_to_none=True)", False),
        ("keywords", "zero_grad()", "zero_grad(True)", False),
        ("keywords", "F.silu(x)", "F.silu(x, inplace=False)", True),
        ("keywords", "y + 1", "y + 2", False),
        ("keywords", "zero_grad()\n    y = F.silu(x)", "zero_grad(a=1)\n    y = F.silu(x, b=1)", False),
        ("keywords", "y + 1", "y + ", False),
        ("none", "F.silu(x)", "x * torch.sigmoid(x)", False),
    ],
)
def test_an_edit_changes_no_more_than_its_check_allows(check: Check, old: str, new: str, offered: bool) -> None:
    reason = declined("exact", check, old, new)
    assert (reason is None) is offered, reason


def test_only_advice_may_be_unchecked() -> None:
    assert declined("advice", "none", "y + 1", "y + 2") is None
    assert declined("exact", "none", "y + 1", "y + 2") is not None


def test_an_old_torch_declines() -> None:
    reason = declined("exact", "keywords", "zero_grad()", "zero_grad(set_to_none=True)", (1, 13))
    assert reason is not None and "2.0 is needed" in reason


def test_an_unknown_finder_is_said_with_what_there_is() -> None:
    with pytest.raises(RuleError, match=r"there is no finder 'nope'; there are: .*tested"):
        load_rule(RULE.format(tier="advice", finder="nope"), "tested.py")


def test_a_rule_has_a_definition_or_a_finder() -> None:
    with pytest.raises(RuleError, match="or else a finder"):
        load_rule(RULE.format(tier="advice", finder="tested").replace('finder = "tested"\n', ""), "tested.py")


def test_the_registry_modules_read_no_user_code() -> None:
    """Finders look at syntax trees; nothing in their folder evaluates or imports what it reads."""
    from importlib import resources

    for file in (resources.files("kernelwright.analyzers") / "finders").iterdir():
        if file.name.endswith(".py"):
            names = {n.id for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Name)}
            assert not names & {"exec", "eval", "compile", "__import__"}, file.name
