"""A matrix product and its bias are one call.

## What it finds
`F.linear(x, w) + b`, `x @ w + b` (also `matmul` and `mm`) and `torch.bmm(x, w) + b`, where `w` and `b` are parameters of the
module whose sizes `__init__` tells: `b` has one number for each column of the product (for `bmm`, one row for each matrix).

## Why it is the same
`F.linear` and `torch.baddbmm` compute the product and add the bias to it.

## When it is not
A bias that broadcasts over other axes, or whose sizes are not known; a product that something else reads too. Under autocast
`x @ w + b` gives float32 and the one call the lower type.

## What it gains
One pass over the output less. Small.

## Fix safety
Advice, never in fix-all: the element type under autocast differs. Otherwise equal to rounding, in eval and in training; no
state touched.
"""

name = "addmm"
kernel = "torch.nn.functional.linear"
tier = "advice"
numerics = "E"
min_torch = "2.0"
finder = "addmm"
message = "the bias is added in a pass of its own; one call adds it in the product"
keeps = ("the state dict", "the element type outside autocast")

matches = (
    """
    import torch
    import torch.nn.functional as F
    from torch import nn


    class Dense(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(dim, dim))
            self.bias = nn.Parameter(torch.zeros(dim))

        def forward(self, hidden_states):
            return F.linear(hidden_states, self.weight) + self.bias
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn


    class Dense(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(dim, dim))
            self.bias = nn.Parameter(torch.zeros(dim))

        def forward(self, hidden_states):
            return F.linear(hidden_states, self.weight, self.bias)
    """,
    """
    import torch
    from torch import nn


    class Dense(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(dim, dim))
            self.bias = nn.Parameter(torch.ones(dim))

        def forward(self, hidden_states):
            return torch.tanh(hidden_states @ self.weight + self.bias)
    ---
    import torch
    from torch import nn


    class Dense(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(dim, dim))
            self.bias = nn.Parameter(torch.ones(dim))

        def forward(self, hidden_states):
            return torch.tanh(nn.functional.linear(hidden_states, self.weight.t(), self.bias))
    """,
    """
    import torch
    from torch import nn


    class Experts(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, dim, dim))
            self.bias = nn.Parameter(torch.randn(2, 1, dim))

        def forward(self, hidden_states):
            return torch.bmm(hidden_states, self.weight) + self.bias
    ---
    import torch
    from torch import nn


    class Experts(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, dim, dim))
            self.bias = nn.Parameter(torch.randn(2, 1, dim))

        def forward(self, hidden_states):
            return torch.baddbmm(self.bias, hidden_states, self.weight)
    """,
)

does_not_match = (
    # a residual, no bias
    """
    import torch
    from torch import nn


    class Dense(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(dim, dim))

        def forward(self, x):
            return x @ self.weight + x
    """,
    # one number for each row
    """
    import torch
    from torch import nn


    class Dense(nn.Module):
        def __init__(self, length, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(dim, dim))
            self.bias = nn.Parameter(torch.zeros(length, 1))

        def forward(self, x):
            return x @ self.weight + self.bias
    """,
    # the product is needed
    """
    import torch
    from torch import nn


    class Dense(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(dim, dim))
            self.bias = nn.Parameter(torch.zeros(dim))

        def forward(self, x):
            y = x @ self.weight
            return y + self.bias, y
    """,
    # a bias of another length: it broadcasts the product
    """
    import torch
    from torch import nn


    class Dense(nn.Module):
        def __init__(self, dim, other):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(dim, 1))
            self.bias = nn.Parameter(torch.zeros(other))

        def forward(self, x):
            return x @ self.weight + self.bias
    """,
)
