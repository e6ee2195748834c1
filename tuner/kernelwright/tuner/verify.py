"""Did before and after run equal? Both programs against a double-precision oracle, with gradients. Needs torch.

After may be as wrong as before is, a few times over, or within the element type's tolerance, whichever is more: two
right programs differ by rounding, and a kernel that is more exact than the code it replaces is no fault. Element type,
shape and number of the outputs must be the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.workload import Workload
from kernelwright.tuner.evidence import Case, Verification
from kernelwright.tuner.execute import Argument, Executable, NotExecutable, compile_program
from kernelwright.tuner.inputs import InputCase, build, cases
from kernelwright.tuner.miniature import miniature
from kernelwright.tuner.rewriting import rebuilt
from kernelwright.tuner.values import ShapeError

FACTOR = 4.0
"""after's error may be this many times before's."""

TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 5e-3, torch.bfloat16: 2e-2}
"""Error that any right program may have, relative to the largest value: some 40 units of float32, 2.5 of the halves."""

GRADIENT_SLACK = 4.0
"""Gradients sum over many elements: their tolerance is this many times the outputs'."""


@dataclass(frozen=True, slots=True)
class _Precision:
    name: str
    dtype: torch.dtype
    autocast: bool


_PRECISIONS = (
    _Precision("float32", torch.float32, False),
    _Precision("bfloat16", torch.bfloat16, False),
    _Precision("autocast bfloat16", torch.float32, True),
)
_MODES = ("train", "eval", "no_grad")
_SEED = 17


@dataclass(frozen=True, slots=True)
class _Results:
    """What a run gave: its outputs and the gradients of the inputs that need one (None: not reached)."""

    outputs: tuple[object, ...]
    gradients: tuple[torch.Tensor | None, ...]


def verify(
    workload: Workload,
    *,
    progress: Callable[[str, float | None], None] = lambda message, fraction: None,
    check: Callable[[], None] = lambda: None,
) -> Verification:
    """Run both programs in every mode, precision and input case, at shapes made small.

    `check` is called between cases and may raise to cancel. Dropout runs with p = 0: what is random cannot be compared.
    """
    small = miniature(workload)
    small = dataclasses.replace(small, before=_without_dropout(small.before), after=_without_dropout(small.after))
    found: list[Case] = []
    skipped: str | None = None
    threads = torch.get_num_threads()
    # one thread: at these sizes a second one only waits for a core where the machine is busy
    torch.set_num_threads(1)
    try:
        matrix = [(precision, case) for precision in _PRECISIONS for case in cases(small)]
        for done, (precision, case) in enumerate(matrix):
            for mode in _MODES:
                check()
                name = f"{mode}, {precision.name}, {case.name}"
                progress(f"verifying: {name}", done / len(matrix))
                try:
                    found.append(_compare(small, precision, case, mode, name))
                except _BeforeFails as reason:
                    skipped = skipped or f"{name}: {reason}"
    except (ShapeError, NotExecutable) as error:
        return Verification(None, tuple(found), f"cannot be run alone: {error}")
    finally:
        torch.set_num_threads(threads)
    if not found:
        return Verification(None, (), f"the present code itself does not run on made-up inputs: {skipped}")
    return Verification(all(case.equal for case in found), tuple(found))


class _BeforeFails(Exception):
    """The present code itself raises in this case: there is nothing to compare with."""


def _compare(workload: Workload, precision: _Precision, case: InputCase, mode: str, name: str) -> Case:
    training = mode == "train"
    arguments = build(workload, case, dtype=precision.dtype, training=training, seed=_SEED)
    names = [str(node.attribute("name")) for node in workload.before.inputs]
    wanted = [training and n in workload.needs_gradient for n in names]
    hidden = _hidden(workload, precision, case, training) if case.masked_row else None
    try:
        before = _run(workload.before, arguments, wanted, precision, mode, hidden)
    except NotExecutable:
        raise
    except Exception as error:
        raise _BeforeFails(_first_line(error)) from error
    try:
        after = _run(workload.after, arguments, wanted, precision, mode, hidden)
    except NotExecutable:
        raise
    except Exception as error:
        return Case(name, False, 0.0, float("inf"), f"after raises: {_first_line(error)}")
    oracle = _oracle(workload.before, arguments, wanted, hidden)
    result = _verdict(workload, precision, (before, after, oracle), hidden, name)
    if hidden is None or not result.equal or not any(wanted):
        return result
    full = [_run(p, arguments, wanted, precision, mode, None) for p in (workload.before, workload.after)]
    tolerance = TOLERANCE[torch.bfloat16 if precision.autocast else precision.dtype] * GRADIENT_SLACK
    for old, new in zip(full[0].gradients, full[1].gradients, strict=True):
        if old is not None and new is not None and not _compare_tensors(old, new, old, tolerance, None).equal:
            return _told(result, "gradients that flow back through the fully masked row differ", "other gradients")
    return result


def _hidden(
    workload: Workload, precision: _Precision, case: InputCase, training: bool
) -> tuple[torch.Tensor | None, ...]:
    """For each output, the elements that hang on the fully masked row: those that change when the row is masked.

    What stands there has no meaning (the mean over padding, or NaN), and its gradient poisons the others': softmax over
    nothing but the smallest number loses its normaliser to rounding in kernels that keep log-sum-exp.
    """
    pair = []
    for which in (case, dataclasses.replace(case, masked_row=False)):
        arguments = build(workload, which, dtype=precision.dtype, training=training, seed=_SEED)
        pair.append(_oracle(workload.before, arguments, [False] * len(arguments), None).outputs)
    return tuple(
        a != b if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else None
        for a, b in zip(*pair, strict=True)
    )


def _verdict(
    workload: Workload,
    precision: _Precision,
    results: tuple[_Results, _Results, _Results],
    hidden: tuple[torch.Tensor | None, ...] | None,
    name: str,
) -> Case:
    """The case from before, after and oracle. What is tolerated in a fully masked row stands in the name and detail.

    Tolerated there: NaN before (a boolean mask filled with -inf), and any value under autocast, which turns the mask's
    smallest float32 into -inf.
    """
    before, after, oracle = results
    if len(before.outputs) != len(after.outputs):
        return Case(name, False, 0.0, 0.0, f"{len(after.outputs)} outputs instead of {len(before.outputs)}")
    tolerance = TOLERANCE[torch.bfloat16 if precision.autocast else precision.dtype]
    boolean = any(role in ("keep_mask", "drop_mask") for _, role in workload.roles)
    verdicts: list[tuple[str, _Verdict]] = []
    for i, (old, new, exact) in enumerate(zip(before.outputs, after.outputs, oracle.outputs, strict=True)):
        rows = None if hidden is None else hidden[i]
        tolerated = None
        if rows is not None and isinstance(old, torch.Tensor) and rows.shape == old.shape:
            tolerated = rows if precision.autocast else rows & old.isnan() if boolean else None
        label = f"output {i}" if len(before.outputs) > 1 else "output"
        verdicts.append((label, _compare_values(old, new, exact, tolerance, tolerated)))
    for i, (g, h, exact_g) in enumerate(zip(before.gradients, after.gradients, oracle.gradients, strict=True)):
        tolerated = g.isnan() if hidden is not None and boolean and g is not None else None
        label = f"gradient {i + 1}"
        verdicts.append((label, _compare_values(g, h, exact_g, tolerance * GRADIENT_SLACK, tolerated)))
    case = Case(
        name,
        all(v.equal for _, v in verdicts),
        max((v.error_before for _, v in verdicts), default=0.0),
        max((v.error_after for _, v in verdicts), default=0.0),
        "; ".join(f"{label}: {v.detail}" for label, v in verdicts if v.detail),
    )
    if hidden is not None and any(v.nan_before for _, v in verdicts):
        return _told(case, "", "NaN before")
    if hidden is not None and any(v.differs for _, v in verdicts):
        return _told(case, "", "other values")
    return case


def _told(case: Case, detail: str, what: str) -> Case:
    """`case` with a difference in the fully masked row that does not count but is to be seen."""
    name = case.name if "fully masked row:" in case.name else case.name.replace("masked row", f"masked row: {what}")
    return dataclasses.replace(case, name=name, detail="; ".join(filter(None, (case.detail, detail))))


@dataclass(frozen=True, slots=True)
class _Verdict:
    """One value before and after: equal or not; whether something tolerated was NaN before, or differs otherwise."""

    equal: bool
    error_before: float = 0.0
    error_after: float = 0.0
    detail: str = ""
    nan_before: bool = False
    differs: bool = False


def _compare_values(
    before: object, after: object, oracle: object, tolerance: float, tolerated: torch.Tensor | None
) -> _Verdict:
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and isinstance(oracle, torch.Tensor):
        return _compare_tensors(before, after, oracle, tolerance, tolerated)
    if isinstance(before, torch.Tensor) or isinstance(after, torch.Tensor):
        return _Verdict(False, 0.0, float("inf"), f"{type(after).__name__} instead of {type(before).__name__}")
    if before == after:
        return _Verdict(True)
    return _Verdict(False, 0.0, float("inf"), f"{after!r} instead of {before!r}")


def _compare_tensors(
    before: torch.Tensor, after: torch.Tensor, oracle: torch.Tensor, tolerance: float, tolerated: torch.Tensor | None
) -> _Verdict:
    if before.dtype != after.dtype:
        return _Verdict(False, detail=f"element type {after.dtype} instead of {before.dtype}")
    if before.shape != after.shape:
        return _Verdict(False, detail=f"shape {tuple(after.shape)} instead of {tuple(before.shape)}")
    if not before.dtype.is_floating_point:
        same = bool((before == after).all())
        return _Verdict(same, 0.0, 0.0 if same else float("inf"), "" if same else "other values")
    old, new, exact = before.double(), after.double(), oracle.double()
    free = torch.zeros_like(old, dtype=torch.bool) if tolerated is None else tolerated
    was_nan, is_nan = old.isnan(), new.isnan()
    if bool((is_nan & ~was_nan & ~free).any()):
        return _Verdict(False, 0.0, float("inf"), "new is NaN where old is not")
    detail, cured = "", was_nan & ~is_nan
    if bool(cured.any()):
        value = float(new[cured].abs().max())
        what = "0" if value == 0 else "finite"
        where = "" if tolerated is None else " (fully masked row)"
        detail = f"old is NaN{where}, new is {what}"
        if bool((cured & ~free).any()):
            return _Verdict(False, float("inf"), 0.0, detail)
    compared = ~was_nan & ~exact.isnan() & ~free
    scale = _scale(exact[compared])
    error_before = _error(old[compared], exact[compared], scale)
    error_after = _error(new[compared], exact[compared], scale)
    limit = max(FACTOR * error_before, tolerance)
    differs = bool(((new - old).abs()[free & ~was_nan] > limit * scale).any())
    if differs:
        detail = "; ".join(filter(None, (detail, "the fully masked row has other values")))
    if error_after > limit:
        message = f"error {error_after:.3g} against {error_before:.3g} before (tolerance {tolerance:.1g})"
        detail = "; ".join(filter(None, (detail, message)))
    return _Verdict(error_after <= limit, error_before, error_after, detail, bool(cured.any()), differs)


def _scale(exact: torch.Tensor) -> float:
    """The largest finite magnitude; differences are relative to it. Never below 1e-9: nothing is compared to zero."""
    finite = exact[exact.isfinite()]
    return max(float(finite.abs().max()) if finite.numel() else 0.0, 1e-9)


def _error(value: torch.Tensor, exact: torch.Tensor, scale: float) -> float:
    """The largest difference relative to `scale`; equal infinities differ by nothing."""
    if not value.numel():
        return 0.0
    difference = torch.where(value == exact, torch.zeros_like(exact), (value - exact).abs())
    return float(difference.nan_to_num(nan=float("inf")).max()) / scale


def _run(
    program: Program,
    arguments: Sequence[Argument],
    wanted: Sequence[bool],
    precision: _Precision,
    mode: str,
    hidden: Sequence[torch.Tensor | None] | None,
) -> _Results:
    executable = compile_program(program, arguments, autocast=precision.autocast)
    with contextlib.ExitStack() as stack:
        if mode == "no_grad":
            stack.enter_context(torch.no_grad())
        return _results(executable, arguments, wanted, hidden, autocast=precision.autocast)


def _oracle(
    program: Program,
    arguments: Sequence[Argument],
    wanted: Sequence[bool],
    hidden: Sequence[torch.Tensor | None] | None,
) -> _Results:
    """`program` in double precision on the same numbers."""
    doubled = [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]
    with _double_by_default():
        return _results(compile_program(program, doubled, oracle=True), doubled, wanted, hidden, autocast=False)


@contextlib.contextmanager
def _double_by_default() -> Iterator[None]:
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(kept)


def _results(
    executable: Executable,
    arguments: Sequence[Argument],
    wanted: Sequence[bool],
    hidden: Sequence[torch.Tensor | None] | None,
    *,
    autocast: bool,
) -> _Results:
    """One run on fresh copies; no gradient enters at the `hidden` elements of the outputs."""
    fresh = [
        a.detach().clone(memory_format=torch.preserve_format).requires_grad_(w) if isinstance(a, torch.Tensor) else a
        for a, w in zip(arguments, wanted, strict=True)
    ]
    context = torch.autocast("cpu", dtype=torch.bfloat16) if autocast else contextlib.nullcontext()
    with context:
        result = executable(*fresh)
    outputs = tuple(_flat(result))
    leaves = [a for a, w in zip(fresh, wanted, strict=True) if w and isinstance(a, torch.Tensor)]
    targets: list[torch.Tensor] = []
    grads: list[torch.Tensor] = []
    for i, output in enumerate(outputs):
        if isinstance(output, torch.Tensor) and output.requires_grad:
            gradient = upstream(output)
            rows = None if hidden is None or i >= len(hidden) else hidden[i]
            if rows is not None and rows.shape == gradient.shape:
                gradient = gradient.masked_fill(rows, 0.0)
            targets.append(output)
            grads.append(gradient)
    gradients: tuple[torch.Tensor | None, ...] = (None,) * len(leaves)
    if leaves and targets:
        gradients = torch.autograd.grad(targets, leaves, grads, allow_unused=True)
    return _Results(tuple(_detached(o) for o in outputs), gradients)


def upstream(output: torch.Tensor) -> torch.Tensor:
    """A gradient that differs from element to element: a uniform one hides wrong sums (softmax's is 0 under it)."""
    steps = torch.arange(output.numel(), dtype=torch.float64)
    return (torch.sin(steps * 0.7) + 0.3).reshape(output.shape).to(output.dtype)


def _flat(result: object) -> Iterator[object]:
    if isinstance(result, tuple | list):
        for part in result:
            yield from _flat(part)
    else:
        yield result


def _detached(output: object) -> object:
    return output.detach() if isinstance(output, torch.Tensor) else output


def _without_dropout(program: Program) -> Program:
    def change(node: Node) -> Node:
        position = {"dropout": 1, "scaled_dot_product_attention": 4}.get(node.operation)
        if position is None or len(node.inputs) <= position:
            return node
        zero = Node("constant", (), (("value", 0.0),))
        return dataclasses.replace(node, inputs=(*node.inputs[:position], zero, *node.inputs[position + 1 :]))

    return rebuilt(program, change)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
