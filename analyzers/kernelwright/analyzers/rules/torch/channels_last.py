"""A convolutional net may run faster on `torch.channels_last` memory.

## What it finds
The outermost class of a net made of dense 2-D convolutions, once a file. Nothing is said of a net with attention or
with mostly grouped convolutions, of one-dimensional or three-dimensional ones, and of a file that speaks of memory
formats already.

## Why it is the same
The memory format changes the strides of a tensor, not its values or its shape: every operation computes what it did,
up to the order of sums inside a convolution.

## When it is not
`.view` of a feature map raises in this layout, since its elements lie otherwise: `.reshape` copies instead. An
operation without a channels_last kernel converts back and forth. Code that looks at strides or hands memory to C sees
the difference.

## What it gains
Nothing for sure. Here (CPU, float32) 0.99 to 1.08 times; on GPUs with tensor cores in half precision 8 to 35 % are
reported, and grouped convolutions on old cuDNN were up to 40 times slower. It is worth a measurement, not a belief.

## Fix safety
Advice in words: the change belongs where the model is made and where its batches come from. Checkpoints stay as they
are.
"""

name = "channels-last"
kernel = "torch.channels_last"
tier = "advice"
numerics = "E"
min_torch = "1.5"
message = "channels_last memory may be faster for this convolutional net"
keeps = ("shapes and values", "the state dict")
finder = "channels-last"

reports = (
    """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
            self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
            self.conv3 = nn.Conv2d(8, 16, 3, stride=2)
            self.conv4 = nn.Conv2d(16, 16, 3)
            self.head = nn.Linear(16, 10)
        def forward(self, x):
            x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
            x = torch.relu(self.conv4(torch.relu(self.conv3(x))))
            return self.head(x.mean((2, 3)))
    """,
    """
    import torch
    import torch.nn as nn
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
            self.skip = nn.Conv2d(width, width, 1)
        def forward(self, x):
            return torch.relu(self.skip(x) + self.body(x))
    class Net(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.stem = nn.Conv2d(3, width, 7, stride=2)
            self.blocks = nn.Sequential(*[Block(width) for _ in range(2)])
        def forward(self, x):
            return self.blocks(self.stem(x)).flatten(1)
    """,
)

does_not_match = (
    # a patch embedding is one convolution in front of a transformer
    """
    import torch
    from torch import nn
    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Conv2d(3, 64, 16, stride=16)
        def forward(self, x):
            return self.proj(x).flatten(2).transpose(1, 2)
    """,
    # depthwise convolutions
    """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.a = nn.Conv2d(c, c, 3, groups=c)
            self.b = nn.Conv2d(c, c, 1)
            self.c = nn.Conv2d(c, c, 3, groups=c)
            self.d = nn.Conv2d(c, c, 1)
            self.e = nn.Conv2d(c, c, 3, groups=c)
            self.f = nn.Conv2d(c, c, 1)
        def forward(self, x):
            return self.f(self.e(self.d(self.c(self.b(self.a(x))))))
    """,
    # it does so already
    """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Conv2d(3, 8, 3)
            self.b = nn.Conv2d(8, 8, 3)
            self.c = nn.Conv2d(8, 8, 3)
            self.d = nn.Conv2d(8, 8, 3)
        def forward(self, x):
            x = x.contiguous(memory_format=torch.channels_last)
            return self.d(self.c(self.b(self.a(x))))
    """,
    # convolutions over sequences
    """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv1d(3, 8, 3), nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 3))
        def forward(self, x):
            return self.layers(x)
    """,
)
