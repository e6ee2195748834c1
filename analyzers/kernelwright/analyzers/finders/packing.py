"""The edit that packs several linear layers of one input into one, with hooks that keep checkpoints as they are.

Old checkpoints load into the new class, and what the new class saves loads into the old one: same keys, same order, same
bytes. What is not seen to be safe is declined: then the advice is given in words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node, Span
from kernelwright.analyzers.finders.attribute_uses import PARTS, Use, mentioned_in_text
from kernelwright.analyzers.finders.dataflow import Dataflow, LayerCall, own_attribute
from kernelwright.analyzers.finders.finding import FunctionView
from kernelwright.analyzers.frontends.torch.values import ClassFacts
from kernelwright.analyzers.imports import module_spelling
from kernelwright.analyzers.layout import indent_unit, indentation, line_ending, line_limit
from kernelwright.analyzers.opportunity import TextEdit
from kernelwright.analyzers.source import Function, SourceFile, blocks_of

PUBLIC_HOOKS = (2, 5)
"""The torch that has `register_state_dict_post_hook` and `register_load_state_dict_pre_hook` under these names."""

SAVE, LOAD = "save_packed_parts", "load_packed_parts"

HOOKS = '''\
def save_packed_parts(module, state_dict, prefix, local_metadata):
    """State-dict hook: write each packed layer as the layers it is made of, under their names and in their place."""
    for packed, rows in module.packed_parts.items():
        keys = list(state_dict)
        if f"{prefix}{packed}.weight" not in state_dict:
            continue
        tail = {key: state_dict.pop(key) for key in keys[keys.index(f"{prefix}{packed}.weight") :]}
        names = [name for name in ("weight", "bias") if f"{prefix}{packed}.{name}" in tail]
        values = {name: tail.pop(f"{prefix}{packed}.{name}").split(list(rows.values())) for name in names}
        for index, part in enumerate(rows):
            for name in names:
                state_dict[f"{prefix}{part}.{name}"] = values[name][index]
        state_dict.update(tail)


def load_packed_parts(module, state_dict, prefix, *unused):
    """State-dict hook: pack the layers of a checkpoint where all of them are there in the sizes that are expected."""
    for packed, rows in module.packed_parts.items():
        for name in ("weight", "bias"):
            parts = {f"{prefix}{part}.{name}": size for part, size in rows.items()}
            if all(key in state_dict and state_dict[key].shape[0] == size for key, size in parts.items()):
                state_dict[f"{prefix}{packed}.{name}"] = TORCH.cat([state_dict.pop(key) for key in parts])
'''


class NoPacking(Exception):
    """There is no edit; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Packing:
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True, slots=True)
class _Constructor:
    """`self.name = nn.Linear(inputs, outputs, rest)`: the statement, and the texts of its parts."""

    name: str
    statement: ast.stmt
    function: str
    inputs: str
    outputs: str
    rest: tuple[str, ...]


def plan_packing(
    view: FunctionView, flow: Dataflow, calls: Sequence[LayerCall], packed: str, initialising: Sequence[Use]
) -> Packing:
    """The edits that pack the layers of `calls` into one called `packed`.

    Raises:
        NoPacking: some part is not seen to be safe.
    """
    source, facts = view.source, view.translation.facts
    version = view.installed.torch_version
    assert facts is not None
    if version is not None and version < PUBLIC_HOOKS:
        raise NoPacking("the checkpoint hooks need torch 2.5")
    if initialising:
        raise NoPacking(f"line {initialising[0].node.lineno} initialises {initialising[0].node.attr} by name")
    for call in calls:
        if call.class_name != "torch.nn.Linear" or call.node.operation != "linear":
            raise NoPacking(f"{call.path} is no plain nn.Linear")
        if flow.times_called(call.path) != 1:
            raise NoPacking(f"{call.path} is called at several places")
        if mentioned_in_text(source, call.path):
            raise NoPacking(f"a string of this file names {call.path}")
    own_text = source.segment(facts.node)
    for name in (packed, PARTS):
        if name in own_text:
            raise NoPacking(f"the class has a {name} already")
    constructors = _constructors(view, facts, [call.path for call in calls])
    spelling, imports = module_spelling(source, ast.parse("torch", mode="eval").body)
    edits = [*imports, *_hook_functions(source, facts, spelling("torch"))]
    edits.append(_constructor_edit(source, packed, constructors))
    edits.extend(_forward_edits(view, flow, calls, packed, constructors))
    return Packing(tuple(edits))


# ---- __init__


def _constructors(view: FunctionView, facts: ClassFacts, names: list[str]) -> list[_Constructor]:
    """The statements that make the layers, in the order of the file: neighbours, alike but for the outputs."""
    source = view.source
    init = facts.methods.get("__init__")
    if init is None or init.class_node is not facts.node or view.translation.function.class_node is not facts.node:
        raise NoPacking("a base class makes the layers")
    block = _block_with(init.node.body, names[0])
    found = []
    for place, statement in enumerate(block):
        name = _stored(statement)
        if name in names:
            assert name is not None and isinstance(statement, ast.Assign)
            found.append((place, _constructor(source, name, statement)))
    if sorted(c.name for _, c in found) != sorted(names):
        raise NoPacking("the layers are not made side by side")
    if found[-1][0] - found[0][0] != len(names) - 1:
        raise NoPacking("something else is made between the layers")
    constructors = [c for _, c in found]
    for other in constructors[1:]:
        if (other.function, other.inputs, other.rest) != (
            constructors[0].function,
            constructors[0].inputs,
            constructors[0].rest,
        ):
            raise NoPacking(f"{other.name} is made with other arguments than {constructors[0].name}")
    first, last = constructors[0].statement, constructors[-1].statement
    if "#" in source.text[source.start(first) : source.starts[last.end_lineno or 0]]:
        raise NoPacking("a comment stands among the layers")
    return constructors


def _block_with(body: list[ast.stmt], name: str) -> list[ast.stmt]:
    for statement in body:
        if _stored(statement) == name:
            return body
        for block in blocks_of(statement):
            try:
                return _block_with(block, name)
            except NoPacking:
                continue
    raise NoPacking(f"no single statement makes {name}")


def _stored(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return own_attribute(statement.targets[0])
    return None


def _constructor(source: SourceFile, name: str, statement: ast.Assign) -> _Constructor:
    call = statement.value
    if not isinstance(call, ast.Call) or any(isinstance(a, ast.Starred) for a in call.args):
        raise NoPacking(f"{name} is not made by a plain call")
    positional = ["in_features", "out_features", "bias", "device", "dtype"]
    given = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            raise NoPacking(f"{name} is made with unknown arguments")
        given[keyword.arg] = keyword.value
    for value in given.values():
        if any(isinstance(n, ast.Call | ast.NamedExpr | ast.Await | ast.Yield) for n in ast.walk(value)):
            raise NoPacking(f"{name}'s arguments are calls")
    if "in_features" not in given or "out_features" not in given:
        raise NoPacking(f"{name} is made with unknown arguments")
    texts = {key: source.segment(value) for key, value in given.items()}
    if any("\n" in text or "\r" in text for text in texts.values()):
        raise NoPacking(f"{name}'s arguments take several lines")
    outputs = given["out_features"]
    output_text = texts["out_features"]
    if not isinstance(outputs, ast.Name | ast.Attribute | ast.Constant | ast.Subscript):
        output_text = f"({output_text})"
    rest = tuple(f"{key}={texts[key]}" for key in sorted(given) if key not in ("in_features", "out_features"))
    return _Constructor(name, statement, source.segment(call.func), texts["in_features"], output_text, rest)


def _constructor_edit(source: SourceFile, packed: str, constructors: list[_Constructor]) -> TextEdit:
    first, last = constructors[0], constructors[-1]
    outputs = [c.outputs for c in constructors]
    total = f"{len(outputs)} * {outputs[0]}" if len(set(outputs)) == 1 else " + ".join(outputs)
    arguments = ", ".join((first.inputs, total, *first.rest))
    margin, unit = indentation(source, first.statement), indent_unit(source)
    rows = [f'"{c.name}": {c.outputs.removeprefix("(").removesuffix(")")}' for c in constructors]
    parts = [f'self.{PARTS} = {{"{packed}": {{{", ".join(rows)}}}}}']
    if len(margin.expandtabs(4) + parts[0]) > line_limit(source, first.statement):
        parts = [f'self.{PARTS} = {{"{packed}": {{', *(f"{unit}{row}," for row in rows), "}}"]
    lines = [
        f"self.{packed} = {first.function}({arguments})",
        *parts,
        f"self.register_state_dict_post_hook({SAVE})",
        f"self.register_load_state_dict_pre_hook({LOAD})",
    ]
    separator = line_ending(source) + margin
    return TextEdit(source.start(first.statement), source.end(last.statement), separator.join(lines))


def _hook_functions(source: SourceFile, facts: ClassFacts, torch_name: str) -> Iterator[TextEdit]:
    """The two hooks, above the outermost statement that holds the class; once a file."""
    text = HOOKS.replace("TORCH", torch_name)
    if f"def {SAVE}(" in source.text:
        return
    holder = next((s for s in source.tree.body if s.lineno <= facts.node.lineno <= (s.end_lineno or 0)), facts.node)
    if not isinstance(holder, ast.ClassDef):
        raise NoPacking("the class stands inside another statement")
    line = min([holder.lineno, *(d.lineno for d in holder.decorator_list)])
    while line > 1 and source.lines[line - 2].startswith("#"):
        line -= 1
    ending, unit = line_ending(source), indent_unit(source)
    written = text.replace("    ", unit).replace("\n", ending)
    offset = source.starts[line - 1]
    yield TextEdit(offset, offset, written + ending * 2)


# ---- forward


def _forward_edits(
    view: FunctionView, flow: Dataflow, calls: Sequence[LayerCall], packed: str, constructors: list[_Constructor]
) -> Iterator[TextEdit]:
    source, function = view.source, view.translation.function
    by_name = {call.path: call for call in calls}
    ordered = [by_name[c.name] for c in constructors]
    block, places = _statements(function, calls)
    if view.translation.expressions.get(calls[0].node) is None:
        raise NoPacking("the calls are not in this function")
    argument = source.segment(min(calls, key=lambda c: source.start(c.expression)).expression.args[0])
    if "\n" in argument or any(isinstance(n, ast.NamedExpr | ast.Call) for n in ast.walk(calls[0].expression.args[0])):
        raise NoPacking("the input is no plain name")
    if len({c.outputs for c in constructors}) == 1:
        parts = f"self.{packed}({argument}).chunk({len(calls)}, dim=-1)"
    else:
        parts = f'self.{packed}({argument}).split(list(self.{PARTS}["{packed}"].values()), dim=-1)'
    yield from _views_as_reshapes(view, calls)
    first, last = min(places), max(places)
    assigned = {place: _assigned(block[place], calls) for place in sorted(set(places))}
    contiguous = sorted(set(places)) == list(range(first, last + 1))
    if contiguous and all(name is not None for name in assigned.values()) and len(assigned) == len(calls):
        names = {path: target for pair in assigned.values() if pair is not None for path, target in [pair]}
        between = source.text[source.start(block[first]) : source.starts[block[last].end_lineno or 0]]
        if len(set(names.values())) == len(names) and "#" not in between and argument not in names.values():
            targets = ", ".join(names[call.path] for call in ordered)
            yield TextEdit(source.start(block[first]), source.end(block[last]), f"{targets} = {parts}")
            return
    used = {n.id for n in ast.walk(function.node) if isinstance(n, ast.Name)}
    used |= {a.arg for a in ast.walk(function.node) if isinstance(a, ast.arg)}
    fresh = {call.path: _fresh(call.path, used) for call in ordered}
    start = source.start(block[first])
    if source.text[source.starts[block[first].lineno - 1] : start].strip():
        raise NoPacking("several statements stand in one line")
    separator = line_ending(source) + indentation(source, block[first])
    yield TextEdit(start, start, ", ".join(fresh.values()) + f" = {parts}{separator}")
    for call in calls:
        yield TextEdit(source.start(call.expression), source.end(call.expression), fresh[call.path])


def _fresh(path: str, used: set[str]) -> str:
    short = path.removesuffix("_proj")
    for name in (short, path, f"{path}_output"):
        if name not in used and name.isidentifier():
            used.add(name)
            return name
    raise NoPacking(f"no free name for the output of {path}")


def _statements(function: Function, calls: Sequence[LayerCall]) -> tuple[list[ast.stmt], list[int]]:
    """The block in which all calls stand in plain statements, and the place of each call's statement."""
    stack = [function.node.body]
    while stack:
        block = stack.pop()
        places = []
        for call in calls:
            for place, statement in enumerate(block):
                if not blocks_of(statement) and _runs_always(statement, call.expression):
                    places.append(place)
        if len(places) == len(calls):
            return block, places
        for statement in block:
            stack.extend(blocks_of(statement))
    raise NoPacking("the calls do not stand side by side")


def _runs_always(statement: ast.stmt, wanted: ast.expr) -> bool:
    """True where the expression is part of the statement and no condition decides whether it runs."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if node is wanted:
            return True
        if isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda | ast.comprehension | ast.FunctionDef | ast.Assert):
            continue
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        stack.extend(ast.iter_child_nodes(node))
    return False


def _assigned(statement: ast.stmt, calls: Sequence[LayerCall]) -> tuple[str, str] | None:
    """(path, name) where the statement is `name = self.path(x)`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        for call in calls:
            if statement.value is call.expression:
                return call.path, statement.targets[0].id
    return None


_LAYOUT = frozenset(
    {"transpose", "permute", "slice", "unsqueeze", "squeeze", "reshape", "flatten", "unflatten", "split", "chunk", "unbind",
     "expand", "expand_as", "choose", "tuple", "item", "detach", "pick"}
)  # fmt: skip
"""Operations whose result may lie in the memory of their operand."""


def _views_as_reshapes(view: FunctionView, calls: Sequence[LayerCall]) -> Iterator[TextEdit]:
    """A part of the packed output is no contiguous tensor: `view` on it becomes `reshape`; nothing may change it in place."""
    source = view.source
    made_by = _expressions(view)
    users: dict[Node, list[Node]] = {}
    for node in view.detector.normal:
        for operand in node.inputs:
            users.setdefault(operand, []).append(node)
    done: set[int] = set()
    seen: set[Node] = set()
    stack: list[Node] = [call.node for call in calls]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for user in users.get(node, ()):
            expression = made_by.get(user.span) if user.span is not None else None
            if isinstance(expression, ast.AugAssign):
                raise NoPacking(f"line {expression.lineno} changes an output in place")
            if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
                name = expression.func.attr
                if name.endswith("_") and not name.startswith("_"):
                    raise NoPacking(f"line {expression.lineno} changes an output in place")
                if name == "view" and user.operation in _LAYOUT and id(expression) not in done:
                    done.add(id(expression))
                    end = source.end(expression.func)
                    yield TextEdit(end - len(name), end, "reshape")
            elif expression is None and user.operation in ("reshape", "unflatten", "flatten"):
                raise NoPacking("the outputs are viewed in another function")
            if user.operation in _LAYOUT:
                stack.append(user)
    layers = view.translation.facts.attributes.values() if view.translation.facts is not None else ()
    for layer in layers:
        for name, value in getattr(layer, "keywords", ()):
            if name == "inplace" and not (isinstance(value, Node) and value.attribute("value") is False):
                raise NoPacking("a layer works in place")


def _expressions(view: FunctionView) -> dict[Span, ast.expr | ast.AugAssign]:
    """The calls and in-place assignments of the class, by their place."""
    source, function = view.source, view.translation.function
    assert function.class_node is not None
    return {
        source.span(node): node for node in ast.walk(function.class_node) if isinstance(node, ast.Call | ast.AugAssign)
    }
