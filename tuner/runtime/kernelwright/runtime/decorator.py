"""`@tuned("<program id>")`: calls the kernel that was tuned for these shapes on this machine, else the function itself.

The decision is made outside the operator, in Python: a compiler that traces the call sees either the kernel's operator or
the original function's own operations, never an opaque fallback.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import is_grad_enabled
from torch.compiler import is_compiling
from torch.fx.experimental.symbolic_shapes import statically_known_true

from kernelwright.runtime.artefacts import Kernel, TensorSpec, kernels
from kernelwright.runtime.operators import ALIGNMENT, Operator

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
"""Subclasses have their own ideas of what an operation is: they get the original function."""

_modes_active = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_is_tracing = torch._C._is_tracing


def tuned(program: str) -> Callable[[F], F]:
    """Decorate a function of tensors and numbers with the kernels built for `program`.

    Kernels are looked for once, here: `.kernelwright/` beside the function's file or in a folder above it. Without one
    that was built here for this machine the function is returned as it is.
    """

    def decorate(function: F) -> F:
        try:
            source = Path(inspect.getfile(function)).resolve()
        except (TypeError, OSError):
            return function
        built = [k for k in kernels(program, source) if k.device == "cpu"]
        return _with_kernels(function, built) if built else function

    return decorate


class _Choice:
    """One kernel with what its arguments must be, laid out for quick comparison."""

    def __init__(self, kernel: Kernel, function: Callable[..., Any]) -> None:
        self.operator = Operator(kernel, function)
        self.autocast = kernel.autocast
        self.count = len(kernel.arguments)
        self.tensors = tuple(
            (i, torch.Size(a.shape), getattr(torch, a.dtype))
            for i, a in enumerate(kernel.arguments)
            if isinstance(a, TensorSpec)
        )
        self.numbers = tuple((i, a) for i, a in enumerate(kernel.arguments) if not isinstance(a, TensorSpec))


def _with_kernels(function: F, built: Sequence[Kernel]) -> F:
    choices = tuple(_Choice(kernel, function) for kernel in built)
    signature = inspect.signature(function)
    count = len(signature.parameters)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords or len(arguments) < count:
            arguments = _positional(signature, arguments, keywords)
        if is_compiling():
            return _traced(function, choices, arguments)
        if _modes_active() or _transforms() is not None or _is_tracing():
            return function(*arguments)  # somebody records or transforms the operations: show them the function's own
        for choice in choices:
            tensors = _fitting(choice, arguments)
            if tensors is not None:
                if is_grad_enabled() and _any_requires_grad(tensors):
                    return choice.operator.differentiable(tensors)
                return choice.operator.direct(tensors)
        return function(*arguments)

    return cast(F, call)


def _any_requires_grad(tensors: Sequence[torch.Tensor]) -> bool:
    for tensor in tensors:  # noqa: SIM110  # a generator costs half a microsecond
        if tensor.requires_grad:
            return True
    return False


def _positional(signature: inspect.Signature, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    bound = signature.bind(*arguments, **keywords)
    bound.apply_defaults()
    return bound.args


def _fitting(choice: _Choice, arguments: Sequence[Any]) -> list[torch.Tensor] | None:
    """The kernel's tensors among the arguments; None where it must not be called for them."""
    if len(arguments) != choice.count:
        return None
    for position, value in choice.numbers:
        given = arguments[position]
        if given.__class__ is not value.__class__ or given != value:
            return None
    tensors: list[torch.Tensor] = []
    for position, shape, dtype in choice.tensors:
        tensor = arguments[position]
        if (
            tensor.__class__ not in _PLAIN
            or tensor.shape != shape
            or tensor.dtype is not dtype
            or not tensor.is_cpu
            or not tensor.is_contiguous()
            or tensor.data_ptr() % ALIGNMENT
        ):
            return None
        tensors.append(tensor)
    if not choice.autocast and torch.is_autocast_enabled("cpu"):
        return None
    return tensors


def _traced(function: Callable[..., Any], choices: Sequence[_Choice], arguments: Sequence[Any]) -> Any:
    """The same decision while a compiler traces. An exported program is for other machines too: the function itself."""
    if torch.compiler.is_exporting():
        return function(*arguments)
    for choice in choices:
        if _fits_traced(choice, arguments):
            return choice.operator.traced(*[arguments[position] for position, _, _ in choice.tensors])
    return function(*arguments)


def _fits_traced(choice: _Choice, arguments: Sequence[Any]) -> bool:
    if len(arguments) != choice.count or (torch.is_autocast_enabled("cpu") and not choice.autocast):
        return False
    for position, value in choice.numbers:
        given = arguments[position]
        if type(given) is not type(value) or given != value:
            return False
    for position, shape, dtype in choice.tensors:
        tensor = arguments[position]
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != dtype or tensor.device.type != "cpu":
            return False
        if tensor.dim() != len(shape) or not tensor.is_contiguous():
            return False
        for extent, wanted in zip(tensor.shape, shape, strict=True):
            # an extent that is dynamic stays so: a comparison would bind it
            if not statically_known_true(extent == wanted):
                return False
    return True
