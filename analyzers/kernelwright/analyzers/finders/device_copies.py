"""Finder for copies from the device that are read before they are done."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.analyzers.finders.finding import FileView, Finding
from kernelwright.analyzers.finders.syntax import (
    calls_in,
    constant_of,
    keyword_of,
    names_read,
    passes_unknown_keywords,
    qualified_name_around,
    removed_keyword,
)
from kernelwright.analyzers.source import blocks_of

_READS = frozenset({"numpy", "item", "tolist", "__array__"})
_READERS = frozenset({"float", "int", "bool", "numpy.array", "numpy.asarray", "print"})


def copy_read_early(view: FileView) -> Iterator[Finding]:
    """`x.to("cpu", non_blocking=True)` of which the host reads the result before anything waits."""
    if "non_blocking" not in view.source.text or "cpu" not in view.source.text:
        return
    tree = view.source.tree
    found: dict[int, ast.Call] = {}
    for call in calls_in(tree):
        for copy in _read_by(view, call):
            found[id(copy)] = copy
    for block in _blocks(tree):
        for index, statement in enumerate(block):
            if not isinstance(statement, ast.Assign) or not _is_copy(view, statement.value):
                continue
            target = statement.targets[0]
            if (
                len(statement.targets) == 1
                and isinstance(target, ast.Name)
                and _is_read_next(view, block, index, target.id)
            ):
                found[id(statement.value)] = statement.value  # type: ignore[assignment]
    for copy in sorted(found.values(), key=lambda c: (c.lineno, c.col_offset)):
        edit = removed_keyword(view.source, copy, "non_blocking")
        yield Finding(
            view.source.span(copy),
            qualified_name_around(view.source, copy),
            ast.unparse(copy),
            title="Wait for the copy" if edit is not None else None,
            edits=(edit,) if edit is not None else (),
            check="keywords",
        )


def _blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    stack: list[list[ast.stmt]] = [tree.body]
    while stack:
        block = stack.pop()
        yield block
        for statement in block:
            stack.extend(blocks_of(statement))
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                stack.append(statement.body)


def _is_copy(view: FileView, node: ast.expr) -> bool:
    """`.to("cpu", non_blocking=True)`: to the host, by what the code says."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "to":
        return False
    keyword, device = keyword_of(node, "non_blocking"), keyword_of(node, "device")
    if keyword is None or constant_of(keyword.value) is not True or passes_unknown_keywords(node):
        return False
    return any(_is_host(view, a) for a in (*node.args[:1], *([device.value] if device is not None else [])))


def _is_host(view: FileView, device: ast.expr) -> bool:
    if isinstance(device, ast.Call) and view.scope.qualified(device.func) == "torch.device" and len(device.args) == 1:
        device = device.args[0]
    return constant_of(device) == "cpu"


def _read_by(view: FileView, call: ast.Call) -> Iterator[ast.Call]:
    """Copies that this very call reads: `copy.numpy()`, `float(copy)`."""
    inner: list[ast.expr] = []
    if isinstance(call.func, ast.Attribute) and call.func.attr in _READS:
        inner = [call.func.value]
    elif (view.scope.qualified(call.func) or "") in _READERS:
        inner = list(call.args)
    for node in inner:
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not _is_copy(view, node):
            if node.func.attr not in (
                "float",
                "double",
                "squeeze",
                "view",
                "reshape",
                "flatten",
                "detach",
                "contiguous",
            ):
                break
            node = node.func.value
        if isinstance(node, ast.Call) and _is_copy(view, node):
            yield node


def _is_read_next(view: FileView, block: list[ast.stmt], index: int, name: str) -> bool:
    """True where the statements behind the copy read its result before any of them could wait for the device."""
    for statement in block[index + 1 :]:
        if blocks_of(statement):
            return False
        for call in calls_in(statement):
            if _reads_name(view, call, name):
                # What this statement computes before may wait: another copy, an item().
                others = [c for c in calls_in(statement) if c is not call and not _is_harmless(view, c)]
                return not others
        if name in names_read(statement) or any(not _is_harmless(view, c) for c in calls_in(statement)):
            return False
        if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(statement)):
            return False
    return False


def _reads_name(view: FileView, call: ast.Call, name: str) -> bool:
    node: ast.expr | None = None
    if isinstance(call.func, ast.Attribute) and call.func.attr in _READS:
        node = call.func.value
    elif (view.scope.qualified(call.func) or "") in _READERS and len(call.args) == 1:
        node = call.args[0]
    return isinstance(node, ast.Name) and node.id == name


def _is_harmless(view: FileView, call: ast.Call) -> bool:
    """Another copy that does not wait either, or a call that surely only uses what it is given (`numpy()` is of the host)."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy":
        return True
    return _is_copy(view, call) or (view.scope.qualified(call.func) or "") in ("float", "int", "print", "len")
