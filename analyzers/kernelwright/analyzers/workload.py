"""A workload: the before and after programs of an opportunity with shapes, dtype and mode: what the tuner runs.

Both programs take the same inputs in the same order (nodes of operation `input` with `shape` and `dtype`); every other
leaf (`attribute`, `parameter`) has been turned into an input or a constant, so that a program runs by itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Literal

from kernelwright.analyzers.architecture import Program, print_program

Mode = Literal["eval", "training", "autocast"]
"""eval: no gradient. training: forward and backward. autocast: forward under bfloat16 autocast, no gradient."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One named extent of a workload and where its value comes from (annotation, code, setting or default)."""

    name: str
    extent: int
    source: str


@dataclass(frozen=True, slots=True)
class Workload:
    """Before and after, on the same typed inputs.

    `roles` tells how each input must be filled so that the program means something: `normal` (standard normal),
    `positive`, `additive_mask` (0 or the dtype's minimum), `keep_mask` (bool, True keeps), `drop_mask` (bool, True drops),
    `causal_mask` (0/1 lower triangle), `index`, `scalar` (a Python number: `value` in the input's attributes).
    `needs_gradient` names the inputs whose gradient is compared and timed in training.
    """

    rule: str
    before: Program
    after: Program
    roles: tuple[tuple[str, str], ...]
    needs_gradient: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    mode: Mode = "eval"

    def with_mode(self, mode: Mode) -> Workload:
        return dataclasses.replace(self, mode=mode)

    @property
    def shapes(self) -> str:
        """The input shapes for people: `q 4x12x512x64, mask 4x1x1x512`."""
        parts = []
        for node in self.before.inputs:
            shape = node.attribute("shape")
            if isinstance(shape, tuple) and shape:
                parts.append(f"{node.attribute('name')} {'x'.join(str(extent) for extent in shape)}")
        return ", ".join(parts)

    @property
    def dtype(self) -> str:
        """The dtype of the first floating-point input."""
        for node in self.before.inputs:
            dtype = node.attribute("dtype")
            if isinstance(dtype, str) and "float" in dtype:
                return dtype
        return "float32"

    def fingerprint(self) -> str:
        """A key of the two programs with shapes, dtype and mode; equal wherever in a file the code stands."""
        text = print_program(self.before, spans=False) + print_program(self.after, spans=False)
        roles = repr((self.roles, self.needs_gradient, self.mode))
        return hashlib.sha256((text + roles).encode()).hexdigest()[:32]
