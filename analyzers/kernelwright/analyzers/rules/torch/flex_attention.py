"""Attention with soft-capping, ALiBi or a sliding window can run as `flex_attention`.

## What it finds
A softmax between two matrix products whose scores are bounded by `cap * tanh(scores / cap)`, which no mask can say;
or whose mask is ALiBi or a sliding window, which a mask says at the cost of a tensor of length times length. Masks
are told by the operations that make them, or by their names. Once a function.

## Why it is the same
`score_mod` is applied to every score before the softmax, `mask_mod` decides which scores count: the formulas are
those of the code.

## When it is not
The attention weights do not exist any more. There is no dropout. A row that is masked altogether gives 0 and not the
mean of the values. The order of capping and masking counts: cap first. The function must not read tensors that change
size.

## What it gains
Memory that grows with the length and not its square, and no work outside a window, on a GPU, compiled. On a CPU it
has no gradient and little to gain. Without `torch.compile` it writes out all scores, as the code does now. Not
measured by us on a GPU.

## Fix safety
Advice in words. The snippet is checked in our tests against the written-out attention on a CPU, in inference. It
needs a compiler when it runs.
"""

name = "flex-attention"
kernel = "torch.nn.attention.flex_attention.flex_attention"
tier = "advice"
numerics = "T"
min_torch = "2.5"
message = "flex_attention takes this change of the scores"
keeps = ("the state dict",)
finder = "flex-attention"

reports = (
    """
    import torch
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, cap=50.0):
            super().__init__()
            self.cap = cap
        def forward(self, query, key, value):
            scores = query @ key.transpose(-2, -1) / 8.0
            scores = scores / self.cap
            scores = torch.tanh(scores)
            scores = scores * self.cap
            return torch.softmax(scores, dim=-1) @ value
    """,
    """
    import torch
    import torch.nn.functional as F
    def attention(query, key, value, alibi):
        scores = torch.matmul(query, key.transpose(-1, -2)) * 0.125 + alibi
        weights = F.dropout(F.softmax(scores, dim=-1), p=0.0)
        return torch.matmul(weights, value)
    """,
    """
    import torch
    import torch.nn.functional as F
    def attention(query, key, value, sliding_mask):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=sliding_mask)
    """,
    """
    import torch
    def attention(query, key, value, window):
        length = query.size(-2)
        keep = torch.tril(torch.ones(length, length)) * torch.triu(torch.ones(length, length), -window)
        scores = (query @ key.transpose(-2, -1) * 0.125).masked_fill(keep == 0, float("-inf"))
        return scores.softmax(-1) @ value
    """,
)

does_not_match = (
    # a mask of any kind: F.scaled_dot_product_attention takes it
    """
    import torch
    def attention(query, key, value, mask):
        scores = query @ key.transpose(-2, -1) * 0.125 + mask
        return torch.tanh(torch.softmax(scores, dim=-1) @ value)
    """,
    # the weights of a gate, not of attention
    """
    import torch
    def gate(x, weight):
        return torch.softmax(5.0 * torch.tanh(x @ weight / 5.0), dim=-1)
    """,
    # a tanh that is no cap
    """
    import torch
    def attention(query, key, value):
        return torch.softmax(torch.tanh(query + key), dim=-1) @ value
    """,
    # it does so already
    """
    import torch
    from torch.nn.attention.flex_attention import flex_attention
    def attention(query, key, value, alibi, score_mod):
        if query.is_cuda:
            return flex_attention(query, key, value, score_mod)
        return torch.softmax(query @ key.transpose(-2, -1) + alibi, dim=-1) @ value
    """,
)
