"""A matrix product by a parameter, followed by a bias that is a parameter too: one call adds as it multiplies."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.finders.dataflow import dataflow
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.requirements import user_knows
from kernelwright.analyzers.frontends.torch.values import ClassFacts
from kernelwright.analyzers.imports import module_spelling
from kernelwright.analyzers.normalise import NormalForm
from kernelwright.analyzers.opportunity import Condition, TextEdit


@dataclass(frozen=True, slots=True)
class _Product:
    """The texts of a product's operands: `left` is any tensor, `weight` a parameter; `transposed` for F.linear's layout."""

    left: str
    weight: str
    path: str
    transposed: bool
    batched: bool


def addmm(view: FunctionView) -> Iterator[Finding]:
    """`product + bias` where both the right operand and the bias are parameters of shapes that `__init__` tells."""
    facts = view.translation.facts
    if facts is None or not view.detector.operations & {"matmul", "linear"}:
        return
    flow = dataflow(view)
    for raw, expression in view.translation.expressions.items():
        if raw.operation != "add" or not isinstance(expression, ast.BinOp) or raw not in view.detector.normal:
            continue
        if raw.span != view.source.span(expression):
            continue
        for place in (0, 1):
            made, bias = raw.inputs[place], raw.inputs[1 - place]
            product = _product(view, made)
            if product is None or bias.operation != "parameter":
                continue
            bias_expression = expression.right if place == 0 else expression.left
            product_expression = expression.left if place == 0 else expression.right
            if view.translation.expressions.get(made) is not product_expression:
                continue
            if flow.only_user(view.detector.normal[made]) is not view.detector.normal[raw]:
                continue
            if not _bias_fits(facts, product, str(bias.attribute("path"))):
                continue
            yield _finding(view, raw, expression, product, view.source.segment(bias_expression))
            break


def _product(view: FunctionView, node: Node) -> _Product | None:
    """The product a value is, where its text can be taken apart."""
    expression = view.translation.expressions.get(node)
    if expression is None or node.span != view.source.span(expression):
        return None
    source = view.source
    operands: list[ast.expr]
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.MatMult):
        operands, name = [expression.left, expression.right], "matmul"
    elif isinstance(expression, ast.Call) and not expression.keywords and len(expression.args) == 2:
        qualified = view.scope.qualified(expression.func) or ""
        name = qualified.rpartition(".")[2]
        if qualified not in ("torch.matmul", "torch.mm", "torch.bmm", "torch.nn.functional.linear"):
            return None
        operands = expression.args
    else:
        return None
    is_linear = node.operation == "linear"
    weight = node.inputs[1]
    if node.operation not in ("linear", "matmul") or weight.operation != "parameter":
        return None
    texts = [source.segment(o) for o in operands]
    if any("\n" in text for text in texts):
        return None
    if not isinstance(operands[1], ast.Name | ast.Attribute):
        return None
    return _Product(texts[0], texts[1], str(weight.attribute("path")), is_linear, name == "bmm")


def _bias_fits(facts: ClassFacts, product: _Product, bias: str) -> bool:
    """True where the bias has one axis, of the size of the product's last; for a batch, one row for each of it."""
    weight, added = _sizes(facts, product.path), _sizes(facts, bias)
    if weight is None or added is None:
        return False
    form = NormalForm()
    w, b = [form.of(s) for s in weight], [form.of(s) for s in added]
    if product.batched:
        return len(w) == len(b) == 3 and b[0] is w[0] and b[1] is form.constant(1) and b[2] is w[2]
    return len(w) == 2 and len(b) == 1 and b[0] is w[0 if product.transposed else 1]


_MAKERS = frozenset({"empty", "zeros", "ones", "rand", "randn", "Tensor", "FloatTensor"})


def _sizes(facts: ClassFacts, path: str) -> tuple[Node, ...] | None:
    """The sizes a parameter is made with in `__init__`, where that is one call of torch without further arguments."""
    value = facts.attributes.get(path)
    if path not in facts.parameters or path in facts.stored_elsewhere or not isinstance(value, Node):
        return None
    if value.operation == "full":
        sizes = value.inputs[1:]
    elif value.operation == "call" and str(value.attribute("target")).removeprefix("torch.") in _MAKERS:
        if value.attribute("keywords"):
            return None
        sizes = value.inputs
    else:
        return None
    if len(sizes) == 1 and sizes[0].operation == "tuple":
        sizes = sizes[0].inputs
    return sizes


def _finding(view: FunctionView, raw: Node, expression: ast.expr, product: _Product, bias: str) -> Finding:
    source = view.source
    module = "torch" if product.batched else "torch.nn.functional"
    template = ast.parse("torch" if product.batched else "F", mode="eval").body
    spelling, imports = module_spelling(source, template)
    if product.batched:
        call, kernel = f"{spelling(module)}.baddbmm({bias}, {product.left}, {product.weight})", "torch.baddbmm"
    else:
        weight = product.weight if product.transposed else f"{product.weight}.t()"
        call, kernel = f"{spelling(module)}.linear({product.left}, {weight}, {bias})", "F.linear"
    assert raw.span is not None
    return Finding(
        raw.span,
        view.translation.function.qualified_name,
        product.path,
        f"the bias is added in a pass of its own; {kernel} adds it in the product",
        f"Use {kernel} with the bias",
        (*imports, TextEdit(source.start(expression), source.end(expression), call)),
        "none",
        (
            Condition("bias", "proven", "the bias has one number a column of the product"),
            user_knows("autocast", "outside autocast: there the sum gives float32, the one call the lower type"),
        ),
    )
