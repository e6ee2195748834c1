"""Files keep everything a fix does not mean to change: encoding, byte-order mark, line ends, mode, links."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from kernelwright.server.files import FileError, SourceText, decode, mentions_torch, read_source, walk, write_source

CONTENTS = [
    pytest.param("x = 'ä😀'\r\ny = 1\n\rz = 2".encode(), id="utf-8, all line ends"),
    pytest.param(codecs.BOM_UTF8 + "# ä\nx = 1\n".encode(), id="byte-order mark"),
    pytest.param(codecs.BOM_UTF8 + b"# -*- coding: utf-8 -*-\r\nx = 1\r\n", id="mark and cookie"),
    pytest.param("# -*- coding: latin-1 -*-\nx = 'ä'\n".encode("latin-1"), id="latin-1"),
    pytest.param("#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '€'\n".encode("cp1252"), id="cp1252"),
    pytest.param("a = '\u2028\x0c\x85'\n\x0c\nb = 1\n".encode(), id="breaks that are none"),
    pytest.param(b"", id="empty"),
]


@pytest.mark.parametrize("content", CONTENTS)
def test_what_is_read_and_written_back_is_the_same_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(content)
    source = read_source(path)
    write_source(source, source.text)
    assert path.read_bytes() == content
    write_source(source, source.text + "x = 1")
    assert path.read_bytes() == content + b"x = 1"


def test_byte_order_mark_is_no_part_of_the_text() -> None:
    source = decode(Path("a.py"), codecs.BOM_UTF8 + b"x = 1\n")
    assert (source.text, source.encoding, source.mark) == ("x = 1\n", "utf-8", True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"# coding: klingon\n", "klingon"),
        (b"x = '\xff'\n", "decode"),
        ("# coding: ascii\nx = 'ä'\n".encode(), "decode"),
        (b"x = 1\0\n", "NUL"),
    ],
)
def test_a_file_that_python_cannot_decode_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(FileError, match=reason):
        decode(Path("a.py"), content)


def test_a_missing_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        read_source(tmp_path / "a.py")


def test_mode_and_link_survive_and_no_other_file_is_left(tmp_path: Path) -> None:
    path, link = tmp_path / "a.py", tmp_path / "link.py"
    path.write_text("x = 1\n")
    path.chmod(0o754)
    link.symlink_to(path)
    write_source(read_source(link), "x = 2\n")
    assert link.is_symlink()
    assert path.read_text() == "x = 2\n"
    assert path.stat().st_mode & 0o777 == 0o754
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.py", "link.py"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    source = read_source(path)
    path.write_text("x = 3\n")
    with pytest.raises(FileError, match="changed"):
        write_source(source, "x = 2\n")
    assert path.read_text() == "x = 3\n"


def test_text_that_does_not_fit_the_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: latin-1\nx = 1\n")
    with pytest.raises(FileError, match="does not fit"):
        write_source(read_source(path), "# coding: latin-1\nx = '😀'\n")
    assert path.read_bytes() == b"# coding: latin-1\nx = 1\n"


def test_a_folder_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    source = SourceText(tmp_path / "gone" / "a.py", "", "utf-8", False)
    with pytest.raises(FileError, match="cannot be written"):
        write_source(source, "x = 1\n")


def test_folders_are_searched_without_hidden_ones_and_environments(tmp_path: Path) -> None:
    for name in (
        "a.py",
        "package/b.py",
        "package/notes.txt",
        "env/c.py",
        "env2/pyvenv.cfg",
        "env2/lib/d.py",
        "conda/conda-meta/x",
        "conda/e.py",
        ".hidden/f.py",
        "node_modules/g.py",
        "__pycache__/h.py",
        "lib/site-packages/i.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    problems: list[tuple[str, str]] = []
    found = walk([str(tmp_path), str(tmp_path / "a.py")], lambda path, reason: problems.append((path, reason)))
    assert [p.relative_to(tmp_path).as_posix() for p in found] == ["a.py", "env/c.py", "package/b.py"]
    assert problems == []


def test_a_named_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("")
    assert list(walk([str(tmp_path / "script")], lambda path, reason: None)) == [tmp_path / "script"]


def test_torch_is_looked_for_in_bytes() -> None:
    assert mentions_torch(b"import torch")
    assert not mentions_torch(b"import numpy")
