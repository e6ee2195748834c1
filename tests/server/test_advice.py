"""Advice as the user meets it: in hover, code actions and `check`, and how it is turned off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t

from kernelwright.analyzers.rules.loader import rules
from kernelwright.server.cli.main import main

RULES = {rule.name: rule for rule in rules()}
CAPPED = RULES["flash-attention"].reports[1]
"""Soft-capped attention: advice in words of two packages, one of which we cannot run."""


async def test_hover_shows_code_conditions_and_what_was_not_run_and_no_number(editors: Any) -> None:
    editor = await editors.start()
    editor.open(CAPPED)
    await editor.diagnostics()
    text = await editor.hover(editor.at("torch.softmax(scores, dim=-1)").start)
    assert text is not None
    assert "No number: advice is not measured" in text
    assert "nothing: this is advice in words, not an edit" in text and "same program" not in text
    assert "not run by us" in text and "flash-attn" in text
    assert "flash_attn_func(query, key, value" in text and "def soft_cap(" in text


async def test_advice_is_a_hint_that_can_be_silenced_and_is_no_fix(editors: Any) -> None:
    editor = await editors.start()
    editor.open(CAPPED)
    found = [d for d in await editor.diagnostics() if d.code == "flex-attention"]
    assert [d.severity for d in found] == [t.DiagnosticSeverity.Hint]
    titles = [a.title for a in await editor.actions(editor.at("torch.softmax(scores, dim=-1)"))]
    assert "Ignore `flex-attention` here" in titles
    assert not [title for title in titles if title.startswith("Use ")]


def test_check_prints_advice_on_request_only_and_it_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.py"
    path.write_text(CAPPED)
    assert main(["check", str(path)]) == 0
    assert "flex-attention" not in capsys.readouterr().out
    assert main(["check", "--advice", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "flex-attention: soft-capped attention" in printed and "[advice]" in printed
    assert "    assumed: not run by us" in printed


def test_explain_shows_advice_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.py"
    path.write_text(CAPPED)
    line = next(n for n, text in enumerate(CAPPED.split("\n"), 1) if "torch.softmax" in text)
    assert main(["explain", f"{path}:{line}"]) == 0
    printed = capsys.readouterr().out
    assert "def soft_cap(score" in printed and "No fix here" not in printed and "```" not in printed


def test_fix_leaves_advice_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    example = next(e for e in RULES["attn-implementation"].examples if e.after is not None)
    path.write_text(example.before)
    main(["fix", "--unsafe", str(path)])
    assert path.read_text() == example.before


async def test_the_setting_turns_advice_off(editors: Any) -> None:
    editor = await editors.start(settings={"advice": False})
    editor.open(CAPPED)
    assert not [d for d in await editor.diagnostics() if d.code in ("flex-attention", "flash-attention")]
