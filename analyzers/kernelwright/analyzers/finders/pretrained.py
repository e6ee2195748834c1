"""Scripts that load a Hugging Face model and leave its attention to the library's default."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelwright.analyzers.finders.finding import FileView, Finding
from kernelwright.analyzers.finders.requirements import package, user_knows
from kernelwright.analyzers.opportunity import TextEdit
from kernelwright.analyzers.source import SourceFile

_KEYWORD = "attn_implementation"

_WITHOUT_ATTENTION = re.compile(
    r"Tokenizer|Config|Processor|FeatureExtractor|Backbone|Mamba|Rwkv|RWKV|ResNet|ConvNext|Pipeline"
)
_MODEL = re.compile(r"^(Auto(Model\w*)|\w+Model|\w+(For[A-Z]\w+|LMHeadModel|MTModel))$")
_WEIGHTS = re.compile(r"output_attentions\s*=\s*True|head_mask\s*=|attn_implementation|use_flash_attention_2")


def attention_left_to_default(view: FileView) -> Iterator[Finding]:
    """Each `Model.from_pretrained(...)` of transformers without a choice of attention, outside of transformers itself."""
    source = view.source
    if "convert" in source.path.rpartition("/")[2]:
        return  # loads a model once, to write it again
    if "transformers" not in source.text or not re.search(r"\.from_(pretrained|config)\(", source.text):
        return
    if _WEIGHTS.search(source.text):
        return  # the file chooses somewhere, or reads weights that only eager attention returns
    owners = [(source.start(f.node), source.end(f.node), f.qualified_name) for f in source.functions]
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in ("from_pretrained", "from_config") or any(k.arg is None for k in node.keywords):
            continue
        qualified = view.scope.qualified(node.func.value) or ""
        root, _, name = qualified.partition(".")
        name = name.rpartition(".")[2] or name
        if root != "transformers" or not _MODEL.match(name) or _WITHOUT_ATTENTION.search(name) or not node.args:
            continue
        start = source.start(node)
        owner = max(((s, q) for s, e, q in owners if s <= start < e), default=(0, ""))[1]
        yield Finding(
            source.span(node),
            owner,
            identity=source.segment(node),
            message=f"{name} chooses its attention by itself: name it, so that a slow fallback is an error and not silent",
            title='Add attn_implementation="sdpa"',
            edits=_added(source, node),
            check="none",
            conditions=(
                package(view.installed, "transformers", (4, 36)),
                user_knows("supported", "the architecture has sdpa attention (else loading raises, and says so)"),
                user_knows("weights", "nothing asks the model for attention weights: sdpa returns none"),
            ),
            snippet=f"""
model = {name}.{node.func.attr}(..., attn_implementation="sdpa")
# in float16 or bfloat16 on an Ampere or newer GPU, with the package flash-attn installed:
# attn_implementation="flash_attention_2"
""",
        )


def _added(source: SourceFile, call: ast.Call) -> tuple[TextEdit, ...]:
    """The keyword behind the last argument, on a line of its own where that one has one; nothing where it would not fit."""
    last = max((*call.args, *(k.value for k in call.keywords)), key=source.end)
    position = source.end(last)
    line = source.lines[last.lineno - 1]
    first = min((*(a.lineno for a in call.args), *(k.value.lineno for k in call.keywords)))
    alone = last.lineno > call.lineno and (last.lineno > first or len(call.args) + len(call.keywords) == 1)
    ending = line[len(line.rstrip("\r\n")) :] or "\n"
    separator = f",{ending}{line[: len(line) - len(line.lstrip())]}" if alone else ", "
    edit = TextEdit(position, position, f'{separator}attn_implementation="sdpa"')
    start, end = source.start(call), source.end(call)
    edited = source.text[start:position] + edit.replacement + source.text[position:end]
    try:
        expression = ast.parse(f"({edited})", mode="eval").body
    except SyntaxError:
        return ()  # behind the last argument stands a bracket of its own
    fits = isinstance(expression, ast.Call) and expression.keywords and expression.keywords[-1].arg == _KEYWORD
    return (edit,) if fits else ()
