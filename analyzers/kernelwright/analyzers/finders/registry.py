"""The closed list of finders a rule file may name."""

from __future__ import annotations

from kernelwright.analyzers.finders.finding import FileFinder, FunctionFinder

FUNCTION_FINDERS: dict[str, FunctionFinder] = {}
"""Called once for each function that is translated."""

FILE_FINDERS: dict[str, FileFinder] = {}
"""Called once a file. Each begins with a cheap test of the text: it runs on every file someone types in."""
