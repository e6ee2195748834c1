"""The files of the first story: what is found, that each fix does just what it must, and that the real classes run equal
before and after it."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from kernelwright.analyzers.analysis import FileAnalysis, Settings, analyse, edits, fix
from kernelwright.analyzers.offers import apply_edits
from kernelwright.analyzers.opportunity import FixResult, Opportunity, Tier


def _sibling(name: str) -> ModuleType:
    """A module of this folder: pytest's import mode `importlib` puts no folder on the path."""
    spec = importlib.util.spec_from_file_location(f"tests_cases_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


corpus = _sibling("corpus")

SETTINGS = Settings(torch_version=(2, 13))
TIERS: frozenset[Tier] = frozenset({"exact", "guarded"})

DEMANDED = {
    "bert": [("sdpa", "BertSelfAttention.forward")],
    "llama": [("rms-norm", "LlamaRMSNorm.forward"), ("sdpa", "LlamaAttention.forward")],
    "activations": [
        ("gelu", "NewGELUActivation.forward"),
        ("gelu", "GELUActivation._gelu_python"),
        ("gelu", "FastGELUActivation.forward"),
        ("gelu", "AccurateGELUActivation.forward"),
        ("silu", "MishActivation._mish_python"),
    ],
    "vit": [("sdpa", "Attention.forward")],
    "sample": [
        ("gelu", "NewGELU.forward"),
        ("rms-norm", "RMSNorm.forward"),
        ("sdpa", "CausalSelfAttention.forward"),
        ("silu", "SwiGLU.forward"),
    ],
}
"""Every finding with a fix of each file, in order: what is not listed must not be found."""

TOLD = {
    "llama": [("enable-gqa", "LlamaAttention.forward")],
    "sample": [("is-causal", "CausalSelfAttention.forward")],
}
"""What is told without a fix."""

OPENED = {("sample", "sdpa"): [("is-causal", "CausalSelfAttention.forward")]}
"""Fixes that another one makes possible."""


def with_fix(analysis: FileAnalysis) -> list[tuple[str, str]]:
    return [(o.rule, o.qualified_name) for o in analysis.opportunities if o.has_edit]

subjects = pytest.mark.parametrize("subject", list(DEMANDED))
findings = pytest.mark.parametrize(
    ("subject", "rule", "name"), [(subject, *finding) for subject, listed in DEMANDED.items() for finding in listed]
)


@cache
def text_of(subject: str) -> str:
    path = corpus.FILES[subject]
    if corpus.CORPUS in path.parents and (reason := corpus.missing()):
        pytest.skip(reason)
    text: str = corpus.read(path)
    return text


@cache
def analysis_of(subject: str) -> FileAnalysis:
    return analyse(text_of(subject), str(corpus.FILES[subject]), SETTINGS)


@cache
def fixed(subject: str) -> FixResult:
    return fix(text_of(subject), str(corpus.FILES[subject]), SETTINGS, TIERS)


def finding(subject: str, rule: str, name: str) -> Opportunity:
    found = [o for o in analysis_of(subject).opportunities if (o.rule, o.qualified_name) == (rule, name)]
    assert len(found) == 1
    return found[0]


def function_text(text: str, name: str) -> str:
    """The source of one function by its qualified name."""
    import ast

    body: list[ast.stmt] = ast.parse(text).body
    for part in name.split("."):
        node = next(n for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == part)
        body = node.body
    return ast.get_source_segment(text, node) or ""


@subjects
def test_found_is_what_the_story_demands(subject: str) -> None:
    analysis = analysis_of(subject)
    assert analysis.error is None
    assert with_fix(analysis) == DEMANDED[subject]
    assert [(o.rule, o.qualified_name) for o in analysis.opportunities if not o.has_edit] == TOLD.get(subject, [])
    assert {o.tier for o in analysis.opportunities if o.has_edit} <= TIERS


@findings
def test_one_fix_alone(subject: str, rule: str, name: str) -> None:
    """It passes the same-program check, compiles, keeps the comments, changes one function (and the imports) only."""
    text, analysis = text_of(subject), analysis_of(subject)
    opportunity = finding(subject, rule, name)
    patched = apply_edits(text, edits(analysis, opportunity))
    assert patched != text
    compile(patched, analysis.path, "exec")
    assert corpus.comments(patched) == corpus.comments(text)
    before, after = function_text(text, name), function_text(patched, name)
    assert rule == "silu" or opportunity.kernel.rpartition(".")[2] in after  # Mish is the rule's, the kernel its own
    kept = patched.replace(after, before)
    added = [line for line in kept.splitlines() if line not in text.splitlines()]
    assert all(line.startswith(("import ", "from ")) for line in added)
    assert len(added) <= 1

    again = analyse(patched, analysis.path, SETTINGS)
    expected = [found for found in DEMANDED[subject] if found != (rule, name)] + OPENED.get((subject, rule), [])
    assert sorted(with_fix(again)) == sorted(expected)


@subjects
def test_all_fixes_together(subject: str) -> None:
    """All pass the check, the file compiles, comments stay, a second fix changes nothing, the import comes once."""
    text, result = text_of(subject), fixed(subject)
    opened = [found for (of, _), listed in OPENED.items() if of == subject for found in listed]
    assert sorted((o.rule, o.qualified_name) for o in result.applied) == sorted(DEMANDED[subject] + opened)
    assert result.withheld == ()
    compile(result.text, str(corpus.FILES[subject]), "exec")
    assert corpus.comments(result.text) == corpus.comments(text)
    assert fix(result.text, str(corpus.FILES[subject]), SETTINGS, TIERS) == FixResult(result.text)
    imports = [line for line in result.text.splitlines() if line.startswith(("import ", "from "))]
    before = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert len(set(imports) - set(before)) == len(imports) - len(before) <= 1


@subjects
def test_order_of_fixes_does_not_matter(subject: str) -> None:
    """Applied one after the other in any order, the functions come out the same."""
    orders = list(itertools.permutations(DEMANDED[subject]))
    for order in (orders[0], orders[-1]):
        text = text_of(subject)
        for rule, name in order:
            analysis = analyse(text, str(corpus.FILES[subject]), SETTINGS)
            chosen = next(o for o in analysis.opportunities if (o.rule, o.qualified_name) == (rule, name))
            text = apply_edits(text, edits(analysis, chosen))
        text = fix(text, str(corpus.FILES[subject]), SETTINGS, TIERS).text  # what the last one has made possible
        for _, name in order:
            assert function_text(text, name) == function_text(fixed(subject).text, name)


@subjects
def test_real_classes_run_equal(subject: str, tmp_path: Path) -> None:
    """The classes themselves, patched against original: outputs, dtypes, gradients, checkpoints, dropout, caches."""
    if reason := corpus.missing():
        pytest.skip(reason)
    patched = tmp_path / f"{subject}_patched.py"
    patched.write_bytes(fixed(subject).text.encode())
    checks = corpus.run_real_classes(subject, corpus.FILES[subject], patched)
    failed = [f"{check['name']}: {check['detail']}" for check in checks if not check["passed"]]
    assert failed == []
    assert len(checks) > 40


WRONGS = [
    ("is_causal=True", "is_causal=False"),
    ("scale=1.0 / math.sqrt(k.size(-1))", "scale=1.0 / math.sqrt(C)"),
    ("self.attn_dropout.p if self.attn_dropout.training else 0.0", "self.attn_dropout.p"),
    ("self.attn_dropout.p if self.attn_dropout.training else 0.0", "0.0"),
    (
        "self.attn_dropout.p if self.attn_dropout.training else 0.0",
        "2 * self.attn_dropout.p * self.attn_dropout.training",
    ),
    ("self.weight * F.rms_norm(x", "self.weight.double() * F.rms_norm(x"),
    ("eps=self.eps", "eps=1e-3"),
    ("F.silu(gate)", "F.silu(gate.detach())"),
    ('approximate="tanh"', 'approximate="none"'),
    ("self.c_attn = ", "self.attn_c = self.c_attn = "),
]
"""Right code, and a mistake: polarity, scale, dropout in eval, no dropout, its rate, element type, eps, gradients only,
flavour, state-dict keys."""


def test_a_wrong_patch_does_not_run_equal(tmp_path: Path) -> None:
    """The comparison can fail."""
    if reason := corpus.missing():
        pytest.skip(reason)
    right = fixed("sample").text
    files = []
    for number, (good, bad) in enumerate(WRONGS):
        assert right.count(good) == 1, good
        files.append(tmp_path / f"wrong_{number}.py")
        files[-1].write_bytes(right.replace(good, bad).encode())
    checks = corpus.run_real_classes("sample", corpus.FILES["sample"], *files)
    caught = {check["file"] for check in checks if not check["passed"]}
    assert [bad for file, (_, bad) in zip(files, WRONGS, strict=True) if str(file) not in caught] == []
