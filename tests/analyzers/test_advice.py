"""Advice with edits that the same-program check does not see, run in torch; and the code that advice in words shows."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from before_after import Case, differences
from test_rules import ARGUMENTS, entry, runnable
from torch import nn

from kernelwright.analyzers.analysis import Settings, analyse
from kernelwright.analyzers.opportunity import Opportunity
from kernelwright.analyzers.rules.loader import Example, rules

ADDMM = [e for rule in rules() if rule.name == "addmm" for e in rule.examples if e.after is not None]


@pytest.mark.parametrize("example", ADDMM)
@pytest.mark.parametrize(
    "case",
    [Case(gradients=False), Case(), Case(training=True), Case(dtype=torch.bfloat16), Case(magnitude=1e-3)],
)
def test_a_product_with_its_bias_computes_the_same(example: Example, case: Case) -> None:
    name, arguments = entry(example.before)
    assert example.after is not None
    old, new = (runnable(text, name, arguments) for text in (example.before, example.after))
    varied = Case(**{f: getattr(case, f) for f in case.__dataclass_fields__ if f != "inputs"}, inputs=ARGUMENTS)
    assert not differences(old, new, varied)


def found(rule: str, text: str, **settings: Any) -> list[Opportunity]:
    analysis = analyse(text, "m.py", Settings(rules=frozenset({rule}), **settings))
    assert analysis.error is None
    return [o for o in analysis.opportunities if o.rule == rule]


FOLDS = [
    ("conv-bn-fold", "nn.Conv2d(3, 4, 3, bias=False)", "nn.BatchNorm2d(4)", (2, 3, 8, 8)),
    ("conv-bn-fold", "nn.Conv1d(3, 4, 3, groups=1)", "nn.BatchNorm1d(4)", (2, 3, 8)),
    ("conv-bn-fold", "nn.ConvTranspose2d(3, 4, 3)", "nn.BatchNorm2d(4)", (2, 3, 8, 8)),
    ("linear-bn", "nn.Linear(3, 4)", "nn.BatchNorm1d(4)", (5, 3)),
]


@pytest.mark.parametrize(("rule", "layer", "norm", "shape"), FOLDS)
@pytest.mark.parametrize("as_module", [False, True])
def test_the_folding_that_is_shown_computes_the_same(
    rule: str, layer: str, norm: str, shape: tuple[int, ...], as_module: bool
) -> None:
    head = "import torch\nfrom torch import nn\n\n\n"
    if as_module:
        text = (
            f"{head}class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.layer = {layer}\n        self.norm = {norm}\n\n"
            "    def forward(self, x):\n        return torch.relu(self.norm(self.layer(x)))\n"
        )
    else:
        text = f"{head}def block():\n    return nn.Sequential({layer}, {norm}, nn.ReLU())\n"
    (advice,) = found(rule, text)
    assert not advice.has_edit and advice.snippet
    names: dict[str, Any] = {"torch": torch}
    exec(text, names)
    torch.manual_seed(0)
    model: nn.Module = names["M"]() if as_module else names["block"]()
    for _ in range(3):
        model(torch.randn(*shape))
    names["model" if as_module else "block"] = model.eval()
    if not as_module:
        names["model"] = model
    given = torch.randn(*shape)
    before = model(given)
    exec(advice.snippet, names)
    torch.testing.assert_close(model(given), before)
    assert sum(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in model.modules()) == 0


def test_every_snippet_is_python() -> None:
    shown = 0
    for rule in rules():
        for text in rule.reports:
            for advice in found(rule.name, text):
                ast.parse(advice.snippet)
                shown += bool(advice.snippet)
    assert shown >= 15


BLOCK = """
import torch
from torch import nn
class Output(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
    def forward(self, x, residual):
        return self.norm(residual + self.dense(x))
"""


@pytest.mark.parametrize(
    ("packages", "build", "state", "told"),
    [
        ({}, None, "assumed", "no interpreter to look in"),
        ({"liger_kernel": (0, 6)}, "cu130", "proven", "installed: 0.6"),
        ({"numpy": (2, 0)}, "cpu", "assumed", "in the chosen interpreter"),
    ],
)
def test_advice_tells_what_the_chosen_interpreter_has(
    packages: dict[str, tuple[int, ...]], build: str | None, state: str, told: str
) -> None:
    (advice,) = found("dropout-add-norm", BLOCK, packages=packages, torch_build=build)
    (package,) = [c for c in advice.conditions if c.name == "package"]
    (device,) = [c for c in advice.conditions if c.name == "device"]
    assert package.state == state and told in package.text
    assert ("CPU build" in device.text) is (build == "cpu")


def test_an_old_torch_declines_advice() -> None:
    assert found("addmm", ADDMM[0].before, torch_version=(2, 1))
    assert not found("addmm", ADDMM[0].before, torch_version=(1, 13))


def test_advice_is_not_given_unasked() -> None:
    analysis = analyse(BLOCK, "m.py", Settings())
    assert not analysis.opportunities
