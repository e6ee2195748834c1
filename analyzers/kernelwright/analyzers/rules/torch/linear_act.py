"""Bias and activation after a linear layer can be the end of its matrix product.

## What it finds
A linear layer with bias whose output goes to ReLU or GELU and nowhere else, in one function.

## Why it is the same
A matrix product of a GPU's library may end with an epilogue that adds the bias and activates each number before it is written.

## When it is not
Other activations have no such epilogue; without a bias there is nothing to join; where something else reads the value before
the activation, or in training with the exact GELU, the product must write it anyway.

## What it gains
A pass over the hidden layer less, on a GPU. On a CPU nothing is known to be gained.

## Fix safety
Advice in words: stock torch has no public function for it; `torch.compile` does it.
"""

name = "linear-act"
kernel = "torch.compile"
tier = "advice"
numerics = "T"
min_torch = "2.0"
finder = "linear-act"
message = "bias and activation are a pass over memory that the matrix product before them can end with"
keeps = ("the state dict",)

reports = (
    """
    import torch
    import torch.nn.functional as F
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc1 = nn.Linear(dim, 4 * dim)
            self.fc2 = nn.Linear(4 * dim, dim)

        def forward(self, x):
            return self.fc2(F.gelu(self.fc1(x)))
    """,
    """
    import torch
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc1 = nn.Linear(dim, dim)
            self.act = nn.ReLU()

        def forward(self, x):
            x = self.fc1(x)
            x = self.act(x)
            return x
    """,
    """
    import torch
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc1 = nn.Linear(dim, dim)

        def forward(self, x):
            return self.fc1(x).relu()
    """,
)

does_not_match = (
    # no bias
    """
    import torch
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc1 = nn.Linear(dim, dim, bias=False)

        def forward(self, x):
            return torch.relu(self.fc1(x))
    """,
    # the value before the activation is needed
    """
    import torch
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc1 = nn.Linear(dim, dim)

        def forward(self, x):
            h = self.fc1(x)
            return torch.relu(h) + h
    """,
    # no such epilogue
    """
    import torch
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.fc1 = nn.Linear(dim, dim)

        def forward(self, x):
            return torch.tanh(self.fc1(x))
    """,
)
