"""A loop over experts can be one grouped matrix product.

## What it finds
A loop over `self.experts`, a `ModuleList`, which gives each expert the tokens that a router chose for it. Once a
class. Nothing is said of a sum over all experts for every token, and of a file that uses `grouped_mm`.

## Why it is the same
Tokens are sorted by expert, each expert's part is multiplied with its own weight, and the results go back to their
rows: the same products, in another order of the sum over experts.

## When it is not
Experts with a bias, of different kinds or of sizes that are no multiple of 8 do not fit. Dropped tokens and limits on
capacity need code of their own.

## What it gains
One launch instead of one for each expert, and no wait for the device to say how many tokens there are. It is fused on
GPUs from Hopper on; on an A100 it is a loop with such a wait again, and on a CPU it is a loop. Not measured by us on
a GPU.

## Fix safety
Advice in words. The weights of the experts must be one tensor, so the state dict changes. The snippet is run in our
tests against the loop, on a CPU.
"""

name = "grouped-mm"
kernel = "torch.nn.functional.grouped_mm"
tier = "advice"
numerics = "T"
min_torch = "2.8"
message = "experts run one after the other: grouped_mm multiplies for all of them in one call"
keeps = ("the result, but for the order of sums",)
finder = "grouped-mm"

reports = (
    """
    import torch
    from torch import nn
    class Mixture(nn.Module):
        def __init__(self, width, count):
            super().__init__()
            self.router = nn.Linear(width, count, bias=False)
            self.experts = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(count)])
        def forward(self, tokens):
            weights, chosen = self.router(tokens).softmax(-1).topk(2, dim=-1)
            output = torch.zeros_like(tokens)
            for number, expert in enumerate(self.experts):
                rows, place = torch.where(chosen == number)
                output.index_add_(0, rows, expert(tokens[rows]) * weights[rows, place, None])
            return output
    """,
    """
    import torch
    import torch.nn as nn
    class Mixture(nn.Module):
        def __init__(self, width, count):
            super().__init__()
            self.count = count
            self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(count)])
        def forward(self, tokens, chosen):
            output = torch.zeros_like(tokens)
            for i in range(self.count):
                mask = chosen == i
                if mask.any():
                    layer = self.experts[i]
                    output[mask] = layer(tokens[mask.nonzero().squeeze(1)])
            return output
    """,
)

does_not_match = (
    # every expert sees every token
    """
    import torch
    from torch import nn
    class Ensemble(nn.Module):
        def __init__(self, width, count):
            super().__init__()
            self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(count)])
        def forward(self, x):
            return sum(expert(x) for expert in self.experts)
    """,
    # layers one after the other
    """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self, width, count):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(count)])
        def forward(self, x):
            for layer in self.layers:
                x = torch.where(x > 0, layer(x), x)
            return x
    """,
    # it looks at the experts, and runs none
    """
    import torch
    from torch import nn
    class Mixture(nn.Module):
        def __init__(self, width, count):
            super().__init__()
            self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(count)])
        def forward(self, x):
            chosen = x.topk(2).indices
            for expert in self.experts:
                expert.weight.requires_grad_(False)
            return chosen
    """,
)
