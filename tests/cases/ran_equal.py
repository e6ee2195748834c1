"""Two modules on the same inputs: same outputs, dtypes and gradients, in every mode? Needs torch only.

The measure is an oracle: the old module in float64. In float64 the new module must agree with it to rounding; in float32 and
under bfloat16 autocast the new one may be at most a few times as far from the oracle as the old one is.
"""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor, nn

Inputs = Callable[[torch.dtype], Mapping[str, Any]]
"""Keyword arguments of one call, made anew for a dtype and equal up to rounding for all: masks depend on the dtype."""


@dataclass(frozen=True)
class Check:
    """One comparison: what it was, whether it holds, and the figures where it does not."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class Run:
    """What one call gave: tensors by path (outputs, then gradients as `d <path>`) and the outputs' structure."""

    values: dict[str, Tensor]
    structure: list[str]


@dataclass(frozen=True)
class Mode:
    name: str
    dtype: torch.dtype
    training: bool = False
    gradient: bool = False
    autocast: bool = False


MODES = (
    Mode("float64 training", torch.float64, training=True, gradient=True),
    Mode("float64 eval", torch.float64, gradient=True),
    Mode("float32 training", torch.float32, training=True, gradient=True),
    Mode("float32 eval", torch.float32, gradient=True),
    Mode("float32 eval, no gradient", torch.float32),
    Mode("bfloat16 autocast training", torch.float32, training=True, gradient=True, autocast=True),
    Mode("bfloat16 autocast eval, no gradient", torch.float32, autocast=True),
    Mode("bfloat16 eval", torch.bfloat16, gradient=True),
)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of nested tuples, lists and mappings with its path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, tuple | list):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def mapped(value: Any, change: Callable[[str, Tensor], Tensor], path: str = "") -> Any:
    """The same nesting with every tensor changed; `change` gets the tensor's path."""
    if isinstance(value, Tensor):
        return change(path, value)
    if isinstance(value, Mapping):
        return {key: mapped(inner, change, f"{path}.{key}") for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(mapped(inner, change, f"{path}[{index}]") for index, inner in enumerate(value))
    return value


def run(module: nn.Module, inputs: Inputs, mode: Mode, unread: Tensor | None = None, inputs_too: bool = True) -> Run:
    """One call in one mode. Gradients are taken with a random upstream; tensors named `*mask*` are not differentiated.

    Args:
        inputs_too: differentiate the inputs, not the parameters only.
        unread: bool (batch, length): rows of the outputs that get no gradient, and no comparison under autocast.
    """
    module.train(mode.training)
    module.zero_grad(set_to_none=True)
    differentiated: dict[str, Tensor] = {}

    def leaf(path: str, tensor: Tensor) -> Tensor:
        tensor = tensor.detach().clone()
        if mode.gradient and inputs_too and tensor.is_floating_point() and "mask" not in path:
            differentiated[path] = tensor.requires_grad_()
        return tensor

    arguments = mapped(dict(inputs(mode.dtype)), leaf)
    torch.manual_seed(1)
    numpy.random.seed(1)  # some models draw with numpy, or with Python, while training
    random.seed(1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if mode.dtype == torch.float64:  # masks that models build for themselves follow it
            torch.set_default_dtype(torch.float64)
            stack.callback(torch.set_default_dtype, torch.float32)
        if not mode.gradient:
            stack.enter_context(torch.no_grad())
        if mode.autocast:
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        found = list(leaves(module(**arguments)))
    structure = []
    values: dict[str, Tensor] = {}
    for path, value in found:
        if isinstance(value, Tensor):
            structure.append(f"{path}: {value.dtype} {tuple(value.shape)} gradient={value.requires_grad}")
            values[path] = value
        else:
            structure.append(f"{path}: {value!r}")
    if mode.gradient:
        generator = torch.Generator().manual_seed(2)
        loss = torch.zeros((), dtype=torch.float64)
        for value in values.values():
            upstream = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            if unread is not None and value.shape[:2] == unread.shape:
                upstream[unread] = 0.0
            if value.requires_grad:
                loss = loss + (value.double() * upstream).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        named = [*differentiated.items(), *module.named_parameters()]
        values |= {f"d {path}": tensor.grad for path, tensor in named if tensor.grad is not None}
    values = {path: value.detach().double().clone() for path, value in values.items()}
    for value in values.values():
        if mode.autocast and unread is not None and value.shape[:2] == unread.shape:
            value[unread] = 0.0
    return Run(values, structure)


def compare(
    name: str,
    old: nn.Module,
    new: nn.Module,
    inputs: Inputs,
    *,
    modes: tuple[Mode, ...] = MODES,
    exact: float = 1e-9,
    factor: float = 3.0,
    unread: Tensor | None = None,
    oracle_dtype: torch.dtype = torch.float64,
    inputs_too: bool = True,
) -> Iterator[Check]:
    """Compare two modules that hold the same weights (in float64), one check a mode.

    Args:
        exact: largest difference in float64, relative to the largest value; 1e-5 where the code itself computes in float32.
        factor: how many times the old module's error the new one's may be in lower precision.
        unread: bool (batch, length), the queries that may see no key. torch's fused attention gives such a row no right
            gradient, and under autocast, where the mask's minimum becomes -inf, zero instead of the mean of v. Nobody
            reads the row: so it gets no gradient here. All other rows, and what flows back from them, must be equal.
        oracle_dtype: float32 where the old code gives NaN in float64; modes of higher precision are left out.
        inputs_too: compare the gradients of the inputs, besides those of the parameters.
    """
    weights = {key: value.clone() for key, value in old.double().state_dict().items()}
    oracles: dict[bool, Run] = {}
    for mode in modes:
        if torch.finfo(mode.dtype).bits > torch.finfo(oracle_dtype).bits:
            continue
        for module in (old, new):
            module.double().load_state_dict(weights, strict=False)
        oracle = oracles.get(mode.training)
        if oracle is None:
            oracle = run(
                old.to(oracle_dtype),
                inputs,
                Mode("oracle", oracle_dtype, mode.training, gradient=True),
                unread,
                inputs_too,
            )
            oracles[mode.training] = oracle
        before = run(old.to(mode.dtype), inputs, mode, unread, inputs_too)
        try:
            after = run(new.to(mode.dtype), inputs, mode, unread, inputs_too)
        except Exception as error:  # whatever the new code does wrong is a finding, not the end
            yield Check(f"{name}, {mode.name}", False, f"raises {type(error).__name__}: {error}")
            continue
        yield Check(f"{name}, {mode.name}", *_judged(oracle, before, after, mode, exact, factor))
    for module in (old, new):
        module.double().load_state_dict(weights, strict=False)


def _judged(oracle: Run, before: Run, after: Run, mode: Mode, exact: float, factor: float) -> tuple[bool, str]:
    if before.structure != after.structure:
        pairs = zip(before.structure, after.structure, strict=False)
        differing = [f"{a} became {b}" for a, b in pairs if a != b]
        return False, "; ".join(differing[:3]) or f"{len(before.structure)} outputs became {len(after.structure)}"
    if before.values.keys() != after.values.keys():
        return False, f"gradients differ in kind: {sorted(before.values.keys() ^ after.values.keys())}"
    if not any(value.isfinite().any() or not value.numel() for value in before.values.values()):
        return False, "nothing to compare"
    bfloat16 = mode.autocast or mode.dtype == torch.bfloat16
    # Below this share of the largest value a difference is rounding, whatever the old module's own error happens to be.
    floor = exact if mode.dtype == torch.float64 else 2.0**-7 if bfloat16 else 2.0**-19
    sizes = {path: _largest(value) for path, value in oracle.values.items()}
    # A gradient that is zero but for rounding (of a key's bias) is measured by the size of the others.
    least = 0.1 * max((size for path, size in sizes.items() if path.startswith("d ")), default=0.0)
    for path, one in before.values.items():
        two, truth = after.values[path], oracle.values[path]
        if not torch.equal(one.isnan(), two.isnan()):
            return False, f"{path}: {int(one.isnan().sum())} NaN before, {int(two.isnan().sum())} after"
        known = ~one.isnan() & ~truth.isnan() & (one != two)  # equal infinities have no difference
        if not known.any():
            continue
        size = max(sizes[path], least) if path.startswith("d ") else sizes[path]
        error_before = (one - truth)[known].abs().max().item()
        error_after = (two - truth)[known].abs().max().item()
        if not error_after <= factor * error_before * (mode.dtype != torch.float64) + floor * size:
            return False, f"{path}: off by {error_after:.2e} of {size:.2e} (before: {error_before:.2e})"
    return True, ""


def _largest(value: Tensor) -> float:
    finite = value[value.isfinite()].abs()
    return finite.max().item() if finite.numel() else 0.0


def compare_state(old: nn.Module, new: nn.Module) -> Iterator[Check]:
    """Names, shapes and order of parameters and buffers; an old checkpoint loads into the new class, strictly."""
    keys, new_keys = ([(k, tuple(v.shape)) for k, v in m.state_dict().items()] for m in (old, new))
    yield Check("state-dict keys", keys == new_keys, f"{keys} became {new_keys}" if keys != new_keys else "")
    try:
        new.load_state_dict(old.state_dict(), strict=True)
        yield Check("old checkpoint loads", True)
    except RuntimeError as error:
        yield Check("old checkpoint loads", False, str(error))


def compare_dropout(name: str, old: nn.Module, new: nn.Module, inputs: Inputs, runs: int = 200) -> Iterator[Check]:
    """Both modules drop out in training, with the same distribution; not in eval; not where the dropout layers are in eval.

    The distribution is judged by mean and variance of each output element over `runs` seeds, which fixes the rate and
    where it is applied. Seeds are fixed: the result is the same on every run.
    """
    for module in (old, new):
        module.double()

    def sample(module: nn.Module, seed: int) -> Tensor:
        torch.manual_seed(seed)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [v for _, v in leaves(module(**inputs(torch.float64))) if isinstance(v, Tensor)]
        return found[0]

    for module in (old, new):
        module.eval()
    still, again, reference = sample(new, 1), sample(new, 2), sample(old, 1)
    yield Check(f"{name}, eval is deterministic", torch.equal(still, again))
    yield Check(f"{name}, eval as before", torch.allclose(still, reference, rtol=1e-5, atol=1e-6))
    new.train()
    for child in new.modules():
        if isinstance(child, nn.Dropout):
            child.eval()
    yield Check(f"{name}, dropout layers in eval under a training parent", torch.allclose(sample(new, 3), still))
    for module in (old, new):
        module.train()
    yield Check(f"{name}, training drops out", not torch.equal(sample(new, 1), sample(new, 2)))
    draws_before = torch.stack([sample(old, seed) for seed in range(runs)])
    draws_after = torch.stack([sample(new, runs + seed) for seed in range(runs)])
    variances = draws_before.var(0), draws_after.var(0)
    scale = ((variances[0] + variances[1]) / runs).sqrt()
    moving = scale > 1e-12
    deviations = (draws_before.mean(0) - draws_after.mean(0))[moving] / scale[moving]
    spread, ratio = deviations.square().mean().item(), (variances[1].sum() / variances[0].sum()).item()
    # Over independent elements the mean square of a standard deviation is 1; ours are correlated, so it scatters more.
    yield Check(f"{name}, same mean under dropout", spread < 2.0, f"mean square deviation {spread:.2f}")
    yield Check(f"{name}, same variance under dropout", 0.8 < ratio < 1.25, f"variance ratio {ratio:.2f}")
