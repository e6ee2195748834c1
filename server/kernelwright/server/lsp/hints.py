"""Inlay hints: the rule and its number at the end of the line where an opportunity begins. They hold no text edits.

`quiet` shows measured numbers only; `normal` predictions too, and findings without a number; `verbose` also those that
were measured and withdrawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lsprotocol import types

from kernelwright.server.lsp.documents import plain
from kernelwright.server.lsp.hover import describe, markup
from kernelwright.server.numbers import Numbers, gain_label, ratio

if TYPE_CHECKING:
    from kernelwright.server.lsp.session import Session

LONGEST = 20
"""Longer labels make lines wrap and the view jump."""


def label(rule: str, numbers: Numbers, hints: Literal["quiet", "normal", "verbose"]) -> str | None:
    """The hint's text (`sdpa 2.4×` measured, `sdpa ~2.1×` predicted, `→ sdpa` without a number), None for no hint."""
    if numbers.withdrawn is not None:
        gain = numbers.measured
        if hints != "verbose" or gain is None or gain.value is None:
            return None
        return _short(rule, f"tried {ratio(gain.value)}")
    best = numbers.best
    if best is not None and best.basis != "predicted":
        return _short(rule, gain_label(best))
    if hints == "quiet":
        return None
    if best is None or best.value is None or best.value <= 1.0:
        return f"→ {rule}"[:LONGEST]
    return _short(rule, gain_label(best))


def _short(rule: str, number: str) -> str:
    return f"{rule[: LONGEST - len(number) - 1]} {number}"


async def inlay_hints(session: Session, parameters: types.InlayHintParams) -> list[types.InlayHint]:
    """Answer `textDocument/inlayHint` for the newest version of the document."""
    uri = parameters.text_document.uri
    snapshot = await session.snapshot(uri)
    if snapshot is None:
        return []
    configuration = await session.settings.of(uri)
    lines = session.lines(snapshot)
    first, last = parameters.range.start.line, parameters.range.end.line
    made = []
    for finding in snapshot.findings:
        line = finding.span.start_line - 1
        if finding.opportunity.tier in ("advice", "bug"):
            continue  # no number to show beside the line
        text = label(finding.opportunity.rule, session.numbers(finding), configuration.hints)
        if not first <= line <= last or text is None or finding.withheld is not None:
            continue
        hint = types.InlayHint(
            position=lines.line_end(line),
            label=text,
            padding_left=True,
            data={"uri": uri, "key": finding.key},
        )
        if not session.client.lazy_tooltips:
            hint.tooltip = markup(session, describe(session, snapshot, finding))
        made.append(hint)
    return made


async def resolve(session: Session, hint: types.InlayHint) -> types.InlayHint:
    """Answer `inlayHint/resolve`: the tooltip is the finding's card."""
    data = plain(hint.data)
    if not isinstance(data, dict):
        return hint
    snapshot = session.snapshots.latest(str(data.get("uri")))
    finding = snapshot.find(str(data.get("key"))) if snapshot is not None else None
    if snapshot is not None and finding is not None:
        hint.tooltip = markup(session, describe(session, snapshot, finding))
    return hint
