"""A batch norm right after a linear layer folds into it for inference.

## What it finds
A linear layer whose output goes to a batch norm and nowhere else: in `forward`, and as neighbours in an `nn.Sequential`.

## Why it is the same
With frozen statistics a batch norm is a scale and a shift for each feature, which the linear layer's weight and bias can hold.

## When it is not
In training, where the statistics are those of the batch; where the norm keeps no running statistics; where one layer feeds
several norms; on inputs of three axes, where the batch norm's features are the second axis and the linear layer's the last.

## What it gains
One pass over the output less. Small on a CPU; measure on the device that matters.

## Fix safety
Advice in words: folding is done once, after the checkpoint is loaded and before it is served, not in the model's source. The
batch norm's keys leave the state dict.
"""

name = "linear-bn"
kernel = "torch.nn.utils.fusion.fuse_linear_bn_eval"
tier = "advice"
numerics = "T"
min_torch = "2.0"
finder = "linear-bn"
message = "at inference this batch norm is a scale and a shift that the linear layer before it can hold"
keeps = ("the outputs in eval mode, to rounding",)

reports = (
    """
    import torch
    from torch import nn


    class Head(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc = nn.Linear(dim, dim)
            self.bn = nn.BatchNorm1d(dim)

        def forward(self, x):
            return torch.relu(self.bn(self.fc(x)))
    """,
    """
    import torch
    from torch import nn


    def projector(dim, hidden):
        return nn.Sequential(nn.Linear(dim, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU())
    """,
    """
    from collections import OrderedDict

    import torch
    from torch import nn


    def projector(dim):
        return nn.Sequential(OrderedDict([("fc", nn.Linear(dim, dim)), ("bn", nn.BatchNorm1d(dim))]))
    """,
)

does_not_match = (
    # an activation between
    """
    import torch
    from torch import nn


    def head(dim):
        return nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.BatchNorm1d(dim))
    """,
    # the features are moved before the norm
    """
    import torch
    from torch import nn


    class Head(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc = nn.Linear(dim, dim)
            self.bn = nn.BatchNorm1d(dim)

        def forward(self, x):
            return self.bn(self.fc(x).transpose(1, 2))
    """,
    # a layer norm
    """
    import torch
    from torch import nn


    def head(dim):
        return nn.Sequential(nn.Linear(dim, dim), nn.LayerNorm(dim))
    """,
)
