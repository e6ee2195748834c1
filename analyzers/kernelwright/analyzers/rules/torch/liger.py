"""Norms and gated layers by hand have Triton kernels in the package liger-kernel.

## What it finds
An RMS norm that casts back before its weight, as Llama's does, written out in a class's `forward`, as the rule
`rms-norm` defines it, and `F.silu(self.gate(x)) * self.up(x)`. Nothing is said of a file that speaks of liger. Rotary
embeddings and the loss on top of a linear layer, for which liger has kernels too, are not looked for.

## Why it is the same
The kernels compute the same formulas; `casting_mode` says where a norm casts, `offset` is what is added to its
weight.

## When it is not
There is no kernel for a CPU. `in_place=True`, the default of the norm, overwrites gradients that others may still
read: the snippet says False. Modules of liger do not work with tensor parallelism.

## What it gains
Memory in training, and launches. Not measured by us.

## Fix safety
Advice in words, not run by us: each call is checked against the signature in the package's wheel only.
"""

name = "liger"
kernel = "liger_kernel.transformers"
tier = "advice"
numerics = "T"
min_torch = "2.1"
message = "liger-kernel has a Triton kernel for this"
keeps = ("the formula",)
finder = "liger"

reports = (
    """
    import torch
    from torch import nn
    class Norm(nn.Module):
        def __init__(self, width, eps=1e-6):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))
            self.variance_epsilon = eps
        def forward(self, hidden_states):
            input_dtype = hidden_states.dtype
            hidden_states = hidden_states.to(torch.float32)
            variance = hidden_states.pow(2).mean(-1, keepdim=True)
            hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
            return self.weight * hidden_states.to(input_dtype)
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class FeedForward(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.w1, self.w2, self.w3 = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        def forward(self, x):
            return self.w2(F.silu(self.w1(x)) * self.w3(x))
    """,
)

does_not_match = (
    # two inputs
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
        def forward(self, x, y):
            return F.silu(self.a(x)) * self.b(y)
    """,
    # another activation
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
        def forward(self, x):
            return F.gelu(self.a(x)) * self.b(x)
    """,
    # a LayerNorm
    """
    import torch
    from torch import nn
    class Norm(nn.Module):
        def forward(self, x):
            centred = x - x.mean(-1, keepdim=True)
            return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-6)
    """,
)
