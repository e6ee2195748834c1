"""Convolutional nets that run in the default memory layout."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelwright.analyzers.finders.finding import FileView, Finding
from kernelwright.analyzers.finders.modules import ModuleClass, constructed, module_classes, torch_layer, used_classes
from kernelwright.analyzers.finders.requirements import user_knows
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.opportunity import Condition

FEWEST = 4
"""Convolutions with a kernel larger than one pixel from which on a file counts as one of a convolutional net."""

_DONE = re.compile(r"channels_last|memory_format|torch\.compile|quantiz")
_OTHERWISE = re.compile(
    r"\bsoftmax\b|scaled_dot_product_attention|Attention\w*\(|Attn|Transformer\w*\(|\bConv(Transpose)?[13]d\b"
)
"""What speaks of a net that is more than convolutions of images."""


def channels_last(view: FileView) -> Iterator[Finding]:
    """At most one finding a file: the outermost class of a net of dense 2-D convolutions and little else."""
    text = view.source.text
    if "Conv2d" not in text or _DONE.search(text) or _OTHERWISE.search(text):
        return
    classes = {c.name: c for c in module_classes(view.scope)}
    if not classes:
        return
    bases = {name: {view.scope.qualified(b) for b in c.node.bases} & set(classes) for name, c in classes.items()}
    uses = {name: used_classes(view.scope, c.node) & set(classes) - {name} for name, c in classes.items()}
    inner = set().union(*(uses[name] - bases[name] for name in classes))
    best: ModuleClass | None = None
    most = FEWEST - 1
    for name, candidate in classes.items():
        if name in inner or bases[name]:
            continue
        dense, grouped, linear = _count(view.scope, classes, uses, name)
        if dense > most and dense > 2 * grouped and dense > linear:
            best, most = candidate, dense
    if best is None:
        return
    yield Finding(
        view.source.span(best.node),
        f"{best.name}.forward",
        message=f"{best.name} is a convolutional net: channels_last memory may be faster on its 4-D tensors",
        conditions=(*_flat_views(view, classes), *_CONDITIONS),
        check="none",
        snippet="""
model = model.to(memory_format=torch.channels_last)
for images, labels in loader:  # each batch of images too, else every convolution converts
    output = model(images.to(memory_format=torch.channels_last))
""",
    )


_CONDITIONS = (
    user_knows(
        "measured", "it is faster with your sizes: measure both, some convolutions and float32 are slower with it"
    ),
    user_knows("device", "it runs on a GPU with tensor cores in float16 or bfloat16, or on a CPU with oneDNN"),
)


def _count(scope: Scope, classes: dict[str, ModuleClass], uses: dict[str, set[str]], name: str) -> tuple[int, int, int]:
    """Dense and grouped convolutions and linear layers that a class makes, with the classes of the file that it uses."""
    todo, seen = [name], {name}
    dense = grouped = linear = 0
    while todo:
        current = todo.pop()
        for called, call in constructed(scope, classes[current].node):
            layer = torch_layer(called)
            if layer == "Linear":
                linear += 1
            elif layer == "Conv2d":
                groups = next((k.value for k in call.keywords if k.arg == "groups"), None)
                if groups is not None and not (isinstance(groups, ast.Constant) and groups.value == 1):
                    grouped += 1
                else:
                    dense += 1
        todo += uses[current] - seen
        seen |= uses[current]
    return dense, grouped, linear


def _flat_views(view: FileView, classes: dict[str, ModuleClass]) -> Iterator[Condition]:
    """`.view(...)` of a feature map raises in this layout."""
    for name, candidate in classes.items():
        for node in ast.walk(candidate.forward):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "view":
                text = f"`.view` in {name} joins no pixels of a feature map (it would raise; `.reshape` copies)"
                yield user_knows("view", text)
                return
