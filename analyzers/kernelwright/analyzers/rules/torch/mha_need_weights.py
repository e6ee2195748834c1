"""`nn.MultiheadAttention` whose weights nobody reads gets `need_weights=False`.

## What it finds
A call of an `nn.MultiheadAttention` of the module of which only the first result is used: `self.attn(q, k, v)[0]`,
`out, _ = self.attn(q, k, v)`.

## Why it is the same
The first result does not depend on `need_weights`; the second is None instead of the averaged weights, and nothing in the
function reads it.

## When it is not
The second result is returned, stored or read, `need_weights` is given already, or the call passes on keywords that are not
known. A row of which every key is masked by `-inf` is NaN with weights and may be 0 without (pytorch#160064).

## What it gains
The module may take `scaled_dot_product_attention` and does not write the matrix of weights: 1.1 times in evaluation and 1.5
in training on a CPU, and no memory that grows with the square of the length where a fused kernel runs.

## Fix safety
Exact: same result up to rounding, no state touched. In training with dropout the random numbers are others. The fused kernel
has no second derivative.
"""

name = "mha-need-weights"
kernel = "torch.nn.MultiheadAttention"
tier = "exact"
numerics = "E"
min_torch = "1.9"
message = (
    "the attention weights are computed and dropped: need_weights=False leaves them out and opens the fused kernel"
)
keeps = ("the first result", "the state dict")
finder = "mha-need-weights"

matches = (
    """
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
            self.norm = nn.LayerNorm(dim)
        def forward(self, x, padding=None):
            h = self.norm(x)
            return x + self.attn(h, h, h, key_padding_mask=padding)[0]
    ---
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
            self.norm = nn.LayerNorm(dim)
        def forward(self, x, padding=None):
            h = self.norm(x)
            return x + self.attn(h, h, h, key_padding_mask=padding, need_weights=False)[0]
    """,
    """
    import torch
    import torch.nn as nn
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.self_attn = nn.MultiheadAttention(dim, heads, dropout=0.0, batch_first=True)
        def forward(self, x):
            out, _ = self.self_attn(
                x,
                x,
                value=x,
            )
            return out
    ---
    import torch
    import torch.nn as nn
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.self_attn = nn.MultiheadAttention(dim, heads, dropout=0.0, batch_first=True)
        def forward(self, x):
            out, _ = self.self_attn(
                x,
                x,
                value=x,
                need_weights=False,
            )
            return out
    """,
    """
    import torch
    from torch.nn import Module, MultiheadAttention
    class Cross(Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = MultiheadAttention(embed_dim=dim, num_heads=heads)
        def forward(self, x, memory):
            attended = self.attn(query=x, key=memory, value=memory)
            return x + attended[0]
    ---
    import torch
    from torch.nn import Module, MultiheadAttention
    class Cross(Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = MultiheadAttention(embed_dim=dim, num_heads=heads)
        def forward(self, x, memory):
            attended = self.attn(query=x, key=memory, value=memory, need_weights=False)
            return x + attended[0]
    """,
)

does_not_match = (
    # the weights are returned
    """
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = nn.MultiheadAttention(dim, heads)
        def forward(self, x):
            out, weights = self.attn(x, x, x)
            return x + out, weights
    """,
    # the whole tuple is returned
    """
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = nn.MultiheadAttention(dim, heads)
        def forward(self, x):
            return self.attn(x, x, x)
    """,
    # given already, by position
    """
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = nn.MultiheadAttention(dim, heads)
        def forward(self, x):
            return self.attn(x, x, x, None, False)[0]
    """,
    # the weights are kept on the module
    """
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = nn.MultiheadAttention(dim, heads)
        def forward(self, x):
            out, self.weights = self.attn(x, x, x)
            return out
    """,
    # another class of that name
    """
    import torch
    from torch import nn
    from layers import MultiheadAttention
    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attn = MultiheadAttention(dim, heads)
        def forward(self, x):
            return self.attn(x, x, x)[0]
    """,
)
