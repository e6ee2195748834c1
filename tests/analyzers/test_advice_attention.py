"""The snippets of flex-attention compute what the code did (run here, on a CPU, in inference); those of flash-attention cannot
be run here, and are checked against the package's source."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from before_after import analysed
from package_signatures import accepts, package_source

from kernelwright.analyzers.rules.loader import rules

RULES = {rule.name: rule for rule in rules()}
LENGTH, WINDOW, CAP = 16, 4, 5.0


def only(text: str, rule: str) -> Any:
    (found,) = analysed(text, frozenset({rule})).opportunities
    return found


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 4, LENGTH, 64), torch.randn(2, 4, LENGTH, 64), torch.randn(2, 4, LENGTH, 64)


def result_of(snippet: str, **given: Any) -> torch.Tensor:
    """The `output` of a snippet. Left uncompiled: what it computes is what counts, and a compiler takes a minute."""
    names: dict[str, Any] = {"torch": torch, **given}
    kept = [line for line in snippet.split("\n") if not line.startswith("flex_attention = torch.compile")]
    exec("\n".join(kept), names)
    output = names["output"]
    assert isinstance(output, torch.Tensor)
    return output


SLOPES = torch.tensor([2.0 ** -(n + 1) for n in range(4)])
DISTANCE = torch.arange(LENGTH)[None, :] - torch.arange(LENGTH)[:, None]


def written_out(kind: str) -> torch.Tensor:
    query, key, value = tensors()
    scores = query @ key.transpose(-2, -1) / math.sqrt(64)
    if kind == "cap":
        scores = CAP * torch.tanh(scores / CAP)
    elif kind == "alibi":
        scores = scores + SLOPES[:, None, None] * DISTANCE
    else:
        scores = scores.masked_fill((DISTANCE > 0) | (DISTANCE <= -WINDOW), float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


class _Module:
    cap = CAP


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("number", "kind"), [(0, "cap"), (1, "alibi"), (3, "window")])
def test_the_snippet_computes_what_the_code_did(number: int, kind: str) -> None:
    snippet = only(RULES["flex-attention"].reports[number], "flex-attention").snippet
    query, key, value = tensors()
    given = {"query": query, "key": key, "value": value, "slopes": SLOPES, "self": _Module(), "window": WINDOW}
    output = result_of(snippet, q_length=LENGTH, kv_length=LENGTH, **given)
    torch.testing.assert_close(output, written_out(kind), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", range(len(RULES["flash-attention"].reports)))
def test_the_call_of_flash_attn_fits_its_signature(number: int) -> None:
    snippet = only(RULES["flash-attention"].reports[number], "flash-attention").snippet
    source = package_source("flash-attn", "flash_attn/flash_attn_interface.py")
    accepts(source, "flash_attn_func", snippet)


def test_flash_attention_says_it_was_not_run() -> None:
    found = only(RULES["flash-attention"].reports[0], "flash-attention")
    assert {c.name: c.state for c in found.conditions}["not_run_by_us"] == "assumed"


def test_a_mask_besides_goes_into_the_block_mask_and_keeps_flash_silent() -> None:
    text = RULES["flex-attention"].reports[1].replace("+ alibi", "+ alibi + mask").replace("alibi):", "alibi, mask):")
    assert "mask" in {c.name for c in only(text, "flex-attention").conditions}
    assert not analysed(text, frozenset({"flash-attention"})).opportunities


def test_a_mask_cut_to_the_length_of_a_windowed_cache_is_no_window() -> None:
    text = """
import torch
import torch.nn.functional as F
def attention(query, key, value, mask, cache, sliding_window):
    key = cache.update(key, sliding_window)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, :, :, : key.shape[-2]])
"""
    assert not analysed(text, frozenset({"flex-attention"})).opportunities


def test_a_call_that_does_not_fit_is_seen() -> None:
    source = "class A:\n    def forward(self, a, b=1, *, c): ...\ndef f(x, y=2): ..."
    accepts(source, "A.forward", "a(1, c=2)", "a")
    accepts(source, "f", "f(1, y=3)")
    for snippet, name, called in (("a(1)", "A.forward", "a"), ("f(1, z=3)", "f", None), ("f()", "f", None)):
        with pytest.raises(TypeError):
            accepts(source, name, snippet, called)
