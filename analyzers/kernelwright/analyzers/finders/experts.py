"""Mixtures of experts that run their experts one after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.analyzers.finders.finding import FileView, Finding
from kernelwright.analyzers.finders.modules import ModuleClass, module_classes, under_self
from kernelwright.analyzers.finders.requirements import accelerator, user_knows
from kernelwright.analyzers.source import FunctionNode

_ROUTING = {"topk", "where", "nonzero", "index_add_", "index_add", "one_hot", "bincount", "argsort", "masked_select"}
"""Calls by which tokens are sent to the experts that were chosen for them; a sum over all experts has none."""


def grouped_mm(view: FileView) -> Iterator[Finding]:
    """A loop over `self.experts` that gives each the tokens chosen for it; one finding a class."""
    text = view.source.text
    if "expert" not in text or "for " not in text or "grouped_mm" in text:
        return
    for module in module_classes(view.scope):
        attribute = next((a for a in module.made if "expert" in a and _is_list(view, module, a)), None)
        if attribute is None:
            continue
        for method in module.node.body:
            if not isinstance(method, FunctionNode) or method.name == "__init__" or not _routes(method):
                continue
            loop = next((n for n in ast.walk(method) if isinstance(n, ast.For) and _runs(n, attribute)), None)
            if loop is not None:
                yield Finding(
                    view.source.span(loop.iter),
                    f"{module.name}.{method.name}",
                    identity=attribute,
                    message=f"self.{attribute} run one after the other: grouped_mm multiplies for all of them in one call",
                    check="none",
                    conditions=(
                        accelerator(view.installed, "a CUDA GPU from Hopper on (older ones loop again), in bfloat16"),
                        user_knows("equal", "the experts are equal layers without bias, their sizes multiples of 8"),
                        user_knows(
                            "stacked", "their weights are kept as one tensor each: the state dict's keys change"
                        ),
                    ),
                    snippet=_SNIPPET,
                )
                break


_SNIPPET = """
grouped_mm = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm

# tokens: (count, width); chosen, weights: (count, k) expert numbers and their shares
# up: (experts, inner, width), down: (experts, width, inner), as nn.Linear keeps each
order = chosen.flatten().argsort()
rows = order // chosen.size(1)
ends = torch.bincount(chosen.flatten(), minlength=up.size(0)).cumsum(0).to(torch.int32)
inner = activation(grouped_mm(tokens[rows], up.transpose(1, 2), offs=ends))
made = grouped_mm(inner, down.transpose(1, 2), offs=ends)
output = torch.zeros_like(tokens).index_add_(0, rows, made * weights.flatten()[order, None])
"""


def _is_list(view: FileView, module: ModuleClass, attribute: str) -> bool:
    return any(
        isinstance(value, ast.Call) and view.scope.qualified(value.func) == "torch.nn.ModuleList"
        for value in module.made[attribute]
    )


def _routes(method: FunctionNode) -> bool:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and node.attr in _ROUTING:
            return True
        if isinstance(node, ast.Compare) and "expert" in ast.dump(node):
            return True  # x[chosen == expert]
    return False


def _runs(loop: ast.For, attribute: str) -> bool:
    """Whether the loop takes one expert after the other and calls it."""
    variables = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    over = any(under_self(n) == attribute for n in ast.walk(loop.iter))
    taken: set[str] = set(variables) if over else set()
    for node in ast.walk(loop):
        value = node.value if isinstance(node, ast.Assign) else node.func if isinstance(node, ast.Call) else None
        if isinstance(value, ast.Subscript) and under_self(value.value) == attribute:
            if isinstance(node, ast.Call):
                return bool(variables & {n.id for n in ast.walk(value.slice) if isinstance(n, ast.Name)})
            assert isinstance(node, ast.Assign)
            taken.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in taken for n in ast.walk(loop))
