"""Hover: the card of every opportunity under the cursor, declined ones too, with links to its evidence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from lsprotocol import types

from kernelwright.analyzers.architecture import Span
from kernelwright.server.card import Proof, card, plain
from kernelwright.server.snapshot import Finding, Snapshot

if TYPE_CHECKING:
    from kernelwright.server.lsp.session import Session


async def hover(session: Session, parameters: types.HoverParams) -> types.Hover | None:
    """Answer `textDocument/hover`; None where nothing of ours stands, or the document changed meanwhile."""
    asked = session.document(parameters.text_document.uri)
    snapshot = await session.snapshot(parameters.text_document.uri)
    if snapshot is None or asked is None or snapshot.document.version != asked.version:
        return None
    lines = session.lines(snapshot)
    line, column = lines.cursor(parameters.position)
    found = under(snapshot, Span(line, column, line, column))
    if not found:
        return None
    texts = [describe(session, snapshot, finding) for finding in found]
    return types.Hover(markup(session, "\n\n---\n\n".join(texts)), lines.span(found[0].span))


def under(snapshot: Snapshot, place: Span) -> list[Finding]:
    """The findings whose span holds a place, smallest first."""
    holding = [f for f in (*snapshot.findings, *snapshot.declined) if f.span.contains(place)]
    return sorted(holding, key=lambda f: (f.span.end_line - f.span.start_line, f.span.end_column))


def describe(session: Session, snapshot: Snapshot, finding: Finding) -> str:
    """The card of a finding."""
    proof = Proof(finding.withheld) if snapshot.current else None
    text = card(
        finding.opportunity,
        session.numbers(finding),
        proof=proof,
        unavailable=session.why_no_numbers(),
    )
    return f"{text}\n\n{links(snapshot.document.uri, finding)}" if session.client.links else text


def links(uri: str, finding: Finding) -> str:
    """Links that run the client's commands; it must be one that trusts them (our VS Code extension does)."""
    shown = []
    if finding.work is not None:
        line = finding.span.start_line - 1
        shown = [
            link("Measure now", "kernelwright.tuneAt", uri, line),
            link("Show evidence", "kernelwright.openEvidence", uri, finding.key),
            link("Show program", "kernelwright.openProgram", uri, finding.key),
        ]
    return " · ".join(shown)


def link(title: str, command: str, *arguments: str | int) -> str:
    return f"[{title}](command:{command}?{quote(json.dumps(arguments))})"


def markup(session: Session, text: str) -> types.MarkupContent:
    """Markdown, or the same without its marks for a client that shows plain text only."""
    if session.client.markdown:
        return types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.MarkupContent(types.MarkupKind.PlainText, plain(text))
