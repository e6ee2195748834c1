"""A root-mean-square norm written out by hand becomes `torch.nn.functional.rms_norm`.

## What it finds
`x / sqrt(mean(x**2) + eps)` over the last axis, with the casts to float32 and back that Llama (the weight after the cast) or
Gemma and torch (the weight before it) write, with or without a weight.

## Why it is the same
The kernel normalises in float32 and rounds once. Where the code casts back before it multiplies by the weight, the weight
stays outside the call: then every cast, and so the element type of the result, is the one it was, also under autocast.

## When it is not
eps outside the root, a variance instead of the mean of squares, another axis. Without any cast written out the fix runs the
kernel for float32 only.

## What it gains
One kernel instead of five on a GPU. On a CPU torch's rms_norm is the same operations inside: measured 0.98 to 1.0 times, so there
the hint withdraws.

## Fix safety
Exact where all casts are written out; guarded otherwise. eps is always passed. The weight keeps its name.
"""

import torch
import torch.nn.functional as F

name = "rms-norm"
kernel = "torch.nn.functional.rms_norm"
tier = "exact"
numerics = "E"
min_torch = "2.4"
message = "hand-written RMSNorm: F.rms_norm computes the same"
keeps = ("eps", "the element type of the result", "the state dict: the weight keeps its name")
shapes = {"x": ("B", "L", "E"), "weight": ("E",)}
conditions = ("last_axis", "same_input", "output_type")


def definition_cast_first(x, eps: Number):
    h = x.to(torch.float32)
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def kernel_cast_first(x, eps):
    return F.rms_norm(x, (x.shape[-1],), eps=eps)


def definition_weight_first(x, weight: Weight, eps: Number):
    h = x.to(torch.float32)
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * weight.to(torch.float32)).to(x.dtype)


def kernel_weight_first(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def definition_uncast(x, eps: Number):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def kernel_uncast(x, eps):
    return F.rms_norm(x, (x.shape[-1],), eps=eps)


def guard_uncast(x, eps):
    return x.dtype == torch.float32


def definition_uncast_weight(x, weight: Weight, eps: Number):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def kernel_uncast_weight(x, weight, eps):
    return weight * F.rms_norm(x, (x.shape[-1],), eps=eps)


def guard_uncast_weight(x, weight, eps):
    return x.dtype == torch.float32


def definition_half_cast(x, eps: Number):
    return x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + eps)


def kernel_half_cast(x, eps):
    return F.rms_norm(x, (x.shape[-1],), eps=eps)


def guard_half_cast(x, eps):
    return x.dtype == torch.float32


matches = (
    """
    import torch
    from torch import nn
    class LlamaRMSNorm(nn.Module):
        def __init__(self, hidden_size, eps=1e-6):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden_size))
            self.variance_epsilon = eps
        def forward(self, hidden_states):
            input_dtype = hidden_states.dtype
            hidden_states = hidden_states.to(torch.float32)
            variance = hidden_states.pow(2).mean(-1, keepdim=True)
            hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
            return self.weight * hidden_states.to(input_dtype)
    ---
    import torch
    from torch import nn
    class LlamaRMSNorm(nn.Module):
        def __init__(self, hidden_size, eps=1e-6):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden_size))
            self.variance_epsilon = eps
        def forward(self, hidden_states):
            return self.weight * nn.functional.rms_norm(
                hidden_states, (hidden_states.shape[-1],), eps=self.variance_epsilon
            )
    """,
)

does_not_match = (
    # eps outside the root
    """
    import torch
    def norm(x, eps=1e-6):
        h = x.float()
        return (h / (h.pow(2).mean(-1, keepdim=True).sqrt() + eps)).to(x.dtype)
    """,
    # a variance, not the mean of squares
    """
    import torch
    def norm(x):
        h = x.float()
        return (h * torch.rsqrt(h.var(-1, keepdim=True) + 1e-6)).to(x.dtype)
    """,
    # another axis
    """
    import torch
    def norm(x):
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(1, keepdim=True) + 1e-6)).to(x.dtype)
    """,
)
