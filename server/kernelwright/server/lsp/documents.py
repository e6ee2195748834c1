"""Open documents: lines and positions as the client counts them, and the repairs that pygls 2.1 needs for both.

Inside Kernelwright a place is a `Span` (lines and columns from 1, code points) or an offset in code points; here, and
only here, they become LSP positions in the encoding negotiated with the client (UTF-8, UTF-16 or UTF-32).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lsprotocol import types
from pygls.uris import to_fs_path, urlparse
from pygls.workspace import PositionCodec, TextDocument
from pygls.workspace.position_codec import ServerTextPosition

from kernelwright.analyzers.architecture import Span
from kernelwright.server.files import split_lines


def repair_pygls() -> None:
    """Two defects of pygls 2.1.1 that corrupt documents, put right on its classes; doing it again changes nothing.

    `TextDocument.lines` breaks lines at form feeds, U+2028 and six more characters, where LSP does not: every position
    below is off by a line, and incremental changes land in the wrong one. `position_from_client_units` takes a column
    past the end of a last line that has no line end for the column before that end, and writes into its argument.
    """
    TextDocument.lines = property(_lines)  # type: ignore[assignment, method-assign]
    PositionCodec.position_from_client_units = _position_from_client  # type: ignore[assignment, method-assign]


def _lines(document: TextDocument) -> tuple[str, ...]:
    return split_lines(document.source)


def _position_from_client(codec: PositionCodec, lines: Sequence[str], position: types.Position) -> ServerTextPosition:
    """A client's position in code points, clamped: past a line's end is its end, past the text is the text's."""
    if position.line >= len(lines):
        return ServerTextPosition(len(lines) - 1, len(lines[-1])) if lines else ServerTextPosition(0, 0)
    line = lines[position.line].rstrip("\r\n")
    if line.isascii() or codec.encoding == types.PositionEncodingKind.Utf32:
        return ServerTextPosition(position.line, min(position.character, len(line)))
    units, column = 0, 0
    for character in line:
        if units >= position.character:
            break
        units += codec.impl.code_units_for_char(character)
        column += 1
    return ServerTextPosition(position.line, column)


@dataclass(frozen=True)
class Lines:
    """A text's lines once, for many conversions between spans, offsets and the client's positions."""

    lines: tuple[str, ...]
    codec: PositionCodec

    @classmethod
    def of(cls, text: str, codec: PositionCodec) -> Lines:
        lines = split_lines(text)
        if not lines or lines[-1].endswith(("\n", "\r")):
            lines = (*lines, "")
        return cls(lines, codec)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Offset of each line's first code point."""
        offsets = [0]
        for line in self.lines[:-1]:
            offsets.append(offsets[-1] + len(line))
        return tuple(offsets)

    def offset(self, position: types.Position) -> int:
        """Offset in code points of a client's position."""
        place = _position_from_client(self.codec, self.lines, position)
        return self.starts[place.line] + place.character

    def position(self, offset: int) -> types.Position:
        """The client's position of an offset in code points."""
        line = bisect_right(self.starts, offset) - 1
        return self._position(line, offset - self.starts[line])

    def range(self, start: int, end: int) -> types.Range:
        """The client's range of `text[start:end]`."""
        return types.Range(self.position(start), self.position(end))

    def span(self, span: Span) -> types.Range:
        """The client's range of a span (whose end is included)."""
        return types.Range(
            self._position(span.start_line - 1, span.start_column - 1),
            self._position(span.end_line - 1, span.end_column),
        )

    def first_line(self, span: Span) -> types.Range:
        """The client's range of the part of a span on its first line, without the line's end."""
        if span.start_line == span.end_line:
            return self.span(span)
        line = span.start_line - 1
        length = len(self.lines[line].rstrip())
        return types.Range(
            self._position(line, span.start_column - 1), self._position(line, max(length, span.start_column))
        )

    def line_end(self, line: int) -> types.Position:
        """The client's position behind the last visible character of a line (from 0)."""
        return self._position(line, len(self.lines[line].rstrip()))

    def cursor(self, position: types.Position) -> tuple[int, int]:
        """A client's position as line and column from 1 in code points: the place a `Span` can be asked for."""
        place = _position_from_client(self.codec, self.lines, position)
        return place.line + 1, place.character + 1

    def _position(self, line: int, column: int) -> types.Position:
        # Clamped, because a span kept from an earlier text may point past a line that got shorter.
        line = min(line, len(self.lines) - 1)
        return self.codec.position_to_client_units(self.lines, ServerTextPosition(line, column))


def path_of(uri: str) -> str:
    """The file path of a document: of its `file:` URI, else the path part of any other (notebook cells)."""
    path = to_fs_path(uri)
    return path if path is not None else urlparse(uri)[2]


def plain(value: Any) -> Any:
    """pygls hands over JSON of custom messages as nested named tuples; back to dictionaries and lists."""
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
