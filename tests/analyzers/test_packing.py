"""qkv-fuse and glu-fuse in real torch: the edited class computes, learns, saves and loads as the old one."""

from __future__ import annotations

import copy
import io
import pickle
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from before_after import EVERY_TIER, fixed
from torch import nn

from kernelwright.analyzers.analysis import Settings, analyse
from kernelwright.analyzers.opportunity import Opportunity
from kernelwright.analyzers.rules.loader import rules

RULES = frozenset({"qkv-fuse", "glu-fuse"})

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"

PLAIN = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = 2
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)
        self.out_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x).view(x.shape[0], -1, self.heads, 4).transpose(1, 2)
        k = self.k_proj(x).view(x.shape[0], -1, self.heads, 4).transpose(1, 2)
        v = self.v_proj(x).view(x.shape[0], -1, self.heads, 4).transpose(1, 2)
        p = torch.softmax(q @ k.transpose(-2, -1) / 2, dim=-1)
        return self.out_proj((p @ v).transpose(1, 2).flatten(2))
"""

GROUPED = """
class M(nn.Module):
    def __init__(self, dim=8, heads=4, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.head_dim = dim // heads
        self.wk = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wq = nn.Linear(dim, heads * self.head_dim, bias=False)
        self.wo = nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(batch, length, self.heads, self.head_dim).transpose(1, 2)
        xk = xk.view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        xv = xv.view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        xk = xk.repeat_interleave(self.heads // self.kv_heads, dim=1)
        xv = xv.repeat_interleave(self.heads // self.kv_heads, dim=1)
        scores = torch.matmul(xq, xk.transpose(2, 3)) / self.head_dim**0.5
        weights = F.dropout(F.softmax(scores, dim=-1), 0.1, self.training)
        return self.wo(torch.matmul(weights, xv).transpose(1, 2).flatten(2))
"""

HELPER = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.value = nn.Linear(8, 8)
        self.query = nn.Linear(8, 8)
        self.key = nn.Linear(8, 8)
        self.register_buffer("scale", torch.ones(1))

    def shape(self, tensor):
        return tensor.view(tensor.size(0), tensor.size(1), 2, 4).transpose(1, 2).contiguous()

    def forward(self, x):
        x = self.norm(x)
        query = self.shape(self.query(x)) * 0.5
        key = self.shape(self.key(x))
        value = self.shape(self.value(x))
        return F.scaled_dot_product_attention(query, key, value, scale=1.0).transpose(1, 2).flatten(2)
"""

GATED = """
class M(nn.Module):
    def __init__(self, dim=8, hidden=12):
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
"""

TEXTS = {"plain": PLAIN, "grouped": GROUPED, "helper": HELPER, "gated": GATED}


def made(text: str) -> type[nn.Module]:
    """The class M of a text, in a module that pickle finds."""
    import sys
    import types

    module = types.ModuleType(f"packed_{abs(hash(text))}")
    exec(compile(text, module.__name__, "exec"), module.__dict__)
    sys.modules[module.__name__] = module
    return module.__dict__["M"]  # type: ignore[no-any-return]


def changed(text: str) -> str:
    result = fixed(HEAD + text.lstrip("\n"), EVERY_TIER, RULES)
    assert len(result.applied) == 1, analyse(HEAD + text, "m.py", Settings(rules=RULES)).opportunities
    return result.text


@pytest.fixture(params=TEXTS)
def pair(request: pytest.FixtureRequest) -> SimpleNamespace:
    text = TEXTS[request.param]
    old, new = made(HEAD + text), made(changed(text))
    torch.manual_seed(0)
    one = old()
    two = new()
    two.load_state_dict(one.state_dict(), strict=True)
    return SimpleNamespace(old=old, new=new, one=one, two=two)


def bytes_of(state: dict[str, torch.Tensor]) -> list[tuple[str, bytes]]:
    return [(key, value.contiguous().numpy().tobytes()) for key, value in state.items()]


def x(length: int = 5) -> torch.Tensor:
    return torch.randn(2, length, 8)


@pytest.mark.parametrize("training", [False, True])
def test_outputs_and_gradients_are_the_same(pair: SimpleNamespace, training: bool) -> None:
    torch.manual_seed(1)
    inputs = [x().requires_grad_() for _ in range(2)]
    inputs[1].data.copy_(inputs[0].data)
    outputs = []
    for model, given in zip((pair.one, pair.two), inputs, strict=True):
        model.train(training)
        torch.manual_seed(2)
        outputs.append(model(given))
        outputs[-1].square().sum().backward()
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    old = {name: p.grad for name, p in pair.one.named_parameters()}
    gradients = copy.deepcopy(pair.two)
    for parameter, given in zip(gradients.parameters(), pair.two.parameters(), strict=True):
        parameter.data.copy_(given.grad)
    for name, value in gradients.state_dict().items():
        if name in old:
            torch.testing.assert_close(value, old[name])


def test_a_checkpoint_goes_through_both_ways_byte_by_byte(pair: SimpleNamespace) -> None:
    before = bytes_of(pair.one.state_dict())
    assert bytes_of(pair.two.state_dict()) == before
    again = pair.old()
    again.load_state_dict(pair.two.state_dict(), strict=True)
    assert bytes_of(again.state_dict()) == before


def test_a_saved_file_goes_through_both_ways(pair: SimpleNamespace) -> None:
    file = io.BytesIO()
    torch.save(pair.two.state_dict(), file)
    file.seek(0)
    again = pair.old()
    again.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert bytes_of(again.state_dict()) == bytes_of(pair.one.state_dict())


def test_assigned_and_meta_loading(pair: SimpleNamespace) -> None:
    with torch.device("meta"):
        empty = pair.new()
    empty.load_state_dict(pair.one.state_dict(), strict=True, assign=True)
    torch.manual_seed(3)
    given = x()
    torch.testing.assert_close(empty.eval()(given), pair.one.eval()(given))
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in empty.parameters())


def test_the_state_dict_aliases_the_parameters_as_before(pair: SimpleNamespace) -> None:
    """Averaging code writes into `state_dict()` in place."""
    for value in pair.two.state_dict().values():
        value.zero_()
    assert all(not p.any() for p in pair.two.parameters())


def test_copies_and_pickles_keep_the_hooks(pair: SimpleNamespace) -> None:
    for model in (copy.deepcopy(pair.two), pickle.loads(pickle.dumps(pair.two))):
        assert bytes_of(model.state_dict()) == bytes_of(pair.one.state_dict())
        model.load_state_dict(pair.one.state_dict(), strict=True)


def nested(kind: type[nn.Module]) -> nn.Module:
    """Two of them in a list, and a third place that is the first one again (tied)."""
    torch.manual_seed(4)
    layers = nn.ModuleList([kind(), kind()])
    return nn.ModuleDict({"encoder": layers, "first": layers[0], "end": nn.Linear(8, 8)})


def test_nested_and_tied_modules(pair: SimpleNamespace) -> None:
    old, new = nested(pair.old), nested(pair.new)
    new.load_state_dict(old.state_dict(), strict=True)
    assert bytes_of(new.state_dict()) == bytes_of(old.state_dict())
    assert new.first is new.encoder[0]
    again = nested(pair.old)
    again.load_state_dict(new.state_dict(), strict=True)
    assert bytes_of(again.state_dict()) == bytes_of(old.state_dict())


@pytest.mark.parametrize("damage", ["missing", "shape", "extra"])
def test_a_wrong_checkpoint_is_refused_as_before(pair: SimpleNamespace, damage: str) -> None:
    state = dict(pair.one.state_dict())
    packed = next(iter(pair.two.packed_parts.values()))
    key = f"{next(iter(packed))}.weight"
    if damage == "missing":
        del state[key]
    elif damage == "shape":
        state[key] = torch.zeros(state[key].shape[0] + 1, state[key].shape[1])
    else:
        state["nobody.weight"] = torch.zeros(1)
    for model in (pair.one, pair.two):
        with pytest.raises(RuntimeError, match="Error"):
            model.load_state_dict(state, strict=True)


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    torch.manual_seed(seed)
    given = x().double()
    optimizer.zero_grad()
    model(given).square().mean().backward()
    optimizer.step()


def conversion() -> Any:
    """The function that the rule's page gives to people."""
    page = next(rule.page for rule in rules() if rule.name == "qkv-fuse")
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found.group(1), names)
    return names["pack_optimizer_state"]


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_an_optimizer_state_is_refused_and_the_pages_conversion_makes_it_fit(
    pair: SimpleNamespace, kind: type[torch.optim.Optimizer]
) -> None:
    options: dict[str, float] = {"lr": 1e-2} | ({"momentum": 0.9} if kind is torch.optim.SGD else {})
    # In float64: the gradient of a key's bias is zero up to rounding, and Adam's step is its sign.
    pair.one.eval().double()
    pair.two.eval().double()
    old = kind(pair.one.parameters(), **options)  # type: ignore[call-arg]
    for step in range(3):
        stepped(pair.one, old, step)
    pair.two.load_state_dict(pair.one.state_dict(), strict=True)
    new = kind(pair.two.parameters(), **options)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="doesn't match the size"):
        new.load_state_dict(copy.deepcopy(old.state_dict()))
    names = [name for name, _ in pair.one.named_parameters()]
    new.load_state_dict(conversion()(copy.deepcopy(old.state_dict()), names, pair.two))
    for step in range(3, 6):
        stepped(pair.one, old, step)
        stepped(pair.two, new, step)
    for (name, one), (other, two) in zip(pair.one.state_dict().items(), pair.two.state_dict().items(), strict=True):
        assert name == other
        torch.testing.assert_close(one, two)


# ---- what is not packed


def only(text: str) -> Opportunity:
    (found,) = analyse(HEAD + text.lstrip("\n"), "m.py", Settings(rules=RULES)).opportunities
    return found


NO_EDIT = {
    "initialises q_proj by name": PLAIN
    + "\n\ndef init_weights(module):\n    nn.init.xavier_uniform_(module.q_proj.weight)\n",
    "a string of this file names q_proj": PLAIN + '\n\nTARGETS = ["q_proj"]\n',
    "made with other arguments": PLAIN.replace("self.k_proj = nn.Linear(8, 8)", "self.k_proj = nn.Linear(8, 8, bias=False)"),
    "something else is made between": PLAIN.replace(
        "        self.v_proj", "        self.between = nn.Linear(8, 8)\n        self.v_proj"
    ),
    "changes an output in place": PLAIN.replace(
        "        p = torch", "        q *= 0.5\n        p = torch"
    ),
    "the class has a qkv_proj already": PLAIN.replace("self.out_proj", "self.qkv_proj"),
    "a comment stands among the layers": PLAIN.replace("self.k_proj = nn.Linear(8, 8)", "self.k_proj = nn.Linear(8, 8)  # keys"),
    "do not stand side by side": PLAIN.replace(
        "        v = self.v_proj(x).view(x.shape[0], -1, self.heads, 4).transpose(1, 2)",
        "        if self.training:\n            v = self.v_proj(x).view(x.shape[0], -1, self.heads, 4).transpose(1, 2)\n"
        "        else:\n            v = k",
    ),
    "a layer works in place": GATED.replace(
        "        self.down_proj =", "        self.act = nn.SiLU(inplace=True)\n        self.down_proj ="
    ).replace("F.silu(", "self.act("),
}  # fmt: skip


@pytest.mark.parametrize("reason", NO_EDIT)
def test_words_without_an_edit_where_an_edit_is_not_safe(reason: str) -> None:
    found = only(NO_EDIT[reason])
    assert not found.has_edit and reason in found.message, found.message


def test_a_subclass_that_calls_all_of_them_is_a_condition() -> None:
    forward = PLAIN[PLAIN.index("    def forward") :]
    text = HEAD + PLAIN.lstrip("\n") + "\n\nclass Flash(M):\n" + forward
    found = analyse(text, "m.py", Settings(rules=RULES)).opportunities
    assert len(found) == 2 and not any(o.has_edit for o in found)
    assert all(any("must follow" in c.text for c in o.conditions) for o in found)


def test_an_older_torch_has_no_public_hooks() -> None:
    (found,) = analyse(HEAD + PLAIN, "m.py", Settings(rules=RULES, torch_version=(2, 4))).opportunities
    assert not found.has_edit and "torch 2.5" in found.message


USED_ALONE = [
    PLAIN + "\n\ndef hook(m, f):\n    m.k_proj.register_forward_hook(f)\n",
    PLAIN + "\n\nclass Tied(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.a, self.b = M(), M()\n        self.a.q_proj = self.b.q_proj\n",
    PLAIN + "\n    def keys(self, x):\n        return self.k_proj(x)\n",
    PLAIN + "\n\nclass N(M):\n    def forward(self, x):\n        return self.v_proj(x)\n",
    PLAIN.replace("p = torch", "q = q + F.linear(x, self.q_proj.weight).view_as(q)\n        p = torch"),
]


@pytest.mark.parametrize("text", USED_ALONE)
def test_nothing_is_said_where_a_layer_is_used_by_itself(text: str) -> None:
    analysis = analyse(HEAD + text.lstrip("\n"), "m.py", Settings(rules=RULES))
    assert not analysis.opportunities
    if (
        ".q_proj = " not in text.partition("class Tied")[2]
    ):  # a layer stored from elsewhere is no layer to the front end
        assert any("used by itself" in (o.declined or "") for o in analysis.declined)


def test_two_classes_of_a_file_share_the_hooks() -> None:
    text = HEAD + PLAIN.lstrip("\n") + "\n" + GATED.replace("class M", "class G")
    text += "\n\n" + GATED.lstrip("\n").replace("class M", "class H")
    result = fixed(text, EVERY_TIER, RULES)
    assert len(result.applied) == 3 and result.text.count("def save_packed_parts(") == 1
    names: dict[str, Any] = {}
    exec(result.text, names)
    given = x()
    for kind in ("M", "G", "H"):
        old: dict[str, Any] = {}
        exec(text, old)
        one, two = old[kind]().eval(), names[kind]().eval()
        two.load_state_dict(one.state_dict(), strict=True)
        torch.testing.assert_close(one(given), two(given))


def test_an_edit_is_advice_and_says_what_changes() -> None:
    found = only(PLAIN)
    assert found.tier == "advice" and found.check == "none" and found.has_edit
    assert any("keep the old keys" in line for line in found.state_dict_changes)
    assert any("optimizer" in line for line in found.state_dict_changes)
    assert "packed_parts" not in fixed(HEAD + PLAIN.lstrip("\n")).text
