"""Blocks that repeat can be compiled one for all, which costs one compilation.

## What it finds
The outermost class that makes a `ModuleList` or `Sequential` of one block and runs over it, once a file. Nothing is
said of a file that compiles or scripts already, of blocks of fewer than four operations, and of blocks that fetch
values to Python (`.item()`, `.cpu()`).

## Why it is the same
The compiler fuses operations of the block; it computes the same up to rounding. `Module.compile()` works in place, so
that the keys of the state dict stay (a wrapped `torch.compile(model)` puts `_orig_mod.` in front of them when saved).

## When it is not
Code that looks at the inside of a block while it runs (prints, hooks that change values, Python lists that grow)
stops the compiler or is run once only. Each new input shape may compile again. Blocks with arguments that differ in
kind compile once a kind. Random numbers of dropout differ.

## What it gains
It depends on the block, and each compilation must be earned back. The figures are of
`benchmarks/advice/compile_break_even.py`: four blocks of a hand-written RMS norm and a gated layer, float32, eval, on
one thread of a busy AMD EPYC machine with torch 2.13; plain/plain is the same code against itself.

| width | length | plain | compiled | gain | plain/plain | first call | pays from calls |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 64 | 32 | 0.57 ms | 0.63 ms | 0.91× | 0.94× | 85.7 s | never: it saves less than 5 % |
| 64 | 4096 | 93.77 ms | 61.36 ms | 1.53× | 1.11× | 24.3 s | 748 |
| 512 | 512 | 353.67 ms | 269.96 ms | 1.31× | 1.25× | 9.5 s | too noisy to tell |

It gains where work between the matrix products dominates, and loses on small inputs.

## Fix safety
Advice in words: the loop belongs where the model is made. Nothing in the class changes.
"""

name = "compile"
kernel = "torch.nn.Module.compile"
tier = "advice"
numerics = "T"
min_torch = "2.2"
message = "blocks that repeat can be compiled one for all"
keeps = ("the state dict",)
finder = "compile"

reports = (
    """
    import torch
    from torch import nn
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)
        def forward(self, x):
            h = self.norm(x)
            return x + self.down(torch.sigmoid(self.up(h)) * self.up(h))
    class Net(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.layers = nn.ModuleList([Block(width) for _ in range(depth)])
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    """,
    """
    import torch
    import torch.nn as nn
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv = nn.Conv2d(width, width, 3, padding=1)
            self.norm = nn.BatchNorm2d(width)
        def forward(self, x):
            return torch.relu(x + self.norm(self.conv(x)))
    class Net(nn.Module):
        def __init__(self, width, depth):
            super().__init__()
            self.blocks = nn.Sequential(*[Block(width) for i in range(depth)])
        def forward(self, x):
            return self.blocks(x)
    """,
)

does_not_match = (
    # compiled already
    """
    import torch
    from torch import nn
    class Block(nn.Module):
        def forward(self, x):
            return torch.relu(x) * torch.sigmoid(x) + x * x
    class Net(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.layers = nn.ModuleList([Block() for _ in range(depth)])
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    net = torch.compile(Net(4))
    """,
    # heads side by side of one operation each
    """
    import torch
    from torch import nn
    class Head(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.proj = nn.Linear(width, 2)
        def forward(self, x):
            return self.proj(x)
    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.heads = nn.ModuleList([Head(width) for _ in range(3)])
        def forward(self, x):
            return [head(x) for head in self.heads]
    """,
    # the block leaves the graph
    """
    import torch
    from torch import nn
    class Block(nn.Module):
        def forward(self, x):
            limit = x.abs().max().item()
            return torch.relu(x) * torch.sigmoid(x) / limit + x * x
    class Net(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.layers = nn.ModuleList([Block() for _ in range(depth)])
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
    """,
)
