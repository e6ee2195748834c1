"""The language server: pygls with our features bound to one session. `serve` runs it on stdin and stdout."""

from __future__ import annotations

import logging
import sys
from importlib import metadata
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from kernelwright.server.lsp import actions, commands, diagnostics, hints, hover, tuning
from kernelwright.server.lsp.client import client_of
from kernelwright.server.lsp.documents import plain, repair_pygls
from kernelwright.server.lsp.session import Session

NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [
        types.NotebookDocumentFilterWithNotebook(
            notebook="jupyter-notebook", cells=[types.NotebookCellLanguage(language="python")]
        )
    ]
)


class Server(LanguageServer):
    """pygls' server, whose errors outside of requests go to the log: a popup for each would be noise to the user."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        logging.getLogger("kernelwright").error("%s: %s", getattr(source, "__name__", source), error)


def build() -> tuple[Server, Session]:
    """The server with every feature registered, not running yet, and its session."""
    repair_pygls()
    # Threads are for reading stdin only (pygls reads in its pool); our work has its own.
    server = Server("kernelwright", version(), notebook_document_sync=NOTEBOOKS, max_workers=2)
    session = Session(server)
    _register_life(server, session)
    _register_documents(server, session)
    _register_answers(server, session)
    for name, command in commands.COMMANDS.items():
        server.command(name)(commands.handler(session, command))
    return server, session


def version() -> str:
    try:
        return metadata.version("kernelwright")
    except metadata.PackageNotFoundError:  # run from source
        return "0+source"


def _register_life(server: Server, session: Session) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(parameters: types.InitializeParams) -> None:
        options = plain(parameters.initialization_options)
        session.begin(client_of(parameters, options), options)

    @server.feature(types.INITIALIZED)
    async def initialized(parameters: types.InitializedParams) -> None:
        await session.start()

    @server.feature(types.SHUTDOWN)
    async def shutdown(parameters: None) -> None:
        await session.end()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configuration(parameters: types.DidChangeConfigurationParams) -> None:
        session.settings.accept(parameters.settings)
        await session.reconfigure()


def _register_documents(server: Server, session: Session) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(parameters: types.DidOpenTextDocumentParams) -> None:
        session.changed(parameters.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(parameters: types.DidChangeTextDocumentParams) -> None:
        session.changed(parameters.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(parameters: types.DidCloseTextDocumentParams) -> None:
        session.closed(parameters.text_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_did_open(parameters: types.DidOpenNotebookDocumentParams) -> None:
        for cell in parameters.cell_text_documents:
            session.changed(cell.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_did_change(parameters: types.DidChangeNotebookDocumentParams) -> None:
        cells = parameters.change.cells
        if cells is None:
            return
        if cells.structure is not None:
            for opened in cells.structure.did_open or []:
                session.changed(opened.uri)
            for closed in cells.structure.did_close or []:
                session.closed(closed.uri)
        for content in cells.text_content or []:
            session.changed(content.document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_did_close(parameters: types.DidCloseNotebookDocumentParams) -> None:
        for cell in parameters.cell_text_documents:
            session.closed(cell.uri)


def _register_answers(server: Server, session: Session) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(identifier="kernelwright", inter_file_dependencies=False, workspace_diagnostics=False),
    )
    async def pull(parameters: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        return await diagnostics.pull(session, parameters)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=list(actions.KINDS), resolve_provider=True),
    )
    async def code_action(parameters: types.CodeActionParams) -> list[types.CodeAction]:
        return await actions.code_actions(session, parameters)

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def code_action_resolve(action: types.CodeAction) -> types.CodeAction:
        return await actions.resolve(session, action)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def show_hover(parameters: types.HoverParams) -> types.Hover | None:
        return await hover.hover(session, parameters)

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=True))
    async def inlay_hint(parameters: types.InlayHintParams) -> list[types.InlayHint]:
        return await hints.inlay_hints(session, parameters)

    @server.feature(types.INLAY_HINT_RESOLVE)
    async def inlay_hint_resolve(hint: types.InlayHint) -> types.InlayHint:
        return await hints.resolve(session, hint)

    @server.feature("kernelwright/tune")
    async def tune(parameters: Any) -> dict[str, Any]:
        given = plain(parameters)
        if not isinstance(given, dict) or not isinstance(given.get("uri"), str):
            raise JsonRpcInvalidParams("kernelwright/tune needs {uri, line?}")
        line = given.get("line")
        token = given.get("workDoneToken")
        return await tuning.tune(session, given["uri"], line if isinstance(line, int) else None, token)

    @server.feature("kernelwright/debug")
    async def debug(parameters: Any) -> dict[str, Any]:
        return commands.debug(session)


def serve() -> int:
    """Serve one client on stdin and stdout until it says `exit` or closes stdin. Returns the exit status."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    logging.getLogger("pygls").setLevel(logging.ERROR)
    for output in logging.getLogger().handlers:
        output.addFilter(_unexpected)
    channel = sys.stdout.buffer
    # A stray print would break the protocol.
    sys.stdout = sys.stderr
    server, session = build()
    try:
        server.start_io(sys.stdin.buffer, channel)
    finally:
        session.abandon()
    return 0


def _unexpected(record: logging.LogRecord) -> bool:
    """False for errors that are answers (a fix withheld, a document changed): the client shows those."""
    return not (record.exc_info and isinstance(record.exc_info[1], JsonRpcException))
