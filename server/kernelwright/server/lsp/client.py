"""What the connected client can do, read once from its capabilities."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lsprotocol import types
from pygls.capabilities import get_capability

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Client:
    """One flag for each optional thing the server would do.

    `pull_diagnostics`: it asks for diagnostics, so none are pushed. `lazy_edits`: code actions may come without their
    edit. `links`: hovers may hold `command:` links (our VS Code extension).
    """

    pull_diagnostics: bool = False
    refresh_diagnostics: bool = False
    refresh_hints: bool = False
    lazy_edits: bool = False
    lazy_tooltips: bool = False
    disabled_actions: bool = False
    document_changes: bool = False
    markdown: bool = False
    configuration: bool = False
    progress: bool = False
    show_document: bool = False
    apply_edit: bool = False
    links: bool = False


def client_of(parameters: types.InitializeParams, options: Any) -> Client:
    """The client of an `initialize` request; `options` are its initialization options as plain JSON."""
    capabilities = parameters.capabilities

    def has(path: str) -> bool:
        return get_capability(capabilities, path, False) is True

    resolvable = get_capability(capabilities, "text_document.code_action.resolve_support.properties", None) or []
    hint_parts = get_capability(capabilities, "text_document.inlay_hint.resolve_support.properties", None) or []
    hover = get_capability(capabilities, "text_document.hover.content_format", None) or []
    return Client(
        pull_diagnostics=capabilities.text_document is not None and capabilities.text_document.diagnostic is not None,
        refresh_diagnostics=has("workspace.diagnostics.refresh_support"),
        refresh_hints=has("workspace.inlay_hint.refresh_support"),
        lazy_edits="edit" in resolvable and has("text_document.code_action.data_support"),
        lazy_tooltips="tooltip" in hint_parts,
        disabled_actions=has("text_document.code_action.disabled_support"),
        document_changes=has("workspace.workspace_edit.document_changes"),
        markdown=types.MarkupKind.Markdown in hover,
        configuration=has("workspace.configuration"),
        progress=has("window.work_done_progress"),
        show_document=has("window.show_document.support"),
        apply_edit=has("workspace.apply_edit"),
        links=isinstance(options, Mapping) and "trusted" in options,
    )


async def answered(request: Coroutine[Any, Any, T], seconds: float) -> T:
    """The client's answer to a request of ours.

    Not `asyncio.wait_for`: that cancels the request when it, or the handler that waits, is given up; pygls 2.1 then
    fails to store the answer that still comes, and logs an error for it.

    Raises:
        TimeoutError: there was none within `seconds`.
    """
    task = asyncio.get_running_loop().create_task(request)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    return task.result()
