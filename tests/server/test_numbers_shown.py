"""What a known number does in the editor: from records filled beforehand, so nothing is run and nothing is by chance."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t

from kernelwright.analyzers.analysis import analyse
from kernelwright.server.interpreter import choose
from kernelwright.tuner.devices import assumed
from kernelwright.tuner.evidence import Case, Counts, Gain, Verification
from kernelwright.tuner.records import Records

TORCH = choose([], []).torch

pytestmark = pytest.mark.skipif(TORCH is None, reason="this interpreter has no torch, so no device to have numbers of")


def known(folder: Path, sample: str, value: float, *, equal: bool = True) -> None:
    """Fill the records that a server started in `folder` will read with a measured gain of the sample's workload."""
    (opportunity,) = analyse(sample, "model.py").opportunities
    assert TORCH is not None
    assert opportunity.workload is not None
    work = opportunity.workload
    device = dataclasses.replace(assumed(TORCH), probed=True, date="2026-11-30T20:30:47+00:00")
    gain = Gain(
        value,
        value * 0.97,
        value * 1.03,
        "measured",
        device.name,
        work.shapes,
        work.dtype,
        work.mode,
        device.date,
        before_seconds=0.002,
        after_seconds=0.002 / value,
        counts_before=Counts(8, 226_000_000, 0),
        counts_after=Counts(1, 25_200_000, 0),
        control=1.0,
        fingerprint=device.fingerprint,
    )
    records = Records(folder / "state" / "kernelwright" / "records.sqlite")
    records.store_probe(device)
    records.store_gain(work, device.fingerprint, device.toolchain, gain)
    verification = Verification(equal, (Case("eval", equal, 1e-7, 2e-7 if equal else 0.3),))
    records.store_verification(work, device.fingerprint, device.toolchain, verification)
    records.close()


async def opened(editors: Any, sample: str, **more: Any) -> Any:
    """An editor with the sample, once the number has been looked up."""
    editor = await editors.start(**more)
    editor.open(sample)
    await editor.until(lambda: editor.client.hint_refreshes)
    return editor


async def test_a_gain_is_in_hint_diagnostic_title_and_hover(editors: Any, sample: str, gelu: str) -> None:
    known(editors.folder, sample, 2.44)
    editor = await opened(editors, sample, settings={"hints": "quiet"})
    (hint,) = await editor.hints()
    assert hint.label == "gelu 2.4×"
    (found,) = await editor.diagnostics()
    assert found.message.endswith("(2.4× measured here)")
    fix = await editor.fix(editor.at(gelu))
    assert fix.title.endswith("(2.4×)")
    assert fix.is_preferred
    text = await editor.hover(editor.at(gelu).start)
    assert "**2.4× faster here** (measured, 2.4× to 2.5×)" in text
    assert "✓ ran equal, model of the code: 1 case," in text


async def test_a_loss_withdraws_hint_and_diagnostic_and_is_told_in_the_hover(
    editors: Any, sample: str, gelu: str
) -> None:
    known(editors.folder, sample, 0.98)
    editor = await opened(editors, sample)
    assert await editor.hints() == []
    assert await editor.diagnostics() == []
    assert "**Tried here: 0.98×, not worth it**" in await editor.hover(editor.at(gelu).start)
    fix = await editor.fix(editor.at(gelu))
    assert fix.title.endswith("(tried here: 0.98×, not worth it)")
    assert not fix.is_preferred
    (action,) = await editor.actions(editor.range(0, 0), ["source.fixAll.kernelwright"])
    resolved = await editor.client.code_action_resolve_async(action)
    assert editor.apply(resolved.edit) == sample


async def test_programs_that_ran_unequal_get_no_fix(editors: Any, sample: str, gelu: str) -> None:
    known(editors.folder, sample, 2.4, equal=False)
    editor = await opened(editors, sample)
    assert await editor.hints() == []
    assert await editor.diagnostics() == []
    fixes = [a for a in await editor.actions(editor.at(gelu)) if isinstance(a, t.CodeAction) and a.kind == "quickfix"]
    assert [f.disabled.reason for f in fixes if f.disabled] == ["the two did not run equal here, so no fix is offered"]
    assert all(f.disabled for f in fixes)
    assert "✗ ran equal" in await editor.hover(editor.at(gelu).start)


async def test_clearing_forgets_the_numbers(editors: Any, sample: str) -> None:
    known(editors.folder, sample, 2.44)
    editor = await opened(editors, sample)
    assert (await editor.hints())[0].label == "gelu 2.4×"
    seen = len(editor.client.hint_refreshes)
    await editor.execute("kernelwright.clearMeasurements")
    await editor.until(
        lambda: len(editor.client.hint_refreshes) > seen + 1
    )  # one for the clearing, one for what is new
    label = (await editor.hints())[0].label
    assert "2.4×" not in label
    assert label.startswith(("gelu ~", "→ gelu"))
