"""Work-done progress with cancel: from the client's own token, or one made by us where the client can show it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from lsprotocol import types

from kernelwright.server.lsp.client import answered

if TYPE_CHECKING:
    from kernelwright.server.lsp.session import Session

Report = Callable[[str, float], None]
"""Called with a message and the fraction done."""


@contextlib.asynccontextmanager
async def progress(session: Session, title: str, token: str | int | None) -> AsyncIterator[Report]:
    """Progress around a block; the client's cancel (`window/workDoneProgress/cancel`) cancels the task that holds it.

    `$/cancelRequest` needs nothing from here: pygls cancels the request's task.
    """
    shown = session.server.work_done_progress
    if token is None and session.client.progress:
        token = str(uuid.uuid4())
        with contextlib.suppress(Exception):  # a client that refuses shows none: the work goes on
            await answered(shown.create_async(token), 3.0)
    if token is None:
        yield lambda message, fraction: None
        return
    used = token
    shown.begin(used, types.WorkDoneProgressBegin(title, cancellable=True, percentage=0))
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def cancelled(future: object) -> None:
        if task is not None and shown.tokens[used].cancelled():
            loop.call_soon(task.cancel)

    shown.tokens[used].add_done_callback(cancelled)
    message = "done"
    try:
        yield lambda text, fraction: shown.report(
            used, types.WorkDoneProgressReport(message=text, percentage=round(100 * min(max(fraction, 0.0), 1.0)))
        )
    except asyncio.CancelledError:
        message = "cancelled"
        raise
    finally:
        shown.end(used, types.WorkDoneProgressEnd(message=message))
        shown.tokens.pop(used, None)  # pygls keeps tokens for ever, and refuses one that comes again
