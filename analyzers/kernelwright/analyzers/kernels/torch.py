"""The kernels of torch, each as plain functions in torch.

Sources: the documentation of torch 2.13 for `torch.nn.functional`; element types as measured there on the CPU.
"""

import math

import torch


def gelu_none(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x * torch.sigmoid(x)


def mish(x):
    return x * torch.tanh(torch.nn.functional.softplus(x))


def hardswish(x):
    return x * torch.clamp(x + 3, 0, 6) / 6


# Attention: softmax accumulates in float32 whatever the element type, so no cast stands here.
def attention_plain(q, k, v, p, scale):
    return torch.dropout(torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1), p, True) @ v


def attention_additive(q, k, v, mask, p, scale):
    return torch.dropout(torch.softmax(q @ k.transpose(-2, -1) * scale + mask, dim=-1), p, True) @ v


def attention_boolean(q, k, v, mask, p, scale):
    scores = torch.where(mask, q @ k.transpose(-2, -1) * scale, -math.inf)
    return torch.dropout(torch.softmax(scores, dim=-1), p, True) @ v


# rms_norm normalises in float32 and returns the input's type; the weight is multiplied in before the last cast.
def rms_norm_plain(x, eps):
    h = x.to(torch.float32)
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def rms_norm_weight(x, weight, eps):
    h = x.to(torch.float32)
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * weight.to(torch.float32)).to(x.dtype)


def layer_norm_plain(x, eps):
    h = x.to(torch.float32)
    c = h - h.mean(-1, keepdim=True)
    return (c * torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def layer_norm_weight(x, weight, eps):
    h = x.to(torch.float32)
    c = h - h.mean(-1, keepdim=True)
    return (c * torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + eps) * weight.to(torch.float32)).to(x.dtype)


def layer_norm_affine(x, weight, bias, eps):
    h = x.to(torch.float32)
    c = h - h.mean(-1, keepdim=True)
    n = c * torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + eps)
    return (n * weight.to(torch.float32) + bias.to(torch.float32)).to(x.dtype)
