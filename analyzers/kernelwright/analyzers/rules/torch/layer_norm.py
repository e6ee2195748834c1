"""A LayerNorm written out by hand becomes `torch.nn.functional.layer_norm`.

## What it finds
`(x - mean) / sqrt(var + eps) * weight + bias` over the last axis, with the population variance. Over axis 1 of pictures it
tells, without an edit, that the kernel computes it of the channels-last permutation.

## Why it is the same
It is the kernel's definition. The functional form keeps the parameters' names (`gamma`, `a_2`), so old checkpoints load.

## When it is not
The sample variance (`x.std()` as the Annotated Transformer has it divides by N-1), eps added to the standard deviation,
another axis. Without casts written out the fix runs the kernel for float32 only: under autocast and in half precision the
hand-written form returns another element type.

## What it gains
One pass instead of about eight: 7 to 20 times on a CPU.

## Fix safety
Guarded unless all casts are written out. eps is always passed.
"""

import torch
import torch.nn.functional as F

name = "layer-norm"
kernel = "torch.nn.functional.layer_norm"
tier = "exact"
numerics = "E"
min_torch = "1.8"
message = "hand-written LayerNorm: F.layer_norm computes the same in one pass"
keeps = ("eps", "the element type of the result", "the state dict: weight and bias keep their names")
shapes = {"x": ("B", "L", "E"), "weight": ("E",), "bias": ("E",)}
finder = "layer-norm"
conditions = ("last_axis", "same_input", "output_type")


def definition_cast(x, weight: Weight, bias: Weight, eps: Number):
    h = x.to(torch.float32)
    c = h - h.mean(-1, keepdim=True)
    n = c * torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + eps)
    return (n * weight.to(torch.float32) + bias.to(torch.float32)).to(x.dtype)


def kernel_cast(x, weight, bias, eps):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def definition_cast_plain(x, eps: Number):
    h = x.to(torch.float32)
    c = h - h.mean(-1, keepdim=True)
    return (c * torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def kernel_cast_plain(x, eps):
    return F.layer_norm(x, (x.shape[-1],), eps=eps)


def definition_uncast(x, weight: Weight, bias: Weight, eps: Number):
    c = x - x.mean(-1, keepdim=True)
    return c * torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + eps) * weight + bias


def kernel_uncast(x, weight, bias, eps):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def guard_uncast(x, weight, bias, eps):
    return x.dtype == torch.float32 and weight.dtype == torch.float32 and bias.dtype == torch.float32


def definition_uncast_plain(x, eps: Number):
    c = x - x.mean(-1, keepdim=True)
    return c * torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + eps)


def kernel_uncast_plain(x, eps):
    return F.layer_norm(x, (x.shape[-1],), eps=eps)


def guard_uncast_plain(x, eps):
    return x.dtype == torch.float32


matches = (
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class LayerNorm(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.gamma = nn.Parameter(torch.ones(n))
            self.beta = nn.Parameter(torch.zeros(n))
        def forward(self, x):
            mean = x.mean(-1, keepdim=True)
            var = x.var(-1, keepdim=True, unbiased=False)
            out = (x - mean) / torch.sqrt(var + 1e-5)
            return self.gamma * out + self.beta
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class LayerNorm(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.gamma = nn.Parameter(torch.ones(n))
            self.beta = nn.Parameter(torch.zeros(n))
        def forward(self, x):
            if (
                x.dtype == torch.float32
                and self.gamma.dtype == torch.float32
                and self.beta.dtype == torch.float32
            ):
                return F.layer_norm(x, (x.shape[-1],), self.gamma, self.beta, 1e-05)
            else:
                mean = x.mean(-1, keepdim=True)
                var = x.var(-1, keepdim=True, unbiased=False)
                out = (x - mean) / torch.sqrt(var + 1e-5)
                return self.gamma * out + self.beta
    """,
)

reports = (
    # over the channels of a picture
    """
    import torch
    from torch import nn
    class LayerNorm2d(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(n))
            self.bias = nn.Parameter(torch.zeros(n))
        def forward(self, x):
            u = x.mean(1, keepdim=True)
            s = (x - u).pow(2).mean(1, keepdim=True)
            x = (x - u) / torch.sqrt(s + 1e-6)
            return self.weight[:, None, None] * x + self.bias[:, None, None]
    """,
)

does_not_match = (
    # the sample variance, eps outside the root: the Annotated Transformer
    """
    import torch
    def norm(x, a, b, eps=1e-6):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return a * (x - mean) / (std + eps) + b
    """,
    # the sample variance inside the root
    """
    import torch
    def norm(x, a, b):
        c = x - x.mean(-1, keepdim=True)
        return a * c / torch.sqrt(x.var(-1, keepdim=True) + 1e-5) + b
    """,
    # over the channels, with the sample variance
    """
    import torch
    def norm(x):
        c = x - x.mean(1, keepdim=True)
        return c / torch.sqrt(x.var(1, keepdim=True) + 1e-5)
    """,
)
