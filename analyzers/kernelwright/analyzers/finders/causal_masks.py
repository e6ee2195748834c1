"""Finder for causal masks kept in a tensor: a triangle of ones or of minus infinity that an attention is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.facts import holds_product, is_boolean, is_scalar
from kernelwright.analyzers.finders.finding import Finding, FunctionView
from kernelwright.analyzers.finders.syntax import added_keyword, keyword_of, passes_unknown_keywords, removed_keyword
from kernelwright.analyzers.normalise import NormalForm
from kernelwright.analyzers.opportunity import Condition, TextEdit

Kind = Literal["keep", "drop", "added"]
_KERNEL = "scaled_dot_product_attention"


@dataclass(frozen=True)
class Triangle:
    """A causal mask: what its true (or non-zero) elements say, and how many rows and columns it has (None: not known)."""

    kind: Kind
    rows: Node | None
    columns: Node | None


def is_causal(view: FunctionView) -> Iterator[Finding]:
    """Kernel calls with a causal mask, and attention layers and written-out scores that are given one."""
    text = view.source.text
    if "tri" not in text:
        return
    reader = _Reader(view)
    told = "is_causal" in text  # some attention of this file knows the flag: a mask beside it has its reason
    normal = view.detector.normal
    for node in list(normal):
        if node.operation == _KERNEL:
            finding = _of_kernel(view, reader, node)
        elif told:
            continue
        elif node.operation in ("layer", "opaque"):
            finding = _of_layer(view, reader, node)
        elif node.operation in ("where", "add"):
            finding = _of_scores(view, reader, node)
        else:
            continue
        if finding is not None:
            yield finding


class _Reader:
    """Reads normal nodes as triangles, and the lengths of attention's operands."""

    def __init__(self, view: FunctionView) -> None:
        self.form: NormalForm = view.detector.form
        self.facts = view.translation.facts

    def triangle(self, node: Node) -> Triangle | None:
        flips = 0
        bounds: dict[int, Node] = {}
        while True:
            if node.operation == "logical_not" or (
                node.operation == "equal" and node.inputs[1].attribute("value") in (0, False)
            ):
                flips += 1
            elif node.operation == "slice":
                dim = node.attribute("dim")
                _, start, stop, step = node.inputs
                if not isinstance(dim, int) or not _absent_or(start, 0) or not _absent_or(step, 1):
                    return None
                bounds[dim] = stop
            elif node.operation not in ("unsqueeze", "cast", "reshape", "contiguous", "pick"):
                break
            node = node.inputs[0]
        if node.operation == "parameter" and self.facts is not None:
            name = str(node.attribute("path"))
            stored = self.facts.attributes.get(name)
            if name not in self.facts.buffers or not isinstance(stored, Node):
                return None
            found = self.triangle(self.form.of(stored))
        else:
            found = self._made(node)
        if found is None or (flips and found.kind == "added"):
            return None
        kind: Kind = found.kind
        if flips % 2:
            kind = "drop" if kind == "keep" else "keep"
        if not bounds:
            return Triangle(kind, found.rows, found.columns)
        if len(bounds) != 2:
            return None
        rows, columns = (bounds[dim] for dim in sorted(bounds))
        return Triangle(kind, rows, columns)

    def _made(self, node: Node) -> Triangle | None:
        """`ones(n, n).tril()`, `ones(n, n).triu(1)`, `full((n, n), -inf).triu(1)`, `zeros.masked_fill(triangle, -inf)`."""
        if node.operation == "where":
            condition, first, second = node.inputs
            inner = self.triangle(condition)
            fills = (_value(first), _value(second))
            if inner is None or inner.kind == "added":
                return None
            hidden = fills if inner.kind == "drop" else fills[::-1]
            very_negative = hidden[0] is not None and hidden[0] <= -1e4
            return Triangle("added", inner.rows, inner.columns) if very_negative and hidden[1] == 0 else None
        if node.operation not in ("lower_triangle", "upper_triangle"):
            return None
        base, diagonal = node.inputs
        value, rows, columns = self._filled(base)
        lower = node.operation == "lower_triangle"
        if value is None or not self._is_main(diagonal, 0 if lower else 1, rows, columns):
            return None
        if value == 1:
            return Triangle("keep" if lower else "drop", rows, columns)
        return Triangle("added", rows, columns) if not lower and value <= -1e4 else None

    def _filled(self, node: Node) -> tuple[float | None, Node | None, Node | None]:
        while node.operation in ("reshape", "unsqueeze", "cast", "contiguous"):
            node = node.inputs[0]
        if node.operation == "full":
            sizes = node.inputs[1:]
            if len(sizes) == 1 and sizes[0].operation == "tuple":
                sizes = sizes[0].inputs
            square = (sizes[-2], sizes[-1]) if len(sizes) >= 2 else (None, None)
            return (_value(node.inputs[0]), *square)
        if node.operation == "opaque" and node.attribute("text") == "fill_" and len(node.inputs) == 2:
            made = node.inputs[0]
            known = made.operation == "call" and made.attribute("target") == "torch.empty" and len(made.inputs) == 2
            return (_value(node.inputs[1]), *(made.inputs if known else (None, None)))
        return (None, None, None)

    def _is_main(self, diagonal: Node, wanted: int, rows: Node | None, columns: Node | None) -> bool:
        """The diagonal that hides what comes later: 0 and 1, also as `columns - rows + 1` of a square."""
        if diagonal is self.form.constant(wanted):
            return True
        if rows is None or columns is None or not self.same(rows, columns):
            return False
        offset = self.form.build("sub", columns, rows)
        return diagonal is self.form.build("add", offset, self.form.constant(wanted))

    def same(self, a: Node | None, b: Node | None) -> bool:
        """True where two extents are one number for sure."""
        return a is not None and b is not None and self._length(a) is self._length(b)

    def _length(self, node: Node) -> Node:
        return self.extent(node.inputs[0], node.attribute("dim")) if node.operation == "size" else node

    def extent(self, node: Node, dim: object) -> Node:
        """The extent of an axis, followed to the tensor or number it comes from."""
        for _ in range(32):
            if not isinstance(dim, int) or dim >= 0:
                rank = self.form.rank(node)
                if not isinstance(dim, int) or rank is None:
                    break
                dim -= rank
            inner = node.inputs[0] if node.inputs else None
            if node.operation == "permute":
                dims = node.attribute("dims")
                assert isinstance(dims, tuple)
                moved = dims[dim] if -dim <= len(dims) else dim
                dim = moved if isinstance(moved, int) else dim
            elif node.operation == "reshape":
                sizes = node.inputs[1:]
                if -dim > len(sizes) or _value(sizes[dim]) == -1:
                    break
                size = sizes[dim]
                if size.operation != "size":
                    return size
                node, dim = size.inputs[0], size.attribute("dim")
                continue
            elif node.operation == "matmul" and dim in (-1, -2):
                inner = node.inputs[1] if dim == -1 else node.inputs[0]
            elif node.operation in ("mul", "add", "where", "maximum"):
                tensors = [o for o in node.inputs if holds_product(o)] or [o for o in node.inputs if not is_scalar(o)]
                if len(tensors) != 1:
                    break
                inner = tensors[0]
            elif node.operation == "linear" and dim == -1:
                break
            elif node.operation == "item" and inner is not None and inner.operation in ("chunk", "split"):
                if dim == inner.attribute("dim") or inner.attribute("dim") != -1:
                    break
                inner = inner.inputs[0]
            elif node.operation not in ("cast", "linear", "softmax", "dropout", "contiguous", "layer_norm", "rms_norm"):
                break
            if inner is None:
                break
            node = inner
        return self.form.build("size", node, dim=dim if isinstance(dim, int) else None)


def _of_kernel(view: FunctionView, reader: _Reader, node: Node) -> Finding | None:
    """`scaled_dot_product_attention(q, k, v, attn_mask=triangle)`."""
    call = view.translation.expressions.get(node)
    origin = view.translation.origins.get(node)
    q, k, _, mask, _, _, flag, _ = view.detector.normal[node].inputs
    found = reader.triangle(mask)
    own = isinstance(call, ast.Call) and origin is not None and origin.inlined is None
    if found is None or found.kind == "drop" or not own or flag is not view.detector.form.constant(False):
        return None
    if found.kind == "keep" and not is_boolean(mask):
        return None  # ones and zeros in float are added: they hide nothing (T02)
    assert isinstance(call, ast.Call)
    lengths = (reader.extent(q, -2), reader.extent(k, -2))
    one_length = lengths[0] is lengths[1]
    square = reader.same(found.rows, found.columns)
    # A mask of one row and one column is broadcast: it must be as long as the keys, not only square.
    proven = one_length and square and reader.same(found.rows, lengths[0])
    edits: tuple[TextEdit, ...] = ()
    removed = removed_keyword(view.source, call, "attn_mask")
    if proven and removed is not None and not keyword_of(call, "is_causal") and not passes_unknown_keywords(call):
        edits = (removed, added_keyword(view.source, call, "is_causal=True"))
    return _finding(view, call, edits, proven, "kernel")


def _of_layer(view: FunctionView, reader: _Reader, node: Node) -> Finding | None:
    """A causal mask that goes into a submodule, or into a loop over submodules."""
    if node.operation == "opaque" and not str(node.attribute("reason")).startswith("call of a value"):
        return None
    inputs = view.detector.normal[node].inputs
    given = [part for operand in inputs for part in _parts(operand) if reader.triangle(part) is not None]
    origin = view.translation.origins.get(node)
    names = node.attribute("keywords")
    if isinstance(names, tuple) and "is_causal" in names:
        return None
    if not given or origin is None or origin.inlined is not None:
        return None
    expression = view.translation.expressions.get(node)
    place = expression if isinstance(expression, ast.Call) else origin.statement
    if isinstance(place, ast.Call) and ast.unparse(place.func).rpartition(".")[2].startswith("register_"):
        return None
    return _finding(view, place, (), False, "layer")


def _parts(node: Node, depth: int = 0) -> Iterator[Node]:
    """What a mask may be: the arms of its branches, and the part over the new keys where zeros for old ones stand before it."""
    if depth > 8:
        return
    if node.operation == "choose":
        for arm in node.inputs[1:]:
            yield from _parts(arm, depth + 1)
    elif node.operation == "cast" or (node.operation == "concatenate" and node.attribute("dim") == -1):
        yield from _parts(node.inputs[-1 if node.operation == "concatenate" else 0], depth + 1)
    elif node.operation == "call" and node.attribute("target") == "torch.hstack" and node.inputs[0].inputs:
        yield from _parts(node.inputs[0].inputs[-1], depth + 1)
    yield node


def _of_scores(view: FunctionView, reader: _Reader, node: Node) -> Finding | None:
    """Scores written out and filled above the diagonal, or with a triangle of minus infinity added."""
    normal = view.detector.normal[node]
    expression = view.translation.expressions.get(node)
    origin = view.translation.origins.get(node)
    if expression is None or origin is None or origin.inlined is not None:
        return None
    if normal.operation == "where":
        mask, others = normal.inputs[0], normal.inputs[1:]
    elif normal.operation == "add":
        masks = [o for o in normal.inputs if not holds_product(o) and reader.triangle(o) is not None]
        if len(masks) != 1:
            return None
        mask, others = masks[0], tuple(o for o in normal.inputs if o is not masks[0])
    else:
        return None
    scores = [o for o in others if holds_product(o)]
    found = reader.triangle(mask)
    if found is None or len(scores) != 1 or not reader.same(found.rows, found.columns):
        return None
    product = next(
        (
            n
            for n in walk((scores[0],))
            if n.operation == "matmul" and reader.same(reader.extent(n, -2), reader.extent(n, -1))
        ),
        None,
    )
    if product is None or not reader.same(found.rows, reader.extent(product, -1)):
        return None
    return _finding(view, expression, (), True, "scores")


_WORDS = {
    "kernel": "a causal mask is passed as a tensor: is_causal=True leaves half of the work out and keeps no mask",
    "layer": "a causal mask goes down as a tensor: attention that is told is_causal=True needs no mask for it",
    "scores": "scores are hidden above the diagonal: scaled_dot_product_attention does that by is_causal=True",
}


def _finding(
    view: FunctionView, place: ast.expr | ast.stmt, edits: tuple[TextEdit, ...], proven: bool, kind: str
) -> Finding:
    square = "queries and keys have one length"
    if proven:
        conditions = [Condition("square", "proven", f"{square}, and the mask is the triangle over it")]
    else:
        said = f"{square} where the mask is used: with longer keys (a cache) is_causal hides other ones (T04)"
        conditions = [Condition("square", "assumed", said)]
    if kind == "layer":
        said = "no padding mask is combined with it; nn.MultiheadAttention wants attn_mask beside is_causal"
        conditions.append(Condition("no_other_mask", "assumed", said))
    return Finding(
        view.source.span(place),
        view.translation.function.qualified_name,
        kind,
        message=_WORDS[kind],
        title="Use is_causal=True",
        edits=edits,
        check="keywords",
        conditions=tuple(conditions),
    )


def _value(node: Node) -> float | None:
    value = node.attribute("value") if node.operation == "constant" else None
    if node.operation == "full":
        return _value(node.inputs[0])
    if node.operation == "finfo_min":
        return float("-inf")
    return float(value) if isinstance(value, int | float) else None


def _absent_or(node: Node, value: int) -> bool:
    return node.operation == "constant" and node.attribute("value") in (None, value)
