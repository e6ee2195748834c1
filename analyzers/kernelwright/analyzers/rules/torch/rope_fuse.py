"""A rotary position embedding written out is one fused kernel.

## What it finds
`x * cos + rotate_half(x) * sin` with the halves or the neighbouring pairs of the last axis exchanged, the two parts worked
out one by one and joined, and the product of complex numbers (`view_as_complex`). Reported once, in the function that holds
the formula.

## Why it is the same
The kernels compute this rotation; each is made for one of the two layouts.

## When it is not
The layouts are different functions: a kernel for halves gives other numbers for pairs, from the second position on. cos and sin
must have the layout that the kernel reads (a half of the axis, or all of it twice), and partial rotation is the caller's.

## What it gains
One pass over q and k instead of five or more, on a GPU. On a CPU nothing.

## Fix safety
Advice in words: the layout of q, k, cos and sin in memory is decided elsewhere. `torch.compile` joins the formula without another
package. The snippets are not run by us: the kernels need a GPU.
"""

name = "rope-fuse"
kernel = "liger_kernel.ops.rope.LigerRopeFunction"
tier = "advice"
numerics = "T"
min_torch = "2.0"
finder = "rope-fuse"
message = "a rotary embedding written out makes several passes over q and k; a fused kernel makes one"
keeps = ("the state dict",)

reports = (
    """
    import torch


    def rotate_half(x):
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat((-x2, x1), dim=-1)


    def apply_rotary(q, k, cos, sin):
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
    """,
    """
    import torch


    def apply_rotary(x, cos, sin):
        half = x.shape[-1] // 2
        rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return (x * cos) + (rotated * sin)
    """,
    """
    import torch


    def apply_rotary(x, cos, sin):
        rotated = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
        return x * cos + rotated * sin
    """,
    """
    import torch


    def apply_rotary(x, frequencies):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * frequencies).flatten(3).type_as(x)
    """,
    """
    import torch


    def apply_rotary(x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)
    """,
    """
    import torch


    def apply_rotary(x, cos, sin):
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
    """,
)

does_not_match = (
    # nothing is negated
    """
    import torch


    def swap(x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((x2, x1), dim=-1) * sin
    """,
    # halves of another value
    """
    import torch


    def mix(x, y, cos, sin):
        y1, y2 = y.chunk(2, dim=-1)
        return x * cos + torch.cat((-y2, y1), dim=-1) * sin
    """,
    # not turned: the halves keep their places
    """
    import torch


    def flip(x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-x1, x2), dim=-1) * sin
    """,
    # a product of other signs
    """
    import torch


    def hyperbolic(x, cosh, sinh):
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat((x1 * cosh + x2 * sinh, x2 * cosh + x1 * sinh), dim=-1)
    """,
    # the angles alone
    """
    import torch


    def angles(position, inverse_frequency):
        angle = position * inverse_frequency
        return torch.cat((angle.cos(), angle.sin()), dim=-1)
    """,
)
