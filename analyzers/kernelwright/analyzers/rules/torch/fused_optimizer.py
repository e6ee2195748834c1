"""`torch.optim.Adam` and `AdamW` get `fused=True`.

## What it finds
Constructor calls of `torch.optim.Adam` and `torch.optim.AdamW` that say nothing of `fused`, `foreach` or `differentiable`.

## Why it is the same
The fused kernel computes the same update in one pass over all parameters: parameters differ by about 2e-8 after 50 steps.
The optimizer's state has the same keys, so an old optimizer checkpoint loads.

## When it is not
Parameters that are sparse, complex, integers, or on a device without the kernel: torch raises an error then. Together with
`foreach=True` torch raises too. Lightning refuses to clip gradients under 16-bit mixed precision with a fused optimizer. A
file that asks for sparse gradients gets no fix.

## What it gains
The step alone: 3.5 times on a CPU (torch 2.13), less on a GPU where `foreach` is the default already. A training step as a whole
gains little where forward and backward dominate: measure.

## Fix safety
Assumed: the devices of the parameters are known at run time only. The first step shows it: torch raises, it does not go wrong.
"""

name = "fused-optimizer"
kernel = "torch.optim.AdamW"
tier = "assumed"
numerics = "T"
min_torch = "2.0"
message = "the optimizer updates parameters operation by operation: fused=True does it in one kernel"
keeps = ("the update rule", "the keys of the optimizer's state")
finder = "fused-optimizer"

matches = (
    """
    import torch
    def f(model):
        return torch.optim.AdamW(model.parameters(), lr=1e-3)
    ---
    import torch
    def f(model):
        return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    """,
    """
    import torch
    from torch import optim
    def f(model):
        groups = [{"params": list(model.parameters()), "weight_decay": 0.1}]
        return optim.Adam(
            groups,
            lr=1e-2,
            betas=(0.9, 0.95),
        )
    ---
    import torch
    from torch import optim
    def f(model):
        groups = [{"params": list(model.parameters()), "weight_decay": 0.1}]
        return optim.Adam(
            groups,
            lr=1e-2,
            betas=(0.9, 0.95),
            fused=True,
        )
    """,
    """
    import torch
    from torch.optim import AdamW
    def f(model):
        trained = [p for p in model.parameters() if p.requires_grad]
        return AdamW(trained)
    ---
    import torch
    from torch.optim import AdamW
    def f(model):
        trained = [p for p in model.parameters() if p.requires_grad]
        return AdamW(trained, fused=True)
    """,
)

does_not_match = (
    # another way is chosen
    """
    import torch
    def f(model):
        return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    """,
    # unknown keywords may hold it already
    """
    import torch
    def f(model, **options):
        return torch.optim.AdamW(model.parameters(), **options)
    """,
    # another package's class
    """
    import torch
    from transformers import AdamW
    def f(model):
        return AdamW(model.parameters(), lr=1e-3)
    """,
    # an optimizer without the kernel on every device
    """
    import torch
    def f(model):
        return torch.optim.RMSprop(model.parameters(), lr=1e-3)
    """,
    # sparse gradients
    """
    import torch
    def f(n):
        table = torch.nn.Embedding(n, 4, sparse=True)
        return torch.optim.Adam(table.parameters())
    """,
)
