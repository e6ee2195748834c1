"""What the advice on memory format and compilation says of torch, tried in torch; and where the finders place it."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from before_after import analysed

from kernelwright.analyzers.rules.loader import rules

RULES = {rule.name: rule for rule in rules()}


def net(rule: str, number: int, *arguments: int) -> Any:
    """The class `Net` of a rule's report, made."""
    names: dict[str, Any] = {}
    exec(RULES[rule].reports[number], names)
    torch.manual_seed(0)
    return names["Net"](*arguments).eval()


@pytest.mark.parametrize("number", [0, 1])
def test_channels_last_computes_the_same_and_keeps_the_state_dict(number: int) -> None:
    plain, changed = net("channels-last", number), net("channels-last", number).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(changed(x.to(memory_format=torch.channels_last)), plain(x), rtol=1e-4, atol=1e-5)
    assert changed.state_dict().keys() == plain.state_dict().keys()
    assert all(
        torch.equal(a, b) for a, b in zip(changed.state_dict().values(), plain.state_dict().values(), strict=True)
    )


def test_a_view_that_joins_pixels_raises_as_the_page_says_and_one_of_one_pixel_does_not() -> None:
    maps = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        maps.view(2, -1)
    assert maps.mean((2, 3), keepdim=True).view(2, -1).shape == (2, 8)
    assert maps.view(2, 2, 4, 4, 4).shape == (2, 2, 4, 4, 4)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_blocks_compiled_in_place_compute_the_same_and_keep_their_keys() -> None:
    plain, compiled = net("compile", 0, 8, 3), net("compile", 0, 8, 3)
    for block in compiled.layers:
        block.compile()
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), plain(x))
    assert compiled.state_dict().keys() == plain.state_dict().keys()


def test_one_finding_a_file_at_the_outermost_stack() -> None:
    block = RULES["compile"].reports[0]
    inner = (
        block.replace("class Net", "class Part")
        .replace("Block(width)", "Cell(width)")
        .replace("class Block", "class Cell")
    )
    outer = """
class Whole(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.parts = nn.ModuleList([Part(width, 2) for _ in range(3)])
    def forward(self, x):
        for part in self.parts:
            x = part(x + 1)
        return x * 2
"""
    (found,) = analysed(
        inner.replace("return x\n", "return x + x * x - x\n") + outer, frozenset({"compile"})
    ).opportunities
    assert found.qualified_name == "Whole.forward" and "repeats Part" in found.message
    assert "for block in model.parts:" in found.snippet


def test_experts_are_no_stack() -> None:
    text = RULES["compile"].reports[0].replace("layers", "experts")
    assert not analysed(text, frozenset({"compile"})).opportunities


@pytest.mark.parametrize(("version", "state"), [((4, 57, 1), "proven"), ((4, 35, 0), "violated"), (None, "assumed")])
def test_the_installed_transformers_decides_on_the_keyword(version: tuple[int, ...] | None, state: str) -> None:
    from kernelwright.analyzers.analysis import Settings, analyse

    packages = {"torch": (2, 13, 0)} | ({"transformers": version} if version else {})
    settings = Settings((2, 13), rules=frozenset({"attn-implementation"}), packages=packages)
    example = next(e for e in RULES["attn-implementation"].examples if e.after)
    analysis = analyse(example.before, "script.py", settings)
    (found,) = (*analysis.opportunities, *analysis.declined)
    assert {c.name: c.state for c in found.conditions}["package"] == state
    assert (found.declined is not None) is (state == "violated")
