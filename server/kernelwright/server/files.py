"""Python files on disk: read with their encoding, line ends and byte-order mark, written back with all three kept.

Text keeps its line ends as they are in the file (LF, CRLF, CR), without the byte-order mark; so columns count from the
first character that an editor shows.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import tempfile
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages", "dist-packages"})
"""Folders that hold nobody's own source; neither do hidden ones and environments (`pyvenv.cfg`, `conda-meta`)."""


class FileError(Exception):
    """A file that cannot be read or written; the message says why."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's text, and what it takes to write it back: encoding (the cookie's, else UTF-8) and byte-order mark."""

    path: Path
    text: str
    encoding: str
    mark: bool


def read_bytes(path: Path) -> bytes:
    """The file's bytes.

    Raises:
        FileError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(error.strerror or str(error)) from error


def mentions_torch(raw: bytes) -> bool:
    """Cheap early exit: False for a file that cannot hold anything for us (so for UTF-16, which Python refuses)."""
    return b"torch" in raw


def decode(path: Path, raw: bytes) -> SourceText:
    """The text of a Python file, decoded as Python would: byte-order mark, coding cookie, else UTF-8.

    Raises:
        FileError: unknown encoding, bytes that are not of it, or NUL bytes.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    except SyntaxError as error:
        raise FileError(f"cannot be decoded: {error.msg or error}") from error
    mark = raw.startswith(codecs.BOM_UTF8)
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    try:
        text = (raw[len(codecs.BOM_UTF8) :] if mark else raw).decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise FileError(f"cannot be decoded: {error}") from error
    if "\0" in text:
        raise FileError("cannot be decoded: it holds NUL bytes, so it is no Python source")
    return SourceText(path, text, encoding, mark)


def read_source(path: Path) -> SourceText:
    """Read and decode; see `read_bytes` and `decode` for the errors."""
    return decode(path, read_bytes(path))


def write_source(source: SourceText, text: str) -> None:
    """Replace the file's content atomically, keeping encoding, byte-order mark, line ends, mode and symbolic links.

    Raises:
        FileError: the file changed since it was read, the text does not fit its encoding, or it cannot be written.
    """
    path = Path(os.path.realpath(source.path))
    mark = codecs.BOM_UTF8 if source.mark else b""
    try:
        if path.read_bytes() != mark + source.text.encode(source.encoding):
            raise FileError("it changed on disk meanwhile; nothing was written, run again")
        data = mark + text.encode(source.encoding)
        mode = stat.S_IMODE(path.stat().st_mode)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except UnicodeEncodeError as error:
        raise FileError(f"the fixed text does not fit the file's encoding {source.encoding}: {error}") from error
    except OSError as error:
        raise FileError(f"cannot be written: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise FileError(f"cannot be written: {error.strerror or error}") from error


def split_lines(text: str) -> tuple[str, ...]:
    """Lines with their ends, broken at LF, CRLF and CR only, as in Python and LSP (`str.splitlines` breaks at more).

    Empty text has no line; text that ends with a line end has no empty line after it.
    """
    return tuple(io.StringIO(text, newline=""))


def walk(paths: Sequence[str], problem: Callable[[str, str], None]) -> Iterator[Path]:
    """Every Python file under `paths`, in order, each once: files as named, folders searched for `*.py`.

    Hidden folders, virtual environments and installed packages inside a folder are left out. `problem(path, reason)` is
    told of folders that cannot be listed.
    """
    seen: set[Path] = set()
    for name in paths:
        root = Path(name)
        for path in _folder(root, problem) if root.is_dir() else (root,):
            if path not in seen:
                seen.add(path)
                yield path


def _folder(root: Path, problem: Callable[[str, str], None]) -> Iterator[Path]:
    def failed(error: OSError) -> None:
        problem(str(error.filename), error.strerror or str(error))

    for folder, folders, files in os.walk(root, onerror=failed):
        folders[:] = sorted(
            f
            for f in folders
            if not f.startswith(".")
            and f not in SKIPPED_FOLDERS
            and not Path(folder, f, "pyvenv.cfg").exists()
            and not Path(folder, f, "conda-meta").exists()
        )
        yield from (Path(folder, f) for f in sorted(files) if f.endswith(".py"))
