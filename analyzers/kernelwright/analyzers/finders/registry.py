"""The closed list of finders a rule file may name."""

from __future__ import annotations

from kernelwright.analyzers.finders.attention_modules import mha_need_weights
from kernelwright.analyzers.finders.finding import FileFinder, FunctionFinder
from kernelwright.analyzers.finders.inference import inference_mode
from kernelwright.analyzers.finders.training import fused_optimizer, non_blocking, zero_grad

FUNCTION_FINDERS: dict[str, FunctionFinder] = {"mha-need-weights": mha_need_weights}
"""Called once for each function that is translated."""

FILE_FINDERS: dict[str, FileFinder] = {
    "fused-optimizer": fused_optimizer,
    "inference-mode": inference_mode,
    "non-blocking": non_blocking,
    "zero-grad": zero_grad,
}
"""Called once a file. Each begins with a cheap test of the text: it runs on every file someone types in."""
