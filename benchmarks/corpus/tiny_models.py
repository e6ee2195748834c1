"""Small models of any architecture in transformers: a configuration shrunk by the usual names of its sizes, and inputs made
from the signature of `forward`. A guess that fails is an exception, and the model is left out of the table."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

SIZES: dict[str, int] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "embed_dim", "emb_dim", "dim", "embedding_size", "n_embed"), 32
    ),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "num_encoder_layers", "n_encoder_layers", "n_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"), 48),
    **dict.fromkeys(("hidden_dim", "encoder_intermediate_size"), 48),
    **dict.fromkeys(("d_kv", "head_dim", "d_head"), 8),
    **dict.fromkeys(("rotary_dim",), 4),
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "n_ctx": 64,
    "max_source_positions": 64,
    "max_target_positions": 64,
    "image_size": 32,
    "patch_size": 8,
    "num_key_value_heads": 2,
    "entity_vocab_size": 20,
}
"""Attribute of a configuration and its value in a small model. An attribute that is no int there is left alone."""

NEXT_TOKENS = 9


def shrink(config: Any, sizes: Mapping[str, int]) -> Any:
    """The same configuration, in place: sizes as given (never larger), no dropout, also in nested configurations."""
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            shrink(value, sizes)
        elif isinstance(value, bool):
            continue
        elif isinstance(value, float) and ("drop" in name):
            setattr(config, name, 0.0)
        elif isinstance(value, int) and name in sizes and value > sizes[name]:
            setattr(config, name, sizes[name])
    for token in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        value = getattr(config, token, None)
        if isinstance(value, int) and value >= 99:
            setattr(config, token, 1)
    if getattr(config, "vocab_size", 0) is None:
        config.vocab_size, config.pad_token_id = 99, 1
    if getattr(config, "attention_type", None) == "block_sparse":
        config.attention_type = "original_full"
    for name, value in (("use_cache", False), ("layerdrop", 0.0)):
        if hasattr(config, name):
            setattr(config, name, value)
    return config


def configurations(config_class: Any) -> Iterator[Any]:
    """Configurations to try, the smallest first."""
    yield shrink(config_class(), SIZES)
    layers = {name: 2 for name in SIZES if "layer" in name}
    yield shrink(config_class(), {**layers, "vocab_size": 99})


def without_dropout(model: nn.Module) -> None:
    """No dropout in a built model, whatever its configuration calls it: layers, and plain numbers named `*drop*`."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)


def size_of(model_class: Any, config: Any) -> int:
    """Parameters of a model that is not allocated; 0 where it cannot be built without values."""
    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in model_class(config).parameters())
    except (RuntimeError, NotImplementedError):
        return 0


def _first(config: Any, *names: str, default: int) -> int:
    for part in (config, getattr(config, "vision_config", None), getattr(config, "audio_config", None)):
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, int):
                return value
            if isinstance(value, tuple | list) and value:
                return int(value[0])
    return default


def inputs(model: nn.Module, config: Any) -> Iterator[dict[str, Any]]:
    """Keyword arguments of `forward` to try, from the most complete on."""
    names = inspect.signature(model.forward).parameters
    generator = torch.Generator().manual_seed(5)
    text = getattr(config, "text_config", config)
    vocabulary = min(getattr(text, "vocab_size", None) or 99, 99)
    made: dict[str, Any] = {}
    padding = torch.ones(2, NEXT_TOKENS, dtype=torch.long)
    padding[0, -2:] = 0

    def ids(length: int) -> torch.Tensor:
        return torch.randint(3, vocabulary - 2, (2, length), generator=generator)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    if "input_ids" in names:
        made |= {"input_ids": ids(NEXT_TOKENS)}
    if "decoder_input_ids" in names:
        made |= {"decoder_input_ids": ids(7)}
    if "bbox" in names:
        made |= {"bbox": torch.zeros(2, NEXT_TOKENS, 4, dtype=torch.long)}
    if "pixel_values" in names:
        side = _first(config, "image_size", "input_size", default=32)
        channels = _first(config, "num_channels", "in_channels", default=3)
        frames = _first(config, "num_frames", default=0)
        made |= {"pixel_values": noise(2, frames, channels, side, side) if frames else noise(2, channels, side, side)}
    if "input_values" in names:
        mels, frames = getattr(config, "num_mel_bins", None), getattr(config, "max_length", 20)
        spectrogram = mels is not None and hasattr(config, "patch_size")
        made |= {"input_values": noise(2, frames, mels or 1) if spectrogram else noise(2, 4000)}
    if "input_features" in names:
        mels = _first(config, "num_mel_bins", "input_feat_per_channel", default=80)
        made |= {"input_features": noise(2, mels, 2 * _first(config, "max_source_positions", default=32))}
        made |= {"decoder_input_ids": ids(7)} if "decoder_input_ids" in names else {}
    if "attention_mask" in names and "input_ids" in names:
        yield {**made, "attention_mask": padding}
    yield made
    if "input_features" in names:
        mels = _first(config, "num_mel_bins", "input_feat_per_channel", default=80)
        yield {**made, "input_features": noise(2, 40, mels)}
    if "pixel_values" in made and made["pixel_values"].dim() == 4:
        for side in (64, 224):
            yield {**made, "pixel_values": noise(2, made["pixel_values"].shape[1], side, side)}
