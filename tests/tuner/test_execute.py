"""Every operation of the architecture language against plain torch: value, shape and element type.

An operation added to the language without a torch spelling fails `test_every_operation_is_listed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from kernelwright.analyzers.architecture import parse_program
from kernelwright.analyzers.architecture.operations import OPERATIONS
from kernelwright.tuner.execute import NotExecutable, compile_program, describe, run
from kernelwright.tuner.shapes import infer
from kernelwright.tuner.values import TensorType

NOT_EXECUTABLE = {"parameter", "attribute", "global", "layer", "call", "raise", "opaque", "field", "store", "updated"} | {
    "carried", "element", "iteration", "loop"
}  # fmt: skip
"""By design: what these mean is not in the program. A workload's `attribute` and `parameter` leaves are inputs."""


def _inputs() -> dict[str, object]:
    generator = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    return {
        "x": normal(3, 4),
        "y": normal(3, 4),
        "p": normal(3, 4).abs() + 0.1,
        "row": normal(4),
        "t": normal(2, 3, 4),
        "unit": normal(3, 1, 4),
        "mask": normal(3, 4) > 0,
        "other": normal(3, 4) > 0,
        "whole": torch.arange(12).reshape(3, 4),
        "index": torch.tensor([[0, 2, 1, 0], [3, 3, 0, 1], [1, 0, 2, 2]]),
        "rows": torch.tensor([2, 0]),
        "tokens": torch.tensor([[0, 4, 2], [1, 1, 3]]),
        "table": normal(5, 6),
        "weight": normal(6, 4),
        "bias": normal(6),
        "q": normal(2, 4, 6, 8),
        "k": normal(2, 4, 6, 8),
        "kv": normal(2, 2, 6, 8),
        "seen": torch.ones(6, 6, dtype=torch.bool).tril(),
        "picture": normal(2, 4, 7, 7),
        "filter": normal(6, 2, 3, 3),
        "channel": normal(4).abs() + 0.5,
        "target": torch.tensor([1, 0, 3]),
        "half_type": normal(3, 4).to(torch.bfloat16),
        "three_parts": (normal(2), normal(3), None),
        "flag": True,
        "number": 2,
    }


CONSTANTS = {
    "none": None, "yes": True, "no": False, "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "minus": -1,
    "half": 0.5, "tenth": 0.1, "parts": (1, 3),
}  # fmt: skip

# operation -> [(statements that end in %out, what torch gives)]
Expected = Callable[[SimpleNamespace], object]
CASES: dict[str, list[tuple[str, Expected]]] = {
    "input": [("%out = tuple(%x)", lambda i: (i.x,))],
    "constant": [("%out = constant(value=(1, 2.5, 'a', None))", lambda i: (1, 2.5, "a", None))],
    "dtype": [
        ('%d = dtype(name="bfloat16")\n%out = cast(%x, %d)', lambda i: i.x.bfloat16()),
        ('%d = dtype(name="long")\n%out = cast(%x, %d)', lambda i: i.x.long()),
    ],
    "neg": [("%out = neg(%x)", lambda i: -i.x)],
    "abs": [("%out = abs(%x)", lambda i: i.x.abs())],
    "exp": [("%out = exp(%x)", lambda i: i.x.exp()), ("%out = exp(%whole)", lambda i: i.whole.exp())],
    "log": [("%out = log(%p)", lambda i: i.p.log()), ("%out = log(%two)", lambda i: math.log(2))],
    "sin": [("%out = sin(%x)", lambda i: i.x.sin())],
    "cos": [("%out = cos(%x)", lambda i: i.x.cos())],
    "tanh": [("%out = tanh(%x)", lambda i: i.x.tanh())],
    "erf": [("%out = erf(%x)", lambda i: i.x.erf())],
    "sqrt": [("%out = sqrt(%p)", lambda i: i.p.sqrt()), ("%out = sqrt(%four)", lambda i: 2.0)],
    "rsqrt": [("%out = rsqrt(%p)", lambda i: i.p.rsqrt()), ("%out = rsqrt(%four)", lambda i: 0.5)],
    "reciprocal": [("%out = reciprocal(%p)", lambda i: i.p.reciprocal())],
    "sigmoid": [("%out = sigmoid(%x)", lambda i: i.x.sigmoid())],
    "softplus": [("%out = softplus(%x)", lambda i: F.softplus(i.x))],
    "relu": [("%out = relu(%x)", lambda i: i.x.relu())],
    "logical_not": [
        ("%out = logical_not(%mask)", lambda i: ~i.mask),
        ("%out = logical_not(%whole)", lambda i: i.whole == 0),
        ("%out = logical_not(%flag)", lambda i: False),
    ],
    "add": [
        ("%out = add(%x, %row)", lambda i: i.x + i.row),
        ("%out = add(%whole, %half)", lambda i: i.whole + 0.5),
        ("%out = add(%half_type, %two)", lambda i: i.half_type + 2),
        ("%out = add(%two, %half)", lambda i: 2.5),
    ],
    "sub": [("%s = sub(%y, %row)\n%out = sub(%x, %s)", lambda i: i.x - (i.y - i.row))],
    "mul": [("%s = add(%x, %y)\n%out = mul(%s, %half)", lambda i: (i.x + i.y) * 0.5)],
    "div": [("%s = div(%x, %p)\n%out = div(%y, %s)", lambda i: i.y / (i.x / i.p)),
            ("%out = div(%whole, %three)", lambda i: i.whole / 3)],
    "floordiv": [("%out = floordiv(%whole, %three)", lambda i: i.whole // 3)],
    "mod": [("%out = mod(%whole, %three)", lambda i: i.whole % 3)],
    "pow": [
        ("%n = neg(%p)\n%s = pow(%n, %two)\n%out = pow(%s, %half)", lambda i: ((-i.p) ** 2) ** 0.5),
        ("%out = pow(%two, %x)", lambda i: 2**i.x),
    ],
    "maximum": [("%out = maximum(%x, %y)", lambda i: torch.maximum(i.x, i.y)),
                ("%out = maximum(%half, %x)", lambda i: i.x.clamp(min=0.5))],
    "minimum": [("%out = minimum(%x, %y)", lambda i: torch.minimum(i.x, i.y)),
                ("%out = minimum(%x, %half)", lambda i: i.x.clamp(max=0.5))],
    "clamp": [
        ("%out = clamp(%x, %minus, %half)", lambda i: i.x.clamp(-1, 0.5)),
        ("%out = clamp(%x, %none, %half)", lambda i: i.x.clamp(max=0.5)),
        ("%out = clamp(%x, %zero)", lambda i: i.x.clamp(min=0)),
    ],
    "equal": [("%out = equal(%whole, %three)", lambda i: i.whole == 3)],
    "not_equal": [("%out = not_equal(%whole, %three)", lambda i: i.whole != 3)],
    "less": [("%out = less(%x, %y)", lambda i: i.x < i.y), ("%out = less(%one, %number)", lambda i: True)],
    "less_equal": [("%out = less_equal(%whole, %three)", lambda i: i.whole <= 3)],
    "greater": [("%s = add(%x, %y)\n%out = greater(%s, %y)", lambda i: i.x + i.y > i.y)],
    "greater_equal": [("%out = greater_equal(%whole, %three)", lambda i: i.whole >= 3)],
    "logical_and": [
        ("%l = less(%x, %y)\n%out = logical_and(%l, %mask)", lambda i: (i.x < i.y) & i.mask),
        ("%out = logical_and(%flag, %no)", lambda i: False),
        ("%out = logical_and(%whole, %x)", lambda i: torch.logical_and(i.whole, i.x)),
    ],
    "logical_or": [("%out = logical_or(%mask, %other)", lambda i: i.mask | i.other)],
    "where": [
        ("%out = where(%mask, %x, %y)", lambda i: torch.where(i.mask, i.x, i.y)),
        ("%low = constant(value=-1e999)\n%out = where(%mask, %low, %x)", lambda i: i.x.masked_fill(i.mask, -math.inf)),
        ("%out = where(%mask, %one, %half_type)", lambda i: torch.where(i.mask, 1, i.half_type)),
    ],
    "cast": [
        ("%d = dtype_of(%half_type)\n%out = cast(%x, %d)", lambda i: i.x.to(torch.bfloat16)),
        ('%d = dtype(name="float32")\n%out = cast(%number, %d)', lambda i: 2.0),
    ],
    "sum": [
        ("%out = sum(%x, dims=(-1,), keepdim=True)", lambda i: i.x.sum(-1, keepdim=True)),
        ("%out = sum(%mask, dims=None, keepdim=False)", lambda i: i.mask.sum()),
    ],
    "mean": [("%out = mean(%t, dims=(0, 2), keepdim=False)", lambda i: i.t.mean((0, 2)))],
    "amax": [("%out = amax(%x, dims=(1,), keepdim=False)", lambda i: i.x.amax(1)),
             ("%out = amax(%x, dims=None, keepdim=False)", lambda i: i.x.amax())],
    "amin": [("%out = amin(%x, dims=(1,), keepdim=True)", lambda i: i.x.amin(1, keepdim=True))],
    "variance": [
        ("%out = variance(%x, dims=(-1,), keepdim=True, correction=0)", lambda i: i.x.var(-1, correction=0, keepdim=True)),
        ("%out = variance(%x, dims=(-1,), keepdim=False, correction=1)", lambda i: i.x.var(-1)),
    ],
    "norm": [("%out = norm(%x, order=2, dims=(-1,), keepdim=True)", lambda i: i.x.norm(dim=-1, keepdim=True)),
             ("%out = norm(%x, order=1, dims=(0,), keepdim=False)", lambda i: i.x.norm(p=1, dim=0))],
    "softmax": [("%out = softmax(%t, dim=1)", lambda i: i.t.softmax(1))],
    "log_softmax": [("%out = log_softmax(%t, dim=-1)", lambda i: i.t.log_softmax(-1))],
    "cumsum": [("%out = cumsum(%x, dim=1)", lambda i: i.x.cumsum(1)),
               ("%out = cumsum(%mask, dim=1)", lambda i: i.mask.cumsum(1))],
    "matmul": [
        ("%y2 = transpose(%y, a=0, b=1)\n%out = matmul(%x, %y2)", lambda i: i.x @ i.y.T),
        ("%out = matmul(%t, %row)", lambda i: i.t @ i.row),
        ("%w = transpose(%weight, a=0, b=1)\n%s = add(%x, %y)\n%out = matmul(%s, %w)", lambda i: (i.x + i.y) @ i.weight.T),
        ("%a = transpose(%k, a=-1, b=-2)\n%out = matmul(%q, %a)", lambda i: i.q @ i.k.mT),
    ],
    "transpose": [("%out = transpose(%t, a=0, b=-1)", lambda i: i.t.transpose(0, -1))],
    "permute": [("%out = permute(%t, dims=(2, 0, 1))", lambda i: i.t.permute(2, 0, 1))],
    "reshape": [
        ("%n = size(%t, dim=0)\n%out = reshape(%t, %n, %minus)", lambda i: i.t.reshape(2, -1)),
        ("%to = constant(value=(4, 6))\n%out = reshape(%t, %to)", lambda i: i.t.reshape(4, 6)),
    ],
    "flatten": [("%out = flatten(%t, start=1, end=-1)", lambda i: i.t.flatten(1))],
    "unsqueeze": [("%out = unsqueeze(%x, dim=-1)", lambda i: i.x.unsqueeze(-1)),
                  ("%out = unsqueeze(%x, dim=1)", lambda i: i.x.unsqueeze(1))],
    "squeeze": [("%out = squeeze(%unit, dim=1)", lambda i: i.unit.squeeze(1)),
                ("%out = squeeze(%unit, dim=None)", lambda i: i.unit.squeeze())],
    "expand_as": [("%out = expand_as(%row, %x)", lambda i: i.row.expand_as(i.x))],
    "unflatten": [("%out = unflatten(%x, %two, %two, dim=1)", lambda i: i.x.unflatten(1, (2, 2)))],
    "expand": [("%out = expand(%unit, %two, %minus, %three, %minus)", lambda i: i.unit.expand(2, -1, 3, -1))],
    "repeat": [("%out = repeat(%x, %two, %one, %three)", lambda i: i.x.repeat(2, 1, 3))],
    "repeat_interleave": [("%out = repeat_interleave(%kv, %two, dim=1)", lambda i: i.kv.repeat_interleave(2, dim=1))],
    "concatenate": [
        ("%out = concatenate(%x, %y, dim=-1)", lambda i: torch.cat([i.x, i.y], -1)),
        ("%c = chunk(%x, %two, dim=1)\n%out = concatenate(%c, dim=0)", lambda i: torch.cat(i.x.chunk(2, 1), 0)),
    ],
    "stack": [("%out = stack(%x, %y, dim=1)", lambda i: torch.stack([i.x, i.y], 1))],
    "chunk": [("%out = chunk(%x, %two, dim=-1)", lambda i: i.x.chunk(2, -1)),
              ("%out = chunk(%x, %two, dim=0)", lambda i: i.x.chunk(2, 0))],
    "split": [("%out = split(%x, %three, dim=1)", lambda i: i.x.split(3, 1)),
              ("%out = split(%x, %parts, dim=1)", lambda i: i.x.split((1, 3), 1))],
    "unbind": [("%out = unbind(%t, dim=0)", lambda i: i.t.unbind(0))],
    "slice": [
        ("%out = slice(%t, %one, %none, dim=1)", lambda i: i.t[:, 1:]),
        ("%out = slice(%t, %none, %minus, dim=-1)", lambda i: i.t[..., :-1]),
        ("%out = slice(%t, %zero, %four, %two, dim=2)", lambda i: i.t[:, :, 0:4:2]),
        ("%out = slice(%t, %none, %two, dim=-2)", lambda i: i.t[:, :2]),
    ],
    "pick": [
        ("%out = pick(%t, %minus, dim=1)", lambda i: i.t[:, -1]),
        ("%out = pick(%t, %zero, dim=-1)", lambda i: i.t[..., 0]),
        ("%out = pick(%x, %rows, dim=0)", lambda i: i.x[i.rows]),
    ],
    "gather": [("%out = gather(%x, %index, dim=1)", lambda i: i.x.gather(1, i.index))],
    "take": [("%out = take(%x, %rows, %rows)", lambda i: i.x[i.rows, i.rows]),
             ("%out = take(%table, %tokens)", lambda i: i.table[i.tokens]),
             ("%out = take(%x, %mask)", lambda i: i.x[i.mask])],
    "contiguous": [("%s = transpose(%x, a=0, b=1)\n%out = contiguous(%s)", lambda i: i.x.T.contiguous())],
    "detach": [("%out = detach(%x)", lambda i: i.x.detach())],
    "lower_triangle": [("%out = lower_triangle(%x, %zero)", lambda i: i.x.tril())],
    "upper_triangle": [("%out = upper_triangle(%x, %one)", lambda i: i.x.triu(1))],
    "full": [
        ('%out = full(%half, %two, %three, dtype="float32")', lambda i: torch.full((2, 3), 0.5)),
        ("%out = full(%yes, %two, dtype=None)", lambda i: torch.ones(2, dtype=torch.bool)),
    ],
    "arange": [
        ('%out = arange(%zero, %four, %one, dtype="float32")', lambda i: torch.arange(4, dtype=torch.float32)),
        ("%n = size(%table, dim=0)\n%out = arange(%one, %n, %two, dtype=None)", lambda i: torch.arange(1, 5, 2)),
    ],
    "full_like": [("%out = full_like(%x, %half)", lambda i: torch.full_like(i.x, 0.5))],
    "size": [("%out = size(%t, dim=-1)", lambda i: 4), ("%out = size(%t, dim=None)", lambda i: (2, 3, 4))],
    "shape": [("%out = shape(%t)", lambda i: (2, 3, 4))],
    "join": [
        (
            "%s = shape(%t)\n%h = slice(%s, %none, %minus, dim=0)\n%r = tuple(%two, %two)\n"
            "%n = join(%h, %r)\n%out = reshape(%t, %n)",
            lambda i: i.t.reshape(2, 3, 2, 2),
        ),
    ],
    "rank": [("%out = rank(%t)", lambda i: 3)],
    "dtype_of": [("%out = dtype_of(%half_type)", lambda i: torch.bfloat16)],
    "finfo_min": [("%d = dtype_of(%half_type)\n%out = finfo_min(%d)", lambda i: torch.finfo(torch.bfloat16).min)],
    "finfo_max": [('%d = dtype(name="float16")\n%out = finfo_max(%d)', lambda i: torch.finfo(torch.float16).max)],
    "finfo_eps": [('%d = dtype(name="float32")\n%out = finfo_eps(%d)', lambda i: torch.finfo(torch.float32).eps)],
    "is_none": [("%out = is_none(%x)", lambda i: False), ("%out = is_none(%none)", lambda i: True)],
    "truth": [("%out = truth(%number)", lambda i: True), ("%out = truth(%none)", lambda i: False)],
    "number": [("%a = number(%number)\n%out = mul(%x, %a)", lambda i: i.x * i.number)],
    "is_tensor": [("%out = is_tensor(%x)", lambda i: True), ("%out = is_tensor(%number)", lambda i: False)],
    "linear": [
        ("%out = linear(%x, %weight, %bias)", lambda i: F.linear(i.x, i.weight, i.bias)),
        ("%out = linear(%t, %weight, %none)", lambda i: F.linear(i.t, i.weight)),
    ],
    "embedding": [("%out = embedding(%tokens, %table)", lambda i: F.embedding(i.tokens, i.table))],
    "dropout": [
        ("%out = dropout(%x, %tenth, %no)", lambda i: i.x),
        ("%out = dropout(%x, %one, %flag)", lambda i: torch.zeros_like(i.x)),
    ],
    "conv": [
        (
            "%out = conv(%picture, %filter, %bias, dimensions=2, stride=(2, 2), padding=(1, 1), dilation=(1, 1), groups=2)",
            lambda i: F.conv2d(i.picture, i.filter, i.bias, stride=2, padding=1, groups=2),
        ),
        (
            '%out = conv(%picture, %filter, %none, dimensions=2, stride=1, padding="same", dilation=1, groups=2)',
            lambda i: F.conv2d(i.picture, i.filter, None, padding="same", groups=2),
        ),
    ],
    "batch_norm": [
        (
            "%out = batch_norm(%picture, %channel, %channel, %channel, %none, %no, %tenth)",
            lambda i: F.batch_norm(i.picture, i.channel, i.channel, i.channel, None, False, 0.1, 0.1),
        ),
        (
            "%out = batch_norm(%picture, %none, %none, %none, %none, %flag, %tenth)",
            lambda i: F.batch_norm(i.picture, None, None, None, None, True, 0.1, 0.1),
        ),
    ],
    "gelu": [
        ('%out = gelu(%x, approximate="tanh")', lambda i: F.gelu(i.x, approximate="tanh")),
        ('%out = gelu(%x, approximate="none")', lambda i: F.gelu(i.x)),
    ],
    "silu": [("%out = silu(%x)", lambda i: F.silu(i.x))],
    "mish": [("%out = mish(%x)", lambda i: F.mish(i.x))],
    "hardswish": [("%out = hardswish(%x)", lambda i: F.hardswish(i.x))],
    "scaled_dot_product_attention": [
        (
            "%out = scaled_dot_product_attention(%q, %k, %k, %seen, %zero, %half, %no, %no)",
            lambda i: F.scaled_dot_product_attention(i.q, i.k, i.k, i.seen, scale=0.5),
        ),
        (
            "%out = scaled_dot_product_attention(%q, %k, %k, %none, %zero, %none, %yes, %no)",
            lambda i: F.scaled_dot_product_attention(i.q, i.k, i.k, is_causal=True),
        ),
        (
            "%out = scaled_dot_product_attention(%q, %kv, %kv, %none, %zero, %none, %no, %yes)",
            lambda i: F.scaled_dot_product_attention(i.q, i.kv, i.kv, enable_gqa=True),
        ),
    ],
    "rms_norm": [
        ("%out = rms_norm(%x, %row, %tenth, dims=1)", lambda i: F.rms_norm(i.x, (4,), i.row, 0.1)),
        ("%out = rms_norm(%t, %none, %none, dims=2)", lambda i: F.rms_norm(i.t, (3, 4))),
    ],
    "layer_norm": [
        ("%out = layer_norm(%x, %row, %row, %tenth, dims=1)", lambda i: F.layer_norm(i.x, (4,), i.row, i.row, 0.1)),
        ("%out = layer_norm(%x, %none, %none, %tenth, dims=1)", lambda i: F.layer_norm(i.x, (4,), eps=0.1)),
    ],
    "nll_loss": [
        (
            '%none_kind = constant(value="none")\n%out = nll_loss(%x, %target, %row, %zero, %none_kind)',
            lambda i: F.nll_loss(i.x, i.target, i.row, ignore_index=0, reduction="none"),
        ),
        (
            '%mean_kind = constant(value="mean")\n%out = nll_loss(%x, %target, %none, %minus, %mean_kind)',
            lambda i: F.nll_loss(i.x, i.target, ignore_index=-1),
        ),
    ],
    "cross_entropy": [
        (
            '%sum_kind = constant(value="sum")\n'
            "%out = cross_entropy(%x, %target, %none, %zero, %sum_kind, label_smoothing=0.0)",
            lambda i: F.cross_entropy(i.x, i.target, ignore_index=0, reduction="sum"),
        ),
        (
            '%out = cross_entropy(%x, %target, %none, ignore_index=-100, reduction="mean", label_smoothing=0.1)',
            lambda i: F.cross_entropy(i.x, i.target, label_smoothing=0.1),
        ),
        (
            '%out = cross_entropy(%x, %target, %row, ignore_index=0, reduction="none", label_smoothing=0.0)',
            lambda i: F.cross_entropy(i.x, i.target, i.row, ignore_index=0, reduction="none"),
        ),
    ],
    "tuple": [("%out = tuple(%x, %none, %two)", lambda i: (i.x, None, 2))],
    "item": [("%out = item(%three_parts, index=1)", lambda i: i.three_parts[1]),
             ("%c = chunk(%x, %two, dim=1)\n%out = item(%c, index=1)", lambda i: i.x[:, 2:])],
    "choose": [
        ("%out = choose(%flag, %x, %y)", lambda i: i.x),
        ("%n = rank(%x)\n%c = equal(%n, %three)\n%out = choose(%c, %x, %y)", lambda i: i.y),
        (
            "%s = sum(%x, dims=None, keepdim=False)\n%c = less(%s, %s)\n%e = exp(%x)\n%out = choose(%c, %x, %e)",
            lambda i: i.x.exp(),
        ),
    ],
}  # fmt: skip


def _program(statements: str) -> str:
    lines = [f"input %{name}" for name in _inputs()]
    lines += [f"%{name} = constant(value={value!r})" for name, value in CONSTANTS.items()]
    body = "\n  ".join([*lines, *statements.split("\n")])
    return f"program case {{\n  {body}\n  return %out\n}}"


def test_every_operation_is_listed() -> None:
    assert set(CASES) | NOT_EXECUTABLE == set(OPERATIONS)
    assert not set(CASES) & NOT_EXECUTABLE


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, cases in CASES.items() for at in range(len(cases))])
def test_operation_is_as_in_torch(name: str, at: int) -> None:
    statements, expected = CASES[name][at]
    inputs = _inputs()
    program = parse_program(_program(statements))
    arguments = list(inputs.values())

    executable = compile_program(program, arguments)
    got = executable(*arguments)

    wanted = expected(SimpleNamespace(**_inputs()))
    if isinstance(wanted, torch.dtype | bool | int | float | str) or _is_plain(wanted):
        assert got == wanted
        assert type(got) is type(wanted)
    else:
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6, equal_nan=True)

    types = {key: describe(value) for key, value in inputs.items()}
    known = infer(program, types)[id(program.outputs[0])]
    actual = describe(got)
    if isinstance(known, TensorType) and None in known.shape:
        assert isinstance(actual, TensorType)
        assert len(known.shape) == len(actual.shape)
        assert known.dtype == actual.dtype
    else:
        assert known == actual


def _is_plain(value: object) -> bool:
    return isinstance(value, tuple) and not any(isinstance(part, torch.Tensor) for part in value)


@pytest.mark.parametrize(
    "statements",
    [
        '%out = parameter(path="dense.weight")',
        '%out = attribute(path="scale")',
        '%out = global(name="ACT")',
        '%out = layer(%x, path="dense", class="torch.nn.Linear")',
        '%out = call(%x, target="helper", keywords=())',
        "%out = raise(%flag)",
        '%out = field(%x, name="device")',
        '%out = opaque(%x, reason="a loop")',
    ],
)
def test_what_has_no_meaning_alone_is_not_executable(statements: str) -> None:
    program = parse_program(_program(statements))
    with pytest.raises(NotExecutable, match=statements.split(" = ")[1].split("(")[0]):
        run(program, list(_inputs().values()))


def test_only_the_taken_branch_is_computed() -> None:
    """`mask + x` would fail on None: real code guards exactly this."""
    program = parse_program("""
        program guarded {
          input %x
          input %mask
          %absent = is_none(%mask)
          %sum = add(%x, %mask)
          %y = choose(%absent, %x, %sum)
          return %y
        }""")
    x = torch.randn(2, 2)
    assert torch.equal(run(program, [x, None]), x)
    assert torch.equal(run(program, [x, x]), x + x)
    assert "if" not in compile_program(program, [x, None]).source


def test_a_branch_on_a_tensor_runs_one_side_only() -> None:
    program = parse_program("""
        program branch {
          input %x
          %total = sum(%x, dims=None, keepdim=False)
          %zero = constant(value=0)
          %positive = greater(%total, %zero)
          %shared = tanh(%x)
          %root = sqrt(%shared)
          %other = neg(%shared)
          %y = choose(%positive, %root, %other)
          %z = add(%y, %shared)
          return %z
        }""")
    x = torch.tensor([1.0, 2.0])
    executable = compile_program(program, [x])
    torch.testing.assert_close(executable(x), x.tanh().sqrt() + x.tanh())
    torch.testing.assert_close(executable(-x), torch.zeros(2))
    assert executable.source.count("torch.tanh") == 1
    assert executable.source.index("if ") < executable.source.index("torch.sqrt")


def test_a_raise_effect_that_cannot_happen_is_left_out() -> None:
    text = """
        program checked {
          input %x
          %rank = rank(%x)
          %two = constant(value=2)
          %wrong = not_equal(%rank, %two)
          %error = raise(%wrong)
          effect %error
          return %x
        }"""
    x = torch.randn(2, 2)
    assert torch.equal(run(parse_program(text), [x]), x)
    with pytest.raises(NotExecutable, match="raises an error"):
        run(parse_program(text), [torch.randn(2)])


def test_names_of_the_file_never_become_code() -> None:
    text = 'program evil {\n input %x\n %d = dtype(name="float32; import os")\n %y = cast(%x, %d)\n return %y\n}'
    with pytest.raises(NotExecutable, match="no element type"):
        run(parse_program(text), [torch.randn(2)])
    text = 'program evil {\n input %x\n %y = gelu(%x, approximate="tanh\') or exit(")\n return %y\n}'
    with pytest.raises(RuntimeError, match="approximate"):
        run(parse_program(text), [torch.randn(2)])


def test_an_input_may_be_named_as_a_module_is() -> None:
    program = parse_program(
        "program p {\n input %torch\n input %F\n %y = silu(%F)\n %z = mul(%torch, %y)\n return %z\n}"
    )
    a, b = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(run(program, [a, b]), a * F.silu(b))


def test_the_oracle_ignores_casts_to_lower_precision() -> None:
    program = parse_program("""
        program casts {
          input %x
          %half = dtype(name="bfloat16")
          %low = cast(%x, %half)
          %zero = constant(value=0)
          %third = constant(value=3)
          %n = full(%third, %third, dtype="float32")
          %y = div(%low, %n)
          return %y
        }""")
    x = torch.rand(3, dtype=torch.float64)
    exact = compile_program(program, [x], oracle=True)(x)
    torch.testing.assert_close(exact, x / 3, rtol=0, atol=1e-15)


def test_a_deep_program_needs_no_deep_stack() -> None:
    lines = ["input %v0"] + [f"%v{n + 1} = neg(%v{n})" for n in range(3000)]
    program = parse_program("program deep {\n" + "\n".join(lines) + "\nreturn %v3000\n}")
    x = torch.randn(2)
    assert torch.equal(run(program, [x]), x)
