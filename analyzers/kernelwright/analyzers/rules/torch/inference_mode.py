"""Evaluation under `torch.no_grad()` runs under `torch.inference_mode()`.

## What it finds
A function decorated with `@torch.no_grad()`, or a `with torch.no_grad():` block, that no tensor made in it leaves: what it
returns and stores are numbers (`.item()`), lists of them, or numpy arrays.

## Why it is the same
Both run without autograd. Under inference mode torch also keeps no version counters and view records, so a tensor made there
cannot enter autograd later; here none gets the chance.

## When it is not
A tensor is returned, yielded, stored on an object or read after the block; gradients are switched on again inside; parameters
are made, loaded or changed in place. Not seen from here: a module that keeps a tensor of its first call (a rotary table made on
demand) would fail in the next training step with "Inference tensors cannot be saved for backward".

## What it gains
A few per cent of overhead (1.03 times measured), most where operations are small and many.

## Fix safety
Assumed, for the caches that called modules may keep. torch raises an error in that case; values never differ.
"""

name = "inference-mode"
kernel = "torch.inference_mode"
tier = "assumed"
numerics = "E"
min_torch = "1.9"
message = "evaluation under no_grad: inference_mode also leaves out version counters and view tracking"
keeps = ("every value",)
finder = "inference-mode"

matches = (
    """
    import torch
    @torch.no_grad()
    def f(model, x, y):
        correct = 0
        for a, b in zip(x, y):
            correct += (model(a).argmax(-1) == b).sum().item()
        return correct / len(y)
    ---
    import torch
    @torch.inference_mode()
    def f(model, x, y):
        correct = 0
        for a, b in zip(x, y):
            correct += (model(a).argmax(-1) == b).sum().item()
        return correct / len(y)
    """,
    """
    import torch
    def f(model, x, y):
        losses = []
        with torch.no_grad():
            for a, b in zip(x, y):
                loss = torch.nn.functional.cross_entropy(model(a), b)
                losses.append(loss.item())
        return sum(losses) / len(losses)
    ---
    import torch
    def f(model, x, y):
        losses = []
        with torch.inference_mode():
            for a, b in zip(x, y):
                loss = torch.nn.functional.cross_entropy(model(a), b)
                losses.append(loss.item())
        return sum(losses) / len(losses)
    """,
    """
    import torch
    @torch.no_grad()
    def f(model, x, y):
        scores = model(x).softmax(-1)
        return {"scores": scores.cpu().numpy(), "labels": y.tolist()}
    ---
    import torch
    @torch.inference_mode()
    def f(model, x, y):
        scores = model(x).softmax(-1)
        return {"scores": scores.cpu().numpy(), "labels": y.tolist()}
    """,
)

does_not_match = (
    # the result is a tensor
    """
    import torch
    @torch.no_grad()
    def f(model, x):
        return model(x)
    """,
    # the block's tensor takes part in the loss
    """
    import torch
    def f(model, teacher, x):
        with torch.no_grad():
            target = teacher(x)
        return (model(x) - target).square().mean()
    """,
    # kept on the object
    """
    import torch
    class Memory:
        @torch.no_grad()
        def f(self, model, x):
            self.last = model(x)
            return float(self.last.mean())
    """,
    # parameters change in place
    """
    import torch
    @torch.no_grad()
    def f(average, model):
        for a, p in zip(average.parameters(), model.parameters()):
            a.lerp_(p, 0.1)
    """,
    # tensors in a list
    """
    import torch
    @torch.no_grad()
    def f(model, batches):
        outputs = []
        for x in batches:
            outputs.append(model(x))
        return outputs
    """,
)
