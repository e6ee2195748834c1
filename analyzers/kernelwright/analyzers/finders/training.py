"""Finders for training loops: the optimizer's constructor, clearing of gradients, copies of batches to the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.analyzers.finders.finding import FileView, Finding
from kernelwright.analyzers.finders.syntax import (
    added_keyword,
    calls_in,
    constant_of,
    keyword_of,
    names_bound,
    passes_unknown_keywords,
    qualified_name_around,
    removed_keyword,
    root_name,
)
from kernelwright.analyzers.opportunity import Condition
from kernelwright.analyzers.source import SourceFile, blocks_of
from kernelwright.analyzers.syntax_tree import walk

_ADAM = frozenset(f"torch.optim.{name}" for name in ("Adam", "AdamW", "adam.Adam", "adamw.AdamW"))
_OTHER_WAYS = ("fused", "foreach", "differentiable")


def fused_optimizer(view: FileView) -> Iterator[Finding]:
    """`torch.optim.Adam(...)` and `AdamW(...)` that do not say which implementation they want."""
    source, text = view.source, view.source.text
    if "Adam" not in text or "torch" not in text:
        return
    sparse = any(constant_of(k.value) is True for c in calls_in(source.tree) for k in c.keywords if k.arg == "sparse")
    for call in calls_in(source.tree):
        if view.scope.qualified(call.func) not in _ADAM or any(keyword_of(call, name) for name in _OTHER_WAYS):
            continue
        if passes_unknown_keywords(call) or not (call.args or call.keywords) or _takes_a_generator(call):
            continue
        if sparse:
            continue  # the fused kernels take no sparse gradients
        name = qualified_name_around(source, call)
        yield Finding(
            source.span(call),
            name,
            ast.unparse(call.func),
            edits=(added_keyword(source, call, "fused=True"),),
            check="keywords",
            title="Pass fused=True to the optimizer",
            conditions=_fused_conditions(view),
        )


def _takes_a_generator(call: ast.Call) -> bool:
    """`AdamW(p for p in ...)`: a bare generator must be the only argument."""
    return len(call.args) == 1 and isinstance(call.args[0], ast.GeneratorExp) and not call.keywords


def _fused_conditions(view: FileView) -> tuple[Condition, ...]:
    version = view.installed.torch_version
    where = "on CUDA" if version is not None and version < (2, 4) else "on CUDA, XPU, MPS or the CPU"
    conditions = [
        Condition("device", "assumed", f"all parameters are dense floating-point tensors {where}, else torch raises"),
    ]
    text = view.source.text
    if "lightning" in text and "clip" in text:
        said = "Lightning does not clip gradients under 16-bit mixed precision (it refuses that for a fused optimizer)"
        conditions.append(Condition("gradient_clipping", "assumed", said))
    return tuple(conditions)


def zero_grad(view: FileView) -> Iterator[Finding]:
    """`zero_grad(set_to_none=False)`, and loops that fill each gradient with zeros by hand."""
    source, text = view.source, view.source.text
    if "zero_grad" not in text and ".grad" not in text:
        return
    if "set_to_none" in text:
        for call in calls_in(source.tree):
            keyword = keyword_of(call, "set_to_none")
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "zero_grad" or keyword is None:
                continue
            name = qualified_name_around(source, call)
            edit = removed_keyword(source, call, "set_to_none")
            if constant_of(keyword.value) is not False or edit is None or name.endswith("zero_grad"):
                continue
            yield Finding(
                source.span(call),
                name,
                ast.unparse(call.func),
                edits=(edit,),
                check="keywords",
                title="Let zero_grad() drop the gradients",
                conditions=_zero_conditions(source, call),
            )
    if ".zero_()" in text:
        for node in walk(source.tree):
            if isinstance(node, ast.For) and _zeroes_gradients(node):
                yield Finding(
                    source.span(node),
                    qualified_name_around(source, node),
                    "loop",
                    message="gradients filled with zeros one by one: zero_grad() of the module or optimizer drops them",
                    conditions=_zero_conditions(source, node),
                )


def _zero_conditions(source: SourceFile, place: ast.AST) -> tuple[Condition, ...]:
    inside = {id(n) for n in walk(place)}
    reads = [
        n
        for n in walk(source.tree)
        if isinstance(n, ast.Attribute) and n.attr == "grad" and isinstance(n.ctx, ast.Load) and id(n) not in inside
    ]
    used = f" (line {reads[0].lineno} reads `.grad`)" if reads else ""
    said = (
        "a parameter that got no gradient may be None instead of zero: nothing reads its `.grad` as a tensor"
        f"{used}, and the optimizer may skip it (no weight decay, no momentum step)"
    )
    return (Condition("gradients_as_zero", "assumed", said),)


def _zeroes_gradients(loop: ast.For) -> bool:
    """`for p in m.parameters(): [if p.grad is not None:] p.grad.zero_()` and nothing else."""
    source = loop.iter
    if not (isinstance(loop.target, ast.Name) and isinstance(source, ast.Call)):
        return False
    if not (isinstance(source.func, ast.Attribute) and source.func.attr == "parameters"):
        return False
    body = loop.body
    while len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        body = body[0].body
    expected = (f"{loop.target.id}.grad.zero_()", f"{loop.target.id}.grad.data.zero_()")
    steps = [ast.unparse(s) for s in body]
    cleared = [s for s in steps if s in expected]
    return len(cleared) == 1 and all(s in expected or s == f"{loop.target.id}.grad.detach_()" for s in steps)


def non_blocking(view: FileView) -> Iterator[Finding]:
    """`batch.to(device)` of a batch that a `DataLoader(pin_memory=True)` of this file gives."""
    source, text = view.source, view.source.text
    if "pin_memory" not in text or "DataLoader" not in text:
        return
    loaders = _pinned_loaders(view)
    if not loaders:
        return
    for loop in (n for n in walk(source.tree) if isinstance(n, ast.For)):
        batch = _batch_names(loop, loaders)
        if not batch:
            continue
        for call in _copies(loop, batch):
            yield Finding(
                source.span(call),
                qualified_name_around(source, call),
                ast.unparse(call),
                edits=(added_keyword(source, call, "non_blocking=True"),),
                check="keywords",
                title="Copy the pinned batch without waiting",
                conditions=_copy_conditions(call),
            )


def _pinned_loaders(view: FileView) -> set[str]:
    """Names (`loader`, `self.loader`) that hold nothing but loaders with pinned memory."""
    pinned: set[str] = set()
    other: set[str] = set()
    for node in walk(view.source.tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For):
            targets = [node.target]
        elif isinstance(node, ast.arg):
            other.add(node.arg)
        value = getattr(node, "value", None)
        for target in targets:
            for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                (pinned if _is_pinned_loader(view, value) and part is target else other).add(ast.unparse(part))
    return pinned - other


def _is_pinned_loader(view: FileView, value: object) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = view.scope.qualified(value.func) or ""
    keyword = keyword_of(value, "pin_memory")
    known = name in ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
    return known and keyword is not None and constant_of(keyword.value) is True


def _batch_names(loop: ast.For, loaders: set[str]) -> set[str]:
    """The names that hold a batch (or parts of it) in the loop's body."""
    iterated, target = loop.iter, loop.target
    counted = isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "enumerate"
    if counted:
        assert isinstance(iterated, ast.Call)
        if not iterated.args or not (isinstance(target, ast.Tuple) and len(target.elts) == 2):
            return set()
        iterated, target = iterated.args[0], target.elts[1]
    if isinstance(iterated, ast.Call) and (root_name(iterated.func) or "") in ("tqdm", "trange") and iterated.args:
        iterated = iterated.args[0]
    return names_bound(target) if ast.unparse(iterated) in loaders else set()


def _copies(loop: ast.For, batch: set[str]) -> Iterator[ast.Call]:
    """Copies to a device of what is still the loader's: in the body's own statements, before the name is bound anew."""
    fresh = set(batch)
    for statement in loop.body:
        if blocks_of(statement):
            fresh -= names_bound(statement)
            continue
        for call in calls_in(statement):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if receiver is not None and _reads_batch(receiver, fresh) and _is_device_copy(call):
                yield call
        fresh -= names_bound(statement)


def _reads_batch(receiver: ast.expr, fresh: set[str]) -> bool:
    """`x`, `batch["image"]`, `batch[0]`: the loader's own tensor, not a result computed from it."""
    while isinstance(receiver, ast.Subscript) and isinstance(receiver.slice, ast.Constant):
        receiver = receiver.value
    return isinstance(receiver, ast.Name) and receiver.id in fresh


def _is_device_copy(call: ast.Call) -> bool:
    """`.cuda()`, `.cuda(n)` or `.to(device)` with one argument that names a device and not the CPU."""
    assert isinstance(call.func, ast.Attribute)
    if call.keywords and not (len(call.keywords) == 1 and call.keywords[0].arg == "device"):
        return False
    given = [*call.args, *(k.value for k in call.keywords)]
    if call.func.attr == "cuda":
        return len(given) <= 1
    if call.func.attr != "to" or len(given) != 1:
        return False
    text = ast.unparse(given[0])
    return "cpu" not in text and ("device" in text or "cuda" in text or "rank" in text or "gpu" in text)


def _copy_conditions(call: ast.Call) -> tuple[Condition, ...]:
    pinned = Condition("pinned", "proven", "the batch comes from a DataLoader(pin_memory=True) of this file, as it is")
    text = ast.unparse(call)
    if isinstance(call.func, ast.Attribute) and (call.func.attr == "cuda" or "cuda" in text):
        return (pinned, Condition("direction", "proven", "a copy from pinned host memory to a CUDA device"))
    said = "the device is CUDA, ROCm or XPU (on MPS a copy that does not wait has read its source too late)"
    return (pinned, Condition("direction", "assumed", said))
