"""The protocol in three editors: UTF-16 (VS Code, pulls), UTF-8 (Neovim, pulls), UTF-32 (Emacs, is pushed to)."""

from __future__ import annotations

import ast
import asyncio
from typing import Any

import pytest
from lsprotocol import types as t

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENCODINGS = {"visual_studio_code": "utf-16", "neovim": "utf-8", "emacs": "utf-32"}


async def test_encoding_is_the_clients_first_choice(shared: Any) -> None:
    assert shared.encoding == ENCODINGS[shared.profile]


async def test_diagnostic_stands_exactly_at_the_expression(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("diagnostic.py")
    editor.open(sample)
    (found,) = await editor.diagnostics()
    assert (found.code, found.source) == ("gelu", "kernelwright")
    assert found.severity in (t.DiagnosticSeverity.Information, t.DiagnosticSeverity.Hint)
    assert found.tags is None
    assert found.range == editor.at(gelu)


async def test_pulled_or_pushed_but_never_both(shared: Any, sample: str) -> None:
    editor = shared.beside("once.py")
    editor.open(sample)
    await editor.diagnostics()
    await editor.hints()  # a later answer: what was pushed before it has arrived
    published = [key for key in editor.client.published if key[0] == editor.uri]
    assert published == ([] if editor.pulls else [(editor.uri, 1)])


async def test_result_id_says_unchanged(shared: Any, sample: str) -> None:
    editor = shared.beside("unchanged.py")
    editor.open(sample)
    pull = t.DocumentDiagnosticParams(editor.document)
    first = await editor.client.text_document_diagnostic_async(pull)
    while "predicted" not in first.items[0].message:  # the prediction comes behind the first answer, and changes it
        await asyncio.sleep(0.05)
        first = await editor.client.text_document_diagnostic_async(pull)
    editor.change(len(sample), len(sample), "# nothing\n")
    again = t.DocumentDiagnosticParams(editor.document, previous_result_id=first.result_id)
    second = await editor.client.text_document_diagnostic_async(again)
    assert isinstance(second, t.RelatedUnchangedDocumentDiagnosticReport)
    assert second.result_id == first.result_id
    editor.change(0, 0, "# a line above\n")
    third = await editor.client.text_document_diagnostic_async(again)
    assert isinstance(third, t.RelatedFullDocumentDiagnosticReport)


async def test_incremental_changes_land_where_the_client_made_them(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("changes.py")
    editor.open(sample)
    editor.replace("größe", "größer_😀"[:-1])
    editor.replace("SEPARATORS", "TRENNER_Ü")
    editor.replace("    def forward", "    # 😀 \u2028\n    def forward")
    editor.replace("😀\u2028€", "€€\x0c")
    (found,) = await editor.diagnostics()
    assert found.range == editor.at(gelu)


async def test_quick_fix_changes_the_expression_only(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("fix.py")
    editor.open(sample)
    fix = await editor.fix(editor.at(gelu))
    assert fix.kind == t.CodeActionKind.QuickFix
    fixed = editor.apply(fix.edit)
    ast.parse(fixed)
    before, _, after = sample.partition(gelu)
    assert fixed.endswith(after)
    assert "gelu(x, approximate=" in fixed
    assert "torch.tanh" not in fixed
    kept = [line for line in before.split("\n")[:-1] if line]
    assert [line for line in fixed.split("\n") if line in kept] == kept
    assert before.split("\n")[-1] in fixed


async def test_ignoring_a_finding_puts_a_comment_at_its_line(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("ignored.py")
    editor.open(sample)
    found = [a for a in await editor.actions(editor.at(gelu)) if a.title == "Ignore `gelu` here"]
    if not found:
        pytest.skip("this client resolves no edits: it is not offered the action")
    action = await editor.client.code_action_resolve_async(found[0])
    assert editor.apply(action.edit) == sample.replace(gelu, f"{gelu}  # kernelwright: ignore[gelu]")


async def test_only_exact_fixes_are_preferred(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("preferred.py")
    editor.open(sample)
    fix = await editor.fix(editor.at(gelu))
    (row,) = await editor.diagnostics()
    assert fix.is_preferred == (row.severity == t.DiagnosticSeverity.Information)


async def test_fix_all_gives_the_same_as_the_command_line(shared: Any, sample: str) -> None:
    from kernelwright.analyzers.analysis import Settings, fix

    editor = shared.beside("all.py")
    editor.open(sample)
    (action,) = [
        a
        for a in await editor.actions(editor.range(0, 0), ["source.fixAll"])
        if isinstance(a, t.CodeAction) and a.kind == "source.fixAll.kernelwright"
    ]
    if action.edit is None:
        action = await editor.client.code_action_resolve_async(action)
    expected = fix(sample, "all.py", Settings(), frozenset({"exact"}), None)
    assert editor.apply(action.edit) == expected.text != sample


async def test_other_kinds_get_nothing(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("kinds.py")
    editor.open(sample)
    assert await editor.actions(editor.at(gelu), ["refactor"]) == []
    assert await editor.actions(editor.at("import math"), ["quickfix"]) == []


async def test_hover_tells_kernel_conditions_and_proof(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("hover.py")
    editor.open(sample)
    text = await editor.hover(editor.at(gelu).start)
    assert text is not None
    for part in ("gelu", "Conditions", "Stays the same", "✓ same program"):
        assert part in text
    assert await editor.hover(editor.at("import math").start) is None


async def test_hints_are_short_and_hold_no_edits(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("hints.py")
    editor.open(sample)
    (hint,) = await editor.hints()
    assert isinstance(hint.label, str)
    assert "gelu" in hint.label
    assert len(hint.label) <= 20
    assert hint.text_edits is None
    assert hint.position == editor.at(gelu).end
    if hint.tooltip is None:
        hint = await editor.client.inlay_hint_resolve_async(hint)
    assert "Conditions" in hint.tooltip.value


async def test_evidence_and_program_are_the_findings_own(shared: Any, sample: str) -> None:
    editor = shared.beside("evidence.py")
    editor.open(sample)
    (found,) = await editor.diagnostics()
    program = await editor.execute("kernelwright.openProgram", editor.uri, found.data["key"])
    assert "tanh" in program.partition("# after")[0]
    assert "gelu" in program.partition("# after")[2]
    script = await editor.execute("kernelwright.openEvidence", editor.uri, found.data["key"])
    names = {node.module for node in ast.walk(ast.parse(script)) if isinstance(node, ast.ImportFrom)}
    assert not any(name and name.startswith("kernelwright") for name in names)


async def test_explain_names_the_finding_and_the_line(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("explain.py")
    editor.open(sample)
    text = await editor.execute("kernelwright.explain", editor.uri, editor.at(gelu).start.line)
    assert "rule `gelu`" in text.replace("**", "") or "rule gelu" in text


async def test_a_wrong_command_argument_is_said_so(shared: Any, sample: str) -> None:
    editor = shared.beside("wrong.py")
    editor.open(sample)
    with pytest.raises(Exception, match="no such finding"):
        await editor.execute("kernelwright.openEvidence", editor.uri, "nothing")
    with pytest.raises(Exception, match="line"):
        await editor.execute("kernelwright.explain", editor.uri)


async def test_findings_stay_while_the_file_cannot_be_parsed(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("broken.py")
    editor.open(sample)
    assert len(await editor.diagnostics()) == 1
    editor.replace("import math\n", "import math\ndef unfinished(\n\n")
    (kept,) = await editor.diagnostics()
    assert kept.range == editor.at(gelu)
    assert await editor.actions(editor.at(gelu), ["quickfix"]) == []
    editor.replace("def unfinished(\n\n", "")
    assert (await editor.diagnostics())[0].range == editor.at(gelu)
    assert await editor.actions(editor.at(gelu), ["quickfix"])


async def test_a_file_without_torch_is_left_alone(shared: Any) -> None:
    editor = shared.beside("plain.py")
    editor.open("import math\n")
    assert await editor.diagnostics() == []
    assert await editor.hints() == []


async def test_line_ends_of_the_file_are_kept_by_a_fix(shared: Any, sample: str, gelu: str) -> None:
    editor = shared.beside("crlf.py")
    editor.open(sample.replace("\n", "\r\n"))
    fixed = editor.apply((await editor.fix(editor.at(gelu))).edit)
    assert fixed.count("\n") == fixed.count("\r\n") > 0


async def test_closing_clears_what_was_pushed(shared: Any, sample: str) -> None:
    editor = shared.beside("closing.py")
    editor.open(sample)
    await editor.diagnostics()
    editor.close()
    if not editor.pulls:
        assert await editor.pushed(None) == []
    report = await editor.client.text_document_diagnostic_async(t.DocumentDiagnosticParams(editor.document))
    assert report.items == ()
