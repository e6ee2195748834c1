"""torch's element types by qualified name -> their names in the architecture language."""

from __future__ import annotations

_NAMES = {
    "float32": "float32 float",
    "float64": "float64 double",
    "float16": "float16 half",
    "bfloat16": "bfloat16",
    "int64": "int64 long",
    "int32": "int32 int",
    "int16": "int16 short",
    "int8": "int8",
    "uint8": "uint8",
    "bool": "bool",
    "complex64": "complex64 cfloat",
}
DTYPES: dict[str, str] = {f"torch.{alias}": name for name, aliases in _NAMES.items() for alias in aliases.split()}
