"""`is_causal=True` with cached keys: the mask is aligned at the wrong corner.

## What it finds
`scaled_dot_product_attention(..., is_causal=True)` whose keys are a past of the caller's (or of a buffer) joined with the
keys of the very input the queries are made of.

## Why it is the same
It is not: with fewer queries than keys, `is_causal=True` masks from the upper left corner. Query 0 then sees key 0 alone,
although it stands behind the whole past; with one query, as in generation, the result is the first value.

## When it is not
Nothing is said where `is_causal` is computed (`is_causal=past is None`, `is_causal=q.size(-2) > 1`), where the queries are
joined too, and where the past is no argument.

## What it gains
Right results with a cache: generated text that equals that without one.

## Fix safety
In words: what is right depends on how the function is called. `torch.nn.attention.bias.causal_lower_right` is aligned as
needed.
"""

name = "causal-decode"
kernel = "torch.nn.functional.scaled_dot_product_attention"
tier = "bug"
numerics = "S"
min_torch = "2.0"
message = "is_causal=True with cached keys: the mask is aligned at the upper left"
keeps = ("the state dict",)
finder = "causal-decode"

reports = (
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(dim, 3 * dim)
        def forward(self, x, past):
            b, n, d = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return out.transpose(1, 2).reshape(b, n, d)
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(x, wq, wk, wv, past_k, past_v):
        q, k, v = x @ wq, x @ wk, x @ wv
        if past_k is not None:
            k = torch.cat((past_k, k), dim=-2)
            v = torch.cat((past_v, v), dim=-2)
        return F.scaled_dot_product_attention(q, k, v, None, 0.0, True)
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.q = nn.Linear(dim, dim)
            self.kv = nn.Linear(dim, dim)
        def forward(self, x, cache):
            b, n, d = x.shape
            q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
            k = torch.cat([cache, self.kv(x).view(b, n, self.heads, -1)], dim=1).transpose(1, 2)
            return F.scaled_dot_product_attention(q, k, k, is_causal=True)
    """,
)

does_not_match = (
    # no mask where there is a past
    """
    import torch
    import torch.nn.functional as F
    def f(x, wq, wk, past):
        q, k = x @ wq, x @ wk
        if past is not None:
            k = torch.cat((past, k), dim=-2)
        return F.scaled_dot_product_attention(q, k, k, is_causal=past is None)
    """,
    # generation is told apart by its one query
    """
    import torch
    import torch.nn.functional as F
    def f(x, wq, wk, past):
        q, k = x @ wq, x @ wk
        k = torch.cat((past, k), dim=-2)
        return F.scaled_dot_product_attention(q, k, k, is_causal=q.size(-2) > 1)
    """,
    # the queries are joined too
    """
    import torch
    import torch.nn.functional as F
    def f(x, wq, wk, other):
        q, k = torch.cat((other, x @ wq), dim=-2), torch.cat((other, x @ wk), dim=-2)
        return F.scaled_dot_product_attention(q, k, k, is_causal=True)
    """,
    # another axis: heads, or width
    """
    import torch
    import torch.nn.functional as F
    def f(x, wq, wk, more):
        q, k = x @ wq, torch.cat((more, x @ wk), dim=-1)
        return F.scaled_dot_product_attention(q, k, k, is_causal=True)
    """,
    # no past
    """
    import torch.nn.functional as F
    def f(x, wq, wk):
        return F.scaled_dot_product_attention(x @ wq, x @ wk, x, is_causal=True)
    """,
)
