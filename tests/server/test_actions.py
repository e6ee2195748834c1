"""Code actions beyond the plain fix: disabled ones, the command that fixes all, eager edits."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException

from kernelwright.analyzers.offers import apply_edits
from kernelwright.analyzers.opportunity import TextEdit
from kernelwright.server.changes import differences

LEAKING = """\
import math

import torch
from torch import nn


class NewGELU(nn.Module):
    def forward(self, x):
        inner = torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))
        return 0.5 * x * (1.0 + inner), inner
"""


async def test_a_declined_place_is_shown_disabled_with_the_reason(editors: Any) -> None:
    editor = await editors.start()
    editor.open(LEAKING)
    assert await editor.diagnostics() == []
    place = editor.at("0.5 * x * (1.0 + inner)")
    disabled = [a for a in await editor.actions(place) if isinstance(a, t.CodeAction) and a.disabled is not None]
    assert disabled
    assert "inner" in disabled[0].disabled.reason or "elsewhere" in disabled[0].disabled.reason
    assert disabled[0].edit is None
    assert disabled[0].data is None
    text = await editor.hover(place.start)
    assert "No fix here" in text
    assert disabled[0].disabled.reason.replace("`", "")[:20] in text.replace("`", "").replace("\\", "")


async def test_a_client_that_cannot_show_disabled_actions_gets_none(editors: Any) -> None:
    editor = await editors.start("neovim")
    editor.open(LEAKING)
    assert await editor.actions(editor.at("0.5 * x * (1.0 + inner)")) == []


async def test_edits_come_with_the_action_where_the_client_cannot_wait(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start("emacs")
    editor.open(sample)
    (fix,) = [a for a in await editor.actions(editor.at(gelu), ["quickfix"]) if isinstance(a, t.CodeAction)]
    assert fix.edit is not None
    assert await editor.actions(editor.at(gelu)) != []
    (everything,) = await editor.actions(editor.at(gelu), ["source.fixAll"])
    assert everything.edit is not None


async def test_the_fix_belongs_to_its_diagnostic(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start()
    editor.open(sample)
    found = await editor.diagnostics()
    foreign = t.Diagnostic(editor.at(gelu), "something else", source="other")
    actions = await editor.actions(editor.at(gelu), ["quickfix"], [*found, foreign])
    fix = next(a for a in actions if isinstance(a, t.CodeAction))
    assert [d.message for d in fix.diagnostics or []] == [found[0].message]


async def test_a_fix_that_is_gone_is_content_modified(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start()
    editor.open(sample)
    (action, *_) = await editor.actions(editor.at(gelu), ["quickfix"])
    editor.replace(gelu, "x")
    with pytest.raises(JsonRpcException) as refused:
        await editor.client.code_action_resolve_async(action)
    assert refused.value.code == t.LSPErrorCodes.ContentModified


async def test_a_fix_chosen_before_a_change_elsewhere_lands_in_the_text_as_it_is_now(
    editors: Any, sample: str, gelu: str
) -> None:
    editor = await editors.start()
    editor.open(sample)
    (action, *_) = await editor.actions(editor.at(gelu), ["quickfix"])
    editor.change(0, 0, "# 😀 a line above\n")
    fixed = editor.apply((await editor.client.code_action_resolve_async(action)).edit)
    assert fixed.startswith("# 😀 a line above\nimport math\n")
    assert "torch.tanh" not in fixed


async def test_the_command_applies_all_exact_fixes_by_one_edit(editors: Any, sample: str) -> None:
    editor = await editors.start()
    asked: list[t.ApplyWorkspaceEditParams] = []

    @editor.client.feature(t.WORKSPACE_APPLY_EDIT)
    def apply(parameters: t.ApplyWorkspaceEditParams) -> t.ApplyWorkspaceEditResult:
        asked.append(parameters)
        return t.ApplyWorkspaceEditResult(applied=True)

    editor.open(sample)
    assert await editor.execute("kernelwright.fixAll", editor.uri) == 1
    (parameters,) = asked
    assert "torch.tanh" not in editor.apply(parameters.edit)


async def test_explain_opens_a_document_where_the_client_asked_for_that(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start(options={"showDocuments": True})
    editor.open(sample)
    text = await editor.execute("kernelwright.explain", editor.uri, editor.at(gelu).start.line)
    (shown,) = editor.client.shown_documents
    assert shown.uri.endswith("explanation.md")
    assert "command:" not in text  # links are for our own extension, which trusts them


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "a\n"),
        ("a\nb\nc\n", "a\nc\n"),
        ("a\nb", "a\nx\nb"),
        ("a\r\nb\r\n", "import x\r\na\r\nB\r\n"),
        ("a\x0cb\u2028c\nd\n", "a\x0cb\u2028C\nd\n"),
        ("same\n", "same\n"),
    ],
)
def test_differences_applied_give_the_new_text(old: str, new: str) -> None:
    edits = list(differences(old, new))
    assert apply_edits(old, edits) == new
    assert (edits == []) == (old == new)
    assert all(one.end <= other.start for one, other in itertools.pairwise(edits))


def test_edits_apply_in_any_order() -> None:
    edits = [TextEdit(4, 5, "E"), TextEdit(0, 1, "A"), TextEdit(2, 2, "!")]
    assert apply_edits("abcde", edits) == "Ab!cdE"
