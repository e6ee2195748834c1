"""A Python source file: its text, syntax tree, positions in code points, and what its imported names stand for.

Python's parser counts columns in UTF-8 bytes; everything outside this module counts code points. Lines break at LF, CRLF
and CR only, as in Python and LSP, never at form feeds or U+2028 (so `str.splitlines` is not used).
"""

from __future__ import annotations

import ast
import io
import re
import sys
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.analyzers.architecture import Span
from kernelwright.analyzers.syntax_tree import walk

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class SourceError(ValueError):
    """The text is no Python this interpreter can parse. `line` counts from 1; the message says what and where."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method as defined in a file: the syntax node, the class it is defined in, its dotted name."""

    node: FunctionNode
    class_node: ast.ClassDef | None
    qualified_name: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """Names bound anywhere in a file other than by an import; attribute names that are assigned, with what they are
    assigned on (`?` for an expression); calls of plain names."""

    bound_names: frozenset[str]
    stores: dict[str, list[str]]
    calls: dict[str, list[ast.Call]]


@dataclass(frozen=True)
class SourceFile:
    """A parsed file. Make one with `parse_source`.

    `imports` maps the names of the module's imports to what they stand for. `ambiguous` are module-level names that are bound
    more than once, to different things: nothing is known of them. `sure_imports` are imported names that are there for
    sure: bound once, outside of any `if` and `try`, and not deleted.
    """

    path: str
    text: str
    tree: ast.Module
    prefix: int
    lines: tuple[str, ...]
    imports: dict[str, str]
    functions: tuple[Function, ...]
    classes: dict[str, ast.ClassDef]
    ambiguous: frozenset[str]
    sure_imports: frozenset[str]
    _ascii: tuple[bool, ...] = field(repr=False, default=())

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Offset of each line's first code point in `text`; one more entry for the end."""
        offsets = [0]
        for line in self.lines:
            offsets.append(offsets[-1] + len(line))
        return tuple(offsets)

    @cached_property
    def module_values(self) -> dict[str, ast.expr]:
        """What names of the module are assigned once and for all, by an expression of their own."""
        return {
            target.id: statement.value
            for statement in self.tree.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name) and target.id not in self.ambiguous
        }

    @cached_property
    def module_functions(self) -> dict[str, Function]:
        return {
            f.node.name: f
            for f in self.functions
            if f.class_node is None and "." not in f.qualified_name and f.node.name not in self.ambiguous
        }

    @cached_property
    def inventory(self) -> Inventory:
        """What the file binds, stores and calls; one walk over the tree for all who ask."""
        bound: set[str] = set()
        stores: dict[str, list[str]] = {}
        calls: dict[str, list[ast.Call]] = {}
        for node in walk(self.tree):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Store):
                    bound.add(node.id)
            elif isinstance(node, ast.Attribute):
                if isinstance(node.ctx, ast.Store | ast.Del):
                    base = node.value.id if isinstance(node.value, ast.Name) else "?"
                    stores.setdefault(node.attr, []).append(base)
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name):
                    calls.setdefault(node.func.id, []).append(node)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, FunctionNode | ast.ClassDef):
                bound.add(node.name)
        return Inventory(frozenset(bound), stores, calls)

    def column(self, line: int, byte_column: int) -> int:
        """Code points before a UTF-8 byte column of a line (both as in `ast`: line from 1, column from 0)."""
        shift = self.prefix if line == 1 else 0
        if self._ascii[line - 1]:
            return byte_column + shift
        text = self.lines[line - 1][shift:]
        return len(text.encode()[:byte_column].decode(errors="replace")) + shift

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Offset of the node's first code point."""
        return self.starts[node.lineno - 1] + self.column(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Offset just past the node's last code point."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + self.column(node.end_lineno, node.end_col_offset)

    def segment(self, node: ast.expr | ast.stmt) -> str:
        return self.text[self.start(node) : self.end(node)]

    def span(self, node: ast.expr | ast.stmt) -> Span:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return Span(
            node.lineno,
            self.column(node.lineno, node.col_offset) + 1,
            node.end_lineno,
            max(self.column(node.end_lineno, node.end_col_offset), 1),
        )

    def offsets(self, span: Span) -> tuple[int, int]:
        """Offsets of a span: first code point, and just past the last."""
        return (
            self.starts[span.start_line - 1] + span.start_column - 1,
            self.starts[span.end_line - 1] + span.end_column,
        )


_NEWER = (
    (re.compile(r"\s*type\s+\w+(\[.*\])?\s*="), "`type` statements", (3, 12)),
    (re.compile(r"\s*(async\s+def|def|class)\s+\w+\["), "type parameters in brackets", (3, 12)),
    (re.compile(r".*\bt[\"']"), "t-strings", (3, 14)),
    (re.compile(r".*\b[fF][\"']"), "an f-string of this nesting", (3, 12)),
)
"""Lines that an older Python cannot parse: how they look, what that is, and since when it is there."""


def _newer_syntax(text: str, line: int) -> str:
    """What an error on this line may be due to: syntax newer than the Python that runs the analysis."""
    lines = text.split("\n")
    written = lines[line - 1] if line <= len(lines) else ""
    for pattern, name, version in _NEWER:
        if sys.version_info < version and pattern.match(written):
            here = f"{sys.version_info.major}.{sys.version_info.minor}"
            return (
                f" (if this is {name}: they need Python {version[0]}.{version[1]}, and Kernelwright runs under {here}; "
                "start it with a newer Python)"
            )
    return ""


def parse_source(text: str, path: str) -> SourceFile:
    """Parse a file's text.

    Raises:
        SourceError: a syntax error, or nesting deeper than the parser takes.
    """
    prefix = 1 if text.startswith("\ufeff") else 0
    try:
        tree = ast.parse(text[prefix:])
    except SyntaxError as error:
        line = error.lineno or 1
        raise SourceError(f"line {line}: {error.msg}{_newer_syntax(text, line)}", line) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(f"cannot be parsed: {error}", 1) from error
    lines = tuple(io.StringIO(text, newline="")) or ("",)
    if lines[-1].endswith(("\n", "\r")):
        lines = (*lines, "")
    functions: list[Function] = []
    classes: dict[str, ast.ClassDef] = {}
    _collect(tree.body, "", None, functions, classes)
    imports = module_imports(tree.body)
    ambiguous = _ambiguous_names(tree, "global " in text)
    direct = {name for statement in tree.body for name in import_names(statement)}
    return SourceFile(
        path,
        text,
        tree,
        prefix,
        lines,
        {name: target for name, target in imports.items() if name not in ambiguous},
        tuple(functions),
        classes,
        ambiguous,
        frozenset(direct - ambiguous),
        tuple(line.isascii() for line in lines),
    )


def _collect(
    body: list[ast.stmt],
    prefix: str,
    class_node: ast.ClassDef | None,
    functions: list[Function],
    classes: dict[str, ast.ClassDef],
) -> None:
    for statement in body:
        if isinstance(statement, FunctionNode):
            functions.append(Function(statement, class_node, prefix + statement.name))
        elif isinstance(statement, ast.ClassDef):
            classes[prefix + statement.name] = statement
            _collect(statement.body, f"{prefix}{statement.name}.", statement, functions, classes)
        else:
            for block in blocks_of(statement):
                _collect(block, prefix, class_node, functions, classes)


def _ambiguous_names(tree: ast.Module, has_global: bool) -> frozenset[str]:
    """Module-level names with more than one binding, unless all of them import the same thing."""
    bound: dict[str, set[object]] = {}
    _bindings(tree.body, bound)
    for node in walk(tree) if has_global else ():
        if isinstance(node, ast.Global):
            for name in node.names:
                bound.setdefault(name, set()).update((node, "global"))
    return frozenset(name for name, kinds in bound.items() if len(kinds) > 1)


def _bindings(body: list[ast.stmt], bound: dict[str, set[object]]) -> None:
    """Collect what binds each name of a block: an import by its target, anything else by its own statement."""
    for statement in body:
        for name, target in import_names(statement).items():
            bound.setdefault(name, set()).add(target)
        if isinstance(statement, FunctionNode | ast.ClassDef):
            bound.setdefault(statement.name, set()).add(statement)
            continue
        inner = blocks_of(statement)
        own = walk(statement) if not inner else _heads(statement)
        for node in own:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                bound.setdefault(node.id, set()).add(node)
        for block in inner:
            _bindings(block, bound)


def _heads(statement: ast.stmt) -> list[ast.AST]:
    """The nodes of a compound statement outside of its blocks."""
    skipped = {id(s) for block in blocks_of(statement) for s in block}
    found: list[ast.AST] = []
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(child for child in ast.iter_child_nodes(node) if id(child) not in skipped)
    return found


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The statement lists a compound statement holds (bodies of functions and classes excluded)."""
    if isinstance(statement, ast.If | ast.For | ast.AsyncFor | ast.While):
        return [statement.body, statement.orelse]
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [statement.body]
    if isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar":
        handlers = getattr(statement, "handlers", [])
        return [
            getattr(statement, "body", []),
            *[handler.body for handler in handlers],
            getattr(statement, "orelse", []),
            getattr(statement, "finalbody", []),
        ]
    if isinstance(statement, ast.Match):
        return [case.body for case in statement.cases]
    return []


def module_imports(body: list[ast.stmt]) -> dict[str, str]:
    """Name -> qualified name for every import of a block, also inside its `try` and `if` blocks (not in functions)."""
    names: dict[str, str] = {}
    for statement in body:
        names.update(import_names(statement))
        for block in blocks_of(statement):
            for name, target in module_imports(block).items():
                names.setdefault(name, target)
    return names


def import_names(statement: ast.stmt) -> dict[str, str]:
    """Name -> qualified name of one import statement; relative imports keep their leading dots."""
    if isinstance(statement, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0]
            for alias in statement.names
        }
    if isinstance(statement, ast.ImportFrom):
        module = "." * statement.level + (statement.module or "")
        separator = "" if module.endswith(".") or not module else "."
        return {alias.asname or alias.name: f"{module}{separator}{alias.name}" for alias in statement.names}
    return {}


_MENTIONS_TORCH = re.compile(r"\btorch\b")


def mentions_torch(text: str) -> bool:
    """Cheap early exit: False for a file that cannot hold anything for us."""
    return _MENTIONS_TORCH.search(text) is not None
