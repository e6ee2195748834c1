"""The normal form: each rewrite fires on a small case, equal spellings become one node, and different programs do not."""

from __future__ import annotations

import ast
import math

import pytest
from before_after import source

from kernelwright.analyzers.architecture import Attribute, Node
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.normalise import NormalForm, registered
from kernelwright.analyzers.source import parse_source

# ---- every rewrite by itself, in the operations of the architecture language


def term(form: NormalForm, text: str, *, plain: bool = False) -> Node:
    """The normal node of `add(a, mul(-1, b))`; with `plain` the outermost operation is left as it is written."""
    return _term(form, ast.parse(text, mode="eval").body, plain)


def _term(form: NormalForm, e: ast.expr, plain: bool) -> Node:
    if isinstance(e, ast.Name):
        if e.id == "inf":
            return form.constant(math.inf)
        return form.interned("input", (), (("name", e.id),))
    if isinstance(e, ast.Call):
        assert isinstance(e.func, ast.Name)
        inputs = tuple(_term(form, a, False) for a in e.args)
        attributes: tuple[tuple[str, Attribute], ...] = tuple(
            (str(k.arg), ast.literal_eval(k.value)) for k in e.keywords
        )
        return (form.interned if plain else form.make)(e.func.id, inputs, attributes)
    return form.constant(ast.literal_eval(e))


FLOAT32 = "dtype(name='float32')"
HALF = "dtype(name='float16')"
ROWS = "parameter(path='scale', unit_axes=(-1,))"
MIN = f"finfo_min({FLOAT32})"
SCALE = "attribute(path='scale', kind='number')"
FOUR = "permute(a, dims=(0, 1, 3, 2))"
EXTENT = tuple(f"size({FOUR}, dim={axis})" for axis in (-4, -3, -2, -1))
SPLIT = "unflatten(x, b, h, dim=0)"
THREE = "reshape(q, n, l, d)"

REWRITES: dict[str, list[tuple[str, str | None]]] = {
    "subtraction_is_adding_the_negative": [("sub(a, b)", "add(a, mul(-1, b))")],
    "negation_is_times_minus_one": [("neg(a)", "mul(-1, a)")],
    "division_is_times_the_inverse": [("div(a, b)", "mul(a, pow(b, -1))")],
    "roots_are_powers": [("sqrt(a)", "pow(a, 0.5)"), ("rsqrt(a)", "pow(a, -0.5)"), ("reciprocal(a)", "pow(a, -1)")],
    "power_of_constants": [("pow(2, 3)", "8"), ("pow(a, 1)", "a")],
    "power_of_a_power": [("pow(pow(a, -1), 2)", "pow(a, -2)"), ("pow(pow(a, 2), 3)", "pow(a, 6)")],
    "power_of_a_scaled_value": [("pow(mul(4, a), 0.5)", "mul(2, pow(a, 0.5))")],
    "logistic_written_out": [("pow(add(1, exp(mul(-1, a))), -1)", "sigmoid(a)")],
    "softplus_written_out": [("log(add(1, exp(a)))", "softplus(a)"), ("log(add(2, exp(a)))", None)],
    "log_of_a_softmax": [("log(softmax(a, dim=-1))", "log_softmax(a, dim=-1)")],
    "repeated_axis_from_the_end": [
        ("repeat_interleave(unflatten(permute(a, dims=(0, 2, 1)), b, h, dim=0), n, dim=1)",
         "repeat_interleave(unflatten(permute(a, dims=(0, 2, 1)), b, h, dim=0), n, dim=-3)"),
    ],
    "expanded_axis_joined_is_repetition": [
        (f"reshape(expand(unsqueeze({FOUR}, dim=2), -1, -1, n, -1, -1), n, mul(h, n), l, d)", None),
        (f"reshape(expand(unsqueeze({FOUR}, dim=2), -1, -1, n, -1, -1), {EXTENT[0]}, -1, {EXTENT[2]}, {EXTENT[3]})",
         f"repeat_interleave({FOUR}, n, dim=-3)"),
        (f"reshape(expand(unsqueeze({FOUR}, dim=1), -1, n, -1, -1, -1), {EXTENT[0]}, -1, {EXTENT[2]}, {EXTENT[3]})", None),
    ],
    "repeated_once_is_not_repeated": [
        ("choose(equal(n, 1), a, repeat_interleave(a, n, dim=-3))", "repeat_interleave(a, n, dim=-3)"),
        ("choose(equal(n, 2), a, repeat_interleave(a, n, dim=-3))", None),
    ],
    "repetition_moves_outward": [
        ("permute(repeat_interleave(a, n, dim=-2), dims=(-2, -3, -1), full=False)",
         "repeat_interleave(permute(a, dims=(-2, -3, -1), full=False), n, dim=-3)"),
    ],
    "size_beside_a_repeated_axis": [
        ("size(repeat_interleave(a, n, dim=-3), dim=-1)", "size(a, dim=-1)"),
        ("size(repeat_interleave(a, n, dim=-3), dim=-3)", None),
    ],
    "heads_are_repeated_to_fit": [("matmul(q, repeat_interleave(k, n, dim=-3))", None)],
    "rank_that_is_known": [("rank(permute(a, dims=(0, 2, 1)))", "3"), ("rank(a)", None)],
    "product_in_order": [
        ("mul(b, a)", "mul(a, b)"),
        ("mul(a, a)", "pow(a, 2)"),
        ("mul(2, mul(3, a))", "mul(6, a)"),
        ("mul(a, pow(a, -1))", "pow(a, 0)"),
        ("mul(1, a)", "a"),
    ],
    "scale_goes_into_scores": [(f"mul({SCALE}, add(matmul(q, k), m))", f"add(mul({SCALE}, matmul(q, k)), mul({SCALE}, m))")],
    "scale_goes_into_an_optional_term": [(f"mul({SCALE}, choose(c, m, 0))", f"choose(c, mul({SCALE}, m), 0)")],
    "front_axis_moves_outward": [
        ("matmul(unsqueeze(a, dim=0), unsqueeze(b, dim=0))", "unsqueeze(matmul(a, b), dim=0)"),
        ("softmax(unsqueeze(a, dim=0), dim=-1)", "unsqueeze(softmax(a, dim=-1), dim=0)"),
        ("mul(2, unsqueeze(a, dim=0))", "unsqueeze(mul(2, a), dim=0)"),
    ],
    "sum_in_order": [("add(b, a)", "add(a, b)"), ("add(a, a)", "mul(2, a)"), ("add(a, 0)", "a"), ("add(1, add(2, a))", "add(3, a)")],  # noqa: E501
    "common_factor_of_a_sum": [("add(a, mul(3, pow(a, 3)))", "mul(a, add(1, mul(3, pow(a, 2))))")],
    "common_coefficient_of_a_sum": [("add(3, mul(3, a))", "mul(3, add(1, a))")],
    "adding_the_minimum_is_filling_with_it": [
        (f"add(matmul(a, b), where(m, {MIN}, 0))", f"where(m, {MIN}, matmul(a, b))")
    ],
    "scale_out_of_a_product": [(f"matmul(mul({SCALE}, a), b)", f"mul({SCALE}, matmul(a, b))")],
    "weights_cast_to_the_values": [
        (f"matmul(cast(softmax(cast(a, {FLOAT32}), dim=-1), dtype_of(b)), b)", "matmul(softmax(a, dim=-1), b)")
    ],
    "scale_out_of_a_layout_change": [
        (f"permute(mul({SCALE}, a), dims=(-1, -2), full=False)", f"mul({SCALE}, permute(a, dims=(-1, -2), full=False))")
    ],
    "permutation_from_the_end": [
        ("permute(a, dims=(0, 1, 3, 2))", "permute(a, dims=(-1, -2), full=False)"),
        ("permute(a, dims=(0, 1))", "a"),
    ],
    "permutation_of_a_permutation": [("permute(permute(a, dims=(-1, -2), full=False), dims=(-1, -2), full=False)", "a")],
    "layout_in_memory_is_no_value": [("contiguous(a)", "a")],
    "constant_worked_out_in_init": [("attribute(path='c', kind='number', value=0.125)", "0.125")],
    "double_negation": [("logical_not(logical_not(a))", "a"), ("logical_not(True)", "False")],
    "either_is_not_neither": [("logical_or(a, b)", "logical_not(logical_and(logical_not(a), logical_not(b)))")],
    "conjunction_in_order": [
        ("logical_and(b, a)", "logical_and(a, b)"),
        ("logical_and(a, a)", "a"),
        ("logical_and(a, False)", "False"),
        ("logical_and(a, True)", "a"),
        ("logical_and(a, logical_not(a))", "False"),
    ],
    "decided_branch": [("choose(c, a, a)", "a"), ("choose(True, a, b)", "a"), ("choose(logical_not(c), a, b)", "choose(c, b, a)")],  # noqa: E501
    "conjunction_is_two_branches": [("choose(logical_and(c, d), a, b)", "choose(c, choose(d, a, b), b)")],
    "arms_know_the_condition": [
        ("choose(c, choose(c, a, b), d)", "choose(c, a, d)"),
        ("choose(c, d, choose(c, a, b))", "choose(c, d, b)"),
    ],
    "optional_term_is_a_neutral_element": [
        ("choose(c, add(s, x), s)", "add(s, choose(c, x, 0))"),
        ("choose(c, s, mul(s, x))", "mul(s, choose(c, 1, x))"),
    ],
    "optional_mask_is_an_empty_one": [("choose(c, where(m, 7, s), s)", "where(choose(c, m, False), 7, s)")],
    "none_is_none": [("is_none(None)", "True"), ("is_none(matmul(a, b))", "False"), ("is_none(choose(c, None, 1))", "choose(c, True, False)")],  # noqa: E501
    "exchange_is_a_permutation": [("transpose(a, a=-2, b=-1)", "permute(a, dims=(-1, -2), full=False)")],
    "softmax_axis_from_the_end": [("softmax(permute(a, dims=(0, 2, 1)), dim=2)", "softmax(permute(a, dims=(0, 2, 1)), dim=-1)")],
    "reduced_axes_in_order": [
        ("mean(a, dims=(-1, -2), keepdim=True)", "mean(a, dims=(-2, -1), keepdim=True)"),
        ("mean(permute(a, dims=(0, 2, 1)), dims=(2,), keepdim=True)", "mean(permute(a, dims=(0, 2, 1)), dims=(-1,), keepdim=True)"),  # noqa: E501
    ],
    "variance_written_out": [
        (
            "variance(a, dims=(-1,), keepdim=True, correction=0)",
            "mean(pow(sub(a, mean(a, dims=(-1,), keepdim=True)), 2), dims=(-1,), keepdim=True)",
        )
    ],
    "cast_to_the_type_it_has": [("cast(a, dtype_of(a))", "a"), (f"cast(cast(a, {FLOAT32}), {FLOAT32})", f"cast(a, {FLOAT32})")],
    "softmax_in_float32_and_back": [(f"cast(softmax(cast(a, {FLOAT32}), dim=-1), dtype_of(a))", "softmax(a, dim=-1)")],
    "dropout_commutes_with_a_cast": [(f"cast(dropout(a, p), {FLOAT32})", f"dropout(cast(a, {FLOAT32}), p)")],
    "number_has_no_type": [(f"cast(3, {FLOAT32})", "3")],
    "type_of_an_operation": [("dtype_of(matmul(a, b))", "dtype_of(a)"), (f"dtype_of(cast(a, {FLOAT32}))", FLOAT32)],
    "dropout_by_its_effective_probability": [("dropout(a, p, t)", "dropout(a, choose(truth(t), p, 0))"), ("dropout(a, 0)", "a")],
    "one_form_of_comparison": [
        ("not_equal(a, b)", "logical_not(equal(a, b))"),
        ("greater(a, b)", "less(b, a)"),
        ("greater_equal(a, b)", "less_equal(b, a)"),
    ],
    "comparison_with_a_constant_last": [("equal(0, a)", "equal(a, 0)"), ("equal(2, 2.0)", "True"),
        ("equal(less(a, b), False)", "logical_not(less(a, b))")],
    "mask_without_a_negation": [("where(logical_not(m), a, b)", "where(m, b, a)")],
    "large_negative_fill_is_the_minimum": [("where(m, -1e9, matmul(a, b))", f"where(m, {MIN}, matmul(a, b))")],
    "full_of_one_number": [("full(3, dtype='float32')", "3")],
    "size_of_an_unchanged_axis": [
        ("size(permute(a, dims=(-1, -2), full=False), dim=-1)", "size(a, dim=-2)"),
        ("size(softmax(a, dim=-1), dim=-1)", "size(a, dim=-1)"),
    ],
    "number_is_itself": [("number(size(a, dim=0))", "size(a, dim=0)")],
    "truth_of_a_condition": [("truth(is_none(a))", "is_none(a)"), ("truth(2)", "True")],
    "tensor_of_one_number": [(f"call({MIN}, target='torch.tensor')", MIN), ("call(3.0, target='torch.tensor')", "3")],
    "filled_tensor_is_its_number": [("full_like(a, 3)", "3")],
    "device_of_an_operation": [("field(matmul(q, k), name='device')", "field(q, name='device')")],
    "split_axis_joined_again": [
        (f"unflatten(flatten(add(m, {SPLIT}), start=0, end=1), b, h, dim=0)", f"add(m, {SPLIT})"),
        # other sizes: not the same axes
        (f"unflatten(flatten(add(m, {SPLIT}), start=0, end=1), h, b, dim=0)", None),
    ],
    "joined_axis_split_before": [(f"flatten({SPLIT}, start=0, end=1)", "x"), (f"flatten({SPLIT}, start=1, end=2)", None)],
    "split_moves_inward": [
        (f"unflatten(permute({THREE}, dims=(-1, -2), full=False), b, h, dim=0)",
         f"permute(unflatten({THREE}, b, h, dim=0), dims=(-1, -2), full=False)"),
        (f"unflatten(softmax(matmul({THREE}, k), dim=-1), b, h, dim=0)",
         f"softmax(matmul(unflatten({THREE}, b, h, dim=0), unflatten(k, b, h, dim=0)), dim=-1)"),
        # what is added may be 1 wide in the first axis: it is brought to its size before
        (f"unflatten(add(matmul({THREE}, k), m), b, h, dim=0)",
         f"add(matmul(unflatten({THREE}, b, h, dim=0), unflatten(k, b, h, dim=0)), "
         "unflatten(expand(m, mul(b, h), -1, -1), b, h, dim=0))"),
        # not half the way, not for a mask that may be absent
        (f"unflatten(softmax(add(matmul({THREE}, k), m), dim=-1), b, h, dim=0)", None),
        (f"unflatten(add(matmul({THREE}, k), choose(c, 0, m)), b, h, dim=0)", None),
    ],
    "join_moves_outward": [
        (f"softmax(flatten(add(m, {SPLIT}), start=0, end=1), dim=-1)",
         f"flatten(softmax(add(m, {SPLIT}), dim=-1), start=0, end=1)"),
        (f"softmax(flatten(add(m, {SPLIT}), start=0, end=1), dim=0)", None),
    ],
    "join_moves_out_of_a_product": [
        (f"matmul(flatten(add(m, {SPLIT}), start=0, end=1), v)",
         f"flatten(matmul(add(m, {SPLIT}), unflatten(v, b, h, dim=0)), start=0, end=1)"),
    ],
    "join_of_an_optional_part": [
        (f"choose(c, matmul({THREE}, k), flatten(add(m, {SPLIT}), start=0, end=1))",
         f"flatten(choose(c, matmul(unflatten({THREE}, b, h, dim=0), unflatten(k, b, h, dim=0)), add(m, {SPLIT})), "
         "start=0, end=1)"),
    ],
    "size_of_a_split_or_joined_axis": [
        (f"size(unflatten({THREE}, b, h, dim=0), dim=-3)", "h"),
        (f"size(unflatten({THREE}, b, h, dim=0), dim=-1)", f"size({THREE}, dim=-1)"),
        (f"size({SPLIT}, dim=-3)", None),
    ],
    "clamped_mask_is_a_clamped_sum": [
        (f"add(matmul(q, k), clamp(m, {MIN}, None))", f"maximum(add(matmul(q, k), m), {MIN})"),
        (f"add(a, clamp(m, {MIN}, None))", None),
        (f"add(matmul(q, k), clamp(m, {MIN}, 0))", None),
    ],
    "least_number_has_one_form": [(f"maximum({MIN}, matmul(q, k))", f"maximum(matmul(q, k), {MIN})")],
    "clamp_of_an_optional_sum": [
        (f"choose(c, matmul(q, k), maximum(add(matmul(q, k), m), {MIN}))",
         f"maximum(choose(c, matmul(q, k), add(matmul(q, k), m)), {MIN})"),
        (f"choose(c, a, maximum(add(matmul(q, k), m), {MIN}))", None),
    ],
    "upcast_for_one_type": [
        (f"choose(equal(dtype_of(x), {HALF}), cast(softmax(cast(x, {FLOAT32}), dim=-1), {HALF}), a)",
         f"choose(equal(dtype_of(x), {HALF}), softmax(x, dim=-1), a)"),
        (f"choose(equal(dtype_of(x), {FLOAT32}), cast(softmax(cast(x, {FLOAT32}), dim=-1), {HALF}), a)", None),
    ],
    "negative_of_the_largest_number": [(f"mul(-1, finfo_max({FLOAT32}))", MIN)],
    "factor_of_rows_leaves_a_product": [
        (f"matmul(mul(q, {ROWS}), k)", f"mul({ROWS}, matmul(q, k))"),
        ("matmul(mul(q, parameter(path='w')), k)", None),
    ],
    "added_axis_dropped_again": [("squeeze(unsqueeze(a, dim=0), dim=0)", "a")],
}  # fmt: skip
"""A term on which the rewrite of that name must fire, and what the whole then is; None: it must not fire."""


def functions() -> dict[str, object]:
    NormalForm()
    return {function.__name__: function for group in registered().values() for function in group}


def test_every_registered_rewrite_has_a_case() -> None:
    assert set(REWRITES) == set(functions())


@pytest.mark.parametrize(
    ("name", "before", "after"), [(name, *case) for name, cases in REWRITES.items() for case in cases]
)
def test_a_rewrite_fires_and_gives_the_normal_form(name: str, before: str, after: str | None) -> None:
    form = NormalForm()
    for letter in "abcdhmnpqsktxv":
        term(form, letter)  # one order of the operands, whatever order the texts name them in
    plain = term(form, before, plain=True)
    made = functions()[name](form, plain)  # type: ignore[operator]
    if after is None:
        assert made is None
        return
    assert made is not None and made is not plain, "the rewrite does not apply"
    assert term(form, before) is term(form, after)


@pytest.mark.parametrize("before", [before for cases in REWRITES.values() for before, _ in cases])
def test_normalising_twice_changes_nothing(before: str) -> None:
    form = NormalForm()
    node = term(form, before)
    assert form.make(node.operation, node.inputs, node.attributes) is node


# ---- spellings in Python that are one program


def normal(form: NormalForm, text: str) -> Node:
    """The normal form of what `f` or `M.forward` of a text returns."""
    form.begin()
    parsed = parse_source(source(text), "model.py")
    function = next(f for f in parsed.functions if f.qualified_name in ("f", "M.forward"))
    translation = translate(Scope(parsed), function)
    return form.of(translation.program.outputs[0], translation.ranks)


def function_of(arguments: str, lines: str) -> str:
    body = "\n".join(f"    {line}" for line in lines.strip().splitlines())
    return f"def f({arguments}):\n{body}\n"


def returning(arguments: str, *expressions: str) -> list[str]:
    return [function_of(arguments, e if "\n" in e or e.startswith("return") else f"return {e}") for e in expressions]


SCORES = "def scores(q, k):\n    return torch.matmul(q, k.transpose(-1, -2))\n"

SAME: dict[str, list[str]] = {
    "gelu tanh": returning(
        "x",
        "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))",
        "0.5 * x * (1 + torch.tanh((x + 0.044715 * torch.pow(x, 3.0)) * math.sqrt(2 / math.pi)))",
        "x * 0.5 * (torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)) + 1)",
        "0.5 * (x + x * torch.tanh(0.7978845608 * (x + 0.044715 * x.pow(3))))",
        "(x / 2) * (1.0 + (math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)).tanh())",
        "torch.mul(x, 0.5).mul(torch.add(torch.tanh(0.7978845608 * torch.add(x, torch.pow(x, 3), alpha=0.044715)), 1))",
        "inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)\ncdf = 0.5 * (1.0 + torch.tanh(inner))\nreturn x * cdf",
        "a = 0.5 * x\nb = 1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x**2)))\na = a * b\nreturn a",
    ),
    "gelu erf": returning(
        "x",
        "x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))",
        "0.5 * x * (1 + torch.special.erf(x / 2**0.5))",
        "x / 2 * (torch.erf(x / 1.4142135623730951) + 1)",
        "0.5 * (x + x * (x / math.sqrt(2)).erf())",
        "x * (0.5 + 0.5 * torch.erf(x / math.sqrt(2.0)))",
        "x * (1.0 + torch.erf(x / math.sqrt(2.0))) / 2.0",
    ),
    "silu": returning(
        "x",
        "x * torch.sigmoid(x)",
        "x.sigmoid() * x",
        "torch.mul(x, F.sigmoid(x))",
        "x * torch.special.expit(x)",
        "x / (1 + torch.exp(-x))",
        "x / (1.0 + (-x).exp())",
        "x * (1 / (1 + torch.exp(x.neg())))",
        "x * torch.reciprocal(torch.exp(-x) + 1)",
    ),
    "attention": [
        *returning(
            "q, k, v",
            "torch.softmax(q @ k.transpose(-2, -1) * 0.125, dim=-1) @ v",
            "torch.matmul(F.softmax(torch.matmul(q, k.transpose(-1, -2)) * 0.125, dim=-1), v)",
            "(q @ k.mT / 8).softmax(-1) @ v",
            "F.softmax(0.125 * q @ k.transpose(-2, -1), -1) @ v",
            "torch.softmax((q * 0.125) @ k.transpose(-2, -1), dim=-1) @ v",
            "torch.softmax(q @ (k / 8.0).transpose(-2, -1), dim=-1) @ v",
            "torch.softmax(q.mul(0.5) @ k.transpose(-2, -1).mul(0.25), dim=-1) @ v",
            "torch.softmax(q.matmul(k.transpose(-2, -1)).div(8), dim=-1).matmul(v)",
            "torch.softmax(q @ k.swapaxes(-2, -1) * 64**-0.5, dim=-1) @ v",
            "s = q @ k.transpose(-2, -1)\ns = s / math.sqrt(64)\nw = torch.softmax(s, dim=-1)\nreturn w @ v",
            "s = q @ k.transpose(-2, -1)\ns *= 0.125\ns = s.softmax(dim=-1)\nout = s @ v\nreturn out",
            "s = torch.matmul(q, k.transpose(-2, -1)).mul_(0.125)\nreturn torch.matmul(s.softmax(-1), v)",
        ),
        SCORES + function_of("q, k, v", "return torch.softmax(scores(q, k) / 8, dim=-1) @ v"),
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.softmax = nn.Softmax(dim=-1)
            def score(self, q, k, scale=0.125):
                return q @ k.transpose(-2, -1) * scale
            def forward(self, q, k, v):
                return self.softmax(self.score(q, k)) @ v
        """,
        """
        def f(q, k, v):
            def attend(s):
                return torch.softmax(s, dim=-1) @ v
            return attend(q @ k.transpose(-2, -1) * 0.125)
        """,
    ],
    "attention of four axes": returning(
        "q, k, v",
        "b, h, l, d = q.shape\nb, h, s, d = k.shape\nreturn torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v",
        "b, h, l, d = q.shape\nb, h, s, d = k.shape\nreturn torch.softmax(q @ k.transpose(2, 3), dim=3) @ v",
        "b, h, l, d = q.shape\nb, h, s, d = k.shape\nreturn torch.softmax(q @ k.permute(0, 1, 3, 2), dim=3) @ v",
        "torch.einsum('bhij,bhjd->bhid', torch.softmax(torch.einsum('bhid,bhjd->bhij', q, k), dim=-1), v)",
        "torch.einsum('b h i j, b h j d -> b h i d', torch.einsum('b h i d, b h j d -> b h i j', q, k).softmax(3), v)",
    ),
    "attention of three axes": returning(
        "q, k, v, m",
        "torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.5 + m, dim=-1), v)",
        "torch.bmm(F.softmax(torch.baddbmm(m, q, k.transpose(1, 2), beta=1, alpha=0.5), dim=-1), v)",
        "torch.einsum('bij,bjd->bid', torch.softmax(0.5 * torch.einsum('bid,bjd->bij', q, k) + m, dim=2), v)",
    ),
    "additive mask": returning(
        "q, k, v, m",
        "torch.softmax(q @ k.transpose(-2, -1) * 0.5 + m, dim=-1) @ v",
        "torch.softmax(m + (q * 0.5) @ k.transpose(-2, -1), dim=-1) @ v",
        "s = q @ k.transpose(-2, -1) / 2\ns = s + m\nreturn s.softmax(-1) @ v",
        "s = q @ k.transpose(-2, -1) / 2\ns += m\nreturn s.softmax(-1) @ v",
        "s = torch.add(q @ k.transpose(-2, -1) / 2, m)\nreturn s.softmax(-1) @ v",
        "s = torch.add(m, q @ k.transpose(-2, -1), alpha=0.5)\nreturn s.softmax(-1) @ v",
    ),
    "boolean mask": returning(
        "q, k, v, keep",
        "torch.softmax(torch.where(keep, q @ k.transpose(-2, -1), -math.inf), dim=-1) @ v",
        "torch.softmax((q @ k.transpose(-2, -1)).masked_fill(~keep, float('-inf')), dim=-1) @ v",
        "torch.softmax((q @ k.transpose(-2, -1)).masked_fill(torch.logical_not(keep), -torch.inf), dim=-1) @ v",
        "torch.softmax(torch.where(~keep, float('-inf'), q @ k.transpose(-2, -1)), dim=-1) @ v",
        "s = q @ k.transpose(-2, -1)\ns.masked_fill_(~keep, -math.inf)\nreturn s.softmax(-1) @ v",
        "s = q @ k.transpose(-2, -1)\nreturn torch.where(keep, s, torch.full_like(s, -math.inf)).softmax(-1) @ v",
        "s = q @ k.transpose(-2, -1)\nreturn s.masked_fill(keep.logical_not(), float('-inf')).softmax(-1) @ v",
    ),
    "filling mask": returning(
        "q, k, v, drop",
        "torch.softmax((q @ k.transpose(-2, -1)).masked_fill(drop, -1e9), dim=-1) @ v",
        "torch.softmax((q @ k.transpose(-2, -1)).masked_fill(drop, -1e10), dim=-1) @ v",
        "torch.softmax(torch.where(drop, -1e9, q @ k.transpose(-2, -1)), dim=-1) @ v",
        "s = q @ k.transpose(-2, -1)\nreturn s.masked_fill(drop, torch.finfo(s.dtype).min).softmax(-1) @ v",
        "s = q @ k.transpose(-2, -1)\nreturn s.masked_fill(drop, torch.finfo(torch.float32).min).softmax(-1) @ v",
    ),
    "optional mask": returning(
        "q, k, v, m",
        "s = q @ k.transpose(-2, -1)\nif m is not None:\n    s = s + m\nreturn s.softmax(-1) @ v",
        "s = q @ k.transpose(-2, -1)\nif m is not None:\n    s += m\nreturn s.softmax(-1) @ v",
        "s = q @ k.transpose(-2, -1)\nif m is None:\n    pass\nelse:\n    s = s + m\nreturn s.softmax(-1) @ v",
        "s = q @ k.transpose(-2, -1)\ns = s if m is None else s + m\nreturn s.softmax(-1) @ v",
        "s = q @ k.transpose(-2, -1)\ns = s + (m if m is not None else 0)\nreturn s.softmax(-1) @ v",
    ),
    "dropout": returning(
        "q, v, t",
        "F.dropout(q.softmax(-1), 0.1, t) @ v",
        "F.dropout(q.softmax(-1), p=0.1, training=t) @ v",
        "torch.dropout(q.softmax(-1), 0.1, t) @ v",
        "torch.dropout(q.softmax(-1), p=0.1, train=t) @ v",
    ),
    "rms norm": returning(
        "x, eps",
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)",
        "x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)",
        "x / (x**2).mean(dim=-1, keepdim=True).add(eps).sqrt()",
        "x * (eps + torch.mean(torch.square(x), dim=-1, keepdim=True)) ** -0.5",
        "x * torch.mean(x.square(), -1, True).add(eps).rsqrt()",
        "v = x.pow(2)\nv = v.mean((-1,), keepdim=True)\nreturn torch.rsqrt(v + eps) * x",
    ),
    "layer norm": returning(
        "x, w, b",
        "(x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * w + b",
        "b + w * (x - x.mean(-1, keepdim=True)) * torch.rsqrt(torch.var(x, -1, keepdim=True, correction=0) + 1e-5)",
        "c = x - x.mean(-1, keepdim=True)\nreturn w * c / (c.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() + b",
        "m = torch.mean(x, dim=-1, keepdim=True)\nv = ((x - m) ** 2).mean(-1, keepdim=True)\nreturn (x - m) / torch.sqrt(v + 1e-5) * w + b",  # noqa: E501
    ),
    "softmax in float32": returning(
        "q, v",
        "q.softmax(-1) @ v",
        "F.softmax(q, dim=-1, dtype=torch.float32).to(q.dtype) @ v",
        "q.float().softmax(-1).type_as(q) @ v",
        "torch.softmax(q.to(torch.float32), -1).to(dtype=q.dtype) @ v",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, texts in SAME.items() for number in range(1, len(texts))]
)
def test_spellings_of_one_program_have_one_normal_form(name: str, number: int) -> None:
    form = NormalForm()
    assert normal(form, SAME[name][0]) is normal(form, SAME[name][number]), SAME[name][number]


def test_a_return_in_a_branch_is_a_branch_of_returns() -> None:
    form = NormalForm()
    early = normal(form, "def f(x, flag):\n    if flag:\n        return x * 2\n    return torch.tanh(x)\n")
    late = normal(
        form,
        "def f(x, flag):\n    if not flag:\n        y = torch.tanh(x)\n    else:\n        y = x + x\n    return y\n",
    )
    assert early is late


# ---- pairs that are different programs

DIFFERENT: list[tuple[str, str, str]] = [
    ("x, y", "x - y", "y - x"),
    ("x, y", "x / y", "y / x"),
    ("x, y", "x ** y", "y ** x"),
    ("x, y", "x @ y", "y @ x"),
    ("x", "(x ** 2) ** 0.5", "x"),
    ("x", "torch.sqrt(x * x)", "x"),
    ("x", "torch.sqrt(x) ** 2", "x"),
    ("x", "torch.sqrt(x) * torch.sqrt(x)", "x"),
    ("x", "(x ** 3) ** (1 / 3)", "x"),
    ("x", "1 / (1 + torch.exp(x))", "torch.sigmoid(x)"),
    ("x", "1 / (1 - torch.exp(-x))", "torch.sigmoid(x)"),
    ("x", "1 / (2 + torch.exp(-x))", "torch.sigmoid(x)"),
    ("x", "0.7978845 * x", "0.797886 * x"),
    ("x", "0.044715 * x", "0.04471501 * x + 0"),
    ("x", "x.softmax(-1)", "x.softmax(-2)"),
    ("x", "x.softmax(1)", "x.softmax(-1)"),
    ("x", "x.mean(-1, keepdim=True)", "x.mean(-1)"),
    ("x", "x.mean(-1, keepdim=True)", "x.mean(1, keepdim=True)"),
    ("x", "x.mean(-1, keepdim=True)", "x.mean((-2, -1), keepdim=True)"),
    ("x", "x.mean()", "x.mean(-1)"),
    ("x", "x.var(-1, keepdim=True)", "x.var(-1, keepdim=True, unbiased=False)"),
    ("x", "x.std(-1, keepdim=True)", "x.std(-1, keepdim=True, unbiased=False)"),
    ("x", "x.std(-1, keepdim=True) + 1e-6", "torch.sqrt(x.var(-1, keepdim=True) + 1e-6)"),
    ("x", "x.transpose(-2, -1)", "x"),
    ("x", "x.transpose(1, 2)", "x.transpose(-2, -1)"),
    ("x", "x.permute(0, 2, 1, 3)", "x.permute(0, 1, 3, 2)"),
    ("x", "x.permute(1, 2, 0)", "x.permute(2, 0, 1)"),
    ("x", "x.float()", "x"),
    ("x", "x.float()", "x.double()"),
    ("x", "x.float().to(x.dtype)", "x"),
    ("x, y", "x.to(y.dtype)", "x"),
    ("x, y", "x.to(y.dtype)", "y.to(x.dtype)"),
    ("x", "x.softmax(-1, dtype=torch.float32)", "x.softmax(-1)"),
    ("x", "x.softmax(-1, dtype=torch.float64).to(x.dtype)", "x.softmax(-1)"),
    ("x", "x.softmax(-1, dtype=torch.bfloat16).to(x.dtype)", "x.softmax(-1)"),
    ("x, m", "x.masked_fill(m, 0.0)", "x.masked_fill(~m, 0.0)"),
    ("x, m", "x.masked_fill(m == 0, 1.0)", "x.masked_fill(m == 1, 1.0)"),
    ("x, m", "x.masked_fill(m, -1e9)", "x.masked_fill(m, -1e4)"),
    ("x, m", "x.masked_fill(m, -1e9)", "x.masked_fill(m, float('-inf'))"),
    ("x, m", "x.masked_fill(m, 1e9)", "x.masked_fill(m, -1e9)"),
    ("x, m", "torch.where(m, x, 0)", "torch.where(m, 0, x)"),
    ("x, m", "x + m", "x * m"),
    ("x, m", "x.masked_fill(m, -1e9)", "x + m * -1e9"),
    ("x", "F.dropout(x, 0.1, True)", "x"),
    ("x, t", "F.dropout(x, 0.1, t)", "F.dropout(x, 0.1, True)"),
    ("x, t", "F.dropout(x, 0.1, t)", "F.dropout(x, 0.2, t)"),
    ("x, t", "F.dropout(x, 0.1, t)", "F.dropout(x, 0.1, not t)"),
    ("x", "x[0]", "x[1]"),
    ("x", "x[:, 0]", "x[0]"),
    ("x", "x[..., :2]", "x[..., 2:]"),
    ("x", "x[:, :2]", "x[:2, :]"),
    ("x", "x[None]", "x[:, None]"),
    ("x", "x.chunk(2, -1)[0]", "x.chunk(2, -1)[1]"),
    ("x", "x.chunk(2, -1)[0]", "x.chunk(2, 0)[0]"),
    ("x", "x.chunk(2, -1)[0]", "x.chunk(3, -1)[0]"),
    ("x", "x.view(2, -1)", "x.view(-1, 2)"),
    ("x", "x.detach()", "x"),
    ("x", "x.tril()", "x.triu()"),
    ("x", "x.tril()", "x.tril(-1)"),
    ("x", "x.repeat_interleave(2, 1)", "x.repeat(1, 2, 1)"),
    ("x", "F.gelu(x)", "F.gelu(x, approximate='tanh')"),
    ("x", "F.relu(x)", "F.gelu(x)"),
    ("x, y", "(x, y)", "(y, x)"),
    ("x, y", "x", "(x,)"),
    ("x, c", "x if c else 2 * x", "2 * x if c else x"),
    ("x, c", "x if c is None else 2 * x", "x if c else 2 * x"),
    ("x, c, d", "x if c and d else 2 * x", "x if c or d else 2 * x"),
    ("x, c", "x if not c else 2 * x", "x if c else 2 * x"),
    ("x, c", "x if c > 1 else 2 * x", "x if c >= 1 else 2 * x"),
    ("x, c", "x if c == 1 else 2 * x", "x if c == 2 else 2 * x"),
    ("x", "x.reshape(x.size(0), -1)", "x.reshape(x.size(1), -1)"),
    ("x", "x // 2", "x / 2"),
    ("x", "torch.round(x)", "torch.floor(x)"),
    ("x", "torch.rand_like(x)", "torch.randn_like(x)"),
    ("q, k", "torch.einsum('bid,bjd->bij', q, k)", "torch.einsum('bid,bjd->bji', q, k)"),
    ("q, k", "torch.einsum('bhid,bhjd->bhij', q, k)", "torch.einsum('bhid,bhjd->bhij', k, q)"),
    ("q, k", "torch.einsum('bihd,bjhd->bhij', q, k)", "torch.einsum('bhid,bhjd->bhij', q, k)"),
    ("m, q, k", "torch.baddbmm(m, q, k, beta=1, alpha=2)", "torch.baddbmm(m, q, k, beta=2, alpha=1)"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "one", "other"), DIFFERENT, ids=[f"{a} | {b}" for _, a, b in DIFFERENT])
def test_different_programs_have_different_normal_forms(arguments: str, one: str, other: str) -> None:
    form = NormalForm()
    a, b = (normal(form, function_of(arguments, f"return {e}")) for e in (one, other))
    assert a is not b


@pytest.mark.parametrize(
    "expression",
    [
        "torch.rand(3)",
        "torch.randn_like(x)",
        "F.dropout(x, 0.5, True)",
        "torch.bernoulli(x)",
        "x.next()",
        "make(x)",
        "next(x)",
    ],
)
def test_two_runs_of_something_random_or_unknown_are_two_values(expression: str) -> None:
    form = NormalForm()
    node = normal(form, function_of("x", f"a = {expression}\nb = {expression}\nreturn a, b"))
    assert node.operation == "tuple" and node.inputs[0] is not node.inputs[1]


def test_a_read_before_a_change_in_place_is_not_a_read_after_it() -> None:
    form = NormalForm()
    for change in (
        "x.mul_(2)",
        "x += 1",
        "x[0] = 0",
        "x.copy_(y)",
        "x.zero_()",
        "x.data.add_(1)",
        "torch.add(x, 1, out=x)",
    ):
        node = normal(form, function_of("x, y", f"a = torch.tanh(x)\n{change}\nb = torch.tanh(x)\nreturn a, b"))
        assert node.inputs[0] is not node.inputs[1], change


def test_the_same_in_two_branches_is_no_branch() -> None:
    form = NormalForm()
    text = "def f(x, c):\n    if c:\n        y = torch.tanh(x)\n    else:\n        y = x.tanh()\n    return y\n"
    assert normal(form, text) is normal(form, "def f(x, c):\n    return torch.tanh(x)\n")
