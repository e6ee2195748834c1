"""The versions of tvm that work, and whether an interpreter has them: read from its packages, nothing is imported."""

from __future__ import annotations

import sys
from importlib import metadata

TVM = "0.27.0.post1"
TVM_FFI = "0.1.14.post1"
"""With 0.1.15 a tuning context with a space generator ends in a segmentation fault, every time."""


def versions() -> dict[str, str]:
    """The installed versions, keys `tvm` and `tvm_ffi`; an empty text where there is none."""
    return {"tvm": _version("apache-tvm"), "tvm_ffi": _version("apache-tvm-ffi")}


def problem() -> str | None:
    """Why this interpreter cannot tune, and what to do; None: it can."""
    found = versions()
    if not found["tvm"]:
        return (
            f"apache-tvm is not installed for {sys.executable}, which is to compile and run the programs: "
            f"`{sys.executable} -m pip install apache-tvm=={TVM} apache-tvm-ffi=={TVM_FFI}` (or Kernelwright's extra "
            "`tvm`), or name another interpreter with --python"
        )
    if found["tvm"] != TVM:
        return (
            f"{sys.executable} has apache-tvm {found['tvm']}; schedules of another version are not comparable: "
            f"`{sys.executable} -m pip install apache-tvm=={TVM} apache-tvm-ffi=={TVM_FFI}`"
        )
    if found["tvm_ffi"] != TVM_FFI:
        return (
            f"{sys.executable} has apache-tvm-ffi {found['tvm_ffi']}, with which apache-tvm {TVM} crashes or is "
            f"untried: `{sys.executable} -m pip install apache-tvm-ffi=={TVM_FFI}`"
        )
    return None


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
