"""A copy to the host that nobody waits for is read at once.

## What it finds
`x.to("cpu", non_blocking=True)` whose result the host reads (`.numpy()`, `.item()`, `.tolist()`, `float(...)`, `print(...)`)
in the same expression, or in the statements behind it with nothing between that could wait for the device.

## Why it is the same
It is not, by timing: the copy is only queued, and its memory holds what was there before until the device has come so far.
Without `non_blocking=True` the copy waits, and what is read is what was meant. Copies to the device are safe: what computes
there comes after.

## When it is not
Nothing is said where a call between may wait (a `synchronize`, another copy, a function of the user's), or where the target
is no host by what the code says.

## What it gains
Right values. The wait is no loss: the host needs the values.

## Fix safety
Certain, and never in fix-all as every bug. Not shown by running: the fault needs a GPU, and our tests have none; torch's
documentation of pinned memory and pytorch#86264 describe it.
"""

name = "copy-read-early"
kernel = "torch.Tensor.to"
tier = "bug"
numerics = "S"
min_torch = "1.7"
message = "a copy from the device that does not wait is read at once: its memory may not be filled yet"
keeps = ("the device and type of the result",)
finder = "copy-read-early"

matches = (
    """
    import torch
    def f(x):
        return x.detach().to("cpu", non_blocking=True).numpy()
    ---
    import torch
    def f(x):
        return x.detach().to("cpu").numpy()
    """,
    """
    import numpy as np
    import torch
    def f(x, y):
        a = x.to("cpu", non_blocking=True)
        b = y.to(torch.device("cpu"), torch.float32)
        c = y.to(device="cpu", non_blocking=True)
        return a, np.asarray(c)
    ---
    import numpy as np
    import torch
    def f(x, y):
        a = x.to("cpu", non_blocking=True)
        b = y.to(torch.device("cpu"), torch.float32)
        c = y.to(device="cpu")
        return a, np.asarray(c)
    """,
    """
    import torch
    def f(loss):
        value = loss.to("cpu", non_blocking=True)
        print(value)
    ---
    import torch
    def f(loss):
        value = loss.to("cpu")
        print(value)
    """,
)

does_not_match = (
    # somebody waits
    """
    import torch
    def f(x):
        y = x.to("cpu", non_blocking=True)
        torch.cuda.synchronize()
        return y.numpy()
    """,
    # to the device
    """
    import torch
    def f(x, device):
        return x.to(device, non_blocking=True).sum().item()
    """,
    # handed on: whoever reads it may wait
    """
    import torch
    def f(x):
        return x.to("cpu", non_blocking=True)
    """,
    # another copy that waits for the same stream
    """
    import torch
    def f(x, y):
        a = x.to("cpu", non_blocking=True)
        b = y.to("cpu")
        return a.numpy(), b.numpy()
    """,
    # it waits
    """
    import torch
    def f(x):
        return x.to("cpu", non_blocking=False).numpy()
    """,
)
