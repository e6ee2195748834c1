"""The textual form of the architecture language: printing and reading give the same program back."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.analyzers.analysis import programs
from kernelwright.analyzers.architecture import Attribute, Layer, Node, Program, Span, parse_program, print_program
from kernelwright.analyzers.architecture.operations import OPERATIONS
from kernelwright.analyzers.architecture.text import ProgramSyntaxError

EXAMPLE = Path(__file__).parents[2] / "examples" / "sample_model.py"

TRICKY = [
    "'",
    '"',
    "a, b",
    "(",
    ")",
    "[]",
    "{",
    "}",
    "\\",
    "\n",
    "\r\n",
    "\x0c",
    "\u2028",
    "\x85",
    "%1",
    " @ 1:1-1:2",
    "é😀",
    "#",
    "=",
]


def same(a: Program, b: Program) -> bool:
    """Structural equality, shared nodes included: a value used twice must still be one value."""
    numbers: tuple[dict[int, int], dict[int, int]] = ({}, {})

    def described(program: Program, index: dict[int, int]) -> list[object]:
        rows: list[object] = []
        for number, node in enumerate(program.nodes()):
            index[id(node)] = number
            attributes = tuple((k, _comparable(v)) for k, v in node.attributes)
            rows.append((node.operation, tuple(index[id(o)] for o in node.inputs), attributes, node.span))
        roots = ([index[id(n)] for n in group] for group in (program.inputs, program.outputs, program.effects))
        return [program.name, program.layers, rows, *roots]

    return described(a, numbers[0]) == described(b, numbers[1])


def _comparable(value: Attribute) -> object:
    if isinstance(value, tuple):
        return tuple(_comparable(v) for v in value)
    return (type(value).__name__, "nan" if isinstance(value, float) and math.isnan(value) else value)


scalars = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0]),
    st.none(),
    st.text(max_size=12),
    st.lists(st.sampled_from(TRICKY), max_size=4).map("".join),
)
attributes = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
spans = st.none() | st.builds(Span, *[st.integers(1, 9999)] * 4)
names = st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{0,6}", fullmatch=True)


@st.composite
def generated_programs(draw: st.DrawFn) -> Program:
    inputs = []
    for name in draw(st.lists(names, max_size=3, unique=True)):
        extra: list[tuple[str, Attribute]] = [("name", name)]
        if draw(st.booleans()):
            if draw(st.booleans()):
                extra.append(("shape", tuple(draw(st.lists(st.integers(0, 4096), max_size=4)))))
            extra.append(("dtype", draw(st.sampled_from(["float32", "bfloat16", "bool"]))))
        inputs.append(Node("input", (), tuple(extra), draw(spans)))
    nodes = list(inputs)
    for _ in range(draw(st.integers(1, 8))):
        operation = draw(st.sampled_from(sorted(set(OPERATIONS) - {"input"})))
        operands = tuple(draw(st.lists(st.sampled_from(nodes), max_size=3))) if nodes else ()
        given_names = draw(st.lists(names, max_size=3, unique=True))
        nodes.append(Node(operation, operands, tuple((n, draw(attributes)) for n in given_names), draw(spans)))
    effects = tuple(draw(st.lists(st.sampled_from(nodes), max_size=2)))
    outputs = tuple(draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=2)))
    plain = st.text("abc.XY_0", min_size=1, max_size=8)
    values = st.text(max_size=8) | st.lists(st.sampled_from(TRICKY), max_size=3).map("".join)
    layers = tuple(
        Layer(
            draw(plain), draw(plain), tuple((n, draw(values)) for n in draw(st.lists(names, max_size=2, unique=True)))
        )
        for _ in range(draw(st.integers(0, 2)))
    )
    return Program(draw(plain), tuple(inputs), outputs, effects, layers)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(generated_programs())
def test_reading_what_was_printed_gives_the_same_program(program: Program) -> None:
    text = print_program(program)
    again = parse_program(text)
    assert same(program, again)
    assert print_program(again) == text


def test_without_spans_the_text_is_the_same_wherever_the_code_stands() -> None:
    x = Node("input", (), (("name", "x"),), Span(1, 2, 3, 4))
    here, there = (Program("p", (x,), (Node("tanh", (x,), (), span),)) for span in (Span(1, 1, 1, 9), Span(8, 1, 8, 9)))
    assert print_program(here) != print_program(there)
    assert print_program(here, spans=False) == print_program(there, spans=False)
    assert "@" not in print_program(here, spans=False)


@pytest.mark.parametrize(
    "value",
    [
        "it's", 'a "quoted" word', "both ' and \"", "a, b=(c", "line\nbreak", "\x0c", "\u2028", "", "\\", "\\'", "}", "%0",
        math.inf, -math.inf, math.nan, -0.0, 1e-300, 10**30, (), (1,), ((1, (2.5, None)), "x"), (math.inf, (math.nan,)), True,
    ],
)  # fmt: skip
def test_an_attribute_of_any_kind_comes_back(value: Attribute) -> None:
    node = Node("constant", (), (("value", value),))
    assert same(Program("p", (), (node,)), parse_program(print_program(Program("p", (), (node,)))))


def test_a_value_that_is_used_twice_is_printed_once() -> None:
    x = Node("input", (), (("name", "x"),))
    y = Node("tanh", (x,))
    text = print_program(Program("p", (x,), (Node("mul", (y, y)),)))
    assert text == "program p {\n  input %x\n  %0 = tanh(%x)\n  %1 = mul(%0, %0)\n  return %1\n}\n"


def test_two_equal_computations_stay_two() -> None:
    x = Node("input", (), (("name", "x"),))
    program = Program("p", (x,), (Node("mul", (Node("tanh", (x,)), Node("tanh", (x,)))),))
    assert sum(n.operation == "tanh" for n in parse_program(print_program(program)).nodes()) == 2


@pytest.mark.parametrize("program", programs(EXAMPLE.read_text(encoding="utf-8"), str(EXAMPLE)), ids=lambda p: p.name)
def test_programs_of_the_example_come_back(program: Program) -> None:
    assert same(program, parse_program(print_program(program)))
    assert not [n for n in program.nodes() if n.operation not in OPERATIONS]


def test_an_input_named_like_a_number_of_a_value_is_not_confused_with_it() -> None:
    x = Node("input", (), (("name", "_0"),))
    program = Program("p", (x,), (Node("add", (Node("constant", (), (("value", 1),)), x)),))
    assert same(program, parse_program(print_program(program)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("  %1 = tanhh(%x)", "line 3: unknown operation 'tanhh'"),
        ("  %1 = tanh(%y)", "line 3: '%y' is not a value made above"),
        ("  %1 = tanh(x)", "line 3: expected %value or name=literal"),
        ("  %1 = constant(value=f(3))", "line 3: .* is not a literal"),
        ("  %1 = constant(value=)", "line 3: .* is not a literal"),
        ("  what is this", "line 3: no statement"),
        ("  return %z", "line 3: '%z' is not a value"),
        ("  effect %z", "line 3: '%z' is not a value"),
        ("  %1 = tanh(%x", "line 3"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: str, message: str) -> None:
    with pytest.raises(ProgramSyntaxError, match=message):
        parse_program(f"program p {{\n  input %x\n{line}\n  return %x\n}}\n")


@pytest.mark.parametrize("text", ["", "\n\n", "program p {\n}\n", "program p {\n  input %x\n}", "tanh(%x)"])
def test_a_text_that_is_no_program_is_an_error(text: str) -> None:
    with pytest.raises(ProgramSyntaxError):
        parse_program(text)


def test_comments_and_blank_lines_are_skipped_and_counted() -> None:
    with pytest.raises(ProgramSyntaxError, match="line 5"):
        parse_program("# a program\n\nprogram p {\n  input %x  \n  ???\n}")
