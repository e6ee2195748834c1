"""A GELU written out by hand becomes one call of `torch.nn.functional.gelu`.

## What it finds
The Gaussian error linear unit spelled with `tanh` (the approximation that GPT-2 was trained with) or with `erf` (the exact
form), in any arrangement of its factors, over one statement or several; a constant kept as an attribute of the function. Without
an edit it tells where an autograd function with such a forward is applied.

## Why it is the same
`F.gelu` is defined by these two formulas. The constants are compared to seven digits, which is all float32 holds. The
flavour is kept: a tanh form becomes `approximate="tanh"`, an erf form the exact one.

## When it is not
`x * sigmoid(1.702 * x)` (QuickGELU) is another function, up to 0.02 away. One flavour is never exchanged for the other:
they differ by up to 4.7e-4, and weights are trained with one of them.

## What it gains
One pass over memory instead of about eight: 3 to 8 times on a CPU, and no intermediate tensors kept for the backward pass.

## Fix safety
Exact: same result up to rounding, same element type, no state touched, forward and backward.
"""

import math

import torch
import torch.nn.functional as F

name = "gelu"
kernel = "torch.nn.functional.gelu"
tier = "exact"
numerics = "E"
min_torch = "1.12"
message = "hand-written GELU ({variant}): F.gelu computes the same in one pass"
keeps = ("the flavour of GELU", "the element type", "the state dict")
shapes = {"x": ("B", "L", "M")}
finder = "gelu"
conditions = ("same_constants", "same_input", "min_version")


def definition_tanh(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def kernel_tanh(x):
    return F.gelu(x, approximate="tanh")


def definition_erf(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def kernel_erf(x):
    return F.gelu(x)


matches = (
    """
    import math
    import torch
    import torch.nn as nn
    class NewGELU(nn.Module):
        def forward(self, x):
            return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    ---
    import math
    import torch
    import torch.nn as nn
    class NewGELU(nn.Module):
        def forward(self, x):
            return nn.functional.gelu(x, approximate="tanh")
    """,
    """
    import torch
    def fast(x):
        inner = x * 0.7978845608 * (1.0 + 0.044715 * x * x)
        return 0.5 * x * (1.0 + torch.tanh(inner))
    ---
    import torch
    def fast(x):
        return torch.nn.functional.gelu(x, approximate="tanh")
    """,
    """
    import math
    import torch
    def kept(x):
        if not hasattr(kept, "_a"):
            kept._a = math.sqrt(2 / math.pi)
        return 0.5 * x * (1 + torch.tanh(kept._a * (x + 0.044715 * torch.pow(x, 3))))
    ---
    import math
    import torch
    def kept(x):
        if not hasattr(kept, "_a"):
            kept._a = math.sqrt(2 / math.pi)
        return torch.nn.functional.gelu(x, approximate="tanh")
    """,
    """
    import math
    import torch
    import torch.nn.functional as F
    def exact(h):
        c = h * 0.5 * (1.0 + torch.erf(h / math.sqrt(2.0)))
        return c
    ---
    import math
    import torch
    import torch.nn.functional as F
    def exact(h):
        c = F.gelu(h)
        return c
    """,
)

reports = (
    # the forward of an autograd function
    """
    import torch
    from torch import nn
    class Gelu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
        @staticmethod
        def backward(ctx, grad):
            return Derivative.apply(grad, *ctx.saved_tensors)
    class Activation(nn.Module):
        def forward(self, x):
            return Gelu.apply(x)
    """,
)

does_not_match = (
    # QuickGELU
    """
    import torch
    def quick(x):
        return x * torch.sigmoid(1.702 * x)
    """,
    # a constant that is off in the fourth digit
    """
    import torch
    def near(x):
        return 0.5 * x * (1.0 + torch.tanh(0.7979 * (x + 0.044715 * x**3)))
    """,
    # two different inputs
    """
    import math
    import torch
    def gated(x, y):
        return y * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
    """,
    # another number is kept on the function
    """
    import torch
    def kept(x):
        kept._a = 0.8
        return 0.5 * x * (1 + torch.tanh(kept._a * (x + 0.044715 * torch.pow(x, 3))))
    """,
    # the derivative, not the function
    """
    import torch
    class Gelu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
    def f(x):
        return Gelu.apply(x)
    """,
)
