"""Rules of training code and of attention modules: what their fixes do when they run, and edges of what they find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from before_after import EVERY_TIER, analysed, fixed, namespace

from kernelwright.analyzers.analysis import Settings, analyse
from kernelwright.analyzers.rules.loader import rules


def examples(name: str) -> Iterator[Any]:
    rule = next(r for r in rules() if r.name == name)
    for number, example in enumerate(e for e in rule.examples if e.after is not None):
        yield pytest.param(example.before, example.after, id=f"{name}-{number}")


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))


def rule_is_found(text: str, name: str) -> bool:
    return any(o.rule == name for o in analysed(text, frozenset({name})).opportunities)


# ---- mha-need-weights


@pytest.mark.parametrize(("before", "after"), list(examples("mha-need-weights")))
@pytest.mark.parametrize("training", [False, True])
def test_without_weights_the_first_result_is_the_same(before: str, after: str, training: bool) -> None:
    made = []
    for text in (before, after):
        names = namespace(text)
        (kind,) = [v for n, v in names.items() if isinstance(v, type) and v.__module__ == "model"]
        torch.manual_seed(1)
        module = kind(dim=8, heads=2).train(training)
        torch.manual_seed(2)
        x = torch.randn(3, 5, 8, requires_grad=True)
        arguments = (x, torch.randn(3, 5, 8)) if kind.__name__ == "Cross" else (x,)
        result = module(*arguments)
        result.square().sum().backward()
        made.append((result, x.grad, [p.grad for p in module.parameters()], list(module.state_dict())))
    torch.testing.assert_close(made[0][0], made[1][0])
    torch.testing.assert_close(made[0][1], made[1][1])
    torch.testing.assert_close(made[0][2], made[1][2])
    assert made[0][3] == made[1][3]


MODULE = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads)
    def forward(self, x, flag=False, **options):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return self.attn(x, x, x)[0]", True),
        ("return self.attn(x, x, x, None)[0]", True),
        ("return self.attn(x, x, x)[-2]", False),
        ("return self.attn(x, x, x)[:1]", False),
        ("return self.attn(x, x, x, need_weights=True)[0]", False),
        ("return self.attn(x, x, x, **options)[0]", False),
        ("out = self.attn(x, x, x); return out[0] if flag else out", False),
        ("out = self.attn(x, x, x); return out[0] * out[1].mean()", False),
        ("out = self.attn(x, x, x); print(out); return out[0]", False),
        ("a, b = self.attn(x, x, x); return (a, b) if flag else a", False),
    ],
)
def test_weights_that_anything_may_read_stay(body: str, found: bool) -> None:
    assert rule_is_found(MODULE.format(body=body), "mha-need-weights") is found


def test_hooks_and_second_derivatives_are_said() -> None:
    text = MODULE.format(body="return self.attn(x, x, x)[0]")
    for more, name in (("m.register_forward_hook(print)", "hooks"), ("g(x, create_graph=True)", "double_backward")):
        analysis = analysed(f"{text}\n\ndef more(m, g, x):\n    {more}\n", frozenset({"mha-need-weights"}))
        (found,) = analysis.opportunities
        assert found.tier == "assumed"
        assert [c.name for c in found.conditions if c.state == "assumed"] == [name]


# ---- fused-optimizer


@pytest.mark.parametrize(("before", "after"), list(examples("fused-optimizer")))
def test_three_steps_of_the_fused_optimizer_give_the_same_parameters(before: str, after: str) -> None:
    made = []
    for text in (before, after):
        model = network()
        optimizer = namespace(text)["f"](model)
        torch.manual_seed(5)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(7, 6)).square().sum().backward()
            optimizer.step()
        made.append((list(model.parameters()), optimizer.state_dict()))
    torch.testing.assert_close(made[0][0], made[1][0], rtol=0, atol=1e-6)
    old, new = made[0][1]["state"], made[1][1]["state"]
    assert {k: list(v) for k, v in old.items()} == {k: list(v) for k, v in new.items()}


def test_old_optimizer_state_loads_into_a_fused_optimizer() -> None:
    model = network()
    old = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 6)).sum().backward()
    old.step()
    new = torch.optim.AdamW(model.parameters(), fused=True)
    new.load_state_dict(old.state_dict())
    new.step()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.optim.AdamW(p)", "torch.optim.AdamW(p, fused=True)"),
        ("torch.optim.AdamW((p))", "torch.optim.AdamW((p), fused=True)"),
        ("torch.optim.AdamW([q for q in p],)", "torch.optim.AdamW([q for q in p], fused=True,)"),
        ("torch.optim.AdamW(p, lr=(1e-3))", "torch.optim.AdamW(p, lr=(1e-3), fused=True)"),
        (
            "torch.optim.AdamW(\n        p, lr=1e-3  # )\n    )",
            "torch.optim.AdamW(\n        p, lr=1e-3, fused=True  # )\n    )",
        ),
        ("torch.optim.AdamW(q for q in p)", None),
        ("torch.optim.AdamW(p, differentiable=True)", None),
        ("torch.optim.AdamW(p, fused=False)", None),
        ("torch.optim.Adamax(p)", None),
    ],
)
def test_the_keyword_is_added_where_it_may_stand(call: str, expected: str | None) -> None:
    text = f"import torch\ndef f(p):\n    return {call}\n"
    result = fixed(text, EVERY_TIER, frozenset({"fused-optimizer"}))
    assert result.text == text.replace(call, expected or call)


@pytest.mark.parametrize(("version", "device"), [((2, 1), "on CUDA,"), ((2, 13), "the CPU"), ((1, 13), None)])
def test_the_devices_of_the_fused_kernel_follow_the_version(version: tuple[int, int], device: str | None) -> None:
    text = "import torch\ndef f(p):\n    return torch.optim.AdamW(p)\n"
    found = analyse(text, "m.py", Settings(version)).opportunities
    assert bool(found) is (device is not None)
    assert device is None or device in found[0].conditions[0].text


# ---- zero-grad


@pytest.mark.parametrize(("before", "after"), [p for n, p in enumerate(examples("zero-grad")) if n != 1])
def test_dropped_gradients_train_the_same(before: str, after: str) -> None:
    made = []
    for text in (before, after):
        model = network()
        torch.manual_seed(6)
        for _ in range(3):
            namespace(text)["f"](model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(5, 6))
        made.append(list(model.parameters()))
    torch.testing.assert_close(made[0], made[1])


def test_a_parameter_without_a_gradient_is_what_the_condition_is_about() -> None:
    unused = torch.nn.Parameter(torch.ones(2))
    values = []
    for to_none in (False, True):
        with torch.no_grad():
            unused.copy_(torch.ones(2))
        unused.grad = torch.ones(2)
        optimizer = torch.optim.SGD([unused], lr=0.1, weight_decay=0.5)
        optimizer.zero_grad(set_to_none=to_none)
        optimizer.step()
        values.append(unused.detach().clone())
    assert not torch.equal(*values)
    text = "import torch\ndef f(o):\n    o.zero_grad(set_to_none=False)\n"
    (found,) = analysed(text).opportunities
    assert found.tier == "assumed" and "None instead of zero" in found.title


# ---- non-blocking (T33: from the device to the host it is a bug)


@pytest.mark.parametrize(("before", "after"), [p for n, p in enumerate(examples("non-blocking")) if n == 0])
def test_a_copy_that_does_not_wait_gives_the_same(before: str, after: str) -> None:
    data = [(torch.randn(3), torch.randn(3)) for _ in range(8)]
    results = [namespace(text)["f"](data, torch.nn.Identity(), torch.device("cpu")) for text in (before, after)]
    assert results[0] == results[1]


LOOP = """
import torch
from torch.utils.data import DataLoader
def f(data, model, device, target):
    loader = DataLoader(data, pin_memory={pinned})
    for x in loader:
        {body}
"""


@pytest.mark.parametrize(
    ("body", "pinned", "found"),
    [
        ("model(x.to(device))", True, True),
        ("model(x[0].to(device))", True, True),
        ("model(x.to(device=device))", True, True),
        ("model(x.to('cuda'))", True, True),
        ("model(x.to(device))", False, False),
        ("model(x.to('cpu'))", True, False),
        ("model(x.cpu())", True, False),
        ("model(x.to(device, torch.float16))", True, False),
        ("model(x.to(device, non_blocking=True))", True, False),
        ("model(x.to(target))", True, False),
        ("x = x.to('cuda'); x = model(x); print(x.to(device))", True, None),
        ("y = model(x); print(y.to(device))", True, False),
        ("loader = x; print(x.to(device))", True, False),
    ],
)
def test_t33_only_the_loaders_own_pinned_batch_is_copied_without_waiting(
    body: str, pinned: bool, found: bool | None
) -> None:
    text = LOOP.format(body=body, pinned=pinned)
    if found is None:
        assert "print(x.to(device))" in fixed(text, EVERY_TIER, frozenset({"non-blocking"})).text
    else:
        assert rule_is_found(text, "non-blocking") is found


# ---- inference-mode (T49: its tensors cannot enter autograd)


@pytest.mark.parametrize(("before", "after"), list(examples("inference-mode")))
def test_evaluation_gives_the_same_and_training_goes_on(before: str, after: str) -> None:
    results = []
    for text in (before, after):
        model = network()
        torch.manual_seed(8)
        x, y = torch.randn(6, 3, 6), torch.randint(0, 4, (6, 3))
        results.append(namespace(text)["f"](model, x, y))
        model(x).sum().backward()
    assert str(results[0]) == str(results[1])


EVALUATION: dict[str, tuple[str, bool]] = {
    "a number": ("return model(x).mean().item()", True),
    "nothing": ("print(model(x).mean())", True),
    "numbers in a tuple": ("a = model(x); n = len(a); return float(a.mean()), n", True),
    "a tensor": ("return model(x).mean()", False),
    "a sum of tensors": ("t = 0\n    for i in x:\n        t += model(i)\n    return t", False),
    "a tensor in a list": ("o = []\n    o.append(model(x))\n    return o", False),
    "a tensor in a dict": ("o = {}\n    o['a'] = model(x)\n    return o", False),
    "a tensor in the caller's list": ("out.append(model(x))", False),
    "a number in the caller's list": ("out.append(model(x).mean().item())", True),
    "a view of the result": ("a = model(x)\n    b, c = a.chunk(2)\n    return b", False),
    "a generator": ("yield model(x)", False),
    "gradients switched on again": ("with torch.enable_grad():\n        model(x).sum().backward()", False),
    "a parameter made": ("model.p = torch.nn.Parameter(model(x))", False),
    "weights loaded": ("model.load_state_dict(x)\n    return 1", False),
    "an argument that may keep tensors": ("for s in x:\n        s.store(model(s))\n    return x", False),
    "a tensor stored through an alias": ("o = model.state\n    o['a'] = model(x)", False),
    "a tensor put into a list of the model": ("o = model.outputs\n    o.append(model(x))", False),
    "a tensor in a list that stays here": ("o = []\n    o.append(model(x))\n    return len(o)", True),
    "a nested function": ("def g():\n        return model(x)\n    return g", False),
}


@pytest.mark.parametrize("name", EVALUATION)
def test_t49_no_tensor_leaves_inference_mode(name: str) -> None:
    body, found = EVALUATION[name]
    text = f"import torch\n@torch.no_grad()\ndef f(model, x, out):\n    {body}\n"
    assert rule_is_found(text, "inference-mode") is found


@pytest.mark.parametrize(
    ("after", "found"),
    [("return a.mean().item()", False), ("return b.mean()", False), ("return n", True), ("pass", True)],
)
def test_t49_what_is_read_after_the_block_is_a_number(after: str, found: bool) -> None:
    text = f"""
import torch
def f(model, x):
    with torch.no_grad():
        a = b = model(x)
        n = a.mean().item()
    {after}
"""
    assert rule_is_found(text, "inference-mode") is found


def test_t49_a_cache_kept_by_a_module_is_what_the_condition_is_about() -> None:
    class Cached(torch.nn.Module):
        table: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.table is None:
                self.table = torch.arange(3.0)
            return x * self.table

    model = Cached()
    with torch.inference_mode():
        model(torch.randn(3))
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        model(torch.randn(3, requires_grad=True)).sum().backward()
    text = "import torch\n@torch.no_grad()\ndef f(model, x):\n    return model(x).mean().item()\n"
    (found,) = analysed(text, frozenset({"inference-mode"})).opportunities
    assert found.tier == "assumed" and "cache" in found.title
