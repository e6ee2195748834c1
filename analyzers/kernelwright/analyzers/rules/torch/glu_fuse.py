"""Gate and value projections of a gated unit become one projection.

## What it finds
`act(gate(x)) * up(x)` with two linear layers of one module on the same value: SwiGLU, GeGLU, ReGLU, GLU. The activation may be
any function of the gate alone.

## Why it is the same
A product with two matrices one after the other is one product with the matrices stacked. Hooks keep checkpoints as they are:
what was saved before loads strictly, and what is saved after has the old keys, in the old order, with the same bytes.

## When it is not
Layers that something else uses, hooks, prunes or initialises by name, quantised or LoRA-wrapped layers, an activation on both
factors, layers packed already. Code that looks at `named_parameters` sees one parameter instead of two: weight decay groups,
sharding plans and LoRA targets by name must follow; Xavier initialisation gives the packed layer a smaller scale. An
optimizer's state from before must be converted: the page of `qkv-fuse` has the function. An activation that works in place
must not be handed a part of the packed output.

## What it gains
One launch instead of two, and one pass over the input. On a GPU a fused kernel (`LigerSiLUMulFunction`) or the compiler then
joins activation and product, which saves memory in training. On a CPU nothing.

## Fix safety
Advice, never in fix-all. The edit is not checked by the same-program check, since it replaces parameters; real torch runs it in
our tests: outputs, gradients, training steps, checkpoints both ways.
"""

name = "glu-fuse"
kernel = "torch.nn.Linear"
tier = "advice"
numerics = "E"
min_torch = "2.0"
finder = "glu-fuse"
message = "gate and value read one input: one matrix product can make both"
keeps = ("the keys, order and bytes of checkpoints", "the element type")

matches = (
    """
    import torch.nn.functional as F
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim, hidden):
            super().__init__()
            self.gate_proj = nn.Linear(dim, hidden, bias=False)
            self.up_proj = nn.Linear(dim, hidden, bias=False)
            self.down_proj = nn.Linear(hidden, dim, bias=False)

        def forward(self, hidden_states):
            return self.down_proj(F.silu(self.gate_proj(hidden_states)) * self.up_proj(hidden_states))
    ---
    import torch.nn.functional as F
    from torch import nn
    import torch


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


    class MLP(nn.Module):
        def __init__(self, dim, hidden):
            super().__init__()
            self.gate_up_proj = nn.Linear(dim, 2 * hidden, bias=False)
            self.packed_parts = {"gate_up_proj": {"gate_proj": hidden, "up_proj": hidden}}
            self.register_state_dict_post_hook(save_packed_parts)
            self.register_load_state_dict_pre_hook(load_packed_parts)
            self.down_proj = nn.Linear(hidden, dim, bias=False)

        def forward(self, hidden_states):
            gate, up = self.gate_up_proj(hidden_states).chunk(2, dim=-1)
            return self.down_proj(F.silu(gate) * up)
    """,
)

reports = (
    # an activation from a table, layers initialised by name: in words
    """
    import torch
    from torch import nn


    class GatedDense(nn.Module):
        def __init__(self, dim, hidden, act):
            super().__init__()
            self.wi_0 = nn.Linear(dim, hidden, bias=False)
            self.wi_1 = nn.Linear(dim, hidden, bias=False)
            self.act = ACTIVATIONS[act]
            self.reset_parameters()

        def reset_parameters(self):
            nn.init.normal_(self.wi_0.weight, std=0.02)
            nn.init.normal_(self.wi_1.weight, std=0.02)

        def forward(self, x):
            gelu = self.act(self.wi_0(x))
            linear = self.wi_1(x)
            return gelu * linear
    """,
    # convolutions
    """
    import torch
    from torch import nn


    class GatedConv(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.gate = nn.Conv2d(channels, channels, 3, padding=1)
            self.value = nn.Conv2d(channels, channels, 3, padding=1)

        def forward(self, x):
            return torch.sigmoid(self.gate(x)) * self.value(x)
    """,
)

does_not_match = (
    # packed already
    """
    import torch.nn.functional as F
    from torch import nn


    class GEGLU(nn.Module):
        def __init__(self, dim, hidden):
            super().__init__()
            self.proj = nn.Linear(dim, hidden * 2)

        def forward(self, x):
            x, gate = self.proj(x).chunk(2, dim=-1)
            return x * F.gelu(gate)
    """,
    # two inputs
    """
    import torch.nn.functional as F
    from torch import nn


    class Modulated(nn.Module):
        def __init__(self, dim, hidden):
            super().__init__()
            self.gate = nn.Linear(dim, hidden)
            self.up = nn.Linear(dim, hidden)

        def forward(self, x, condition):
            return F.silu(self.gate(condition)) * self.up(x)
    """,
    # no activation: a bilinear form
    """
    import torch
    from torch import nn


    class Bilinear(nn.Module):
        def __init__(self, dim, hidden):
            super().__init__()
            self.a = nn.Linear(dim, hidden)
            self.b = nn.Linear(dim, hidden)

        def forward(self, x):
            return self.a(x) * self.b(x)
    """,
    # LoRA
    """
    import torch.nn.functional as F
    from loralib import LoRALinear
    from torch import nn


    class MLP(nn.Module):
        def __init__(self, dim, hidden):
            super().__init__()
            self.gate = LoRALinear(dim, hidden)
            self.up = LoRALinear(dim, hidden)

        def forward(self, x):
            return F.silu(self.gate(x)) * self.up(x)
    """,
)
