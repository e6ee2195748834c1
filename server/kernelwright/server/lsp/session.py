"""One client's session, which all features share: the documents' snapshots, the settings, the numbers.

Features take a session and a request's parameters. Nothing here blocks the event loop, and whatever is heavy
(analyzers, tuner) is imported in a thread after `initialize` was answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from kernelwright.server.background import Background, Job
from kernelwright.server.interpreter import Interpreter, choose
from kernelwright.server.lsp.client import Client
from kernelwright.server.lsp.configuration import Configuration
from kernelwright.server.lsp.documents import Lines, path_of
from kernelwright.server.lsp.settings import ClientSettings
from kernelwright.server.measurements import Measurements, open_records, work_key
from kernelwright.server.numbers import Numbers
from kernelwright.server.resolving import resolver_of
from kernelwright.server.snapshot import Document, Finding, Snapshot, Snapshots

if TYPE_CHECKING:
    from kernelwright.analyzers.analysis import FileAnalysis, Settings
    from kernelwright.analyzers.resolve import JediResolver

log = logging.getLogger("kernelwright")

QUIET_SECONDS = 0.3
"""After the last change of a document, before its workloads are looked up and queued: not while somebody types."""


class Session:
    """State of one connection. Made when the server is, filled by `begin` when the client says who it is."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.client = Client()
        self._ready = asyncio.Event()
        self._configuring = asyncio.Lock()
        self.settings = ClientSettings(server, self.say)
        self._measurements: Measurements | None = None
        self._resolver: JediResolver | None = None
        self._background: Background | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._announced: dict[str, Any] | None = None
        self.snapshots = Snapshots(self._analyse, work_key, self.say, self._deepened)

    # -- life ---------------------------------------------------------------------------------------------------------

    def begin(self, client: Client, options: Any) -> None:
        """`initialize` came: note what the client can do. Its initialization options may hold settings."""
        self.client = client
        self.settings.begin(options, asks=client.configuration)

    async def start(self) -> None:
        """`initialized` came: read the settings, choose the interpreter, load the analyzers in a thread."""
        await self.reconfigure()
        await self.snapshots.run(_load_analyzers)

    async def reconfigure(self) -> None:
        """The settings may have changed: ask for them, analyse anew, use another interpreter where it changed."""
        async with self._configuring:  # editors send a change right behind `initialized`
            changed = await self.settings.renew()
            folders = [Path(path_of(uri)) for uri in self.server.workspace.folders]
            interpreter = await self.snapshots.run(lambda: choose(self.settings.everywhere.interpreter, folders))
            first = self._measurements is None
            if first or self.measurements.interpreter != interpreter:
                changed = True
                await self._use(interpreter)
            self._ready.set()
            self.background.budget_seconds = self.settings.everywhere.budget_seconds
            self.background.enable(self.measuring_allowed)
            if not changed:
                return
            self.snapshots.clear()
            for document in list(self.server.workspace.text_documents.values()):
                self.changed(document.uri)
            if not first:
                self.refresh()

    async def _use(self, interpreter: Interpreter) -> None:
        log.info("interpreter: %s", interpreter)
        resolver = self._resolver
        self._resolver = await self.snapshots.run(lambda: resolver_of(interpreter))
        if resolver is not None:
            await self.snapshots.run(resolver.close)
        records = await self.snapshots.run(open_records)
        old = self._measurements
        if old is None:
            self._measurements = Measurements(interpreter, records, self.say)
            return
        async with self.background.held():
            self._measurements = Measurements(interpreter, records, self.say)
            await old.close()

    async def end(self) -> None:
        """`shutdown` came: stop the queue and the worker."""
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        if self._background is not None:
            await self._background.close()
        if self._measurements is not None:
            await self._measurements.close()
        self.abandon()

    def abandon(self) -> None:
        """The connection is gone, whether there was a `shutdown` or not: let no thread keep the process."""
        if self._resolver is not None:
            self._resolver.close()
        self.snapshots.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside everything else; a failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task failed", exc_info=error)

    def say(self, line: str) -> None:
        """A line for the log (stderr; the editor shows it in the output channel). May be called in any thread."""
        log.warning("%s", line)

    # -- settings -----------------------------------------------------------------------------------------------------

    @property
    def measuring_allowed(self) -> bool:
        """Whether the background may start the interpreter: by the setting, and in a trusted workspace only."""
        return self.settings.everywhere.background != "off" and self.settings.everywhere.trusted

    def analysis_settings(self, configuration: Configuration, *, deep: bool = True) -> Settings:
        """The analyzers' settings; deep ones look names up in other files. Imports the rules: call it in a thread."""
        from kernelwright.analyzers.analysis import Settings

        return Settings(
            torch_version=self.measurements.interpreter.torch_version,
            rules=configuration.select or None,
            ignored=configuration.ignore,
            advice=configuration.advice,
            batch=configuration.batch,
            sequence=configuration.sequence,
            resolver=self._resolver if deep else None,
            packages=self.measurements.interpreter.packages,
            torch_build=self.measurements.interpreter.torch_build,
        )

    # -- documents ----------------------------------------------------------------------------------------------------

    def document(self, uri: str) -> Document | None:
        """The open document as it is now."""
        found = self.server.workspace.text_documents.get(unquote(uri))  # pygls' own key
        return None if found is None else Document(found.uri, path_of(found.uri), found.version, found.source)

    async def snapshot(self, uri: str) -> Snapshot | None:
        """The snapshot of an open document's newest version; None where it is not open."""
        await self.wait_until_ready()
        await self.settings.of(uri)
        return await self.snapshots.of(lambda: self.document(uri))

    async def wait_until_ready(self) -> None:
        """Requests may come before the settings are known; they wait."""
        await self._ready.wait()

    def lines(self, snapshot: Snapshot) -> Lines:
        return Lines.of(snapshot.document.text, self.server.workspace.position_codec)

    def _analyse(self, document: Document, deep: bool) -> FileAnalysis:
        from kernelwright.analyzers.analysis import analyse

        settings = self.analysis_settings(self.settings.known(document.uri), deep=deep)
        return analyse(document.text, document.path, settings)

    def changed(self, uri: str) -> None:
        """A document was opened or changed: push diagnostics to a client that does not pull, queue its workloads."""
        if not self.client.pull_diagnostics:
            self.spawn(self.push(uri))
        self._later(uri, lambda: self.spawn(self._queue(uri)))

    def _deepened(self, uri: str) -> None:
        """A look into other files found something else: have the client ask again, queue what is new."""
        self._later(uri, lambda: self.spawn(self._queue(uri)), 0.0)
        self.refresh()

    def closed(self, uri: str) -> None:
        """A document was closed: forget it, measure nothing more for it."""
        if timer := self._timers.pop(uri, None):
            timer.cancel()
        self.settings.forget(uri)
        self.snapshots.forget(uri)
        if self._background is not None:
            self._background.forget(uri)
        if not self.client.pull_diagnostics:
            self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _later(self, name: str, action: Callable[[], None], seconds: float = QUIET_SECONDS) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, action)

    async def push(self, uri: str) -> None:
        """Publish a document's diagnostics, for a client that does not ask for them."""
        from kernelwright.server.lsp.diagnostics import diagnostics

        asked = self.document(uri)
        snapshot = await self.snapshot(uri)
        # Of a newer version they are published by what that change set off.
        if snapshot is not None and asked is not None and snapshot.document.version == asked.version:
            items = diagnostics(self, snapshot, await self.settings.of(uri))
            self.server.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(uri, items, snapshot.document.version)
            )

    # -- numbers ------------------------------------------------------------------------------------------------------

    @property
    def measurements(self) -> Measurements:
        assert self._measurements is not None, "asked before the client's settings were read"
        return self._measurements

    @property
    def background(self) -> Background:
        if self._background is None:
            self._background = Background(
                lambda: self.measurements, landed=self.landed, changed=self.announce, log=self.say
            )
        return self._background

    def numbers(self, finding: Finding) -> Numbers:
        return self.measurements.known(finding.work)

    def why_no_numbers(self) -> str | None:
        """Why nothing is measured at all, and what to do; None where it may be."""
        if self.measurements.unavailable is not None:
            return self.measurements.unavailable
        if not self.settings.everywhere.trusted:
            return "not measured: this workspace is not trusted"
        if self.settings.everywhere.background == "off":
            return "not measured: the setting kernelwright.background is off; the command Tune measures now"
        return "not measured yet: measuring is paused" if self.background.paused else None

    async def _queue(self, uri: str) -> None:
        """Look up what is known of a document's workloads, and queue what is not."""
        snapshot = await self.snapshot(uri)
        if snapshot is None or not snapshot.current:
            return
        found = [
            (finding, finding.work, workload)
            for finding in snapshot.findings
            if finding.work is not None and (workload := finding.opportunity.workload) is not None
        ]
        work = [(key, workload) for _, key, workload in found]
        if await self.snapshots.run(lambda: self.measurements.look_up(work, assume=True)):
            self.refresh()
        jobs = [
            Job(uri, key, workload, f"{finding.opportunity.rule} in {finding.opportunity.qualified_name}")
            for finding, key, workload in found
        ]
        self.background.want(uri, sorted(jobs, key=lambda job: -_promise(self.measurements.known(job.key))))

    def landed(self) -> None:
        """A number came: look up what hangs on it, and have the client ask again, once for several in a row."""
        for snapshot in list(self.server.workspace.text_documents.values()):
            if (latest := self.snapshots.latest(snapshot.uri)) is not None and latest.findings:
                self._later(f"look up {snapshot.uri}", self._look_up_again(latest), 0.0)
        self._later("refresh", self.refresh, 0.1)

    def _look_up_again(self, snapshot: Snapshot) -> Callable[[], None]:
        work = [
            (finding.work, finding.opportunity.workload)
            for finding in snapshot.findings
            if finding.work is not None and finding.opportunity.workload is not None
        ]

        async def look_up() -> None:
            if await self.snapshots.run(lambda: self.measurements.look_up(work, assume=True)):
                self.refresh()

        return lambda: self.spawn(look_up())

    def refresh(self) -> None:
        """Have the client ask for diagnostics and hints again, or push them where it cannot be told to."""
        if self.client.refresh_hints:
            self.server.workspace_inlay_hint_refresh(None)
        if self.client.refresh_diagnostics and self.client.pull_diagnostics:
            self.server.workspace_diagnostic_refresh(None)
        elif not self.client.pull_diagnostics:
            for document in list(self.server.workspace.text_documents.values()):
                self.spawn(self.push(document.uri))

    # -- state --------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The object of `kernelwright.state` and of the notification `kernelwright/state`."""
        known = self._measurements
        background = self.background
        return {
            "background": background.state if self.measuring_allowed else "off",
            "device": known.device_name if known else None,
            "queue": background.queue if known and self.measuring_allowed else 0,
            "paused": background.paused,
            "available": known.unavailable if known else None,
        }

    def announce(self) -> None:
        """Tell the client the state where it changed."""
        state = self.state()
        if self._ready.is_set() and state != self._announced:
            self._announced = state
            self.server.protocol.notify("kernelwright/state", state)


def _promise(numbers: Numbers) -> float:
    """What a workload is expected to save: the seconds predicted to go away, 0 where nothing is predicted."""
    best = numbers.best
    if best is None or best.value is None:
        return 0.0
    if best.before_seconds is not None and best.after_seconds is not None:
        return best.before_seconds - best.after_seconds
    return best.value - 1.0


def _load_analyzers() -> None:
    """Import what the first analysis needs, off the event loop, so that the first file does not wait for it."""
    import kernelwright.analyzers.analysis  # noqa: F401
