"""`kernelwright/tune`: verify and measure what stands in a document now, with progress and cancel, and report it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from kernelwright.server.card import TUNE_HEADER, table, tune_row
from kernelwright.server.findings import finding as finding_object
from kernelwright.server.lsp.actions import REQUEST_FAILED
from kernelwright.server.lsp.documents import path_of
from kernelwright.server.lsp.progress import progress
from kernelwright.server.numbers import when
from kernelwright.server.snapshot import Finding

if TYPE_CHECKING:
    from kernelwright.server.lsp.session import Session


async def tune(session: Session, uri: str, line: int | None, token: str | int | None) -> dict[str, Any]:
    """Measure every opportunity of an open document, or those on a line (from 0).

    Returns `{"results": [...], "text": markdown}`. A result is the finding's JSON object with `line` (from 0) and
    `remark` (why there is no number, or why it is not worth it). The background steps back meanwhile. What was
    measured before a cancel is kept.

    Raises:
        JsonRpcInvalidParams: the document is not open.
        JsonRpcException: the workspace is not trusted, or nothing can be measured; the message says what to do.
        asyncio.CancelledError: the client cancelled.
    """
    snapshot = await session.snapshot(uri)
    if snapshot is None:
        raise JsonRpcInvalidParams(f"{path_of(uri)} is not open in the editor")
    if not session.settings.everywhere.trusted:
        raise JsonRpcException("measuring runs your interpreter: trust this workspace first", REQUEST_FAILED)
    chosen = [f for f in snapshot.findings if line is None or f.span.start_line <= line + 1 <= f.span.end_line]
    work = [(f, f.work, w) for f in chosen if f.work is not None and (w := f.opportunity.workload) is not None]
    budget = session.settings.everywhere.budget_seconds
    name = path_of(uri).rpartition("/")[2]
    async with progress(session, f"Tuning {name}", token) as report, session.background.held():
        if work:
            report("looking at this machine", 0.0)
            await session.measurements.probe()
        for number, (finding, key, workload) in enumerate(work):
            place = f"{finding.opportunity.rule} in {finding.opportunity.qualified_name} ({number + 1} of {len(work)})"
            report(place, number / len(work))

            def step(message: str, fraction: float | None, number: int = number, place: str = place) -> None:
                report(f"{place}: {message}", (number + (fraction or 0.0)) / len(work))

            await session.measurements.measure(key, workload, budget_seconds=budget, progress=step)
            session.landed()
    unavailable = session.why_no_numbers()
    results = [_result(session, finding) for finding in chosen]
    return {"results": results, "text": report_text(session, name, chosen, unavailable)}


def _result(session: Session, finding: Finding) -> dict[str, Any]:
    numbers = session.numbers(finding)
    remark = numbers.withdrawn or numbers.failure
    return {
        **finding_object(finding.opportunity, numbers.measured),
        "line": finding.span.start_line - 1,
        "remark": remark,
    }


def report_text(session: Session, name: str, chosen: list[Finding], unavailable: str | None) -> str:
    """The markdown report of a Tune: a table, and the device it holds for."""
    if not chosen:
        return f"# Tuning {name}\n\nNothing here that a known kernel computes."
    rows = [tune_row(finding.opportunity, session.numbers(finding)) for finding in chosen]
    measured = next((n.measured for f in chosen if (n := session.numbers(f)).measured is not None), None)
    parts = [f"# Tuning {name}", table(rows, TUNE_HEADER)]
    if unavailable is not None:
        parts.append(unavailable)
    elif measured is not None and measured.device:
        parts.append(
            f"{measured.device} · {measured.dtype} · {measured.mode} · against torch eager · {when(measured.date)}"
        )
    return "\n\n".join(parts)


async def tune_by_command(session: Session, uri: str, line: int | None) -> str:
    """The same by `workspace/executeCommand`: a progress token of ours, a line as message, the report as result."""
    answer = await tune(session, uri, line, None)
    gains = [r["gain"]["value"] for r in answer["results"] if r["gain"] is not None]
    line_ = f"{len(gains)} of {len(answer['results'])} measured"
    text = f"Kernelwright: {line_}" + (f", best {max(gains):.1f}×" if gains else "")
    session.server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
    return str(answer["text"])
