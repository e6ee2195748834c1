"""A small feed-forward block with the tanh GELU written out by hand: what the editor tests open."""

import math

from torch import tanh
from torch.nn import Linear, Module


class HandWrittenGELU(Module):
    # as in the first GPT-2 code
    def forward(self, x):
        return 0.5 * x * (1.0 + tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


class FeedForward(Module):
    def __init__(self, width=256):
        super().__init__()
        self.expand = Linear(width, 4 * width)
        self.activation = HandWrittenGELU()
        self.contract = Linear(4 * width, width)

    def forward(self, x):
        return self.contract(self.activation(self.expand(x)))
