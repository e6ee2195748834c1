"""The server as a guest: it answers while it works, drops what is cancelled, loads nothing heavy, goes when told."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from lsprotocol import types as t
from pygls.exceptions import JsonRpcRequestCancelled

HEAVY = {"torch", "tvm", "tensorflow", "jax"}


def many(sample: str, gelu: str, count: int) -> str:
    """A file whose analysis takes long enough to ask something else meanwhile."""
    classes = (
        f"class GELU{n}(nn.Module):\n    def forward(self, x):\n        return {gelu}\n\n\n" for n in range(count)
    )
    return sample + "\n\n" + "".join(classes)


async def test_a_question_is_answered_while_a_long_analysis_runs(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start()
    editor.open(many(sample, gelu, 60))
    pulled = asyncio.create_task(editor.diagnostics())
    await editor.debug()
    assert not pulled.done()
    assert len(await pulled) == 61


async def test_a_cancelled_request_is_answered_as_cancelled_and_the_next_one_well(
    editors: Any, sample: str, gelu: str
) -> None:
    editor = await editors.start()
    editor.open(many(sample, gelu, 60))
    parameters = t.DocumentDiagnosticParams(editor.document)
    names = [f"pull-{n}" for n in range(70)]
    send = editor.client.protocol.send_request_async
    requests = [asyncio.create_task(send(t.TEXT_DOCUMENT_DIAGNOSTIC, parameters, msg_id=name)) for name in names]
    await asyncio.sleep(0)  # the tasks begin, and send
    for name in names:
        editor.client.cancel_request(t.CancelParams(name))
    results = await asyncio.gather(*requests, return_exceptions=True)
    assert {type(result) for result in results} == {JsonRpcRequestCancelled}
    assert len(await editor.diagnostics()) == 61


async def test_the_answer_is_for_the_version_at_the_time_of_the_answer(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start()
    editor.open(sample)
    pulls = []
    for _ in range(20):
        editor.change(0, 0, "# one line more\n")
        pulls.append(asyncio.create_task(editor.diagnostics()))
    *_, last = await asyncio.gather(*pulls)
    assert [d.range for d in last] == [editor.at(gelu)]


async def test_initialize_is_answered_before_anything_heavy_is_loaded(editors: Any) -> None:
    modules = await editors.loaded_before_initialized()
    assert "pygls" in modules
    assert not modules & {"libcst", "jedi", "numpy", "sqlite3", "kernelwright.analyzers.analysis", *HEAVY}


async def test_nothing_heavy_is_ever_loaded(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start()
    editor.open(sample)
    (found,) = await editor.diagnostics()
    await editor.hover(editor.at(gelu).start)
    await editor.hints()
    await editor.fix(editor.at(gelu))
    await editor.execute("kernelwright.openEvidence", editor.uri, found.data["key"])
    await editor.execute("kernelwright.explain", editor.uri, 0)
    modules = set((await editor.debug()).modules)
    assert "kernelwright.analyzers.analysis" in modules
    assert not modules & HEAVY


def test_the_server_ends_when_its_input_does() -> None:
    command = [sys.executable, "-m", "kernelwright.server", "--stdio"]
    ended = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0
    assert ended.stdout == b""


async def test_shutdown_and_exit_end_it_with_success(editors: Any, sample: str) -> None:
    editor = await editors.start()
    editor.open(sample)
    process = editor.client._server
    await editor.client.shutdown_session()
    assert process.returncode == 0


async def test_notebook_cells_are_served_like_files(editors: Any, sample: str) -> None:
    editor = await editors.start()
    notebook = (editors.folder / "a.ipynb").as_uri()
    cell = notebook.replace("file://", "vscode-notebook-cell:") + "#W0sZmlsZQ%3D%3D"
    item = t.TextDocumentItem(cell, "python", 1, sample)
    cells = [t.NotebookCell(kind=t.NotebookCellKind.Code, document=cell)]
    document = t.NotebookDocument(uri=notebook, notebook_type="jupyter-notebook", version=1, cells=cells)
    editor.client.notebook_document_did_open(t.DidOpenNotebookDocumentParams(document, [item]))
    identifier = t.TextDocumentIdentifier(cell)
    report = await editor.client.text_document_diagnostic_async(t.DocumentDiagnosticParams(identifier))
    assert [d.code for d in report.items] == ["gelu"]
    place = t.HoverParams(identifier, report.items[0].range.start)
    assert await editor.client.text_document_hover_async(place) is not None
    editor.client.notebook_document_did_close(
        t.DidCloseNotebookDocumentParams(t.NotebookDocumentIdentifier(notebook), [identifier])
    )
    report = await editor.client.text_document_diagnostic_async(t.DocumentDiagnosticParams(identifier))
    assert report.items == ()


async def test_settings_choose_rules_and_hints(editors: Any, sample: str) -> None:
    editor = await editors.start(settings={"rules": {"ignore": ["gelu"]}})
    editor.open(sample)
    assert await editor.diagnostics() == []
    editor.client.set_configuration({"background": "off", "hints": "quiet"}, section="kernelwright")
    editor.client.workspace_did_change_configuration(t.DidChangeConfigurationParams(settings={}))
    await editor.execute("kernelwright.state")
    for _ in range(200):
        if found := await editor.diagnostics():
            break
    assert [d.severity for d in found] == [t.DiagnosticSeverity.Hint]
    assert await editor.hints() == []  # nothing is measured, and quiet shows nothing else


async def test_settings_may_come_with_initialization_from_clients_that_cannot_be_asked(
    editors: Any, sample: str
) -> None:
    def cannot_be_asked(able: t.ClientCapabilities) -> None:
        assert able.workspace is not None
        able.workspace.configuration = None

    editor = await editors.start(
        options={"settings": {"background": "off", "rules.select": ["silu"]}}, change=cannot_be_asked
    )
    editor.open(sample)
    assert await editor.diagnostics() == []


async def test_a_stranger_to_the_document_is_answered_with_nothing(editors: Any) -> None:
    editor = await editors.start()
    assert await editor.diagnostics() == []
    assert await editor.hints() == []
    assert await editor.hover(t.Position(0, 0)) is None
    with pytest.raises(Exception, match="not open"):
        await editor.execute("kernelwright.explain", editor.uri, 0)
