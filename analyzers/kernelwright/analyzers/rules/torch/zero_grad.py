"""`zero_grad(set_to_none=False)` drops the gradients instead of filling them with zeros.

## What it finds
`set_to_none=False` in a call of `zero_grad`; and, without an edit, loops that fill every `p.grad` with zeros by hand.

## Why it is the same
The next backward pass writes the gradient anew, where it added to zeros before: the same values. Since torch 2.0 this is the
default.

## When it is not
A parameter that got no gradient in a step has None, not zeros: code that reads `p.grad` must expect it, and an optimizer skips
such a parameter, where with a gradient of zeros it still decays the weight and moves by its momentum.

## What it gains
One kernel less for each parameter, one write and one read less of all gradients, and their memory while the forward pass runs.

## Fix safety
Assumed: that every trained parameter gets a gradient in every step is not seen in the code.
"""

name = "zero-grad"
kernel = "torch.optim.Optimizer.zero_grad"
tier = "assumed"
numerics = "E"
min_torch = "2.0"
message = "gradients are filled with zeros: without set_to_none=False they are dropped, which saves a pass over memory"
keeps = ("the gradients of the next backward pass",)
finder = "zero-grad"

matches = (
    """
    import torch
    def f(model, optimizer, x):
        optimizer.zero_grad(set_to_none=False)
        model(x).sum().backward()
        optimizer.step()
    ---
    import torch
    def f(model, optimizer, x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    """,
    """
    import torch
    class Trainer:
        def step(self, x):
            self.model(x).sum().backward()
            self.optimizer.step()
            self.model.zero_grad(set_to_none=False)
    ---
    import torch
    class Trainer:
        def step(self, x):
            self.model(x).sum().backward()
            self.optimizer.step()
            self.model.zero_grad()
    """,
    """
    import torch
    def f(model, optimizer, x):
        for _ in range(3):
            optimizer.zero_grad(set_to_none = False)  # fill
            model(x).sum().backward()
            optimizer.step()
    ---
    import torch
    def f(model, optimizer, x):
        for _ in range(3):
            optimizer.zero_grad()  # fill
            model(x).sum().backward()
            optimizer.step()
    """,
)

reports = (
    """
    import torch
    def f(model, x):
        for p in model.parameters():
            if p.grad is not None:
                p.grad.zero_()
        model(x).sum().backward()
    """,
)

does_not_match = (
    # the default since torch 2.0
    """
    import torch
    def f(optimizer):
        optimizer.zero_grad()
    """,
    # the caller's choice
    """
    import torch
    def f(optimizer, keep):
        optimizer.zero_grad(set_to_none=keep)
    """,
    # more than zeros
    """
    import torch
    def f(model):
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
            p.grad.zero_()
    """,
    # a wrapper's own method passes its argument on
    """
    import torch
    class Wrapped(torch.optim.Optimizer):
        def zero_grad(self):
            self.inner.zero_grad(set_to_none=False)
    """,
)
