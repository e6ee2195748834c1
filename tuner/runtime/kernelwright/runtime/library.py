"""Loads a kernel's library when it is first called, from a private copy of the bytes whose hash is trusted."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelwright.runtime.artefacts import Kernel
from kernelwright.runtime.trust import digest

Function = Callable[..., Any]
"""Takes the input tensors and then the outputs, which it fills."""


class LibraryError(Exception):
    """A library that cannot be loaded; the message says why."""


def load(kernel: Kernel) -> Function:
    """The kernel as a function.

    Raises:
        LibraryError: the file is gone or changed since it was listed, or the loader cannot be had.
    """
    try:
        data = kernel.library.read_bytes()
    except OSError as error:
        raise LibraryError(str(error)) from error
    if digest(data) != kernel.sha256:
        raise LibraryError(f"{kernel.library} has been changed since it was built")
    try:
        import torch  # noqa: F401  # first: the kernel's parallel loops are to run on the OpenMP pool that torch brings
        import tvm_ffi
    except ImportError as error:
        raise LibraryError(f"{error}; pip install apache-tvm-ffi==0.1.14.post1") from error
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as private:
        path = Path(private) / "kernel.so"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
        try:
            function: Function = tvm_ffi.load_module(str(path))["main"]
        except (RuntimeError, OSError, AttributeError, KeyError) as error:
            raise LibraryError(f"{kernel.library}: {error}") from error
    return function
