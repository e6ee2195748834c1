"""Attention whose reshapes count the heads by themselves can be split over devices.

## What it finds
A class whose separate query, key and value layers are cut into heads by `view(batch, length, self.num_heads,
head_dim)` and whose output layer reads heads put together by `reshape(batch, length, self.embed_dim)`. Once a class.
Nothing is said of one layer for all three (a split would cut across them), and of a file that knows tensor
parallelism.

## Why it is the same
`-1` is what is left of the size: the number of heads where the layer is heads times head size wide. On one device
nothing changes. Split over devices, each has its share of the heads, which a number written down would contradict.

## When it is not
Where a layer is not heads times head size wide, `view` raised before and takes another number of heads after. Checks
of sizes, masks for each head and other places that name the number of heads must be changed too: a condition says
where one is left.

## What it gains
Nothing by itself. It makes a model that is too large for one device run on several, with `parallelize_module` and the
plan shown.

## Fix safety
A quick fix that writes `-1`, never in fix-all, not checked to be the same program. The plan is run in our tests on
two processes, with the same output as the plain module. Checkpoints of the plain module stay as they are.
"""

name = "tensor-parallel"
kernel = "torch.distributed.tensor.parallel.parallelize_module"
tier = "advice"
numerics = "T"
min_torch = "2.5"
message = "reshapes name the number of heads, so that the class cannot be split over devices"
keeps = ("the state dict", "the result on one device")
finder = "tensor-parallel"

matches = (
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, embed_dim, num_heads):
            super().__init__()
            self.embed_dim, self.num_heads = embed_dim, num_heads
            self.head_dim = embed_dim // num_heads
            self.q_proj = nn.Linear(embed_dim, embed_dim)
            self.k_proj = nn.Linear(embed_dim, embed_dim)
            self.v_proj = nn.Linear(embed_dim, embed_dim)
            self.out_proj = nn.Linear(embed_dim, embed_dim)
        def forward(self, x):
            b, l, _ = x.shape
            q = self.q_proj(x).view(b, l, self.num_heads, self.head_dim).transpose(1, 2)
            k = self.k_proj(x).view(b, l, self.num_heads, self.head_dim).transpose(1, 2)
            v = self.v_proj(x).view(b, l, self.num_heads, self.head_dim).transpose(1, 2)
            out = F.scaled_dot_product_attention(q, k, v)
            out = out.transpose(1, 2).reshape(b, l, self.embed_dim)
            return self.out_proj(out)
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, embed_dim, num_heads):
            super().__init__()
            self.embed_dim, self.num_heads = embed_dim, num_heads
            self.head_dim = embed_dim // num_heads
            self.q_proj = nn.Linear(embed_dim, embed_dim)
            self.k_proj = nn.Linear(embed_dim, embed_dim)
            self.v_proj = nn.Linear(embed_dim, embed_dim)
            self.out_proj = nn.Linear(embed_dim, embed_dim)
        def forward(self, x):
            b, l, _ = x.shape
            q = self.q_proj(x).view(b, l, -1, self.head_dim).transpose(1, 2)
            k = self.k_proj(x).view(b, l, -1, self.head_dim).transpose(1, 2)
            v = self.v_proj(x).view(b, l, -1, self.head_dim).transpose(1, 2)
            out = F.scaled_dot_product_attention(q, k, v)
            out = out.transpose(1, 2).reshape(b, l, -1)
            return self.out_proj(out)
    """,
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, width, n_heads, head_dim):
            super().__init__()
            self.n_heads, self.head_dim = n_heads, head_dim
            self.wq = nn.Linear(width, n_heads * head_dim, bias=False)
            self.wk = nn.Linear(width, n_heads * head_dim, bias=False)
            self.wv = nn.Linear(width, n_heads * head_dim, bias=False)
            self.wo = nn.Linear(n_heads * head_dim, width, bias=False)
        def forward(self, x):
            b, l, _ = x.shape
            q, k, v = self.wq(x), self.wk(x), self.wv(x)
            q = q.view(b, l, self.n_heads, self.head_dim).transpose(1, 2)
            k = k.view(b, l, self.n_heads, self.head_dim).transpose(1, 2)
            v = v.view(b, l, self.n_heads, self.head_dim).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v)
            return self.wo(y.transpose(1, 2).contiguous().view(b, l, -1))
    class FeedForward(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.w1, self.w2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        def forward(self, x):
            return self.w2(torch.relu(self.w1(x)))
    class Block(nn.Module):
        def __init__(self, width, n_heads, head_dim):
            super().__init__()
            self.attention = Attention(width, n_heads, head_dim)
            self.feed_forward = FeedForward(width)
        def forward(self, x):
            x = x + self.attention(x)
            return x + self.feed_forward(x)
    ---
    import torch
    import torch.nn.functional as F
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, width, n_heads, head_dim):
            super().__init__()
            self.n_heads, self.head_dim = n_heads, head_dim
            self.wq = nn.Linear(width, n_heads * head_dim, bias=False)
            self.wk = nn.Linear(width, n_heads * head_dim, bias=False)
            self.wv = nn.Linear(width, n_heads * head_dim, bias=False)
            self.wo = nn.Linear(n_heads * head_dim, width, bias=False)
        def forward(self, x):
            b, l, _ = x.shape
            q, k, v = self.wq(x), self.wk(x), self.wv(x)
            q = q.view(b, l, -1, self.head_dim).transpose(1, 2)
            k = k.view(b, l, -1, self.head_dim).transpose(1, 2)
            v = v.view(b, l, -1, self.head_dim).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v)
            return self.wo(y.transpose(1, 2).contiguous().view(b, l, -1))
    class FeedForward(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.w1, self.w2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        def forward(self, x):
            return self.w2(torch.relu(self.w1(x)))
    class Block(nn.Module):
        def __init__(self, width, n_heads, head_dim):
            super().__init__()
            self.attention = Attention(width, n_heads, head_dim)
            self.feed_forward = FeedForward(width)
        def forward(self, x):
            x = x + self.attention(x)
            return x + self.feed_forward(x)
    """,
)

does_not_match = (
    # one layer for all three
    """
    import torch
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, width, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.qkv = nn.Linear(width, 3 * width)
            self.proj = nn.Linear(width, width)
        def forward(self, x):
            b, l, c = x.shape
            q, k, v = self.qkv(x).view(b, l, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)
            return self.proj((q @ k.transpose(-2, -1) @ v).transpose(1, 2).reshape(b, l, c))
    """,
    # it counts already
    """
    import torch
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, width, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, width // num_heads
            self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
            self.o = nn.Linear(width, width)
        def forward(self, x):
            b, l, _ = x.shape
            q = self.q(x).view(b, l, -1, self.head_dim)
            k = self.k(x).view(b, l, -1, self.head_dim)
            return self.o((q * k).reshape(b, l, -1))
    """,
    # no output layer here, so no plan
    """
    import torch
    from torch import nn
    class SelfAttention(nn.Module):
        def __init__(self, width, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, width // num_heads
            self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        def forward(self, x):
            b, l, _ = x.shape
            q = self.q(x).view(b, l, self.num_heads, self.head_dim)
            k = self.k(x).view(b, l, self.num_heads, self.head_dim)
            return q * k
    """,
    # keys and values from one layer
    """
    import torch
    from torch import nn
    class Attention(nn.Module):
        def __init__(self, width, num_heads):
            super().__init__()
            self.num_heads, self.head_dim = num_heads, width // num_heads
            self.q, self.kv, self.proj = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
            self.gate = nn.Linear(width, width)
        def forward(self, x):
            b, l, c = x.shape
            q = self.q(x).reshape(b, l, self.num_heads, self.head_dim)
            gate = self.gate(x).reshape(b, l, self.num_heads, self.head_dim)
            k, v = self.kv(x).reshape(b, l, 2, self.num_heads, self.head_dim).unbind(2)
            return self.proj((q * k * v * gate).reshape(b, l, c))
    """,
)
