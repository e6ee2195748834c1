"""The traps of hand-swapped kernels, by their numbers: no fix, or exactly the fix that the trap asks for.

Every fix that is offered is executed: old and new text in torch, on the inputs that the trap is about.
"""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch
from before_after import Case, analysed, assert_same, fixed, fixed_and_same, namespace, reasons, source

from kernelwright.analyzers.analysis import DEFAULT_TIERS

HALF = (Case(dtype=torch.bfloat16), Case(dtype=torch.float16))
AUTOCAST = (Case(autocast=True), Case(autocast=True, training=True))
MASKED_ROW = (Case(masked_row=True, gradients=False), Case(masked_row=True, gradients=False, dtype=torch.bfloat16))


def attention(body: str, arguments: str = "q, k, v") -> str:
    """A function `f` with the given statements between scores and result."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return source(f"def f({arguments}):\n{lines}\n")


def call(text: str, needle: str = "scaled_dot_product_attention(") -> str:
    """The kernel call of a fixed text in one line, arguments and all."""
    assert text.count(needle) == 1, text
    start = text.index(needle)
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if text[position] == ")" and depth == 0:
            return " ".join(text[start : position + 1].split()).replace("( ", "(").replace(" )", ")").replace(",)", ")")
    raise AssertionError("the call does not end")


# ---- T01 mask polarity


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("s.masked_fill(drop, -math.inf)", "attn_mask=~drop"),
        ("s.masked_fill(~keep, -math.inf)", "attn_mask=keep"),
        ("s.masked_fill(keep.logical_not(), -math.inf)", "attn_mask=keep"),
        ("s.masked_fill(torch.logical_not(keep), -math.inf)", "attn_mask=keep"),
        ("s.masked_fill(keep == 0, -math.inf)", "attn_mask=keep != 0"),
        ("s.masked_fill(keep == False, -math.inf)", "attn_mask="),
        ("s.masked_fill(keep_numbers == 0, -math.inf)", "attn_mask=keep_numbers != 0"),
        ("s.masked_fill(keep_numbers != 1, -math.inf)", "attn_mask=keep_numbers == 1"),
        ("torch.where(keep, s, -math.inf)", "attn_mask=keep"),
        ("torch.where(drop, float('-inf'), s)", "attn_mask=~drop"),
    ],
)
def test_t01_a_boolean_mask_keeps_its_polarity(mask: str, expected: str) -> None:
    name = next(n for n in ("keep_numbers", "keep", "drop") if n in mask)
    text = attention(
        f"s = q @ k.transpose(-2, -1)\ns = {mask}\nreturn torch.softmax(s, dim=-1) @ v", f"q, k, v, {name}"
    )
    new = fixed_and_same(text)
    assert expected in call(new)


def test_t01_future_tokens_stay_hidden_behind_an_upper_triangle() -> None:
    text = attention(
        """
future = torch.ones(q.size(-2), k.size(-2)).triu(diagonal=1).bool()
s = (q @ k.transpose(-2, -1)).masked_fill(future, -math.inf)
return torch.softmax(s, dim=-1) @ v
"""
    )
    new = fixed_and_same(text)
    assert "is_causal" not in new
    q, k, v = torch.randn(3, 1, 2, 5, 8)
    changed = v.clone()
    changed[..., 4, :] = 100.0
    run = namespace(new)["f"]
    assert torch.equal(run(q, k, v)[..., :4, :], run(q, k, changed)[..., :4, :])


# ---- T02 a 0/1 mask is no bias


@pytest.mark.parametrize(
    "mask",
    [
        "s + torch.ones(5, 5, dtype=torch.bool).tril()",
        "s + (bias > 0)",
        "s + (bias > 0).bool()",
        "s + ~(bias > 0)",
        "s * torch.ones(5, 5).tril()",
    ],
)
def test_t02_booleans_that_are_added_or_multiplied_are_no_mask_of_the_kernel(mask: str) -> None:
    text = attention(f"s = q @ k.transpose(-2, -1)\ns = {mask}\nreturn torch.softmax(s, dim=-1) @ v", "q, k, v, bias")
    result = fixed(text)
    assert_same(text, result.text)
    assert not result.applied


def test_t02_a_mask_of_zeros_and_ones_reaches_the_kernel_as_booleans() -> None:
    text = attention(
        """
tril = torch.tril(torch.ones(q.size(-2), k.size(-2)))
s = (q @ k.transpose(-2, -1)).masked_fill(tril == 0, float("-inf"))
return torch.softmax(s, dim=-1) @ v
"""
    )
    new = fixed_and_same(text)
    assert "attn_mask=tril != 0" in call(new)


def test_t02_a_float_triangle_that_is_added_is_added() -> None:
    text = attention("s = q @ k.transpose(-2, -1) + bias.tril()\nreturn torch.softmax(s, dim=-1) @ v", "q, k, v, bias")
    assert_same(text, fixed(text).text)


# ---- T03 the dropout's own flag

WITH_DROPOUT = source(
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.1)
        def forward(self, q, k, v):
            w = torch.softmax(q @ k.transpose(-2, -1) * 0.3, dim=-1)
            w = self.drop(w)
            return w @ v
    """
)


def freeze_the_dropout(module: Any) -> None:
    module.train()
    module.drop.eval()


def thaw_the_dropout(module: Any) -> None:
    module.eval()
    module.drop.train()


def test_t03_the_flag_and_probability_are_those_of_the_child_module() -> None:
    new = fixed_and_same(WITH_DROPOUT)
    assert "dropout_p=self.drop.p if self.drop.training else 0.0" in call(new)
    # With p = 1 every weight is dropped wherever dropout runs: its flag shows without comparing random numbers.
    certain = {"dropout": 1.0, "gradients": False}
    assert_same(
        WITH_DROPOUT,
        new,
        Case(**certain, training=True),  # type: ignore[arg-type]
        Case(**certain, training=False),  # type: ignore[arg-type]
        Case(**certain, prepare=freeze_the_dropout),  # type: ignore[arg-type]
        Case(**certain, prepare=thaw_the_dropout),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("dropout", "expected"),
    [
        ("F.dropout(w, self.p, self.training)", "dropout_p=self.p if self.training else 0.0"),
        ("F.dropout(w, p=self.p, training=self.training)", "dropout_p=self.p if self.training else 0.0"),
        ("torch.dropout(w, self.p, self.training)", "dropout_p=self.p if self.training else 0.0"),
        ("torch.dropout(w, self.p, train=self.training)", "dropout_p=self.p if self.training else 0.0"),
        ("F.dropout(w, self.p)", "dropout_p=self.p,"),
        ("F.dropout(w, self.p, training=True)", "dropout_p=self.p,"),
    ],
)
def test_t03_functional_dropout_keeps_its_flag(dropout: str, expected: str) -> None:
    text = source(
        f"""
        import torch
        import torch.nn.functional as F
        from torch import nn
        class M(nn.Module):
            def __init__(self, p=1.0):
                super().__init__()
                self.p = p
            def forward(self, q, k, v):
                w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
                w = {dropout}
                return w @ v
        """
    )
    new = fixed_and_same(text, Case(training=True, gradients=False), Case(training=False, gradients=False))
    assert expected in call(new)


@pytest.mark.parametrize("dropout", ["F.dropout(w, 0.1, training=False)", "F.dropout(w, 0.0, training=self.training)"])
def test_t03_dropout_that_never_runs_is_left_out(dropout: str) -> None:
    text = WITH_DROPOUT.replace("self.drop(w)", dropout)
    assert "dropout_p" not in call(fixed_and_same(text))


# ---- T04 causal, L and S apart; T05 never a mask and is_causal

CACHED = source(
    """
    import math
    import torch
    import torch.nn.functional as F
    from torch import nn
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("causal", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))
        def forward(self, q, k, v):
            L, S = q.size(-2), k.size(-2)
            s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
            s = s.masked_fill(self.causal[:, :, S - L : S, :S] == 0, float("-inf"))
            return F.softmax(s, dim=-1) @ v
    """
)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_t04_queries_at_the_end_of_longer_keys_see_all_earlier_keys(length: int) -> None:
    new = fixed_and_same(CACHED, Case(length=length, keys=5), Case(length=length, keys=9))
    assert "is_causal" not in new


def test_t04_a_square_triangle_is_not_claimed_to_be_square_for_other_lengths() -> None:
    text = CACHED.replace("S - L : S, :S", ":L, :S")
    new = fixed_and_same(text, Case(), Case(length=1, keys=5), Case(length=3, keys=7))
    assert "is_causal" not in new


def test_t05_a_causal_and_a_padding_mask_are_never_passed_as_mask_and_is_causal() -> None:
    for padding in ("s.masked_fill(drop, float('-inf'))", "s + mask", "s.masked_fill(drop, -1e9)"):
        name = "mask" if "mask" in padding.split("(")[0] or "+ mask" in padding else "drop"
        text = (
            CACHED.replace("def forward(self, q, k, v)", f"def forward(self, q, k, v, {name})")
            .replace("            return F.softmax", f"            s = {padding}\n            return F.softmax")
            .replace("        return F.softmax", f"        s = {padding}\n        return F.softmax")
        )
        result = fixed(text)
        assert not ("is_causal" in result.text and "attn_mask" in result.text)
        assert_same(text, result.text, Case(), Case(keys=9))


# ---- T06 rows without a key


@pytest.mark.parametrize(
    "fill",
    [
        "-1e9",
        "-1e10",
        "-1e30",
        "torch.finfo(s.dtype).min",
        "torch.finfo(torch.float32).min",
        "torch.finfo(q.dtype).min",
    ],
)
def test_t06_a_finite_fill_becomes_an_additive_mask_so_that_a_masked_row_is_the_mean_of_the_values(fill: str) -> None:
    text = attention(
        f"s = q @ k.transpose(-2, -1)\ns = s.masked_fill(drop, {fill})\nreturn torch.softmax(s, dim=-1) @ v",
        "q, k, v, drop",
    )
    new = fixed_and_same(text, Case(), *MASKED_ROW)
    assert "masked_fill(drop, torch.finfo(q.dtype).min)" in call(new)
    q, k, v = torch.randn(3, 1, 1, 4, 8)
    nothing = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    torch.testing.assert_close(namespace(new)["f"](q, k, v, nothing), v.mean(-2, keepdim=True).expand_as(v))


def test_t06_a_fill_is_not_in_fix_all_for_the_gradients_of_a_row_without_a_key_are_others() -> None:
    text = attention(
        "s = (q @ k.transpose(-2, -1)).masked_fill(drop, -1e9)\nreturn torch.softmax(s, dim=-1) @ v", "q, k, v, drop"
    )
    assert not fixed(text, DEFAULT_TIERS).applied
    (opportunity,) = analysed(text).opportunities
    assert "gradients" in next(c.text for c in opportunity.conditions if c.state == "assumed")
    assert_same(text, fixed(text).text, Case(masked_row=False))


def test_t06_minus_infinity_stays_a_boolean_mask_and_is_not_in_fix_all() -> None:
    text = attention(
        "s = (q @ k.transpose(-2, -1)).masked_fill(drop, float('-inf'))\nreturn torch.softmax(s, dim=-1) @ v",
        "q, k, v, drop",
    )
    assert not fixed(text, DEFAULT_TIERS).applied
    (found,) = analysed(text).opportunities
    assert found.tier == "assumed"
    assert any(c.name == "masked_rows" and c.state == "assumed" for c in found.conditions)
    assert "attn_mask=~drop" in call(fixed_and_same(text))


def test_t06_a_causal_mask_leaves_every_row_a_key_and_is_in_fix_all() -> None:
    text = CACHED.replace("S - L : S, :S", ":L, :L")
    result = fixed(text, DEFAULT_TIERS)
    assert [o.tier for o in result.applied] == ["guarded"]
    assert_same(text, result.text)


def test_t06_minus_ten_thousand_is_not_minus_infinity() -> None:
    text = attention(
        "s = (q @ k.transpose(-2, -1)).masked_fill(drop, -1e4)\nreturn torch.softmax(s, -1) @ v", "q, k, v, drop"
    )
    assert_same(text, fixed(text).text, Case(masked_row=True), Case(masked_row=True, magnitude=60.0))


@pytest.mark.parametrize("magnitude", [1.0, 200.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_t06_an_added_fill_of_a_masked_row(dtype: torch.dtype, magnitude: float) -> None:
    """Scores + -1e9 keep the order of large scores in float32 and of all scores in float64: no fix may flatten them."""
    text = attention(
        """
m = torch.zeros_like(drop, dtype=q.dtype).masked_fill(drop, -1e9)
s = q @ k.transpose(-2, -1) + m
return torch.softmax(s, dim=-1) @ v
""",
        "q, k, v, drop",
    )
    assert_same(text, fixed(text).text, Case(dtype=dtype, magnitude=magnitude, masked_row=True, gradients=False))


def test_t06_two_additive_masks_of_the_least_number() -> None:
    """Their sum overflows to -inf: a row that both mask altogether is NaN before, and must not become something else."""
    text = attention("s = q @ k.transpose(-2, -1) + a + b\nreturn torch.softmax(s, dim=-1) @ v", "q, k, v, a, b")

    def least(case: Case) -> torch.Tensor:
        mask = torch.zeros(case.length, case.keys)
        mask[1:3, 2:] = torch.finfo(torch.float32).min
        return mask

    assert_same(text, fixed(text).text, Case(inputs={"a": least, "b": least}))


# ---- T07 the scale is always written


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ("q @ k.transpose(-2, -1)", "scale=1.0"),
        ("(q @ k.transpose(-2, -1)) / math.sqrt(64)", "scale=0.125"),
        ("(q @ k.transpose(-2, -1)) * 0.5", "scale=0.5"),
        ("(q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))", "scale=1.0 / math.sqrt(q.size(-1))"),
        ("(q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5", "scale=q.shape[-1] ** -0.5"),
        ("(q * 0.5) @ k.transpose(-2, -1)", "scale=0.5"),
        ("q @ (0.5 * k).transpose(-2, -1)", "scale=0.5"),
        ("(q / 2) @ (k / 4).transpose(-2, -1)", "scale=0.125"),
        ("torch.matmul(q, k.transpose(-2, -1)).mul(0.5)", "scale=0.5"),
        ("torch.einsum('bhid,bhjd->bhij', q, k).div(4)", "scale=0.25"),
    ],
)
def test_t07_the_scale_is_explicit_wherever_it_stands(scores: str, expected: str) -> None:
    text = attention(f"s = {scores}\nreturn torch.softmax(s, dim=-1) @ v")
    assert expected in call(fixed_and_same(text, *[Case(), Case(dtype=torch.bfloat16)]))


def test_t07_a_scale_of_the_embedding_width_is_kept() -> None:
    text = source(
        """
        class M(nn.Module):
            def __init__(self, dim=24, heads=3):
                super().__init__()
                self.scale = dim ** -0.5
            def forward(self, q, k, v):
                return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
        """
    )
    assert "scale=self.scale" in call(fixed_and_same(text))


def test_t07_a_query_that_is_scaled_before_keeps_one_scale() -> None:
    text = attention("q = q * 0.5\ns = q @ k.transpose(-2, -1)\nreturn torch.softmax(s, dim=-1) @ v + q.sum()")
    fixed_and_same(text)


def test_t07_only_one_branch_scales() -> None:
    text = attention(
        "s = q @ k.transpose(-2, -1)\nif flag:\n    s = s * 0.3\nreturn torch.softmax(s, dim=-1) @ v", "q, k, v, flag"
    )
    assert_same(text, fixed(text).text)


# ---- T08 weights needed elsewhere


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("return w @ v, w", "returned"),
        ("return w @ v, s", "returned"),
        ("return w @ v, w.mean(1)", "used in mean"),
        ("self_weights = w.detach()\nreturn w @ v, self_weights", "used in detach"),
    ],
)
def test_t08_weights_that_are_returned_stop_the_fix(end: str, reason: str) -> None:
    found = reasons(attention(f"s = q @ k.transpose(-2, -1)\nw = torch.softmax(s, dim=-1)\n{end}"))
    assert found and all(reason in r for r in found), found


def test_t08_weights_that_are_returned_on_request_stay_behind_a_guard() -> None:
    text = attention(
        "w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)\no = w @ v\nreturn (o, w) if need_weights else o",
        "q, k, v, need_weights",
    )
    new = fixed_and_same(text)
    assert "if not need_weights:" in new and "torch.softmax" in new


def test_t08_a_head_mask_keeps_the_old_path() -> None:
    text = attention(
        """
w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
if head_mask is not None:
    w = w * head_mask
return w @ v
""",
        "q, k, v, head_mask=None",
    )
    heads = {"head_mask": lambda case: (None, torch.tensor([1.0, 0.0, 1.0])[:, None, None])}
    new = fixed_and_same(text, Case(inputs=heads))
    assert "if head_mask is None:" in new


def test_t08_weights_kept_on_the_module_stop_the_fix() -> None:
    text = WITH_DROPOUT.replace(
        "            return w @ v", "            self.weights = w\n            return w @ v"
    ).replace("        return w @ v", "        self.weights = w\n        return w @ v")
    assert reasons(text)


def test_t08_hooks_registered_in_the_file_are_named_as_an_assumption() -> None:
    text = WITH_DROPOUT + "\ndef watch(m):\n    m.drop.register_forward_hook(print)\n"
    (found,) = analysed(text).opportunities
    assert found.tier == "assumed" and any(c.name == "hooks" and c.state == "assumed" for c in found.conditions)


# ---- T09 operations that the kernel has not


@pytest.mark.parametrize(
    "body",
    [
        "s = 50.0 * torch.tanh(q @ k.transpose(-2, -1) / 50.0)\nreturn torch.softmax(s, dim=-1) @ v",
        "s = q @ k.transpose(-2, -1)\ns = s / 30.0\ns = torch.tanh(s)\ns = s * 30.0\nreturn torch.softmax(s, dim=-1) @ v",
        "w = torch.softmax(q @ k.transpose(-2, -1), dim=-1) * keep_numbers\nreturn w @ v",
        "w = torch.softmax(q @ k.transpose(-2, -1), dim=-1).masked_fill(keep_numbers == 0, 0.0)\nreturn w @ v",
        "w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)\nw = torch.where(keep_numbers > 0, w, 0.0)\nreturn w @ v",
        "s = torch.cat([q @ k.transpose(-2, -1), torch.zeros(2, 3, 5, 1)], -1)\nreturn torch.softmax(s, -1)[..., :-1] @ v",
        "s = q @ k.transpose(-2, -1)\ns = torch.einsum('bhij,hg->bgij', s, torch.ones(3, 3))\nreturn torch.softmax(s, dim=-1) @ v",  # noqa: E501
        "s = (q @ k.transpose(-2, -1)).exp()\nreturn s / (1 + s.sum(-1, keepdim=True)) @ v",
    ],
    ids=[
        "soft cap",
        "soft cap in steps",
        "mask times weights",
        "weights filled",
        "weights chosen",
        "sink",
        "talking",
        "one",
    ],
)
def test_t09_soft_caps_sinks_and_masks_after_the_softmax_are_no_attention_of_the_kernel(body: str) -> None:
    reasons(attention(body, "q, k, v, keep_numbers"))


def test_t09_a_relative_bias_is_an_additive_mask() -> None:
    text = attention("s = q @ k.transpose(-2, -1) * 0.3 + bias\nreturn torch.softmax(s, dim=-1) @ v", "q, k, v, bias")
    assert "attn_mask=bias" in call(fixed_and_same(text))


# ---- T10 the upcast goes; T11 old and new against float64


@pytest.mark.parametrize(
    "softmax",
    [
        "F.softmax(s, dim=-1, dtype=torch.float32).to(q.dtype)",
        "F.softmax(s.float(), dim=-1).to(q.dtype)",
        "torch.softmax(s.to(torch.float32), dim=-1).type_as(s)",
        "F.softmax(s, dim=-1, dtype=torch.float32).to(s.dtype)",
        "s.float().softmax(-1).type_as(q)",
        "torch.softmax(s, dim=-1)",
    ],
)
def test_t10_t11_without_the_upcast_the_result_is_as_near_to_the_exact_one(softmax: str) -> None:
    text = attention(f"s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))\nw = {softmax}\nreturn w @ v")
    new = fixed_and_same(text, Case(), *HALF)
    assert "float32" not in new and ".float()" not in new


def test_t11_in_bfloat16_the_kernel_is_no_farther_from_float64_than_the_code() -> None:
    text = attention(
        "s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))\nw = F.softmax(s, dim=-1, dtype=torch.float32).to(q.dtype)\nreturn w @ v"  # noqa: E501
    )
    old, new = namespace(text)["f"], namespace(fixed(text).text)["f"]
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 64, 32, dtype=torch.bfloat16)
    exact = torch.softmax(q.double() @ k.double().transpose(-2, -1) / 32**0.5, -1) @ v.double()
    before, after = ((f(q, k, v).double() - exact).abs().mean().item() for f in (old, new))
    assert 0 < after <= 1.05 * before


@pytest.mark.parametrize("back", ["", ".to(torch.float16)", ".double()"])
def test_t10_an_upcast_that_is_not_taken_back_stays(back: str) -> None:
    text = attention(
        f"w = F.softmax(q @ k.transpose(-2, -1), dim=-1, dtype=torch.float32){back}\nreturn w @ v.to(w.dtype)"
    )
    assert_same(text, fixed(text).text, Case(), *HALF)


def test_t10_scores_computed_in_float32_from_half_precision_queries() -> None:
    text = attention("w = torch.softmax(q.float() @ k.float().transpose(-2, -1), dim=-1).to(v.dtype)\nreturn w @ v")
    assert_same(text, fixed(text).text, Case(), *HALF)


# ---- T12 the layout is proven, or the axes stay


def test_t12_a_length_first_layout_is_transposed_for_the_kernel() -> None:
    text = attention(
        """
q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
w = torch.softmax(torch.einsum("blhd,bshd->bhls", q, k) * 0.3, dim=-1)
return torch.einsum("bhls,bshd->blhd", w, v)
"""
    )
    assert_same(text, fixed(text).text, Case(length=4, keys=7), Case(length=3, keys=3))


def test_t12_products_over_the_head_axis_stay_products_over_the_head_axis() -> None:
    """[B, L, H, D] without a transpose attends over heads: whatever is offered must do the same."""
    text = attention("w = torch.softmax(q @ k.transpose(2, 3), dim=-1)\nreturn w @ v")
    assert_same(text, fixed(text).text, Case(length=4, keys=7))


def test_t12_a_split_of_heads_by_view_and_transpose() -> None:
    text = source(
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Linear(8, 24)
                self.out = nn.Linear(8, 8)
            def forward(self, x):
                B, L, C = x.shape
                q, k, v = self.qkv(x).chunk(3, dim=-1)
                q = q.view(B, L, 2, 4).transpose(1, 2)
                k = k.view(B, L, 2, 4).transpose(1, 2)
                v = v.view(B, L, 2, 4).transpose(1, 2)
                a = torch.softmax(q @ k.transpose(2, 3) / 2.0, dim=3) @ v
                return self.out(a.transpose(1, 2).reshape(B, L, C))
        """
    )
    fixed_and_same(text, Case(), Case(training=True), Case(dtype=torch.bfloat16))


# ---- T19 RMSNorm

RMS = """
class M(nn.Module):
    def __init__(self, size=8, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps
    def forward(self, x):
"""
SMALL = Case(magnitude=1e-3)


def rms(*lines: str) -> str:
    return source(RMS + "".join(f"        {line}\n" for line in lines))


LLAMA = rms(
    "dtype = x.dtype",
    "x = x.to(torch.float32)",
    "x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)",
    "return self.weight * x.to(dtype)",
)
GEMMA = rms(
    "h = x.float()",
    "h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)",
    "return (h * (1.0 + self.weight.float())).type_as(x)",
)
MIXED = (Case(dtype=torch.bfloat16, parameters=torch.float32), Case(dtype=torch.bfloat16), SMALL, Case(training=True))


def test_t19_llama_keeps_the_output_type_of_the_weight() -> None:
    new = fixed_and_same(LLAMA, Case(), *MIXED)
    assert "self.weight * " in new and "eps=self.eps" in new
    half = next(iter(namespace(new)["M"]().bfloat16()(torch.ones(1, 1, 8, dtype=torch.bfloat16)).flatten()))
    assert half.dtype is torch.bfloat16


def test_t19_one_plus_weight_stays() -> None:
    result = fixed(GEMMA)
    assert_same(GEMMA, result.text, Case(), *MIXED)
    if result.applied:
        assert "1.0 + self.weight" in result.text or "1 + self.weight" in result.text


@pytest.mark.parametrize(
    "scale",
    [
        "h / (h.pow(2).mean(-1, keepdim=True).sqrt() + self.eps)",
        "h / (h.norm(dim=-1, keepdim=True) * 8 ** -0.5 + self.eps)",
        "h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True)) + self.eps",
        "h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True).clamp(min=self.eps))",
        "h * torch.rsqrt(h.var(-1, keepdim=True) + self.eps)",
        "h * torch.rsqrt(h.pow(2).mean(1, keepdim=True) + self.eps)",
        "h * torch.rsqrt(h.pow(2).sum(-1, keepdim=True) + self.eps)",
        "h * torch.rsqrt(h.abs().mean(-1, keepdim=True) + self.eps)",
    ],
)
def test_t19_eps_outside_the_root_and_other_moments_are_no_rms_norm(scale: str) -> None:
    reasons(rms("h = x.float()", f"return self.weight * ({scale}).to(x.dtype)"))


def test_t19_eps_is_always_passed() -> None:
    text = LLAMA.replace("self.eps)", "1e-5)")
    assert "eps=1e-05" in fixed_and_same(text, Case(), *MIXED)


def test_t19_without_casts_the_kernel_runs_in_float32_only() -> None:
    text = rms("return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)")
    new = fixed_and_same(text, Case(), *MIXED, *HALF)
    assert "x.dtype == torch.float32" in new and "else:" in new


def test_t19_the_result_in_float32_stays_float32() -> None:
    text = rms("h = x.float()", "return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps))")
    assert_same(text, fixed(text).text, Case(), *MIXED)


# ---- T22 flavours of GELU, T23 QuickGELU


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (
            "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))",
            'F.gelu(x, approximate="tanh")',
        ),
        ("0.5 * x * (1 + torch.tanh(0.7978845608 * x * (1 + 0.044715 * x * x)))", 'F.gelu(x, approximate="tanh")'),
        ("x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))", "F.gelu(x)"),
        ("x * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476))", "F.gelu(x)"),
        ("x * (0.5 + 0.5 * torch.erf(x / 1.4142135623730951))", "F.gelu(x)"),
    ],
)
def test_t22_the_flavour_is_kept(formula: str, expected: str) -> None:
    text = source(f"def f(x):\n    return {formula}\n")
    assert expected in fixed_and_same(text, Case(), Case(magnitude=4.0), Case(dtype=torch.bfloat16))


@pytest.mark.parametrize(
    "formula",
    [
        "0.5 * x * (1.0 + torch.tanh(0.79 * (x + 0.044715 * x**3)))",
        "0.5 * x * (1.0 + torch.tanh(0.7979 * (x + 0.044715 * x**3)))",
        "0.5 * x * (1.0 + torch.tanh(0.79788 * (x + 0.044715 * x**3)))",
        "0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.0447 * x**3)))",
        "0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x**2)))",
        "0.5 * x * (1.0 + torch.tanh(0.7978845608 * x + 0.044715 * x**3))",
        "0.5 * x * (1.0 + torch.tanh(x / math.sqrt(2.0)))",
        "0.5 * x * (1.0 + torch.erf(0.7978845608 * (x + 0.044715 * x**3)))",
        "x * torch.sigmoid(1.5957691 * (x + 0.0447 * x**3))",
        "0.5 * x * (1.0 + torch.erf(x))",
        "0.5 * x * (1.0 + torch.erf(x / math.sqrt(3.0)))",
        "0.5 * x * (1.0 + torch.erf(x / 1.414))",
    ],
)
def test_t22_other_constants_are_another_function(formula: str) -> None:
    assert not reasons(source(f"def f(x):\n    return {formula}\n"))


@pytest.mark.parametrize("factor", ["1.702", "1.7", "1.5957691216", "2", "-1", "factor"])
def test_t23_a_sigmoid_of_a_scaled_input_is_neither_gelu_nor_silu(factor: str) -> None:
    arguments = "x, factor" if factor == "factor" else "x"
    assert not reasons(source(f"def f({arguments}):\n    return x * torch.sigmoid({factor} * x)\n"))


@pytest.mark.parametrize("magnitude", [1.0, 1e-3, 30.0])
@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("x * torch.tanh(F.softplus(x))", "F.mish(x)"),
        ("x * torch.tanh(torch.log(1 + torch.exp(x)))", "F.mish(x)"),
        ("x * torch.log1p(torch.exp(x)).tanh()", "F.mish(x)"),
        ("x * F.hardtanh(x + 3, 0.0, 6.0) / 6", "F.hardswish(x)"),
        ("x * F.relu6(x + 3.0) * (1 / 6)", "F.hardswish(x)"),
        ("F.hardsigmoid(x) * x", "F.hardswish(x)"),
        ("x * torch.clamp(3 + x, min=0, max=6).div(6)", "F.hardswish(x)"),
    ],
)
def test_t22_mish_and_hardswish_are_told_by_their_constants(formula: str, expected: str, magnitude: float) -> None:
    text = source(f"def f(x):\n    return {formula}\n")
    # In half precision some x is exactly 3, where clamp's gradient is the one from the left and hardswish's that from the right.
    half = Case(magnitude=magnitude, dtype=torch.bfloat16, gradients=False)
    assert expected in fixed_and_same(text, Case(magnitude=magnitude), half)


@pytest.mark.parametrize(
    "formula",
    [
        "x * torch.tanh(F.softplus(x, 2.0))",
        "x * torch.tanh(torch.log(1 + torch.exp(-x)))",
        "x * torch.tanh(torch.log(2 + torch.exp(x)))",
        "torch.tanh(F.softplus(x))",
        "x * torch.log1p(x.exp() + 1).tanh()",
        "x * F.relu6(x + 3) / 3",
        "x * F.relu6(x + 2) / 6",
        "x * F.hardtanh(x + 3) / 6",
        "x * torch.clamp(x + 3, max=6) / 6",
        "(x + 3) * torch.clamp(x + 3, 0, 6) / 6",
    ],
)
def test_t22_other_softplus_and_clamps_are_other_functions(formula: str) -> None:
    assert not reasons(source(f"def f(x):\n    return {formula}\n"))


def test_t23_a_slope_kept_on_the_module_is_no_silu() -> None:
    text = source(
        """
        class M(nn.Module):
            def __init__(self, beta=1.0):
                super().__init__()
                self.beta = beta
            def forward(self, x):
                return x * torch.sigmoid(self.beta * x)
        """
    )
    assert not reasons(text)


# ---- T24 LayerNorm with the sample deviation

NORM = """
class M(nn.Module):
    def __init__(self, size=8, eps=1e-5):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(size))
        self.b_2 = nn.Parameter(torch.zeros(size))
        self.eps = eps
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
"""


def layer_norm(*lines: str) -> str:
    return source(NORM + "".join(f"        {line}\n" for line in lines))


@pytest.mark.parametrize(
    "lines",
    [
        ("std = x.std(-1, keepdim=True)", "return self.a_2 * (x - mean) / (std + self.eps) + self.b_2"),
        ("std = x.std(-1, keepdim=True, unbiased=False)", "return self.a_2 * (x - mean) / (std + self.eps) + self.b_2"),
        ("var = x.var(-1, keepdim=True)", "return self.a_2 * (x - mean) / torch.sqrt(var + self.eps) + self.b_2"),
        (
            "var = x.var(dim=-1, keepdim=True, unbiased=True)",
            "return self.a_2 * (x - mean) / (var + self.eps).sqrt() + self.b_2",
        ),
        (
            "var = torch.var(x, -1, keepdim=True, correction=1)",
            "return self.a_2 * (x - mean) * (var + self.eps).rsqrt() + self.b_2",
        ),
        (
            "var = (x - mean).pow(2).sum(-1, keepdim=True) / (x.size(-1) - 1)",
            "return self.a_2 * (x - mean) / torch.sqrt(var + self.eps) + self.b_2",
        ),
    ],
)
def test_t24_the_sample_deviation_and_eps_outside_are_no_layer_norm(lines: tuple[str, ...]) -> None:
    reasons(layer_norm(*lines))


POPULATION = layer_norm(
    "var = x.var(-1, keepdim=True, unbiased=False)",
    "return self.a_2 * (x - mean) / torch.sqrt(var + self.eps) + self.b_2",
)


def test_t24_the_population_variance_is_and_the_parameters_keep_their_names() -> None:
    new = fixed_and_same(POPULATION, Case(), *MIXED, *HALF, Case(dtype=torch.float64))
    assert "self.a_2, self.b_2, self.eps)" in new
    old_module, new_module = namespace(POPULATION)["M"](), namespace(new)["M"]()
    new_module.load_state_dict(old_module.state_dict())
    assert list(new_module.state_dict()) == ["a_2", "b_2"]


# ---- T51 three axes


@pytest.mark.parametrize(
    "body",
    [
        "return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.3, dim=-1), v)",
        "s = torch.einsum('bid,bjd->bij', q, k) * 0.3\nreturn torch.einsum('bij,bjd->bid', s.softmax(-1), v)",
        "b, l, d = q.shape\nw = torch.softmax(q @ k.transpose(1, 2) * 0.3, dim=2)\nreturn w @ v",
        "s = torch.bmm(q, k.transpose(1, 2)) * 0.3 + mask\nreturn torch.bmm(torch.softmax(s, dim=-1), v)",
        "s = torch.baddbmm(mask, q, k.transpose(1, 2), beta=1, alpha=0.3)\nreturn torch.bmm(torch.softmax(s, dim=-1), v)",
    ],
)
def test_t51_three_axes_are_passed_as_four(body: str) -> None:
    text = attention(body, "q, k, v, mask" if "mask" in body else "q, k, v")
    new = fixed_and_same(text, Case(rank=3), Case(rank=3, length=3, keys=7), Case(rank=3, dtype=torch.bfloat16))
    assert (
        "q.unsqueeze(0)" in new and "v.unsqueeze(0)" in new and new.count(".unsqueeze(0)") == 3 and ".squeeze(0)" in new
    )


def test_t51_a_batch_of_one_keeps_its_axis() -> None:
    text = attention("return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1), v)")
    new = namespace(fixed(text).text)["f"]
    assert new(*torch.randn(3, 1, 5, 8)).shape == (1, 5, 8)


def test_t51_four_axes_stay_four() -> None:
    text = attention("b, h, l, d = q.shape\nreturn torch.softmax(q @ k.transpose(2, 3), dim=3) @ v")
    assert "unsqueeze" not in fixed_and_same(text)


# ---- T52 autocast


def test_t24_the_old_path_behind_the_guard_is_not_changed_again() -> None:
    result = fixed(POPULATION)
    assert [o.rule for o in result.applied] == ["layer-norm"]


@pytest.mark.parametrize(
    "text",
    [
        LLAMA,
        GEMMA,
        POPULATION,
        rms("return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)"),
        rms(
            "h = x.float()",
            "return (self.weight * h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)",
        ),
        layer_norm("var = x.var(-1, keepdim=True, unbiased=False)", "return (x - mean) / torch.sqrt(var + self.eps)"),
        source(
            """
            def f(x, weight, shift):
                h = x.float()
                m = h.mean(-1, keepdim=True)
                v = (h - m).pow(2).mean(-1, keepdim=True)
                return ((h - m) / torch.sqrt(v + 1e-5) * weight.float() + shift.float()).to(x.dtype)
            """
        ),
    ],
    ids=[
        "llama",
        "gemma",
        "layer norm",
        "rms norm without casts",
        "weight first",
        "plain layer norm",
        "layer norm with casts",
    ],
)
def test_t52_norms_give_the_element_type_they_gave_under_autocast(text: str) -> None:
    result = fixed(text)
    assert_same(text, result.text, *AUTOCAST, Case(autocast=True, dtype=torch.bfloat16, parameters=torch.float32))


def test_t52_a_float32_norm_under_autocast_is_as_precise_as_it_was() -> None:
    """Autocast may run the kernel in bfloat16 where the code wrote float32: three digits instead of seven."""
    for text in (LLAMA, POPULATION):
        new = fixed(text).text
        x = torch.linspace(-1.0, 1.0, 40).reshape(1, 5, 8)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(namespace(new)["M"]()(x), namespace(text)["M"]()(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "return torch.softmax(q @ k.transpose(-2, -1) * 0.3, dim=-1) @ v",
        "return F.softmax(q @ k.transpose(-2, -1) * 0.3, dim=-1, dtype=torch.float32).to(q.dtype) @ v",
        "return torch.softmax(q @ k.transpose(-2, -1) * 0.3 + bias, dim=-1) @ v",
    ],
)
def test_t52_attention_gives_the_element_type_it_gave_under_autocast(body: str) -> None:
    text = attention(body, "q, k, v, bias" if "bias" in body else "q, k, v")
    assert_same(text, fixed(text).text, *AUTOCAST, Case(autocast=True, dtype=torch.bfloat16))


@pytest.mark.parametrize("formula", ["x * torch.sigmoid(x)", "0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))"])
def test_t52_activations_give_the_element_type_they_gave_under_autocast(formula: str) -> None:
    text = source(f"def f(x):\n    return {formula}\n")
    fixed_and_same(text, *AUTOCAST, Case(autocast=True, dtype=torch.bfloat16))


# ---- T53 a flag that only the caller knows

GPT2 = source(
    """
    class Base(nn.Module):
        def _attn(self, q, k, v):
            w = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * 0.3, dim=-1)
            return torch.matmul(w, v), w
        def forward(self, q, k, v, need_weights=False):
            out, w = self._attn(q, k, v)
            outputs = (out,)
            if need_weights:
                outputs += (w,)
            return outputs
    """
)


def test_t53_the_method_that_always_returns_its_weights_is_left_alone() -> None:
    new = fixed(GPT2).text
    before, _, after = new.partition("def forward")
    assert before == GPT2.partition("def forward")[0]
    assert "self._attn(q, k, v)" in after


def test_t53_a_guard_at_the_call_keeps_the_call() -> None:
    text = GPT2 + "M = Base\n"
    assert_same(text, fixed(text).text)


@pytest.mark.parametrize("depth", [1, 2])
def test_t53_an_overridden_method_is_always_called(depth: int) -> None:
    chain = "class Middle(Base):\n    pass\n" if depth == 2 else ""
    parent = "Middle" if depth == 2 else "Base"
    text = (
        GPT2
        + chain
        + source(
            f"""
        import torch
        class M({parent}):
            def _attn(self, q, k, v):
                w = torch.softmax(torch.matmul(q, k.transpose(-1, -2)), dim=-1).tril()
                return torch.matmul(w, v), w
        """
        )
    )
    result = fixed(text)
    assert "self._attn(q, k, v)" in result.text and not result.applied
    assert_same(text, result.text)


def test_t53_an_overridable_method_that_returns_no_weights_is_not_bypassed() -> None:
    text = (
        GPT2.replace("return torch.matmul(w, v), w", "return torch.matmul(w, v)")
        .replace("out, w = self._attn(q, k, v)", "out = self._attn(q, k, v)")
        .replace("outputs += (w,)", "outputs += (q,)")
        + "M = Base\n"
    )
    new = fixed_and_same(text)
    assert "self._attn(q, k, v)" in new, "the fix belongs into the method, the call stays"


# ---- found by the corpus: what a name means is decided where it is written


DEFAULTS = {
    "a function": """
        EPS = 1e-5
        def inverse_size(x, eps=EPS):
            return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        class M(nn.Module):
            def forward(self, x):
                EPS = 1e-3
                return x * inverse_size(x)
        """,
    "a method": """
        EPS = 1e-5
        class M(nn.Module):
            def size(self, x, eps=EPS):
                return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
            def forward(self, x):
                EPS = 1e-3
                return x * self.size(x)
        """,
    "a class body": """
        EPS = 1e-5
        class M(nn.Module):
            EPS = 1e-2
            def size(self, x, eps=EPS):
                return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
            def forward(self, x):
                return x * self.size(x)
        """,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_is_read_where_the_function_stands(name: str) -> None:
    text = source(textwrap.dedent(DEFAULTS[name]).lstrip("\n"))
    result = fixed(text)
    assert "1e-3" not in result.text.replace("EPS = 1e-3", "") and "0.001" not in result.text
    if result.applied:
        assert_same(text, result.text, Case())


def test_a_layer_in_a_container_is_written_by_its_place() -> None:
    text = source(
        textwrap.dedent(
            """
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.attend = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(0.1))
                def forward(self, q, k, v):
                    return self.attend(q @ k.transpose(-2, -1)) @ v
            """
        ).lstrip("\n")
    )
    assert "dropout_p=self.attend[1].p if self.attend[1].training else 0.0" in fixed_and_same(text, Case())


# ---- T26, T50 losses: reductions, ignored targets, logarithms that underflow

LOGITS = {
    "x": lambda case: torch.randn(6, 8) * case.magnitude,
    "deep": lambda case: torch.randn(6, 8, 3) * case.magnitude,
    "row": lambda case: torch.randn(8) * case.magnitude,
    "target": lambda case: torch.tensor([0, 7, 2, -100, 5, 1]),
    "padded": lambda case: torch.tensor([0, 7, 2, 2, 5, 1]),
    "deep_target": lambda case: torch.tensor([[0, 7, 2]] * 6),
    "one": lambda case: torch.tensor(3),
    "rates": lambda case: torch.linspace(0.1, 1.0, 8),
    "kind": lambda case: ("mean", "sum", "none"),
}  # fmt: skip


@pytest.mark.parametrize("magnitude", [1.0, 20.0])
@pytest.mark.parametrize(
    ("arguments", "loss", "expected"),
    [
        ("x, target", "F.nll_loss(F.log_softmax(x, dim=1), target)", "F.cross_entropy(x, target)"),
        ("x, target", "F.nll_loss(x.log_softmax(1), target, reduction='none')", 'reduction="none"'),
        ("x, target, kind", "F.nll_loss(x.log_softmax(1), target, reduction=kind)", "reduction=kind"),
        ("x, padded", "F.nll_loss(F.log_softmax(x, 1), padded, None, None, 2)", None),
        ("x, padded", "F.nll_loss(F.log_softmax(x, 1), padded, ignore_index=2)", "ignore_index=2"),
        ("x, padded, rates", "F.nll_loss(F.log_softmax(x, 1), padded, rates)", "F.cross_entropy(x, padded, rates)"),
        ("deep, deep_target", "F.nll_loss(F.log_softmax(deep, 1), deep_target)", "F.cross_entropy(deep, deep_target)"),
        ("deep, deep_target", "F.nll_loss(F.log_softmax(deep, -1), deep_target)", "if deep.dim() == 2:"),
        ("row, one", "F.nll_loss(F.log_softmax(row, -1), one)", "if row.dim() == 2:"),
        ("deep, one", "F.nll_loss(F.log_softmax(deep.view(-1, 8), -1), one.expand(18))", "deep.view(-1, 8)"),
        ("x, target", "F.nll_loss(F.log_softmax(x, 1), target, size_average=False)", None),
        ("x, target", "F.nll_loss(F.log_softmax(x, 0), target)", None),
    ],
)  # fmt: skip
def test_t26_a_loss_keeps_its_reduction_its_weights_and_its_axis(
    arguments: str, loss: str, expected: str | None, magnitude: float
) -> None:
    text = source(f"def f({arguments}):\n    return {loss}\n")
    result = fixed(text)
    assert bool(result.applied) is (expected is not None)
    assert (expected or "nll_loss") in result.text
    for case in (Case(magnitude=magnitude), Case(magnitude=magnitude, autocast=True)):
        assert_same(text, result.text, Case(**{**case.__dict__, "inputs": LOGITS}))


def test_t50_a_logarithm_that_underflows_becomes_finite() -> None:
    text = source("def f(x, target):\n    return F.nll_loss(torch.log(F.softmax(x, dim=1)), target)\n")
    new = fixed(text).text
    assert "F.cross_entropy(x, target)" in new
    x, target = torch.tensor([[400.0, -400.0]]), torch.tensor([1])
    assert namespace(text)["f"](x, target).isinf()
    assert namespace(new)["f"](x, target).item() == 800.0


@pytest.mark.parametrize(
    "body",
    [
        "return F.nll_loss(torch.log(F.softmax(x, dim=1) + 1e-8), target)",
        "return F.nll_loss(F.softmax(x, dim=1), target)",
        "return F.cross_entropy(F.softmax(x, dim=1), target)",
        "return F.cross_entropy(F.log_softmax(x, dim=1), target)",
        "p = F.log_softmax(x, dim=1)\n    return F.nll_loss(p, target), p",
        "return F.nll_loss(F.log_softmax(x, dim=1) * 0.5, target)",
        "return F.kl_div(F.log_softmax(x, dim=1), target)",
    ],
)
def test_t50_what_is_no_cross_entropy_stays(body: str) -> None:
    text = source(f"def f(x, target):\n    {body}\n")
    assert not fixed(text).applied


# ---- T15 grouped heads: repeat_interleave is the order of the kernel's groups, repeat is not


GROUPED = {
    "q": lambda case: torch.randn(2, 6, case.length, 8),
    "few": lambda case: torch.randn(2, 2, case.keys, 8),
    "late": lambda case: torch.randn(2, case.keys, 2, 8),
    "times": lambda case: (3,),
    "maybe_mask": lambda case: (None, torch.randn(2, 1, case.length, case.keys)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("repeated", "found"),
    [
        ("few.repeat_interleave(3, dim=1)", True),
        ("few.repeat_interleave(3, 1)", True),
        ("torch.repeat_interleave(few, times, dim=-3)", True),
        ("few.unsqueeze(2).expand(-1, -1, 3, -1, -1).reshape(b, h * 3, s, d)", True),
        ("few[:, :, None].expand(b, h, 3, s, d).reshape(b, -1, s, d)", True),
        ("few[:, :, None].expand(b, h, times, s, d).reshape(b, h * times, s, d)", True),
        ("late[:, :, :, None].expand(b, s, h, 3, d).reshape(b, s, h * 3, d).transpose(1, 2)", True),
        ("few[:, None].expand(b, 3, h, s, d).reshape(b, h * 3, s, d)", False),
        ("few.repeat(1, 3, 1, 1)", False),
        ("few.tile(1, 3, 1, 1)", False),
        ("torch.cat([few, few, few], dim=1)", False),
        ("few[:, :, None].expand(b, h, 3, s, d).reshape(b, h, s * 3, d)", False),
        ("few[:, :, :, None].expand(b, h, s, 3, d).reshape(b, h, s * 3, d)", False),
        ("few.repeat_interleave(3, dim=1) * 0.5", False),
    ],
)
def test_t15_only_heads_repeated_in_place_are_grouped(repeated: str, found: bool) -> None:
    name = "late" if repeated.startswith("late") else "few"
    shape = "b, s, h, d" if name == "late" else "b, h, s, d"
    text = source(
        f"""
        import torch
        import torch.nn.functional as F
        def f(q, {name}, times, maybe_mask):
            {shape} = {name}.shape
            k = {repeated}
            return F.scaled_dot_product_attention(q, k, k.contiguous(), attn_mask=maybe_mask, scale=0.3)
        """
    )
    result = fixed(text, names=frozenset({"enable-gqa"}))
    assert ("enable_gqa=True" in result.text) is found
    for case in (Case(inputs=GROUPED), Case(inputs=GROUPED, keys=7), Case(inputs=GROUPED, dtype=torch.bfloat16)):
        assert_same(text, result.text, case)


def test_t15_written_out_attention_is_told_and_then_shares_the_heads_in_two_steps() -> None:
    text = source(
        """
        import torch
        import torch.nn.functional as F
        def f(q, few):
            b, h, s, d = few.shape
            k = few.repeat_interleave(3, dim=1)
            return torch.softmax(q @ k.transpose(-2, -1) * 0.3, dim=-1) @ k
        """
    )
    assert {o.rule for o in analysed(text).opportunities} == {"sdpa", "enable-gqa"}
    new = fixed_and_same(text, Case(inputs=GROUPED), Case(inputs=GROUPED, keys=3))
    assert "enable_gqa=True" in new and "repeat_interleave" not in new


def test_t14_the_devices_without_the_grouped_kernel_are_named() -> None:
    text = source("def f(q, few):\n    b, h, s, d = few.shape\n    k = few.repeat_interleave(3, 1)\n"
                  "    return F.scaled_dot_product_attention(q, k, k)\n")  # fmt: skip
    (found,) = analysed(text, frozenset({"enable-gqa"})).opportunities
    assert found.tier == "assumed" and "plain kernel" in found.title
