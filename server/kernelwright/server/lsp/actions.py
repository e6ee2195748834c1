"""Code actions: the quick fix of a finding, fix-all, and the ways to its explanation and evidence.

Edits are made when an action is chosen (`codeAction/resolve`) where the client can wait for them, and name the version
they are for. Only exact fixes are preferred and in fix-all; an assumed one has its condition in the title; a declined
one is shown disabled with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcContentModified, JsonRpcException

from kernelwright.analyzers.opportunity import Opportunity, TextEdit
from kernelwright.server.changes import differences
from kernelwright.server.lsp.diagnostics import SOURCE
from kernelwright.server.lsp.documents import plain
from kernelwright.server.numbers import Numbers, gain_label
from kernelwright.server.snapshot import Finding, Snapshot

if TYPE_CHECKING:
    from kernelwright.server.lsp.session import Session

FIX_ALL = "source.fixAll.kernelwright"
KINDS = (types.CodeActionKind.QuickFix, FIX_ALL)
REQUEST_FAILED = -32803


def title(opportunity: Opportunity, numbers: Numbers) -> str:
    """The quick fix's title: what it inserts, its number, and what the user must know where something is assumed."""
    text = opportunity.title
    if opportunity.tier == "assumed" and "(unsafe" not in text:
        assumed = [c.text for c in opportunity.conditions if c.state == "assumed"]
        text = f"{text} (unsafe: {'; '.join(assumed) or 'what is assumed stands in the hover'})"
    best = numbers.best
    if numbers.withdrawn is not None:
        return f"{text} ({numbers.withdrawn})"
    return f"{text} ({gain_label(best)})" if best is not None and best.value is not None and best.value > 1.0 else text


def wanted(kind: str, only: Iterable[str] | None) -> bool:
    """Whether a client that asks for `only` wants an action of this kind (`source` asks for `source.fixAll` too)."""
    return only is None or any(asked in ("", kind) or kind.startswith(f"{asked}.") for asked in map(str, only))


async def code_actions(session: Session, parameters: types.CodeActionParams) -> list[types.CodeAction]:
    """Answer `textDocument/codeAction`; nothing where the document changed meanwhile or cannot be parsed now."""
    uri = parameters.text_document.uri
    asked = session.document(uri)
    snapshot = await session.snapshot(uri)
    if snapshot is None or asked is None or snapshot.document.version != asked.version or not snapshot.current:
        return []
    only = None if parameters.context.only is None else [_value(kind) for kind in parameters.context.only]
    lines = session.lines(snapshot)
    first = lines.cursor(parameters.range.start)[0]
    last = lines.cursor(parameters.range.end)[0]

    def touched(finding: Finding) -> bool:
        return finding.span.start_line <= last and first <= finding.span.end_line

    made: list[types.CodeAction] = []
    if wanted("quickfix", only):
        ours = [d for d in parameters.context.diagnostics if d.source == SOURCE]
        for finding in filter(touched, snapshot.findings):
            made += _of_finding(session, snapshot, finding, ours)
        if session.client.disabled_actions:
            made += [_disabled(f.opportunity, f.opportunity.declined) for f in snapshot.declined if touched(f)]
    if wanted(FIX_ALL, only) and any(f.opportunity.tier == "exact" for f in snapshot.findings):
        action = types.CodeAction(
            "Kernelwright: fix all that is exact", kind=FIX_ALL, data={"uri": uri, "fixAll": True}
        )
        if session.client.lazy_edits:
            made.append(action)
        elif only is not None:  # costly, so only for a client that asked for it
            made.append(await _with_fix_all(session, action, uri))
    return made


def _of_finding(
    session: Session, snapshot: Snapshot, finding: Finding, ours: list[types.Diagnostic]
) -> list[types.CodeAction]:
    uri, opportunity, numbers = snapshot.document.uri, finding.opportunity, session.numbers(finding)
    refusal = finding.withheld or (numbers.withdrawn if numbers.unequal else None)
    made: list[types.CodeAction] = []
    if not opportunity.has_edit:
        pass  # advice in words: the hover says it
    elif refusal is not None:
        made += [_disabled(opportunity, refusal)] if session.client.disabled_actions else []
    else:
        action = types.CodeAction(
            title(opportunity, numbers),
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[d for d in ours if (plain(d.data) or {}).get("key") == finding.key] or None,
            is_preferred=opportunity.tier == "exact" and numbers.withdrawn is None,
            data={"uri": uri, "key": finding.key, "version": snapshot.document.version},
        )
        if not session.client.lazy_edits:
            action.edit = workspace_edit(session, snapshot, finding.edits)
        made.append(action)
    rule = opportunity.rule
    if session.client.lazy_edits and (refusal is None or not opportunity.has_edit):
        data = {"uri": uri, "key": finding.key, "silence": True}
        made.append(types.CodeAction(f"Ignore `{rule}` here", kind=types.CodeActionKind.QuickFix, data=data))
    made.append(_command(f"Explain `{rule}` here", "kernelwright.explain", uri, finding.span.start_line - 1))
    if finding.work is not None:
        made.append(_command(f"Show evidence for `{rule}`", "kernelwright.openEvidence", uri, finding.key))
        made.append(_command(f"Show program of `{rule}`", "kernelwright.openProgram", uri, finding.key))
    return made


def _disabled(opportunity: Opportunity, reason: str | None) -> types.CodeAction:
    return types.CodeAction(
        opportunity.title,
        kind=types.CodeActionKind.QuickFix,
        disabled=types.CodeActionDisabled(reason or "not offered"),
    )


def _command(title: str, command: str, *arguments: str | int) -> types.CodeAction:
    return types.CodeAction(
        title, kind=types.CodeActionKind.QuickFix, command=types.Command(title, command, arguments=list(arguments))
    )


async def resolve(session: Session, action: types.CodeAction) -> types.CodeAction:
    """Answer `codeAction/resolve`: the edit, for the document's version now.

    Raises:
        JsonRpcContentModified: the finding is gone.
        JsonRpcException: the same-program check withholds the fix; the message says why.
    """
    data = plain(action.data)
    if not isinstance(data, dict) or "uri" not in data:
        return action
    if data.get("fixAll"):
        return await _with_fix_all(session, action, data["uri"])
    snapshot = await session.snapshot(data["uri"])
    finding = None if snapshot is None else snapshot.find(str(data.get("key")))
    if snapshot is None or finding is None or not snapshot.current:
        raise JsonRpcContentModified("the code has changed, the fix is no longer there")
    if data.get("silence") and snapshot.analysis is not None:
        from kernelwright.analyzers.analysis import silencing_edit  # late, as all of the engine

        analysis = snapshot.analysis
        comment = await session.snapshots.run(lambda: silencing_edit(analysis, finding.opportunity))
        action.edit = workspace_edit(session, snapshot, (comment,))
        return action
    if finding.withheld is not None:
        raise JsonRpcException(f"no fix is offered here: {finding.withheld}", REQUEST_FAILED)
    action.edit = workspace_edit(session, snapshot, finding.edits)
    return action


async def _with_fix_all(session: Session, action: types.CodeAction, uri: str) -> types.CodeAction:
    action.edit, _ = await fix_all(session, uri)
    return action


async def fix_all(session: Session, uri: str) -> tuple[types.WorkspaceEdit, int]:
    """Every exact fix of an open document as one edit, and how many fixes are in it. What was withdrawn is left out."""
    snapshot = await session.snapshot(uri)
    if snapshot is None or not snapshot.current:
        raise JsonRpcContentModified("the file is not open, or cannot be parsed now")
    document, configuration = snapshot.document, await session.settings.of(uri)
    skip = frozenset(f.key for f in snapshot.findings if session.numbers(f).withdrawn is not None)
    settings = session.analysis_settings(configuration)
    from kernelwright.analyzers.analysis import fix  # late, as all of the engine

    result = await session.snapshots.run(
        lambda: fix(document.text, document.path, settings, frozenset({"exact"}), settings.rules, skip)
    )
    return workspace_edit(session, snapshot, differences(document.text, result.text)), len(result.applied)


def workspace_edit(session: Session, snapshot: Snapshot, edits: Iterable[TextEdit]) -> types.WorkspaceEdit:
    """Edits for exactly this version of the document, in the form the client takes."""
    lines = session.lines(snapshot)
    made = [types.TextEdit(lines.range(edit.start, edit.end), edit.replacement) for edit in edits]
    uri = snapshot.document.uri
    if not session.client.document_changes:
        return types.WorkspaceEdit(changes={uri: made})
    version = types.OptionalVersionedTextDocumentIdentifier(uri, snapshot.document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(version, list[Any](made))])


def _value(kind: Any) -> str:
    return str(getattr(kind, "value", kind))
