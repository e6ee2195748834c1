"""Workloads of real kernels for the tuner's tests, written in the textual form of the architecture language."""

from __future__ import annotations

import pytest

from kernelwright.analyzers.architecture import parse_program
from kernelwright.analyzers.workload import Dimension, Mode, Workload


def gelu_tanh(
    shape: str = "4, 512, 3072", after: str = 'gelu(%x, approximate="tanh")', mode: Mode = "eval"
) -> Workload:
    """transformers' NewGELUActivation against `after`."""
    before = f"""
        program NewGELUActivation.forward {{
          input %x: float32[{shape}]
          %half = constant(value=0.5)
          %scaled = mul(%half, %x)
          %three = constant(value=3.0)
          %cube = pow(%x, %three)
          %c = constant(value=0.044715)
          %small = mul(%c, %cube)
          %sum = add(%x, %small)
          %root = constant(value=0.7978845608028654)
          %inner = mul(%root, %sum)
          %tanh = tanh(%inner)
          %one = constant(value=1.0)
          %gate = add(%one, %tanh)
          %y = mul(%scaled, %gate)
          return %y
        }}"""
    new = f"program NewGELUActivation.forward {{\n input %x: float32[{shape}]\n %y = {after}\n return %y\n}}"
    sizes = (Dimension("batch", 4, "default"), Dimension("sequence", 512, "default"))
    return Workload("gelu", parse_program(before), parse_program(new), (("x", "normal"),), ("x",), sizes, mode)


def silu(shape: str = "4, 512, 3072") -> Workload:
    before = f"""
        program SiLU.forward {{
          input %x: float32[{shape}]
          %gate = sigmoid(%x)
          %y = mul(%x, %gate)
          return %y
        }}"""
    after = f"program SiLU.forward {{\n input %x: float32[{shape}]\n %y = silu(%x)\n return %y\n}}"
    return Workload("silu", parse_program(before), parse_program(after), (("x", "normal"),), ("x",), ())


def rms_norm(*, restore_dtype: bool = True, eps: float = 1e-6) -> Workload:
    """LlamaRMSNorm, which computes in float32 and casts back before the weight, against rms_norm."""
    before = """
        program LlamaRMSNorm.forward {
          input %hidden: float32[4, 512, 1024]
          input %weight: float32[1024]
          %own = dtype_of(%hidden)
          %single = dtype(name="float32")
          %x = cast(%hidden, %single)
          %two = constant(value=2)
          %square = pow(%x, %two)
          %mean = mean(%square, dims=(-1,), keepdim=True)
          %eps = constant(value=1e-06)
          %sum = add(%mean, %eps)
          %root = rsqrt(%sum)
          %normal = mul(%x, %root)
          %cast = cast(%normal, %own)
          %y = mul(%weight, %cast)
          return %y
        }"""
    after = f"""
        program LlamaRMSNorm.forward {{
          input %hidden: float32[4, 512, 1024]
          input %weight: float32[1024]
          %eps = constant(value={eps})
          %own = dtype_of(%hidden)
          %single = dtype(name="float32")
          %x = rms_norm(%hidden, %weight, %eps, dims=1)
          %y = cast(%x, {"%own" if restore_dtype else "%single"})
          return %y
        }}"""
    roles = (("hidden", "normal"), ("weight", "normal"))
    return Workload("rms-norm", parse_program(before), parse_program(after), roles, ("hidden", "weight"), ())


ATTENTION_INPUTS = """
          input %q: float32[4, 12, 512, 64]
          input %k: float32[4, 12, 512, 64]
          input %v: float32[4, 12, 512, 64]
"""


def attention(*, after_scale: str = "None", after_mask: str = "%mask", mode: Mode = "eval") -> Workload:
    """BERT's attention with an additive mask against scaled_dot_product_attention."""
    mask = "          input %mask: float32[4, 1, 1, 512]\n"
    before = f"""
        program BertSelfAttention.forward {{{ATTENTION_INPUTS}{mask}
          %turned = transpose(%k, a=-1, b=-2)
          %product = matmul(%q, %turned)
          %root = constant(value=8.0)
          %scaled = div(%product, %root)
          %masked = add(%scaled, %mask)
          %weights = softmax(%masked, dim=-1)
          %y = matmul(%weights, %v)
          return %y
        }}"""
    after = f"""
        program BertSelfAttention.forward {{{ATTENTION_INPUTS}{mask}
          %scale = constant(value={after_scale})
          %none = constant(value=None)
          %p = constant(value=0.0)
          %no = constant(value=False)
          %y = scaled_dot_product_attention(%q, %k, %v, {after_mask}, %p, %scale, %no, %no)
          return %y
        }}"""
    roles = (("q", "normal"), ("k", "normal"), ("v", "normal"), ("mask", "additive_mask"))
    return Workload("sdpa", parse_program(before), parse_program(after), roles, ("q", "k", "v"), (), mode)


def dropped_attention(fill: str) -> Workload:
    """Attention whose boolean mask (True drops) is filled with `fill`, against the kernel's boolean mask (True keeps)."""
    mask = "          input %drop: bool[4, 1, 512, 512]\n"
    before = f"""
        program Attention.forward {{{ATTENTION_INPUTS}{mask}
          %turned = transpose(%k, a=2, b=3)
          %product = matmul(%q, %turned)
          %root = constant(value=0.125)
          %scaled = mul(%product, %root)
          %fill = constant(value={fill})
          %masked = where(%drop, %fill, %scaled)
          %weights = softmax(%masked, dim=-1)
          %y = matmul(%weights, %v)
          return %y
        }}"""
    after = f"""
        program Attention.forward {{{ATTENTION_INPUTS}{mask}
          %keep = logical_not(%drop)
          %none = constant(value=None)
          %p = constant(value=0.0)
          %no = constant(value=False)
          %y = scaled_dot_product_attention(%q, %k, %v, %keep, %p, %none, %no, %no)
          return %y
        }}"""
    roles = (("q", "normal"), ("k", "normal"), ("v", "normal"), ("drop", "drop_mask"))
    return Workload("sdpa", parse_program(before), parse_program(after), roles, ("q", "k", "v"), ())


class Workloads:
    """The workloads by name, as one fixture: `--import-mode=importlib` gives tests no module to import from."""

    gelu_tanh = staticmethod(gelu_tanh)
    silu = staticmethod(silu)
    rms_norm = staticmethod(rms_norm)
    attention = staticmethod(attention)
    dropped_attention = staticmethod(dropped_attention)


@pytest.fixture
def workloads() -> type[Workloads]:
    return Workloads
