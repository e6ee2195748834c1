"""Capped, biased or windowed attention can run as `flash_attn_func` of the package flash-attn.

## What it finds
A softmax between two matrix products whose scores are capped, biased by ALiBi or limited to a sliding window, causal
besides at most, and whose weights nothing else reads. Once a function. Nothing is said of plain and causal attention:
`F.scaled_dot_product_attention` runs the same algorithm, with no package to install, and the rule `sdpa` brings the
code there. Nothing is said of a file that speaks of flash attention.

## Why it is the same
It is the same formula, summed block by block, in half precision with sums in float32.

## When it is not
Its layout is (batch, length, heads, head size). Its causal mask is aligned to the last query, where `tril` is aligned
to the first: with fewer queries than keys they differ. `dropout_p` must be 0 in eval, it knows no module. It takes no
other mask. It runs in float16 and bfloat16 only.

## What it gains
Memory that grows with the length and not its square. Over `F.scaled_dot_product_attention`: windows, soft-capping,
ALiBi, and packed sequences of several lengths. Not measured by us.

## Fix safety
Advice in words, not run by us: the call is checked against the signature in the package's source only. The package is
built for one CUDA and one torch, and its installation is often what fails. Prefer `sdpa` where that can say it.
"""

name = "flash-attention"
kernel = "flash_attn.flash_attn_func"
tier = "advice"
numerics = "T"
min_torch = "2.2"
message = "flash_attn computes these scores in passing"
keeps = ("the state dict",)
finder = "flash-attention"

reports = (
    """
    import torch
    def attention(query, key, value, alibi):
        scores = query @ key.transpose(-2, -1) / 8.0 + alibi
        return torch.softmax(scores, dim=-1) @ value
    """,
    """
    import torch
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, length, cap=30.0):
            super().__init__()
            self.cap = cap
            self.register_buffer("tril", torch.tril(torch.ones(length, length)))
        def forward(self, query, key, value):
            length = query.size(-2)
            scores = query @ key.transpose(-2, -1) / 8.0
            scores = self.cap * torch.tanh(scores / self.cap)
            scores = scores.masked_fill(self.tril[:length, :length] == 0, float("-inf"))
            return torch.softmax(scores, dim=-1) @ value
    """,
)

does_not_match = (
    # any mask
    """
    import torch
    def attention(query, key, value, mask):
        scores = query @ key.transpose(-2, -1) / 8.0 + mask
        return torch.softmax(scores, dim=-1) @ value
    """,
    # plain attention, which torch's own kernel computes
    """
    import torch
    def attention(query, key, value):
        scores = query @ key.transpose(-2, -1) / 8.0
        return torch.softmax(scores, dim=-1) @ value
    """,
    # the weights are returned
    """
    import torch
    def attention(query, key, value, alibi):
        weights = torch.softmax(query @ key.transpose(-2, -1) / 8.0 + alibi, dim=-1)
        return weights @ value, weights
    """,
    # torch's own fused attention
    """
    import torch
    import torch.nn.functional as F
    def attention(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    """,
    # softmax over another axis
    """
    import torch
    def attention(query, key, value):
        return torch.softmax(query @ key.transpose(-2, -1), dim=1) @ value
    """,
)
