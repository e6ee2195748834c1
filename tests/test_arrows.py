"""Arrows run downwards only: server -> tuner -> analyzers. The analyzers know nobody, and no room but the worker's own
modules knows torch. Read from the imports of every module, also those inside functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROTOCOL = {"lsprotocol", "pygls"}
FRAMEWORKS = {"torch", "tvm", "tensorflow", "jax", "keras"}
LIGHT = ("client", "records", "predict", "devices", "evidence")
"""Modules of the tuner that the server loads into its own process."""


def modules(room: str) -> dict[str, Path]:
    """Every module of a room by its dotted name."""
    root = ROOT / room
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((root / "kernelwright" / room).rglob("*.py"))
    }


def imports(path: Path, name: str) -> set[str]:
    """The dotted names a module imports, and for `from a import b` both `a` and `a.b`."""
    found: set[str] = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def roots(names: set[str]) -> set[str]:
    """Top-level packages; for ours the room (`kernelwright.tuner`)."""
    return {".".join(n.split(".")[:2]) if n.startswith("kernelwright.") else n.partition(".")[0] for n in names}


ROOMS = {room: modules(room) for room in ("analyzers", "tuner", "server")}


def test_every_room_is_there() -> None:
    assert all(len(found) > 5 for found in ROOMS.values())


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("analyzers", {"kernelwright.tuner", "kernelwright.server", *PROTOCOL, *FRAMEWORKS}),
        ("tuner", {"kernelwright.server", *PROTOCOL}),
        ("server", FRAMEWORKS),
    ],
)
def test_a_room_knows_nobody_above_it(room: str, forbidden: set[str]) -> None:
    # A rule file is a piece of data that looks like Python: it is parsed, never imported, so its torch is no import.
    rules = "kernelwright.analyzers.rules."
    parsed = [n for n in ROOMS["analyzers"] if n.startswith(rules) and n.count(".") > rules.count(".")]
    parsed += [n for n in ROOMS["analyzers"] if n.startswith("kernelwright.analyzers.kernels.")]
    wrong = {
        name: bad
        for name, path in ROOMS[room].items()
        if name not in parsed and (bad := roots(imports(path, name)) & forbidden)
    }
    assert wrong == {}


def test_only_the_protocol_side_of_the_server_knows_the_protocol() -> None:
    wrong = {
        name: bad
        for name, path in ROOMS["server"].items()
        if not name.startswith("kernelwright.server.lsp") and (bad := roots(imports(path, name)) & PROTOCOL)
    }
    assert wrong == {}


@pytest.mark.parametrize("module", LIGHT)
def test_what_the_server_loads_of_the_tuner_leads_to_no_framework(module: str) -> None:
    """Follows the imports of our own modules as far as they go."""
    everything = {name: path for room in ROOMS.values() for name, path in room.items()}
    todo, seen = [f"kernelwright.tuner.{module}"], set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        found = imports(everything[name], name)
        assert not roots(found) & FRAMEWORKS, f"{module} reaches {name}, which imports {roots(found) & FRAMEWORKS}"
        todo += [n for n in found if n in everything]
    assert f"kernelwright.tuner.{module}" in seen


def test_the_runtime_that_user_programs_import_knows_none_of_the_rooms() -> None:
    root = ROOT / "tuner" / "runtime" / "kernelwright" / "runtime"
    modules = {f"kernelwright.runtime.{path.stem}": path for path in root.glob("*.py")}
    assert len(modules) > 3
    for name, path in modules.items():
        assert not roots(imports(path, name)) & {"kernelwright.tuner", "kernelwright.analyzers", "kernelwright.server"}
