"""Every rule file's own examples: the text after the fix, and that the fixed text computes what the old one did."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from before_after import EVERY_TIER, Case, analysed, differences, fixed

from kernelwright.analyzers.predicates import PREDICATES
from kernelwright.analyzers.rules.loader import Example, Rule, RuleError, load_rule, rules


def examples(positive: bool) -> Iterator[Any]:
    for rule in rules():
        for number, example in enumerate(e for e in rule.examples if (e.after is not None) is positive):
            yield pytest.param(rule, example, id=f"{rule.name}-{number}")


def of_definitions(parameters: Iterator[Any]) -> Iterator[Any]:
    """Those of rules with a definition; the finders' own tests run theirs."""
    return (p for p in parameters if p.values[0].variants)


@pytest.mark.parametrize(("rule", "example"), list(examples(True)))
def test_a_positive_example_becomes_its_result(rule: Rule, example: Example) -> None:
    result = fixed(example.before, EVERY_TIER, frozenset({rule.name}))
    assert result.text == example.after
    assert {o.rule for o in result.applied} == {rule.name}


@pytest.mark.parametrize(("rule", "example"), list(examples(False)))
def test_a_negative_example_stays_as_it_is(rule: Rule, example: Example) -> None:
    assert fixed(example.before, EVERY_TIER, frozenset({rule.name})).text == example.before
    assert not [o for o in analysed(example.before, frozenset({rule.name})).opportunities if o.rule == rule.name]


REPORTS = [pytest.param(rule, text, id=f"{rule.name}-{n}") for rule in rules() for n, text in enumerate(rule.reports)]


@pytest.mark.parametrize(("rule", "text"), REPORTS)
def test_a_report_stands_without_an_edit(rule: Rule, text: str) -> None:
    found = [o for o in analysed(text, frozenset({rule.name})).opportunities if o.rule == rule.name]
    assert found and not any(o.has_edit for o in found)
    assert all(o.tier in (rule.tier, "assumed") for o in found)


def entry(text: str) -> tuple[str, dict[str, int]]:
    """The name of the text's (last) class or function, and the arguments its constructor needs."""
    *_, definition = (n for n in ast.parse(text).body if isinstance(n, ast.ClassDef | ast.FunctionDef))
    if isinstance(definition, ast.FunctionDef):
        return definition.name, {}
    names: dict[str, Any] = {}
    exec(text, names)
    required = [p for p in inspect.signature(names[definition.name]).parameters.values() if p.default is p.empty]
    sizes = {"heads": 2, "groups": 3}
    return definition.name, {p.name: sizes.get(p.name, 8) for p in required if p.kind is p.POSITIONAL_OR_KEYWORD}


def runnable(text: str, name: str, arguments: dict[str, int]) -> str:
    """The text with an entry of the name that `before_after` looks for."""
    if name[0].islower():
        return f"{text}\nf = {name}\n"
    given = ", ".join(f"{k}={v}" for k, v in arguments.items())
    return f"{text}\nclass M({name}):\n    def __init__(self):\n        super().__init__({given})\n"


def heads(length_of_keys: bool) -> Any:
    return lambda case: torch.randn(2, 3, case.keys if length_of_keys else case.length, 8)


ARGUMENTS = {
    "query": heads(False),
    "key": heads(True),
    "value": heads(True),
    "grouped_query": lambda case: torch.randn(2, 6, case.length, 8),
    "few_keys": lambda case: torch.randn(2, 2, case.keys, 8),
    "few_values": lambda case: torch.randn(2, 2, case.keys, 8),
    "long_keys": lambda case: torch.randn(2, case.keys, 2, 8),
    "logits": lambda case: torch.randn(6, 8) * case.magnitude,
    "target": lambda case: torch.tensor([0, 7, 2, 2, 5, 1]),
    "weight": lambda case: torch.rand(8) + 0.5,
    "hidden_states": lambda case: torch.randn(2, case.length, 8),
    "padding": lambda case: torch.rand(2, 1, case.length, case.keys) < 0.3,
    "mask": lambda case: (None, torch.randn(2, 1, case.length, case.keys)),
}

CASES = [
    Case(gradients=False),
    Case(),
    Case(training=True),
    Case(training=True, dropout=1.0),
    Case(dtype=torch.bfloat16),
    Case(dtype=torch.float16),
    Case(dtype=torch.bfloat16, parameters=torch.float32),
    Case(autocast=True),
    Case(magnitude=1e-3),
]


@pytest.mark.parametrize(("rule", "example"), list(of_definitions(examples(True))))
def test_the_result_of_an_example_computes_the_same(rule: Rule, example: Example) -> None:
    name, arguments = entry(example.before)
    assert example.after is not None
    old, new = (runnable(text, name, arguments) for text in (example.before, example.after))
    for case in CASES:
        varied = Case(**{f: getattr(case, f) for f in case.__dataclass_fields__ if f != "inputs"}, inputs=ARGUMENTS)
        assert not differences(old, new, varied), case


@pytest.mark.parametrize("rule", rules(), ids=lambda r: r.name)
def test_a_rule_file_is_complete(rule: Rule) -> None:
    assert rule.reports or any(e.after is not None for e in rule.examples)
    assert any(e.after is None for e in rule.examples)
    for heading in ("What it finds", "Why it is the same", "When it is not", "What it gains", "Fix safety"):
        assert f"## {heading}\n" in rule.page
    assert rule.title.endswith(".") and len(rule.title) <= 120
    assert set(rule.conditions) <= set(PREDICATES)
    for variant in rule.variants:
        assert set(rule.shapes) | {"p", "scale", "eps", "ignore_index", "reduction", "n", "factor", "causal"} >= {
            p.name for p in variant.parameters
        }


# ---- rule files that cannot be used say why


GOOD = '''"""A double becomes a sum."""
name = "double"
kernel = "torch.add"
tier = "exact"
numerics = "E"
min_torch = "1.0"
message = "twice"
import torch
def definition(x):
    return torch.tanh(x) * 2
def kernel_call(x):
    return torch.tanh(x) + torch.tanh(x)
'''


def test_a_small_rule_loads() -> None:
    rule = load_rule(GOOD, "double.py")
    assert (rule.name, rule.tier, rule.min_torch, [v.name for v in rule.variants]) == ("double", "exact", (1, 0), [""])


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("def definition(x):", "def definition(x:", 9, "line 9"),
        ('"""A double becomes a sum."""\n', "", 1, "docstring"),
        ('name = "double"', "name = 3", 1, "name is missing or no string"),
        ('tier = "exact"', 'tier = "certain"', 1, "tier must be"),
        ("def kernel_call(x):", "def kernel_other(x):", 9, "has no kernel_call"),
        ("def definition(x):", "def formula(x):", 1, "needs a function named definition"),
        ("def definition(x):", "def definition(x: Size):", 9, "must be Tensor, Number"),
        ("torch.tanh(x) * 2", "torch.fft.fft(x)", 9, "is not understood"),
        ("    return torch.tanh(x) + torch.tanh(x)", "    y = torch.tanh(x)\n    return y + y", 11, "single return"),
        ('message = "twice"', 'message = "twice"\nmatches = ("def f(): pass",)', 1, "no '---'"),
        ('message = "twice"', 'message = "twice"\nkeeps = "all"', 1, "tuple of strings"),
    ],
)  # fmt: skip
def test_a_rule_file_that_cannot_be_used_names_the_line_and_the_fault(
    old: str, new: str, line: int, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(RuleError, match=message) as caught:
        load_rule(GOOD.replace(old, new), "double.py")
    assert caught.value.line == line
