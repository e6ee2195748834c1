"""Positions and lines: pygls' defects are repaired, and our own conversions agree with another way to work them out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as t
from pygls.workspace import PositionCodec, TextDocument

from kernelwright.analyzers.architecture import Span
from kernelwright.server.files import split_lines
from kernelwright.server.lsp.documents import Lines, path_of, plain, repair_pygls

repair_pygls()

TEXTS = st.text(st.sampled_from("ab=\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029äß€😀𝕏\t "), max_size=40)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-32"])
BYTES = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def units(text: str, encoding: str) -> int:
    name, size = BYTES[encoding]
    return len(text.encode(name)) // size


def position(text: str, offset: int, encoding: str) -> t.Position:
    """The LSP position of an offset, from the specification: lines end at LF, CRLF and CR."""
    ends = [match.end() for match in re.finditer(r"\r\n|\r|\n", text) if match.end() <= offset]
    return t.Position(len(ends), units(text[ends[-1] if ends else 0 : offset], encoding))


def between_line_ends(text: str) -> list[int]:
    """The offsets that have a position: all but the middle of a CRLF."""
    return [n for n in range(len(text) + 1) if text[n - 1 : n + 1] != "\r\n" or n == 0]


@given(TEXTS)
def test_lines_join_to_the_text_and_end_where_lsp_lines_end(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert len(lines) == len(re.findall(r"\r\n|\r|\n", text)) + (text[-1:] not in ("\n", "\r", ""))


@given(TEXTS, TEXTS, ENCODINGS, st.data())
def test_incremental_change_is_the_change_the_client_made(
    text: str, new: str, encoding: str, data: st.DataObject
) -> None:
    offsets = between_line_ends(text)
    start = data.draw(st.sampled_from(offsets))
    end = data.draw(st.sampled_from([n for n in offsets if n >= start]))
    document = TextDocument("file:///a.py", text, 1, position_codec=PositionCodec(encoding))
    place = t.Range(position(text, start, encoding), position(text, end, encoding))
    document.apply_change(t.TextDocumentContentChangePartial(range=place, text=new))
    assert document.source == text[:start] + new + text[end:]


@given(TEXTS, ENCODINGS)
def test_offsets_and_positions_are_each_others_inverse(text: str, encoding: str) -> None:
    lines = Lines.of(text, PositionCodec(encoding))
    for offset in between_line_ends(text):
        place = lines.position(offset)
        assert place == position(text, offset, encoding)
        assert lines.offset(place) == offset


def test_a_form_feed_above_does_not_move_an_edit() -> None:
    document = TextDocument("file:///a.py", "a\n\x0cb\u2028\nc\n", 1)
    change = t.TextDocumentContentChangePartial(range=t.Range(t.Position(2, 0), t.Position(2, 1)), text="d")
    document.apply_change(change)
    assert document.source == "a\n\x0cb\u2028\nd\n"


@pytest.mark.parametrize("character", [2, 3, 99])
def test_a_column_past_the_end_of_the_last_line_is_its_end(character: int) -> None:
    document = TextDocument("file:///a.py", "x\nab", 1)
    place = t.Range(t.Position(1, 0), t.Position(1, character))
    document.apply_change(t.TextDocumentContentChangePartial(range=place, text=""))
    assert document.source == "x\n"
    assert place.end.character == character


def test_a_place_past_the_text_is_its_end() -> None:
    lines = Lines.of("ab\nc", PositionCodec("utf-16"))
    assert lines.offset(t.Position(7, 3)) == 4
    assert Lines.of("", PositionCodec("utf-16")).offset(t.Position(3, 3)) == 0


def test_spans_include_their_end_and_count_code_points() -> None:
    lines = Lines.of('s = "😀"; y = f(x)\n', PositionCodec("utf-16"))
    assert lines.span(Span(1, 14, 1, 17)) == t.Range(t.Position(0, 14), t.Position(0, 18))
    assert lines.cursor(t.Position(0, 14)) == (1, 14)


def test_first_line_of_a_region_stops_before_trailing_space() -> None:
    lines = Lines.of("y = (a +   \n  b)\n", PositionCodec("utf-8"))
    assert lines.first_line(Span(1, 5, 2, 4)) == t.Range(t.Position(0, 4), t.Position(0, 8))
    assert lines.line_end(0) == t.Position(0, 8)


def test_a_span_kept_from_a_longer_text_is_clamped() -> None:
    lines = Lines.of("a\n", PositionCodec("utf-8"))
    assert lines.span(Span(5, 1, 9, 3)).end.line == 1


def test_paths_of_files_and_of_notebook_cells() -> None:
    assert path_of("file:///w/my%20model.py") == "/w/my model.py"
    assert path_of("vscode-notebook-cell:/w/nb.ipynb#W0sZmlsZQ%3D%3D") == "/w/nb.ipynb"


def test_named_tuples_of_pygls_become_plain_data() -> None:
    from pygls.protocol import _dict_to_object

    value = {"a": [{"b": 1}, None], "c": {"d": "e"}}
    assert plain(_dict_to_object(dict(value))) == value
