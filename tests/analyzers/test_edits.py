"""What an edit leaves alone: comments, line endings, indentation, odd characters, imports, everything around."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize

import pytest
from before_after import ALL_TIERS, analysed, assert_same, fixed, fixed_and_same, namespace, source

from kernelwright.analyzers.analysis import Settings, analyse, edits, explain_line, fix, programs
from kernelwright.analyzers.offers import apply_edits
from kernelwright.analyzers.opportunity import TextEdit
from kernelwright.analyzers.source import SourceError

GELU = "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))"


def text(body: str) -> str:
    return textwrap.dedent(body).lstrip("\n")


def comments(code: str) -> list[str]:
    """All comments of a text, in order."""
    stream = io.StringIO(code.removeprefix("\ufeff"), newline="")
    return [t.string for t in tokenize.generate_tokens(stream.readline) if t.type == tokenize.COMMENT]


def lines_changed(old: str, new: str) -> tuple[list[str], list[str]]:
    """The lines of each side that the other has not, counted from both ends."""
    a, b = old.split("\n"), new.split("\n")
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    end = next((i for i, (x, y) in enumerate(zip(a[::-1], b[::-1], strict=False)) if x != y), 0)
    end = min(end, len(a) - start, len(b) - start)
    return a[start : len(a) - end], b[start : len(b) - end]


# ---- comments

COMMENTED = source(
    '''
    # a file about attention

    import math  # sums

    import torch
    from torch import nn
    import torch.nn.functional as F  # kernels

    # the class
    class M(nn.Module):  # a module
        """Attention."""

        def forward(self, q, k, v, maybe_mask, need_weights):  # the forward
            # scores first
            s = q @ k.transpose(-2, -1)  # products
            # then the mask

            if maybe_mask is not None:  # there may be none
                # it is added
                s = s + maybe_mask  # additive
            # weights
            w = torch.softmax(s, dim=-1)  # over the keys
            # "a string" in a comment, and 'another'

            o = w @ v  # the values
            # the end
            return (o, w) if need_weights else o  # maybe with weights
    # after the class
    '''
)

COMMENTED_DIRECT = COMMENTED.replace(", need_weights)", ")").replace("return (o, w) if need_weights else o", "return o")


@pytest.mark.parametrize("code", [COMMENTED, COMMENTED_DIRECT], ids=["guarded", "direct"])
def test_every_comment_stays_in_its_order(code: str) -> None:
    new = fixed_and_same(code)
    assert comments(new) == comments(code)


@pytest.mark.parametrize(
    "body",
    [
        "a = 0.5 * x  # half\n    b = torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))  # gate\n    return a * (1 + b)  # both",  # noqa: E501
        "return (\n        0.5  # half\n        * x\n        # the gate\n        * (1.0 + torch.erf(x / math.sqrt(2.0)))  # erf\n    )",  # noqa: E501
        "return 0.5 * x * (  # half\n        1.0  # one\n        + torch.erf(x / math.sqrt(2.0))\n    )  # end",
        "s = (\n        torch.sigmoid(x)  # the gate\n    )\n    return x * s",
        "s = torch.sigmoid(\n        x,  # the input\n    )\n    return x * s",
    ],
    ids=["behind statements", "in parentheses", "in an expression", "in a dead statement", "in a dead call"],
)
def test_comments_inside_of_what_is_replaced_are_not_lost(body: str) -> None:
    code = source(f"import math\nimport torch\nimport torch.nn.functional as F\ndef f(x):\n    {body}\n")
    new = fixed(code).text
    assert comments(new) == comments(code)
    assert_same(code, new)


def test_type_comments_and_pragmas_stay() -> None:
    code = source(
        """
        # -*- coding: utf-8 -*-
        # ruff: noqa: E501
        import torch  # type: ignore
        import torch.nn.functional as F
        def f(x):  # type: (torch.Tensor) -> torch.Tensor
            # fmt: off
            s = torch.sigmoid(x)  # noqa: F841
            # fmt: on
            return x * s  # pragma: no cover
        """
    )
    assert comments(fixed_and_same(code)) == comments(code)


# ---- line endings, indentation, odd characters


@pytest.mark.parametrize(
    "code", [COMMENTED, COMMENTED_DIRECT, source(f"def f(x):\n    return {GELU}\n")], ids=["guarded", "direct", "gelu"]
)
@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_stay(code: str, ending: str) -> None:
    converted = code.replace("\n", ending)
    new = fixed(converted).text
    assert new == fixed(code).text.replace("\n", ending)


@pytest.mark.parametrize("code", [COMMENTED, COMMENTED_DIRECT], ids=["guarded", "direct"])
@pytest.mark.parametrize("unit", ["\t", "  ", "   ", "        "])
def test_the_indentation_of_the_file_is_used(code: str, unit: str) -> None:
    lines = code.split("\n")
    indented = "\n".join(unit * ((len(line) - len(line.lstrip(" "))) // 4) + line.lstrip(" ") for line in lines)
    new = fixed(indented).text
    widths = {len(line) - len(line.lstrip(unit[0])) for line in new.split("\n") if line.strip()}
    assert all(width % len(unit) == 0 for width in widths)
    assert "\t" not in new or unit == "\t"
    assert_same(indented, new)


def test_a_byte_order_mark_stays_in_front() -> None:
    for code in (
        COMMENTED,
        source(f"def f(x):\n    return {GELU}\n"),
        "import torch\ndef f(x):\n    return x * torch.sigmoid(x)\n",
    ):
        new = fixed("\ufeff" + code).text
        assert new == "\ufeff" + fixed(code).text
        assert new.count("\ufeff") == 1


def test_a_byte_order_mark_before_the_function_on_the_first_line() -> None:
    code = "\ufeffdef f(x, torch=__import__('torch')): return x * torch.sigmoid(x)\n"
    assert fixed(code).text.startswith("\ufeff")


@pytest.mark.parametrize(
    "odd",
    ["\x0c", "# \u2028 separator", "# \x85 next line", "# \x1c file", "TEXT = 'a\u2028b'", "TEXT = 'é😀'", "größe = 3"],
)
def test_odd_characters_above_shift_nothing(odd: str) -> None:
    code = (
        f"import torch\nimport torch.nn.functional as F\n{odd}\ndef f(x):\n    s = torch.sigmoid(x)\n    return x * s\n"
    )
    assert (
        fixed(code).text == f"import torch\nimport torch.nn.functional as F\n{odd}\ndef f(x):\n    return F.silu(x)\n"
    )


@pytest.mark.parametrize("before", ["'é😀'; ", "'\u2028'; ", "größe = 1; ", "\x0c"])
def test_odd_characters_on_the_same_line_shift_nothing(before: str) -> None:
    code = f"import torch\nimport torch.nn.functional as F\ndef f(x):\n    {before}return x * torch.sigmoid(x) + 1\n"
    if before == "\x0c":
        code = code.replace("    \x0c", "\x0c    ")
    assert fixed(code).text == code.replace("x * torch.sigmoid(x)", "F.silu(x)")


def test_names_outside_ascii() -> None:
    code = source("def f(x):\n    größe = x + 1\n    σ = torch.sigmoid(größe)\n    return größe * σ, '日本語'\n")
    new = fixed_and_same(code)
    assert "return F.silu(größe), '日本語'" in new


def test_a_name_that_python_normalises() -> None:
    """Python reads the ligature as two letters: both spellings are one name."""
    code = source("def f(x):\n    ﬁt = torch.sigmoid(x)\n    return x * fit\n")
    assert_same(code, fixed(code).text)


def test_no_newline_at_the_end() -> None:
    for code in (COMMENTED, COMMENTED_DIRECT, source("def f(x):\n    s = torch.sigmoid(x)\n    return x * s\n")):
        bare = code.rstrip("\n")
        bare = bare.removesuffix("# after the class").rstrip("\n")
        new = fixed(bare).text
        assert not new.endswith("\n") and new == fixed(bare + "\n").text.rstrip("\n")


def test_strings_over_several_lines_inside_of_what_moves_are_not_indented() -> None:
    code = source(
        '''
        import torch
        import torch.nn.functional as F
        def f(q, k, v, need_weights):
            w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
            note = """one
          two
        three"""
            o = w @ v
            return (o, w) if need_weights else (o, note)
        '''
    )
    assert_same(code, fixed(code).text)


def test_very_long_lines() -> None:
    tail = " + y" * 500
    code = source(f"def f(x, y):\n    return x * torch.sigmoid(x){tail}\n")
    assert fixed(code).text == code.replace("x * torch.sigmoid(x)", "F.silu(x)")


def test_a_very_deep_expression_is_an_error_or_nothing_but_no_exception() -> None:
    for code in (
        "import torch\ndef f(x):\n    return " + "(" * 500 + "x" + ")" * 500 + "\n",
        "import torch\ndef f(x):\n    return " + "torch.tanh(" * 90 + "x" + ")" * 90 + "\n",
        "import torch\ndef f(x):\n    return " + "x + " * 3000 + "x\n",
        "import torch\ndef f(x):\n" + "".join(f"    x = torch.tanh(x + {i})\n" for i in range(3000)) + "    return x\n",
        "import torch\ndef f(x):\n"
        + "".join("    " * i + "if x:\n" for i in range(1, 90))
        + "    " * 90
        + "return x * torch.sigmoid(x)\n",
    ):
        fix(code, "model.py", Settings(), ALL_TIERS)


# ---- shapes of code


@pytest.mark.parametrize(
    "body",
    [
        "@staticmethod\n    def act(x):\n        s = torch.sigmoid(x)\n        return x * s",
        "@classmethod\n    def act(cls, x):\n        s = torch.sigmoid(x)\n        return x * s",
        "@torch.no_grad()\n    def act(self, x):\n        s = torch.sigmoid(x)\n        return x * s",
        "@torch.no_grad()\n    @staticmethod\n    def act(\n        x,\n    ):\n        s = torch.sigmoid(x)\n        return x * s",  # noqa: E501
        "async def act(self, x):\n        s = torch.sigmoid(x)\n        return x * s",
        "def act(self, x):\n        def inner(t):\n            s = torch.sigmoid(t)\n            return t * s\n        return inner(x)",  # noqa: E501
        "def act(self, x):\n        if x is not None:\n            s = torch.sigmoid(x)\n            return x * s",
        "def act(self, x):\n        for _ in range(3):\n            s = torch.sigmoid(x)\n            x = x * s\n        return x",  # noqa: E501
        "def act(self, x):\n        with torch.no_grad():\n            s = torch.sigmoid(x)\n            return x * s",
        "def act(self, x):\n        try:\n            s = torch.sigmoid(x)\n            return x * s\n        finally:\n            pass",  # noqa: E501
        "def act(self, x):\n        while x is None:\n            s = torch.sigmoid(x)\n            x = x * s\n        else:\n            return x",  # noqa: E501
        "def act(self, x):\n        match x:\n            case None:\n                return None\n            case _:\n                s = torch.sigmoid(x)\n                return x * s",  # noqa: E501
    ],
    ids=[
        "static",
        "class",
        "decorated",
        "two decorators",
        "async",
        "nested",
        "if",
        "for",
        "with",
        "try",
        "while",
        "match",
    ],
)
def test_an_edit_compiles_wherever_it_stands(body: str) -> None:
    code = f"import torch\nimport torch.nn.functional as F\nclass M(torch.nn.Module):\n    {body}\n"
    new = fixed(code).text
    ast.parse(new)
    assert comments(new) == comments(code)


def test_the_last_statement_of_a_block_is_not_deleted_into_nothing() -> None:
    code = source(
        "def f(x, flag):\n    s = x\n    if flag:\n        s = torch.sigmoid(x)\n        y = x * s\n    else:\n        y = x\n    return y\n"  # noqa: E501
    )
    fixed_and_same(code)


def test_only_what_must_change_changes() -> None:
    code = COMMENTED_DIRECT
    new = fixed(code).text
    old_lines, new_lines = lines_changed(code, new)
    assert "scaled_dot_product_attention" in "".join(new_lines)
    assert code.index(old_lines[0]) > code.index("def forward")
    assert old_lines[-1].strip().startswith("o = w @ v") or "o = w @ v" in "".join(old_lines)


def test_blank_lines_are_not_left_doubled() -> None:
    code = source("def f(x):\n    y = x + 1\n\n    s = torch.sigmoid(y)\n\n    return y * s\n")
    assert fixed(code).text.endswith("def f(x):\n    y = x + 1\n\n    return F.silu(y)\n")


def test_several_statements_on_a_line() -> None:
    for body in (
        "s = torch.sigmoid(x); return x * s",
        "s = torch.sigmoid(x); y = x * s; return y",
        "s = torch.sigmoid(x);\n    return x * s;",
    ):
        code = source(f"def f(x):\n    {body}\n")
        assert_same(code, fixed(code).text)


# ---- imports


SILU = "def f(x):\n    return x * torch.sigmoid(x)\n"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("import torch\n", "import torch\ndef f(x):\n    return torch.nn.functional.silu(x)\n"),
        (
            "import torch\nimport torch.nn as nn\n",
            "import torch\nimport torch.nn as nn\ndef f(x):\n    return nn.functional.silu(x)\n",
        ),
        (
            "import torch\nfrom torch import nn\n",
            "import torch\nfrom torch import nn\ndef f(x):\n    return nn.functional.silu(x)\n",
        ),
        (
            "import torch\nfrom torch.nn import functional as F\n",
            "import torch\nfrom torch.nn import functional as F\ndef f(x):\n    return F.silu(x)\n",
        ),
        (
            "import torch\nimport torch.nn.functional as fun\n",
            "import torch\nimport torch.nn.functional as fun\ndef f(x):\n    return fun.silu(x)\n",
        ),
        (
            "import torch\nimport torch.nn.functional\n",
            "import torch\nimport torch.nn.functional\ndef f(x):\n    return torch.nn.functional.silu(x)\n",
        ),
        (
            "import torch\nfrom torch.nn import functional\n",
            "import torch\nfrom torch.nn import functional\ndef f(x):\n    return functional.silu(x)\n",
        ),
    ],
)
def test_the_spelling_that_the_file_has_is_used(head: str, expected: str) -> None:
    assert fixed(head + SILU).text == expected
    assert_same(head + SILU, expected)


ONLY_NAMES = "def f(x):\n    return x * sigmoid(x)\n"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("from torch import sigmoid\n", "from torch import sigmoid\nimport torch.nn.functional as F\n"),
        (
            '"""A page."""\n\nfrom torch import sigmoid\n',
            '"""A page."""\n\nfrom torch import sigmoid\nimport torch.nn.functional as F\n',
        ),
        (
            '"""A page."""\nfrom __future__ import annotations\nfrom torch import sigmoid\n',
            '"""A page."""\nfrom __future__ import annotations\nfrom torch import sigmoid\nimport torch.nn.functional as F\n',
        ),
        (
            "from torch import (\n    sigmoid,\n)\n\nX = 1\n",
            "from torch import (\n    sigmoid,\n)\nimport torch.nn.functional as F\n\nX = 1\n",
        ),
        ("from torch import sigmoid  # gate\n", "from torch import sigmoid  # gate\nimport torch.nn.functional as F\n"),
        (
            "#!/usr/bin/env python\n# coding: utf-8\nfrom torch import sigmoid\n",
            "#!/usr/bin/env python\n# coding: utf-8\nfrom torch import sigmoid\nimport torch.nn.functional as F\n",
        ),
        (
            "try:\n    from torch import sigmoid\nexcept ImportError:\n    pass\nimport math\n",
            "try:\n    from torch import sigmoid\nexcept ImportError:\n    pass\nimport math\nimport torch.nn.functional as F\n",
        ),
    ],
)
def test_a_missing_import_is_added_once_below_the_imports(head: str, expected: str) -> None:
    new = fixed_and_same(head + ONLY_NAMES)
    assert new == expected + "def f(x):\n    return F.silu(x)\n"


def test_a_second_fix_uses_the_import_of_the_first() -> None:
    code = (
        "from torch import sigmoid\ndef f(x):\n    return x * sigmoid(x)\ndef g(x):\n    return 2 * (x * sigmoid(x))\n"
    )
    new = fixed_and_same(code)
    assert new.count("import torch.nn.functional as F") == 1 and new.count("F.silu") == 2


@pytest.mark.parametrize(
    "binding",
    [
        "F = 3",
        "def F(): pass",
        "class F: pass",
        "import math as F",
        "for F in (): pass",
        "from math import pi as F",
        "F: int = 3",
        "(F := 3)",
        "with open(__file__ if 0 else '/dev/null') as F: pass",
    ],
)
def test_a_name_f_that_means_something_else_is_not_used(binding: str) -> None:
    code = f"from torch import sigmoid\n{binding}\n{ONLY_NAMES}"
    new = fixed_and_same(code)
    assert "F.silu" not in new


@pytest.mark.parametrize(
    "function",
    [
        "def f(x):\n    F = 2.0\n    return x * sigmoid(x) * F\n",
        "def f(x, F=2.0):\n    return x * sigmoid(x) * F\n",
        "def f(x):\n    def F():\n        return 2.0\n    return x * sigmoid(x) * F()\n",
        "def f(x):\n    import math as F\n    return x * sigmoid(x) * F.pi\n",
        "def f(x):\n    try:\n        raise KeyError\n    except KeyError as F:\n        return x * sigmoid(x)\n",
        "def f(x):\n    return x * sigmoid(x) * sum(F for F in range(3))\n",
        "def f(x):\n    for F in range(2):\n        x = x * sigmoid(x)\n    return x\n",
        "def f(x):\n    (F := 2.0)\n    return x * sigmoid(x) * F\n",
    ],
)
@pytest.mark.parametrize(
    "head", ["from torch import sigmoid\n", "from torch import sigmoid\nimport torch.nn.functional as F\n"]
)
def test_a_local_name_f_is_not_taken_for_the_module(head: str, function: str) -> None:
    code = head + function
    assert_same(code, fixed(code).text)


def test_an_import_inside_a_function_serves_that_function() -> None:
    code = "def f(x):\n    import torch\n    return x * torch.sigmoid(x)\n"
    assert_same(code, fixed(code).text)


def test_an_import_inside_another_function_serves_nobody_else() -> None:
    code = "import torch\ndef other():\n    import torch.nn.functional as F\n    return F\ndef f(x):\n    return x * torch.sigmoid(x)\n"  # noqa: E501
    fixed_and_same(code)


# ---- several findings, partial fixes, odd files

MANY = source(
    f"""
    import math
    import torch
    from torch import nn
    class A(nn.Module):
        def forward(self, x):
            return {GELU}
    class B(nn.Module):
        def forward(self, x):
            y = x * torch.sigmoid(x)
            z = 0.5 * y * (1.0 + torch.erf(y / math.sqrt(2.0)))
            return z, x * torch.sigmoid(x)
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = A(), B()
        def forward(self, q, k, v, need_weights):
            w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
            o = w @ v
            o2 = torch.softmax(q @ k.transpose(-2, -1) * 0.5, dim=-1) @ v
            r = self.b(self.a(o + o2))
            return (r, w) if need_weights else (r,)
    """
)


def test_all_findings_of_a_file_are_fixed_together() -> None:
    new = fixed_and_same(MANY)
    for kernel, count in (("gelu(", 2), ("silu(", 2), ("scaled_dot_product_attention(", 2)):
        assert new.count(kernel) == count, new


def test_findings_have_keys_of_their_own_that_do_not_depend_on_what_stands_above() -> None:
    keys = [o.key for o in analysed(MANY).opportunities]
    assert len(keys) == len(set(keys)) == 6
    assert [o.key for o in analysed("# one more line\n\n" + MANY).opportunities] == keys


def test_one_finding_can_be_fixed_by_itself() -> None:
    analysis = analysed(MANY)
    for opportunity in analysis.opportunities:
        new = apply_edits(MANY, edits(analysis, opportunity))
        compile(new, "model.py", "exec")
        left = analysed(new).opportunities
        assert len(left) == len(analysis.opportunities) - 1
        assert_same(MANY, new)


def test_only_the_rules_that_are_asked_for_are_fixed() -> None:
    result = fix(MANY, "model.py", Settings(), ALL_TIERS, frozenset({"silu"}))
    assert {o.rule for o in result.applied} == {"silu"} and "erf" in result.text
    assert not analyse(MANY, "model.py", Settings(rules=frozenset())).opportunities


def test_spans_cover_the_operations() -> None:
    (found,) = (o for o in analysed(COMMENTED_DIRECT).opportunities)
    lines = COMMENTED_DIRECT.split("\n")
    assert "q @ k.transpose" in lines[found.span.start_line - 1] and "w @ v" in lines[found.span.end_line - 1]
    first = lines[found.span.start_line - 1][found.span.start_column - 1 :]
    last = lines[found.span.end_line - 1][: found.span.end_column]
    assert first.startswith("q @ k.transpose(-2, -1)") and last.endswith("w @ v")


@pytest.mark.parametrize(
    "broken",
    [
        "import torch\ndef f(:\n    pass\n",
        "import torch\n\tx = 1\n  y = 2\n",
        "import torch\nx = '",
        "import torch\nx = 1\x00\n",
        "import torch\nprint 3\n",
        "torch =",
    ],
)
def test_a_file_that_cannot_be_parsed_is_an_error_with_its_line(broken: str) -> None:
    analysis = analyse(broken, "model.py")
    assert analysis.error is not None and "line" in analysis.error
    assert not analysis.opportunities and not analysis.declined
    assert fix(broken, "model.py").text == broken
    assert explain_line(broken, "model.py", 1) == analysis.error
    with pytest.raises(SourceError):
        programs(broken, "model.py")


@pytest.mark.parametrize(
    "code",
    [
        "",
        "\n",
        "\ufeff",
        "# torch\n",
        "import torch",
        "x = 1\n",
        "def f(x):\n    return x * sigmoid(x)\n",
        "torchvision = 1\n",
    ],
)
def test_a_file_without_anything_for_us_gives_nothing(code: str) -> None:
    analysis = analyse(code, "model.py")
    assert (analysis.error, analysis.opportunities, analysis.declined) == (None, (), ())
    assert fix(code, "model.py").text == code


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        apply_edits("abcdef", [TextEdit(0, 3, "x"), TextEdit(2, 4, "y")])


def test_edits_apply_in_any_order() -> None:
    assert apply_edits("abcdef", [TextEdit(4, 5, "E"), TextEdit(0, 1, "A"), TextEdit(2, 2, "-")]) == "Ab-cdEf"


def test_a_line_is_explained() -> None:
    code = source("def f(q, k, v):\n    w = torch.softmax(q @ k.transpose(-2, -1), dim=-1)\n    return w @ v, w\n")
    assert "no fix: an inner value is needed elsewhere" in explain_line(code, "model.py", 7)
    assert "no rule begins to match" in explain_line(code, "model.py", 1)
    good = source("def f(x):\n    return x * torch.sigmoid(x)\n")
    assert explain_line(good, "model.py", 6).startswith("silu (exact)")


def test_the_fixed_text_of_the_example_model_runs_like_the_example() -> None:
    from pathlib import Path

    import torch

    example = (Path(__file__).parents[2] / "examples" / "sample_model.py").read_text(encoding="utf-8")
    result = fixed(example)
    assert {o.rule for o in result.applied} >= {"gelu", "silu", "sdpa", "rms-norm"}
    assert comments(result.text) == comments(example)
    outputs = []
    for code in (example, result.text):
        names = namespace(code.replace("from dataclasses import dataclass", "def dataclass(c): return c"))
        config = names["GPTConfig"]()
        config.block_size, config.vocab_size, config.n_layer, config.n_head, config.n_embd = 16, 50, 2, 2, 16
        torch.manual_seed(0)
        model = names["GPT"](config).eval()
        outputs.append((model(torch.arange(12)[None] % 7), list(model.state_dict())))
    torch.testing.assert_close(outputs[0][0], outputs[1][0], rtol=1e-4, atol=1e-5)
    assert outputs[0][1] == outputs[1][1]
