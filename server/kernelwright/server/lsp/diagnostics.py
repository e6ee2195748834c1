"""Diagnostics: one a finding that stands. Pulled with result ids where the client pulls, else pushed; never both."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

from lsprotocol import types

from kernelwright.server.lsp.configuration import Configuration
from kernelwright.server.numbers import Numbers, gain_label
from kernelwright.server.snapshot import Finding, Snapshot

if TYPE_CHECKING:
    from kernelwright.server.lsp.session import Session

SOURCE = "kernelwright"


def offered(session: Session, finding: Finding) -> bool:
    """Whether a finding stands: its edit is not withheld, its programs ran equal, and it is not slower here."""
    return finding.withheld is None and session.numbers(finding).withdrawn is None


def diagnostics(session: Session, snapshot: Snapshot, configuration: Configuration) -> list[types.Diagnostic]:
    """The diagnostics of a snapshot, in its order."""
    lines = session.lines(snapshot)
    return [
        types.Diagnostic(
            # A region of many lines would be underlined as a whole: its first line is enough.
            range=lines.first_line(finding.span),
            message=message(finding, session.numbers(finding)),
            severity=severity(finding.opportunity.tier, configuration.hints),
            code=finding.opportunity.rule,
            source=SOURCE,
            data={"key": finding.key},
        )
        for finding in snapshot.findings
        if offered(session, finding)
    ]


def message(finding: Finding, numbers: Numbers) -> str:
    """The finding's sentence, and the number where there is one."""
    best = numbers.best
    if best is None or best.value is None or best.value <= 1.0:
        return finding.opportunity.message
    where = "predicted" if best.basis == "predicted" else f"{best.basis} here"
    return f"{finding.opportunity.message} ({gain_label(best)} {where})"


def severity(tier: str, hints: Literal["quiet", "normal", "verbose"]) -> types.DiagnosticSeverity:
    """A bug is a warning; slow code is no fault. Hint where the user must know something, or wants quiet."""
    if tier == "bug":
        return types.DiagnosticSeverity.Warning
    if hints == "quiet" or tier in ("assumed", "advice"):
        return types.DiagnosticSeverity.Hint
    return types.DiagnosticSeverity.Information


def result_id(items: list[types.Diagnostic]) -> str:
    """A name of exactly these diagnostics: equal where nothing changed, whatever the document's version."""
    text = repr([(d.range, d.message, d.severity, d.code, d.data) for d in items])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def pull(session: Session, parameters: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    """Answer `textDocument/diagnostic`; `unchanged` where the client holds these diagnostics already."""
    uri = parameters.text_document.uri
    snapshot = await session.snapshot(uri)
    items = [] if snapshot is None else diagnostics(session, snapshot, await session.settings.of(uri))
    name = result_id(items)
    if parameters.previous_result_id == name:
        return types.RelatedUnchangedDocumentDiagnosticReport(result_id=name)
    return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=name)
