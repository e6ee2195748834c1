"""A mask and `is_causal=True` in one call of `scaled_dot_product_attention`.

## What it finds
Calls with `is_causal=True` and an `attn_mask` that is a tensor on some path.

## Why it is the same
It is not, in general: torch documents that at most one of the two may be given. The plain kernel and the kernels on CUDA
raise an error; the CPU's fused kernel applies both without a word.

## When it is not
Nothing is said where the mask may be None on every path (an argument handed through).

## What it gains
Code that runs on every device.

## Fix safety
Never in fix-all. Where the mask is provably the causal one, `is_causal=True` goes: on the CPU the result stays the same. Else
in words: the causal mask must be made part of the other.
"""

name = "mask-and-causal"
kernel = "torch.nn.functional.scaled_dot_product_attention"
tier = "bug"
numerics = "S"
min_torch = "2.0"
message = "a mask and is_causal=True in one call: an error on CUDA and in the plain kernel"
keeps = ("the state dict",)
finder = "mask-and-causal"

matches = (
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=q.device))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)
    ---
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=q.device))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    """,
)

reports = (
    """
    import torch.nn.functional as F
    def f(q, k, v, tokens, padding):
        keep = (tokens != padding)[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, is_causal=True)
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v, bias):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias * 2, dropout_p=0.0, is_causal=True)
    """,
    """
    import torch.nn.functional as F
    def f(q, k, v, lengths, positions):
        if lengths is not None:
            mask = positions[None, None, None, :] < lengths[:, None, None, None]
        else:
            mask = None
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, True)
    """,
)

does_not_match = (
    # one or the other
    """
    import torch.nn.functional as F
    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    """,
    """
    import torch.nn.functional as F
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True)
    """,
    # it may always be None
    """
    import torch.nn.functional as F
    def f(q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)
    """,
    """
    import torch.nn.functional as F
    def f(q, k, v, keep):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep == 1, is_causal=False)
    """,
)
