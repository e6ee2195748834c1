"""What the torch front end makes of each kind of construct: two spellings of one program, or what must stay apart."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
import torch

from kernelwright.analyzers.analysis import programs
from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.normalise import NormalForm
from kernelwright.analyzers.resolve import JediResolver
from kernelwright.analyzers.source import SourceError, parse_source
from kernelwright.tuner.execute import run

HEAD = "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
LAYERS = """
class M(nn.Module):
    def __init__(self, n, config):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(n)])
        self.two = nn.ModuleList([nn.Linear(8, 8), nn.ReLU()])
        self.seq = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.scale = 3.0
        self.register_buffer("table", torch.ones(4))
    def twice(self, x):
        return x * 2
    def with_options(self, x, **kwargs):
        factor = kwargs.pop("factor", 1)
        if kwargs:
            raise ValueError(f"unexpected {kwargs.keys()}")
        return x * factor
    @property
    def doubled(self):
        return self.scale * 2
"""


def program(body: str, arguments: str = "x, y=None") -> Program:
    """The program of `forward(self, arguments)` with this body."""
    text = (
        HEAD
        + LAYERS
        + f"    def forward(self, {arguments}):\n"
        + textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    )
    (found,) = programs(text + "\n", "model.py", "M.forward")
    return found


def normal(form: NormalForm, p: Program) -> list[Node]:
    form.begin()
    return [form.of(n) for n in (*p.outputs, *p.effects)]


def is_same(first: str, second: str, arguments: str = "x, y=None") -> bool:
    form = NormalForm()
    return normal(form, program(first, arguments)) == normal(form, program(second, arguments))


def operations(p: Program) -> list[str]:
    return [n.operation for n in p.nodes()]


SAME = {
    "a loop over known layers": ("for m in self.two: x = m(x)\nreturn x", "return self.two[1](self.two[0](x))"),
    "enumerate": (
        "for i, m in enumerate(self.two): x = m(x) + i\nreturn x",
        "return self.two[1](self.two[0](x) + 0) + 1",
    ),
    "zip": (
        "for m, s in zip(self.two, (2, 3)): x = m(x) * s\nreturn x",
        "return self.two[1](self.two[0](x) * 2) * 3",
    ),
    "Sequential": ("return self.seq(x)", "return torch.relu(F.linear(x, self.seq[0].weight, self.seq[0].bias))"),
    "a comprehension": ("return sum([t * 2 for t in (x, x + 1)])", "return 0 + x * 2 + (x + 1) * 2"),
    "a filtered comprehension": (
        "return tuple(t for t in (x, None) if t is not None)[0]",
        "return (lambda t: t)(((x,) if x is not None else ())[0])",
    ),
    "a list that grows": (
        "parts = []\nparts.append(x)\nparts.append(x * 2)\nreturn torch.cat(parts)",
        "return torch.cat([x, x * 2])",
    ),
    "extend": ("parts = [x]\nparts.extend((x, x))\nreturn torch.cat(parts)", "return torch.cat([x, x, x])"),
    "a dict": ('d = {}\nd["a"] = x\nreturn d["a"] * 2', "return x * 2"),
    "a dict that is emptied": (
        'd = {"a": x}\nz = d.pop("a", None)\nif d: raise ValueError\nreturn z * d.get("b", 2)',
        "return x * 2",
    ),
    "keywords that a method takes": ("return self.with_options(x, factor=2)", "return x * 2"),
    "an own method": ("return self.twice(x)", "return x * 2"),
    "a nested function sees names as they are when it runs": (
        "if y is not None: x = x + 1\nf = lambda t: t * 2\nreturn f(x)",
        "return (x + 1 if y is not None else x) * 2",
    ),
    "an early return": ("if y is None: return x\nreturn x + y", "return x if y is None else x + y"),
    "a value bound on one path is read on that path": (
        "if y is not None: z = y * 2\nif y is not None: return z\nreturn x",
        "return y * 2 if y is not None else x",
    ),
    "in place on a local value": ("z = x * 2\nz += 1\nreturn z", "return x * 2 + 1"),
    "in place renames aliases": ("z = x * 2\nw = z\nz.add_(1)\nreturn w", "return x * 2 + 1"),
    "a tuple holds what its tensors hold": ("z = x * 2\nt = (z, x)\nz.add_(1)\nreturn t", "return (x * 2 + 1, x)"),
    "continue": (
        "for m in self.blocks:\n    if y is None:\n        continue\n    x = m(x)\nreturn x",
        "for m in self.blocks:\n    if y is not None:\n        x = m(x)\nreturn x",
    ),
    "a temporary in a loop": (
        "for m in self.blocks:\n    h = m(x)\n    x = x + h\nreturn x",
        "for m in self.blocks:\n    x = x + m(x)\nreturn x",
    ),
    "division with floor": ('return torch.div(x, 2, rounding_mode="floor")', "return x // 2"),
    "einsum with a batch letter of one operand": (
        'return torch.einsum("bhld,lrd->bhlr", x, y)',
        "return (x.permute(0, 2, 1, 3) @ y.transpose(-1, -2)).permute(0, 2, 1, 3)",
    ),
    "an outer product": ('return torch.einsum("i,j->ij", x, y)', "return x.unsqueeze(-1) * y.unsqueeze(-2)"),
    "einsum of one operand": ('return torch.einsum("ijbn->bnij", x)', "return x.permute(2, 3, 0, 1)"),
    "einsum with an ellipsis": ('return torch.einsum("...qd,...kd->...qk", x, y)', "return x @ y.transpose(-1, -2)"),
}

EQUATIONS = [
    ("bhld,lrd->bhlr", (2, 3, 4, 5), (4, 6, 5)),
    ("bhrd,lrd->bhlr", (2, 3, 6, 5), (4, 6, 5)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("bd,bd->b", (2, 3), (2, 3)),
    ("bd,d->b", (2, 3), (3,)),
    ("d,bd->b", (3,), (2, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("bij,k->bk", (2, 3, 4), (5,)),
    ("...qd,...kd->...qk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("...hqk,...khd->...qhd", (2, 3, 4, 5), (2, 5, 3, 6)),
    ("...d,...d->...", (2, 3), (2, 3)),
    ("bhwc,hkc->bhwk", (2, 3, 4, 5), (3, 6, 5)),
    ("abcd,acd->bcd", (2, 3, 4, 5), (2, 4, 5)),
    ("nc,vc->nv", (2, 3), (4, 3)),
]

DIFFERENT = {
    "a loop and one iteration": ("for m in self.blocks: x = m(x)\nreturn x", "return self.blocks[0](x)"),
    "what a loop carries": (
        "for m in self.blocks: x = m(x)\nreturn x",
        "z = x\nfor m in self.blocks: z = m(x)\nreturn z",
    ),
    "the start of a loop": (
        "h = x\nfor m in self.blocks: h = m(h)\nreturn h",
        "h = x * 2\nfor m in self.blocks: h = m(h)\nreturn h",
    ),
    "what another carried value becomes": (
        "h = x\nfor m in self.blocks:\n    x = x + h\n    h = h * 2\nreturn x",
        "h = x\nfor m in self.blocks:\n    x = x + h\n    h = h * 3\nreturn x",
    ),
    "a break": (
        "for m in self.blocks:\n    x = m(x)\n    if y is None:\n        break\nreturn x",
        "for m in self.blocks:\n    x = m(x)\nreturn x",
    ),
    "the condition of a while": ("while x.sum() > 1: x = x * 2\nreturn x", "while x.sum() > 2: x = x * 2\nreturn x"),
    "two layers of a list": ("return self.blocks[y](x) + self.blocks[y + 1](x)", "return self.blocks[y](x) * 2"),
    "an alias of an appended list": (
        "a = []\nb = a\nfor t in x: a.append(t)\nreturn b",
        "a = []\nb = []\nfor t in x: a.append(t)\nreturn b",
    ),
    "a view changed in a loop": (
        "z = x * 2\nv = z.view(-1)\nfor t in y: v.add_(1)\nreturn z",
        "z = x * 2\nreturn z",
    ),
    "a view changed after a branch": (
        "z = x * 2\nv = z.view(-1) if y is None else x * 3\nv.add_(1)\nreturn z",
        "return x * 2",
    ),
    "dropout may give its argument back": (
        "z = x * 2\nv = F.dropout(z, 0.5, self.training)\nv.add_(1)\nreturn z",
        "return x * 2",
    ),
    "elements set": ("z = x * 2\nz[:, 0] = 1\nreturn z", "return x * 2"),
    "elements set at another place": ("z = x * 2\nz[:, 0] = 1\nreturn z", "z = x * 2\nz[:, 1] = 1\nreturn z"),
    "a view of what is set": ("z = x * 2\nv = z[0]\nz[:, 0] = 1\nreturn v", "return (x * 2)[0]"),
    "the caller's tensor changes": ("x.add_(1)\nreturn y", "return y"),
    "a buffer changes": ("self.table[0] = x\nreturn self.table", "return self.table"),
    "an attribute changes in a loop": (
        "for t in x:\n    y = self.scale * t\n    self.scale = 5\nreturn y",
        "for t in x:\n    y = self.scale * t\nreturn y",
    ),
    "a number that several names had": ("z = y\ny += 1\nreturn z", "return y + 1"),
    "an argument that counts on": ("z = y\ny += 1\nreturn z", "return y"),
    "ReLU in place": ("z = x * 2\nw = F.relu(z, inplace=True)\nreturn z + w", "z = x * 2\nreturn z + F.relu(z)"),
    "a deleted element": ("z = [x, y]\ndel z[0]\nreturn z[0]", "return x"),
    "a popped element": ("z = [x, y]\nz.pop()\nreturn torch.cat(z)", "return torch.cat([x, y])"),
}


@pytest.mark.parametrize("name", SAME)
def test_two_spellings_are_one_program(name: str) -> None:
    assert is_same(*SAME[name])


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_programs_stay_apart(name: str) -> None:
    assert not is_same(*DIFFERENT[name])


@pytest.mark.parametrize(
    "body",
    [
        "for i, m in enumerate(self.blocks): x = m(x) + i\nreturn x",
        "hidden = ()\nfor m in self.blocks:\n    hidden = hidden + (x,)\n    x = m(x)\nreturn x, hidden",
        "out = [torch.exp(t) for t in x if t is not None]\nreturn out",
        "return {k: v * 2 for k, v in y.items()}",
        "while x.sum() > 1:\n    x = x * 2\n    if x.max() > 3: break\nreturn x",
        "z = torch.zeros_like(x)\nz[:, 1:] = x[:, :-1]\nz[:, 0] = 1\nreturn z",
        "self.cache = x\nreturn self.cache",
        "return x[torch.arange(3), :, 1:2]",
        "return x.to(dtype=self.dtype)",
        "return y.pop('a', None), x in y",
    ],
)
def test_nothing_of_it_is_opaque(body: str) -> None:
    assert "opaque" not in operations(program(body))


@pytest.mark.parametrize(("equation", "left", "right"), EQUATIONS)
def test_an_einsum_is_computed_as_torch_computes_it(
    equation: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    p = program(f"return torch.einsum({equation!r}, x, y)", "x, y")
    assert "call" not in operations(p)
    inputs = tuple(n for n in p.inputs if n.attribute("name") != "self")
    a, b = torch.randn(left, dtype=torch.float64), torch.randn(right, dtype=torch.float64)
    made = run(Program(p.name, inputs, p.outputs), [a, b])
    assert isinstance(made, torch.Tensor)
    torch.testing.assert_close(made, torch.einsum(equation, a, b))


def test_operations_in_a_loop_body_are_translated() -> None:
    p = program("for m in self.blocks: x = torch.softmax(m(x) @ x, -1)\nreturn x")
    assert {"linear", "matmul", "softmax", "carried", "loop"} <= set(operations(p))


def test_a_return_in_a_loop_makes_what_the_loop_changes_unknown() -> None:
    p = program("for m in self.blocks:\n    x = m(x)\n    if y is None:\n        return x * 2\nreturn x")
    assert "opaque" in operations(p)


def translated(folder: Path, files: dict[str, str], name: str, function: str) -> Program:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(textwrap.dedent(text))
    path = folder / name
    source = parse_source(path.read_text(), str(path))
    resolver = JediResolver((str(folder),))
    try:
        chosen = next(f for f in source.functions if f.qualified_name == function)
        return translate(Scope(source, resolver), chosen).program
    finally:
        resolver.close()


PACKAGE = {
    "pkg/__init__.py": "from .outputs import Output\n",
    "pkg/outputs.py": """
        from dataclasses import dataclass
        @dataclass
        class Base(dict):
            loss: object = None
        @dataclass
        class Output(Base):
            logits: object = None
        """,
    "pkg/activations.py": """
        from torch import nn
        class Table(dict):
            def __getitem__(self, key):
                return super().__getitem__(key)()
        CLASSES = {"relu": nn.ReLU, "silu": nn.SiLU}
        ACT2FN = Table(CLASSES)
        """,
    "pkg/base.py": """
        from torch import nn
        class Base(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.config = config
                self.first = nn.Linear(4, 4)
            def helper(self, x):
                return self.first(x) * 2
        """,
    "pkg/model.py": """
        import torch
        from torch import nn
        from . import Output
        from .activations import ACT2FN
        from .base import Base
        class M(Base):
            def __init__(self, config):
                super().__init__(config)
                self.act = ACT2FN["relu"]
                self.other = ACT2FN[config.act]
            def forward(self, x):
                return Output(loss=self.act(x), logits=self.helper(x)).logits
            def any_activation(self, x):
                return self.other(x)
        """,
}


def test_an_inherited_method_and_a_dataclass_of_other_files(tmp_path: Path) -> None:
    p = translated(tmp_path, PACKAGE, "pkg/model.py", "M.forward")
    assert operations(p)[-1] == "mul"
    assert {"linear", "opaque"} & set(operations(p)) == {"linear"}


def test_an_activation_of_a_table_is_a_layer_of_unknown_class(tmp_path: Path) -> None:
    p = translated(tmp_path, PACKAGE, "pkg/model.py", "M.any_activation")
    (layer,) = [n for n in p.nodes() if n.operation == "layer"]
    assert layer.attribute("class") == "ACT2FN[...]"


def test_a_proven_key_of_a_table_is_that_activation(tmp_path: Path) -> None:
    files = {**PACKAGE, "pkg/model.py": PACKAGE["pkg/model.py"].replace("return self.other(x)", "return self.act(x)")}
    assert "relu" in operations(translated(tmp_path, files, "pkg/model.py", "M.any_activation"))


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("type Pair = tuple[int, int]", (3, 12)),
        ("def first[T](x: T) -> T: return x", (3, 12)),
        ("class Box[T]: pass", (3, 12)),
        ("x = f'{'a' + f'{1}'}'", (3, 12)),
        ("x = t'{1}'", (3, 14)),
    ],
)
def test_syntax_newer_than_this_python_is_told_in_one_line(line: str, version: tuple[int, int]) -> None:
    text = f"import torch\n{line}\n"
    if sys.version_info >= version:
        assert parse_source(text, "m.py").text == text
        return
    with pytest.raises(SourceError) as told:
        parse_source(text, "m.py")
    assert told.value.line == 2
    assert f"Python {version[0]}.{version[1]}" in str(told.value)
    assert "\n" not in str(told.value)


def test_an_ordinary_mistake_is_not_taken_for_newer_syntax() -> None:
    with pytest.raises(SourceError) as told:
        parse_source("import torch\nx = (1\n", "m.py")
    assert "newer" not in str(told.value)
