"""A rule of a user whose kernel is not its definition: the same-program check withholds its fix.

The rules are read from text and run through the detector, the rewriter and the check, as `analyse` and `edits` do it.
"""

from __future__ import annotations

import pytest
from before_after import source

from kernelwright.analyzers.detect import Detector
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.offers import apply_edits
from kernelwright.analyzers.rewrite import plan_edit
from kernelwright.analyzers.rules.loader import load_rule
from kernelwright.analyzers.same_program import difference
from kernelwright.analyzers.source import parse_source


def rule_text(definition: str, kernel: str, parameters: str = "x", arguments: str = "x") -> str:
    return f'''"""A rule under test."""
import math
import torch
import torch.nn.functional as F
name = "mine"
kernel = "torch.nn.functional.mine"
tier = "exact"
numerics = "E"
min_torch = "1.0"
message = "mine"
def definition({parameters}):
    return {definition}
def kernel_call({arguments}):
    return {kernel}
'''


def edited(rule: str, code: str) -> tuple[str, str | None]:
    """The text after the rule's first fix, and what the check says against it."""
    loaded = load_rule(rule, "mine.py")
    parsed = parse_source(code, "model.py")
    old = translate(Scope(parsed), parsed.functions[-1])
    detector = Detector(old)
    site = next(detector.sites(loaded))
    assert site.leak is None
    new_text = apply_edits(code, plan_edit(detector, site).edits)
    parsed = parse_source(new_text, "model.py")
    return new_text, difference(old, translate(Scope(parsed), parsed.functions[-1]))


TANH_GELU = "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))"
PLAIN = "torch.softmax(q @ k.transpose(-2, -1) * 0.3, dim=-1) @ v"
MASKED = "torch.softmax((q @ k.transpose(-2, -1)).masked_fill(m, -math.inf), dim=-1) @ v"
SAMPLE = "(x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + {eps})"
RMS = "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + {eps})"
ATTENTION = "torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1) @ v"
QKV = ("q, k, v, scale: Number", "q, k, v, scale")

WRONG = [
    pytest.param(
        "x * torch.sigmoid(1.702 * x)",
        "F.gelu(x)",
        ("x", "x"),
        "x * torch.sigmoid(1.702 * x)",
        "x",
        id="quick gelu is no gelu",
    ),
    pytest.param(TANH_GELU, "F.gelu(x)", ("x", "x"), TANH_GELU, "x", id="one flavour for the other"),
    pytest.param("x * torch.sigmoid(x)", "F.silu(-x)", ("x", "x"), "x * torch.sigmoid(x)", "x", id="a sign"),
    pytest.param(
        "x * torch.sigmoid(y)", "F.silu(x)", ("x, y", "x, y"), "x * torch.sigmoid(y)", "x, y", id="an operand is lost"
    ),
    pytest.param("x * torch.tanh(x)", "torch.tanh(x)", ("x", "x"), "x * torch.tanh(x)", "x", id="a factor is lost"),
    pytest.param(
        "torch.tanh(x) - y", "y - torch.tanh(x)", ("x, y", "x, y"), "torch.tanh(x) - y", "x, y", id="operands exchanged"
    ),
    pytest.param(
        ATTENTION, "F.scaled_dot_product_attention(q, k, v)", QKV, PLAIN, "q, k, v", id="the scale is lost (T07)"
    ),
    pytest.param(
        ATTENTION, "F.scaled_dot_product_attention(k, q, v, scale=scale)", QKV, PLAIN, "q, k, v", id="q and k exchanged"
    ),
    pytest.param(
        ATTENTION,
        "F.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=True)",
        QKV,
        PLAIN,
        "q, k, v",
        id="causal where it was not (T04)",
    ),
    pytest.param(
        ATTENTION,
        "F.scaled_dot_product_attention(q, k, v, scale=scale, dropout_p=0.1)",
        QKV,
        PLAIN,
        "q, k, v",
        id="dropout where there was none",
    ),
    pytest.param(
        MASKED,
        "F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=1.0)",
        ("q, k, v, m: Mask", "q, k, v, m"),
        MASKED,
        "q, k, v, m",
        id="the mask's polarity (T01)",
    ),
    pytest.param(
        "torch.softmax(q @ k.transpose(-2, -1), dim=-2) @ v",
        "F.scaled_dot_product_attention(q, k, v, scale=1.0)",
        ("q, k, v", "q, k, v"),
        "torch.softmax(q @ k.transpose(-2, -1), dim=-2) @ v",
        "q, k, v",
        id="another axis",
    ),
    pytest.param(
        RMS.format(eps="eps"),
        "F.rms_norm(x, (x.shape[-1],), eps=eps)",
        ("x, eps: Number", "x, eps"),
        RMS.format(eps=1e-6),
        "x",
        id="casts are lost (T19)",
    ),
    pytest.param(
        RMS.format(eps="eps"),
        "F.rms_norm(x, (x.shape[-1],))",
        ("x, eps: Number", "x, eps"),
        RMS.format(eps=1e-6),
        "x",
        id="eps is lost (T19)",
    ),
    pytest.param(
        SAMPLE.format(eps="eps"),
        "F.layer_norm(x, (x.shape[-1],), eps=eps)",
        ("x, eps: Number", "x, eps"),
        SAMPLE.format(eps=1e-6),
        "x",
        id="the sample variance (T24)",
    ),
]


@pytest.mark.parametrize(("definition", "kernel", "signature", "code", "arguments"), WRONG)
def test_a_wrong_rule_is_withheld(
    definition: str, kernel: str, signature: tuple[str, str], code: str, arguments: str
) -> None:
    text = source(f"def f({arguments}):\n    return {code}\n")
    new_text, reason = edited(rule_text(definition, kernel, *signature), text)
    assert new_text != text, "the rule is wrong, but it does match"
    assert reason is not None and "not the same program" in reason


RIGHT = [
    pytest.param(TANH_GELU, 'F.gelu(x, approximate="tanh")', ("x", "x"), TANH_GELU, "x", id="gelu"),
    pytest.param("x * torch.sigmoid(x)", "F.silu(x)", ("x", "x"), "x * torch.sigmoid(x)", "x", id="silu"),
    pytest.param(
        ATTENTION, "F.scaled_dot_product_attention(q, k, v, scale=scale)", QKV, PLAIN, "q, k, v", id="attention"
    ),
    pytest.param(
        "x * torch.tanh(F.softplus(x))", "F.mish(x)", ("x", "x"), "torch.tanh(F.softplus(x)) * x", "x", id="mish"
    ),
]


@pytest.mark.parametrize(("definition", "kernel", "signature", "code", "arguments"), RIGHT)
def test_a_right_rule_of_a_user_passes(
    definition: str, kernel: str, signature: tuple[str, str], code: str, arguments: str
) -> None:
    text = source(f"def f({arguments}):\n    return {code}\n")
    new_text, reason = edited(rule_text(definition, kernel, *signature), text)
    assert new_text != text and reason is None


def test_an_edit_that_drops_an_effect_is_withheld() -> None:
    """The check by itself: a text that prints no more is not the same program."""
    old, new = (source(f"def f(x):\n    {line}return x\n") for line in ("print(x)\n    ", ""))
    translations = [translate(Scope(p), p.functions[-1]) for p in (parse_source(t, "model.py") for t in (old, new))]
    assert difference(translations[0], translations[1]) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x", "return -x"),
        ("return x", "return x, x"),
        ("return x", "if x is None:\n        raise ValueError(x)\n    return x"),
        ("return x if y else -x", "return x"),
        ("return x if y is None else -x", "return x if y else -x"),
        ("self = y\n    self.a = x\n    return x", "self = y\n    return x"),
        ("y.append(x)\n    return x", "return x"),
        ("x.add_(1)\n    return x", "return x + 1"),
        ("y[0] = x\n    return x", "return x"),
        ("for i in y:\n        x = x + i\n    return x", "return x"),
        ("with y:\n        x = x + 1\n    return x", "return x + 1"),
        ("assert y, 'no'\n    return x", "assert not y, 'no'\n    return x"),
        ("del y[0]\n    return x", "return x"),
        ("global z\n    z = x\n    return x", "return x"),
        ("yield x", "return x"),
        ("yield x\n    yield y", "yield y\n    yield x"),
        ("return lambda: x", "return lambda: y"),
        ("y.grad = x\n    return x", "return x"),
        ("x.register_hook(y)\n    return x", "return x"),
        ("try:\n        x = y(x)\n    except KeyError:\n        x = -x\n    return x", "return y(x)"),
        ("while y:\n        x = x + 1\n    return x", "return x + 1"),
        ("return F.dropout(x, 0.1, True)", "return x"),
        ("return [x for _ in y]", "return [y for _ in x]"),
        ("return f'{x}'", "return f'{x}!'"),
        ("return f'{x!r}'", "return f'{x!s}'"),
        ("return x.a", "return x.b"),
        ("return x[y]", "return x[0]"),
        ("return {'a': x}", "return {'b': x}"),
        ("return x == y", "return x is y"),
        ("return x and y", "return y and x"),
        ("return x or y", "return x and y"),
        ("return x < y < 3", "return x < y"),
        ("return x in y", "return x not in y"),
        ("return await_(x)", "return x"),
        ("return y + x - x", "return y"),
        ("return y * (x / x)", "return y"),
        ("return x * 0 + y", "return y"),
    ],
)
def test_texts_that_do_different_things_are_told_apart(old: str, new: str) -> None:
    codes = [source(f"def f(x, y):\n    {body}\n") for body in (old, new)]
    translations = [translate(Scope(p), p.functions[-1]) for p in (parse_source(t, "model.py") for t in codes)]
    assert difference(translations[0], translations[1]) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x * 2", "y = 2 * x\n    return y"),
        ("if y:\n        return x\n    return -x", "return -x if not y else x"),
        (
            "if y is None:\n        z = x\n    else:\n        z = x + y\n    return z",
            "if y is not None:\n        x = x + y\n    return x",
        ),
        ("print(x)\n    return x", "z = x\n    print(z)\n    return z"),
        ("if y:\n        if x:\n            return 1\n    return 2", "return 1 if x and y else 2"),
    ],
)
def test_texts_that_do_the_same_are_the_same_program(old: str, new: str) -> None:
    codes = [source(f"def f(x, y):\n    {body}\n") for body in (old, new)]
    translations = [translate(Scope(p), p.functions[-1]) for p in (parse_source(t, "model.py") for t in codes)]
    assert difference(translations[0], translations[1]) is None
