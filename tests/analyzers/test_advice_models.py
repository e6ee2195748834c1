"""Advice on experts and on splitting over devices: the snippets run in torch, on a CPU and on two processes."""

from __future__ import annotations

import multiprocessing
import socket
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from before_after import EVERY_TIER, analysed, fixed

from kernelwright.analyzers.opportunity import Opportunity
from kernelwright.analyzers.rules.loader import rules

RULES = {rule.name: rule for rule in rules()}


def only(text: str, rule: str) -> Opportunity:
    (found,) = analysed(text, frozenset({rule})).opportunities
    return found


# ---- grouped-mm


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 4e-2), (torch.float32, 1e-4)])
def test_the_grouped_product_is_the_loop(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    count, width, inner, experts = 24, 16, 32, 4
    tokens = torch.randn(count, width, dtype=dtype)
    up, down = torch.randn(experts, inner, width, dtype=dtype) / 4, torch.randn(experts, width, inner, dtype=dtype) / 4
    weights, chosen = torch.randn(count, experts).softmax(-1).to(dtype).topk(2, dim=-1)
    chosen[chosen == 2] = 3  # an expert without tokens
    expected = torch.zeros_like(tokens)
    for number in range(experts):
        rows, place = torch.where(chosen == number)
        made = torch.nn.functional.silu(tokens[rows] @ up[number].T) @ down[number].T
        expected.index_add_(0, rows, made * weights[rows, place, None])
    names: dict[str, Any] = {
        "torch": torch,
        "tokens": tokens,
        "up": up,
        "down": down,
        "chosen": chosen,
        "weights": weights,
    }
    names["activation"] = torch.nn.functional.silu
    exec(only(RULES["grouped-mm"].reports[0], "grouped-mm").snippet, names)
    torch.testing.assert_close(names["output"], expected, rtol=tolerance, atol=tolerance)


# ---- tensor-parallel


EXAMPLES = [e for e in RULES["tensor-parallel"].examples if e.after is not None]


def model(text: str) -> torch.nn.Module:
    names: dict[str, Any] = {}
    exec(text, names)
    torch.manual_seed(0)
    return (names["Block"](16, 4, 4) if "Block" in names else names["Attention"](16, 4)).eval()


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_on_one_device_the_edit_changes_nothing(number: int) -> None:
    before, after = (
        EXAMPLES[number].before,
        fixed(EXAMPLES[number].before, EVERY_TIER, frozenset({"tensor-parallel"})).text,
    )
    old, new = model(before), model(after)
    assert old.state_dict().keys() == new.state_dict().keys()
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(new(x), old(x), rtol=0, atol=0)


def _rank(rank: int, port: int, text: str, snippet: str, folder: str) -> None:
    """One of two processes: the plan of the snippet, and the output next to the plain module's."""
    try:
        from torch.distributed.device_mesh import init_device_mesh

        torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
        names = {"attention": model(text), "block": model(text), "mesh": init_device_mesh("cpu", (2,))}
        exec(snippet, names)
        x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1))
        split = names["block" if "block =" in snippet else "attention"]
        torch.save((torch.tensor(split(x).tolist()), model(text)(x).detach()), f"{folder}/{rank}.pt")
        torch.distributed.destroy_process_group()
    except BaseException:
        Path(f"{folder}/{rank}.error").write_text(traceback.format_exc())
        raise


def run_split(text: str, snippet: str, folder: Path) -> list[str]:
    """The errors of two processes that run a module split by a plan; none where both computed what the plain one does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=_rank, args=(rank, port, text, snippet, str(folder))) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(240)
        if process.is_alive():
            process.kill()
    errors = [path.read_text() for path in sorted(folder.glob("*.error"))]
    for path in sorted(folder.glob("*.pt")):
        split, plain = torch.load(path)
        torch.testing.assert_close(split, plain, rtol=1e-5, atol=1e-6)
    assert errors or len(list(folder.glob("*.pt"))) == 2
    return errors


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no gloo")
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_two_processes_compute_what_the_plain_module_does(number: int, tmp_path: Path) -> None:
    example = EXAMPLES[number]
    assert example.after is not None
    assert not run_split(example.after, only(example.before, "tensor-parallel").snippet, tmp_path)


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no gloo")
def test_without_the_edit_the_same_plan_fails(tmp_path: Path) -> None:
    example = EXAMPLES[0]
    errors = run_split(example.before, only(example.before, "tensor-parallel").snippet, tmp_path)
    assert errors and all("invalid for input of size" in e or "shape" in e for e in errors)


def test_the_plan_of_a_block_names_its_feed_forward_too() -> None:
    snippet = only(EXAMPLES[1].before, "tensor-parallel").snippet
    for part, style in (("attention.wq", "Colwise"), ("attention.wo", "Rowwise"), ("feed_forward.w1", "Colwise")):
        assert f'"{part}": {style}Parallel()' in snippet
    assert '"feed_forward.w2": RowwiseParallel()' in snippet


def test_a_width_that_the_constructor_writes_is_proven_and_another_is_assumed() -> None:
    states = [{c.name: c.state for c in only(e.before, "tensor-parallel").conditions}["width"] for e in EXAMPLES]
    assert states == ["assumed", "proven"]


def test_what_still_names_the_heads_is_said() -> None:
    line = "        out = F"
    text = EXAMPLES[0].before.replace(line, "        assert q.size(1) == self.num_heads\n" + line, 1)
    assert "left_over" in {c.name for c in only(text, "tensor-parallel").conditions}
    assert "left_over" not in {c.name for c in only(EXAMPLES[0].before, "tensor-parallel").conditions}
