"""A boolean mask that is True where `scaled_dot_product_attention` must not look.

## What it finds
A boolean `attn_mask` that is True exactly above the diagonal (`torch.triu(torch.ones(n, n), 1).bool()`, also as a buffer),
True at padding (`tokens == self.padding_idx`), or that the same function fills with -inf, or gives to
`nn.MultiheadAttention`, elsewhere.

## Why it is the same
It is not: the edit changes the program. `nn.MultiheadAttention`, `nn.Transformer` and `masked_fill` take True as "leave out";
`scaled_dot_product_attention` takes True as "keep". Uninverted, each query sees the future alone, or padding alone.

## When it is not
Nothing is said of masks from outside: their polarity is the caller's. A triangle with the diagonal (`triu` from 0 on) may be
meant.

## What it gains
The model attends to what it should.

## Fix safety
Never in fix-all. `~mask` where the mask's meaning follows from how it is made; no edit where the function contradicts itself.
"""

name = "mask-polarity"
kernel = "torch.nn.functional.scaled_dot_product_attention"
tier = "bug"
numerics = "S"
min_torch = "2.0"
message = "the mask is True where attention must not look"
keeps = ("the state dict",)
finder = "mask-polarity"

matches = (
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        length = q.shape[-2]
        mask = torch.triu(torch.ones(length, length, device=q.device), diagonal=1).bool()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    ---
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        length = q.shape[-2]
        mask = torch.triu(torch.ones(length, length, device=q.device), diagonal=1).bool()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, length):
            super().__init__()
            self.register_buffer("mask", torch.triu(torch.ones(length, length), diagonal=1))
        def forward(self, q, k, v):
            n = q.size(-2)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask[:n, :n] == 1)
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, length):
            super().__init__()
            self.register_buffer("mask", torch.triu(torch.ones(length, length), diagonal=1))
        def forward(self, q, k, v):
            n = q.size(-2)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=~(self.mask[:n, :n] == 1))
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Encoder(nn.Module):
        def __init__(self, padding_idx):
            super().__init__()
            self.padding_idx = padding_idx
        def forward(self, tokens, q, k, v):
            padding = tokens.eq(self.padding_idx)
            return F.scaled_dot_product_attention(q, k, v, padding[:, None, None, :])
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Encoder(nn.Module):
        def __init__(self, padding_idx):
            super().__init__()
            self.padding_idx = padding_idx
        def forward(self, tokens, q, k, v):
            padding = tokens.eq(self.padding_idx)
            return F.scaled_dot_product_attention(q, k, v, ~padding[:, None, None, :])
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(n, n).tril() == 0)
    ---
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~(torch.ones(n, n).tril() == 0))
    """,
)

reports = (
    """
    import math
    import torch
    import torch.nn.functional as F
    def f(q, k, v, lengths, fused):
        drop = torch.arange(k.size(-2))[None, :] >= lengths[:, None]
        drop = drop[:, None, None, :]
        if fused:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=drop)
        scores = (q @ k.transpose(-2, -1)).masked_fill(drop, -math.inf)
        return torch.softmax(scores, dim=-1) @ v
    """,
)

does_not_match = (
    # True keeps
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(n, n).tril().bool())
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        drop = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~drop)
    """,
    # nobody knows what True means to the caller
    """
    import torch.nn.functional as F
    def f(q, k, v, key_padding_mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=key_padding_mask[:, None, None, :])
    """,
    # added: -inf above the diagonal
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        mask = torch.full((n, n), float("-inf")).triu(diagonal=1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    """,
    # the same polarity in both
    """
    import math
    import torch
    import torch.nn.functional as F
    def f(q, k, v, drop, fused):
        if fused:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=drop == 0)
        scores = (q @ k.transpose(-2, -1)).masked_fill(drop != 0, -math.inf)
        return torch.softmax(scores, dim=-1) @ v
    """,
    # a triangle with its diagonal may be meant
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(n, n).triu().bool())
    """,
)
