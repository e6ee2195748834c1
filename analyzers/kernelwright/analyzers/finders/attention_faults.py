"""Finders for faults in calls of `scaled_dot_product_attention`: the mask's polarity and type, causal alignment."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelwright.analyzers import syntax_tree
from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.causal import is_causal_keep
from kernelwright.analyzers.facts import is_boolean
from kernelwright.analyzers.finders.calls_and_views import (
    VIEWS,
    argument,
    is_open,
    needs_parentheses,
    nodes_of,
    own_call,
    sources,
)
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.syntax import keyword_of, removed_keyword
from kernelwright.analyzers.frontends.torch.dtypes import DTYPES
from kernelwright.analyzers.frontends.torch.graph import MAYBE_NONE
from kernelwright.analyzers.opportunity import TextEdit

_ATTENTION = "scaled_dot_product_attention"
_PADDING = re.compile(r"(^|\.)(padding_idx|pad_idx|pad_id|pad_token_id|pad_token_index)$")


def _calls(view: FunctionView) -> Iterator[tuple[Node, ast.Call]]:
    for node in nodes_of(view, _ATTENTION):
        call = own_call(view, node)
        if call is not None and not is_open(call):
            yield node, call


def _finding(
    view: FunctionView, call: ast.Call, message: str, title: str = "", edit: TextEdit | None = None, snippet: str = ""
) -> Finding:
    return Finding(
        view.source.span(call),
        view.translation.function.qualified_name,
        ast.unparse(call.func),
        message=message,
        title=f"{title} (the program changes)" if title else None,
        edits=(edit,) if edit is not None else (),
        check="none",
        snippet=snippet,
    )


def _wrapped(view: FunctionView, node: ast.expr, before: str, after: str) -> TextEdit:
    """An edit that puts an operator in front of an expression, or a method behind it."""
    text = view.source.segment(node)
    inner = f"({text})" if needs_parentheses(node) else text
    return TextEdit(view.source.start(node), view.source.end(node), f"{before}{inner}{after}")


# ---- mask-polarity


def mask_polarity(view: FunctionView) -> Iterator[Finding]:
    """A boolean mask that is True where a key must not be seen: this function keeps where it is True."""
    form = view.detector.form
    dropped = _selected_for_removal(view)
    for node, call in _calls(view):
        written = argument(call, 3, "attn_mask")
        if written is None:
            continue
        mask = view.detector.normal[node.inputs[3]]
        if not is_boolean(mask):
            continue
        invert = _wrapped(view, written, "~", "")
        if is_causal_keep(form, form.build("logical_not", mask), view.translation.facts) or _is_future(view, mask):
            said = (
                "the mask is True for the keys after a query: this function keeps where a mask is True, so that each "
                "query sees the future alone"
            )
            yield _finding(view, call, said, "Invert the mask", invert)
        elif _is_padding(mask):
            said = (
                "the mask is True at padding: this function keeps where a mask is True, so that padding alone is seen"
            )
            yield _finding(view, call, said, "Invert the mask", invert)
        elif not dropped.isdisjoint(_masks(mask)):
            said = (
                "elsewhere in this function the same mask is True for what is left out; this function keeps where a mask is "
                "True"
            )
            yield _finding(view, call, said)


def _masks(mask: Node) -> set[Node]:
    return {n for n in sources(mask) if n.operation != "constant"}


def _selected_for_removal(view: FunctionView) -> set[Node]:
    """Masks that are True for what this function leaves out: filled with -inf before a softmax, or given to a module of
    torch whose convention that is."""
    found: set[Node] = set()
    normal = view.detector.normal
    for node in nodes_of(view, "softmax", "log_softmax"):
        for inner in sources(normal[node.inputs[0]]):
            if inner.operation == "where" and _is_lowest(inner.inputs[1]) and not _is_lowest(inner.inputs[2]):
                found |= _masks(inner.inputs[0])
    for node in nodes_of(view, "layer"):
        names = node.attribute("keywords")
        if str(node.attribute("class")).startswith("torch.nn.") and isinstance(names, tuple):
            for name, value in zip(names, node.inputs[len(node.inputs) - len(names) :], strict=True):
                if str(name).endswith(("key_padding_mask", "attn_mask")) and is_boolean(normal[value]):
                    found |= _masks(normal[value])
    return found


def _is_lowest(node: Node) -> bool:
    value = node.attribute("value") if node.operation == "constant" else None
    return node.operation == "finfo_min" or (isinstance(value, int | float) and value <= -1e4)


def _stripped(node: Node) -> Node:
    """Past views, and past what makes booleans of zeros and ones."""
    while True:
        if node.operation in VIEWS or node.operation == "cast" or _compares(node, "equal", 1):
            node = node.inputs[0]
        elif node.operation == "logical_not" and _compares(node.inputs[0], "equal", 0):
            node = node.inputs[0].inputs[0]
        else:
            return node


def _compares(node: Node, operation: str, number: int) -> bool:
    value = node.inputs[1].attribute("value") if node.operation == operation else None
    return value == number and not isinstance(value, bool)


def _stored(view: FunctionView, node: Node) -> Node:
    """A buffer as `__init__` made it, where nothing else sets it."""
    facts = view.translation.facts
    if node.operation != "parameter" or facts is None:
        return node
    name = str(node.attribute("path"))
    value = facts.attributes.get(name)
    if name not in facts.buffers or name in facts.stored_elsewhere or not isinstance(value, Node):
        return node
    return view.detector.form.of(value)


def _triangle(view: FunctionView, mask: Node, operation: str) -> int | None:
    """The diagonal of a triangle of ones that a mask is made of."""
    node = _stripped(_stored(view, _stripped(mask)))
    if node.operation != operation:
        return None
    full, diagonal = node.inputs[0], node.inputs[1].attribute("value")
    while full.operation in VIEWS or full.operation == "cast":
        full = full.inputs[0]
    ones = full.operation == "full" and full.inputs[0].attribute("value") in (1, True)
    return diagonal if ones and isinstance(diagonal, int) else None


def _is_future(view: FunctionView, mask: Node) -> bool:
    """True above the diagonal and nowhere else: the last query has no key."""
    diagonal = _triangle(view, mask, "upper_triangle")
    return diagonal is not None and diagonal >= 1


def _is_padding(mask: Node) -> bool:
    """`tokens == self.padding_idx`, as it is."""
    masks = list(sources(mask))
    return bool(masks) and all(
        m.operation == "equal"
        and any(_PADDING.search(str(o.attribute("path") or o.attribute("name"))) for o in m.inputs)
        for m in masks
    )


# ---- float-mask


def float_mask(view: FunctionView) -> Iterator[Finding]:
    """Zeros and ones where a mask is added: they shift scores by 1 and hide nothing."""
    if _makes_tensors_of_unknown_type(view):
        return
    normal = view.detector.normal
    for node, call in _calls(view):
        written = argument(call, 3, "attn_mask")
        if written is None:
            continue
        mask = normal[node.inputs[3]]
        said = (
            "a float mask is added to the scores: this one is 0 or 1, so that it hides nothing (a boolean one selects)"
        )
        if _is_zero_or_one(view, mask):
            lower = _triangle(view, mask, "lower_triangle") is not None
            edit = _wrapped(view, written, "", ".bool()") if lower else None
            yield _finding(view, call, said, "Make the mask boolean" if lower else "", edit)
    for node in nodes_of(view, "softmax"):
        scores = normal[node.inputs[0]]
        if scores.operation != "add" or not any(n.operation == "matmul" for n in walk((scores,))):
            continue
        softmax = own_call(view, node)
        if softmax is not None and any(_is_unscaled_triangle(view, term) for term in scores.inputs):
            yield _finding(
                view, softmax, "a mask of zeros and ones is added to the scores: it hides nothing (masked_fill does)"
            )


def _makes_tensors_of_unknown_type(view: FunctionView) -> bool:
    """`torch.ones(n, n, dtype=mask.dtype)` may be boolean."""
    facts = view.translation.facts
    places: list[ast.AST] = [view.translation.function.node if facts is None else facts.node]
    for call in (c for place in places for c in syntax_tree.walk(place) if isinstance(c, ast.Call)):
        name = (view.scope.qualified(call.func) or "").rpartition(".")[2]
        dtype = keyword_of(call, "dtype")
        if name in ("ones", "full") and dtype is not None and view.scope.qualified(dtype.value) not in DTYPES:
            return True
    return False


def _is_zero_or_one(view: FunctionView, mask: Node) -> bool:
    """A float mask that is 0 or 1 everywhere: a triangle of ones, or booleans made floats."""
    if is_boolean(mask):
        return False
    found = list(sources(mask))
    for inner in found:
        if inner.operation == "cast" and is_boolean(inner.inputs[0]) and _is_float(inner.inputs[1]):
            continue
        if not _is_unscaled_triangle(view, inner):
            return False
    return bool(found)


def _is_unscaled_triangle(view: FunctionView, node: Node) -> bool:
    inner = node
    while inner.operation in VIEWS:
        inner = inner.inputs[0]
    if is_boolean(inner) or (inner.operation == "cast" and not _is_float(inner.inputs[1])):
        return False
    stored = inner
    while stored.operation in VIEWS or stored.operation == "cast":
        stored = stored.inputs[0]
    made = _stored(view, stored)
    while made.operation in VIEWS:
        made = made.inputs[0]
    if is_boolean(made) and inner.operation != "cast":
        return False
    if not any(_triangle(view, inner, name) is not None for name in ("lower_triangle", "upper_triangle")):
        return False
    return inner.operation == "cast" or not _holds_boolean(made)


def _holds_boolean(node: Node) -> bool:
    """True where booleans or integers are made on the way: torch refuses those as a float mask, or takes them as booleans."""
    return any(
        (n.operation == "cast" and not _is_float(n.inputs[1]))
        or (n.operation == "full" and n.attribute("dtype") not in (None, "float32", "float16", "bfloat16"))
        or (n.operation == "full" and isinstance(n.inputs[0].attribute("value"), bool))
        for n in walk((node,))
    )


def _is_float(target: Node) -> bool:
    """A floating type, or that of a value that takes part in attention."""
    return target.operation == "dtype_of" or target.attribute("name") in ("float32", "float16", "bfloat16")


# ---- mask-and-causal


def mask_and_causal(view: FunctionView) -> Iterator[Finding]:
    """A mask and `is_causal=True` in one call: an error in one kernel, both masks in another."""
    form, normal = view.detector.form, view.detector.normal
    for node, call in _calls(view):
        causal = normal[node.inputs[6]]
        if (
            argument(call, 3, "attn_mask") is None
            or causal.operation != "constant"
            or causal.attribute("value") is not True
        ):
            continue
        mask = normal[node.inputs[3]]
        if all(inner.operation in MAYBE_NONE or inner.operation == "constant" for inner in sources(mask)):
            continue
        said = (
            "a mask and is_causal=True in one call: an error on CUDA and in the plain kernel, while the CPU's fused kernel "
            "applies both"
        )
        keyword = next((k for k in call.keywords if k.arg == "is_causal"), None)
        edit = removed_keyword(view.source, call, "is_causal") if keyword is not None else None
        if edit is not None and is_causal_keep(form, mask, view.translation.facts):
            yield _finding(view, call, said, "Keep the mask alone, it is causal", edit)
        else:
            yield _finding(view, call, said)


# ---- causal-decode

_LENGTH = -2
_SNIPPET = """from torch.nn.attention.bias import causal_lower_right

F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(q.size(-2), k.size(-2)))
"""


def causal_decode(view: FunctionView) -> Iterator[Finding]:
    """`is_causal=True` where the keys have a past in front that the queries have not."""
    normal = view.detector.normal
    for node, call in _calls(view):
        causal = normal[node.inputs[6]]
        if causal.operation != "constant" or causal.attribute("value") is not True:
            continue
        query = _roots(node.inputs[0])
        parts = _joined_along_length(node.inputs[1])
        if parts is None or _joined_along_length(node.inputs[0]) is not None:
            continue
        past, new = _roots(parts[0]), _roots(parts[-1])
        if past and query and not past & query and _arguments(query) & _arguments(new) and all(map(_is_argument, past)):
            yield _finding(
                view,
                call,
                "is_causal=True with cached keys: the first query sees the first key alone, not all up to its own "
                "(the mask is aligned at the upper left where the lengths differ)",
                snippet=_SNIPPET,
            )


def _joined_along_length(keys: Node) -> tuple[Node, ...] | None:
    """The parts that a four-axis value is joined of along its length, seen through views that move its axes."""
    stack = [(keys, _LENGTH)]
    for _ in range(64):
        if not stack:
            return None
        node, axis = stack.pop()
        if node.operation == "choose":
            stack += [(arm, axis) for arm in node.inputs[1:]]
        elif node.operation in ("contiguous", "cast", "detach"):
            stack.append((node.inputs[0], axis))
        elif node.operation == "transpose":
            a, b = (d - 4 if isinstance(d, int) and d >= 0 else d for d in (node.attribute("a"), node.attribute("b")))
            stack.append((node.inputs[0], b if axis == a else a if axis == b else axis))  # type: ignore[arg-type]
        elif node.operation == "permute":
            dims = node.attribute("dims")
            if isinstance(dims, tuple) and len(dims) == 4 and isinstance(moved := dims[axis], int):
                stack.append((node.inputs[0], moved - 4 if moved >= 0 else moved))
        elif node.operation == "concatenate":
            dim = node.attribute("dim")
            if isinstance(dim, int) and (dim - 4 if dim >= 0 else dim) == axis and len(node.inputs) == 2:
                return node.inputs
    return None


def _roots(value: Node) -> set[Node]:
    """The arguments and buffers whose elements flow into a value (sizes and weights do not count)."""
    found: set[Node] = set()
    stack, seen = [value], set[Node]()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.operation in ("size", "shape", "rank", "dtype_of", "is_none", "constant", "dtype", "global"):
            continue
        if not node.inputs:
            if node.operation != "parameter" or "." not in str(node.attribute("path")):
                found.add(node)
            continue
        stack.extend(
            node.inputs[1:]
            if node.operation == "choose"
            else node.inputs[:1]
            if node.operation in VIEWS
            else node.inputs
        )
    return found


def _arguments(roots: set[Node]) -> set[Node]:
    return {n for n in roots if n.operation == "input"}


def _is_argument(node: Node) -> bool:
    """A past comes from the caller, or is kept under `self`."""
    return node.operation in ("input", "attribute", "parameter")
