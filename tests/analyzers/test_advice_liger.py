"""The calls of liger-kernel, which cannot run here, fit the signatures in its wheel."""

from __future__ import annotations

from typing import Any

import pytest
from before_after import analysed
from package_signatures import accepts, package_source

from kernelwright.analyzers.rules.loader import rules

RULE = next(rule for rule in rules() if rule.name == "liger")


def only(text: str) -> Any:
    (found,) = analysed(text, frozenset({"liger"})).opportunities
    return found


@pytest.mark.parametrize(
    ("number", "path", "name", "called"),
    [
        (0, "liger_kernel/transformers/rms_norm.py", "LigerRMSNorm.__init__", "LigerRMSNorm"),
        (1, "liger_kernel/transformers/functional.py", "liger_swiglu", "liger_swiglu"),
    ],
)
def test_the_call_fits_the_signature_and_says_it_was_not_run(number: int, path: str, name: str, called: str) -> None:
    found = only(RULE.reports[number])
    assert "not_run_by_us" in {c.name for c in found.conditions}
    accepts(package_source("liger-kernel", path), name, found.snippet, called)


def test_an_offset_is_that_of_the_code_and_another_place_of_the_cast_is_left_alone() -> None:
    text, product = RULE.reports[0], "self.weight * hidden_states.to(input_dtype)"
    assert 'offset=0.0, casting_mode="llama"' in only(text).snippet
    assert "offset=1.0" in only(text.replace(product, "(1.0 + self.weight) * hidden_states.to(input_dtype)")).snippet
    cast_last = text.replace(product, "((1.0 + self.weight.float()) * hidden_states).to(input_dtype)")
    assert not analysed(cast_last, frozenset({"liger"})).opportunities
