"""The closed list of finders a rule file may name."""

from __future__ import annotations

from kernelwright.analyzers.finders import (
    activations,
    attention,
    attention_faults,
    channels_last,
    compilation,
    experts,
    folding,
    liger,
    pretrained,
    products,
    projections,
    residual_norms,
    rotary,
    tensor_parallel,
)
from kernelwright.analyzers.finders.attention_modules import mha_need_weights
from kernelwright.analyzers.finders.causal_masks import is_causal
from kernelwright.analyzers.finders.device_copies import copy_read_early
from kernelwright.analyzers.finders.dropout import dropout_in_eval
from kernelwright.analyzers.finders.finding import FileFinder, FunctionFinder
from kernelwright.analyzers.finders.grouped_heads import enable_gqa
from kernelwright.analyzers.finders.hand_written import gelu_in_an_autograd_function, layer_norm_over_channels
from kernelwright.analyzers.finders.inference import inference_mode
from kernelwright.analyzers.finders.losses import loss_of_softmax
from kernelwright.analyzers.finders.training import fused_optimizer, non_blocking, zero_grad

FUNCTION_FINDERS: dict[str, FunctionFinder] = {
    "addmm": products.addmm,
    "conv-bn-fold": folding.conv_bn_in_forward,
    "causal-decode": attention_faults.causal_decode,
    "dropout-add-norm": residual_norms.dropout_add_norm,
    "enable-gqa": enable_gqa,
    "gelu": gelu_in_an_autograd_function,
    "layer-norm": layer_norm_over_channels,
    "flash-attention": attention.flash_attention,
    "flex-attention": attention.flex_attention,
    "dropout-in-eval": dropout_in_eval,
    "float-mask": attention_faults.float_mask,
    "glu-fuse": projections.glu_fuse,
    "liger": liger.liger,
    "linear-act": activations.linear_act,
    "linear-bn": folding.linear_bn_in_forward,
    "is-causal": is_causal,
    "loss-of-softmax": loss_of_softmax,
    "mask-and-causal": attention_faults.mask_and_causal,
    "mask-polarity": attention_faults.mask_polarity,
    "mha-need-weights": mha_need_weights,
    "qkv-fuse": projections.qkv_fuse,
    "rope-fuse": rotary.rope_fuse,
}
"""Called once for each function that is translated."""

FILE_FINDERS: dict[str, FileFinder] = {
    "attn-implementation": pretrained.attention_left_to_default,
    "channels-last": channels_last.channels_last,
    "compile": compilation.compile_blocks,
    "conv-bn-fold": folding.conv_bn_in_sequence,
    "copy-read-early": copy_read_early,
    "fused-optimizer": fused_optimizer,
    "grouped-mm": experts.grouped_mm,
    "inference-mode": inference_mode,
    "linear-bn": folding.linear_bn_in_sequence,
    "non-blocking": non_blocking,
    "tensor-parallel": tensor_parallel.tensor_parallel,
    "zero-grad": zero_grad,
}
"""Called once a file. Each begins with a cheap test of the text: it runs on every file someone types in. A name in both
tables is looked for in both ways."""
