"""Tables in Markdown, and their place in `docs/corpus.md`."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "corpus.md"


def machine() -> str:
    """The machine, Python and date that figures hold for."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    date = datetime.date.today().isoformat()
    return f"{date}, {os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def write_section(name: str, text: str) -> None:
    """Replace what stands between the marks of this section.

    Raises:
        ValueError: the page has no such marks.
    """
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->\n"
    page = PAGE.read_text(encoding="utf-8")
    if begin not in page or end not in page:
        raise ValueError(f"{PAGE.name} has no section {name!r}")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
