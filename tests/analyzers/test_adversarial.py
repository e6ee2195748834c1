"""Texts written to mislead. Whatever fix is offered for them must compile, run, and change nothing that a caller sees."""

from __future__ import annotations

import pytest
import torch
from adversarial_texts import TEXTS
from before_after import Case, assert_same, fixed, source

CASES = (Case(), Case(training=True), Case(dtype=torch.bfloat16))

LIMITS = {
    "operations nearly alike: a mask of booleans that is added": "numbers added to scores are taken for numbers (T02)",
    "operations nearly alike: a mask of integers that is added": "the kernel refuses an integer mask with an error",
    "operations nearly alike: a mask that adds axes": "the kernel refuses a mask of more axes than the query, with an error",
    "operations nearly alike: a mask of more heads": "the kernel refuses a mask that enlarges the scores, with an error",
    "operations nearly alike: a vector value": "the kernel refuses a value of one axis, with an error",
}
"""Arguments of which the function's text tells nothing, and that its code would be strange with: known, and documented."""


@pytest.mark.parametrize("name", TEXTS)
def test_a_fix_changes_nothing_that_a_caller_sees(name: str) -> None:
    text = source(TEXTS[name])
    result = fixed(text)
    if name in LIMITS:
        assert all(o.tier != "exact" for o in result.applied), "never in fix-all"
        return
    assumed = {c.name for o in result.applied for c in o.conditions if c.state == "assumed"}
    if result.applied and "masked_rows" not in assumed:
        assert_same(text, result.text, *CASES)
