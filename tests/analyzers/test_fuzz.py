"""Examples in other spellings give the same finding; mutants give none, or an edit that does what the mutant does.

The spellings and mutants are drawn with fixed seeds (`spellings.py`), so a failure stays where it is.
"""

from __future__ import annotations

import ast

import pytest
import torch
from before_after import Case, analysed, differences, fixed, source
from spellings import mutated, respelled

SPELLINGS, MUTANTS = range(14), range(40)

SUBJECTS: dict[str, tuple[str, str]] = {
    "attention": ("sdpa", """
        def f(q, k, v, mask):
            scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(8)
            scores = scores + mask
            weights = F.softmax(scores, dim=-1)
            return weights @ v
        """),
    "attention, kept": ("sdpa", """
        def f(q, k, v, drop):
            scores = q @ k.transpose(-1, -2) * 0.125
            scores = scores.masked_fill(drop, float("-inf"))
            weights = torch.softmax(scores, dim=-1)
            out = torch.matmul(weights, v)
            return out
        """),
    "attention of a module": ("sdpa", """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 8 ** -0.5
                self.drop = nn.Dropout(0.0)
                self.project = nn.Linear(8, 8)
            def forward(self, q, k, v):
                scores = torch.matmul(q * self.scale, k.transpose(-2, -1))
                weights = self.drop(scores.softmax(dim=-1))
                mixed = torch.matmul(weights, v)
                return self.project(mixed)
        """),
    "erf": ("gelu", """
        def f(x):
            inner = x / math.sqrt(2.0)
            return 0.5 * x * (1.0 + torch.erf(inner))
        """),
    "tanh": ("gelu", """
        def f(x):
            inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3))
            gate = 1.0 + torch.tanh(inner)
            return 0.5 * x * gate
        """),
    "silu": ("silu", """
        def f(x):
            gate = torch.sigmoid(x)
            return x * gate
        """),
    "rms": ("rms-norm", """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(8))
            def forward(self, x):
                variance = x.pow(2).mean(-1, keepdim=True)
                normed = x * torch.rsqrt(variance + 1e-6)
                return self.weight * normed
        """),
    "layer norm": ("layer-norm", """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(8))
                self.bias = nn.Parameter(torch.zeros(8))
            def forward(self, x):
                mean = x.mean(-1, keepdim=True)
                centred = x - mean
                variance = centred.pow(2).mean(-1, keepdim=True)
                normed = centred / torch.sqrt(variance + 1e-5)
                return self.weight * normed + self.bias
        """),
}  # fmt: skip
"""By name: the rule, and a text in which it has one finding."""


def found(text: str) -> list[str]:
    return sorted(o.rule for o in analysed(text).opportunities if o.has_edit)


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_spelling_gives_the_same_finding(name: str) -> None:
    rule, text = SUBJECTS[name]
    text = source(text)
    assert found(text) == [rule]
    missed = [other for seed in SPELLINGS if found(other := respelled(text, seed)) != [rule]]
    assert not missed, "\n\n".join([f"{len(missed)} spellings are missed", *missed])


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_respelled_text_does_what_the_text_did(name: str) -> None:
    """Else the test above would ask for findings that are none."""
    text = source(SUBJECTS[name][1])
    for seed in SPELLINGS:
        other = respelled(text, seed)
        assert not differences(text, other, Case()), other


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_fix_of_a_spelling_does_the_same(name: str) -> None:
    text = source(SUBJECTS[name][1])
    for seed in SPELLINGS[:4]:
        other = respelled(text, seed)
        assert not differences(other, fixed(other).text, Case(training=True)), other


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_fix_of_a_mutant_does_what_the_mutant_does(name: str) -> None:
    text = source(SUBJECTS[name][1])
    different = {mutant for seed in MUTANTS if (mutant := mutated(text, seed)) != ast.unparse(ast.parse(text)) + "\n"}
    assert len(different) > 5
    for mutant in sorted(different):
        if found(mutant):
            new = fixed(mutant).text
            for case in (Case(), Case(keys=3), Case(training=True, magnitude=3.0), Case(dtype=torch.float64)):
                assert not differences(mutant, new, case), f"{mutant}\n{new}"


def test_some_mutants_are_found_and_most_are_not() -> None:
    """Mutants that all match would test nothing of the refusals, and mutants that never match nothing of the edits."""
    matched = {
        name: sum(found(mutated(source(text), seed)) == [rule] for seed in MUTANTS)
        for name, (rule, text) in SUBJECTS.items()
    }
    assert sum(matched.values()) > len(SUBJECTS)
    assert all(count < len(MUTANTS) * 0.8 for count in matched.values()), matched
