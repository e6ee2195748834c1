"""The real classes before and after a fix, run against each other: `python real_class.py SUBJECT ORIGINAL PATCHED...`.

Run in a process of its own, with the corpus on PYTHONPATH. All files are loaded under the package of the original, so that
relative imports work. Prints one JSON object a check, with the patched file's path.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from ran_equal import Check, Inputs, compare, compare_dropout, compare_state
from torch import Tensor, nn

Subject = Callable[[ModuleType, ModuleType], Iterator[Check]]

UPCASTS = 1e-5
"""Tolerance in float64 where the old code computes in float32 whatever it is given."""


def load(path: str, name: str) -> ModuleType:
    """A module from a file, under a dotted name whose package is already importable."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def pair(old: ModuleType, new: ModuleType, name: str, *arguments: Any, **keywords: Any) -> tuple[nn.Module, nn.Module]:
    """One class of both modules, built alike, with the same random weights."""
    modules = []
    for module in (old, new):
        torch.manual_seed(0)
        modules.append(getattr(module, name)(*arguments, **keywords).double())
    with torch.no_grad():
        for parameter in modules[0].parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)  # weights of one and biases of zero hide mistakes
    modules[1].load_state_dict(modules[0].state_dict(), strict=False)  # `compare_state` judges the keys
    return modules[0], modules[1]


def normal(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fixed(**values: Any) -> Inputs:
    """Inputs whose floating tensors follow the dtype; a function of the dtype is called with it (masks)."""

    def made(dtype: torch.dtype) -> Mapping[str, Any]:
        def typed(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.to(dtype) if value.is_floating_point() else value
            if isinstance(value, tuple):
                return tuple(typed(inner) for inner in value)
            return value(dtype) if callable(value) else value

        return {name: typed(value) for name, value in values.items()}

    return made


def masked(drop: Tensor, value: float | None = None) -> Callable[[torch.dtype], Tensor]:
    """An additive mask: `value` (None: the dtype's minimum) where `drop`, else 0."""

    def made(dtype: torch.dtype) -> Tensor:
        # In float64 that of float32: Llama's softmax runs in float32, where float64's would be -inf.
        low = torch.finfo(torch.float32 if dtype == torch.float64 else dtype).min if value is None else value
        return torch.zeros(drop.shape, dtype=dtype).masked_fill(drop, low)

    return made


def padding(rows: int, queries: int, keys: int) -> Tensor:
    """(rows, 1, queries, keys), True drops: the last keys of every second row."""
    drop = torch.zeros(rows, 1, queries, keys, dtype=torch.bool)
    drop[::2, ..., keys - 2 :] = True
    return drop


def causal(rows: int, queries: int, keys: int) -> Tensor:
    """(rows, 1, queries, keys), True drops: the future, the last query seeing every key."""
    return torch.ones(rows, 1, queries, keys).triu(keys - queries + 1).bool()


def with_empty_row(drop: Tensor) -> Tensor:
    """The same mask, with one query (the last of the first row) that may see nothing."""
    drop = drop.clone()
    drop[0, ..., -1, :] = True
    return drop


def empty_rows(drop: Tensor) -> Tensor:
    """(rows, queries), True for a query that may see nothing."""
    return drop.all(-1)[:, 0]


# --- transformers/models/bert/modeling_bert.py ---------------------------------------------------------------------------


def bert(old: ModuleType, new: ModuleType) -> Iterator[Check]:
    transformers = importlib.import_module("transformers")

    def config(**changes: Any) -> Any:
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 2}
        none = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
        return transformers.BertConfig(**sizes, **{**none, "vocab_size": 40, "max_position_embeddings": 24, **changes})

    hidden, other = normal(3, 7, 32), normal(3, 5, 32, seed=4)
    keys_values = normal(3, 4, 6, 8, seed=5), normal(3, 4, 6, 8, seed=6)
    empty = with_empty_row(causal(3, 7, 7))
    masks = {
        "no mask": None,
        "padding mask": masked(padding(3, 1, 7)),
        "mask a query": masked(causal(3, 7, 7)),
        "mask of -inf": masked(causal(3, 7, 7), float("-inf")),
        "a fully masked row": masked(empty),
    }
    for kind in ("absolute", "relative_key", "relative_key_query"):
        attention = pair(old, new, "BertSelfAttention", config(position_embedding_type=kind, is_decoder=True))
        yield from compare_state(*attention)
        for name, mask in masks.items():
            if kind == "absolute" or name == "padding mask":
                call = fixed(hidden_states=hidden, attention_mask=mask)
                unread = empty_rows(empty) if "row" in name else None
                yield from compare(f"BertSelfAttention, {kind}, {name}", *attention, call, unread=unread)
        calls = {
            "output_attentions": fixed(
                hidden_states=hidden, attention_mask=masked(padding(3, 1, 7)), output_attentions=True
            ),
            "head_mask": fixed(
                hidden_states=hidden,
                attention_mask=masked(padding(3, 1, 7)),
                head_mask=torch.tensor([1.0, 0.0, 0.5, 1.0]).view(1, 4, 1, 1),
            ),
            "cache": fixed(hidden_states=hidden[:, :1], attention_mask=None, past_key_value=keys_values),
            "cross attention": fixed(
                hidden_states=hidden,
                attention_mask=None,
                encoder_hidden_states=other,
                encoder_attention_mask=masked(padding(3, 1, 5)),
            ),
            "cross attention, cache": fixed(
                hidden_states=hidden[:, :1],
                attention_mask=None,
                encoder_hidden_states=other,
                encoder_attention_mask=masked(padding(3, 1, 6)),
                past_key_value=keys_values,
            ),
        }
        for name, call in calls.items():
            # Relative positions and cross attention do not go together in the original: the lengths differ.
            if kind == "absolute" or name in ("output_attentions", "head_mask", "cache"):
                yield from compare(f"BertSelfAttention, {kind}, {name}", *attention, call)

    dropping = pair(old, new, "BertSelfAttention", config(attention_probs_dropout_prob=0.3))
    call = fixed(hidden_states=hidden, attention_mask=masked(padding(3, 1, 7)))
    yield from compare_dropout("BertSelfAttention", *dropping, call)

    ids = torch.randint(0, 40, (3, 7), generator=torch.Generator().manual_seed(7))
    words = torch.ones(3, 7, dtype=torch.long)
    words[0, 4:] = 0
    model = pair(old, new, "BertModel", config())
    yield from compare_state(*model)
    yield from compare("BertModel", *model, fixed(input_ids=ids, attention_mask=words), factor=4.0)
    yield from compare(
        "BertModel, everything returned",
        *model,
        fixed(input_ids=ids, attention_mask=words, output_attentions=True, output_hidden_states=True),
        factor=4.0,
    )
    decoder = pair(old, new, "BertLMHeadModel", config(is_decoder=True, add_cross_attention=True))
    prompt = fixed(input_ids=ids, encoder_hidden_states=other, use_cache=True)
    yield from compare("BertLMHeadModel, prompt", *decoder, prompt, factor=4.0)
    layer = (*keys_values, normal(3, 4, 5, 8, seed=8), normal(3, 4, 5, 8, seed=9))
    step = fixed(input_ids=ids[:, :1], encoder_hidden_states=other, past_key_values=(layer, layer), use_cache=True)
    yield from compare("BertLMHeadModel, one token with cache", *decoder, step, factor=4.0)


# --- transformers/models/llama/modeling_llama.py -------------------------------------------------------------------------


def llama(old: ModuleType, new: ModuleType) -> Iterator[Check]:
    transformers = importlib.import_module("transformers")

    def config(**changes: Any) -> Any:
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 2}
        return transformers.LlamaConfig(**sizes, **{"vocab_size": 40, "max_position_embeddings": 32, **changes})

    hidden = normal(3, 7, 32)
    for eps in (1e-6, 1e-2):
        norm = pair(old, new, "LlamaRMSNorm", 32, eps)
        yield from compare_state(*norm)
        yield from compare(f"LlamaRMSNorm, eps {eps}", *norm, fixed(hidden_states=hidden), exact=UPCASTS)
        small = fixed(hidden_states=hidden * 1e-3)
        yield from compare(f"LlamaRMSNorm, eps {eps}, small values", *norm, small, exact=UPCASTS)

    positions = torch.arange(7)[None].expand(3, 7)
    empty = with_empty_row(causal(3, 7, 7))
    masks = {
        "no mask": None,
        "causal mask": masked(causal(3, 7, 7)),
        "mask of -inf": masked(causal(3, 7, 7), float("-inf")),
        "a fully masked row": masked(empty),
    }
    for groups in (4, 2, 1):
        attention = pair(old, new, "LlamaAttention", config(num_key_value_heads=groups))
        yield from compare_state(*attention)
        for name, mask in masks.items():
            if groups == 2 or name == "causal mask":
                call = fixed(hidden_states=hidden, attention_mask=mask, position_ids=positions)
                unread = empty_rows(empty) if "row" in name else None
                yield from compare(
                    f"LlamaAttention, {groups} key heads, {name}", *attention, call, exact=UPCASTS, unread=unread
                )
        mask = masks["causal mask"]
        weights = fixed(hidden_states=hidden, attention_mask=mask, position_ids=positions, output_attentions=True)
        yield from compare(f"LlamaAttention, {groups} key heads, output_attentions", *attention, weights, exact=UPCASTS)
        past = normal(3, groups, 6, 8, seed=5), normal(3, groups, 6, 8, seed=6)
        step = fixed(
            hidden_states=hidden[:, :2],
            attention_mask=masked(causal(3, 2, 8)),
            position_ids=positions[:, :2] + 6,
            past_key_value=past,
            use_cache=True,
        )
        yield from compare(f"LlamaAttention, {groups} key heads, cache", *attention, step, exact=UPCASTS)
    sliced = pair(old, new, "LlamaAttention", config(pretraining_tp=2))
    call = fixed(hidden_states=hidden, attention_mask=masks["causal mask"], position_ids=positions)
    yield from compare("LlamaAttention, pretraining_tp", *sliced, call, exact=UPCASTS)

    ids = torch.randint(0, 40, (3, 7), generator=torch.Generator().manual_seed(7))
    words = torch.ones(3, 7, dtype=torch.long)
    words[0, :3] = 0  # padded on the left: the first queries see nothing
    model = pair(old, new, "LlamaForCausalLM", config(num_key_value_heads=2))
    yield from compare_state(*model)
    # Labels are shifted by one: the last padded query would answer for the first word.
    labels = ids.masked_fill((words == 0) | (words.roll(1, 1) == 0), -100)
    for name, call in {
        "plain": fixed(input_ids=ids),
        "padded on the left": fixed(input_ids=ids, attention_mask=words, labels=labels, use_cache=False),
        "everything returned": fixed(input_ids=ids, output_attentions=True, output_hidden_states=True),
    }.items():
        padded = "padded" in name
        yield from compare(
            f"LlamaForCausalLM, {name}",
            *model,
            call,
            exact=UPCASTS,
            factor=4.0,
            unread=words == 0 if padded else None,
            oracle_dtype=torch.float32 if padded else torch.float64,
        )
    past = normal(3, 2, 6, 8, seed=5), normal(3, 2, 6, 8, seed=6)
    step = fixed(input_ids=ids[:, :1], past_key_values=(past, past), use_cache=True)
    yield from compare("LlamaForCausalLM, one token with cache", *model, step, exact=UPCASTS, factor=4.0)


# --- transformers/activations.py -----------------------------------------------------------------------------------------


def activations(old: ModuleType, new: ModuleType) -> Iterator[Check]:
    ordinary = normal(5, 33) * 3
    inputs = {
        "ordinary": ordinary,
        "large": ordinary * 20,
        "tiny": ordinary * 1e-6,
        "not contiguous": ordinary.t(),
        "one number": normal(),
        "empty": normal(0, 4),
    }
    for name in ("NewGELUActivation", "GELUActivation", "FastGELUActivation", "AccurateGELUActivation"):
        module = pair(old, new, name, **({"use_gelu_python": True} if name == "GELUActivation" else {}))
        yield from compare_state(*module)
        for kind, tensor in inputs.items():
            # FastGELU writes sqrt(2/pi) with ten digits only.
            exact = 1e-8 if name == "FastGELUActivation" else 1e-9
            yield from compare(f"{name}, {kind}", *module, fixed(input=tensor), exact=exact)


# --- vit_pytorch/vit.py --------------------------------------------------------------------------------------------------


def vit(old: ModuleType, new: ModuleType) -> Iterator[Check]:
    x = normal(2, 9, 32)
    for heads in (4, 1):
        attention = pair(old, new, "Attention", 32, heads=heads, dim_head=32 // heads)
        yield from compare_state(*attention)
        yield from compare(f"Attention, {heads} heads", *attention, fixed(x=x))
    wide = pair(old, new, "Attention", 32, heads=3, dim_head=16)
    yield from compare("Attention, wide heads", *wide, fixed(x=x))
    yield from compare_dropout(
        "Attention", *pair(old, new, "Attention", 32, heads=4, dim_head=8, dropout=0.3), fixed(x=x)
    )
    sizes = {"image_size": 16, "patch_size": 4, "num_classes": 5, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 48}
    model = pair(old, new, "ViT", **sizes)
    yield from compare_state(*model)
    yield from compare("ViT", *model, fixed(img=normal(2, 3, 16, 16)), factor=4.0)


# --- examples/sample_model.py --------------------------------------------------------------------------------------------


def sample(old: ModuleType, new: ModuleType) -> Iterator[Check]:
    def config(**changes: Any) -> Any:
        sizes = {"block_size": 12, "vocab_size": 40, "n_layer": 2, "n_head": 4, "n_embd": 32, "dropout": 0.0}
        return old.GPTConfig(**{**sizes, **changes})

    x = normal(2, 9, 32)
    attention = pair(old, new, "CausalSelfAttention", config())
    yield from compare_state(*attention)
    for length in (1, 5, 12):
        yield from compare(f"CausalSelfAttention, length {length}", *attention, fixed(x=normal(2, length, 32)))
    dropping = pair(old, new, "CausalSelfAttention", config(dropout=0.3))
    yield from compare_dropout("CausalSelfAttention", *dropping, fixed(x=x))
    yield from compare("NewGELU", *pair(old, new, "NewGELU"), fixed(x=x * 3))
    norm = pair(old, new, "RMSNorm", 32)
    yield from compare_state(*norm)
    yield from compare("RMSNorm", *norm, fixed(x=x), exact=UPCASTS)
    yield from compare("SwiGLU", *pair(old, new, "SwiGLU", 32, 48), fixed(x=x))
    model = pair(old, new, "GPT", config())
    yield from compare_state(*model)
    tokens = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(7))
    yield from compare("GPT", *model, fixed(tokens=tokens), exact=UPCASTS, factor=4.0)


SUBJECTS: dict[str, tuple[str, Subject]] = {
    "bert": ("transformers.models.bert.modeling_bert", bert),
    "llama": ("transformers.models.llama.modeling_llama", llama),
    "activations": ("transformers.activations", activations),
    "vit": ("vit", vit),
    "sample": ("sample_model", sample),
}
"""By name: the module's dotted name (its package must be importable) and the comparison."""


def main(subject: str, original: str, *patched: str) -> None:
    torch.set_num_threads(1)
    name, comparison = SUBJECTS[subject]
    old = load(original, f"{name}_original")
    for number, path in enumerate(patched):
        for check in comparison(old, load(path, f"{name}_patched_{number}")):
            print(json.dumps({"file": path, **dataclasses.asdict(check)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
