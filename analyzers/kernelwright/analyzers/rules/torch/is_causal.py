"""A causal mask kept in a tensor becomes `is_causal=True`.

## What it finds
`scaled_dot_product_attention(..., attn_mask=triangle)`, where the mask is a lower triangle of ones (True attends) or an upper one
of minus infinity that is added, made on the spot or sliced from a buffer. Without an edit it tells where such a mask is given to
another module, and where scores written out are filled above the diagonal.

## Why it is the same
`is_causal=True` hides exactly the keys above the diagonal of a square. The edit is offered only where the code shows that
queries, keys and mask have one length.

## When it is not
Fewer queries than keys (decoding with a cache): the kernel aligns its triangle to the first key, a mask that is sliced at the end
to the last one. A mask of one row is broadcast, and hides nothing. A padding mask combined with the triangle must stay a mask:
both together raise an error or are combined silently, by the backend. `nn.MultiheadAttention` wants the mask beside the flag.

## What it gains
The upper half of the work is left out, and no mask is read: nothing up to length 256 on a CPU, 1.5 times at 1024, 2 at
2048. On a GPU a mask keeps the flash kernel from running.

## Fix safety
Exact where offered: same result up to rounding. The mask's own lines stay; a buffer stays in the state dict.
"""

name = "is-causal"
kernel = "torch.nn.functional.scaled_dot_product_attention"
tier = "exact"
numerics = "E"
min_torch = "2.0"
message = "a causal mask is passed as a tensor: is_causal=True leaves half of the work out and keeps no mask"
keeps = ("which keys a query sees", "the state dict: a buffer that held the mask stays")
finder = "is-causal"

matches = (
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(dim, 3 * dim)
        def forward(self, x):
            B, T, C = x.shape
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            return F.scaled_dot_product_attention(q, k, v, attn_mask=causal)
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(dim, 3 * dim)
        def forward(self, x):
            B, T, C = x.shape
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.register_buffer("mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))
        def forward(self, x):
            B, T, C = x.size()
            q = x.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            return F.scaled_dot_product_attention(
                q,
                q,
                q,
                attn_mask=self.mask[:, :, :T, :T] != 0,
                dropout_p=0.0,
            )
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.register_buffer("mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))
        def forward(self, x):
            B, T, C = x.size()
            q = x.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            return F.scaled_dot_product_attention(
                q,
                q,
                q,
                dropout_p=0.0,
                is_causal=True,
            )
    """,
    """
    import torch
    import torch.nn.functional as F
    def attend(x):
        T = x.size(-2)
        mask = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask, scale=0.5)
    ---
    import torch
    import torch.nn.functional as F
    def attend(x):
        T = x.size(-2)
        mask = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
        return F.scaled_dot_product_attention(x, x, x, scale=0.5, is_causal=True)
    """,
)

reports = (
    # the keys may be more than the queries
    """
    import torch
    import torch.nn.functional as F
    def attend(q, k, v):
        T = q.size(-2)
        mask = torch.ones(T, T, dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    """,
    # another module gets the mask
    """
    import torch
    from torch import nn
    class Model(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(dim, heads)
        def forward(self, x):
            T = x.size(0)
            mask = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
            return self.layer(x, src_mask=mask)
    """,
)

does_not_match = (
    # a padding mask
    """
    import torch
    import torch.nn.functional as F
    def attend(q, k, v, padding):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=padding[:, None, None, :])
    """,
    # a triangle and a padding mask
    """
    import torch
    import torch.nn.functional as F
    def attend(x, padding):
        T = x.size(-2)
        causal = torch.ones(T, T, dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(x, x, x, attn_mask=causal & padding)
    """,
    # a band: the diagonal is another one
    """
    import torch
    import torch.nn.functional as F
    def attend(x):
        T = x.size(-2)
        mask = torch.ones(T, T, dtype=torch.bool).tril(diagonal=1)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    """,
    # the upper triangle attends: future tokens only
    """
    import torch
    import torch.nn.functional as F
    def attend(x):
        T = x.size(-2)
        mask = torch.ones(T, T, dtype=torch.bool).triu(1)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    """,
    # ones and zeros in float are added, they hide nothing
    """
    import torch
    import torch.nn.functional as F
    def attend(x):
        T = x.size(-2)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(T, T).tril())
    """,
    # told already
    """
    import torch
    import torch.nn.functional as F
    def attend(x):
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)
    """,
)
