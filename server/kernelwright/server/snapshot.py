"""Analyses of open documents: one immutable snapshot a version, made in threads of our own, never on the event loop.

A document has at most one analysis running; versions that come meanwhile are skipped but for the newest. Where the text
has a syntax error, the findings of the last good analysis are kept, moved with the lines around the change.

Names from other files are looked up by a helper that takes seconds to start. So a document that was just opened is first
analysed without (quick, and most findings need no other file), then once more, deep, behind the answer; later versions
are analysed deep at once, since the answers are kept.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kernelwright.analyzers.architecture import Span
from kernelwright.server.files import split_lines

if TYPE_CHECKING:
    from kernelwright.analyzers.analysis import FileAnalysis
    from kernelwright.analyzers.opportunity import Opportunity, TextEdit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    """A version of an open document, as the client sent it."""

    uri: str
    path: str
    version: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An opportunity in a snapshot: the records' key of its workload, and where it stands in this version's text.

    `edits` are its checked edits, for the text of the snapshot's analysis; where there are none, `withheld` says why.
    """

    opportunity: Opportunity
    work: str | None
    span: Span
    edits: tuple[TextEdit, ...] = ()
    withheld: str | None = None

    @property
    def key(self) -> str:
        """The opportunity's name, unique in its file."""
        return self.opportunity.key


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of one version of a document.

    `analysis` is None where there is none (no mention of torch, a syntax error); `current` is False where the findings
    are kept from an earlier version, so that no edit may be made of them. `error` says why there is no analysis.
    """

    document: Document
    analysis: FileAnalysis | None
    findings: tuple[Finding, ...] = ()
    declined: tuple[Finding, ...] = ()
    error: str | None = None
    current: bool = True

    def find(self, key: str) -> Finding | None:
        """The finding of that key."""
        return next((f for f in (*self.findings, *self.declined) if f.key == key), None)


def moved(kept: tuple[Finding, ...], old: str, new: str) -> tuple[Finding, ...]:
    """The findings of `old` that lie outside the lines that differ in `new`, at their new lines."""
    before, after = split_lines(old), split_lines(new)
    shortest = min(len(before), len(after))
    head = next((n for n in range(shortest) if before[n] != after[n]), shortest)
    tail = next((n for n in range(shortest - head) if before[-1 - n] != after[-1 - n]), shortest - head)
    shift = len(after) - len(before)
    result = []
    for finding in kept:
        span = finding.span
        if span.end_line <= head:
            result.append(finding)
        elif span.start_line > len(before) - tail:
            result.append(dataclasses.replace(finding, span=_shifted(span, shift)))
    return tuple(result)


def _shifted(span: Span, lines: int) -> Span:
    return Span(span.start_line + lines, span.start_column, span.end_line + lines, span.end_column)


def _shown(snapshot: Snapshot) -> list[object]:
    """What a client could tell two snapshots of one version apart by."""
    return [
        (f.key, f.span, f.edits, f.withheld, f.opportunity.tier, f.opportunity.conditions, f.work)
        for f in (*snapshot.findings, *snapshot.declined)
    ]


class Snapshots:
    """The newest snapshot of each open document. Methods run on the event loop; `analyse` runs in a thread."""

    def __init__(
        self,
        analyse: Callable[[Document, bool], FileAnalysis],
        work_key: Callable[[Opportunity], str | None],
        log: Callable[[str], None],
        deepened: Callable[[str], None],
    ) -> None:
        """`analyse(document, deep)`: deep ones look names up in other files. `deepened(uri)` is called when a snapshot
        that was already given out has been replaced by a deep one with other findings.
        """
        self._analyse = analyse
        self._work_key = work_key
        self._log = log
        self._deepened = deepened
        # Our own threads: pygls reads stdin in its pool, so work there could stop the reading of messages.
        self._executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="kernelwright")
        # One more for looking into other files: it may wait for seconds, and nothing waits for it.
        self._deep_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kernelwright deep")
        self._latest: dict[str, Snapshot] = {}
        self._good: dict[str, Snapshot] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._deep: set[str] = set()
        self._deepening: dict[str, asyncio.Task[None]] = {}

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        """Do blocking work in a thread of the pool."""
        return asyncio.get_running_loop().run_in_executor(self._executor, work)

    def latest(self, uri: str) -> Snapshot | None:
        """The newest snapshot there is, of whatever version."""
        return self._latest.get(uri)

    async def of(self, current: Callable[[], Document | None]) -> Snapshot | None:
        """The snapshot of the document's version at the moment of the answer; None once it is closed.

        A version that was overtaken while it was analysed is not answered with: the newer one is analysed first.
        """
        while (document := current()) is not None:
            found = self._latest.get(document.uri)
            if found is not None and found.document == document:
                return found
            task = self._running.get(document.uri)
            if task is None:
                task = asyncio.get_running_loop().create_task(self._make(document))
                self._running[document.uri] = task
            # Shielded: another request may wait for the same analysis when this one is cancelled.
            await asyncio.shield(task)
        return None

    async def _make(self, document: Document) -> None:
        uri, deep = document.uri, document.uri in self._deep
        try:
            snapshot = await self.run(lambda: self._snapshot(document, deep))
            if self._running.get(uri) is asyncio.current_task():
                self._keep(snapshot)
                if not deep and snapshot.analysis is not None and uri not in self._deepening:
                    self._deepening[uri] = asyncio.get_running_loop().create_task(self._deepen(uri))
        finally:
            if self._running.get(uri) is asyncio.current_task():
                del self._running[uri]

    async def _deepen(self, uri: str) -> None:
        """Replace the newest snapshot of a document by a deep one; again where it was overtaken meanwhile."""
        try:
            while (shallow := self._latest.get(uri)) is not None and shallow.analysis is not None:
                document = shallow.document
                work = functools.partial(self._snapshot, document, True)
                snapshot = await asyncio.get_running_loop().run_in_executor(self._deep_executor, work)
                if self._deepening.get(uri) is not asyncio.current_task():
                    return
                self._deep.add(uri)
                if self._latest.get(uri) is shallow:
                    self._keep(snapshot)
                    if _shown(snapshot) != _shown(shallow):
                        self._deepened(uri)
                    return
        finally:
            if self._deepening.get(uri) is asyncio.current_task():
                del self._deepening[uri]

    def _keep(self, snapshot: Snapshot) -> None:
        self._latest[snapshot.document.uri] = snapshot
        if snapshot.error is None:
            self._good[snapshot.document.uri] = snapshot

    def _snapshot(self, document: Document, deep: bool) -> Snapshot:
        if "torch" not in document.text:
            return Snapshot(document, None)
        try:
            analysis = self._analyse(document, deep)
            if analysis.error is None:
                found = tuple(self._finding(analysis, opportunity) for opportunity in analysis.opportunities)
                declined = tuple(Finding(o, None, o.span, withheld=o.declined) for o in analysis.declined)
                return Snapshot(document, analysis, found, declined)
            error = analysis.error
        except Exception as failure:  # a fault of ours must not silence the editor: say it, and go on without findings
            error = f"internal error: {type(failure).__name__}: {failure}"
            self._log(f"{document.path}: {error}")
        good = self._good.get(document.uri)
        if good is None:
            return Snapshot(document, None, error=error)
        old, new = good.document.text, document.text
        return Snapshot(
            document, None, moved(good.findings, old, new), moved(good.declined, old, new), error, current=False
        )

    def _finding(self, analysis: FileAnalysis, opportunity: Opportunity) -> Finding:
        from kernelwright.analyzers.analysis import Withheld, edits

        if not opportunity.has_edit:  # advice in words: nothing is withheld
            return Finding(opportunity, self._work_key(opportunity), opportunity.span)
        try:
            made, withheld = edits(analysis, opportunity), None
        except Withheld as reason:
            made, withheld = (), str(reason)
        return Finding(opportunity, self._work_key(opportunity), opportunity.span, made, withheld)

    def forget(self, uri: str) -> None:
        """Drop a closed document."""
        self._latest.pop(uri, None)
        self._good.pop(uri, None)
        self._running.pop(uri, None)
        self._deepening.pop(uri, None)
        self._deep.discard(uri)

    def clear(self) -> None:
        """Drop every analysis: the settings changed."""
        self._latest.clear()
        self._running.clear()
        self._deepening.clear()
        self._deep.clear()

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._deep_executor.shutdown(wait=False, cancel_futures=True)
