"""A negative log-likelihood of a log-softmax becomes one call of `torch.nn.functional.cross_entropy`.

## What it finds
`F.nll_loss(F.log_softmax(x, dim), target)` and `F.nll_loss(torch.log(F.softmax(x, dim)), target)`, with or without class
weights, `ignore_index` and `reduction`, over one statement or several.

## Why it is the same
It is the kernel's definition: a log-softmax over the class axis and the loss of the targets' classes. Weights, `ignore_index` and
`reduction` are passed on.

## When it is not
The log-probabilities are used again, the softmax runs over another axis than the classes (axis 1, or the only one), the
logarithm is taken of `softmax(x) + eps`. Where `dim=-1` is written and the number of axes is not known, the kernel runs for two
axes only and the old code stays for others.

## What it gains
One pass less over the logits; about 2.7 times on a CPU. `log(softmax(x))` is minus infinity where a probability underflows; the
kernel is finite there (a loss of 645 instead of infinity), with the gradient it should have.

## Fix safety
Exact: same result up to rounding, and finite where the written-out logarithm was not. No state touched.
"""

import torch.nn.functional as F

name = "cross-entropy"
kernel = "torch.nn.functional.cross_entropy"
tier = "exact"
numerics = "E"
min_torch = "1.1"
message = "log-softmax and negative log-likelihood apart: F.cross_entropy computes the same in one call"
keeps = ("class weights, ignore_index and reduction", "the element type")
shapes = {"x": ("B", "V"), "target": ("B",), "weight": ("V",)}
roles = {"target": "index", "weight": "positive"}
conditions = ("class_axis", "same_input")


def definition_axis(x, target: Any, ignore_index: Any = -100, reduction: Any = "mean"):
    return F.nll_loss(F.log_softmax(x, dim=1), target, ignore_index=ignore_index, reduction=reduction)


def kernel_axis(x, target, ignore_index, reduction):
    return F.cross_entropy(x, target, ignore_index=ignore_index, reduction=reduction)


def definition_last(x, target: Any, ignore_index: Any = -100, reduction: Any = "mean"):
    return F.nll_loss(F.log_softmax(x, dim=-1), target, ignore_index=ignore_index, reduction=reduction)


def kernel_last(x, target, ignore_index, reduction):
    return F.cross_entropy(x, target, ignore_index=ignore_index, reduction=reduction)


def guard_last(x, target, ignore_index, reduction):
    return x.dim() == 2


def definition_weighted_axis(x, target: Any, weight, ignore_index: Any = -100, reduction: Any = "mean"):
    return F.nll_loss(F.log_softmax(x, dim=1), target, weight, ignore_index=ignore_index, reduction=reduction)


def kernel_weighted_axis(x, target, weight, ignore_index, reduction):
    return F.cross_entropy(x, target, weight, ignore_index=ignore_index, reduction=reduction)


def definition_weighted_last(x, target: Any, weight, ignore_index: Any = -100, reduction: Any = "mean"):
    return F.nll_loss(F.log_softmax(x, dim=-1), target, weight, ignore_index=ignore_index, reduction=reduction)


def kernel_weighted_last(x, target, weight, ignore_index, reduction):
    return F.cross_entropy(x, target, weight, ignore_index=ignore_index, reduction=reduction)


def guard_weighted_last(x, target, weight, ignore_index, reduction):
    return x.dim() == 2


matches = (
    """
    import torch
    import torch.nn.functional as F
    def loss(logits, target):
        log_probs = F.log_softmax(logits, dim=1)
        return F.nll_loss(log_probs, target)
    ---
    import torch
    import torch.nn.functional as F
    def loss(logits, target):
        return F.cross_entropy(logits, target)
    """,
    """
    import torch
    import torch.nn.functional as F
    def loss(logits, target, weight):
        rows = logits.view(-1, logits.size(-1))
        p = torch.softmax(rows, dim=-1)
        return F.nll_loss(torch.log(p), target, weight=weight, ignore_index=0, reduction="sum")
    ---
    import torch
    import torch.nn.functional as F
    def loss(logits, target, weight):
        rows = logits.view(-1, logits.size(-1))
        return F.cross_entropy(rows, target, weight, ignore_index=0, reduction="sum")
    """,
    """
    import torch
    import torch.nn.functional as F
    def loss(logits, target):
        return F.nll_loss(logits.log_softmax(dim=-1), target, reduction="none")
    ---
    import torch
    import torch.nn.functional as F
    def loss(logits, target):
        if logits.dim() == 2:
            return F.cross_entropy(logits, target, reduction="none")
        else:
            return F.nll_loss(logits.log_softmax(dim=-1), target, reduction="none")
    """,
)

does_not_match = (
    # the log-probabilities are used again
    """
    import torch
    import torch.nn.functional as F
    def loss(logits, target):
        log_probs = F.log_softmax(logits, dim=1)
        return F.nll_loss(log_probs, target) - 0.1 * log_probs.mean()
    """,
    # probabilities instead of their logarithms: a mistake, but not this one
    """
    import torch
    import torch.nn.functional as F
    def loss(logits, target):
        return F.nll_loss(F.softmax(logits, dim=1), target)
    """,
    # an eps keeps the logarithm finite
    """
    import torch
    import torch.nn.functional as F
    def loss(logits, target):
        return F.nll_loss(torch.log(F.softmax(logits, dim=1) + 1e-8), target)
    """,
    # the rows are not the classes
    """
    import torch
    import torch.nn.functional as F
    def loss(logits, target):
        return F.nll_loss(F.log_softmax(logits, dim=0), target)
    """,
    # the model's output is taken for log-probabilities
    """
    import torch
    import torch.nn.functional as F
    def loss(log_probs, target):
        return F.nll_loss(log_probs, target)
    """,
)
