"""The card of an opportunity, which hover and hint tooltip show: kernel, numbers, conditions, what stays, proof."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernelwright.analyzers.opportunity import Condition, Opportunity
from kernelwright.server.numbers import Numbers, gain_label, interval, ratio, seconds, size, when
from kernelwright.tuner.evidence import Counts, Gain

MARKS = {"proven": "✓", "guarded": "⎇", "assumed": "?", "violated": "✗"}

NUMERICS = {
    "E": "equal up to rounding",
    "T": "equal within the dtype's tolerance",
    "S": "the semantics change",
}


NOT_MEASURED = "advice is not measured; measure it in your program"

NO_WORKLOAD = "it has no program that could run by itself, because the shapes of its inputs are not known"


@dataclass(frozen=True, slots=True)
class Proof:
    """What the same-program check said of the edit: it holds, or why the fix is withheld."""

    withheld: str | None = None


def card(
    opportunity: Opportunity, numbers: Numbers, *, proof: Proof | None = None, unavailable: str | None = None
) -> str:
    """Markdown of everything known about an opportunity.

    `proof` is None where the check has not been made; `unavailable` tells in a line why there are no measurements.
    """
    parts = [
        f"**`{opportunity.kernel}`** · rule `{opportunity.rule}` · {opportunity.tier}",
        escape(opportunity.message),
    ]
    if opportunity.declined is not None:
        parts.append(f"**No fix here:** {escape(opportunity.declined)}")
    elif proof is not None and proof.withheld is not None:
        parts.append(f"**No fix here:** {escape(proof.withheld)}")
    if opportunity.snippet:
        parts.append(f"```python\n{opportunity.snippet.strip()}\n```")
    if opportunity.declined is None:
        parts.append("  \n".join(gain_lines(opportunity, numbers, unavailable)))
    if opportunity.conditions:
        parts.append("Conditions\n" + "\n".join(_condition(condition) for condition in opportunity.conditions))
    keeps = [escape(line) for line in opportunity.keeps] + [f"numerics: {NUMERICS[opportunity.numerics]}"]
    parts.append("Stays the same\n" + "\n".join(f"- {line}" for line in keeps))
    if opportunity.state_dict_changes:
        changes = "\n".join(f"- {escape(change)}" for change in opportunity.state_dict_changes)
        parts.append(f"Changes in checkpoints\n{changes}")
    if opportunity.declined is None:
        parts.append("Verified\n" + "\n".join(f"- {line}" for line in _verified(opportunity, numbers, proof)))
    return "\n\n".join(parts)


def _verified(opportunity: Opportunity, numbers: Numbers, proof: Proof | None) -> Iterable[str]:
    """What has been checked of the edit, if there is one."""
    if not opportunity.has_edit:
        return ("nothing: this is advice in words, not an edit",)
    if opportunity.check == "none":
        return ("the edit is not shown to be the same program: read it before you keep it",)
    if opportunity.check == "names":
        return ("✓ the edit changes one name and nothing else",)
    if opportunity.check == "keywords":
        return ("✓ the edit changes keyword arguments of one call and nothing else",)
    return verification_lines(numbers, proof)


def _condition(condition: Condition) -> str:
    return f"- {MARKS[condition.state]} {condition.state}: {escape(condition.text)} (`{condition.name}`)"


def gain_lines(opportunity: Opportunity, numbers: Numbers, unavailable: str | None) -> Iterator[str]:
    """The number with all that belongs to it, one line a thing; says why where there is none."""
    withdrawn, best = numbers.withdrawn, numbers.best
    if withdrawn is not None:
        best = numbers.measured or best
        between = f" ({best.basis}, {interval(best)})" if best is not None and interval(best) else ""
        yield f"**{sentence(withdrawn)}**{between}"
    if best is None:
        without = NOT_MEASURED if opportunity.tier == "advice" else NO_WORKLOAD
        yield escape(f"No number: {without if opportunity.workload is None else reason(numbers, unavailable)}")
        return
    if withdrawn is None:
        yield headline(best)
    if best.basis == "predicted":
        yield escape(sentence(reason(numbers, unavailable)))
    if best.before_seconds is not None and best.after_seconds is not None:
        estimated = "estimated: " if best.basis == "predicted" else ""
        yield f"{estimated}before {seconds(best.before_seconds)}, after {seconds(best.after_seconds)}"
    yield f"{escape(best.device)} · {best.dtype} · {best.mode} · {best.shapes} · {when(best.date)}"
    counted = next((g for g in (numbers.measured, best) if g is not None and g.counts_before and g.counts_after), None)
    if counted is not None and counted.counts_before is not None and counted.counts_after is not None:
        yield counts_line(counted.counts_before, counted.counts_after)
    if opportunity.workload is not None and opportunity.workload.dimensions:
        dimensions = opportunity.workload.dimensions
        yield "shapes from: " + ", ".join(f"{d.name} {d.extent} ({escape(d.source)})" for d in dimensions)


def headline(gain: Gain) -> str:
    """`**2.4× faster here** (measured, 2.1× to 2.7×)`; a predicted loss says slower. The gain has a value."""
    assert gain.value is not None
    between = interval(gain)
    basis = f"{gain.basis}, {between}" if between else gain.basis
    if gain.value < 1.0:
        return f"**{gain_label(gain)}: no gain here** ({basis})"
    return f"**{gain_label(gain)} faster here** ({basis})"


def reason(numbers: Numbers, unavailable: str | None) -> str:
    """Why there is no measured number: a failure, a refusal to time, no tuner, or that it is still to come."""
    if numbers.failure is not None:
        return numbers.failure
    if numbers.measured is not None and numbers.measured.reason is not None:
        return numbers.measured.reason
    if numbers.verification is not None and numbers.verification.reason is not None:
        return numbers.verification.reason
    return unavailable or "not measured yet"


def sentence(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def counts_line(before: Counts, after: Counts) -> str:
    """`14 → 1 operations, 310 MB → 25 MB moved`, and the bytes saved for backward where there are any."""
    parts = [
        f"{before.operations} → {after.operations} operations",
        f"{size(before.bytes_moved)} → {size(after.bytes_moved)} moved",
    ]
    if before.bytes_saved or after.bytes_saved:
        parts.append(f"{size(before.bytes_saved)} → {size(after.bytes_saved)} saved for backward")
    return ", ".join(parts)


def verification_lines(numbers: Numbers, proof: Proof | None) -> Iterator[str]:
    """The legs of the verification and whether each holds, does not, or was not run."""
    if proof is None:
        yield "same program: not checked in this version of the text"
    elif proof.withheld is None:
        yield "✓ same program: the edited text was analysed again and computes the same on every path"
    else:
        yield f"✗ same program: {escape(proof.withheld)}"
    verification = numbers.verification
    if verification is None:
        yield "ran equal, model of the code: not run yet"
    elif verification.equal is None:
        yield f"ran equal, model of the code: could not be run ({escape(verification.reason or 'no reason given')})"
    elif verification.equal:
        worst = max(verification.cases, key=lambda case: case.error_after, default=None)
        error = f", largest error against float64 {worst.error_after:.2g} ({escape(worst.name)})" if worst else ""
        cases = f"{len(verification.cases)} case{'' if len(verification.cases) == 1 else 's'}"
        yield f"✓ ran equal, model of the code: {cases}{error}"
    else:
        failed = ", ".join(case.name for case in verification.cases if not case.equal)
        yield f"✗ ran equal, model of the code: differs in {escape(failed or verification.reason or 'a case')}"
    yield "ran equal, your class: not run (the user's code is never run in the background)"


def escape(text: str) -> str:
    """Text with markdown's and HTML's active characters escaped, so that `x * y` and `<cls>` show as written.

    Parts already in backticks are left as they are.
    """
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # an unpaired backtick is text as well
        return "".join("\\" + c if c in "\\`*_[]<>#~|" else c for c in text)
    return "`".join(
        piece if index % 2 else "".join("\\" + c if c in "\\*_[]<>#~|" else c for c in piece)
        for index, piece in enumerate(pieces)
    )


def plain(markdown: str) -> str:
    """The same card for a client that shows plain text only."""
    markdown = re.sub(r"^```\w*\n", "", markdown, flags=re.MULTILINE).removesuffix("\n```")
    text = re.sub(r" +$", "", markdown.replace("**", "").replace("`", ""), flags=re.MULTILINE)
    return re.sub(r"\\([\\*_\[\]<>#~|`])", r"\1", text)


def table(rows: list[tuple[str, ...]], header: tuple[str, ...]) -> str:
    """A markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def tune_row(opportunity: Opportunity, numbers: Numbers) -> tuple[str, ...]:
    """One row of the tune report: rule, place, before, after, gain, counts, remark. See `TUNE_HEADER`."""
    gain = numbers.measured
    place = f"{opportunity.qualified_name}:{opportunity.span.start_line}"
    if gain is None or gain.value is None:
        why = NO_WORKLOAD if opportunity.workload is None else reason(numbers, "not measured")
        return opportunity.rule, place, "", "", "", "", why
    counts = ""
    if gain.counts_before is not None and gain.counts_after is not None:
        counts = counts_line(gain.counts_before, gain.counts_after)
    return (
        opportunity.rule,
        place,
        "" if gain.before_seconds is None else seconds(gain.before_seconds),
        "" if gain.after_seconds is None else seconds(gain.after_seconds),
        f"{ratio(gain.value)} ({interval(gain)})" if interval(gain) else ratio(gain.value),
        counts,
        numbers.withdrawn or "",
    )


TUNE_HEADER = ("rule", "place", "before", "after", "gain", "counts", "remark")
