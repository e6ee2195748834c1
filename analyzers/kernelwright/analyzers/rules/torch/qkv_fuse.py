"""Query, key and value projections of one input become one projection.

## What it finds
Three linear layers of one module that read the same value and become query, key and value of one attention. Which is
which follows from the dataflow, not from the names. Convolutions with kernel size 1 count too; column-parallel layers are
told in words.

## Why it is the same
A product with three matrices one after the other is one product with the matrices stacked: each output number is the same
sum of the same products. Hooks keep checkpoints as they are: what was saved before loads strictly, and what is saved after
has the old keys, in the old order, with the same bytes.

## When it is not
Cross attention (key and value read another value), layers that something else uses, hooks, prunes or initialises by name,
quantised or LoRA-wrapped layers, layers that a string of the file names. Code that looks at `named_parameters` sees one
parameter instead of three: weight decay groups, sharding plans and LoRA targets by name must follow. An initialisation that
depends on the number of outputs (Xavier) gives the packed layer a smaller scale. Optimizers that work element by element
(SGD, Adam, AdamW) go on exactly; those with one step size a matrix (Adafactor, LAMB, Muon) do not.

An optimizer's state from before has one entry a parameter, and `load_state_dict` refuses it. This makes it fit, for an
optimizer made of `model.parameters()`; `old_names` are the names of the old model's parameters, in order:

```python
import torch

def pack_optimizer_state(state, old_names, model):
    # The state of an optimizer of the old model as one of the new model.
    parts = {}
    for path, module in model.named_modules():
        for packed, rows in getattr(module, "packed_parts", {}).items():
            prefix = f"{path}." if path else ""
            for name in ("weight", "bias"):
                parts[f"{prefix}{packed}.{name}"] = [f"{prefix}{part}.{name}" for part in rows]
    (group,) = state["param_groups"]
    old = {name: state["state"].get(index) for name, index in zip(old_names, group["params"])}
    new, order = {}, []
    for index, (name, _) in enumerate(model.named_parameters()):
        order.append(index)
        entries = [entry for part in parts.get(name, [name]) if (entry := old[part])]
        if entries:
            new[index] = {
                key: torch.cat([entry[key] for entry in entries]) if torch.is_tensor(value) and value.dim() else value
                for key, value in entries[0].items()
            }
    return {"state": new, "param_groups": [{**group, "params": order}]}
```

## What it gains
One launch instead of three, and one pass over the input instead of three. On a CPU nothing (0.92 to 1.03 times); on a GPU
where the matrices are small for the device.

## Fix safety
Advice, never in fix-all. The edit is not checked by the same-program check, since it replaces parameters; real torch runs it in
our tests: outputs, gradients, training steps, checkpoints both ways.
"""

name = "qkv-fuse"
kernel = "torch.nn.Linear"
tier = "advice"
numerics = "E"
min_torch = "2.0"
finder = "qkv-fuse"
message = "three projections of one input: one matrix product can make them all"
keeps = ("the keys, order and bytes of checkpoints", "the element type")

matches = (
    """
    import torch
    from torch import nn


    class Attention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q = nn.Linear(dim, dim)
            self.k = nn.Linear(dim, dim)
            self.v = nn.Linear(dim, dim)
            self.out = nn.Linear(dim, dim)

        def forward(self, hidden_states):
            q = self.q(hidden_states)
            k = self.k(hidden_states)
            v = self.v(hidden_states)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            return self.out(torch.softmax(scores, dim=-1) @ v)
    ---
    import torch
    from torch import nn


    def save_packed_parts(module, state_dict, prefix, local_metadata):
        \"\"\"State-dict hook: write each packed layer as the layers it is made of, under their names and in their place.\"\"\"
        for packed, rows in module.packed_parts.items():
            keys = list(state_dict)
            if f"{prefix}{packed}.weight" not in state_dict:
                continue
            tail = {key: state_dict.pop(key) for key in keys[keys.index(f"{prefix}{packed}.weight") :]}
            names = [name for name in ("weight", "bias") if f"{prefix}{packed}.{name}" in tail]
            values = {name: tail.pop(f"{prefix}{packed}.{name}").split(list(rows.values())) for name in names}
            for index, part in enumerate(rows):
                for name in names:
                    state_dict[f"{prefix}{part}.{name}"] = values[name][index]
            state_dict.update(tail)


    def load_packed_parts(module, state_dict, prefix, *unused):
        \"\"\"State-dict hook: pack the layers of a checkpoint where all of them are there in the sizes that are expected.\"\"\"
        for packed, rows in module.packed_parts.items():
            for name in ("weight", "bias"):
                parts = {f"{prefix}{part}.{name}": size for part, size in rows.items()}
                if all(key in state_dict and state_dict[key].shape[0] == size for key, size in parts.items()):
                    state_dict[f"{prefix}{packed}.{name}"] = torch.cat([state_dict.pop(key) for key in parts])


    class Attention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.qkv_proj = nn.Linear(dim, 3 * dim)
            self.packed_parts = {"qkv_proj": {"q": dim, "k": dim, "v": dim}}
            self.register_state_dict_post_hook(save_packed_parts)
            self.register_load_state_dict_pre_hook(load_packed_parts)
            self.out = nn.Linear(dim, dim)

        def forward(self, hidden_states):
            q, k, v = self.qkv_proj(hidden_states).chunk(3, dim=-1)
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            return self.out(torch.softmax(scores, dim=-1) @ v)
    """,
)

reports = (
    # one class for both kinds of attention: in words, with the condition
    """
    import torch
    from torch import nn


    class Attention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q = nn.Linear(dim, dim)
            self.k = nn.Linear(dim, dim)
            self.v = nn.Linear(dim, dim)

        def forward(self, x, memory=None):
            q = self.q(x)
            if memory is not None:
                k, v = self.k(memory), self.v(memory)
            else:
                k, v = self.k(x), self.v(x)
            return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
    """,
    # convolutions over channels
    """
    import torch
    from torch import nn


    class AttnBlock(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.q = nn.Conv2d(channels, channels, kernel_size=1)
            self.k = nn.Conv2d(channels, channels, kernel_size=1)
            self.v = nn.Conv2d(channels, channels, kernel_size=1)

        def forward(self, x):
            b, c, h, w = x.shape
            q = self.q(x).reshape(b, c, h * w).permute(0, 2, 1)
            k = self.k(x).reshape(b, c, h * w)
            v = self.v(x).reshape(b, c, h * w)
            weights = torch.bmm(q, k).softmax(dim=2)
            return torch.bmm(v, weights.permute(0, 2, 1)).reshape(b, c, h, w)
    """,
    # sharded by column
    """
    import torch
    from fairscale.nn.model_parallel.layers import ColumnParallelLinear
    from torch import nn


    class Attention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.wq = ColumnParallelLinear(dim, dim, bias=False)
            self.wk = ColumnParallelLinear(dim, dim, bias=False)
            self.wv = ColumnParallelLinear(dim, dim, bias=False)

        def forward(self, x):
            q, k, v = self.wq(x), self.wk(x), self.wv(x)
            return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
    """,
)

does_not_match = (
    # cross attention
    """
    import torch
    from torch import nn


    class Attention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q = nn.Linear(dim, dim)
            self.k = nn.Linear(dim, dim)
            self.v = nn.Linear(dim, dim)

        def forward(self, x, memory):
            q, k, v = self.q(x), self.k(memory), self.v(memory)
            return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
    """,
    # the key layer is hooked elsewhere
    """
    import torch
    from torch import nn


    class Attention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q = nn.Linear(dim, dim)
            self.k = nn.Linear(dim, dim)
            self.v = nn.Linear(dim, dim)

        def forward(self, x):
            q, k, v = self.q(x), self.k(x), self.v(x)
            return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v


    def keep_keys(attention, cache):
        attention.k.register_forward_hook(lambda module, _, output: cache.append(output))
    """,
    # three layers of one input that are no attention
    """
    import torch
    from torch import nn


    class Gates(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.a = nn.Linear(dim, dim)
            self.b = nn.Linear(dim, dim)
            self.c = nn.Linear(dim, dim)

        def forward(self, x):
            return self.a(x), self.b(x), self.c(x)
    """,
    # quantised
    """
    import bitsandbytes as bnb
    import torch
    from torch import nn


    class Attention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.q = bnb.nn.Linear8bitLt(dim, dim)
            self.k = bnb.nn.Linear8bitLt(dim, dim)
            self.v = bnb.nn.Linear8bitLt(dim, dim)

        def forward(self, x):
            q, k, v = self.q(x), self.k(x), self.v(x)
            return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
    """,
)
