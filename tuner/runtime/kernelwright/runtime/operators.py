"""A kernel as a torch operator: a fake implementation for tracing, and exact gradients through the original function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.runtime.artefacts import Kernel, TensorSpec
from kernelwright.runtime.library import Function, LibraryError, load

ALIGNMENT = 64
"""Bytes; the compiled code loads vectors that are aligned so."""

_LIBRARY = torch.library.Library("kernelwright", "FRAGMENT")  # type: ignore[no-untyped-call]


class Operator:
    """One kernel bound to the function that it stands for.

    `direct` runs it with no dispatch, for plain tensors, and `differentiable` so that autograd knows; `traced` is the
    registered operator, which compilers see.
    """

    def __init__(self, kernel: Kernel, original: Callable[..., Any]) -> None:
        self.kernel = kernel
        self._original = original
        self._function: Function | None = None
        self._failed = False
        self._positions = tuple(i for i, a in enumerate(kernel.arguments) if isinstance(a, TensorSpec))
        self._fixed = list(kernel.arguments)
        self._outputs = tuple((spec.shape, getattr(torch, spec.dtype)) for spec in kernel.outputs)
        self._single = len(self._outputs) == 1
        inputs = [a for a in kernel.arguments if isinstance(a, TensorSpec)]
        self._like = inputs.index(kernel.outputs[0]) if kernel.outputs[0] in inputs else None
        self.traced = self._register()

    def direct(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The outputs for contiguous, aligned tensors of the kernel's shapes."""
        function = self._function or self._loaded()
        if function is None:
            return self._reference(tensors)
        if self._single:
            if self._like is not None:
                output = torch.empty_like(tensors[self._like])  # a microsecond less than to give shape and type
            else:
                shape, dtype = self._outputs[0]
                output = torch.empty(shape, dtype=dtype, device="cpu")
            function(*tensors, output)
            return output
        outputs = tuple(torch.empty(shape, dtype=dtype, device="cpu") for shape, dtype in self._outputs)
        function(*tensors, *outputs)
        return outputs

    def differentiable(self, tensors: Sequence[torch.Tensor]) -> Any:
        """As `direct`, recorded by autograd: a tenth of what a registered operator with a backward costs a call."""
        return _Recorded.apply(self, *tensors)  # type: ignore[no-untyped-call]

    def _loaded(self) -> Function | None:
        if self._failed:
            return None
        try:
            self._function = load(self.kernel)
        except LibraryError as error:
            self._failed = True
            warnings.warn(f"kernelwright: the tuned kernel is not used: {error}", RuntimeWarning, stacklevel=4)
        return self._function

    def _reference(self, tensors: Sequence[torch.Tensor]) -> Any:
        """What the original function gives for the tensors and the numbers that are compiled in."""
        arguments = list(self._fixed)
        for position, tensor in zip(self._positions, tensors, strict=True):
            arguments[position] = tensor  # type: ignore[call-overload]
        return self._original(*arguments)

    def _register(self) -> Any:
        kernel = self.kernel
        name = f"{kernel.program}_{kernel.fingerprint}".replace("-", "_").replace(".", "_")
        if hasattr(torch.ops.kernelwright, name):  # the same function imported twice (a reload)
            name = f"{name}_{id(self)}"
        inputs = ", ".join(f"Tensor a{position}" for position in self._positions)
        result = "Tensor" if self._single else f"({', '.join(['Tensor'] * len(self._outputs))})"
        _LIBRARY.define(f"{name}({inputs}) -> {result}", tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
        _LIBRARY.impl(name, self._kernel_call, "CPU")  # type: ignore[no-untyped-call]
        qualified = f"kernelwright::{name}"
        torch.library.register_fake(qualified, self._fake, lib=_LIBRARY)
        torch.library.register_autograd(qualified, self.backward, setup_context=_save, lib=_LIBRARY)
        return getattr(torch.ops.kernelwright, name).default

    def _kernel_call(self, *tensors: torch.Tensor) -> Any:
        return self.direct([t if fits_memory(t) else t.contiguous().clone() for t in tensors])

    def _fake(self, *tensors: torch.Tensor) -> Any:
        made = tuple(tensors[0].new_empty(shape, dtype=dtype) for shape, dtype in self._outputs)
        return made[0] if self._single else made

    def backward(self, context: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return self.gradients(context.saved_tensors, context.needs_input_grad, gradients)

    def gradients(
        self, saved: Sequence[torch.Tensor], wanted: Sequence[bool], gradients: Sequence[torch.Tensor | None]
    ) -> tuple[torch.Tensor | None, ...]:
        """Gradients of the original function, recomputed from the saved inputs; differentiable where that is asked for."""
        again = torch.is_grad_enabled()  # create_graph=True: gradients of the gradients are wanted
        with torch.enable_grad():
            # aliases: the same tensor given twice must get two gradients, not two times their sum
            inputs = [
                (t.view_as(t) if again else t.detach().requires_grad_()) if want else t
                for t, want in zip(saved, wanted, strict=True)
            ]
            outputs = self._reference(inputs)
            outputs = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
            pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None and o.requires_grad]
            given = torch.autograd.grad(
                [o for o, _ in pairs],
                [t for t, want in zip(inputs, wanted, strict=True) if want],
                [g for _, g in pairs],
                create_graph=again,
                allow_unused=True,
            )
        each = iter(given)
        return tuple(next(each) if want else None for want in wanted)


class _Recorded(torch.autograd.Function):
    """A kernel in eager autograd."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, *tensors: torch.Tensor) -> Any:
        ctx.operator = operator
        ctx.save_for_backward(*tensors)
        return operator.direct(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        wanted = ctx.needs_input_grad[1:]
        return (None, *ctx.operator.gradients(ctx.saved_tensors, wanted, gradients))


def _save(ctx: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def fits_memory(tensor: torch.Tensor) -> bool:
    """Whether the kernel can read the tensor in place."""
    return tensor.is_contiguous() and tensor.data_ptr() % ALIGNMENT == 0
