"""The textual form of the architecture language: print and parse, so that `parse(print(p))` is the same program.

    program BertOutput.forward {
      layer dense: torch.nn.Linear(in_features="config.hidden_size")
      input %hidden_states
      input %mask: float32[4, 1, 1, 512]
      %1 = parameter(path="dense.weight")
      %2 = linear(%hidden_states, %1, %0) @ 12:9-12:40
      effect %2
      return %2
    }

One line an operation, operands before their users. Attribute values are Python literals (`1e999` is infinity, `nan` is
not-a-number). Span notes `@ line:column-line:column` are part of the program.
"""

from __future__ import annotations

import ast
import math
import re

from kernelwright.analyzers.architecture.node import Attribute, Layer, Node, Program, Span
from kernelwright.analyzers.architecture.operations import OPERATIONS


class ProgramSyntaxError(ValueError):
    """A textual program that cannot be read; the message names the line and what was expected."""


def print_program(program: Program, *, spans: bool = True) -> str:
    """The textual form of `program`; `spans=False` leaves the source notes out (for keys and for reading)."""
    names: dict[int, str] = {}
    lines = [f"program {program.name} {{"]
    for layer in program.layers:
        arguments = ", ".join(f"{key}={_literal(value)}" for key, value in layer.arguments)
        lines.append(f"  layer {layer.path}: {layer.class_name}({arguments})")
    for node in program.inputs:
        names[id(node)] = f"%{node.attribute('name')}"
        lines.append(f"  input {names[id(node)]}{_type(node)}{_note(node, spans)}")
    counter = 0
    for node in program.nodes():
        if id(node) in names:
            continue
        names[id(node)] = f"%{counter}"
        counter += 1
        arguments = ", ".join(
            [names[id(operand)] for operand in node.inputs]
            + [f"{key}={_literal(value)}" for key, value in node.attributes]
        )
        lines.append(f"  {names[id(node)]} = {node.operation}({arguments}){_note(node, spans)}")
    lines.extend(f"  effect {names[id(node)]}" for node in program.effects)
    lines.append("  return " + ", ".join(names[id(node)] for node in program.outputs))
    lines.append("}")
    return "\n".join(lines) + "\n"


def _type(node: Node) -> str:
    dtype, shape = node.attribute("dtype"), node.attribute("shape")
    if dtype is None:
        return ""
    if not isinstance(shape, tuple):
        return f": {dtype}"
    return f": {dtype}[{', '.join(str(extent) for extent in shape)}]"


def _note(node: Node, spans: bool) -> str:
    if not spans or node.span is None:
        return ""
    s = node.span
    return f" @ {s.start_line}:{s.start_column}-{s.end_line}:{s.end_column}"


def _literal(value: Attribute) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(_literal(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, float):
        if math.isinf(value):
            return "1e999" if value > 0 else "-1e999"
        if math.isnan(value):
            return "nan"
    return repr(value)


_HEAD = re.compile(r"program\s+(\S+)\s*\{$")
_LAYER = re.compile(r"layer\s+([^\s:]+):\s*([^\s(]+)\((.*)\)$")
_INPUT = re.compile(r"input\s+%([A-Za-z_]\w*)(?::\s*(\w+)(?:\[([\d,\s]*)\])?)?(?:\s*@\s*([\d:-]+))?$")
_OPERATION = re.compile(r"%(\w+)\s*=\s*([A-Za-z_]\w*)\((.*)\)(?:\s*@\s*(\d+:\d+-\d+:\d+))?$")
_SPAN = re.compile(r"(\d+):(\d+)-(\d+):(\d+)$")


def parse_program(text: str) -> Program:
    """The program that `text` prints.

    Raises:
        ProgramSyntaxError: a line that is no statement, an unknown operation, a value used before it is made.
    """
    name: str | None = None
    values: dict[str, Node] = {}
    inputs: list[Node] = []
    layers: list[Layer] = []
    effects: list[Node] = []
    outputs: tuple[Node, ...] | None = None
    # Not splitlines(): a string attribute may hold a form feed or U+2028, printed by repr() as an escape, never raw.
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if name is None:
            head = _HEAD.match(line)
            if head is None:
                raise ProgramSyntaxError(f"line {number}: expected 'program NAME {{', found {line!r}")
            name = head.group(1)
        elif line == "}":
            break
        elif found := _LAYER.match(line):
            arguments = tuple((k, str(v)) for k, v in _arguments(found.group(3), values, number)[1])
            layers.append(Layer(found.group(1), found.group(2), arguments))
        elif found := _INPUT.match(line):
            node = _input(found, number)
            values[found.group(1)] = node
            inputs.append(node)
        elif found := _OPERATION.match(line):
            if found.group(2) not in OPERATIONS:
                raise ProgramSyntaxError(f"line {number}: unknown operation {found.group(2)!r}")
            operands, attributes = _arguments(found.group(3), values, number)
            values[found.group(1)] = Node(found.group(2), operands, attributes, _span(found.group(4), number))
        elif line.startswith("effect "):
            effects.append(_value(line[len("effect ") :].strip(), values, number))
        elif line.startswith("return"):
            rest = line[len("return") :].strip()
            outputs = tuple(_value(part.strip(), values, number) for part in rest.split(",") if part.strip())
        else:
            raise ProgramSyntaxError(f"line {number}: no statement of the architecture language: {line!r}")
    if name is None or outputs is None:
        raise ProgramSyntaxError("the program has no 'program NAME {' or no 'return' line")
    return Program(name, tuple(inputs), outputs, tuple(effects), tuple(layers))


def _input(found: re.Match[str], number: int) -> Node:
    attributes: list[tuple[str, Attribute]] = [("name", found.group(1))]
    if found.group(2) is not None:
        if found.group(3) is not None:
            attributes.append(("shape", tuple(int(part) for part in found.group(3).split(",") if part.strip())))
        attributes.append(("dtype", found.group(2)))
    return Node("input", (), tuple(attributes), _span(found.group(4), number))


def _span(text: str | None, number: int) -> Span | None:
    if text is None:
        return None
    found = _SPAN.match(text)
    if found is None:
        raise ProgramSyntaxError(f"line {number}: no source span: {text!r}")
    a, b, c, d = (int(part) for part in found.groups())
    return Span(a, b, c, d)


def _value(text: str, values: dict[str, Node], number: int) -> Node:
    if not text.startswith("%") or text[1:] not in values:
        raise ProgramSyntaxError(f"line {number}: {text!r} is not a value made above")
    return values[text[1:]]


def _arguments(
    text: str, values: dict[str, Node], number: int
) -> tuple[tuple[Node, ...], tuple[tuple[str, Attribute], ...]]:
    operands: list[Node] = []
    attributes: list[tuple[str, Attribute]] = []
    for part in _split(text):
        if part.startswith("%"):
            operands.append(_value(part, values, number))
            continue
        key, equals, literal = part.partition("=")
        if not equals:
            raise ProgramSyntaxError(f"line {number}: expected %value or name=literal, found {part!r}")
        try:
            value = _value_of(ast.parse(literal.strip(), mode="eval").body)
        except (ValueError, SyntaxError) as error:
            raise ProgramSyntaxError(f"line {number}: {literal!r} is not a literal ({error})") from error
        attributes.append((key.strip(), value))
    return tuple(operands), tuple(attributes)


def _value_of(node: ast.expr) -> Attribute:
    """A literal, with `nan` besides those of Python."""
    if isinstance(node, ast.Tuple):
        return tuple(_value_of(part) for part in node.elts)
    if isinstance(node, ast.Name) and node.id == "nan":
        return math.nan
    value = ast.literal_eval(node)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError("no attribute value")
    return value


def _split(text: str) -> list[str]:
    """Split at commas outside quotes and brackets."""
    parts: list[str] = []
    depth, start, quote = 0, 0, ""
    index = 0
    while index < len(text):
        char = text[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
        index += 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
