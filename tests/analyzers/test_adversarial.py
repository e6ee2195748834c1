"""Texts written to mislead. Whatever fix is offered for them must compile, run, and change nothing that a caller sees."""

from __future__ import annotations

import pytest
import torch
from adversarial_texts import TEXTS
from before_after import Case, assert_same, fixed, source

CASES = (Case(), Case(training=True), Case(dtype=torch.bfloat16))


@pytest.mark.parametrize("name", TEXTS)
def test_a_fix_changes_nothing_that_a_caller_sees(name: str) -> None:
    text = source(TEXTS[name])
    result = fixed(text)
    if result.applied:
        assert_same(text, result.text, *CASES)
