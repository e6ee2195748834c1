"""From how many calls regional compilation pays: seconds to compile one block, and seconds it saves each call after.

    python benchmarks/advice/compile_break_even.py

Prints a table in Markdown. Needs torch and what it compiles with (a C++ compiler on a CPU). Compiles into an empty cache each
time. Times are the least of several interleaved runs.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable

os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="kernelwright-inductor-")

import torch
from torch import nn

DEPTH, RUNS = 4, 15


class Block(nn.Module):
    """A transformer's block with norms and a gated layer written by hand, as model files have them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.Parameter(torch.ones(width))
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm
        gate = self.gate(h)
        return x + self.down(gate * torch.sigmoid(gate) * self.up(h))


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def row(width: int, length: int) -> str:
    """One line of the table: a stack of equal blocks, plain and compiled block by block."""
    torch.manual_seed(0)
    plain = nn.Sequential(*[Block(width) for _ in range(DEPTH)]).eval()
    compiled = nn.Sequential(*[Block(width) for _ in range(DEPTH)]).eval()
    compiled.load_state_dict(plain.state_dict())
    torch._dynamo.reset()
    for block in compiled:
        block.compile()
    x = torch.randn(1, length, width)
    with torch.no_grad():
        torch.testing.assert_close(plain(x), plain(x))
        first = seconds(lambda: compiled(x))
        torch.testing.assert_close(compiled(x), plain(x))
        pairs = [(seconds(lambda: plain(x)), seconds(lambda: compiled(x))) for _ in range(RUNS)]
    before, after = min(p for p, _ in pairs), min(c for _, c in pairs)
    control = seconds_ratio(plain, x)
    saved = before - after
    if saved < 0.05 * before:
        calls = "never: it saves less than 5 %"
    elif before / after < 1 + 2 * abs(control - 1):
        calls = "too noisy to tell"
    else:
        calls = f"{first / saved:,.0f}"
    return (
        f"| {width} | {length} | {1e3 * before:.2f} ms | {1e3 * after:.2f} ms | {before / after:.2f}× "
        f"| {control:.2f}× | {first:.1f} s | {calls} |"
    )


def seconds_ratio(module: nn.Module, x: torch.Tensor) -> float:
    """The plain stack against itself: how far from 1 a ratio may be for no reason."""
    with torch.no_grad():
        pairs = [(seconds(lambda: module(x)), seconds(lambda: module(x))) for _ in range(RUNS)]
    return min(a for a, _ in pairs) / min(b for _, b in pairs)


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), {DEPTH} blocks, float32, eval\n")
    print("| width | length | plain | compiled | gain | plain/plain | first call | pays from calls |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for width, length in ((64, 32), (64, 4096), (512, 512)):
        print(row(width, length), flush=True)


if __name__ == "__main__":
    main()
