"""Looking names up in other files with jedi, in a process of its own and under a time limit.

jedi loads what it reads and may take seconds on large packages (and 300 MB), so it never runs in the process that
answers an editor. The helper is `python -m kernelwright.analyzers.resolve`: JSON lines on stdin and stdout. Only `goto` is
asked, never inference, and no interpreter is started: the search path is given.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.analyzers.modules import find_definition
from kernelwright.analyzers.source import SourceError, SourceFile, parse_source

FIRST_ANSWER_SECONDS = 3.0
"""The helper's start and the import of jedi."""
ANSWER_SECONDS = 0.5
BUDGET_SECONDS = 1.5
"""Time all look-ups of one file may take together; the rest stays opaque until the next analysis."""


@dataclass
class JediResolver:
    """A `Resolver`: where a qualified name, as seen from a file, is defined. Answers and parsed files are kept.

    `search_path` are the folders of the chosen interpreter's packages; the file's own package is found from its path.
    A look-up that is too slow is given up, and asked again in a later analysis.
    """

    search_path: tuple[str, ...] = ()
    _answers: dict[tuple[str, str], tuple[str, str] | None] = field(default_factory=dict)
    _files: dict[tuple[str, float], SourceFile | None] = field(default_factory=dict)
    _direct: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    _roots: dict[str, list[str]] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spent: dict[str, float] = field(default_factory=dict)
    _warm: bool = False

    def definition(self, path: str, name: str) -> tuple[SourceFile, str] | None:
        if not _is_asked_for(name):
            return None
        with self._lock:
            direct = self._followed(path, name)
        if direct is not None:
            return None if Path(direct[0].path).resolve() == Path(path).resolve() else direct
        if not name.startswith("."):
            # A package that is not there at all need not be asked for.
            top = name.partition(".")[0]
            if not any((Path(r) / top).is_dir() or (Path(r) / f"{top}.py").is_file() for r in self._roots_of(path)):
                return None
        key = (str(Path(path).parent) if name.startswith(".") else "", name)
        with self._lock:
            if key not in self._answers:
                if self._spent.get(path, 0.0) > BUDGET_SECONDS:
                    return None
                start = time.monotonic()
                found = self._ask(path, name)
                self._spent[path] = self._spent.get(path, 0.0) + (time.monotonic() - start if self._warm else 0.0)
                if found == "late":
                    return None
                self._answers[key] = found if isinstance(found, tuple) else None
            answer = self._answers[key]
        if answer is None or Path(answer[0]).resolve() == Path(path).resolve():
            return None
        source = self._parsed(answer[0])
        return None if source is None else (source, answer[1])

    def _followed(self, path: str, name: str) -> tuple[SourceFile, str] | None:
        """The answer by following imports from file to file; kept as long as the file it leads to is the same."""
        folder = str(Path(path).parent)
        key = (folder, name)
        known = self._direct.get(key)
        if known is not None:
            kept = self._parsed(known[0])
            if kept is not None and any(
                known[1] in names for names in (kept.classes, kept.module_functions, kept.module_values)
            ):
                return kept, known[1]
        found = find_definition(path, name, self._roots_of(path), self._parsed)
        if found is not None:
            self._direct[key] = (found[0].path, found[1])
        return found

    def _roots_of(self, path: str) -> list[str]:
        folder = str(Path(path).parent)
        roots = self._roots.get(folder)
        if roots is None:
            roots = self._roots[folder] = [*_roots(path), *self.search_path]
        return roots

    def close(self) -> None:
        """End the helper."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _ask(self, path: str, name: str) -> tuple[str, str] | str | None:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kernelwright.analyzers.resolve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._warm = False
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"path": path, "name": name, "search_path": self.search_path}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            limit = ANSWER_SECONDS if self._warm else FIRST_ANSWER_SECONDS
            ready, _, _ = select.select([self._process.stdout], [], [], limit)
            if not ready:
                self.close()  # jedi cannot be interrupted
                return "late"
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            self.close()
            return "late"
        self._warm = True
        return (str(answer["path"]), str(answer["name"])) if answer else None

    def _parsed(self, path: str) -> SourceFile | None:
        try:
            key = (path, Path(path).stat().st_mtime)
            if key not in self._files:
                self._files[key] = parse_source(Path(path).read_bytes().decode("utf-8"), path)
            return self._files[key]
        except (OSError, SourceError, UnicodeDecodeError):
            return None


_NOT_ASKED = frozenset({"torch", "numpy", "super", "einops"}) | sys.stdlib_module_names


def _is_asked_for(name: str) -> bool:
    """False for what no model file defines: Python's own modules, torch, plain names and names of two meanings."""
    top = name.partition(".")[0]
    return "?" not in name and "." in name and (not top or (top not in _NOT_ASKED and top.isidentifier()))


def _goto(path: str, name: str, search_path: list[str]) -> dict[str, str] | None:
    """The file and local name of a definition, or None for something built in, compiled or not found."""
    import jedi

    module, _, attribute = name.rpartition(".")
    if not attribute:
        return None
    if name.startswith(".") and not module.strip("."):
        module = name[: len(name) - len(name.lstrip("."))]
        attribute = name.lstrip(".")
    code = f"from {module or '.'} import {attribute}\n"
    project = jedi.Project(Path(path).parent, sys_path=[*search_path, *_roots(path)], smart_sys_path=False)
    script = jedi.Script(code, path=path, project=project, environment=jedi.InterpreterEnvironment())
    for found in script.goto(1, len(code) - 1, follow_imports=True):
        is_python = found.module_path is not None and str(found.module_path).endswith(".py")
        if is_python and found.type in ("function", "class") and str(found.module_path) != path:
            return {"path": str(found.module_path), "name": str(found.name)}
    return None


def _roots(path: str) -> list[str]:
    """The folder above the file's outermost package."""
    folder = Path(path).resolve().parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return [str(folder)]


def main() -> None:
    """Answer look-ups until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = _goto(request["path"], request["name"], list(request["search_path"]))
        except Exception:  # jedi raises many kinds on odd code; a look-up that fails is a name not found
            answer = None
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
