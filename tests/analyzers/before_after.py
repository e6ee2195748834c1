"""Running a source text before and after its fixes, and comparing all that a caller could see.

A text under test defines either a function `f` or a module class `M` that is made without arguments. Its parameters get
values by their names (`INPUTS`), so that a test is the source text alone.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import itertools
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelwright.analyzers.analysis import FileAnalysis, Settings, analyse, fix
from kernelwright.analyzers.opportunity import FixResult, Tier

ALL_TIERS: frozenset[Tier] = frozenset({"exact", "guarded", "assumed"})
EVERY_TIER: frozenset[Tier] = ALL_TIERS | {"advice", "bug"}
BATCH, HEADS, WIDTH = 2, 3, 8

TOLERANCE = {torch.float64: 1e-5, torch.float32: 3e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
"""What two correct ways of computing values near 1 may differ by (float64: code that normalises in float32 is that exact)."""

CANNOT_COMPUTE = (RuntimeError, TypeError, NotImplementedError)
"""Errors of torch itself: where the old code ends so, there is nothing that the new code must keep."""


def source(text: str) -> str:
    """A dedented text with the imports that most model files have."""
    body = textwrap.dedent(text).lstrip("\n")
    head = "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
    return body if "import torch" in body else head + body


def fixed(text: str, tiers: frozenset[Tier] = ALL_TIERS, names: frozenset[str] | None = None) -> FixResult:
    """The text after all fixes of the named rules (None: of all but advice); it must compile and leave nothing to do."""
    result = fix(text, "model.py", Settings(rules=names), tiers, names)
    assert not result.withheld, f"an edit was planned and then withheld: {result.withheld[0][1]}"
    compile(result.text.removeprefix("\ufeff"), "model.py", "exec")
    again = fix(result.text, "model.py", Settings(rules=names), tiers, names)
    assert again.text == result.text and not again.applied, f"a second fix changes the text again:\n{again.text}"
    return result


def analysed(text: str, names: frozenset[str] | None = None) -> FileAnalysis:
    analysis = analyse(text, "model.py", Settings(rules=names))
    assert analysis.error is None
    return analysis


def reasons(text: str) -> list[str]:
    """Why no fix is offered at the places that look like one; no fix must be offered anywhere."""
    analysis = analysed(text)
    assert not analysis.opportunities, f"a fix is offered:\n{fix(text, 'model.py', Settings(), ALL_TIERS).text}"
    return [o.declined or "" for o in analysis.declined]


# ---- inputs by name


def _normal(*shape: int) -> Callable[[Case], torch.Tensor]:
    return lambda case: torch.randn(*shape, dtype=torch.float64) * case.magnitude


def _sequence(case: Case) -> torch.Tensor:
    return torch.randn(BATCH, case.length, WIDTH, dtype=torch.float64) * case.magnitude


def _heads(keys: bool) -> Callable[[Case], torch.Tensor]:
    def make(case: Case) -> torch.Tensor:
        length = case.keys if keys else case.length
        shape = (BATCH, HEADS, length, WIDTH) if case.rank == 4 else (BATCH * HEADS, length, WIDTH)
        return torch.randn(*shape, dtype=torch.float64) * case.magnitude

    return make


def _keep(case: Case) -> torch.Tensor:
    """A boolean mask, True keeps; every row has a key unless the case wants a row without any."""
    mask = torch.rand(BATCH, 1, case.length, case.keys) > 0.4
    mask[..., 0] = True
    if case.masked_row:
        mask[:, :, 1] = False
    return mask if case.rank == 4 else mask.expand(BATCH, HEADS, -1, -1).reshape(-1, case.length, case.keys)


def _additive(case: Case) -> torch.Tensor:
    keep = _keep(case)
    bias = torch.randn(keep.shape, dtype=torch.float64)
    return torch.where(keep, bias, torch.full_like(bias, -1e4))


INPUTS: dict[str, Callable[[Case], object]] = {
    "x": _sequence, "y": _sequence, "h": _sequence,
    "q": _heads(False), "k": _heads(True), "v": _heads(True),
    "keep": _keep,
    "drop": lambda case: ~_keep(case),
    "keep_numbers": lambda case: _keep(case).long(),
    "mask": _additive,
    "bias": lambda case: torch.randn(1, HEADS if case.rank == 4 else 1, case.length, case.keys, dtype=torch.float64)[
        0 if case.rank == 3 else slice(None)
    ],
    "weight": _normal(WIDTH),
    "shift": _normal(WIDTH),
    "times": lambda case: 2,
    "need_weights": lambda case: (False, True),
    "flag": lambda case: (False, True),
    "maybe_mask": lambda case: (None, _additive(case)),
    "maybe_drop": lambda case: (None, ~_keep(case)),
    "factor": lambda case: 0.3,
}  # fmt: skip
"""Values by parameter name; a tuple stands for several values, each of which is tried."""


@dataclass(frozen=True)
class Case:
    """The circumstances of a run. `dropout` sets the probability of every `nn.Dropout` in the module."""

    dtype: torch.dtype = torch.float32
    training: bool = False
    autocast: bool = False
    length: int = 5
    keys: int = 5
    rank: int = 4
    magnitude: float = 1.0
    masked_row: bool = False
    gradients: bool = True
    dropout: float = 0.0
    prepare: Callable[[Any], None] | None = None
    inputs: Mapping[str, Callable[[Case], object]] = field(default_factory=dict)
    parameters: torch.dtype | None = None
    oracle: bool = False


@dataclass(frozen=True)
class Seen:
    """All that a caller can see of one call: results, gradients, changed arguments, stored attributes, printed text."""

    tensors: dict[str, torch.Tensor]
    others: dict[str, object]


def namespace(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "model"}
    exec(compile(text.removeprefix("\ufeff"), "model.py", "exec"), names)
    return names


def calls(text: str, case: Case) -> Iterator[dict[str, object]]:
    """The arguments to try, one dict a call; tensors in the case's element type."""
    names = namespace(text)
    entry = names["f"] if "f" in names else names["M"]().forward
    made: dict[str, list[object]] = {}
    torch.manual_seed(7)
    table = {**INPUTS, **case.inputs}
    for name, parameter in inspect.signature(entry).parameters.items():
        if name in table:
            value = table[name](case)
            made[name] = list(value) if isinstance(value, tuple) else [value]
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise KeyError(f"no input for parameter {name}")
    for values in itertools.product(*made.values()):
        yield {name: _typed(value, case.dtype) for name, value in zip(made, values, strict=True)}


def _typed(value: object, dtype: torch.dtype) -> object:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


def seen(text: str, case: Case, arguments: Mapping[str, object]) -> Seen:
    """One call in a fresh namespace. An exception is a result too."""
    names = namespace(text)
    torch.manual_seed(11)
    module = None
    if "f" not in names:
        module = names["M"]()
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        module.to(case.parameters or case.dtype)
        if case.oracle:
            module.to(torch.float64)
        module.train(case.training)
        for child in module.modules():
            if isinstance(child, torch.nn.Dropout):
                child.p = case.dropout
        if case.prepare is not None:
            case.prepare(module)
    entry = names["f"] if module is None else module
    given = {k: v.clone() if isinstance(v, torch.Tensor) else copy.deepcopy(v) for k, v in arguments.items()}
    if case.oracle:
        given = {k: _typed(v, torch.float64) for k, v in given.items()}
    leaves = {k: v for k, v in given.items() if isinstance(v, torch.Tensor) and v.is_floating_point()}
    passed = dict(given)
    if case.gradients:
        for name, leaf in leaves.items():
            leaf.requires_grad_()
            passed[name] = leaf * 1  # not a leaf: code may change it in place
    printed = io.StringIO()
    tensors: dict[str, torch.Tensor] = {}
    others: dict[str, object] = {}
    by_position = list(inspect.signature(names["f"] if module is None else module.forward).parameters.values())
    positional = [passed[p.name] for p in by_position if p.name in passed and p.kind is not p.KEYWORD_ONLY]
    keywords = {p.name: passed[p.name] for p in by_position if p.name in passed and p.kind is p.KEYWORD_ONLY}
    grad = contextlib.nullcontext() if case.gradients else torch.no_grad()
    cast = (
        torch.autocast("cpu", dtype=torch.bfloat16) if case.autocast and not case.oracle else contextlib.nullcontext()
    )
    with contextlib.redirect_stdout(printed), grad, cast:
        try:
            result = entry(*positional, **keywords)
            if inspect.isgenerator(result):
                result = list(result)
        except Exception as error:
            others["error"] = type(error)
            result = None
    _flatten("result", result, tensors, others)
    for name, value in passed.items():
        _flatten(f"argument {name}", value, tensors, others)
    if module is not None:
        for name, value in module.__dict__.items():
            if isinstance(value, torch.Tensor):
                tensors[f"attribute {name}"] = value
    for name, value in names.items():
        if isinstance(value, torch.Tensor):
            tensors[f"global {name}"] = value
    others["printed"] = printed.getvalue()
    outputs = [t for n, t in tensors.items() if n.startswith("result") and t.requires_grad and t.is_floating_point()]
    if case.gradients and outputs:
        sources = [*leaves.items(), *(module.named_parameters() if module is not None else ())]
        total = sum((o.double() * _upstream(o)).sum() for o in outputs)
        assert isinstance(total, torch.Tensor)
        try:
            found = torch.autograd.grad(total, [t for _, t in sources], allow_unused=True)
        except RuntimeError as error:
            others["error"] = type(error)
            found = ()
        for (name, source_tensor), gradient in zip(sources, found, strict=False):
            # No gradient and a gradient of zeros are the same to an optimizer's caller.
            tensors[f"gradient of {name}"] = torch.zeros_like(source_tensor) if gradient is None else gradient
    return Seen({name: t.detach() for name, t in tensors.items()}, others)


def _upstream(output: torch.Tensor) -> torch.Tensor:
    """A gradient that differs at every element."""
    return torch.linspace(-1.0, 1.5, output.numel(), dtype=torch.float64).reshape(output.shape)


def _flatten(name: str, value: object, tensors: dict[str, torch.Tensor], others: dict[str, object]) -> None:
    if isinstance(value, torch.Tensor):
        tensors[name] = value
    elif isinstance(value, tuple | list):
        others[f"{name} length"] = (type(value).__name__, len(value))
        for index, part in enumerate(value):
            _flatten(f"{name}[{index}]", part, tensors, others)
    elif isinstance(value, dict):
        for key, part in value.items():
            _flatten(f"{name}[{key!r}]", part, tensors, others)
    else:
        others[name] = value


def differences(old: str, new: str, case: Case) -> list[str]:
    """What a caller could see differ between the two texts, over all arguments of the case.

    In half precision and under autocast both are compared with the old code run in float64 (T11): the new one may be as
    far from it as the old one was, within a factor of two.
    """
    found: list[str] = []
    for arguments in calls(old, case):
        before, after = seen(old, case, arguments), seen(new, case, arguments)
        if before.others.get("error") in CANNOT_COMPUTE:
            continue
        shown = {k: v for k, v in arguments.items() if not isinstance(v, torch.Tensor)}
        half = case.autocast or case.dtype in (torch.bfloat16, torch.float16)
        exact = seen(old, replace(case, oracle=True), arguments).tensors if half else {}
        if before.others != after.others:
            found.append(f"{shown}: {before.others} before, {after.others} after")
        if before.tensors.keys() != after.tensors.keys():
            found.append(f"{shown}: tensors {sorted(before.tensors.keys() ^ after.tensors.keys())} on one side only")
        for name in before.tensors.keys() & after.tensors.keys():
            difference = _difference(before.tensors[name], after.tensors[name], exact.get(name), case.autocast)
            if difference is not None:
                found.append(f"{shown}: {name}: {difference}")
    return found


def _difference(a: torch.Tensor, b: torch.Tensor, exact: torch.Tensor | None, autocast: bool) -> str | None:
    if a.dtype is not b.dtype:
        return f"{a.dtype} before, {b.dtype} after"
    if a.shape != b.shape:
        return f"{tuple(a.shape)} before, {tuple(b.shape)} after"
    if not a.is_floating_point():
        return None if torch.equal(a, b) else "other values"
    if not a.numel():
        return None
    reference = a.double() if exact is None else exact.double()
    scale = max(1.0, reference.nan_to_num(0, 0, 0).abs().max().item())
    allowed = TOLERANCE[torch.bfloat16 if autocast else a.dtype] * scale
    new_error = _error(b, reference)
    if new_error <= max(allowed, 2 * _error(a, reference)):
        return None
    return f"off by {new_error:.3g}, the old code by {_error(a, reference):.3g}"


def _error(a: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference; infinite where one is no number and the other is."""
    wide = a.double()
    same = (wide == reference) | (wide.isnan() & reference.isnan())
    return torch.where(same, 0.0, (wide - reference).abs().nan_to_num(math.inf, math.inf)).max().item()


MODES = tuple(Case(training=training, gradients=gradients) for training, gradients in
              ((False, False), (False, True), (True, True)))  # fmt: skip


def assert_same(old: str, new: str, *cases: Case) -> None:
    """Both texts do the same in every case (by default: eval, eval with gradients, training)."""
    for case in cases or MODES:
        found = differences(old, new, case)
        assert not found, f"the fix changes what the code does ({case}):\n" + "\n".join(found) + f"\n\n{new}"


def fixed_and_same(text: str, *cases: Case, tiers: frozenset[Tier] = ALL_TIERS) -> str:
    """The fixed text, which must differ from the text and do the same."""
    result = fixed(text, tiers)
    assert result.applied, f"no fix: {[o.declined for o in analysed(text).declined]}"
    assert_same(text, result.text, *cases)
    return result.text
