"""Dropout that stays on in evaluation.

## What it finds
In what a module's `forward` runs: `F.dropout(x, p)` without `training=`, `scaled_dot_product_attention(...,
dropout_p=self.p)` without a flag, and `nn.Dropout(p)(x)` made in the call.

## Why it is the same
It is not: the edit changes the program. Today the model gives another result each time it is evaluated; after the edit
dropout runs while the module trains and at no other time. In training both are the same.

## When it is not
Nothing is said where a condition around the call reads a mode (`if self.training`), where the probability comes from the
caller or is set anywhere but in `__init__`, where `training=True` is written out, in a function outside a module, and in a
file that speaks of Monte Carlo dropout or uncertainty.

## What it gains
Right results: scores, perplexities and generated text that do not depend on chance, and are better.

## Fix safety
Never in fix-all: a bug is shown as a warning, and its edit is applied by hand. The same-program check cannot hold here.
"""

name = "dropout-in-eval"
kernel = "torch.nn.functional.dropout"
tier = "bug"
numerics = "S"
min_torch = "1.0"
message = "dropout stays on in evaluation"
keeps = ("the state dict", "training")
finder = "dropout-in-eval"

matches = (
    """
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dim, dropout):
            super().__init__()
            self.inner = nn.Linear(dim, dim)
            self.dropout = dropout
        def forward(self, x):
            return F.dropout(self.inner(x), self.dropout)
    ---
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dim, dropout):
            super().__init__()
            self.inner = nn.Linear(dim, dim)
            self.dropout = dropout
        def forward(self, x):
            return F.dropout(self.inner(x), self.dropout, training=self.training)
    """,
    """
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.dropout = dropout
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
    ---
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.dropout = dropout
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
    """,
    """
    import torch
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.drop = nn.Dropout(dropout)
        def forward(self, q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(
                q,
                k,
                v,
                dropout_p=self.drop.p,  # as before
            )
    ---
    import torch
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.drop = nn.Dropout(dropout)
        def forward(self, q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(
                q,
                k,
                v,
                dropout_p=self.drop.p if self.drop.training else 0.0,  # as before
            )
    """,
    """
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config
        def forward(self, x):
            return self.mixed(x)
        def mixed(self, x):
            return F.dropout2d(x, p=self.config.dropout)
    ---
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config
        def forward(self, x):
            return self.mixed(x)
        def mixed(self, x):
            return F.dropout2d(x, p=self.config.dropout, training=self.training)
    """,
)

reports = (
    """
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.inner = nn.Linear(dim, dim)
        def forward(self, x):
            return nn.Dropout(0.5)(self.inner(x))
    """,
)

does_not_match = (
    # the flag is there
    """
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.dropout = dropout
        def forward(self, x):
            return F.dropout(x, self.dropout, self.training)
    """,
    # a condition asks for the mode
    """
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.dropout = dropout
        def forward(self, x, q):
            if self.training:
                x = F.dropout(x, self.dropout)
            return F.scaled_dot_product_attention(q, q, x, dropout_p=self.dropout if self.training else 0.0)
    """,
    # the caller decides about the probability
    """
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def forward(self, x, p):
            return F.dropout(x, p)
    """,
    # the mode sets the probability
    """
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.p = dropout
            self.given = dropout
        def train(self, mode=True):
            self.p = self.given if mode else 0.0
            return super().train(mode)
        def forward(self, x):
            return F.dropout(x, self.p)
    """,
    # no module: a step of training code
    """
    import torch.nn.functional as F
    def augmented(x):
        return F.dropout(x, 0.1)
    """,
    # said to be wanted
    """
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.dropout = dropout
        def forward(self, x):
            return F.dropout(x, self.dropout, training=True)
    """,
    # not a method that forward runs
    """
    import torch.nn.functional as F
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dropout):
            super().__init__()
            self.dropout = dropout
        def forward(self, x):
            return x
        def corrupted(self, x):
            return F.dropout(x, self.dropout)
    """,
)
