"""Causal masks: each edit runs equal, and what is not shown to be square gets none (T04, T05)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from before_after import EVERY_TIER, analysed, fixed, namespace, source

from kernelwright.analyzers.rules.loader import rules

CAUSAL = frozenset({"is-causal"})
EXAMPLES = [e for r in rules() if r.name == "is-causal" for e in r.examples if e.after is not None]


def run(text: str, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    names = namespace(text)
    torch.manual_seed(1)
    entry: Any = names.get("attend")
    if entry is None:
        kind = next(v for v in names.values() if isinstance(v, type) and v.__module__ == "model")
        entry = kind(8, 2) if "qkv" in text else kind(x.size(-1), 2)
    leaf = x.clone().requires_grad_()
    result = entry(leaf)
    result.square().sum().backward()
    assert leaf.grad is not None
    return result.detach(), leaf.grad


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
@pytest.mark.parametrize("length", [1, 2, 7])
def test_the_flag_hides_the_keys_that_the_mask_hid(example: Any, length: int) -> None:
    x = torch.randn(2, length, 8)
    torch.testing.assert_close(run(example.before, x), run(example.after, x))


HEADS = "B, T, C = x.shape\n    q = x.view(B, T, 2, C // 2).transpose(1, 2)\n    k = q\n"


@pytest.mark.parametrize(
    ("lines", "mask", "edited"),
    [
        ("", "torch.ones(T, T, dtype=torch.bool).tril()", True),
        ("", "torch.tril(torch.ones(T, T)).bool()", True),
        ("", "torch.tril(torch.ones(T, T)) == 1", None),
        ("", "~torch.ones(T, T, dtype=torch.bool).triu(1)", True),
        ("", "torch.triu(torch.full((T, T), -math.inf), diagonal=1)", True),
        ("", "torch.zeros(T, T).masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)", True),
        ("", "torch.zeros(T, T).masked_fill(torch.ones(T, T).tril() == 0, float('-inf'))", True),
        ("", "torch.ones(T, T, dtype=torch.bool).tril(-1)", None),
        ("", "torch.ones(T, T, dtype=torch.bool).tril(1)", None),
        ("", "torch.ones(T, T, dtype=torch.bool).triu()", None),
        ("", "torch.ones(T, T).tril()", None),
        ("", "torch.triu(torch.full((T, T), -1.0), diagonal=1)", None),
        ("", "torch.triu(torch.full((T, T), -math.inf))", None),
        ("", "torch.ones(64, 64, dtype=torch.bool).tril()[:T, :T]", True),
        ("", "torch.ones(64, 64, dtype=torch.bool).tril()[:T, 1 : T + 1]", None),
        ("", "torch.ones(1, 1, dtype=torch.bool).tril()", False),
        ("k = torch.cat([past, q], dim=2)", "torch.ones(T, T, dtype=torch.bool).tril()", False),
        ("k = past", "torch.ones(T, T, dtype=torch.bool).tril()", False),
        ("S = past.size(2)\n    k = past", "torch.ones(T, S, dtype=torch.bool).tril()", False),
        ("S = T + 1\n    k = past", "torch.ones(S, S, dtype=torch.bool).tril()[S - T : S, :S]", None),
        ("pad = past.mean(-1) > 0", "torch.ones(T, T, dtype=torch.bool).tril() & pad", None),
    ],
)
def test_t04_only_a_triangle_that_is_shown_to_be_square_becomes_the_flag(
    lines: str, mask: str, edited: bool | None
) -> None:
    more = f"    {lines}\n" if lines else ""
    call = f"F.scaled_dot_product_attention(q, k, k, attn_mask={mask})"
    text = source(f"def attend(x, past=None):\n    {HEADS}{more}    return {call}\n")
    found = [o for o in analysed(text, CAUSAL).opportunities if o.rule == "is-causal"]
    assert bool(found) is (edited is not None)
    assert any(o.has_edit for o in found) is bool(edited)
    if edited:
        new = fixed(text, EVERY_TIER, CAUSAL).text
        assert "is_causal=True" in new and "attn_mask" not in new
        x = torch.randn(2, 6, 8)
        torch.testing.assert_close(run(text, x), run(new, x))


def test_t05_a_call_that_has_the_flag_or_unknown_keywords_is_left_alone() -> None:
    mask = "torch.ones(T, T, dtype=torch.bool).tril()"
    for more in ("is_causal=True", "is_causal=flag", "**options"):
        call = f"F.scaled_dot_product_attention(q, k, k, attn_mask={mask}, {more})"
        text = source(f"def attend(x, flag, **options):\n    {HEADS}    return {call}\n")
        assert not fixed(text, EVERY_TIER, CAUSAL).applied


def test_t04_one_query_with_a_mask_of_one_element_sees_every_key() -> None:
    """Why a square mask is not enough: it is broadcast over the keys of a cache."""
    q, k = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 5, 4)
    masked = torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=torch.ones(1, 1).bool())
    flagged = torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)
    assert not torch.allclose(masked, flagged)
    torch.testing.assert_close(flagged, k[:, :, :1])


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ("self.layer(x, src_mask=mask)", True),
        ("self.layer(x, mask)", True),
        ("self.layer(x, src_mask=mask, is_causal=True)", False),
        ("self.layer(x, src_mask=mask + x.mean())", False),
        ("self.layer(x * mask.sum())", False),
    ],
)
def test_t05_a_mask_for_another_module_is_reported_without_an_edit(use: str, found: bool) -> None:
    text = source(
        f"""
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.TransformerEncoderLayer(8, 2)
            def forward(self, x):
                mask = torch.triu(torch.full((x.size(0), x.size(0)), float("-inf")), diagonal=1)
                return {use}
        """
    )
    opportunities = [o for o in analysed(text, CAUSAL).opportunities if o.rule == "is-causal"]
    assert bool(opportunities) is found
    assert all(o.tier == "assumed" and not o.has_edit for o in opportunities)
