"""A mask of zeros and ones is added to the scores, and hides nothing.

## What it finds
An `attn_mask` of `scaled_dot_product_attention` that is a float tensor of zeros and ones: `torch.tril(torch.ones(n, n))`, a
buffer made so, booleans turned to floats. The same triangle added to scores before a softmax.

## Why it is the same
It is not: the edit changes the program. A float mask is added to the scores: 1 and 0 shift them, -inf would hide a key.

## When it is not
Masks from outside, and any mask that is scaled (`(1 - mask) * -1e9`), are left alone. Integer masks are refused by torch
itself.

## What it gains
The model attends to what it should.

## Fix safety
Never in fix-all. `.bool()` for a lower triangle, of which it is certain that 1 keeps; in words for the others.
"""

name = "float-mask"
kernel = "torch.nn.functional.scaled_dot_product_attention"
tier = "bug"
numerics = "S"
min_torch = "2.0"
message = "a mask of zeros and ones is added to the scores: it hides nothing"
keeps = ("the state dict",)
finder = "float-mask"

matches = (
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        mask = torch.tril(torch.ones(n, n, device=q.device))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    ---
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        mask = torch.tril(torch.ones(n, n, device=q.device))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.bool())
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, length):
            super().__init__()
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))
        def forward(self, q, k, v):
            n = q.size(-2)
            return F.scaled_dot_product_attention(q, k, v, self.mask[:, :, :n, :n])
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, length):
            super().__init__()
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))
        def forward(self, q, k, v):
            n = q.size(-2)
            return F.scaled_dot_product_attention(q, k, v, self.mask[:, :, :n, :n].bool())
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(n, n).tril().to(q.dtype))
    ---
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(n, n).tril().to(q.dtype).bool())
    """,
)

reports = (
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v, lengths):
        keep = torch.arange(k.size(-2))[None, :] < lengths[:, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :].float())
    """,
    """
    import torch
    def f(q, k, v):
        n = q.size(-2)
        scores = q @ k.transpose(-2, -1) * 0.125 + torch.tril(torch.ones(n, n))
        return torch.softmax(scores, dim=-1) @ v
    """,
)

does_not_match = (
    # boolean
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tril(torch.ones(n, n, dtype=torch.bool)))
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tril(torch.ones(n, n)) != 0)
    """,
    # scaled: an additive mask
    """
    import torch
    import torch.nn.functional as F
    def f(q, k, v):
        n = q.size(-2)
        mask = (1 - torch.tril(torch.ones(n, n))) * -1e9
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    """,
    # the caller's
    """
    import torch.nn.functional as F
    def f(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.float())
    """,
    # multiplied after the softmax
    """
    import torch
    def f(q, k, v):
        n = q.size(-2)
        return (torch.softmax(q @ k.transpose(-2, -1), dim=-1) * torch.tril(torch.ones(n, n))) @ v
    """,
)
