"""Snapshots: one analysis a document at a time, the newest version only, findings kept over a syntax error."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path

from kernelwright.analyzers.analysis import FileAnalysis, Settings, analyse
from kernelwright.analyzers.resolve import JediResolver
from kernelwright.server.measurements import work_key
from kernelwright.server.snapshot import Document, Snapshot, Snapshots, moved


class Opened:
    """A document that changes, and snapshots of it whose analyses are counted and can be held up."""

    def __init__(self, text: str, path: str = "/m.py") -> None:
        self.document: Document | None = Document("file:///m.py", path, 1, text)
        self.analysed: list[int | None] = []
        self.gate = threading.Event()
        self.gate.set()
        self.logged: list[str] = []
        self.deepened: list[str] = []
        self.deep: list[int | None] = []
        self.resolver: JediResolver | None = None
        self.snapshots = Snapshots(self._analyse, work_key, self.logged.append, self.deepened.append)

    def _analyse(self, document: Document, deep: bool) -> FileAnalysis:
        if "EXPLODE" in document.text:
            raise RuntimeError("a fault of ours")
        if deep:
            self.deep.append(document.version)
            return analyse(document.text, document.path, Settings(resolver=self.resolver))
        self.analysed.append(document.version)
        assert self.gate.wait(60)
        return analyse(document.text, document.path)

    def edit(self, old: str, new: str) -> None:
        assert self.document is not None and self.document.version is not None
        text = self.document.text.replace(old, new)
        self.document = dataclasses.replace(self.document, version=self.document.version + 1, text=text)

    async def snapshot(self) -> Snapshot:
        found = await self.maybe_snapshot()
        assert found is not None
        return found

    async def maybe_snapshot(self) -> Snapshot | None:
        return await self.snapshots.of(lambda: self.document)


async def test_the_same_version_is_analysed_once(sample: str) -> None:
    opened = Opened(sample)
    first, second = await asyncio.gather(opened.snapshot(), opened.snapshot())
    assert first is second
    while not opened.deep:
        await asyncio.sleep(0.01)
    await opened.snapshot()
    assert (opened.analysed, opened.deep) == ([1], [1])
    assert opened.deepened == []  # the deep analysis found nothing else
    assert [f.opportunity.rule for f in first.findings] == ["gelu"]


async def test_versions_overtaken_while_one_is_analysed_are_skipped(sample: str) -> None:
    opened = Opened(sample)
    opened.gate.clear()
    waiting = [asyncio.create_task(opened.snapshot())]
    while not opened.analysed:
        await asyncio.sleep(0.01)
    for _ in range(9):
        opened.edit("import math\n", "import math\n# more\n")
        waiting.append(asyncio.create_task(opened.snapshot()))
    await asyncio.sleep(0)
    opened.gate.set()
    found = await asyncio.gather(*waiting)
    assert {*opened.analysed, *opened.deep} == {1, 10}
    assert {snapshot.document.version for snapshot in found} == {10}


async def test_a_waiter_that_is_cancelled_leaves_the_analysis_to_the_others(sample: str) -> None:
    opened = Opened(sample)
    opened.gate.clear()
    first, second = (asyncio.create_task(opened.snapshot()) for _ in range(2))
    while not opened.analysed:
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.sleep(0)
    opened.gate.set()
    assert (await second).findings
    assert first.cancelled()
    assert opened.analysed == [1]


async def test_findings_move_with_their_lines_while_there_is_a_syntax_error(sample: str) -> None:
    opened = Opened(sample)
    before = await opened.snapshot()
    opened.edit("import math\n", "import math\ndef f(:\n\n")
    broken = await opened.snapshot()
    assert not broken.current
    assert broken.analysis is None
    assert broken.error is not None
    (kept,) = broken.findings
    assert kept.span.start_line == before.findings[0].span.start_line + 2
    assert kept.key == before.findings[0].key
    opened.edit("def f(:\n\n", "")
    assert (await opened.snapshot()).current


async def test_a_finding_whose_own_lines_changed_is_dropped(sample: str) -> None:
    opened = Opened(sample)
    (finding,) = (await opened.snapshot()).findings
    changed = sample.replace("0.044715 *", "0.044715 * (")
    assert moved((finding,), sample, changed) == ()
    assert moved((finding,), sample, sample + "def f(:\n") == (finding,)


async def test_a_fault_of_ours_is_logged_and_the_findings_stay(sample: str) -> None:
    opened = Opened(sample)
    await opened.snapshot()
    opened.edit("import math\n", "import math  # EXPLODE\n")
    snapshot = await opened.snapshot()
    assert len(snapshot.findings) == 1
    assert not snapshot.current
    assert opened.logged == ["/m.py: internal error: RuntimeError: a fault of ours"]


async def test_text_that_does_not_mention_torch_is_not_analysed() -> None:
    opened = Opened("import math\n")
    assert (await opened.snapshot()).findings == ()
    assert opened.analysed == []


async def test_a_document_closed_meanwhile_has_no_snapshot(sample: str) -> None:
    opened = Opened(sample)
    opened.gate.clear()
    waiting = asyncio.create_task(opened.maybe_snapshot())
    while not opened.analysed:
        await asyncio.sleep(0.01)
    opened.document = None
    opened.snapshots.forget("file:///m.py")
    opened.gate.set()
    assert await waiting is None
    assert opened.snapshots.latest("file:///m.py") is None


async def test_other_files_are_looked_into_behind_the_first_answer(sample: str, tmp_path: Path) -> None:
    (tmp_path / "powers.py").write_text("import torch\n\n\ndef cube(x):\n    return torch.pow(x, 3.0)\n")
    text = sample.replace("torch.pow(x, 3.0)", "cube(x)").replace(
        "import torch\n", "import torch\nfrom powers import cube\n"
    )
    opened = Opened(text, str(tmp_path / "model.py"))
    opened.resolver = JediResolver()
    try:
        assert (await opened.snapshot()).findings == ()
        async with asyncio.timeout(300):
            while not (await opened.snapshot()).findings:  # a look-up that was late is tried with the next version
                opened.edit("import math\n", "import math\n# more\n")
                await asyncio.sleep(0.5)
        versions = len(opened.analysed)
        opened.edit("import math\n", "import math\n# more\n")
        assert [f.opportunity.rule for f in (await opened.snapshot()).findings] == ["gelu"]
        assert len(opened.analysed) == versions  # deep at once from now on
    finally:
        opened.resolver.close()
