"""The client's settings as they hold now, for each document: asked for with `workspace/configuration`, and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from kernelwright.server.lsp.client import answered
from kernelwright.server.lsp.configuration import Configuration, parse
from kernelwright.server.lsp.documents import plain

ANSWER_SECONDS = 3.0
"""How long a client may take to answer before the defaults are used."""


class ClientSettings:
    """Settings come from the first of: the client's answer, what it sent with a change, its initialization options."""

    def __init__(self, server: LanguageServer, say: Callable[[str], None]) -> None:
        self._server = server
        self._say = say
        self._asks = False
        self._options: Any = None
        self._section: Any = None
        self._scoped: dict[str, Configuration] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self.everywhere = Configuration()
        """The settings of no document in particular: interpreter, background, budget."""

    def begin(self, options: Any, *, asks: bool) -> None:
        """`initialize` came with these options (plain JSON); `asks`: the client answers `workspace/configuration`."""
        self._options, self._asks = options, asks
        if isinstance(options, dict):
            self._section = options.get("settings", options)
        self.everywhere = parse(self._section, options)

    def accept(self, sent: Any) -> None:
        """`didChangeConfiguration` came with settings: used where the client cannot be asked."""
        values = plain(sent)
        if isinstance(values, dict):
            self._section = values.get("kernelwright", values)

    async def renew(self) -> bool:
        """Ask anew. True where something changed for anybody who asked before."""
        before, old = dict(self._scoped), self.everywhere
        self._scoped.clear()
        self.everywhere = await self._ask(None)
        changed = self.everywhere != old
        for uri, configuration in before.items():
            changed |= await self.of(uri) != configuration
        return changed

    async def of(self, uri: str) -> Configuration:
        """The settings that hold for a document (they may differ between folders)."""
        while (found := self._scoped.get(uri)) is None:
            task = self._asking.get(uri)
            if task is None:
                task = self._asking[uri] = asyncio.get_running_loop().create_task(self._keep(uri))
            # Shielded and shared: a request that is cancelled must not take the answer from the others.
            await asyncio.shield(task)
        return found

    async def _keep(self, uri: str) -> None:
        try:
            self._scoped[uri] = await self._ask(uri)
        finally:
            del self._asking[uri]

    def known(self, uri: str) -> Configuration:
        """The same without asking, for threads; the settings of no document where it was not asked yet."""
        return self._scoped.get(uri, self.everywhere)

    def forget(self, uri: str) -> None:
        self._scoped.pop(uri, None)

    async def _ask(self, uri: str | None) -> Configuration:
        if not self._asks:
            return parse(self._section, self._options)
        item = types.ConfigurationItem(scope_uri=uri, section="kernelwright")
        request = self._server.workspace_configuration_async(types.ConfigurationParams([item]))
        try:
            answer = plain(await answered(request, ANSWER_SECONDS))
        except Exception as error:  # a client may refuse, time out or answer nonsense: the defaults serve
            self._say(f"the client gave no settings ({type(error).__name__}: {error}), defaults are used")
            return parse(self._section, self._options)
        section = answer[0] if isinstance(answer, list) and answer else None
        return parse(section or self._section, self._options)
