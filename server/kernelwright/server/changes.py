"""From one text to another as few, small edits, so that an editor keeps cursors and marks."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from kernelwright.analyzers.opportunity import TextEdit
from kernelwright.server.files import split_lines


def differences(old: str, new: str) -> Iterator[TextEdit]:
    """Edits that turn `old` into `new`, whole lines at a time, in order and apart."""
    before, after = split_lines(old), split_lines(new)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield TextEdit(starts[i], starts[j], "".join(after[k:m]))
