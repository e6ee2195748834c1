"""The task list that records are collected for: pure data, neither tvm nor numpy. `expressions` turns one into a program.

Regenerated after TenSet's networks (ResNet-18/50, MobileNet-v2, ResNeXt-50, DCGAN, BERT tiny to base; its data can no
longer be loaded by today's TVM), and the pieces of today's transformers beside it: ViT, Llama-like norms, gated units,
rotary embedding, decoding. Batch 1, float32, in torch's layouts. Sizes are capped near 0.7 GFLOP, so that a
poor schedule ends within the measuring limit.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

FAMILIES: dict[str, tuple[str, ...]] = {
    "matmul": ("linear", "matmul"),
    "linear_gelu": ("linear_gelu",),
    "attention_scores": ("attention_scores",),
    "attention_values": ("attention_values",),
    "softmax": ("softmax",),
    "layer_norm": ("layer_norm",),
    "rms_norm": ("rms_norm",),
    "residual_norm": ("residual_layer_norm", "residual_rms_norm"),
    "glu": ("swiglu", "geglu"),
    "rotary": ("rotary",),
    "conv2d": ("conv2d", "conv2d_nhwc"),
    "depthwise_conv": ("depthwise_conv2d",),
    "grouped_conv": ("grouped_conv2d", "dilated_conv2d"),
    "conv_bn_relu": ("conv2d_bn_relu",),
    "transposed_conv": ("transposed_conv2d",),
    "pooling": ("max_pool2d", "avg_pool2d"),
    "reduction": ("row_sum", "row_logsumexp", "column_mean"),
    "elementwise": ("gelu_erf", "gelu_tanh", "silu", "bias_gelu_tanh"),
}
"""A family, which a split may hold out as a whole, and its programs (names of functions in `expressions`)."""


@dataclass(frozen=True, slots=True)
class Task:
    """One tensor program with its extents: `program` names the function of `expressions` that takes `shapes`."""

    family: str
    program: str
    name: str
    shapes: tuple[tuple[str, int], ...]

    @property
    def id(self) -> str:
        """Says it all, is the same for ever, and serves as a file name: `linear-m128-n768-k768`."""
        return "-".join([self.program, *(f"{axis}{extent}" for axis, extent in self.shapes)])

    @property
    def seed(self) -> int:
        """A 31-bit number from the id: the task's own stream of random programs, on every machine the same."""
        return int.from_bytes(hashlib.sha256(self.id.encode()).digest()[:4], "big") >> 1


def _tasks(family: str, program: str, axes: str, *rows: tuple[str, *tuple[int, ...]]) -> list[Task]:
    assert program in FAMILIES[family]
    names = axes.split()
    return [Task(family, program, name, tuple(zip(names, extents, strict=True))) for name, *extents in rows]


CONV = "c hw o r s p"
"""Channels in, height and width of a square image, channels out, size of the square kernel, stride, padding."""

_BY_FAMILY: list[list[Task]] = [
    _tasks(
        "matmul", "linear", "m n k",
        ("BERT-base projection", 128, 768, 768),
        ("ViT-B projection", 197, 768, 768),
        ("ViT-S query, key and value", 197, 1152, 384),
        ("BERT-medium projection", 128, 512, 512),
        ("BERT-tiny projection", 128, 128, 128),
        ("decoding projection", 1, 2048, 1024),
        ("ResNet-50 classifier", 1, 1000, 2048),
        ("GPT-2 feed-forward, short prompt", 64, 768, 3072),
    )
    + _tasks("matmul", "matmul", "m n k", ("square", 512, 512, 512), ("square", 256, 256, 256), ("odd", 384, 300, 200)),
    _tasks(
        "linear_gelu", "linear_gelu", "m n k",
        ("BERT-base feed-forward", 128, 3072, 768),
        ("BERT-medium feed-forward", 128, 2048, 512),
        ("ViT-tiny feed-forward", 197, 768, 192),
        ("BERT-mini feed-forward", 64, 1024, 256),
        ("BERT-tiny feed-forward", 128, 512, 128),
    ),
    _tasks(
        "attention_scores", "attention_scores", "b q t d",
        ("BERT-base", 12, 128, 128, 64),
        ("ViT-B", 12, 197, 197, 64),
        ("BERT-medium", 8, 128, 128, 64),
        ("BERT-tiny", 2, 128, 128, 64),
        ("decoding", 16, 1, 1024, 64),
    ),
    _tasks(
        "attention_values", "attention_values", "b q t d",
        ("BERT-base", 12, 128, 128, 64),
        ("ViT-B", 12, 197, 197, 64),
        ("BERT-medium", 8, 128, 128, 64),
        ("BERT-tiny", 2, 128, 128, 64),
        ("decoding", 16, 1, 1024, 64),
    ),
    _tasks(
        "softmax", "softmax", "m n",
        ("BERT-base attention", 1536, 128),
        ("ViT-B attention", 2364, 197),
        ("long rows", 1024, 512),
        ("classes", 128, 1000),
        ("vocabulary", 1, 30522),
    ),
    _tasks(
        "layer_norm", "layer_norm", "m n",
        ("BERT-base", 128, 768),
        ("ViT-B", 197, 768),
        ("many rows", 2048, 768),
        ("BERT-medium", 512, 512),
        ("short rows", 3136, 96),
    ),
    _tasks(
        "rms_norm", "rms_norm", "m n",
        ("small Llama", 128, 1024),
        ("many rows", 2048, 768),
        ("T5", 512, 512),
        ("decoding", 1, 4096),
        ("per head", 2048, 64),
    ),
    _tasks("residual_norm", "residual_layer_norm", "m n", ("BERT-base", 128, 768), ("long", 1024, 768), ("odd", 197, 384))
    + _tasks("residual_norm", "residual_rms_norm", "m n", ("Llama", 128, 2048), ("long", 1024, 1024), ("odd", 100, 640)),
    _tasks("glu", "swiglu", "m n", ("small Llama", 128, 2816), ("long", 1024, 1408), ("decoding", 1, 11008))
    + _tasks("glu", "geglu", "m n", ("T5-base", 128, 2048), ("odd", 197, 1365), ("long", 512, 3072)),
    _tasks(
        "rotary", "rotary", "h t d",
        ("Llama", 16, 128, 64),
        ("long", 8, 512, 128),
        ("small heads", 32, 128, 32),
        ("decoding", 32, 1, 128),
    ),
    _tasks(
        "conv2d", "conv2d", CONV,
        ("ResNet stem", 3, 224, 64, 7, 2, 3),
        ("ResNet-18 layer 1", 64, 56, 64, 3, 1, 1),
        ("ResNet-18 layer 2", 128, 28, 128, 3, 1, 1),
        ("ResNet-18 layer 4", 512, 7, 512, 3, 1, 1),
        ("ResNet-50 pointwise", 256, 56, 64, 1, 1, 0),
        ("ResNet-50 down", 256, 28, 512, 1, 2, 0),
        ("ViT-S patches", 3, 224, 384, 16, 16, 0),
    )
    + _tasks(
        "conv2d", "conv2d_nhwc", CONV,
        ("ResNet-18 layer 1", 64, 56, 64, 3, 1, 1),
        ("ResNet-18 layer 3", 256, 14, 256, 3, 1, 1),
        ("MobileNet-v2 pointwise", 96, 14, 576, 1, 1, 0),
    ),
    _tasks(
        "depthwise_conv", "depthwise_conv2d", "c hw r s p",
        ("MobileNet-v2", 32, 112, 3, 1, 1),
        ("MobileNet-v2", 144, 56, 3, 2, 1),
        ("MobileNet-v2", 384, 14, 3, 1, 1),
        ("MobileNet-v2", 960, 7, 3, 1, 1),
        ("MobileNet-v3", 120, 28, 5, 1, 2),
        ("ConvNeXt", 96, 56, 7, 1, 3),
    ),
    _tasks(
        "grouped_conv", "grouped_conv2d", f"{CONV} g",
        ("ResNeXt-50", 128, 56, 128, 3, 1, 1, 32),
        ("ResNeXt-50", 256, 28, 256, 3, 1, 1, 32),
        ("ResNeXt-50", 512, 14, 512, 3, 1, 1, 32),
    )
    + _tasks(
        "grouped_conv", "dilated_conv2d", f"{CONV} d",
        ("DeepLab", 128, 28, 128, 3, 1, 2, 2),
        ("DeepLab", 256, 14, 128, 3, 1, 4, 4),
        ("DeepLab", 64, 33, 64, 3, 1, 6, 6),
    ),
    _tasks(
        "conv_bn_relu", "conv2d_bn_relu", CONV,
        ("ResNet-18 layer 1", 64, 28, 64, 3, 1, 1),
        ("ResNet-18 layer 3", 256, 14, 256, 3, 1, 1),
        ("ResNet-18 layer 2, down", 64, 56, 128, 3, 2, 1),
        ("ResNet-50 pointwise", 64, 56, 256, 1, 1, 0),
        ("ResNet-50 pointwise", 1024, 14, 256, 1, 1, 0),
        ("MobileNet-v2 expansion", 24, 56, 144, 1, 1, 0),
    ),
    _tasks(
        "transposed_conv", "transposed_conv2d", CONV,
        ("DCGAN", 512, 4, 256, 4, 2, 1),
        ("DCGAN", 256, 8, 128, 4, 2, 1),
        ("DCGAN", 64, 32, 3, 4, 2, 1),
    ),
    _tasks("pooling", "max_pool2d", "c hw r s p", ("ResNet", 64, 112, 3, 2, 1), ("VGG", 128, 56, 2, 2, 0))
    + _tasks("pooling", "avg_pool2d", "c hw r s p", ("ResNet, global", 512, 7, 7, 1, 0), ("DenseNet", 256, 28, 2, 2, 0)),
    _tasks("reduction", "row_sum", "m n", ("tokens", 512, 768), ("one row", 1, 262144))
    + _tasks("reduction", "row_logsumexp", "m n", ("classes", 128, 1000), ("loss", 64, 8192))
    + _tasks("reduction", "column_mean", "m n", ("bias gradient", 512, 768)),
    _tasks("elementwise", "gelu_erf", "m n", ("BERT-base", 128, 3072), ("odd", 197, 1500))
    + _tasks("elementwise", "gelu_tanh", "m n", ("GPT-2", 128, 3072), ("long", 1024, 2048))
    + _tasks("elementwise", "silu", "m n", ("EfficientNet", 144, 3136), ("small", 64, 512))
    + _tasks("elementwise", "bias_gelu_tanh", "m n", ("GPT-2", 256, 3072)),
]  # fmt: skip


def tasks() -> tuple[Task, ...]:
    """All tasks, a family after the other in turn, so that any beginning of the list has many families."""
    longest = max(len(family) for family in _BY_FAMILY)
    return tuple(family[row] for row in range(longest) for family in _BY_FAMILY if row < len(family))


def task(identifier: str) -> Task:
    """The task of an id.

    Raises:
        KeyError: there is none.
    """
    return {known.id: known for known in tasks()}[identifier]
