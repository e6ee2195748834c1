"""A batch in pinned memory is copied to the GPU with `non_blocking=True`.

## What it finds
`batch.to(device)` and `batch.cuda()` in a loop over a `DataLoader(..., pin_memory=True)` made in the same file, where the name
still holds what the loader gave.

## Why it is the same
A copy from pinned host memory to a device is put into the device's stream like any kernel: whatever computes with the result
runs after it. The loader gives fresh memory for each batch, and torch does not reuse pinned memory before the copy is done.

## When it is not
The other direction: a copy from the device to the host that does not wait gives memory that is not filled yet. Never offered
where the target may be the CPU. On MPS the source has been read too late (Lightning blocks there for that reason).

## What it gains
The host goes on queueing kernels while the batch is copied: as long as the copy takes, in each step. Nothing on a CPU.

## Fix safety
Guarded where the device is CUDA by its text, else assumed. Only batches that provably come from a pinning loader.
"""

name = "non-blocking"
kernel = "torch.Tensor.to"
tier = "guarded"
numerics = "E"
min_torch = "1.7"
message = "the host waits for a copy from pinned memory: non_blocking=True lets it queue the next kernels meanwhile"
keeps = ("every value", "the order of operations on the device")
finder = "non-blocking"

matches = (
    """
    import torch
    from torch.utils.data import DataLoader
    def f(data, model, device):
        loader = DataLoader(data, batch_size=4, pin_memory=True)
        total = 0.0
        for x, y in loader:
            x = x.to(device)
            y = y.to(device)
            total += (model(x) - y).square().mean().item()
        return total
    ---
    import torch
    from torch.utils.data import DataLoader
    def f(data, model, device):
        loader = DataLoader(data, batch_size=4, pin_memory=True)
        total = 0.0
        for x, y in loader:
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            total += (model(x) - y).square().mean().item()
        return total
    """,
    """
    import torch
    from torch.utils.data import DataLoader
    def f(data, model):
        loader = DataLoader(data, batch_size=4, pin_memory=True)
        for step, batch in enumerate(loader):
            loss = model(batch["x"].cuda())
            loss.mean().backward()
    ---
    import torch
    from torch.utils.data import DataLoader
    def f(data, model):
        loader = DataLoader(data, batch_size=4, pin_memory=True)
        for step, batch in enumerate(loader):
            loss = model(batch["x"].cuda(non_blocking=True))
            loss.mean().backward()
    """,
    """
    import torch
    import torch.utils.data
    class Trainer:
        def __init__(self, data, model):
            self.loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
            self.model = model
        def epoch(self):
            for images, labels in self.loader:
                images, labels = images.to("cuda:0"), labels.to("cuda:0")
                self.model(images, labels).backward()
    ---
    import torch
    import torch.utils.data
    class Trainer:
        def __init__(self, data, model):
            self.loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
            self.model = model
        def epoch(self):
            for images, labels in self.loader:
                images, labels = images.to("cuda:0", non_blocking=True), labels.to("cuda:0", non_blocking=True)
                self.model(images, labels).backward()
    """,
)

does_not_match = (
    # pageable memory: the copy waits in any case
    """
    import torch
    from torch.utils.data import DataLoader
    def f(data, model, device):
        for x in DataLoader(data, batch_size=4):
            model(x.to(device))
    """,
    # from the device back to the host
    """
    import torch
    from torch.utils.data import DataLoader
    def f(data, model, device):
        loader = DataLoader(data, pin_memory=True)
        for x in loader:
            y = model(x.cuda(non_blocking=True))
            print(y.to("cpu").mean())
    """,
    # not the loader's tensor any more
    """
    import torch
    from torch.utils.data import DataLoader
    def f(data, model, device, output_device):
        loader = DataLoader(data, pin_memory=True)
        for x in loader:
            x = model(x)
            x = x.to(output_device)
            print(x.mean())
    """,
    # an element type, not a device
    """
    import torch
    from torch.utils.data import DataLoader
    def f(data, model):
        loader = DataLoader(data, pin_memory=True)
        for x in loader:
            model(x.to(torch.float16))
    """,
)
