"""Stacks of equal blocks that could be compiled block by block."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelwright.analyzers.finders.finding import FileView, Finding
from kernelwright.analyzers.finders.modules import ModuleClass, module_classes, under_self
from kernelwright.analyzers.finders.requirements import user_knows

_DONE = re.compile(r"torch\.compile|\.compile\(|torch\.jit|torch\._dynamo|tensorrt|torch\.fx")
_BREAKS = {"item", "tolist", "numpy", "cpu"}
"""Methods that fetch a value from the device: the compiler stops there."""

FEWEST = 4
"""Operations and calls in a block's `forward` from which on it is worth compiling."""


def compile_blocks(view: FileView) -> Iterator[Finding]:
    """At most one finding a file: the outermost class that makes a list of one block and calls it in a loop."""
    text = view.source.text
    if "for " not in text or not ("ModuleList" in text or "Sequential" in text) or _DONE.search(text):
        return
    classes = {c.name: c for c in module_classes(view.scope)}
    stacks = [(c, *found) for c in classes.values() if (found := _stack(view, classes, c)) is not None]
    if not stacks:
        return
    # The outermost: the class whose blocks hold most of the file's other stacks; the first where they are equal.
    owner, attribute, block = max(stacks, key=lambda s: _size(classes, s[2]))
    yield Finding(
        view.source.span(owner.made[attribute][0]),
        f"{owner.name}.forward",
        identity=attribute,
        message=f"self.{attribute} repeats {block}: compiled as a block, it costs one compilation for all of them",
        conditions=_CONDITIONS,
        check="none",
        snippet=f"""
model = {owner.name}(...)
for block in model.{attribute}:
    block.compile()  # in place: the state dict keeps its keys

# It pays from (seconds the first call took) / (seconds saved per later call) calls on.
""",
    )


_CONDITIONS = (
    user_knows(
        "break_even", "it is called often enough: from 748 calls on in one case measured here, never in another (page)"
    ),
    user_knows("compiler", "a C++ compiler is on PATH (CPU), or Triton is installed (GPU)"),
    user_knows("shapes", "input shapes repeat: each new one may compile again"),
)


def _stack(view: FileView, classes: dict[str, ModuleClass], owner: ModuleClass) -> tuple[str, str] | None:
    """The attribute that holds repeated blocks, and the block's class."""
    for attribute, values in owner.made.items():
        if "expert" in attribute or not _is_looped(owner, attribute):
            continue  # experts get other tokens at each call: a new shape, and a compilation, each time
        for block in (_repeated(view, value) for value in values):
            if block in classes and _size(classes, block) >= FEWEST and not _breaks(classes[block]):
                return attribute, block
    return None


def _repeated(view: FileView, value: ast.expr) -> str | None:
    """The class in `ModuleList([Block(...) for _ in range(n)])`, also in a Sequential."""
    if not isinstance(value, ast.Call) or len(value.args) != 1:
        return None
    if (view.scope.qualified(value.func) or "") not in ("torch.nn.ModuleList", "torch.nn.Sequential"):
        return None
    inner = value.args[0].value if isinstance(value.args[0], ast.Starred) else value.args[0]
    if not isinstance(inner, ast.ListComp | ast.GeneratorExp) or not isinstance(inner.elt, ast.Call):
        return None
    return view.scope.qualified(inner.elt.func)


def _is_looped(owner: ModuleClass, attribute: str) -> bool:
    """Whether the class's `forward` runs over the list, or calls it as a Sequential."""
    if owner.calls_of(attribute):
        return True
    loops = [n for n in ast.walk(owner.forward) if isinstance(n, ast.For | ast.comprehension)]
    return any(under_self(inner) == attribute for loop in loops for inner in ast.walk(loop.iter))


def _size(classes: dict[str, ModuleClass], name: str, seen: frozenset[str] = frozenset()) -> int:
    """Calls and operators in a class's `forward` and in those of the file's classes that its `__init__` makes."""
    if name not in classes or name in seen:
        return 0
    one = classes[name]
    own = sum(isinstance(n, ast.Call | ast.BinOp) for n in ast.walk(one.forward))
    named = {n.id for values in one.made.values() for v in values for n in ast.walk(v) if isinstance(n, ast.Name)}
    return own + sum(_size(classes, other, seen | {name}) for other in named & set(classes))


def _breaks(block: ModuleClass) -> bool:
    """Whether the block's own `forward` fetches a value, so that it cannot be compiled as one."""
    for node in ast.walk(block.forward):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _BREAKS:
            return True
    return False
