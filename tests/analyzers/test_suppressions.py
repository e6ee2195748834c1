"""Suppression comments on a line, a block and a file, and the edit that inserts one."""

from __future__ import annotations

import pytest

from kernelwright.analyzers.analysis import analyse, silencing_edit
from kernelwright.analyzers.offers import apply_edits

HEAD = "import torch\n"
BODY = "def swish(x):\n    return x * torch.sigmoid(x)\n\n\ndef other(x):\n    y = x * torch.sigmoid(x)\n    return y\n"


def places(text: str) -> list[str]:
    return [o.function for o in analyse(text, "model.py").opportunities]


def test_without_a_comment_both_are_found() -> None:
    assert places(HEAD + BODY) == ["swish", "other"]


@pytest.mark.parametrize(
    "comment", ["# kernelwright: ignore", "# kernelwright: ignore[silu]", "#kernelwright:ignore[gelu, silu]"]
)
def test_on_a_line(comment: str) -> None:
    text = HEAD + BODY.replace("return x * torch.sigmoid(x)\n", f"return x * torch.sigmoid(x)  {comment}\n", 1)
    assert places(text) == ["other"]


def test_another_rule_is_not_silenced() -> None:
    text = HEAD + BODY.replace("sigmoid(x)\n", "sigmoid(x)  # kernelwright: ignore[gelu]\n")
    assert places(text) == ["swish", "other"]


def test_above_a_function_it_holds_for_the_function() -> None:
    assert places(HEAD + BODY.replace("def other", "# kernelwright: ignore[silu]\ndef other")) == ["swish"]


def test_above_a_decorated_class_it_holds_for_the_class() -> None:
    text = (
        HEAD + "# kernelwright: ignore\n@decorated\nclass A:\n" + "".join(f"    {line}\n" for line in BODY.split("\n"))
    )
    assert places(text) == []


def test_before_the_first_statement_it_holds_for_the_file() -> None:
    assert places('"""A file."""\n# kernelwright: ignore[silu]\n' + HEAD + BODY) == []


def test_in_a_string_it_is_no_comment() -> None:
    assert places(HEAD + BODY + 'note = "# kernelwright: ignore"\n') == ["swish", "other"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_inserted_comment_silences_the_finding_and_nothing_else(newline: str) -> None:
    text = (HEAD + BODY).replace("\n", newline)
    analysis = analyse(text, "model.py")
    silenced = apply_edits(text, [silencing_edit(analysis, analysis.opportunities[0])])
    assert places(silenced) == ["other"]
    assert silenced.replace("  # kernelwright: ignore[silu]", "") == text


def test_a_second_rule_joins_the_first_in_one_comment() -> None:
    text = HEAD + BODY.replace(
        "return x * torch.sigmoid(x)\n", "return x * torch.sigmoid(x)  # kernelwright: ignore[gelu]\n"
    )
    analysis = analyse(text, "model.py")
    silenced = apply_edits(text, [silencing_edit(analysis, analysis.opportunities[0])])
    assert "# kernelwright: ignore[gelu, silu]" in silenced
    assert places(silenced) == ["other"]
