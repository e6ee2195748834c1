"""`workspace/executeCommand`: the commands by name, each taking its arguments as the client sends them."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from kernelwright.analyzers.architecture import Span, print_program
from kernelwright.analyzers.workload import Workload
from kernelwright.server.card import NO_WORKLOAD
from kernelwright.server.lsp.actions import REQUEST_FAILED, fix_all
from kernelwright.server.lsp.client import answered
from kernelwright.server.lsp.configuration import Configuration
from kernelwright.server.lsp.documents import plain
from kernelwright.server.lsp.hover import describe, under
from kernelwright.server.lsp.tuning import tune_by_command
from kernelwright.server.snapshot import Document, Finding

if TYPE_CHECKING:
    from kernelwright.server.lsp.session import Session

CLIENT_SECONDS = 30.0
"""How long the client may take to apply an edit or to open a document: it may ask the user."""

Command = Callable[["Session", list[Any]], Awaitable[Any]]


async def tune_file(session: Session, arguments: list[Any]) -> str:
    """[uri] -> the report, markdown."""
    return await tune_by_command(session, _uri(arguments), None)


async def tune_at(session: Session, arguments: list[Any]) -> str:
    """[uri, line from 0] -> the report, markdown."""
    return await tune_by_command(session, _uri(arguments), _line(arguments))


async def fix_all_exact(session: Session, arguments: list[Any]) -> int:
    """[uri] -> how many exact fixes were applied, by one edit that one undo takes back."""
    edit, count = await fix_all(session, _uri(arguments))
    if count and session.client.apply_edit:
        parameters = types.ApplyWorkspaceEditParams(edit, "Kernelwright: fix all")
        await answered(session.server.workspace_apply_edit_async(parameters), CLIENT_SECONDS)
    return count


async def open_evidence(session: Session, arguments: list[Any]) -> str:
    """[uri, key] -> a script that shows the finding's number and verdict with torch alone."""
    workload = _workload(await _finding(session, arguments))
    text = await session.snapshots.run(lambda: _script(workload))
    return await _shown(session, text, "evidence.py")


async def open_program(session: Session, arguments: list[Any]) -> str:
    """[uri, key] -> both programs in the architecture language."""
    workload = _workload(await _finding(session, arguments))
    before, after = print_program(workload.before, spans=False), print_program(workload.after, spans=False)
    text = f"# before\n{before}\n# after\n{after}"
    return await _shown(session, text, "program.txt")


async def explain(session: Session, arguments: list[Any]) -> str:
    """[uri, line from 0] -> markdown: the findings on the line, and how far a match got that did not succeed."""
    uri, line = _uri(arguments), _line(arguments) + 1
    snapshot = await session.snapshot(uri)
    if snapshot is None:
        raise JsonRpcInvalidParams(f"{uri} is not open in the editor")
    found = [
        finding
        for finding in (*snapshot.findings, *snapshot.declined)
        if finding.span.start_line <= line <= finding.span.end_line
    ] or under(snapshot, Span(line, 1, line, 1))
    texts = [describe(session, snapshot, finding) for finding in found]
    document = snapshot.document
    if snapshot.error is not None:
        texts.append(f"This file cannot be read now: {snapshot.error}")
    elif snapshot.analysis is None:
        texts.append("Nothing here mentions torch.")
    elif not texts:
        configuration = await session.settings.of(uri)
        texts.append(await session.snapshots.run(lambda: _explanation(session, document, line, configuration)))
    return await _shown(session, "\n\n---\n\n".join(text for text in texts if text), "explanation.md")


async def pause(session: Session, arguments: list[Any]) -> None:
    """[] Stop measuring in the background until `resume`."""
    session.background.pause()


async def resume(session: Session, arguments: list[Any]) -> None:
    """[] Measure in the background again."""
    session.background.resume()


async def clear_measurements(session: Session, arguments: list[Any]) -> None:
    """[] Forget every number and verdict, in the records too; the background begins anew."""
    async with session.background.held():
        await session.snapshots.run(session.measurements.clear)
    for uri in [document.uri for document in session.server.workspace.text_documents.values()]:
        session.changed(uri)
    session.refresh()


async def state(session: Session, arguments: list[Any]) -> dict[str, Any]:
    """[] -> the state of background work and numbers."""
    return session.state()


COMMANDS: dict[str, Command] = {
    "kernelwright.tuneFile": tune_file,
    "kernelwright.tuneAt": tune_at,
    "kernelwright.fixAll": fix_all_exact,
    "kernelwright.openEvidence": open_evidence,
    "kernelwright.openProgram": open_program,
    "kernelwright.explain": explain,
    "kernelwright.pause": pause,
    "kernelwright.resume": resume,
    "kernelwright.clearMeasurements": clear_measurements,
    "kernelwright.state": state,
}


def handler(session: Session, command: Command) -> Callable[..., Awaitable[Any]]:
    """The command as pygls calls it: arguments unpacked, and unconverted because they are declared as `Any`."""

    async def run(*arguments: Any) -> Any:
        await session.wait_until_ready()
        return await command(session, [plain(argument) for argument in arguments])

    return run


def debug(session: Session) -> dict[str, Any]:
    """The answer to `kernelwright/debug`: what this process is and has loaded, for bug reports and our own tests."""
    return {
        "python": sys.version,
        "executable": sys.executable,
        "modules": sorted({n if n.startswith("kernelwright") else n.partition(".")[0] for n in list(sys.modules)}),
        "tasks": len(asyncio.all_tasks()),
        "state": session.state(),
    }


def _uri(arguments: list[Any]) -> str:
    if not arguments or not isinstance(arguments[0], str):
        raise JsonRpcInvalidParams("the first argument must be the document's URI")
    return arguments[0]


def _line(arguments: list[Any]) -> int:
    if len(arguments) < 2 or not isinstance(arguments[1], int):
        raise JsonRpcInvalidParams("the second argument must be a line, counted from 0")
    return arguments[1]


async def _finding(session: Session, arguments: list[Any]) -> Finding:
    uri = _uri(arguments)
    snapshot = await session.snapshot(uri)
    found = snapshot.find(str(arguments[1])) if snapshot is not None and len(arguments) > 1 else None
    if found is None:
        raise JsonRpcInvalidParams("there is no such finding in the document any more")
    return found


def _workload(finding: Finding) -> Workload:
    if finding.opportunity.workload is None:
        raise JsonRpcException(f"there is nothing to show for this finding: {NO_WORKLOAD}", REQUEST_FAILED)
    return finding.opportunity.workload


def _script(workload: Workload) -> str:
    from kernelwright.tuner.evidence_script import script

    try:
        return script(workload)
    except ValueError as error:
        raise JsonRpcException(f"there is no script for this finding: {error}", REQUEST_FAILED) from error


def _explanation(session: Session, document: Document, line: int, configuration: Configuration) -> str:
    from kernelwright.analyzers.analysis import explain_line

    return explain_line(document.text, document.path, line, session.analysis_settings(configuration))


async def _shown(session: Session, text: str, name: str) -> str:
    """The text; opened in the editor too where the client asked for that (`showDocuments`, for other editors)."""
    if session.settings.everywhere.show_documents and session.client.show_document:
        folder = Path(tempfile.mkdtemp(prefix="kernelwright-"))
        (folder / name).write_text(text, encoding="utf-8")
        parameters = types.ShowDocumentParams((folder / name).as_uri(), take_focus=True)
        await answered(session.server.window_show_document_async(parameters), CLIENT_SECONDS)
    return text
