"""A loss is given probabilities where it wants logits, or logarithms of probabilities.

## What it finds
`cross_entropy` of a softmax, `nll_loss` and `kl_div` of a softmax that is no log-softmax, `binary_cross_entropy_with_logits`
of a sigmoid; as functions and as modules.

## Why it is the same
It is not: the edit changes the program. Cross entropy applies log-softmax itself. Of probabilities, all between 0 and 1, that
is nearly flat: the loss of n classes cannot fall below log(1 + (n - 1) / e), and gradients are small.

## When it is not
A cross entropy of `log_softmax` is only a detour (its softmax is the same) and not reported. Softmaxes over an axis that
cannot be the classes are left alone, and what a called module returns is not looked into.

## What it gains
A loss that can become small, and gradients that do not vanish: training that learns faster, and further.

## Fix safety
Never in fix-all: weights trained with the old loss stay as they are, but the loss curve is another. An edit is given where
the softmax is written as the argument itself.
"""

name = "loss-of-softmax"
kernel = "torch.nn.functional.cross_entropy"
tier = "bug"
numerics = "S"
min_torch = "1.0"
message = "a loss of probabilities where it takes logits"
keeps = ("the state dict",)
finder = "loss-of-softmax"

matches = (
    """
    import torch.nn.functional as F
    def f(logits, target):
        return F.cross_entropy(F.softmax(logits, dim=-1), target)
    ---
    import torch.nn.functional as F
    def f(logits, target):
        return F.cross_entropy(logits, target)
    """,
    """
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dim, classes):
            super().__init__()
            self.head = nn.Linear(dim, classes)
            self.loss = nn.NLLLoss()
        def forward(self, x, target):
            return self.loss(self.head(x).softmax(dim=1), target)
    ---
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dim, classes):
            super().__init__()
            self.head = nn.Linear(dim, classes)
            self.loss = nn.NLLLoss()
        def forward(self, x, target):
            return self.loss(self.head(x).log_softmax(dim=1), target)
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(logits, target):
        return F.binary_cross_entropy_with_logits(torch.sigmoid(logits), target, reduction="sum")
    ---
    import torch
    import torch.nn.functional as F
    def f(logits, target):
        return F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
    """,
)

reports = (
    """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self, dim, classes):
            super().__init__()
            self.head = nn.Sequential(nn.Linear(dim, classes), nn.Softmax(dim=-1))
        def forward(self, x, target):
            p = self.head(x)
            loss = nn.CrossEntropyLoss()(p.view(-1, p.size(-1)), target.view(-1))
            return loss, p
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(logits, target):
        p = torch.softmax(logits, dim=-1)
        return F.cross_entropy(p, target), p.argmax(-1)
    """,
)

does_not_match = (
    """
    import torch.nn.functional as F
    def f(logits, target):
        return F.cross_entropy(logits, target)
    """,
    # a detour, the same loss
    """
    import torch.nn.functional as F
    def f(logits, target):
        return F.cross_entropy(F.log_softmax(logits, dim=-1), target)
    """,
    """
    import torch
    import torch.nn.functional as F
    def f(logits, target):
        return F.nll_loss(torch.log(torch.softmax(logits, dim=-1)), target)
    """,
    # probabilities as the target
    """
    import torch.nn.functional as F
    def f(logits, teacher):
        return F.cross_entropy(logits, F.softmax(teacher, dim=-1))
    """,
    # logits made of probabilities
    """
    import torch.nn.functional as F
    def f(scores, values, target):
        return F.cross_entropy(F.softmax(scores, dim=-1) @ values, target)
    """,
    # this one wants probabilities
    """
    import torch
    import torch.nn.functional as F
    def f(logits, target):
        return F.binary_cross_entropy(torch.sigmoid(logits), target)
    """,
)
