"""What is known of a value before running: a tensor's shape and element type, or a Python value. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor: extents (None where only running tells) and torch's element type name ("float32")."""

    shape: tuple[int | None, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """The number of elements; unknown extents count as 1."""
        count = 1
        for extent in self.shape:
            count *= 1 if extent is None else extent
        return count

    @property
    def bytes(self) -> int:
        return self.elements * item_size(self.dtype)


@dataclass(frozen=True, slots=True)
class DType:
    """An element type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A Python number or bool that only running tells (`x.max().item() > 0`)."""


UNKNOWN = Unknown()

Value = TensorType | DType | Unknown | bool | int | float | str | None | tuple["Value", ...]


class ShapeError(Exception):
    """A program whose shapes do not fit or cannot be known; the message names the operation and why."""


_FLOATS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_INTEGERS = {"uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8}
_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}


def dtype_name(name: str) -> str:
    """The canonical name: `torch.long`, `long` and `int64` are `int64`."""
    short = name.removeprefix("torch.")
    return _ALIASES.get(short, short)


def is_float(dtype: str) -> bool:
    return dtype in _FLOATS


def item_size(dtype: str) -> int:
    """Bytes of one element."""
    return 1 if dtype == "bool" else _FLOATS.get(dtype) or _INTEGERS.get(dtype) or 4


def _category(dtype: str) -> int:
    return 0 if dtype == "bool" else 2 if dtype in _FLOATS else 1


def _scalar_category(value: object) -> int:
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2


def promote(values: Sequence[Value]) -> str:
    """The element type of an elementwise operation, by torch's rules (type promotion, torch.result_type).

    Tensors with axes decide within a category (bool < integer < float); tensors without axes and Python numbers count
    only where their category is higher.
    """
    tensors = [v for v in values if isinstance(v, TensorType)]
    result: str | None = None
    for group in ([t for t in tensors if t.shape], [t for t in tensors if not t.shape]):
        own: str | None = None
        for tensor in group:
            own = tensor.dtype if own is None else _promoted(own, tensor.dtype)
        if own is not None and (result is None or _category(own) > _category(result)):
            result = own
    for value in values:
        if isinstance(value, bool | int | float | Unknown):
            category = 1 if isinstance(value, Unknown) else _scalar_category(value)
            if result is None or category > _category(result):
                result = ("bool", "int64", "float32")[category]
    if result is None:
        raise ShapeError("no number among the operands")
    return result


def _promoted(a: str, b: str) -> str:
    if a == b:
        return a
    if _category(a) != _category(b):
        return a if _category(a) > _category(b) else b
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    if {a, b} == {"uint8", "int8"}:
        return "int16"
    return a if item_size(a) >= item_size(b) else b


def broadcast(*shapes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The shape of an elementwise operation."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[int | None] = []
    for axis in range(-rank, 0):
        extent: int | None = 1
        for shape in shapes:
            other = shape[axis] if len(shape) >= -axis else 1
            if extent == 1:
                extent = other
            elif other not in (1, extent):
                if extent is None or other is None:
                    extent = extent if other is None else other
                else:
                    raise ShapeError(f"shapes {shapes} do not broadcast")
        result.append(extent)
    return tuple(result)
