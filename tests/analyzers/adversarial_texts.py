"""Functions written to mislead: each looks nearly like something a rule replaces."""

from __future__ import annotations

TEXTS: dict[str, str] = {}


def _add(group: str, texts: str) -> None:
    """Several texts, each headed by a line `#: its name`."""
    for part in texts.split("#: ")[1:]:
        name, _, body = part.partition("\n")
        assert f"{group}: {name}" not in TEXTS, name
        TEXTS[f"{group}: {name}"] = body


_add(
    "changed in place",
    """
#: the query after the scores
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    q.mul_(2)
    w = torch.softmax(s, dim=-1)
    return w @ v
#: the value before the last product
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    w = torch.softmax(s, dim=-1)
    v.add_(1)
    return w @ v
#: the value of which v is a view
def f(q, k, v):
    t = v.transpose(-2, -1)
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    v += 1
    return w @ t.transpose(-2, -1)
#: elements of the scores
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    s[..., 0] = 0
    return torch.softmax(s, dim=-1) @ v
#: elements of the key by a slice
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    k[:, :, 0] = 0
    return torch.softmax(s, dim=-1) @ v
#: the scores by an out argument
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    torch.mul(s, 2, out=s)
    return torch.softmax(s, dim=-1) @ v
#: the scores by a helper
def helper(t):
    t.mul_(2)
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    helper(s)
    return torch.softmax(s, dim=-1) @ v
#: the scores through an alias
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    t = s
    t *= 2
    return torch.softmax(s, dim=-1) @ v
#: the scores through a view
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    t = s.view(-1)
    t.mul_(2)
    return torch.softmax(s, dim=-1) @ v
#: the scores through detach
def f(q, k, v):
    s = (q @ k.transpose(-2, -1)).detach()
    t = s.detach()
    t.mul_(2)
    return torch.softmax(s, dim=-1) @ v
#: the scores through data
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    s.data.mul_(2)
    return torch.softmax(s, dim=-1) @ v
#: an element of a list
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    kept = [s]
    kept[0].mul_(2)
    return torch.softmax(s, dim=-1) @ v
#: a value in a dict
def f(q, k, v):
    d = {"q": q}
    d["q"] = d["q"] * 2
    return torch.softmax(d["q"] @ k.transpose(-2, -1), dim=-1) @ v
#: the input between two readings
def f(x):
    a = x * 0.5
    x.add_(1)
    return a * (1.0 + torch.erf(x / math.sqrt(2.0)))
#: the input of a silu
def f(x):
    s = torch.sigmoid(x)
    x.mul_(2)
    return x * s
#: the input by augmented assignment
def f(x):
    s = torch.sigmoid(x)
    x *= s
    return x
#: the gate by augmented assignment
def f(x):
    s = torch.sigmoid(x)
    s *= x
    return s
#: the input of a norm by augmented assignment
def f(x, weight):
    h = x.to(torch.float32)
    h *= torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * h.to(x.dtype)
#: the input of a norm while it is normalised
def f(x):
    v = x.pow(2).mean(-1, keepdim=True)
    x += 1
    return x * torch.rsqrt(v + 1e-6)
#: by a method of torch with an underscore
def f(x):
    s = x.sigmoid_()
    return x * s
#: a copy and its original
def f(x):
    c = x.clone()
    c.mul_(2)
    return x * torch.sigmoid(c)
#: contiguous may be the same memory
def f(x):
    c = x.contiguous()
    c.mul_(2)
    return x * torch.sigmoid(x)
#: to may be the same memory
def f(x):
    h = x.to(torch.float32)
    h.mul_(2)
    return x * torch.sigmoid(x)
#: expand shares memory
def f(q, k, v):
    t = v.expand(2, 3, 5, 8)
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    v.mul_(2)
    return w @ t
#: masked in place by a fill
def f(q, k, v, drop):
    s = q @ k.transpose(-2, -1)
    s.masked_fill_(drop, -1e9)
    return torch.softmax(s, dim=-1) @ v
#: the mask after it was used
def f(q, k, v, drop):
    s = (q @ k.transpose(-2, -1)).masked_fill(drop, -1e9)
    drop.logical_not_()
    return torch.softmax(s, dim=-1) @ v
#: the mask after it was used, elements
def f(q, k, v, drop):
    s = (q @ k.transpose(-2, -1)).masked_fill(drop, -1e9)
    drop[:] = True
    return torch.softmax(s, dim=-1) @ v
#: the mask by an operator
def f(q, k, v, mask):
    s = q @ k.transpose(-2, -1) + mask
    mask -= 5
    return torch.softmax(s, dim=-1) @ v
#: a zero fill
def f(x):
    s = torch.sigmoid(x)
    x.zero_()
    return x * s
#: a copy into it
def f(x, y):
    s = torch.sigmoid(x)
    x.copy_(y)
    return x * s
#: an attribute that holds the input
class M(nn.Module):
    def forward(self, x):
        self.kept = x
        s = torch.sigmoid(x)
        self.kept.mul_(2)
        return x * s
#: a global that holds the input
kept = None
def f(x):
    global kept
    kept = x
    s = torch.sigmoid(x)
    kept.mul_(2)
    return x * s
#: a nonlocal input
def f(x):
    def double():
        x.mul_(2)
    s = torch.sigmoid(x)
    double()
    return x * s
""",
)

_add(
    "rebound",
    """
#: the query before the last product
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    q = q + 1
    v = q
    return torch.softmax(s, dim=-1) @ v
#: the query, with a live copy
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    q, k = k, q
    return torch.softmax(s, dim=-1) @ v + q
#: the input of a gelu
def f(x):
    a = 0.5 * x
    x = x + 1
    return a * (1.0 + torch.erf(x / math.sqrt(2.0)))
#: the input of a gelu, after all readings of it
def f(x):
    a = 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
    x = x + 1
    return a + x
#: the input name reused for the parts
def f(x):
    y = x
    x = torch.sigmoid(x)
    x = y * x
    return x
#: the input lost before the end
def f(x):
    s = torch.sigmoid(x)
    p = x * s
    del x
    return p
#: deleted in the middle
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    del q, k
    w = torch.softmax(s, dim=-1)
    del s
    return w @ v
#: the scale after its use
def f(q, k, v):
    scale = 0.5
    s = q @ k.transpose(-2, -1) * scale
    scale = 2.0
    return torch.softmax(s, dim=-1) @ v * scale
#: the scale attribute after its use
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.5
    def forward(self, q, k, v):
        s = q @ k.transpose(-2, -1) * self.scale
        self.scale = 2.0
        return torch.softmax(s, dim=-1) @ v
#: the flag of the dropout after its use
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)
    def forward(self, q, k, v):
        w = self.drop(torch.softmax(q @ k.transpose(-2, -1), dim=-1))
        self.drop = nn.Dropout(0.0)
        return w @ v
#: a walrus
def f(q, k, v):
    if (s := q @ k.transpose(-2, -1)) is not None:
        s = s * 0.5
    return torch.softmax(s, dim=-1) @ v
#: a walrus in an argument
def f(q, k, v):
    return torch.softmax((s := q @ k.transpose(-2, -1)) * 0.5, dim=-1) @ v + s.mean()
#: a walrus around the input
def f(x):
    return (y := x + 1) * torch.sigmoid(y)
#: a walrus around the input, read later
def f(x):
    a = (y := x + 1) * torch.sigmoid(y)
    return a + y
#: a walrus read by the guard path
def f(q, k, v, need_weights):
    w = (z := torch.softmax(q @ k.transpose(-2, -1), dim=-1))
    o = w @ v
    return (o, z) if need_weights else o
#: unpacking
def f(q, k, v):
    s, z = q @ k.transpose(-2, -1), 0.5
    return torch.softmax(s * z, dim=-1) @ v
#: chained targets
def f(q, k, v):
    s = t = q @ k.transpose(-2, -1)
    w = torch.softmax(s, dim=-1)
    return w @ v, t.sum()
#: a list target
def f(q, k, v):
    [s] = [q @ k.transpose(-2, -1)]
    return torch.softmax(s, dim=-1) @ v
#: a star target
def f(q, k, v):
    s, *rest = q @ k.transpose(-2, -1), 1, 2
    return torch.softmax(s, dim=-1) @ v
#: an annotation
def f(q, k, v):
    s: torch.Tensor = q @ k.transpose(-2, -1)
    w: torch.Tensor
    w = torch.softmax(s, dim=-1)
    o: torch.Tensor = w @ v
    return o
#: in a branch
def f(q, k, v, flag):
    s = q @ k.transpose(-2, -1)
    if flag:
        q = q * 2
    return torch.softmax(s, dim=-1) @ v + q.sum()
#: the value in a branch
def f(q, k, v, flag):
    s = q @ k.transpose(-2, -1)
    if flag:
        v = v * 2
    return torch.softmax(s, dim=-1) @ v
#: the scores in a branch
def f(q, k, v, flag):
    s = q @ k.transpose(-2, -1)
    if flag:
        s = s.tanh()
    return torch.softmax(s, dim=-1) @ v
#: the scores in both branches
def f(q, k, v, flag):
    if flag:
        s = q @ k.transpose(-2, -1) * 0.5
    else:
        s = q @ k.transpose(-2, -1) * 0.25
    return torch.softmax(s, dim=-1) @ v
#: a conditional scale
def f(q, k, v, flag):
    s = q @ k.transpose(-2, -1)
    s = s * 0.5 if flag else s
    return torch.softmax(s, dim=-1) @ v
#: a conditional mask
def f(q, k, v, maybe_mask):
    s = q @ k.transpose(-2, -1)
    s = s + (maybe_mask if maybe_mask is not None else 0)
    return torch.softmax(s, dim=-1) @ v
#: a conditional mask by or
def f(q, k, v, maybe_mask):
    s = q @ k.transpose(-2, -1)
    if maybe_mask is not None:
        s += maybe_mask
    return torch.softmax(s, dim=-1) @ v
#: a mask of two, each optional
def f(q, k, v, maybe_mask, bias=None):
    s = q @ k.transpose(-2, -1)
    if maybe_mask is not None:
        s = s + maybe_mask
    if bias is not None:
        s = s + bias
    return torch.softmax(s, dim=-1) @ v
#: a mask under another flag
def f(q, k, v, maybe_mask, flag):
    s = q @ k.transpose(-2, -1)
    if maybe_mask is not None and flag:
        s = s + maybe_mask
    return torch.softmax(s, dim=-1) @ v
#: a mask that is dropped by a flag
def f(q, k, v, mask, flag):
    s = q @ k.transpose(-2, -1)
    if flag:
        s = s + mask
    return torch.softmax(s, dim=-1) @ v
#: an optional fill
def f(q, k, v, maybe_drop):
    s = q @ k.transpose(-2, -1)
    if maybe_drop is not None:
        s = s.masked_fill(maybe_drop, -1e9)
    return torch.softmax(s, dim=-1) @ v
#: an optional fill with minus infinity
def f(q, k, v, maybe_drop):
    s = q @ k.transpose(-2, -1)
    if maybe_drop is not None:
        s = s.masked_fill(maybe_drop, float("-inf"))
    return torch.softmax(s, dim=-1) @ v
#: an optional fill and an optional mask
def f(q, k, v, maybe_drop, maybe_mask):
    s = q @ k.transpose(-2, -1)
    if maybe_mask is not None:
        s = s + maybe_mask
    if maybe_drop is not None:
        s = s.masked_fill(maybe_drop, -1e9)
    return torch.softmax(s, dim=-1) @ v
#: a mask that is made when missing
def f(q, k, v, maybe_mask):
    if maybe_mask is None:
        maybe_mask = torch.zeros_like(q @ k.transpose(-2, -1))
    s = q @ k.transpose(-2, -1) + maybe_mask
    return torch.softmax(s, dim=-1) @ v
""",
)

_add(
    "used elsewhere",
    """
#: stored in self
class M(nn.Module):
    def forward(self, q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        self.weights = w
        return w @ v
#: stored in self, detached
class M(nn.Module):
    def forward(self, q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        self.weights = w.detach()
        return w @ v
#: stored in self under a flag
class M(nn.Module):
    def forward(self, q, k, v, flag):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        if flag:
            self.weights = w
        return w @ v
#: stored while not training
class M(nn.Module):
    def forward(self, q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        if not self.training:
            self.weights = w
        return w @ v
#: stored by setattr
class M(nn.Module):
    def forward(self, q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        setattr(self, "weights", w)
        return w @ v
#: stored in a list of self
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []
    def forward(self, q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        self.seen.append(w)
        return w @ v, self.seen
#: stored in a dict argument
def f(q, k, v):
    kept = {}
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    kept["w"] = w
    return w @ v, kept
#: stored by setdefault
def f(q, k, v):
    kept = {}
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    kept.setdefault("w", w)
    return w @ v, kept
#: stored in a list
def f(q, k, v):
    kept = []
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    kept.append(w)
    return w @ v, kept
#: stored in a list by an operator
def f(q, k, v):
    kept = []
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    kept += [w]
    return w @ v, kept
#: stored in a default argument
def f(q, k, v, kept=[]):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    kept.append(w)
    return w @ v, kept
#: printed
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    print(w.sum().round().item())
    return w @ v
#: printed in an f-string
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    print(f"{w.sum().round().item()}")
    return w @ v
#: printed by a format method
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    print("{}".format(w.sum().round().item()))
    return w @ v
#: logged
import logging
import sys
logger = logging.getLogger("x")
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    logger.debug("weights %s", w)
    return w @ v
#: asserted
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    assert w.min() < 0
    return w @ v
#: checked for its values
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    if w.min() >= 0:
        raise ValueError("no")
    return w @ v
#: checked for its shape
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    if w.shape[-1] == 5:
        raise ValueError("no more than four keys")
    return w @ v
#: its shape is returned
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v, w.shape
#: its size is used
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    o = w @ v
    return o / w.size(-1)
#: its shape is unpacked
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    b, h, l, s = w.shape
    o = w @ v
    return o.transpose(1, 2).reshape(b, l, -1)
#: its device or type is used
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    w = torch.softmax(s, dim=-1)
    return (w @ v).to(s.dtype), torch.zeros(2, dtype=w.dtype, device=s.device)
#: yielded
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    yield w
    yield w @ v
#: yielded result
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    yield w @ v
#: yielded between
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    yield q.sum()
    yield w @ v
#: captured by a closure
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    def total():
        return w.sum(-1)
    return w @ v, total()
#: captured by a lambda
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    total = lambda: w.sum(-1)
    return w @ v, total()
#: captured by a default
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    def total(w=w):
        return w.sum(-1)
    return w @ v, total()
#: captured by a comprehension
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v, [w[i].sum() for i in range(2)]
#: captured by a generator
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v, sum(w[i].sum() for i in range(2))
#: captured by locals
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    o = w @ v
    return o, locals()["w"].sum()
#: captured by a nested class
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    class Kept:
        value = w
    return w @ v, Kept.value.sum()
#: read in a finally
def f(q, k, v):
    try:
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        return w @ v
    finally:
        print(w.sum().round().item())
#: read in an except
def f(q, k, v):
    w = None
    try:
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        o = w @ v[..., :2, :]
    except RuntimeError:
        o = w
    return o
#: read after a loop
def f(q, k, v):
    for _ in range(3):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        q = w @ v
    return q, w
#: read in a loop
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    o = w @ v
    for i in range(20):
        o = o + w.sum()
    return o
#: read in a while
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    o = w @ v
    i = 0
    while i < 3:
        o = o + w.sum()
        i += 1
    return o
#: the scores are the argument of a hook
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0.0
    def note(self, t):
        self.seen = float(t.sum().round())
        return t
    def forward(self, q, k, v):
        s = self.note(q @ k.transpose(-2, -1))
        return torch.softmax(s, dim=-1) @ v, self.seen
#: through an identity function
def note(t):
    print(t.shape)
    return t
def f(q, k, v):
    s = note(q @ k.transpose(-2, -1))
    return torch.softmax(s, dim=-1) @ v
#: a hook on the tensor
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    if s.requires_grad:
        s.register_hook(lambda g: g * 2)
    return torch.softmax(s, dim=-1) @ v
#: its gradient is kept
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    if s.requires_grad:
        s.retain_grad()
    return torch.softmax(s, dim=-1) @ v
#: returned in a dict
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return {"out": w @ v, "weights": w}
#: returned by keyword
from types import SimpleNamespace
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    kept = SimpleNamespace(weights=w)
    return w @ v, kept.weights
#: returned in an optional tuple
def f(q, k, v, need_weights):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    o = w @ v
    if need_weights:
        return o, w
    return o, None
#: returned by and
def f(q, k, v, need_weights):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v, need_weights and w
#: returned by or
def f(q, k, v, need_weights):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v, (not need_weights) or w
#: an early return of the weights
def f(q, k, v, need_weights):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    if need_weights:
        return w
    return w @ v
#: an early return of the scores
def f(q, k, v, need_weights):
    s = q @ k.transpose(-2, -1)
    if need_weights:
        return s
    w = torch.softmax(s, dim=-1)
    return w @ v
#: appended to a tuple
def f(q, k, v, need_weights):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    outputs = (w @ v,)
    if need_weights:
        outputs += (w,)
    return outputs
#: appended to a list
def f(q, k, v, need_weights):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    outputs = [w @ v]
    if need_weights:
        outputs.append(w)
    return outputs
#: multiplied in by a flag
def f(q, k, v, flag):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    if flag:
        w = w * 2
    return w @ v
#: two products
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v + w @ k
#: two products, one masked
def f(q, k, v, drop):
    s = q @ k.transpose(-2, -1)
    a = torch.softmax(s, dim=-1) @ v
    b = torch.softmax(s.masked_fill(drop, -1e9), dim=-1) @ v
    return a + b
#: the sigmoid twice
def f(x):
    s = torch.sigmoid(x)
    return x * s + s
#: the cube of a gelu
def f(x):
    c = x**3
    g = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * c)))
    return g + c
#: the variance of a norm
def f(x, weight):
    h = x.to(torch.float32)
    var = h.pow(2).mean(-1, keepdim=True)
    h = h * torch.rsqrt(var + 1e-6)
    return weight * h.to(x.dtype), var
#: the mean of a norm
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = (x - m).pow(2).mean(-1, keepdim=True)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift, m
#: the upcast of a norm
def f(x, weight):
    h = x.to(torch.float32)
    var = h.pow(2).mean(-1, keepdim=True)
    n = h * torch.rsqrt(var + 1e-6)
    return weight * n.to(x.dtype), h.sum()
""",
)

_add(
    "control flow",
    """
#: a return before
def f(q, k, v, flag):
    s = q @ k.transpose(-2, -1)
    if flag:
        return q
    return torch.softmax(s, dim=-1) @ v
#: a return between
def f(q, k, v, flag):
    s = q @ k.transpose(-2, -1)
    w = torch.softmax(s, dim=-1)
    if flag:
        return v
    o = w @ v
    return o
#: a raise between
def f(q, k, v, flag):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    if flag:
        raise ValueError("no")
    return w @ v
#: a print between
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    print("between")
    return w @ v
#: a loop over the heads
def f(q, k, v):
    outs = []
    for i in range(3):
        w = torch.softmax(q[:, i] @ k[:, i].transpose(-2, -1), dim=-1)
        outs.append(w @ v[:, i])
    return torch.stack(outs, 1)
#: a loop of unknown length
def f(q, k, v, times):
    for _ in range(times):
        s = q @ k.transpose(-2, -1)
        w = torch.softmax(s, dim=-1)
        q = w @ v
    return q
#: a loop that carries the weights
def f(q, k, v, times):
    w = 0
    for _ in range(times):
        w = torch.softmax(q @ k.transpose(-2, -1) + w, dim=-1)
        q = w @ v
    return q
#: a loop that carries a sum of weights
def f(q, k, v, times):
    total = 0
    for _ in range(times):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        total = total + w.sum()
        q = w @ v
    return q, total
#: an else of a loop
def f(q, k, v, times):
    for _ in range(times):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    else:
        o = w @ v
    return o
#: a loop that changes the query of the next
def f(q, k, v, times):
    s = q @ k.transpose(-2, -1)
    for _ in range(times):
        w = torch.softmax(s, dim=-1)
        s = s * 2
    return w @ v
#: a break
def f(q, k, v, times):
    for i in range(times + 3):
        w = torch.softmax(q @ k.transpose(-2, -1) * i, dim=-1)
        if i == 1:
            break
    return w @ v
#: a continue
def f(x, times):
    y = x
    for i in range(times + 3):
        if i % 2:
            continue
        y = y * torch.sigmoid(y)
    return y
#: a while that reuses the input
def f(x, times):
    while times > 0:
        x = x * torch.sigmoid(x)
        times -= 1
    return x
#: a with block around
def f(q, k, v):
    with torch.no_grad():
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v
#: a with block around all
def f(q, k, v):
    with torch.no_grad():
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        o = w @ v
    return o
#: an autocast block around the scores
def f(q, k, v):
    with torch.autocast("cpu", enabled=False):
        w = torch.softmax(q.float() @ k.float().transpose(-2, -1), dim=-1)
    return w.to(v.dtype) @ v
#: an autocast block around a norm
def f(x, weight):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * weight + weight
#: a no_grad decorator
@torch.no_grad()
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v
#: no_grad around a part of a gelu
def f(x):
    with torch.no_grad():
        e = torch.erf(x / math.sqrt(2.0))
    return x * 0.5 * (1.0 + e)
#: no_grad around a part of a silu
def f(x):
    with torch.no_grad():
        s = torch.sigmoid(x)
    return x * s
#: detach of a part of a silu
def f(x):
    return x * torch.sigmoid(x.detach())
#: detach of the weights
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1).detach() @ v
#: detach of the scale of a norm
def f(x):
    h = x.to(torch.float32)
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6).detach()).to(x.dtype)
#: data of the scores
def f(q, k, v):
    s = (q @ k.transpose(-2, -1)).data
    return torch.softmax(s, dim=-1) @ v
#: try around
def f(q, k, v):
    try:
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    except RuntimeError:
        w = torch.zeros(2, 3, 5, 5)
    return w @ v
#: try around everything
def f(q, k, v):
    try:
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        return w @ v
    except RuntimeError:
        return v
#: try and rebinding
def f(x, y):
    try:
        s = torch.sigmoid(x)
        x = x.view(3, 3, 3)
    except RuntimeError:
        x = y
    return x * s
#: try with an in-place change first
def f(x):
    s = torch.sigmoid(x)
    try:
        x.mul_(2)
        x.view(3, 3, 3)
    except RuntimeError:
        pass
    return x * s
#: finally changes the input
def f(x):
    try:
        s = torch.sigmoid(x)
    finally:
        x = x + 1
    return x * s
#: a match statement
def f(q, k, v, flag):
    s = q @ k.transpose(-2, -1)
    match flag:
        case True:
            s = s * 2
        case _:
            s = s + 1
    return torch.softmax(s, dim=-1) @ v
#: a match statement that captures
def f(x):
    s = torch.sigmoid(x)
    match 1:
        case 1:
            x = x + 1
    return x * s
#: a match statement that binds
def f(x, y):
    s = torch.sigmoid(x)
    match (y, 1):
        case (x, 1):
            pass
    return x * s
#: a conditional expression of the value
def f(q, k, v, flag):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ (v if flag else k)
#: a conditional expression of the weights
def f(q, k, v, flag):
    s = q @ k.transpose(-2, -1)
    w = torch.softmax(s, dim=-1) if flag else s
    return w @ v
#: a conditional expression of the whole
def f(q, k, v, flag):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v if flag else v
#: a conditional expression of the axis
def f(q, k, v, flag):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1 if flag else -2) @ v
#: an and with a side effect
calls = []
def note():
    calls.append(1)
    return True
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    if note() and False:
        w = w * 2
    return w @ v, len(calls)
#: a condition with a side effect
calls = []
def note():
    calls.append(1)
    return len(calls) > 1
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    if note():
        s = s * 2
    w = torch.softmax(s, dim=-1)
    if note():
        return w @ v, w
    return w @ v, None
#: a random condition
import random
def f(q, k, v):
    random.seed(3)
    s = q @ k.transpose(-2, -1)
    if random.random() < 0.5:
        s = s * 2
    if random.random() < 0.5:
        s = s * 3
    return torch.softmax(s, dim=-1) @ v
#: a data condition
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    if s.max() > 1:
        s = s / s.max()
    return torch.softmax(s, dim=-1) @ v
#: a data condition on the input
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    if q.max() > 1:
        s = s * 0.5
    return torch.softmax(s, dim=-1) @ v
#: a branch on the training flag
class M(nn.Module):
    def forward(self, q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        if self.training:
            w = w * 2
        return w @ v
#: a flag that changes on the way
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights_wanted = False
    def want(self):
        self.weights_wanted = True
    def forward(self, q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        o = w @ v
        self.want()
        return (o, w) if self.weights_wanted else (o,)
#: a flag that the loop changes
def f(q, k, v, times):
    need = False
    for _ in range(times):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        o = w @ v
        if need:
            o = o + w.sum()
        need = True
    return o
#: a comparison chain
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    if 1 < s.dim() < 5:
        s = s * 0.5
    return torch.softmax(s, dim=-1) @ v
#: two statements on a line
def f(q, k, v):
    s = q @ k.transpose(-2, -1); w = torch.softmax(s, dim=-1)
    return w @ v
#: a function on one line
def f(x): return x * torch.sigmoid(x)
#: a function on one line with two statements
def f(x): s = torch.sigmoid(x); return x * s
#: a body on the line of the if
def f(q, k, v, maybe_mask):
    s = q @ k.transpose(-2, -1)
    if maybe_mask is not None: s = s + maybe_mask
    return torch.softmax(s, dim=-1) @ v
#: a body on the line of the if, weights wanted
def f(q, k, v, need_weights):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    if need_weights: return w @ v, w
    return w @ v
#: a backslash
def f(q, k, v):
    s = q \\
        @ k.transpose(-2, -1)
    w = torch.softmax(s, dim=-1); \\
    o = w @ v
    return o
#: only assignments in the else
def f(x, flag):
    if flag:
        y = x
    else:
        y = x * torch.sigmoid(x)
    return y
#: the only statement of a branch goes
def f(x, flag):
    s = torch.sigmoid(x)
    if flag:
        s = torch.sigmoid(x)
    return x * s
#: an assert in the middle
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    assert q.dim() == 4
    return w @ v
#: a global statement
scores = None
def f(q, k, v):
    global scores
    scores = q @ k.transpose(-2, -1)
    return torch.softmax(scores, dim=-1) @ v
#: a nonlocal statement
def f(q, k, v):
    s = None
    def score():
        nonlocal s
        s = q @ k.transpose(-2, -1)
    score()
    return torch.softmax(s, dim=-1) @ v
#: a nonlocal result
def f(x):
    gate = None
    def inner():
        nonlocal gate
        gate = torch.sigmoid(x)
        return x * gate
    return inner() + gate
#: an async function
import asyncio
async def work(x):
    s = torch.sigmoid(x)
    return x * s
def f(x):
    return asyncio.run(work(x))
#: an await in the middle
import asyncio
async def nothing():
    print("between")
async def work(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    await nothing()
    return w @ v
def f(q, k, v):
    return asyncio.run(work(q, k, v))
""",
)

_add(
    "classes and names",
    """
#: a method that a subclass overrides
class Base(nn.Module):
    def score(self, q, k):
        return q @ k.transpose(-2, -1)
    def forward(self, q, k, v):
        return torch.softmax(self.score(q, k), dim=-1) @ v
class M(Base):
    def score(self, q, k):
        return q @ k.transpose(-2, -1) * 3
#: a method that a subclass of a subclass overrides
class Base(nn.Module):
    def score(self, q, k):
        return q @ k.transpose(-2, -1)
    def forward(self, q, k, v):
        return torch.softmax(self.score(q, k), dim=-1) @ v
class Middle(Base):
    pass
class M(Middle):
    def score(self, q, k):
        return q @ k.transpose(-2, -1) * 3
#: a method that a mixin overrides
class Triple:
    def score(self, q, k):
        return q @ k.transpose(-2, -1) * 3
class Base(nn.Module):
    def score(self, q, k):
        return q @ k.transpose(-2, -1)
    def forward(self, q, k, v):
        return torch.softmax(self.score(q, k), dim=-1) @ v
class M(Triple, Base):
    pass
#: a scale that a subclass sets
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.5
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
class M(Base):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, 1, 1))
#: a constant that a subclass sets
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = 0.7978845608028654
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(self.c * (x + 0.044715 * x**3)))
class M(Base):
    def __init__(self):
        super().__init__()
        self.c = 1.5
#: a constant that a class attribute of a subclass sets
class Base(nn.Module):
    c = 0.7978845608028654
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(self.c * (x + 0.044715 * x**3)))
class M(Base):
    c = 1.5
#: a constant that is set from outside
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = math.sqrt(2 / math.pi)
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(self.c * (x + 0.044715 * x**3)))
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = Inner()
        self.act.c = 1.5
    def forward(self, x):
        return self.act(x)
#: a constant that another method sets
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = math.sqrt(2 / math.pi)
        self.reset()
    def reset(self):
        self.c = 1.5
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(self.c * (x + 0.044715 * x**3)))
#: a property
class M(nn.Module):
    @property
    def scale(self):
        return 0.5
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
#: a property with a side effect
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 1
    @property
    def scale(self):
        self.count += 1
        return 1.0 / self.count
    def forward(self, q, k, v):
        a = torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
        return a, self.count
#: a class attribute as scale
class M(nn.Module):
    scale = 0.5
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
#: a class attribute as scale, tensor
class M(nn.Module):
    scale = torch.tensor(0.5)
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
#: a buffer as scale
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.5))
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
#: a tensor made in init as scale
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.sqrt(torch.FloatTensor([8]))
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / self.scale, dim=-1) @ v
#: a tensor raised to a power as scale
class M(nn.Module):
    def __init__(self, temperature=None):
        super().__init__()
        temperature = torch.full((3, 1, 1), 2.0)
        self.scale = temperature ** -0.5
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
#: a tensor argument raised to a power as scale
class Inner(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.scale = temperature ** -0.5
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner(torch.full((3, 1, 1), 2.0))
    def forward(self, q, k, v):
        return self.inner(q, k, v)
#: a numeric default that gets a tensor
class Inner(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner(torch.tensor([[[1.0]], [[2.0]], [[3.0]]]))
    def forward(self, q, k, v):
        return self.inner(q, k, v)
#: an argument as scale
def f(q, k, v, factor):
    return torch.softmax(q @ k.transpose(-2, -1) * factor, dim=-1) @ v
#: a tensor argument as scale
def f(q, k, v, weight):
    return torch.softmax(q @ (k * weight).transpose(-2, -1), dim=-1) @ v
#: a global as scale
SCALE = 0.5
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * SCALE, dim=-1) @ v
#: a global that another function sets
SCALE = 0.5
def change():
    global SCALE
    SCALE = 2.0
change()
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * SCALE, dim=-1) @ v
#: a global constant of a gelu that is set again
C = 0.7978845608028654
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * x**3)))
def change():
    global C
    C = 1.5
change()
#: a global constant of a gelu that is augmented
C = 0.7978845608028654
C += 1
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * x**3)))
#: a global constant of a gelu in a branch
C = 0.7978845608028654
if True:
    C = 1.5
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * x**3)))
#: a global constant of a gelu in a loop
C = 0.7978845608028654
for C in (1.5,):
    pass
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * x**3)))
#: a global constant bound by a with
import contextlib
C = 0.7978845608028654
with contextlib.nullcontext(1.5) as C:
    pass
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * x**3)))
#: a global constant bound by unpacking
C = 0.7978845608028654
C, D = 1.5, 2
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * x**3)))
#: a global constant with an annotation
C: float = 0.7978845608028654
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(C * (x + 0.044715 * x**3)))
#: a global function defined twice
def gate(x):
    return torch.sigmoid(x)
def gate(x):
    return torch.sigmoid(2 * x)
def f(x):
    return x * gate(x)
#: a global function that is replaced
def gate(x):
    return torch.sigmoid(x)
gate = torch.tanh
def f(x):
    return x * gate(x)
#: a global function in two branches
if False:
    def gate(x):
        return torch.sigmoid(x)
else:
    def gate(x):
        return torch.tanh(x)
def f(x):
    return x * gate(x)
#: a global function in two branches, the other way round
if True:
    def gate(x):
        return torch.tanh(x)
else:
    def gate(x):
        return torch.sigmoid(x)
def f(x):
    return x * gate(x)
#: a function that is imported and defined
from torch import sigmoid
def sigmoid(x):
    return x + 1
def f(x):
    return x * sigmoid(x)
#: a name that is imported and assigned
from torch import sigmoid
sigmoid = torch.tanh
def f(x):
    return x * sigmoid(x)
#: a name that is imported twice
from torch import sigmoid
from torch import tanh as sigmoid
def f(x):
    return x * sigmoid(x)
#: a name that an import of a branch replaces
from torch import sigmoid
if True:
    from torch import tanh as sigmoid
def f(x):
    return x * sigmoid(x)
#: torch is something else
import torch
class Fake:
    def __getattr__(self, name):
        return lambda x, *a, **k: x
real = torch
torch = Fake()
def f(x):
    return x * torch.sigmoid(x)
#: torch is an argument
def f(x, torch=math):
    return x * (lambda t: t)(x)
#: math is something else
class math:
    pi = 3
    @staticmethod
    def sqrt(x):
        return x
def f(x):
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
#: F is something else
F = None
def f(x):
    return x * torch.sigmoid(x)
#: F is an argument
def f(x, F=1):
    return x * torch.sigmoid(x) * F
#: F is a local
def f(x):
    F = 3
    return x * torch.sigmoid(x) * F
#: F is a local function
def f(x):
    def F(t):
        return t
    return F(x * torch.sigmoid(x))
#: F is a loop variable
def f(x):
    for F in range(2):
        x = x * torch.sigmoid(x) + F
    return x
#: F is bound by an except
def f(x):
    try:
        raise ValueError("3")
    except ValueError as F:
        y = x * torch.sigmoid(x)
    return y
#: F is imported in the function
def f(x):
    import math as F
    return x * torch.sigmoid(x) * F.pi
#: F is another module
import math as F
def f(x):
    return x * torch.sigmoid(x) * F.pi
#: F is an argument of a lambda
def f(x):
    g = lambda F: x * torch.sigmoid(x) * F
    return g(2) + x * torch.sigmoid(x)
#: F is global in another function
def other():
    global F
    F = None
other()
def f(x):
    return x * torch.sigmoid(x)
#: F is deleted
import torch
import torch.nn.functional as F
del F
def f(x):
    return x * torch.sigmoid(x)
#: nn is something else
import torch
from torch import nn
nn = None
def f(x):
    return x * torch.sigmoid(x)
#: F is imported below
import torch
def f(x):
    return x * torch.sigmoid(x)
import torch.nn.functional as F
#: F is imported in another function
import torch
def other():
    import torch.nn.functional as F
    return F
def f(x):
    return x * torch.sigmoid(x)
#: F is imported in a try that fails
import torch
try:
    import no_such_module
    import torch.nn.functional as F
except ImportError:
    pass
def f(x):
    return x * torch.sigmoid(x)
#: F is imported for type checking only
import torch
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import torch.nn.functional as F
def f(x):
    return x * torch.sigmoid(x)
#: nn is imported in a branch not taken
import torch
if False:
    from torch import nn
def f(x):
    return x * torch.sigmoid(x)
#: torch as another name
import torch as t
def f(x):
    return x * t.sigmoid(x)
#: only functions of torch
from torch import sigmoid
def f(x):
    return x * sigmoid(x)
#: a star import
from torch import *
def f(x):
    return x * sigmoid(x)
#: softmax is a local function
def softmax(x, dim):
    return x
def f(q, k, v):
    return softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: softmax is a module attribute
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
    def forward(self, q, k, v):
        return self.softmax(q @ k.transpose(-2, -1)) @ v
#: softmax is a module attribute that is replaced
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
        self.change()
    def change(self):
        self.softmax = nn.Identity()
    def forward(self, q, k, v):
        return self.softmax(q @ k.transpose(-2, -1)) @ v
#: softmax is a module attribute in a branch
class M(nn.Module):
    def __init__(self, smooth=False):
        super().__init__()
        if smooth:
            self.softmax = nn.Softmax(dim=-1)
        else:
            self.softmax = nn.Softmax(dim=-2)
    def forward(self, q, k, v):
        return self.softmax(q @ k.transpose(-2, -1)) @ v
#: an attribute by getattr
class M(nn.Module):
    def __init__(self):
        super().__init__()
        setattr(self, "act", nn.Tanh())
    def forward(self, x):
        return x * self.act(x)
#: an act of a subclass
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Sigmoid()
    def forward(self, x):
        return x * self.act(x)
class M(Base):
    def __init__(self):
        super().__init__()
        self.act = nn.Tanh()
#: an act that is set from outside
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Sigmoid()
    def forward(self, x):
        return x * self.act(x)
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.inner.act = nn.Tanh()
    def forward(self, x):
        return self.inner(x)
#: super forward
class Base(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)
class M(Base):
    def forward(self, x):
        return x * super().forward(x)
#: super forward with arguments
class Base(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)
class M(Base):
    def forward(self, x):
        return x * super(M, self).forward(x)
#: a static method
class M(nn.Module):
    @staticmethod
    def gate(x):
        return torch.sigmoid(x)
    def forward(self, x):
        return x * self.gate(x)
#: a class method
class M(nn.Module):
    @classmethod
    def gate(cls, x):
        return torch.sigmoid(x)
    def forward(self, x):
        return x * self.gate(x)
#: a decorated method
def twice(function):
    return lambda self, x: 2 * function(self, x)
class M(nn.Module):
    @twice
    def gate(self, x):
        return torch.sigmoid(x)
    def forward(self, x):
        return x * self.gate(x)
#: a decorated function
def twice(function):
    return lambda x: 2 * function(x)
@twice
def gate(x):
    return torch.sigmoid(x)
def f(x):
    return x * gate(x)
#: a lambda in a class
class M(nn.Module):
    gate = lambda self, x: torch.sigmoid(x)
    def forward(self, x):
        return x * self.gate(x)
#: a method stored in init
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.tanh
    def gate(self, x):
        return torch.sigmoid(x)
    def forward(self, x):
        return x * self.gate(x)
#: a dict of functions
ACTS = {"a": torch.sigmoid, "b": torch.tanh}
def f(x):
    return x * ACTS["b"](x)
#: a custom call
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)
    def __call__(self, x):
        return 2 * super().__call__(x)
    def forward(self, x):
        return x * torch.sigmoid(x)
#: an own dropout class
class Dropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p
    def forward(self, x):
        return x * 2
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = Dropout(0.1)
    def forward(self, q, k, v):
        return self.drop(torch.softmax(q @ k.transpose(-2, -1), dim=-1)) @ v
#: a subclass of dropout
class Drop(nn.Dropout):
    def forward(self, x):
        return x * 2
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = Drop(0.1)
    def forward(self, q, k, v):
        return self.drop(torch.softmax(q @ k.transpose(-2, -1), dim=-1)) @ v
#: dropout of a submodule
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)
    def forward(self, w):
        return self.drop(w)
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
    def forward(self, q, k, v):
        return self.inner(torch.softmax(q @ k.transpose(-2, -1), dim=-1)) @ v
#: dropout of a sequential
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.after = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(0.3))
    def forward(self, q, k, v):
        return self.after(q @ k.transpose(-2, -1)) @ v
#: dropout in a list
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.drops = nn.ModuleList([nn.Dropout(0.3), nn.Dropout(0.1)])
    def forward(self, q, k, v):
        return self.drops[1](torch.softmax(q @ k.transpose(-2, -1), dim=-1)) @ v
#: a dropout that is identity sometimes
class M(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.drop = nn.Dropout(p) if p > 0 else nn.Identity()
    def forward(self, q, k, v):
        return self.drop(torch.softmax(q @ k.transpose(-2, -1), dim=-1)) @ v
#: a dropout that is None sometimes
class M(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.drop = nn.Dropout(p) if p > 0 else None
    def forward(self, q, k, v):
        w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        if self.drop is not None:
            w = self.drop(w)
        return w @ v
#: a dropout on the output
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)
    def forward(self, q, k, v):
        return self.drop(torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v)
#: a dropout on the scores
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
    def forward(self, q, k, v):
        return torch.softmax(self.drop(q @ k.transpose(-2, -1)), dim=-1) @ v
#: two classes of one name
class M(nn.Module):
    def gate(self, x):
        return torch.sigmoid(x)
    def forward(self, x):
        return x * self.gate(x)
class M(nn.Module):
    def gate(self, x):
        return torch.tanh(x)
    def forward(self, x):
        return x * self.gate(x)
#: two functions of one name
def f(x):
    return x * torch.sigmoid(x)
def f(x):
    return x * torch.tanh(x)
#: two methods of one name
class M(nn.Module):
    def gate(self, x):
        return torch.sigmoid(x)
    def gate(self, x):
        return torch.tanh(x)
    def forward(self, x):
        return x * self.gate(x)
#: a method that is deleted from outside
class M(nn.Module):
    def gate(self, x):
        return torch.sigmoid(x)
    def forward(self, x):
        return x * self.gate(x)
M.gate = lambda self, x: torch.tanh(x)
#: a nested class
class Outer:
    class Inner(nn.Module):
        def forward(self, x):
            return x * torch.sigmoid(x)
M = Outer.Inner
#: a nested function
def f(x):
    def inner(t):
        s = torch.sigmoid(t)
        return t * s
    return inner(x)
#: a nested function that sees a later value
def f(x):
    y = x
    def inner(t):
        return t * torch.sigmoid(y)
    y = x + 1
    return inner(x)
#: a lambda that sees a later value
def f(x):
    y = x
    gate = lambda: torch.sigmoid(y)
    y = x + 1
    return x * gate()
#: a default that sees an earlier value
def f(x):
    y = x
    def gate(t=y):
        return torch.sigmoid(t)
    y = x + 1
    return x * gate()
#: a helper with a mutable default
def gate(x, seen=[1.0]):
    seen[0] += 1
    return torch.sigmoid(x * seen[0])
def f(x):
    gate(x)
    return x * gate(x)
#: star arguments
def f(*args):
    q, k, v = torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4)
    return torch.softmax(torch.matmul(*(q, k.transpose(-2, -1))), dim=-1) @ v
#: star keywords
def f(q, k, v):
    options = {"dim": -1}
    return torch.softmax(q @ k.transpose(-2, -1), **options) @ v
#: star keywords of another axis
def f(q, k, v):
    options = dict(dim=-1)
    options["dim"] = -2
    return torch.softmax(q @ k.transpose(-2, -1), **options) @ v
#: star keywords updated
def f(q, k, v):
    options = dict(dim=-1)
    options.update(dim=-2)
    return torch.softmax(q @ k.transpose(-2, -1), **options) @ v
#: keyword-only arguments
def f(q, k, *, v, maybe_mask=None):
    s = q @ k.transpose(-2, -1)
    if maybe_mask is not None:
        s = s + maybe_mask
    return torch.softmax(s, dim=-1) @ v
#: positional-only arguments
def f(q, k, v, /, flag=False):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: a default of the helper
def attend(q, k, v, scale=0.25):
    return torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1) @ v
def f(q, k, v):
    return attend(q, k, v) + attend(q, k, v, 0.5)
#: a default that is a global
D = 0.25
def attend(q, k, v, scale=D):
    return torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1) @ v
D = 3.0
def f(q, k, v):
    return attend(q, k, v)
#: a default that is computed before a change of its global
D = 0.7978845608028654
def act(x, c=D):
    return 0.5 * x * (1.0 + torch.tanh(c * (x + 0.044715 * x**3)))
def f(x):
    D = 2.0
    return act(x)
#: the softmax in a helper of another name
def norm(s):
    return torch.softmax(s, dim=-1)
def f(q, k, v):
    return norm(q @ k.transpose(-2, -1)) @ v
#: the softmax in a helper with an effect
def norm(s):
    print("norm")
    return torch.softmax(s, dim=-1)
def f(q, k, v):
    return norm(q @ k.transpose(-2, -1)) @ v
#: the gate in a helper with an effect
seen = []
def gate(x):
    seen.append(x.sum())
    return torch.sigmoid(x)
def f(x):
    y = x * gate(x)
    return y, len(seen)
#: the gate in a method with an effect
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
    def gate(self, x):
        self.count += 1
        return torch.sigmoid(x)
    def forward(self, x):
        y = x * self.gate(x)
        return y, self.count
#: the gate in a method that stores
class M(nn.Module):
    def gate(self, x):
        self.kept = torch.sigmoid(x)
        return self.kept
    def forward(self, x):
        return x * self.gate(x)
#: the gate in a method that counts a buffer
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
    def gate(self, x):
        self.count += 1
        return torch.sigmoid(x)
    def forward(self, x):
        y = x * self.gate(x)
        return y, self.count
#: the gate in a method that counts a buffer in place
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
    def gate(self, x):
        self.count.add_(1)
        return torch.sigmoid(x)
    def forward(self, x):
        y = x * self.gate(x)
        return y, self.count
#: the gate in a helper that raises
def gate(x):
    if x.dim() == 3:
        raise ValueError("three axes")
    return torch.sigmoid(x)
def f(x):
    return x * gate(x)
#: noise in the middle
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    s = s + torch.randn_like(s)
    return torch.softmax(s, dim=-1) @ v
#: random numbers drawn in the middle
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    n = torch.rand(2)
    return w @ v, n
#: two random numbers that look alike
def f(x):
    return torch.rand(5, 8) * torch.sigmoid(torch.rand(5, 8)) + x
#: one call twice
count = 0
def make(x):
    global count
    count += 1
    return x + count
def f(x):
    return make(x) * torch.sigmoid(make(x))
#: a submodule called twice
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
    def forward(self, x):
        self.n += 1
        return x + self.n
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Counter()
    def forward(self, x):
        return self.inner(x) * torch.sigmoid(self.inner(x))
#: a dropout called twice
class M(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5, True) * torch.sigmoid(F.dropout(x, 0.5, True))
#: a module with a dropout called twice
class Noisy(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5, True)
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.noisy = Noisy()
    def forward(self, x):
        return self.noisy(x) * torch.sigmoid(self.noisy(x))
#: a gelu of a dropout written out twice
class M(nn.Module):
    def forward(self, x):
        return 0.5 * F.dropout(x, 0.5, True) * (1.0 + torch.erf(F.dropout(x, 0.5, True) / math.sqrt(2.0)))
#: an iterator read twice
def f(x, y):
    parts = iter([x, y])
    return next(parts) * torch.sigmoid(next(parts))
#: a list popped twice
def f(x, y):
    parts = [x, y]
    return parts.pop() * torch.sigmoid(parts.pop())
""",
)

_add(
    "operations nearly alike",
    """
#: an axis of the softmax that is the last by number
def f(q, k, v):
    b, h, l, d = q.shape
    return torch.softmax(q @ k.transpose(2, 3), dim=3) @ v
#: an axis of the softmax that is not the last by number
def f(q, k, v):
    b, h, l, d = q.shape
    return torch.softmax(q @ k.transpose(2, 3), dim=2) @ v
#: an axis of the softmax of unknown place
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=3) @ v
#: the first axis
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=1) @ v
#: no axis
def f(q, k, v):
    return F.softmax(q @ k.transpose(-2, -1)) @ v
#: scores transposed
def f(q, k, v):
    return torch.softmax((k @ q.transpose(-2, -1)).transpose(-2, -1), dim=-1) @ v
#: keys and queries exchanged
def f(q, k, v):
    return torch.softmax(k @ q.transpose(-2, -1), dim=-1) @ v
#: weights transposed
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1).transpose(-2, -1) @ v
#: softmax over the queries of transposed scores
def f(q, k, v):
    return torch.softmax(k @ q.transpose(-2, -1), dim=-2).transpose(-2, -1) @ v
#: value on the left
def f(q, k, v):
    return v.transpose(-2, -1) @ torch.softmax(q @ k.transpose(-2, -1), dim=-1)
#: value on the left, all transposed
def f(q, k, v):
    return (v.transpose(-2, -1) @ torch.softmax(q @ k.transpose(-2, -1), dim=-1).transpose(-2, -1)).transpose(-2, -1)
#: an elementwise product of weights and values
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w[..., :1] * v
#: one query for all
def f(q, k, v):
    return torch.softmax(q.sum(-2, keepdim=True) @ k.transpose(-2, -1), dim=-1) @ v
#: a vector value
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v[0, 0, :, 0]
#: two-dimensional
def f(q, k, v):
    q, k, v = q[0, 0], k[0, 0], v[0, 0]
    return torch.softmax(q @ k.T, dim=-1) @ v
#: two-dimensional by t
def f(q, k, v):
    q, k, v = q[0, 0], k[0, 0], v[0, 0]
    return torch.softmax(torch.mm(q, k.t()), dim=1).mm(v)
#: keys without a head axis
def f(q, k, v):
    k, v = k[:, 0:1], v[:, 0:1]
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: keys of rank three, queries of rank four
def f(q, k, v):
    k, v = k[0], v[0]
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: queries of rank two, keys of rank four
def f(q, k, v):
    return torch.softmax(q[0, 0] @ k.transpose(-2, -1), dim=-1) @ v
#: values of another batch shape
def f(q, k, v):
    return torch.softmax(q[:1, :1] @ k[:1, :1].transpose(-2, -1), dim=-1) @ v
#: values of another width
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v[..., :3]
#: no keys
def f(q, k, v):
    return torch.softmax(q @ k[..., :0, :].transpose(-2, -1), dim=-1) @ v[..., :0, :]
#: five axes
def f(q, k, v):
    q, k, v = q[:, :, None], k[:, :, None], v[:, :, None]
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: a mask with a gradient
def f(q, k, v, bias):
    return torch.softmax(q @ k.transpose(-2, -1) + bias, dim=-1) @ v
#: a mask that adds axes
def f(q, k, v, bias):
    return torch.softmax(q[0, 0] @ k[0, 0].T + bias, dim=-1) @ v
#: a mask of more heads
def f(q, k, v, bias):
    return torch.softmax(q[:, :1] @ k[:, :1].transpose(-2, -1) + bias, dim=-1) @ v[:, :1]
#: a mask of one number
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) + 3.0, dim=-1) @ v
#: a mask of one axis
def f(q, k, v, weight):
    return torch.softmax(q @ k.transpose(-2, -1) + weight[:5], dim=-1) @ v
#: a mask of two axes
def f(q, k, v, bias):
    return torch.softmax(q @ k.transpose(-2, -1) + bias[0, 0], dim=-1) @ v
#: a mask of booleans that is added
def f(q, k, v, keep):
    return torch.softmax(q @ k.transpose(-2, -1) + keep, dim=-1) @ v
#: a mask of booleans made here that is added
def f(q, k, v, bias):
    return torch.softmax(q @ k.transpose(-2, -1) + (bias > 0), dim=-1) @ v
#: a mask of integers that is added
def f(q, k, v, keep_numbers):
    return torch.softmax(q @ k.transpose(-2, -1) + keep_numbers, dim=-1) @ v
#: a triangle of booleans that is added
def f(q, k, v):
    keep = torch.ones(5, 5, dtype=torch.bool).tril()
    return torch.softmax(q @ k.transpose(-2, -1) + keep, dim=-1) @ v
#: a triangle of ones that is added
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) + torch.ones(5, 5).tril(), dim=-1) @ v
#: a triangle of ones that fills
def f(q, k, v):
    s = (q @ k.transpose(-2, -1)).masked_fill(torch.ones(5, 5).tril() == 0, float("-inf"))
    return torch.softmax(s, dim=-1) @ v
#: a triangle of minus infinity that is added
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) + torch.full((5, 5), float("-inf")).triu(1), dim=-1) @ v
#: a mask of doubles that is added
def f(q, k, v, bias):
    return (torch.softmax(q @ k.transpose(-2, -1) + bias.double(), dim=-1)).float() @ v
#: a mask of doubles, cast in the softmax
def f(q, k, v, bias):
    return torch.softmax(q @ k.transpose(-2, -1) + bias.double(), dim=-1, dtype=torch.float32) @ v
#: a mask that is subtracted
def f(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-2, -1) - mask, dim=-1) @ v
#: a mask of one minus
def f(q, k, v, keep_numbers):
    return torch.softmax(q @ k.transpose(-2, -1) + (1.0 - keep_numbers) * -10000.0, dim=-1) @ v
#: a mask of one minus, large
def f(q, k, v, keep_numbers):
    return torch.softmax(q @ k.transpose(-2, -1) - 1e9 * (1.0 - keep_numbers), dim=-1) @ v
#: a mask that is multiplied before the softmax
def f(q, k, v, keep_numbers):
    return torch.softmax(q @ k.transpose(-2, -1) * keep_numbers, dim=-1) @ v
#: a mask that is multiplied before and added
def f(q, k, v, keep_numbers):
    return torch.softmax(q @ k.transpose(-2, -1) * keep_numbers - 1e9 * (1 - keep_numbers), dim=-1) @ v
#: a mask that is multiplied after
def f(q, k, v, keep_numbers):
    return (torch.softmax(q @ k.transpose(-2, -1), dim=-1) * keep_numbers) @ v
#: a mask that fills after
def f(q, k, v, drop):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1).masked_fill(drop, 0.0) @ v
#: a fill before and after
def f(q, k, v, drop):
    s = (q @ k.transpose(-2, -1)).masked_fill(drop, float("-inf"))
    return torch.softmax(s, dim=-1).masked_fill(drop, 0.0) @ v
#: a fill with nan replaced
def f(q, k, v, drop):
    s = (q @ k.transpose(-2, -1)).masked_fill(drop, float("-inf"))
    return torch.softmax(s, dim=-1).nan_to_num() @ v
#: a fill with minus infinity
def f(q, k, v, drop):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(drop, float("-inf")), dim=-1) @ v
#: a fill with plus infinity
def f(q, k, v, drop):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(drop, float("inf")), dim=-1) @ v
#: a fill with a small number
def f(q, k, v, drop):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(drop, 1e-9), dim=-1) @ v
#: a fill with zero
def f(q, k, v, drop):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(drop, 0.0), dim=-1) @ v
#: a fill with a large number
def f(q, k, v, drop):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(drop, 1e9), dim=-1) @ v
#: a fill with -1e4
def f(q, k, v, drop):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(drop, -1e4), dim=-1) @ v
#: a fill of the kept
def f(q, k, v, keep):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(keep, -1e9), dim=-1) @ v
#: a fill of what equals zero
def f(q, k, v, keep_numbers):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(keep_numbers == 0, -1e9), dim=-1) @ v
#: a fill of what equals one
def f(q, k, v, keep_numbers):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(keep_numbers == 1, -1e9), dim=-1) @ v
#: a fill of what is below one
def f(q, k, v, keep_numbers):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(keep_numbers < 1, -1e9), dim=-1) @ v
#: a where of scores and a number
def f(q, k, v, keep):
    return torch.softmax(torch.where(keep, q @ k.transpose(-2, -1), -1e9), dim=-1) @ v
#: a where the other way round
def f(q, k, v, keep):
    return torch.softmax(torch.where(keep, -1e9, q @ k.transpose(-2, -1)), dim=-1) @ v
#: a where of scores and a tensor
def f(q, k, v, keep):
    s = q @ k.transpose(-2, -1)
    return torch.softmax(torch.where(keep, s, torch.full_like(s, -1e9)), dim=-1) @ v
#: a where of integers
def f(q, k, v, keep_numbers):
    return torch.softmax(torch.where(keep_numbers > 0, q @ k.transpose(-2, -1), -1e9), dim=-1) @ v
#: a mask of logical operations
def f(q, k, v, keep, drop):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(~keep | drop, -1e9), dim=-1) @ v
#: a mask of two fills
def f(q, k, v, keep, drop):
    s = (q @ k.transpose(-2, -1)).masked_fill(~keep, -1e9)
    return torch.softmax(s.masked_fill(drop, -1e9), dim=-1) @ v
#: a fill and then a mask
def f(q, k, v, drop, mask):
    s = (q @ k.transpose(-2, -1)).masked_fill(drop, -1e9)
    return torch.softmax(s + mask, dim=-1) @ v
#: a fill and then a scale
def f(q, k, v, drop):
    s = (q @ k.transpose(-2, -1)).masked_fill(drop, -1e9)
    return torch.softmax(s * 0.125, dim=-1) @ v
#: a fill with -8e9 and then a scale that brings it back
def f(q, k, v, drop):
    s = (q @ k.transpose(-2, -1)).masked_fill(drop, -8e9)
    return torch.softmax(s * 1e-9, dim=-1) @ v
#: a mask and then a scale
def f(q, k, v, mask):
    s = q @ k.transpose(-2, -1) + mask
    return torch.softmax(s * 0.125, dim=-1) @ v
#: a mask and then a division
def f(q, k, v, mask):
    s = q @ k.transpose(-2, -1) + mask
    return torch.softmax(s / math.sqrt(8), dim=-1) @ v
#: a mask that is a product
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    return torch.softmax(s + k @ v.transpose(-2, -1), dim=-1) @ v
#: two products as scores
def f(q, k, v):
    s = q @ k.transpose(-2, -1) + k @ q.transpose(-2, -1)
    return torch.softmax(s, dim=-1) @ v
#: a soft cap
def f(q, k, v):
    s = 30.0 * torch.tanh(q @ k.transpose(-2, -1) / 30.0)
    return torch.softmax(s, dim=-1) @ v
#: a clamp
def f(q, k, v):
    return torch.softmax((q @ k.transpose(-2, -1)).clamp(-1, 1), dim=-1) @ v
#: a subtracted maximum
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    s = s - s.amax(-1, keepdim=True)
    return torch.softmax(s, dim=-1) @ v
#: softmax by hand
def f(q, k, v):
    s = (q @ k.transpose(-2, -1)).exp()
    return (s / s.sum(-1, keepdim=True)) @ v
#: softmax one
def f(q, k, v):
    s = (q @ k.transpose(-2, -1)).exp()
    return (s / (1 + s.sum(-1, keepdim=True))) @ v
#: log softmax
def f(q, k, v):
    return torch.log_softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: softmin
def f(q, k, v):
    return F.softmin(q @ k.transpose(-2, -1), dim=-1) @ v
#: gumbel softmax
def f(q, k, v):
    torch.manual_seed(1)
    return F.gumbel_softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: softmax twice
def f(q, k, v):
    return torch.softmax(torch.softmax(q @ k.transpose(-2, -1), dim=-1), dim=-1) @ v
#: softmax in half
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1, dtype=torch.bfloat16).to(v.dtype) @ v
#: softmax in double
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1, dtype=torch.float64).to(v.dtype) @ v
#: softmax in double, returned in double
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1, dtype=torch.float64) @ v.double()
#: everything in double
def f(q, k, v):
    q, k, v = q.double(), k.double(), v.double()
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: scores in float, values as they are
def f(q, k, v):
    w = torch.softmax((q.float() @ k.float().transpose(-2, -1)), dim=-1)
    return w.to(q.dtype) @ v
#: scores in float, weights cast to the values
def f(q, k, v):
    w = torch.softmax((q.float() @ k.float().transpose(-2, -1)), dim=-1)
    return w.to(v.dtype) @ v
#: attention sinks
def f(q, k, v, weight):
    s = q @ k.transpose(-2, -1)
    s = torch.cat([s, weight[:1].expand(2, 3, 5, 1)], dim=-1)
    return torch.softmax(s, dim=-1)[..., :-1] @ v
#: talking heads
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    mix = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]])
    s = torch.einsum("bhij,hg->bgij", s, mix)
    return torch.softmax(s, dim=-1) @ v
#: renormalised weights
def f(q, k, v):
    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    w = w / w.sum(-1, keepdim=True)
    return w @ v
#: cosine attention
def f(q, k, v):
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    return torch.softmax(q @ k.transpose(-2, -1) * 10, dim=-1) @ v
#: weights rounded
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1).round() @ v
#: weights times a number
def f(q, k, v):
    return (torch.softmax(q @ k.transpose(-2, -1), dim=-1) * 0.5) @ v
#: weights plus a number
def f(q, k, v):
    return (torch.softmax(q @ k.transpose(-2, -1), dim=-1) + 1) @ v
#: the result times a number
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v * 0.5
#: the value times a number
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ (v * 0.5)
#: the query times a vector
def f(q, k, v, weight):
    return torch.softmax((q * weight) @ k.transpose(-2, -1), dim=-1) @ v
#: a scale by the length
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-2)), dim=-1) @ v
#: a scale by the width of the values
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(v.shape[-1]), dim=-1) @ v[..., :4]
#: a scale by both
def f(q, k, v):
    scale = q.size(-1) ** -0.25
    return torch.softmax((q * scale) @ (k * scale).transpose(-2, -1), dim=-1) @ v
#: a scale of the scores twice
def f(q, k, v):
    s = (q / math.sqrt(8)) @ k.transpose(-2, -1)
    return torch.softmax(s / math.sqrt(8), dim=-1) @ v
#: a negative scale
def f(q, k, v):
    return torch.softmax(-(q @ k.transpose(-2, -1)), dim=-1) @ v
#: a scale of zero
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * 0, dim=-1) @ v
#: a scale that is a tensor of one number
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / torch.sqrt(torch.tensor(8.0)), dim=-1) @ v
#: a scale with an integer division
def f(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / (q.size(-1) // 3), dim=-1) @ v
#: a scale that is the temperature of the call
def f(q, k, v, factor=0.5):
    return torch.softmax(q @ k.transpose(-2, -1) / factor, dim=-1) @ v
#: baddbmm
def f(q, k, v, bias):
    q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    s = torch.baddbmm(bias.expand(2, 3, 5, 5).flatten(0, 1), q, k.transpose(1, 2), beta=1.0, alpha=0.3)
    return torch.bmm(torch.softmax(s, dim=-1), v)
#: baddbmm with another beta
def f(q, k, v, bias):
    q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    s = torch.baddbmm(bias.expand(2, 3, 5, 5).flatten(0, 1), q, k.transpose(1, 2), beta=0.5, alpha=0.3)
    return torch.bmm(torch.softmax(s, dim=-1), v)
#: baddbmm with beta zero
def f(q, k, v, bias):
    q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    s = torch.baddbmm(bias.expand(2, 3, 5, 5).flatten(0, 1), q, k.transpose(1, 2), beta=0, alpha=0.3)
    return torch.bmm(torch.softmax(s, dim=-1), v)
#: einsum over the heads
def f(q, k, v):
    w = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k), dim=-1)
    return torch.einsum("bhij,bhjd->bhid", w, v)
#: einsum with the keys first
def f(q, k, v):
    w = torch.softmax(torch.einsum("bhjd,bhid->bhij", k, q), dim=-1)
    return torch.einsum("bhij,bhjd->bhid", w, v)
#: einsum with transposed scores
def f(q, k, v):
    w = torch.softmax(torch.einsum("bhid,bhjd->bhji", q, k), dim=-2)
    return torch.einsum("bhji,bhjd->bhid", w, v)
#: einsum with transposed scores and the wrong axis
def f(q, k, v):
    w = torch.softmax(torch.einsum("bhid,bhjd->bhji", q, k), dim=-1)
    return torch.einsum("bhji,bhjd->bhid", w, v)
#: einsum of the wrong value letter
def f(q, k, v):
    w = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k), dim=-1)
    return torch.einsum("bhij,bhid->bhjd", w, v)
#: einsum with the layout of flash attention
def f(q, k, v):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    w = torch.softmax(torch.einsum("blhd,bshd->bhls", q, k), dim=-1)
    return torch.einsum("bhls,bshd->blhd", w, v)
#: einsum with the layout of flash attention, one by one
def f(q, k, v):
    q = q.transpose(1, 2)
    k = k.transpose(1, 2)
    v = v.transpose(1, 2)
    w = torch.softmax(torch.einsum("blhd,bshd->bhls", q, k), dim=-1)
    return torch.einsum("bhls,bshd->blhd", w, v)
#: einsum without an output
def f(q, k, v):
    w = torch.softmax(torch.einsum("bhid,bhjd", q, k), dim=-1)
    return torch.einsum("bhij,bhjd->bhid", w, v[:, :, :, :])
#: einsum that sums the heads
def f(q, k, v):
    w = torch.softmax(torch.einsum("bhid,bhjd->bij", q, k), dim=-1)
    return torch.einsum("bij,bhjd->bhid", w, v)
#: einsum with a shared key head
def f(q, k, v):
    w = torch.softmax(torch.einsum("bhid,bjd->bhij", q, k[:, 0]), dim=-1)
    return torch.einsum("bhij,bjd->bhid", w, v[:, 0])
#: einsum with an ellipsis
def f(q, k, v):
    w = torch.softmax(torch.einsum("...id,...jd->...ij", q, k), dim=-1)
    return torch.einsum("...ij,...jd->...id", w, v)
#: reshape between scores and softmax
def f(q, k, v):
    s = q @ k.transpose(-2, -1)
    s = s.reshape(2, 3, 25)
    w = torch.softmax(s, dim=-1).reshape(2, 3, 5, 5)
    return w @ v
#: reshape of the heads between
def f(q, k, v):
    s = (q @ k.transpose(-2, -1)).view(6, 5, 5)
    w = torch.softmax(s, dim=-1)
    return (w @ v.reshape(6, 5, 8)).view(2, 3, 5, 8)
#: repeated key heads
def f(q, k, v):
    k = k[:, :1].repeat_interleave(3, dim=1)
    v = v[:, :1].repeat(1, 3, 1, 1)
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
#: gelu with a scale outside
def f(x):
    return 2 * (0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0))))
#: gelu without the half
def f(x):
    return x * (1.0 + torch.erf(x / math.sqrt(2.0)))
#: gelu of a scaled input
def f(x):
    return 0.5 * x * (1.0 + torch.erf(2 * x / math.sqrt(2.0)))
#: gelu of two scaled inputs
def f(x):
    return 0.5 * (2 * x) * (1.0 + torch.erf(2 * x / math.sqrt(2.0)))
#: gelu with a minus
def f(x):
    return 0.5 * x * (1.0 - torch.erf(x / math.sqrt(2.0)))
#: gelu of the negative
def f(x):
    return 0.5 * -x * (1.0 + torch.erf(-x / math.sqrt(2.0)))
#: gelu by the odd erf
def f(x):
    return 0.5 * x * (1.0 - torch.erf(-x / math.sqrt(2.0)))
#: gelu times itself
def f(x):
    g = 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
    return g * g
#: gelu with a gate
def f(x, y):
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0))) * y
#: gelu with a gate in the middle
def f(x, y):
    return 0.5 * x * y * (1.0 + torch.erf(x / math.sqrt(2.0)))
#: gelu of a sum
def f(x, y):
    h = x + y
    return 0.5 * h * (1.0 + torch.erf(h / math.sqrt(2.0)))
#: gelu of a sum written twice
def f(x, y):
    return 0.5 * (x + y) * (1.0 + torch.erf((y + x) / math.sqrt(2.0)))
#: gelu of a product
def f(x, y):
    return 0.5 * (x * y) * (1.0 + torch.erf(x * y / math.sqrt(2.0)))
#: gelu of a bias and a dropout
def f(x, weight):
    h = x + weight
    h = h * 0.5 * (1.0 + torch.erf(h / 1.41421))
    return h
#: gelu with a rounded root
def f(x):
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421356))
#: gelu with a badly rounded root
def f(x):
    return x * 0.5 * (1.0 + torch.erf(x / 1.4142))
#: gelu tanh with the square
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x**2)))
#: gelu tanh without the cube's constant
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + x**3)))
#: gelu tanh with other brackets
def f(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * x + 0.044715 * x**3))
#: gelu tanh factored
def f(x):
    return 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))
#: gelu tanh by sigmoid
def f(x):
    return x * torch.sigmoid(1.5957691216057308 * (x + 0.044715 * x**3))
#: gelu erfc
def f(x):
    return 0.5 * x * torch.erfc(-x / math.sqrt(2.0))
#: gelu over two branches
def f(x, flag):
    c = math.sqrt(2.0) if flag else 1.0
    return 0.5 * x * (1.0 + torch.erf(x / c))
#: gelu in another element type inside
def f(x):
    return 0.5 * x * (1.0 + torch.erf((x / math.sqrt(2.0)).double()).to(x.dtype))
#: gelu upcast and back
def f(x):
    h = x.float()
    return (0.5 * h * (1.0 + torch.erf(h / math.sqrt(2.0)))).to(x.dtype)
#: silu of two names
def f(x, y):
    return x * torch.sigmoid(y)
#: silu of a scaled gate
def f(x):
    return x * torch.sigmoid(x * 1.0)
#: silu with beta
def f(x):
    return x * torch.sigmoid(1.702 * x)
#: silu plus
def f(x):
    return x + torch.sigmoid(x)
#: silu squared input
def f(x):
    return x * x * torch.sigmoid(x)
#: silu squared sigmoid
def f(x):
    s = torch.sigmoid(x)
    return x * s * s
#: silu by division
def f(x):
    return x / (1 + torch.exp(-x))
#: silu by division with another sign
def f(x):
    return x / (1 + torch.exp(x))
#: silu by division of integers
def f(x):
    return x / (2 + torch.exp(-x))
#: silu with one over
def f(x):
    return x * (1 / (1 + (-x).exp()))
#: silu of the square of a root
def f(x):
    return torch.sqrt(x) ** 2 * torch.sigmoid(x)
#: silu of an element of a chunk
def f(x):
    a, b = x.chunk(2, dim=-1)
    return a * torch.sigmoid(b)
#: silu of an element of a chunk, the same
def f(x):
    a, b = x.chunk(2, dim=-1)
    return b * torch.sigmoid(b) * a
#: silu of slices that look alike
def f(x):
    return x[..., :4] * torch.sigmoid(x[..., 4:])
#: silu of equal slices
def f(x):
    return x[..., :4] * torch.sigmoid(x[..., :4])
#: silu of picks that look alike
def f(x):
    return x[0] * torch.sigmoid(x[1])
#: silu of a tensor and its transpose
def f(x):
    y = x[:, :5, :5]
    return y * torch.sigmoid(y.transpose(-2, -1))
#: silu of a tensor and its flip
def f(x):
    return x * torch.sigmoid(x.flip(-1))
#: silu of a cast
def f(x):
    return x * torch.sigmoid(x.float())
#: silu of a cast and back
def f(x):
    return x * torch.sigmoid(x.float()).to(x.dtype)
#: silu of a double cast
def f(x):
    return x * torch.sigmoid(x.double())
#: silu of a broadcast
def f(x):
    return x * torch.sigmoid(x[..., :1])
#: silu of a number
def f(factor):
    x = torch.tensor(factor)
    return x * torch.sigmoid(x)
#: silu of a python number
def f(factor):
    return factor * (1 / (1 + math.exp(-factor)))
#: gelu of a python number
def f(factor):
    return 0.5 * factor * (1.0 + math.erf(factor / math.sqrt(2.0)))
#: gelu by math tanh
def f(factor):
    return 0.5 * factor * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (factor + 0.044715 * factor**3)))
#: numpy gelu
import numpy as np
def f(x):
    a = x.detach().numpy()
    return torch.from_numpy(0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * np.power(a, 3)))))
#: numpy silu
import numpy as np
def f(factor):
    a = np.ones(3) * factor
    return float((a * (1 / (1 + np.exp(-a)))).sum())
#: rms norm over another axis
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-2, keepdim=True) + 1e-6)).to(x.dtype)
#: rms norm over two axes
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean((-2, -1), keepdim=True) + 1e-6)).to(x.dtype)
#: rms norm over all
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean() + 1e-6)).to(x.dtype)
#: rms norm of a sum
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).sum(-1, keepdim=True) + 1e-6)).to(x.dtype)
#: rms norm of a sum divided
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).sum(-1, keepdim=True) / 8 + 1e-6)).to(x.dtype)
#: rms norm with eps outside
def f(x):
    h = x.float()
    return (h / (h.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6)).to(x.dtype)
#: rms norm with a maximum instead of eps
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True).clamp(min=1e-6))).to(x.dtype)
#: rms norm without eps
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True))).to(x.dtype)
#: rms norm with a negative eps
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) - 1e-6)).to(x.dtype)
#: rms norm of one plus weight
def f(x, weight):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (h * (1.0 + weight.float())).to(x.dtype)
#: rms norm with the weight after
def f(x, weight):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * h.to(x.dtype)
#: rms norm with the weight before
def f(x, weight):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (h * weight.float()).to(x.dtype)
#: rms norm with the weight before, uncast
def f(x, weight):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (weight * h).to(x.dtype)
#: rms norm uncast
def f(x, weight):
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
#: rms norm returned in float
def f(x):
    h = x.float()
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
#: rms norm in double inside
def f(x):
    h = x.double()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
#: rms norm returned in another type
def f(x):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(torch.float64)
#: rms norm of the half type inside
def f(x):
    v = x.float().pow(2).mean(-1, keepdim=True)
    return x * torch.rsqrt(v + 1e-6)
#: rms norm with the wrong cast
def f(x, y):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(y.dtype)
#: rms norm of another tensor's scale
def f(x, y):
    h, g = x.float(), y.float()
    return (h * torch.rsqrt(g.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
#: rms norm of a group
def f(x):
    g = x.view(2, 5, 2, 4)
    h = g.float()
    h = (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
    return h.view(2, 5, 8)
#: rms norm with an eps argument
def f(x, factor):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + factor)).to(x.dtype)
#: rms norm with a weight of another shape
def f(x, y):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (h * y.float()).to(x.dtype)
#: rms norm without keepdim
def f(x):
    h = x[0, :, :5].float()
    return (h * torch.rsqrt(h.pow(2).mean(-1) + 1e-6)).to(x.dtype)
#: rms norm by the norm function
def f(x):
    h = x.float()
    return (h / (h.norm(dim=-1, keepdim=True) * 8**-0.5 + 1e-6)).to(x.dtype)
#: layer norm with a weight of another shape
def f(x, y, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * y + shift
#: layer norm with a bias of another shape
def f(x, y, weight):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + y
#: layer norm plus a residual
def f(x, y):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) + y
#: layer norm unbiased
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm unbiased by a keyword
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, correction=1)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm with correction zero
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, correction=0)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm by positional unbiased
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, False, True)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm of a standard deviation
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    s = x.std(-1, keepdim=True, unbiased=False)
    return weight * (x - m) / (s + 1e-6) + shift
#: layer norm of a variance without centring
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.pow(2).mean(-1, keepdim=True)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm of a variance by moments
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.pow(2).mean(-1, keepdim=True) - m.pow(2)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm of another mean
def f(x, y, weight, shift):
    m = y.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm over the first axis
def f(x):
    m = x.mean(1, keepdim=True)
    v = x.var(1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5)
#: layer norm over mixed axes
def f(x):
    m = x.mean(1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5)
#: layer norm over the channels
def f(q):
    m = q.mean(1, keepdim=True)
    v = (q - m).pow(2).mean(1, keepdim=True)
    return (q - m) / torch.sqrt(v + 1e-5)
#: layer norm with a minus
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (m - x) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm with a subtracted bias
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * weight - shift
#: layer norm with weight only
def f(x, weight):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * weight
#: layer norm with bias only
def f(x, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) + shift
#: layer norm with one name for both
def f(x, weight):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + weight
#: layer norm with bias times weight
def f(x, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return ((x - m) / torch.sqrt(v + 1e-5) + shift) * weight
#: layer norm with a number as weight
def f(x):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * 2.0 + 1.0
#: layer norm with a number as bias
def f(x, weight):
    m = x.mean(-1, keepdim=True)
    v = x.var(-1, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + 1.0
#: layer norm in float and back
def f(x, weight, shift):
    h = x.float()
    m = h.mean(-1, keepdim=True)
    v = h.var(-1, keepdim=True, unbiased=False)
    return ((h - m) / torch.sqrt(v + 1e-5) * weight.float() + shift.float()).to(x.dtype)
#: layer norm in float and back, weight after
def f(x, weight, shift):
    h = x.float()
    m = h.mean(-1, keepdim=True)
    v = h.var(-1, keepdim=True, unbiased=False)
    return ((h - m) / torch.sqrt(v + 1e-5)).to(x.dtype) * weight + shift
#: layer norm of a pair of tensors
def f(x, y, weight, shift):
    m = x.mean(-1, keepdim=True)
    v = (y - m).pow(2).mean(-1, keepdim=True)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
#: layer norm with a third moment
def f(x, weight, shift):
    c = x - x.mean(-1, keepdim=True)
    v = c.pow(3).mean(-1, keepdim=True)
    return c / torch.sqrt(v.abs() + 1e-5) * weight + shift
#: batch norm by hand
def f(x, weight, shift):
    m = x.mean(0, keepdim=True)
    v = x.var(0, keepdim=True, unbiased=False)
    return (x - m) / torch.sqrt(v + 1e-5) * weight + shift
""",
)
