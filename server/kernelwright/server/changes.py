"""From one text to another as few, small edits, so that an editor keeps cursors and marks; and fixing all of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from kernelwright.analyzers.opportunity import FixResult, Opportunity, TextEdit
from kernelwright.server.files import split_lines

if TYPE_CHECKING:
    from kernelwright.analyzers.analysis import Settings


def differences(old: str, new: str) -> Iterator[TextEdit]:
    """Edits that turn `old` into `new`, whole lines at a time, in order and apart."""
    before, after = split_lines(old), split_lines(new)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield TextEdit(starts[i], starts[j], "".join(after[k:m]))


def applied(text: str, edits: Iterable[TextEdit]) -> str:
    """The text after edits that do not overlap."""
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        text = text[: edit.start] + edit.replacement + text[edit.end :]
    return text


def fix_exact(text: str, path: str, settings: Settings, skip: frozenset[str]) -> FixResult:
    """The text after every exact fix but those whose key is in `skip` (measured here, and not worth it).

    Imports the analyzers and takes an analysis a fix: call it in a thread.
    """
    from kernelwright.analyzers.analysis import Withheld, analyse, edits, fix

    if not skip:
        return fix(text, path, settings, frozenset({"exact"}), settings.rules)
    done: list[Opportunity] = []
    withheld: list[tuple[Opportunity, str]] = []
    refused = set(skip)
    while True:
        analysis = analyse(text, path, settings)
        wanted = [o for o in analysis.opportunities if o.tier == "exact" and o.key not in refused]
        if not wanted:
            return FixResult(text, tuple(done), tuple(withheld))
        try:
            changed = applied(text, edits(analysis, wanted[0]))
        except Withheld as reason:
            withheld.append((wanted[0], str(reason)))
            changed = text
        if changed == text:
            refused.add(wanted[0].key)
            continue
        done.append(wanted[0])
        text = changed
