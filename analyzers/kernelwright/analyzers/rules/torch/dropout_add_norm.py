"""A residual sum (with dropout) directly followed by a norm is one fused kernel.

## What it finds
`norm(residual + dropout(x))` and `norm(residual + x)` within one function: post-norm blocks, and pre-norm blocks whose next norm
reads the sum. LayerNorm, RMS norm and classes named so; one term must be worked out from the other, or come out of a layer.

## Why it is the same
The kernel computes the three steps on one row while it is in registers, and gives back the sum too where the next residual
needs it.

## When it is not
Where no norm follows in the same function, where the sum is of embeddings or positions, batch and group norms (they are not
over the last axis). Dropout's random numbers differ from torch's for the same seed.

## What it gains
One pass over memory instead of two or three, on a GPU. On a CPU nothing is known to be gained.

## Fix safety
Advice in words: which kernel fits depends on the device and on what may be installed. `torch.compile` of the block joins these
steps without another package.
"""

name = "dropout-add-norm"
kernel = "liger_kernel.transformers.LigerFusedAddRMSNorm"
tier = "advice"
numerics = "T"
min_torch = "2.0"
finder = "dropout-add-norm"
message = "residual sum and norm are passes over memory of their own; one kernel makes one of them"
keeps = ("the state dict",)

reports = (
    """
    import torch
    from torch import nn


    class Output(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.dense = nn.Linear(dim, dim)
            self.LayerNorm = nn.LayerNorm(dim)
            self.dropout = nn.Dropout(0.1)

        def forward(self, hidden_states, input_tensor):
            hidden_states = self.dropout(self.dense(hidden_states))
            return self.LayerNorm(hidden_states + input_tensor)
    """,
    # pre-norm: the sum is the next residual too
    """
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self, dim, attention, mlp):
            super().__init__()
            self.attention = attention
            self.mlp = mlp
            self.norm1 = nn.LayerNorm(dim)
            self.norm2 = nn.LayerNorm(dim)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
    """,
    # in one branch
    """
    import torch
    from torch import nn


    class Layer(nn.Module):
        def __init__(self, dim, attention):
            super().__init__()
            self.attention = attention
            self.norm = nn.LayerNorm(dim)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x, skip):
            if skip:
                x = self.attention(x)
            else:
                x = x + self.dropout(self.attention(x))
            return self.norm(x)
    """,
)

does_not_match = (
    # the block ends with the sum
    """
    import torch
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.dense = nn.Linear(dim, dim)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x, residual):
            return residual + self.dropout(self.dense(x))
    """,
    # embeddings
    """
    import torch
    from torch import nn


    class Embeddings(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.words = nn.Embedding(100, dim)
            self.positions = nn.Embedding(100, dim)
            self.norm = nn.LayerNorm(dim)

        def forward(self, ids, positions):
            return self.norm(self.words(ids) + self.positions(positions))
    """,
    # batch norm
    """
    import torch
    from torch import nn


    class Residual(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.conv = nn.Conv2d(dim, dim, 3, padding=1)
            self.bn = nn.BatchNorm2d(dim)

        def forward(self, x):
            return self.bn(x + self.conv(x))
    """,
    # another operation between sum and norm
    """
    import torch
    from torch import nn


    class Layer(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.dense = nn.Linear(dim, dim)
            self.norm = nn.LayerNorm(dim)

        def forward(self, x):
            return self.norm(torch.tanh(x + self.dense(x)))
    """,
)
