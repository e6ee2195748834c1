"""Attention written out by hand becomes `torch.nn.functional.scaled_dot_product_attention`.

## What it finds
Scores from a product of queries and keys, scaled, masked, through a softmax over the keys, with or without dropout, times
the values; in any spelling (`@`, `matmul`, `bmm`, `baddbmm`, `einsum`, `rearrange`), over several statements and branches.

## Why it is the same
The kernel is defined by these operations. The scale is always written, so that the kernel's default never applies. An
additive mask is passed as it is. A boolean mask keeps its polarity: the kernel's True means "attend". A mask that fills with a
large negative number is passed as an additive mask of the least finite number, so that a row without any key still gives
the mean of the values. Dropout keeps the probability and the flag that the code used.

## When it is not
The weights are returned or read again (then the fix stands behind an `if`, or there is none), another axis, an operation
between the steps (talking heads, soft-capping, a mask after the softmax), a scale that is a tensor.

## What it gains
No matrix of scores in memory. On a CPU in float32 1.3 times at length 128, 3 at 256, 6 at 1024; little in bfloat16, and little
in training with dropout, where torch runs its plain kernel. Three axes are passed as four, or the fast kernel does not run.

## Fix safety
Guarded: equal within the element type's tolerance (in half precision nearer to the exact result than the code was); not
bit-reproducible under dropout; the kernel has no second derivative. A row that an additive mask of the least finite number
masks altogether keeps its values, but the kernel's gradients through that row are other ones (torch 2.13, CPU).
"""

import math

import torch
import torch.nn.functional as F

name = "sdpa"
kernel = "torch.nn.functional.scaled_dot_product_attention"
tier = "guarded"
numerics = "T"
min_torch = "2.1"
message = "hand-written attention: F.scaled_dot_product_attention computes the same without keeping the scores"
keeps = ("the scale, the mask and the dropout flag", "the state dict", "the element type")
shapes = {
    "q": ("B", "H", "L", "D"),
    "k": ("B", "H", "S", "D"),
    "v": ("B", "H", "S", "D"),
    "s": ("H", 1, 1),
    "mask": ("B", 1, "L", "S"),
    "keep": ("B", 1, "L", "S"),
    "drop": ("B", 1, "L", "S"),
}
roles = {"s": "positive", "mask": "additive_mask", "keep": "keep_mask", "drop": "drop_mask"}
lifted = ("q", "k", "v")
conditions = ("last_axis", "rank", "scale", "mask", "masked_rows", "dropout_flag", "hooks", "double_backward")


def definition_additive(q, k, v, mask: Mask = 0, p: Any = 0, scale: Number = 1):
    scores = q @ k.transpose(-2, -1) * scale + mask
    return torch.dropout(torch.softmax(scores, dim=-1), p, True) @ v


def kernel_additive(q, k, v, mask, p, scale):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, scale=scale)


def definition_kept_and_added(q, k, v, keep: Kept, mask: Added, p: Any = 0, scale: Number = 1):
    scores = torch.where(keep, q @ k.transpose(-2, -1) * scale, torch.finfo(torch.float32).min) + mask
    return torch.dropout(torch.softmax(scores, dim=-1), p, True) @ v


def kernel_kept_and_added(q, k, v, keep, mask, p, scale):
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.where(keep, 0.0, torch.finfo(q.dtype).min) + mask, dropout_p=p, scale=scale
    )


def definition_row_scaled(q, k, v, s: Rows, mask: Mask = 0, p: Any = 0):
    scores = q @ k.transpose(-2, -1) * s + mask
    return torch.dropout(torch.softmax(scores, dim=-1), p, True) @ v


def kernel_row_scaled(q, k, v, s, mask, p):
    return F.scaled_dot_product_attention(q * s, k, v, attn_mask=mask, dropout_p=p, scale=1.0)


def definition_clamped(q, k, v, mask: Kept, p: Any = 0, scale: Number = 1):
    scores = torch.maximum(q @ k.transpose(-2, -1) * scale + mask, torch.finfo(torch.float32).min)
    return torch.dropout(torch.softmax(scores, dim=-1), p, True) @ v


def kernel_clamped(q, k, v, mask, p, scale):
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask.clamp(min=torch.finfo(q.dtype).min), dropout_p=p, scale=scale
    )


def definition_added_and_filled(q, k, v, drop: Kept, mask: Added, p: Any = 0, scale: Number = 1):
    scores = torch.where(drop, torch.finfo(torch.float32).min, q @ k.transpose(-2, -1) * scale + mask)
    return torch.dropout(torch.softmax(scores, dim=-1), p, True) @ v


def kernel_added_and_filled(q, k, v, drop, mask, p, scale):
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.where(drop, torch.finfo(q.dtype).min, mask), dropout_p=p, scale=scale
    )


def definition_boolean(q, k, v, keep: Mask, p: Any = 0, scale: Number = 1):
    scores = torch.where(keep, q @ k.transpose(-2, -1) * scale, -math.inf)
    return torch.dropout(torch.softmax(scores, dim=-1), p, True) @ v


def kernel_boolean(q, k, v, keep, p, scale):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=p, scale=scale)


def definition_filled(q, k, v, drop: Mask, p: Any = 0, scale: Number = 1):
    scores = torch.where(drop, torch.finfo(torch.float32).min, q @ k.transpose(-2, -1) * scale)
    return torch.dropout(torch.softmax(scores, dim=-1), p, True) @ v


def kernel_filled(q, k, v, drop, p, scale):
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=torch.zeros_like(drop, dtype=q.dtype).masked_fill(drop, torch.finfo(q.dtype).min),
        dropout_p=p,
        scale=scale,
    )


matches = (
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.scale = (dim // heads) ** -0.5
            self.drop = nn.Dropout(0.1)
            self.qkv = nn.Linear(dim, 3 * dim)
        def forward(self, x):
            B, N, C = x.shape
            q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            attn = (q @ k.transpose(-2, -1)) * self.scale
            attn = attn.softmax(dim=-1)
            attn = self.drop(attn)
            x = attn @ v
            return x.transpose(1, 2).reshape(B, N, C)
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.scale = (dim // heads) ** -0.5
            self.drop = nn.Dropout(0.1)
            self.qkv = nn.Linear(dim, 3 * dim)
        def forward(self, x):
            B, N, C = x.shape
            q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            x = F.scaled_dot_product_attention(
                q, k, v, dropout_p=self.drop.p if self.drop.training else 0.0, scale=self.scale
            )
            return x.transpose(1, 2).reshape(B, N, C)
    """,
    """
    import math
    import torch
    from torch import nn
    def attend(query, key, value, mask=None, need_weights=False):
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores + mask
        weights = torch.softmax(scores, dim=-1)
        out = torch.matmul(weights, value)
        return (out, weights) if need_weights else (out,)
    ---
    import math
    import torch
    from torch import nn
    def attend(query, key, value, mask=None, need_weights=False):
        if not need_weights:
            out = nn.functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, scale=1.0 / math.sqrt(query.size(-1))
            )
        else:
            scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1))
            if mask is not None:
                scores = scores + mask
            weights = torch.softmax(scores, dim=-1)
            out = torch.matmul(weights, value)
        return (out, weights) if need_weights else (out,)
    """,
    """
    import torch
    import torch.nn.functional as F
    def masked(q, k, v, padding):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * 0.125
        scores = scores.masked_fill(padding, -1e9)
        return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
    ---
    import torch
    import torch.nn.functional as F
    def masked(q, k, v, padding):
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=torch.zeros_like(padding, dtype=q.dtype).masked_fill(
                padding, torch.finfo(q.dtype).min
            ),
            scale=0.125,
        )
    """,
    """
    import torch
    import torch.nn.functional as F
    def plain(q, k, v, mask=None):
        w = q @ k.transpose(-2, -1)
        if mask is not None:
            w = w + mask
        w = w.softmax(-1)
        return w @ v
    ---
    import torch
    import torch.nn.functional as F
    def plain(q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class BatchedHeads(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.width = dim // heads
            self.out = nn.Linear(dim, dim)
        def forward(self, hidden_states, mask=None, output_attentions=False):
            bsz, tgt_len, _ = hidden_states.size()
            shape = (bsz * self.heads, -1, self.width)
            query = hidden_states.view(bsz, tgt_len, self.heads, self.width).transpose(1, 2).reshape(*shape)
            key = hidden_states.view(bsz, -1, self.heads, self.width).transpose(1, 2).reshape(*shape)
            src_len = key.size(1)
            scores = torch.bmm(query, key.transpose(1, 2)) * 0.125
            if scores.size() != (bsz * self.heads, tgt_len, src_len):
                raise ValueError("the scores have another shape")
            if mask is not None:
                scores = scores.view(bsz, self.heads, tgt_len, src_len) + mask
                scores = scores.view(bsz * self.heads, tgt_len, src_len)
            weights = F.softmax(scores, dim=-1)
            output = torch.bmm(weights, key)
            if output.size() != (bsz * self.heads, tgt_len, self.width):
                raise ValueError("the output has another shape")
            output = output.view(bsz, self.heads, tgt_len, self.width)
            output = self.out(output.transpose(1, 2).reshape(bsz, tgt_len, -1))
            return (output, weights) if output_attentions else (output, None)
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class BatchedHeads(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.width = dim // heads
            self.out = nn.Linear(dim, dim)
        def forward(self, hidden_states, mask=None, output_attentions=False):
            bsz, tgt_len, _ = hidden_states.size()
            shape = (bsz * self.heads, -1, self.width)
            query = hidden_states.view(bsz, tgt_len, self.heads, self.width).transpose(1, 2).reshape(*shape)
            key = hidden_states.view(bsz, -1, self.heads, self.width).transpose(1, 2).reshape(*shape)
            src_len = key.size(1)
            if not output_attentions:
                output = F.scaled_dot_product_attention(
                    query.unflatten(0, (bsz, self.heads)),
                    key.unflatten(0, (bsz, self.heads)),
                    key.unflatten(0, (bsz, self.heads)),
                    attn_mask=mask,
                    scale=0.125,
                )
            else:
                scores = torch.bmm(query, key.transpose(1, 2)) * 0.125
                if scores.size() != (bsz * self.heads, tgt_len, src_len):
                    raise ValueError("the scores have another shape")
                if mask is not None:
                    scores = scores.view(bsz, self.heads, tgt_len, src_len) + mask
                    scores = scores.view(bsz * self.heads, tgt_len, src_len)
                weights = F.softmax(scores, dim=-1)
                output = torch.bmm(weights, key)
                if output.size() != (bsz * self.heads, tgt_len, self.width):
                    raise ValueError("the output has another shape")
                output = output.view(bsz, self.heads, tgt_len, self.width)
            output = self.out(output.transpose(1, 2).reshape(bsz, tgt_len, -1))
            return (output, weights) if output_attentions else (output, None)
    """,
    """
    import torch
    import torch.nn.functional as F
    def biased(query, key, value, mask=None, output_attentions=False):
        scores = torch.matmul(query, key.transpose(-2, -1))
        bias = torch.ones(1, 1, query.size(-2), key.size(-2), dtype=scores.dtype, device=scores.device)
        if mask is not None:
            bias = bias + mask

        scores += bias
        weights = F.softmax(scores, dim=-1)
        output = torch.matmul(weights, value)
        return (output, weights) if output_attentions else (output, None)
    ---
    import torch
    import torch.nn.functional as F
    def biased(query, key, value, mask=None, output_attentions=False):
        bias = torch.ones(1, 1, query.size(-2), key.size(-2), dtype=query.dtype, device=query.device)
        if not output_attentions:
            output = F.scaled_dot_product_attention(
                query, key, value, attn_mask=(0.0 if mask is None else mask) + bias, scale=1.0
            )
        else:
            scores = torch.matmul(query, key.transpose(-2, -1))
            if mask is not None:
                bias = bias + mask

            scores += bias
            weights = F.softmax(scores, dim=-1)
            output = torch.matmul(weights, value)
        return (output, weights) if output_attentions else (output, None)
    """,
    # cosine attention: its own scale for each head
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Cosine(nn.Module):
        def __init__(self):
            super().__init__()
            self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((3, 1, 1))))
        def forward(self, query, key, value):
            scale = torch.clamp(self.logit_scale, max=4.6).exp()
            scores = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)
            weights = (scores * scale).softmax(dim=-1)
            return weights @ value
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Cosine(nn.Module):
        def __init__(self):
            super().__init__()
            self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((3, 1, 1))))
        def forward(self, query, key, value):
            scale = torch.clamp(self.logit_scale, max=4.6).exp()
            return F.scaled_dot_product_attention(
                F.normalize(query, dim=-1) * scale,
                F.normalize(key, dim=-1),
                value,
                scale=1.0,
            )
    """,
)

does_not_match = (
    # the weights are returned whatever happens
    """
    import torch
    def attend(q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        return w @ v, w
    """,
    # another axis
    """
    import torch
    def attend(q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-2)
        return w @ v
    """,
    # a mask after the softmax
    """
    import torch
    def attend(q, k, v, mask):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1) * mask
        return w @ v
    """,
    # soft-capped scores
    """
    import torch
    def attend(q, k, v):
        s = 50.0 * torch.tanh(q @ k.transpose(-2, -1) / 50.0)
        return torch.softmax(s, dim=-1) @ v
    """,
    # a learned temperature for each key: the softmax runs over it
    """
    import torch
    from torch import nn
    class A(nn.Module):
        def __init__(self):
            super().__init__()
            self.temperature = nn.Parameter(torch.ones(8, 1, 64))
        def forward(self, q, k, v):
            return torch.softmax(q @ k.transpose(-2, -1) * self.temperature, dim=-1) @ v
    """,
)
