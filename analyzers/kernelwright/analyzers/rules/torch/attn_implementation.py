"""A model loaded without `attn_implementation` may fall back to slow attention without a word.

## What it finds
`AutoModel….from_pretrained(...)`, `….from_config(...)` and the same of a named model class of `transformers`, in a
file that never names an attention implementation. Nothing is said where the file asks for attention weights or gives
a head mask.

## Why it is the same
`sdpa` computes the attention that `eager` does, up to rounding. Newer versions of transformers choose it by
themselves where the architecture has it; naming it turns the silent fallback into an error that tells so.

## When it is not
`output_attentions=True` and `head_mask` need `eager`. In half precision the last bits differ, and a row that is
masked altogether gives other numbers. An architecture without sdpa attention raises a `ValueError` at loading.

## What it gains
Where eager ran before: memory that grows with the length instead of its square, and on a CPU 3 times at length 256
and 6 times at 1024 for the attention alone. Nothing where the default was sdpa already.

## Fix safety
A quick fix that adds the keyword, never in fix-all. Not checked to be the same program: what the library does with
the keyword depends on its version, which the condition names. Not run by us.
"""

name = "attn-implementation"
kernel = 'attn_implementation="sdpa"'
tier = "advice"
numerics = "T"
min_torch = "2.1"
message = "the attention implementation is left to the library's default"
keeps = ("checkpoints",)
finder = "attn-implementation"

matches = (
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained("some/model")
    model = AutoModelForCausalLM.from_pretrained("some/model", torch_dtype=torch.bfloat16)
    ---
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained("some/model")
    model = AutoModelForCausalLM.from_pretrained("some/model", torch_dtype=torch.bfloat16, attn_implementation="sdpa")
    """,
    """
    import torch
    import transformers
    def load(name):
        return transformers.BertForMaskedLM.from_pretrained(
            name,
            torch_dtype=torch.float16,  # half
        ).eval()
    ---
    import torch
    import transformers
    def load(name):
        return transformers.BertForMaskedLM.from_pretrained(
            name,
            torch_dtype=torch.float16,
            attn_implementation="sdpa",  # half
        ).eval()
    """,
    """
    import torch
    from transformers import AutoConfig, AutoModel
    model = AutoModel.from_config(AutoConfig.from_pretrained("some/model"))
    ---
    import torch
    from transformers import AutoConfig, AutoModel
    model = AutoModel.from_config(AutoConfig.from_pretrained("some/model"), attn_implementation="sdpa")
    """,
)

does_not_match = (
    """
    import torch
    from transformers import AutoModel
    model = AutoModel.from_pretrained("some/model", attn_implementation="eager")
    """,
    """
    import torch
    from transformers import AutoModel
    model = AutoModel.from_pretrained("some/model")
    weights = model(torch.zeros(1, 4, dtype=torch.long), output_attentions=True).attentions
    """,
    # what else is loaded by that name
    """
    import torch
    from transformers import AutoTokenizer, BertConfig, AutoImageProcessor
    from diffusers import UNet2DConditionModel
    tokenizer = AutoTokenizer.from_pretrained("a")
    config = BertConfig.from_pretrained("a")
    processor = AutoImageProcessor.from_pretrained("a")
    unet = UNet2DConditionModel.from_pretrained("a")
    """,
    # the keyword may be in there
    """
    import torch
    from transformers import AutoModel
    def load(name, **options):
        return AutoModel.from_pretrained(name, **options)
    """,
)
