"""Counts of one run that no clock can blur: operations launched, bytes moved, bytes saved for backward. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.tuner.evidence import Counts

_NO_WORK = frozenset(
    (
        "aten._unsafe_view.default",
        "aten.empty.memory_format",
        "aten.empty_like.default",
        "aten.empty_strided.default",
        "aten.new_empty.default",
        "aten.new_empty_strided.default",
        "aten.lift_fresh.default",
        "aten.is_same_size.default",
    )
)
"""Operations that touch no element, beside the views (which their schemas tell)."""


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what reaches the kernels: composite operations arrive here in their parts."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0
        self.bytes_moved = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if str(func) in _NO_WORK or _is_view(func):
            return result
        self.operations += 1
        read = {id(t): touched_bytes(t) for t in _tensors((args, tuple((kwargs or {}).values())))}
        written = {id(t): touched_bytes(t) for t in _tensors(result)}
        self.bytes_moved += sum(read.values()) + sum(written.values())
        return result


def _is_view(func: Any) -> bool:
    """Whether an output is a view of an input: its schema marks it as an alias that is not written to."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


def touched_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the distinct elements of `tensor`: an expanded axis is read once."""
    count = 1
    for extent, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= extent if stride != 0 or extent == 0 else 1
    return count * tensor.element_size()


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)


def count(run: Callable[[Callable[[], object]], object], forward: Callable[[], object]) -> Counts:
    """The counts of `run(forward)`: `run` makes the whole pass (with the backward where there is one).

    Saved bytes are those of distinct storages kept between forward and backward, the inputs' among them.
    """
    counter = _Counter()
    saved: dict[int, int] = {}
    alive: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in saved:
            alive.append(tensor)  # freed storage would be reused at the same address and not be counted
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), counter:
        run(forward)
    return Counts(counter.operations, counter.bytes_moved, sum(saved.values()))
