"""A batch norm right after a convolution folds into it for inference.

## What it finds
A convolution whose output goes to a batch norm and nowhere else: in `forward`, and as neighbours in an `nn.Sequential`.

## Why it is the same
With frozen statistics a batch norm is a scale and a shift for each channel, which the convolution's weight and bias can hold.

## When it is not
In training, where the statistics are those of the batch; where the norm keeps no running statistics; where one convolution
feeds several norms, or an operation stands between. After folding, the model cannot be trained on as before.

## What it gains
One pass over the output less. On a CPU 0.83 to 1.04 times, that is no reliable gain; measure on the device that matters. The
compiler's freezing does the same by itself.

## Fix safety
Advice in words: folding is done once, after the checkpoint is loaded and before it is served, not in the model's source. The
batch norm's keys leave the state dict.
"""

name = "conv-bn-fold"
kernel = "torch.nn.utils.fusion.fuse_conv_bn_eval"
tier = "advice"
numerics = "T"
min_torch = "2.0"
finder = "conv-bn-fold"
message = "at inference this batch norm is a scale and a shift that the convolution before it can hold"
keeps = ("the outputs in eval mode, to rounding",)

reports = (
    """
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.conv1 = nn.Conv2d(dim, dim, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(dim)

        def forward(self, x):
            x = self.conv1(x)
            x = self.bn1(x)
            return torch.relu(x)
    """,
    """
    import torch
    from torch import nn


    def conv_bn(inputs, outputs, stride):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )
    """,
    # a convolution by a function of the file, a norm by default
    """
    import torch
    from torch import nn


    def conv3x3(inputs, outputs, stride=1):
        return nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)


    class BasicBlock(nn.Module):
        def __init__(self, inputs, outputs, norm_layer=None):
            super().__init__()
            if norm_layer is None:
                norm_layer = nn.BatchNorm2d
            self.conv1 = conv3x3(inputs, outputs)
            self.bn1 = norm_layer(outputs)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.relu(self.bn1(self.conv1(x)))
    """,
    # a list of layers
    """
    import torch
    from torch import nn


    def make_layers(sizes, inputs):
        layers = []
        for outputs in sizes:
            conv = nn.Conv2d(inputs, outputs, 3, padding=1)
            layers += [conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
            inputs = outputs
        return nn.Sequential(*layers)
    """,
    """
    import torch
    from torch import nn


    def decoder(dim):
        layers = [nn.ReLU()]
        layers.append(nn.ConvTranspose2d(dim, dim, 4))
        layers.append(nn.BatchNorm2d(dim))
        return nn.Sequential(*layers)
    """,
    """
    import torch
    from torch import nn


    class Transition(nn.Sequential):
        def __init__(self, dim):
            super().__init__()
            self.add_module("conv", nn.Conv2d(dim, dim, 1))
            self.add_module("norm", nn.BatchNorm2d(dim))
    """,
    """
    import torch
    from torch import nn


    class ConvBN(nn.Sequential):
        def __init__(self, dim):
            super().__init__(nn.Conv1d(dim, dim, 3), nn.BatchNorm1d(dim))
    """,
)

does_not_match = (
    # an activation between
    """
    import torch
    from torch import nn


    def block(dim):
        return nn.Sequential(nn.Conv2d(dim, dim, 3), nn.ReLU(), nn.BatchNorm2d(dim))
    """,
    # the convolution's output is read again
    """
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.conv = nn.Conv2d(dim, dim, 3)
            self.bn = nn.BatchNorm2d(dim)

        def forward(self, x):
            y = self.conv(x)
            return self.bn(y) + y
    """,
    # one convolution for two norms
    """
    import torch
    from torch import nn


    class Shared(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.conv = nn.Conv2d(dim, dim, 3)
            self.bn1 = nn.BatchNorm2d(dim)
            self.bn2 = nn.BatchNorm2d(dim)

        def forward(self, x, y):
            return self.bn1(self.conv(x)), self.bn2(self.conv(y))
    """,
    # no running statistics
    """
    import torch
    from torch import nn


    def block(dim):
        return nn.Sequential(nn.Conv2d(dim, dim, 3), nn.BatchNorm2d(dim, track_running_stats=False))
    """,
    # a list that is no sequence
    """
    import torch
    from torch import nn


    def branches(dim):
        layers = [nn.Conv2d(dim, dim, 3), nn.BatchNorm2d(dim)]
        return nn.ModuleList(layers)
    """,
    # an activation may be appended between
    """
    import torch
    from torch import nn


    def block(dim, activation):
        layers = []
        layers.append(nn.Conv2d(dim, dim, 3))
        if activation is not None:
            layers.append(activation)
        layers.append(nn.BatchNorm2d(dim))
        return nn.Sequential(*layers)
    """,
    # the norm comes first
    """
    import torch
    from torch import nn


    def preactivation(dim):
        return nn.Sequential(nn.BatchNorm2d(dim), nn.Conv2d(dim, dim, 3))
    """,
)
