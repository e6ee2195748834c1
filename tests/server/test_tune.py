"""Numbers over the protocol, from the real worker: Tune with progress and cancel, and the background queue.

A machine that runs tests is not quiet, so a timing may be refused: then the reason must be there instead of the number.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lsprotocol import types as t
from pygls.exceptions import JsonRpcRequestCancelled

from kernelwright.server.interpreter import choose
from kernelwright.server.load import LIMIT_VARIABLE

pytestmark = pytest.mark.skipif(
    choose([], []).torch is None, reason="this interpreter has no torch: nothing can be run"
)

SETTINGS = {"batch": 1, "sequence": 64, "budgetSeconds": 1}
"""Small and short: that a number comes is tested, not the number."""


def tune(editor: Any, token: str, name: str = "tune-1", **more: Any) -> asyncio.Task[Any]:
    parameters = {"uri": editor.uri, "workDoneToken": token, **more}
    return asyncio.create_task(editor.client.protocol.send_request_async("kernelwright/tune", parameters, msg_id=name))


def kinds(editor: Any, token: str) -> list[str]:
    return [value.kind for value in editor.client.progress_reports.get(token, [])]


@pytest.mark.filterwarnings("ignore:Unknown progress token")
async def test_tune_measures_with_progress_and_reports(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start(settings=SETTINGS)
    editor.open(sample)
    answer = await tune(editor, "token-a")
    (result,) = answer.results
    assert (result.rule, result.function, result.line) == ("gelu", "forward", editor.at(gelu).start.line)
    if result.gain is None:
        assert result.remark
    else:
        assert result.gain.basis == "measured"
        assert result.gain.low <= result.gain.value <= result.gain.high
    assert answer.text.startswith("# Tuning model ä.py")
    assert "| gelu |" in answer.text
    found = kinds(editor, "token-a")
    assert found[0] == "begin"
    assert found[-1] == "end"
    assert set(found[1:-1]) == {"report"}
    text = await editor.hover(editor.at(gelu).start)
    assert "✓ ran equal, model of the code" in text
    modules = set((await editor.debug()).modules)
    assert not modules & {"torch", "tvm"}


@pytest.mark.filterwarnings("ignore:Unknown progress token")
@pytest.mark.parametrize("way", ["request", "progress"])
async def test_cancel_stops_the_work_and_the_server_goes_on(editors: Any, sample: str, way: str) -> None:
    editor = await editors.start(settings=SETTINGS | {"budgetSeconds": 600})
    editor.open(sample)
    running = tune(editor, "token-b", "tune-7")
    await editor.until(lambda: "report" in kinds(editor, "token-b"))
    if way == "request":
        editor.client.cancel_request(t.CancelParams("tune-7"))
    else:
        editor.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams("token-b"))
    with pytest.raises(JsonRpcRequestCancelled):
        await running
    await editor.until(lambda: kinds(editor, "token-b")[-1:] == ["end"])
    assert editor.client.progress_reports["token-b"][-1].message == "cancelled"
    assert len(await editor.diagnostics()) == 1
    assert (await editor.execute("kernelwright.state"))["queue"] == 0


@pytest.mark.filterwarnings("ignore:Unknown progress token")
async def test_tune_at_a_line_takes_that_line_only(editors: Any, sample: str, gelu: str) -> None:
    editor = await editors.start(settings=SETTINGS)
    editor.open(sample)
    answer = await tune(editor, "token-c", line=0)
    assert answer.results == []
    assert "Nothing here" in answer.text


@pytest.mark.filterwarnings("ignore:Unknown progress token")
async def test_nothing_is_run_in_a_workspace_without_trust(editors: Any, sample: str) -> None:
    editor = await editors.start(settings={"background": "measure"}, options={"trusted": False})
    editor.open(sample)
    assert len(await editor.diagnostics()) == 1
    with pytest.raises(Exception, match="trust"):
        await tune(editor, "token-d")
    state = await editor.execute("kernelwright.state")
    assert (state["background"], state["queue"]) == ("off", 0)


async def test_the_background_measures_by_itself_and_the_next_server_knows(
    editors: Any, sample: str, gelu: str
) -> None:
    environment = {LIMIT_VARIABLE: "inf"}
    editor = await editors.start(settings=SETTINGS | {"background": "measure"}, environment=environment)
    editor.open(sample)
    assert len(await editor.hints()) == 1
    refreshed = len(editor.client.hint_refreshes)
    states: list[Any] = editor.client.states
    await editor.until(lambda: any(s.background.startswith("measuring gelu in NewGELU.forward") for s in states))
    await editor.until(lambda: states[-1].background == "idle" and states[-1].queue == 0)
    assert len(editor.client.hint_refreshes) > refreshed
    assert states[-1].available is None
    assert states[-1].device
    text = await editor.hover(editor.at(gelu).start)
    assert "✓ ran equal, model of the code" in text
    assert "measured" in text or "oo noisy" in text, text
    editor.close()

    later = await editors.start(settings=SETTINGS)
    later.open(sample)
    await later.until(lambda: later.client.hint_refreshes)
    again = await later.hover(later.at(gelu).start)
    assert "✓ ran equal, model of the code" in again
    assert ("faster here** (measured" in again) == ("faster here** (measured" in text)


async def test_pause_and_resume(editors: Any, sample: str) -> None:
    editor = await editors.start(settings=SETTINGS | {"background": "measure"}, environment={LIMIT_VARIABLE: "inf"})
    await editor.execute("kernelwright.pause")
    editor.open(sample)
    states: list[Any] = editor.client.states
    await editor.until(lambda: states and states[-1].queue == 1)
    assert (states[-1].background, states[-1].paused) == ("paused", True)
    await editor.execute("kernelwright.resume")
    await editor.until(lambda: states[-1].background.startswith("measuring"))
    assert not states[-1].paused
    editor.close()
    await editor.until(lambda: states[-1].queue == 0)


async def test_a_busy_machine_is_left_alone(editors: Any, sample: str) -> None:
    editor = await editors.start(settings=SETTINGS | {"background": "measure"}, environment={LIMIT_VARIABLE: "-1e9"})
    editor.open(sample)
    states: list[Any] = editor.client.states
    await editor.until(lambda: states and states[-1].background.startswith("waiting: "))
    assert states[-1].queue == 1
    editor.close()
    await editor.until(lambda: states[-1].queue == 0)


async def test_an_interpreter_without_torch_is_told_in_one_line(editors: Any, sample: str, tmp_path: Any) -> None:
    missing = str(tmp_path / "nothing" / "python")
    editor = await editors.start(
        settings=SETTINGS | {"background": "measure", "interpreter": [missing]}, environment={LIMIT_VARIABLE: "inf"}
    )
    editor.open(sample)
    states: list[Any] = editor.client.states
    await editor.until(lambda: states and states[-1].available is not None)
    assert "\n" not in states[-1].available
    assert len(await editor.diagnostics()) == 1
