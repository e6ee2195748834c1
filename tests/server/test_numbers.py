"""Numbers and what follows from them: labels, withdrawal, the hover's card, the JSON of `check`."""

from __future__ import annotations

import dataclasses

import pytest

from kernelwright.analyzers.analysis import analyse
from kernelwright.analyzers.opportunity import Condition, Opportunity
from kernelwright.server.card import Proof, card, escape, plain, table
from kernelwright.server.findings import finding, gain_object
from kernelwright.server.lsp.actions import title
from kernelwright.server.lsp.hints import label
from kernelwright.server.numbers import NOTHING, Numbers, gain_label, ratio, seconds, size
from kernelwright.tuner.evidence import Case, Counts, Gain, Verification

DATE = "2026-11-30T20:30:47+00:00"


def gain(value: float | None, low: float | None = None, high: float | None = None, basis: str = "measured") -> Gain:
    return Gain(
        value,
        low if low is not None or value is None else value * 0.9,
        high if high is not None or value is None else value * 1.1,
        basis,  # type: ignore[arg-type]
        "Some CPU, 2 threads",
        "x 8x512x768",
        "float32",
        "eval",
        DATE,
        before_seconds=None if value is None else 0.002,
        after_seconds=None if value is None else 0.002 / value,
        counts_before=Counts(8, 226_000_000, 0),
        counts_after=Counts(1, 25_200_000, 0),
        reason="too noisy: A/A control 1.12" if value is None else None,
    )


@pytest.fixture
def opportunity(sample: str) -> Opportunity:
    (found,) = analyse(sample, "m.py").opportunities
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.98, "0.98×"), (1.04, "1.04×"), (1.099, "1.1×"), (2.44, "2.4×"), (9.94, "9.9×"), (12.3, "12×")],
)
def test_ratios_are_as_exact_as_they_mean_something(value: float, text: str) -> None:
    assert ratio(value) == text


def test_units() -> None:
    assert [seconds(s) for s in (2.5, 0.0123, 4.56e-6, 7.8e-9)] == ["2.5 s", "12.3 ms", "4.56 µs", "7.8 ns"]
    assert [size(n) for n in (999, 25_200_000, 3_000_000_000_000)] == ["999 B", "25.2 MB", "3 TB"]


def test_predicted_and_measured_look_different() -> None:
    assert gain_label(gain(2.1, basis="predicted")) == "~2.1×"
    assert gain_label(gain(2.4)) == "2.4×"


@pytest.mark.parametrize("value", [0.98, 1.02])
def test_a_measured_tie_or_loss_withdraws(value: float) -> None:
    assert Numbers(measured=gain(value, 0.95, 1.05)).withdrawn == f"tried here: {value:.2f}×, not worth it"


def test_a_prediction_or_a_refused_timing_withdraws_nothing() -> None:
    assert Numbers(predicted=gain(0.8, 0.5, 1.2, "predicted")).withdrawn is None
    noisy = Numbers(predicted=gain(2.1, 1.2, 4.0, "predicted"), measured=gain(None))
    assert noisy.withdrawn is None
    assert noisy.best == noisy.predicted


def test_programs_that_do_not_run_equal_withdraw_whatever_the_speed() -> None:
    numbers = Numbers(measured=gain(2.4), verification=Verification(False, (Case("eval", False, 1e-7, 0.3),)))
    assert numbers.unequal
    assert numbers.withdrawn is not None


@pytest.mark.parametrize(
    ("numbers", "quiet", "normal", "verbose"),
    [
        (NOTHING, None, "→ sdpa", "→ sdpa"),
        (Numbers(predicted=gain(2.1, 1.2, 4.0, "predicted")), None, "sdpa ~2.1×", "sdpa ~2.1×"),
        (Numbers(predicted=gain(0.9, 0.5, 1.2, "predicted")), None, "→ sdpa", "→ sdpa"),
        (Numbers(gain(3.0, basis="predicted"), gain(2.4)), "sdpa 2.4×", "sdpa 2.4×", "sdpa 2.4×"),
        (Numbers(gain(3.0, basis="predicted"), gain(0.98)), None, None, "sdpa tried 0.98×"),
    ],
)
def test_hint_labels(numbers: Numbers, quiet: str | None, normal: str | None, verbose: str | None) -> None:
    assert label("sdpa", numbers, "quiet") == quiet
    assert label("sdpa", numbers, "normal") == normal
    assert label("sdpa", numbers, "verbose") == verbose


def test_hint_labels_of_long_rules_stay_short() -> None:
    for numbers in (NOTHING, Numbers(measured=gain(2.4)), Numbers(measured=gain(0.98))):
        text = label("a-rule-with-a-long-name", numbers, "verbose")
        assert text is not None
        assert len(text) <= 20


def test_titles_say_what_is_assumed_and_what_was_measured(opportunity: Opportunity) -> None:
    assumed = dataclasses.replace(
        opportunity, tier="assumed", title="Use F.x", conditions=(Condition("rank", "assumed", "x has 4 axes"),)
    )
    assert title(assumed, NOTHING) == "Use F.x (unsafe: x has 4 axes)"
    exact = dataclasses.replace(opportunity, title="Use F.x")
    assert title(exact, Numbers(measured=gain(2.4))) == "Use F.x (2.4×)"
    assert title(exact, Numbers(measured=gain(0.98))) == "Use F.x (tried here: 0.98×, not worth it)"


def test_the_card_tells_everything(opportunity: Opportunity) -> None:
    verification = Verification(True, (Case("eval", True, 1e-7, 2e-7), Case("training", True, 1e-7, 3e-7)))
    text = card(opportunity, Numbers(measured=gain(2.4), verification=verification), proof=Proof())
    for part in (
        f"`{opportunity.kernel}`",
        "**2.4× faster here** (measured, 2.2× to 2.6×)",
        "before 2 ms, after 833 µs",
        "Some CPU, 2 threads · float32 · eval · x 8x512x768",
        "8 → 1 operations, 226 MB → 25.2 MB moved",
        "Conditions",
        "✓ proven",
        "Stays the same",
        "✓ same program",
        "2 cases, largest error against float64 3e-07 (training)",
        "your class: not run",
    ):
        assert part in text


def test_the_card_says_why_there_is_no_number(opportunity: Opportunity) -> None:
    assert "No number: not measured yet" in card(opportunity, NOTHING)
    assert "No number: install torch" in card(opportunity, NOTHING, unavailable="install torch")
    noisy = Numbers(predicted=gain(2.1, 1.2, 4.0, "predicted"), measured=gain(None))
    assert "Too noisy: A/A control 1.12" in card(opportunity, noisy)


def test_the_card_of_a_withdrawn_finding_still_shows_what_was_measured(opportunity: Opportunity) -> None:
    text = card(opportunity, Numbers(measured=gain(0.98)))
    assert "**Tried here: 0.98×, not worth it**" in text
    assert "before 2 ms, after 2.04 ms" in text
    assert "faster here" not in text


def test_the_card_of_a_withheld_or_declined_finding_says_why(opportunity: Opportunity) -> None:
    assert "**No fix here:** differs on a path" in card(opportunity, NOTHING, proof=Proof("differs on a path"))
    declined = dataclasses.replace(opportunity, declined="`inner` is used elsewhere")
    assert "**No fix here:** `inner` is used elsewhere" in card(declined, NOTHING)


def test_code_in_texts_shows_as_written() -> None:
    assert escape("x * y_1 <b> `a*b`") == "x \\* y\\_1 \\<b\\> `a*b`"
    assert plain(escape("x * y_1 <b> `a*b`")) == "x * y_1 <b> a*b"
    assert table([("a|b", "c")], ("h", "i")) == "| h | i |\n| --- | --- |\n| a\\|b | c |"


def test_json_has_exactly_the_keys_of_the_contract(opportunity: Opportunity) -> None:
    row = finding(opportunity, gain(2.4))
    assert list(row) == [
        "file",
        "rule",
        "class",
        "function",
        "start_line",
        "start_column",
        "end_line",
        "end_column",
        "tier",
        "conditional",
        "conditions",
        "kernel",
        "numerics",
        "state_dict_changes",
        "message",
        "gain",
    ]
    assert list(row["gain"]) == ["value", "low", "high", "basis", "device", "shapes", "dtype", "mode"]
    assert all(list(condition) == ["name", "state", "text"] for condition in row["conditions"])
    assert row["class"] == "NewGELU"
    assert row["function"] == "forward"
    assert row["conditional"] == (opportunity.tier != "exact")


def test_json_of_a_gain_without_a_value_is_null() -> None:
    assert gain_object(gain(None)) is None
    assert gain_object(None) is None


def test_json_of_a_declined_finding_names_a_violated_condition_and_the_reason(opportunity: Opportunity) -> None:
    row = finding(dataclasses.replace(opportunity, declined="`inner` is used elsewhere"), None)
    assert "violated" in {condition["state"] for condition in row["conditions"]}
    assert row["message"].endswith("(no fix: `inner` is used elsewhere)")
