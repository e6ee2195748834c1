"""An editor for the tests: the real server in a process of its own, driven as three editors would drive it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol import types as t
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

GELU = "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))"

# Every line counts: a form feed and U+2028 are no line ends in Python and LSP, but `str.splitlines` breaks at both, and
# on the finding's own line stand characters of one to four UTF-8 bytes, and of two UTF-16 units.
SAMPLE = (
    "import math\n"
    "\n"
    "import torch\n"
    "from torch import nn\n"
    "\n"
    'SEPARATORS = "\u2028\u2029\x85 ä"\n'
    "\x0c\n"
    "class NewGELU(nn.Module):\n"
    '    """Größe 😀"""\n'
    "\n"
    "    def forward(self, x):\n"
    f'        größe = "😀\u2028€"; return {GELU}\n'
)

PROFILES = {
    "visual_studio_code": t.PositionEncodingKind.Utf16,
    "neovim": t.PositionEncodingKind.Utf8,
    "emacs": t.PositionEncodingKind.Utf32,
}

SECONDS = 300.0
"""How long a test waits for something that must come; never a measure of speed."""


def units(text: str, encoding: str) -> int:
    """Length of a text as LSP counts it in an encoding, worked out apart from the server's way."""
    if encoding == t.PositionEncodingKind.Utf8:
        return len(text.encode())
    if encoding == t.PositionEncodingKind.Utf16:
        return len(text.encode("utf-16-le")) // 2
    return len(text)


class Editor:
    """One document in a client: its text, its version, and requests by offsets in that text."""

    def __init__(self, client: LanguageClient, encoding: str, profile: str, uri: str) -> None:
        self.client, self.encoding, self.profile, self.uri = client, encoding, profile, uri
        self.text = ""
        self.version = 0
        self.document = t.TextDocumentIdentifier(uri)

    def beside(self, name: str) -> Editor:
        """Another document in the same client."""
        folder = self.uri.rpartition("/")[0]
        return Editor(self.client, self.encoding, self.profile, f"{folder}/{name}")

    @property
    def pulls(self) -> bool:
        return self.profile != "emacs"

    def open(self, text: str) -> None:
        self.text, self.version = text, 1
        self.client.text_document_did_open(
            t.DidOpenTextDocumentParams(t.TextDocumentItem(self.uri, "python", self.version, text))
        )

    def close(self) -> None:
        self.client.text_document_did_close(t.DidCloseTextDocumentParams(self.document))

    def change(self, start: int, end: int, new: str) -> None:
        """An incremental change of `text[start:end]`."""
        self.version += 1
        change = t.TextDocumentContentChangePartial(range=self.range(start, end), text=new)
        self.client.text_document_did_change(
            t.DidChangeTextDocumentParams(t.VersionedTextDocumentIdentifier(self.version, self.uri), [change])
        )
        self.text = self.text[:start] + new + self.text[end:]

    def replace(self, old: str, new: str) -> None:
        """An incremental change of the only place where `old` stands."""
        assert self.text.count(old) == 1
        start = self.text.index(old)
        self.change(start, start + len(old), new)

    def position(self, offset: int) -> t.Position:
        ends = [match.end() for match in re.finditer(r"\r\n|\r|\n", self.text) if match.end() <= offset]
        return t.Position(len(ends), units(self.text[ends[-1] if ends else 0 : offset], self.encoding))

    def range(self, start: int, end: int) -> t.Range:
        return t.Range(self.position(start), self.position(end))

    def at(self, needle: str) -> t.Range:
        """The range of the only place where a text stands."""
        assert self.text.count(needle) == 1
        start = self.text.index(needle)
        return self.range(start, start + len(needle))

    def offset(self, position: t.Position) -> int:
        starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", self.text))]
        start = starts[position.line]
        for offset in range(start, len(self.text) + 1):
            if units(self.text[start:offset], self.encoding) == position.character:
                return offset
        raise AssertionError(f"no such position {position}")

    def apply(self, edit: t.WorkspaceEdit) -> str:
        """The text after a workspace edit, which must be for this version where the client can be told versions."""
        if edit.document_changes is not None:
            (change,) = edit.document_changes
            assert isinstance(change, t.TextDocumentEdit)
            assert (change.text_document.uri, change.text_document.version) == (self.uri, self.version)
            edits = list(change.edits)
        else:
            assert edit.changes is not None
            edits = list(edit.changes[self.uri])
        text = self.text
        places = sorted(((self.offset(e.range.start), self.offset(e.range.end), e) for e in edits), key=lambda p: -p[0])
        for start, end, one in places:
            assert isinstance(one, t.TextEdit)
            text = text[:start] + one.new_text + text[end:]
        return text

    async def diagnostics(self) -> list[t.Diagnostic]:
        """The diagnostics of the version just sent: pulled, or as they are pushed."""
        if self.pulls:
            report = await self.client.text_document_diagnostic_async(t.DocumentDiagnosticParams(self.document))
            assert isinstance(report, t.RelatedFullDocumentDiagnosticReport)
            return list(report.items)
        return await self.pushed(self.version)

    async def pushed(self, version: int | None) -> list[t.Diagnostic]:
        published: dict[tuple[str, int | None], list[t.Diagnostic]] = self.client.published  # type: ignore[attr-defined]
        await self.until(lambda: (self.uri, version) in published)
        return published[self.uri, version]

    async def hints(self) -> list[t.InlayHint]:
        whole = self.range(0, len(self.text))
        found = await self.client.text_document_inlay_hint_async(t.InlayHintParams(self.document, whole))
        return list(found or [])

    async def hover(self, position: t.Position) -> str | None:
        found = await self.client.text_document_hover_async(t.HoverParams(self.document, position))
        if found is None:
            return None
        assert isinstance(found.contents, t.MarkupContent)
        return found.contents.value

    async def actions(
        self, at: t.Range, only: list[str] | None = None, diagnostics: list[t.Diagnostic] | None = None
    ) -> list[Any]:
        context = t.CodeActionContext(diagnostics=diagnostics or [], only=only)
        found = await self.client.text_document_code_action_async(t.CodeActionParams(self.document, at, context))
        return list(found or [])

    async def fix(self, at: t.Range) -> t.CodeAction:
        """The quick fix at a range, with its edit."""
        actions = await self.actions(at, ["quickfix"])
        chosen = next(a for a in actions if isinstance(a, t.CodeAction) and a.disabled is None)
        return chosen if chosen.edit is not None else await self.client.code_action_resolve_async(chosen)

    async def execute(self, command: str, *arguments: Any) -> Any:
        parameters = t.ExecuteCommandParams(command, arguments=list(arguments))
        return await self.client.workspace_execute_command_async(parameters)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that must come to be."""

        async def poll() -> None:
            while not condition():
                await asyncio.sleep(0.02)

        await asyncio.wait_for(poll(), SECONDS)

    async def debug(self) -> Any:
        return await self.client.protocol.send_request_async("kernelwright/debug", {})


def capabilities(profile: str) -> t.ClientCapabilities:
    """What the editor can do. pytest-lsp's VS Code is from 2022: what came since is added."""
    result = client_capabilities(profile)
    if profile == "visual_studio_code":
        assert result.text_document is not None and result.workspace is not None
        result.text_document.diagnostic = t.DiagnosticClientCapabilities()
        result.text_document.inlay_hint = t.InlayHintClientCapabilities(
            resolve_support=t.ClientInlayHintResolveOptions(properties=["tooltip"])
        )
        result.workspace.diagnostics = t.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
        result.workspace.inlay_hint = t.InlayHintWorkspaceClientCapabilities(refresh_support=True)
    return result


class Editors:
    """Starts servers, each with an editor of its own, and ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clients: list[LanguageClient] = []

    async def start(
        self,
        profile: str = "visual_studio_code",
        *,
        settings: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
        change: Callable[[t.ClientCapabilities], None] = lambda capabilities: None,
    ) -> Editor:
        """A fresh server and an editor with nothing open; background work is off unless the settings say otherwise."""
        state = {"XDG_STATE_HOME": str(self.folder / "state")}
        config = ClientServerConfig(
            server_command=[sys.executable, "-m", "kernelwright.server", "--stdio"],
            server_env=os.environ | state | (environment or {}),
        )
        client = await config.start()
        assert isinstance(client, LanguageClient)
        self._clients.append(client)
        published: dict[tuple[str, int | None], list[t.Diagnostic]] = {}
        client.published = published  # type: ignore[attr-defined]
        client.states = []  # type: ignore[attr-defined]
        client.hint_refreshes = []  # type: ignore[attr-defined]
        client.set_configuration({"background": "off"} | (settings or {}), section="kernelwright")

        @client.feature("kernelwright/state")
        def state_changed(parameters: Any) -> None:
            client.states.append(parameters)  # type: ignore[attr-defined]

        @client.feature(t.WORKSPACE_INLAY_HINT_REFRESH)
        def hints_stale(parameters: Any) -> None:
            client.hint_refreshes.append(parameters)  # type: ignore[attr-defined]

        publish = client.protocol.fm.features[t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS]

        def note(parameters: t.PublishDiagnosticsParams) -> None:
            published[parameters.uri, parameters.version] = list(parameters.diagnostics)
            publish(parameters)

        client.protocol.fm.features[t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = note
        able = capabilities(profile)
        change(able)
        result = await client.initialize_session(
            t.InitializeParams(
                capabilities=able,
                initialization_options={"trusted": True} if options is None else options,
                workspace_folders=[t.WorkspaceFolder(uri=self.folder.as_uri(), name="workspace")],
            )
        )
        client.initialized_with = result  # type: ignore[attr-defined]
        encoding = result.capabilities.position_encoding or t.PositionEncodingKind.Utf16
        return Editor(client, str(encoding), profile, (self.folder / "model ä.py").as_uri())

    async def loaded_before_initialized(self) -> set[str]:
        """The modules a server has loaded when it has answered `initialize` and nothing more."""
        config = ClientServerConfig(server_command=[sys.executable, "-m", "kernelwright.server"])
        client = await config.start()
        assert isinstance(client, LanguageClient)
        self._clients.append(client)
        client.capabilities = capabilities("neovim")
        await client.initialize_async(t.InitializeParams(capabilities=client.capabilities))
        return set((await client.protocol.send_request_async("kernelwright/debug", {})).modules)

    async def end(self) -> None:
        for client in self._clients:
            if client._server is not None and client._server.returncode is None:
                await client.shutdown_session()
            await client.stop()


@pytest_asyncio.fixture
async def editors(tmp_path: Path) -> AsyncIterator[Editors]:
    """Starts editors with a server each; all end with the test."""
    started = Editors(tmp_path)
    yield started
    await started.end()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=list(PROFILES))
async def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    """One server for a module's tests in each of the three editors; a test opens documents `beside` it."""
    started = Editors(tmp_path_factory.mktemp("workspace"))
    yield await started.start(request.param)
    await started.end()


@pytest.fixture
def sample() -> str:
    """A file with one GELU, and with everything in it that shifts columns and breaks lines where LSP does not."""
    return SAMPLE


@pytest.fixture
def gelu() -> str:
    """The hand-written GELU of the sample."""
    return GELU
