"""Attention whose reshapes name the number of heads, so that it cannot be split over devices: the edit, and the plan."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelwright.analyzers.finders.finding import FileView, Finding
from kernelwright.analyzers.finders.modules import ModuleClass, module_classes, pairs, torch_layer, under_self
from kernelwright.analyzers.finders.requirements import user_knows
from kernelwright.analyzers.opportunity import Condition, TextEdit
from kernelwright.analyzers.source import FunctionNode

_HEADS = re.compile(
    r"^(n|num|number_of)_?(attention_|attn_|key_value_|kv_|query_|q_|decoder_|encoder_)?heads?$|^(n_)?heads?$"
)
_DONE = re.compile(r"parallelize_module|ColumnParallel|ColwiseParallel|DTensor")


def tensor_parallel(view: FileView) -> Iterator[Finding]:
    """One finding a class: reshapes of separate projections into heads, and back in front of the output projection."""
    source = view.source
    if _DONE.search(source.text) or "Linear" not in source.text or "head" not in source.text:
        return
    classes = module_classes(view.scope)
    for module in classes:
        reading = _Reading(view, module)
        for method in module.node.body:
            if isinstance(method, FunctionNode) and method.name != "__init__":
                reading.read(method)
        if reading.packed or len(reading.split) < 2 or reading.joined is None or not reading.arguments:
            continue
        edits = tuple(TextEdit(source.start(a), source.end(a), "-1") for a in reading.arguments)
        plan = {**dict.fromkeys(reading.split, "ColwiseParallel()"), reading.joined: "RowwiseParallel()"}
        yield Finding(
            source.span(reading.arguments[0]),
            f"{module.name}.forward",
            message=f"{module.name} cannot be split over devices: its reshapes name the number of heads",
            title="Let reshapes count the heads (-1), for tensor parallelism",
            edits=edits,
            check="none",
            conditions=(reading.width(), *reading.left_over(edits), *_CONDITIONS),
            snippet=_snippet(view, classes, module, plan),
        )


_CONDITIONS = (
    user_knows("divisible", "the number of heads, of keys and values too, is a multiple of the number of devices"),
)


@dataclass
class _Reading:
    """What the methods of a class do with its linear layers.

    `split` are the layers whose output is cut into heads, `joined` is the layer that reads the heads put together again,
    `arguments` what the edit makes -1. `packed` is set where a layer is cut in another way than into heads alone.
    """

    view: FileView
    module: ModuleClass
    split: list[str] = field(default_factory=list)
    joined: str | None = None
    arguments: list[ast.expr] = field(default_factory=list)
    heads: set[str] = field(default_factory=set)
    packed: bool = False
    _linears: set[str] = field(default_factory=set)
    _proven: bool = True

    def __post_init__(self) -> None:
        for name, values in self.module.made.items():
            if all(isinstance(v, ast.Call) and self._is_linear(v) for v in values):
                self._linears.add(name)

    def _is_linear(self, call: ast.Call) -> bool:
        return torch_layer(self.view.scope.qualified(call.func) or "") == "Linear"

    def read(self, method: FunctionNode) -> None:
        """Follow one method from top to bottom, by the names that it assigns."""
        made: dict[str, str] = {}
        whole: dict[str, ast.Call] = {}
        statements = [n for n in ast.walk(method) if isinstance(n, ast.Assign | ast.Return)]
        for statement in sorted(statements, key=lambda s: s.lineno):
            if statement.value is None:
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            for target, value in pairs(targets[0] if targets else None, statement.value):
                self._reshapes(value, made)
                for call in ast.walk(value):
                    self._output(call, whole)
                if isinstance(target, ast.Name):
                    layer = self._layer(value, made)
                    made.pop(target.id, None)
                    whole.pop(target.id, None)
                    if layer is not None:
                        made[target.id] = layer
                    elif (joining := _reshape(value)) is not None:
                        whole[target.id] = joining

    def _layer(self, value: ast.expr, made: dict[str, str]) -> str | None:
        """The linear layer whose output an expression is, scaled at most."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
            return self._layer(value.left, made)
        if isinstance(value, ast.Call) and (name := under_self(value.func)) in self._linears:
            return name
        return made.get(value.id) if isinstance(value, ast.Name) else None

    def _reshapes(self, value: ast.expr, made: dict[str, str]) -> None:
        for call in ast.walk(value):
            receiver = _reshaped(call)
            if receiver is None or not isinstance(call, ast.Call):
                continue
            layer = self._layer(receiver, made)
            heads = [a for a in call.args if _HEADS.match(under_self(a) or "")]
            if layer is None or not heads:
                continue
            if len(call.args) != 4 or heads != [call.args[2]]:
                self.packed = True  # one layer for keys and values, or an order of axes that is not looked into
            elif not any(_is_minus_one(a) for a in call.args):
                if layer not in self.split:
                    self.split.append(layer)
                name = under_self(heads[0]) or ""
                self.heads.add(name)
                self.arguments.append(heads[0])
                self._proven = self._proven and self._is_wide(layer, name, call.args[-1])

    def _is_wide(self, layer: str, heads: str, size: ast.expr) -> bool:
        """Whether the layer's constructor writes its width as heads times head size."""
        (call,) = self.module.made[layer][-1:]
        assert isinstance(call, ast.Call)
        width = (
            call.args[1]
            if len(call.args) > 1
            else next((k.value for k in call.keywords if k.arg == "out_features"), None)
        )
        if not isinstance(width, ast.BinOp) or not isinstance(width.op, ast.Mult):
            return False
        names = {ast.unparse(width.left).removeprefix("self."), ast.unparse(width.right).removeprefix("self.")}
        return names == {heads, ast.unparse(size).removeprefix("self.")}

    def _output(self, node: ast.AST, whole: dict[str, ast.Call]) -> None:
        """The output projection: a linear layer on what was put together by a reshape to three axes."""
        if not isinstance(node, ast.Call) or under_self(node.func) not in self._linears or len(node.args) != 1:
            return
        argument = node.args[0]
        joining = whole.get(argument.id) if isinstance(argument, ast.Name) else _reshape(argument)
        if joining is None or len(joining.args) != 3 or under_self(node.func) in self.split:
            return
        self.joined = under_self(node.func)
        last = joining.args[-1]
        if not any(_is_minus_one(a) for a in joining.args) and last not in self.arguments:
            self.arguments.append(last)

    def width(self) -> Condition:
        if self._proven:
            return Condition("width", "proven", "each projection is made as wide as heads times head size")
        return user_knows(
            "width", "each projection is as wide as heads times head size, so that -1 is the number of heads"
        )

    def left_over(self, edits: tuple[TextEdit, ...]) -> Iterator[Condition]:
        """Other places where the methods name the number of heads."""
        edited = {edit.start for edit in edits}
        for method in self.module.node.body:
            if not isinstance(method, FunctionNode) or method.name == "__init__":
                continue
            divisors = {
                n.right for n in ast.walk(method) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv)
            }
            for node in ast.walk(method):
                name = under_self(node)
                if node in divisors:
                    continue  # the size of one head, which stays what it is
                if name in self.heads and isinstance(node, ast.expr) and self.view.source.start(node) not in edited:
                    text = f"`self.{name}` in `{method.name}`, where else it stands, becomes this device's share of the heads"
                    yield user_knows("left_over", text)
                    return


def _reshaped(node: ast.AST) -> ast.expr | None:
    """What a call of `view` or `reshape` reshapes; None for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("view", "reshape"):
        return node.func.value
    return None


def _reshape(value: ast.expr) -> ast.Call | None:
    """The reshape that an expression ends with."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if _reshaped(value) is not None:
            return value
        if value.func.attr != "contiguous":
            return None
        value = value.func.value
    return None


def _is_minus_one(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and ast.unparse(node) == "-1"


# ---- the plan


def _snippet(view: FileView, classes: tuple[ModuleClass, ...], attention: ModuleClass, plan: dict[str, str]) -> str:
    """The plan of the block around the attention where the file has one, else of the attention."""
    name, entries = "attention", plan
    for block in classes:
        parts = {a: _class_name(values[-1]) for a, values in block.made.items()}
        path = next((a for a, made in parts.items() if made == attention.name), None)
        if path is None:
            continue
        name, entries = "block", {f"{path}.{key}": style for key, style in plan.items()}
        for other, made in parts.items():
            found = next((c for c in classes if c.name == made and c is not attention), None)
            entries |= {f"{other}.{key}": style for key, style in (_feed_forward(view, found) if found else {}).items()}
        break
    lines = "\n".join(f'    "{key}": {style},' for key, style in entries.items())
    return f"""
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

plan = {{
{lines}
}}
{name} = parallelize_module({name}, mesh, plan)  # mesh: init_device_mesh("cuda", (world_size,))
"""


def _class_name(value: ast.expr) -> str | None:
    return value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None


def _feed_forward(view: FileView, module: ModuleClass) -> dict[str, str]:
    """The plan of two or three linear layers of which the last is called on what the others made; else nothing."""
    linears = [
        a
        for a, values in module.made.items()
        if all(isinstance(v, ast.Call) and torch_layer(view.scope.qualified(v.func) or "") == "Linear" for v in values)
    ]
    calls = [n for n in ast.walk(module.forward) if isinstance(n, ast.Call) and under_self(n.func) in linears]
    if len(linears) not in (2, 3) or len(calls) != len(linears):
        return {}
    entered = module.forward.args.args[1].arg if len(module.forward.args.args) > 1 else ""
    first = [
        under_self(c.func) for c in calls if c.args and isinstance(c.args[0], ast.Name) and c.args[0].id == entered
    ]
    last = [name for name in linears if name not in first]
    if len(last) != 1:
        return {}
    return {name: "RowwiseParallel()" if name in last else "ColwiseParallel()" for name in linears}
