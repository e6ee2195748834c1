"""Keys and values that are repeated for grouped queries go to the kernel as they are, with `enable_gqa=True`.

## What it finds
`scaled_dot_product_attention` of keys and values that `repeat_interleave`, or `expand` and `reshape` (`repeat_kv`), have repeated
head by head. Without an edit it tells where attention that is still written out repeats them.

## Why it is the same
With `enable_gqa=True` the kernel lets the queries' heads h*r .. h*r+r-1 share the key head h: the order of `repeat_interleave`.

## When it is not
`repeat` and `tile` put the heads in another order (2.2 off in a small case). Keys repeated and values not, or along another axis.
The repeated keys are read elsewhere (a cache that keeps them repeated).

## What it gains
The repeated keys and values are not written to memory: with 8 queries to a head an eighth of that memory.

## Fix safety
Assumed, for the device: on a GPU only the flash kernel takes grouped heads, so in float32, with a mask or before Ampere torch
falls back to the plain kernel, which keeps the scores (out of memory at 8 k, 28 % slower on a T4). The values are the same.
"""

import torch.nn.functional as F

name = "enable-gqa"
kernel = "torch.nn.functional.scaled_dot_product_attention"
tier = "guarded"
numerics = "T"
min_torch = "2.5"
message = "keys and values are repeated for the query groups: enable_gqa=True lets the kernel share them"
keeps = ("the order of the heads", "the scale, the mask and the dropout", "the state dict")
shapes = {
    "q": ("B", "H", "L", "D"),
    "k": ("B", "G", "S", "D"),
    "v": ("B", "G", "S", "D"),
    "mask": ("B", 1, "L", "S"),
}
roles = {"mask": "additive_mask"}
conditions = ("grouped_heads", "grouped_kernel")
finder = "enable-gqa"


def definition(q, k, v, n: Any, mask: Any, factor: Any, p: Any = 0, causal: Any = False):
    return F.scaled_dot_product_attention(
        q,
        k.repeat_interleave(n, dim=-3),
        v.repeat_interleave(n, dim=-3),
        attn_mask=mask,
        dropout_p=p,
        is_causal=causal,
        scale=factor,
    )


def kernel_call(q, k, v, n, mask, factor, p, causal):
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal, scale=factor, enable_gqa=True
    )


matches = (
    """
    import torch
    import torch.nn.functional as F
    def grouped(grouped_query, few_keys, few_values):
        b, h, s, d = few_keys.shape
        k = few_keys.repeat_interleave(3, dim=1)
        v = few_values.view(b, h, s, d).repeat_interleave(3, dim=1)
        return F.scaled_dot_product_attention(grouped_query, k, v, scale=0.25)
    ---
    import torch
    import torch.nn.functional as F
    def grouped(grouped_query, few_keys, few_values):
        b, h, s, d = few_keys.shape
        return F.scaled_dot_product_attention(
            grouped_query,
            few_keys,
            few_values.view(b, h, s, d),
            scale=0.25,
            enable_gqa=True,
        )
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    def repeat_kv(x, n_rep):
        b, h, s, d = x.shape
        if n_rep == 1:
            return x
        return x[:, :, None, :, :].expand(b, h, n_rep, s, d).reshape(b, h * n_rep, s, d)
    class Attention(nn.Module):
        def __init__(self, groups):
            super().__init__()
            self.groups = groups
        def forward(self, grouped_query, few_keys, few_values):
            keys = repeat_kv(few_keys, self.groups)
            values = repeat_kv(few_values, self.groups)
            out = F.scaled_dot_product_attention(grouped_query, keys, values, is_causal=True)
            return out.transpose(1, 2)
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    def repeat_kv(x, n_rep):
        b, h, s, d = x.shape
        if n_rep == 1:
            return x
        return x[:, :, None, :, :].expand(b, h, n_rep, s, d).reshape(b, h * n_rep, s, d)
    class Attention(nn.Module):
        def __init__(self, groups):
            super().__init__()
            self.groups = groups
        def forward(self, grouped_query, few_keys, few_values):
            out = F.scaled_dot_product_attention(
                grouped_query, few_keys, few_values, is_causal=True, enable_gqa=True
            )
            return out.transpose(1, 2)
    """,
    """
    import torch
    import torch.nn.functional as F
    def grouped(long_keys, grouped_query, mask=None):
        b, s, h, d = long_keys.shape
        k = long_keys[:, :, :, None, :].expand(b, s, h, 3, d).reshape(b, s, h * 3, d).transpose(1, 2)
        return F.scaled_dot_product_attention(grouped_query, k, k, attn_mask=mask)
    ---
    import torch
    import torch.nn.functional as F
    def grouped(long_keys, grouped_query, mask=None):
        b, s, h, d = long_keys.shape
        return F.scaled_dot_product_attention(
            grouped_query,
            long_keys.transpose(-3, -2),
            long_keys.transpose(-3, -2),
            attn_mask=mask,
            enable_gqa=True,
        )
    """,
)

reports = (
    """
    import torch
    def grouped(q, few_keys, few_values):
        b, h, s, d = few_keys.shape
        k = few_keys.repeat_interleave(4, dim=1)
        v = few_values.reshape(b, h, s, d).repeat_interleave(4, dim=1)
        weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        return weights @ v, weights
    """,
)

does_not_match = (
    # another order of the heads
    """
    import torch
    import torch.nn.functional as F
    def grouped(q, few):
        b, h, s, d = few.shape
        k = few.repeat(1, 3, 1, 1)
        return F.scaled_dot_product_attention(q, k, k)
    """,
    # the keys only
    """
    import torch
    import torch.nn.functional as F
    def grouped(q, few, v):
        b, h, s, d = few.shape
        return F.scaled_dot_product_attention(q, few.repeat_interleave(3, dim=1), v)
    """,
    # along the length
    """
    import torch
    import torch.nn.functional as F
    def grouped(q, few):
        b, h, s, d = few.shape
        k = few.repeat_interleave(3, dim=2)
        return F.scaled_dot_product_attention(q, k, k)
    """,
    # the repeated keys are returned too
    """
    import torch
    import torch.nn.functional as F
    def grouped(q, few):
        b, h, s, d = few.shape
        k = few.repeat_interleave(3, dim=1)
        return F.scaled_dot_product_attention(q, k, k), k
    """,
    # told already
    """
    import torch
    import torch.nn.functional as F
    def grouped(q, few):
        return F.scaled_dot_product_attention(q, few, few, enable_gqa=True)
    """,
)
