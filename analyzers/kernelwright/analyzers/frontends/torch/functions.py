"""torch functions and tensor methods -> operations of the architecture language: all rows, loaded.

One row a function: the qualified names it has, the method name if tensors have it, its parameters, and how it is built.
An argument that is not in the row makes the call opaque (closed world): nothing is ever dropped silently.
"""

from __future__ import annotations

from kernelwright.analyzers.frontends.torch import functions_arithmetic, functions_layout, functions_network
from kernelwright.analyzers.frontends.torch.registry import FUNCTIONS, METHODS, call_function, call_method

ROWS = (functions_arithmetic, functions_layout, functions_network)
"""The modules whose rows are registered when they are read."""

__all__ = ["FUNCTIONS", "METHODS", "ROWS", "call_function", "call_method"]
