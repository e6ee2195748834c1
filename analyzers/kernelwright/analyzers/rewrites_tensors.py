"""Rewrites of tensors: axis orders, casts, reductions, masks."""

from __future__ import annotations

from kernelwright.analyzers.architecture import Node
from kernelwright.analyzers.facts import element_type, holds_product, is_boolean, is_one_wide, is_scalar
from kernelwright.analyzers.normalise import NormalForm, rewrite
from kernelwright.analyzers.rewrites_arithmetic import number


@rewrite("transpose")
def exchange_is_a_permutation(f: NormalForm, n: Node) -> Node | None:
    """transpose(a, b) as the order of the last axes it touches; needs the rank unless both count from the end"""
    a, b = n.attribute("a"), n.attribute("b")
    rank = f.rank(n.inputs[0])
    if not isinstance(a, int) or not isinstance(b, int):
        return None
    if rank is not None:
        a, b = (axis - rank if axis >= 0 else axis for axis in (a, b))
    if a >= 0 or b >= 0:
        return None
    depth = -min(a, b)
    order = list(range(-depth, 0))
    order[a + depth], order[b + depth] = order[b + depth], order[a + depth]
    return f.build("permute", n.inputs[0], dims=tuple(order), full=False)


@rewrite("permute")
def permutation_from_the_end(f: NormalForm, n: Node) -> Node | None:
    """permute(0, 1, 3, 2) only moves the last two axes; the identity is nothing"""
    dims = n.attribute("dims")
    if not isinstance(dims, tuple):
        return None
    axes = [d for d in dims if isinstance(d, int)]
    if len(axes) != len(dims):
        return None
    if n.attribute("full") is None:
        # As written: all axes. Note the rank, it is proven by the call.
        f.ranks.setdefault(n.inputs[0], len(axes))
        axes = [d - len(axes) if d >= 0 else d for d in axes]
    moved = _trimmed(axes)
    if not moved:
        return n.inputs[0]
    made = f.interned("permute", n.inputs, (("dims", tuple(moved)), ("full", False)))
    rank = f.ranks.get(n.inputs[0])
    if rank is not None:
        f.ranks.setdefault(made, rank)
    return None if made is n else made


@rewrite("permute")
def permutation_of_a_permutation(f: NormalForm, n: Node) -> Node | None:
    """Two axis orders, one after the other, are one."""
    inner = n.inputs[0]
    outer_dims, inner_dims = n.attribute("dims"), inner.attribute("dims")
    if inner.operation != "permute" or not isinstance(outer_dims, tuple) or not isinstance(inner_dims, tuple):
        return None
    depth = max(len(outer_dims), len(inner_dims))
    first = [*range(-depth, -len(inner_dims)), *(d for d in inner_dims if isinstance(d, int))]
    second = [*range(-depth, -len(outer_dims)), *(d for d in outer_dims if isinstance(d, int))]
    return f.build("permute", inner.inputs[0], dims=tuple(first[d + depth] for d in second), full=False)


def _trimmed(axes: list[int]) -> list[int]:
    while axes and axes[0] == -len(axes):
        axes = axes[1:]
    return axes


@rewrite("contiguous")
def layout_in_memory_is_no_value(f: NormalForm, n: Node) -> Node | None:
    """contiguous() and clone() keep every value"""
    return n.inputs[0]


@rewrite("softmax", "log_softmax")
def softmax_axis_from_the_end(f: NormalForm, n: Node) -> Node | None:
    """softmax over axis rank-1 is over the last"""
    dim = n.attribute("dim")
    rank = f.rank(n.inputs[0])
    if isinstance(dim, int) and dim >= 0 and rank is not None:
        return f.build(n.operation, n.inputs[0], dim=dim - rank)
    return None


@rewrite("mean", "sum", "amax", "amin", "variance")
def reduced_axes_in_order(f: NormalForm, n: Node) -> Node | None:
    """Reduced axes sorted, counted from the end where the rank is known"""
    dims = n.attribute("dims")
    if not isinstance(dims, tuple):
        return None
    axes = [d for d in dims if isinstance(d, int)]
    rank = f.rank(n.inputs[0])
    if rank is not None:
        axes = [d - rank if d >= 0 else d for d in axes]
    ordered = tuple(sorted(axes))
    if ordered == dims:
        return None
    attributes = tuple((k, ordered if k == "dims" else v) for k, v in n.attributes)
    return f.make(n.operation, n.inputs, attributes)


@rewrite("variance")
def variance_written_out(f: NormalForm, n: Node) -> Node | None:
    """Population variance is mean((x - mean(x))**2); the sample variance (correction 1) is not and stays"""
    if n.attribute("correction") != 0:
        return None
    x, dims, keep = n.inputs[0], n.attribute("dims"), n.attribute("keepdim")
    centred = f.build("sub", x, f.build("mean", x, dims=dims, keepdim=True))
    return f.build("mean", f.build("pow", centred, f.constant(2)), dims=dims, keepdim=keep)


@rewrite("cast")
def cast_to_the_type_it_has(f: NormalForm, n: Node) -> Node | None:
    """x.to(x.dtype) is x; a cast right after the same cast is nothing; bool(x) is x != 0"""
    x, target = n.inputs
    if target.operation == "dtype_of" and target.inputs[0] is x:
        return x
    if x.operation == "cast" and x.inputs[1] is target:
        return x
    if f.types and element_type(f, x) is target:
        return x  # only where an assumption decides types: under autocast a product's type is not its operand's
    if target.attribute("name") == "bool":
        return x if is_boolean(x) else f.build("logical_not", f.build("equal", x, f.constant(0)))
    return None


@rewrite("cast")
def softmax_in_float32_and_back(f: NormalForm, n: Node) -> Node | None:
    """softmax(x.float()).to(type of x) = softmax(x) up to rounding: the kernel accumulates in float32 itself (T10)"""
    softmax, target = n.inputs
    if softmax.operation != "softmax" or softmax.inputs[0].operation != "cast":
        return None
    x, upcast = softmax.inputs[0].inputs
    if upcast.attribute("name") != "float32":
        return None
    return f.make("softmax", (x,), softmax.attributes) if element_type(f, x) is target else None


@rewrite("choose")
def upcast_for_one_type(f: NormalForm, n: Node) -> Node | None:
    """softmax(x.float()).to(t) where the type of x is t, is softmax(x) up to rounding (T10)"""
    condition, arm, other = n.inputs
    if condition.operation != "equal" or arm.operation != "cast" or arm.inputs[1] is not condition.inputs[1]:
        return None
    softmax = arm.inputs[0]
    if softmax.operation != "softmax" or softmax.inputs[0].operation != "cast":
        return None
    x, upcast = softmax.inputs[0].inputs
    if upcast.attribute("name") != "float32" or element_type(f, x) is not condition.inputs[0]:
        return None
    return f.build("choose", condition, f.make("softmax", (x,), softmax.attributes), other)


@rewrite("cast")
def dropout_commutes_with_a_cast(f: NormalForm, n: Node) -> Node | None:
    """cast(dropout(x)) = dropout(cast(x)) in distribution"""
    inner = n.inputs[0]
    if inner.operation == "dropout":
        return f.build("dropout", f.build("cast", inner.inputs[0], n.inputs[1]), inner.inputs[1])
    return None


@rewrite("matmul")
def weights_cast_to_the_values(f: NormalForm, n: Node) -> Node | None:
    """weights.to(v.dtype) @ v: a product needs equal types anyway, so the cast is part of it (up to rounding)"""
    a, b = n.inputs
    uncast = _weights_without_cast(f, a, element_type(f, b))
    return None if uncast is None else f.build("matmul", uncast, b)


def _weights_without_cast(f: NormalForm, weights: Node, own: Node) -> Node | None:
    """The weights of an attention as they were before `.to(v.dtype)`, also under a dropout, a head mask or a branch."""
    if weights.operation == "dropout":
        inner = _weights_without_cast(f, weights.inputs[0], own)
        return None if inner is None else f.build("dropout", inner, *weights.inputs[1:])
    if weights.operation in ("mul", "choose"):
        first = 1 if weights.operation == "choose" else 0
        uncast = [_weights_without_cast(f, operand, own) for operand in weights.inputs[first:]]
        if not any(operand is not None for operand in uncast):
            return None
        operands = [new or old for new, old in zip(uncast, weights.inputs[first:], strict=True)]
        return f.make(weights.operation, (*weights.inputs[:first], *operands), weights.attributes)
    if weights.operation != "cast":
        return None
    inner, target = weights.inputs
    if inner.operation != "softmax":
        return None
    x = _without_upcast(f, inner.inputs[0])
    # The kernel takes one type for all: that of the scores must not be another one for sure.
    scores = element_type(f, x)
    if target is not own and target is not scores:
        return None
    if scores is not own and not (scores.operation == own.operation == "dtype_of"):
        return None
    return f.make("softmax", (x,), inner.attributes)


def _without_upcast(f: NormalForm, scores: Node) -> Node:
    """Scores that were brought to float32 on the way to the softmax, as they were: the kernel does that itself (T10)."""
    if scores.operation == "cast" and scores.inputs[1].attribute("name") == "float32":
        return _without_upcast(f, scores.inputs[0])
    if scores.operation == "choose":
        arms = tuple(_without_upcast(f, arm) for arm in scores.inputs[1:])
        return f.make("choose", (scores.inputs[0], *arms), ()) if arms[0] is arms[1] else scores
    if scores.operation in ("add", "where") and (
        holds_product(scores) or any(o.operation == "choose" for o in scores.inputs)
    ):
        operands = tuple(
            _without_upcast(f, o) if holds_product(o) or o.operation == "choose" else o for o in scores.inputs
        )
        return f.make(scores.operation, operands, scores.attributes)
    return scores


@rewrite("matmul")
def factor_of_rows_leaves_a_product(f: NormalForm, n: Node) -> Node | None:
    """(s * q) @ k = s * (q @ k) for an s that is 1 wide in the axis summed over"""
    a, b = n.inputs
    if a.operation != "mul":
        return None
    factors = tuple(o for o in a.inputs if is_one_wide(o) and not is_scalar(o))
    rest = tuple(o for o in a.inputs if o not in factors)
    if not factors or not rest:
        return None
    left = f.make("mul", rest, ()) if len(rest) > 1 else rest[0]
    return f.make("mul", (*factors, f.build("matmul", left, b)), ())


@rewrite("dtype_of")
def type_of_an_operation(f: NormalForm, n: Node) -> Node | None:
    """The type of a product of q is q's; of a cast, the target"""
    found = element_type(f, n.inputs[0])
    return None if found is n else found


@rewrite("dropout")
def dropout_by_its_effective_probability(f: NormalForm, n: Node) -> Node | None:
    """dropout(x, p, training) = dropout(x, p if training else 0); p = 0 is nothing"""
    if len(n.inputs) == 3:
        x, p, training = n.inputs
        return f.build("dropout", x, f.build("choose", f.build("truth", training), p, f.constant(0)))
    return n.inputs[0] if number(n.inputs[1]) == 0 else None


@rewrite("not_equal", "greater", "greater_equal")
def one_form_of_comparison(f: NormalForm, n: Node) -> Node | None:
    """a != b = not (a == b), a > b = b < a, a >= b = b <= a"""
    a, b = n.inputs
    if n.operation == "not_equal":
        return f.build("logical_not", f.build("equal", a, b))
    return f.build("less" if n.operation == "greater" else "less_equal", b, a)


@rewrite("equal")
def comparison_with_a_constant_last(f: NormalForm, n: Node) -> Node | None:
    """0 == x is x == 0; x == False is not x for a boolean x"""
    a, b = n.inputs
    if a.operation == "constant" and b.operation != "constant":
        return f.build("equal", b, a)
    x, y = number(a), number(b)
    if x is not None and y is not None:
        return f.constant(x == y)
    if is_boolean(a) and b.operation == "constant":
        value = b.attribute("value")
        if value in (0, 1):
            return a if value else f.build("logical_not", a)
    return None


@rewrite("where")
def mask_without_a_negation(f: NormalForm, n: Node) -> Node | None:
    """where(not m, a, b) = where(m, b, a)"""
    condition, a, b = n.inputs
    if condition.operation == "logical_not":
        return f.build("where", condition.inputs[0], b, a)
    if condition.operation == "expand_as" and condition.inputs[1] in (a, b):
        return f.build("where", condition.inputs[0], a, b)  # it broadcasts to that shape anyhow
    if condition.operation == "constant" and isinstance(condition.attribute("value"), bool):
        return a if condition.attribute("value") else b
    return None


@rewrite("where")
def large_negative_fill_is_the_minimum(f: NormalForm, n: Node) -> Node | None:
    """Filling scores with -1e9 or less is filling with the least finite number.

    Either way a masked weight is exactly 0 beside an unmasked one, and a row that is masked altogether is uniform, since
    all its scores are one number (T06). Not for -inf: there such a row is NaN.
    """
    condition, a, b = n.inputs
    for position, value in ((1, a), (2, b)):
        other = b if position == 1 else a
        if not holds_product(other):
            continue  # a mask that is added: -1e9 does not absorb every score there
        if _very_negative(value):
            filled = f.build("finfo_min", f.build("dtype", name="float32"))
            return f.build("where", condition, *((filled, b) if position == 1 else (a, filled)))
        if value.operation == "finfo_min" and value.inputs[0].operation == "dtype_of":
            filled = f.build("finfo_min", f.build("dtype", name="float32"))
            return f.build("where", condition, *((filled, b) if position == 1 else (a, filled)))
    return None


def _very_negative(node: Node) -> bool:
    value = number(node)
    return value is not None and float("-inf") < value <= -1e9


@rewrite("add")
def adding_the_minimum_is_filling_with_it(f: NormalForm, n: Node) -> Node | None:
    """s + where(m, min, 0) = where(m, min, s): the least finite number absorbs any score it is added to (T06)"""
    masks = [t for t in n.inputs if t.operation == "where" and _is_fill(t)]
    scores = tuple(t for t in n.inputs if t not in masks and holds_product(t))
    if len(masks) != 1 or not scores:
        return None
    condition, a, b = masks[0].inputs
    rest = f.make("add", scores, ()) if len(scores) > 1 else scores[0]

    def with_scores(arm: Node) -> Node:
        if arm.operation == "finfo_min":
            return arm
        return rest if number(arm) == 0 else f.build("add", rest, arm)

    filled = f.build("where", condition, with_scores(a), with_scores(b))
    others = tuple(t for t in n.inputs if t is not masks[0] and t not in scores)
    # Another mask stays a term of its own: added to the minimum it is not absorbed where both masks hide a key.
    return f.make("add", (filled, *others), ()) if others else filled


def _is_fill(node: Node) -> bool:
    _, *arms = node.inputs
    return sum(arm.operation == "finfo_min" for arm in arms) == 1 and not any(holds_product(arm) for arm in arms)


@rewrite("add")
def clamped_mask_is_a_clamped_sum(f: NormalForm, n: Node) -> Node | None:
    """s + max(m, min) = max(s + m, min): the least finite number absorbs any score it is added to (T06)"""
    clamped = [t for t in n.inputs if t.operation == "clamp" and _clamps_to_the_minimum(t)]
    rest = tuple(t for t in n.inputs if t not in clamped)
    if len(clamped) != 1 or not any(holds_product(t) for t in rest):
        return None
    least = f.build("finfo_min", f.build("dtype", name="float32"))
    return f.build("maximum", f.make("add", (*rest, clamped[0].inputs[0]), ()), least)


def _clamps_to_the_minimum(node: Node) -> bool:
    _, least, most = node.inputs
    return least.operation == "finfo_min" and most.operation == "constant" and most.attribute("value") is None


@rewrite("maximum")
def least_number_has_one_form(f: NormalForm, n: Node) -> Node | None:
    """The least number of the scores' own type, second"""
    a, b = n.inputs
    if a.operation == "finfo_min" and holds_product(b):
        return f.build("maximum", b, a)
    if b.operation == "finfo_min" and b.inputs[0].operation == "dtype_of" and holds_product(a):
        return f.build("maximum", a, f.build("finfo_min", f.build("dtype", name="float32")))
    return None


@rewrite("choose")
def clamp_of_an_optional_sum(f: NormalForm, n: Node) -> Node | None:
    """s if c else max(s + m, min) = max(s if c else s + m, min): scores are not -inf by themselves"""
    condition, *arms = n.inputs
    clamped = [arm for arm in arms if arm.operation == "maximum" and arm.inputs[1].operation == "finfo_min"]
    if len(clamped) != 1 or not all(holds_product(arm) for arm in arms):
        return None
    inner = [arm.inputs[0] if arm is clamped[0] else arm for arm in arms]
    return f.build("maximum", f.build("choose", condition, *inner), clamped[0].inputs[1])


@rewrite("mul")
def negative_of_the_largest_number(f: NormalForm, n: Node) -> Node | None:
    """-finfo.max is finfo.min: floating-point numbers are symmetric"""
    if len(n.inputs) == 2 and number(n.inputs[0]) == -1 and n.inputs[1].operation == "finfo_max":
        return f.build("finfo_min", n.inputs[1].inputs[0])
    return None


@rewrite("full")
def full_of_one_number(f: NormalForm, n: Node) -> Node | None:
    """torch.full([], value) is that number"""
    return n.inputs[0] if len(n.inputs) == 1 else None


@rewrite("size")
def size_of_an_unchanged_axis(f: NormalForm, n: Node) -> Node | None:
    """The extent of a permuted tensor's axis is that of the axis it came from"""
    inner, dim = n.inputs[0], n.attribute("dim")
    rank = f.rank(inner)
    if not isinstance(dim, int):
        return None
    if dim >= 0 and rank is not None:
        return f.build("size", inner, dim=dim - rank)
    if inner.operation == "permute" and dim < 0:
        dims = inner.attribute("dims")
        if isinstance(dims, tuple):
            source = dims[dim] if -dim <= len(dims) else dim
            return f.build("size", inner.inputs[0], dim=source)
    if inner.operation in ("cast", "softmax", "dropout", "tanh", "exp"):
        return f.build("size", inner.inputs[0], dim=dim)
    return None


@rewrite("rank")
def rank_that_is_known(f: NormalForm, n: Node) -> Node | None:
    """x.dim() is a number where the program proves it"""
    rank = f.rank(n.inputs[0])
    return f.constant(rank) if rank is not None else None


@rewrite("call")
def tensor_of_one_number(f: NormalForm, n: Node) -> Node | None:
    """torch.tensor(number) is that number: a tensor without axes takes no part in type promotion"""
    if n.attribute("target") != "torch.tensor" or not n.inputs:
        return None
    value = n.inputs[0]
    return value if value.operation == "finfo_min" or number(value) is not None else None


@rewrite("full_like")
def filled_tensor_is_its_number(f: NormalForm, n: Node) -> Node | None:
    """A tensor of one number broadcasts as that number"""
    return n.inputs[1]


@rewrite("cast")
def number_has_no_type(f: NormalForm, n: Node) -> Node | None:
    """Casting a number (a tensor filled with it) changes nothing that arithmetic with it sees"""
    return n.inputs[0] if number(n.inputs[0]) is not None and n.inputs[1].attribute("name") != "bool" else None


@rewrite("squeeze")
def added_axis_dropped_again(f: NormalForm, n: Node) -> Node | None:
    """unsqueeze(0) and then squeeze(0) is nothing"""
    inner = n.inputs[0]
    if inner.operation == "unsqueeze" and inner.attribute("dim") == n.attribute("dim") == 0:
        return inner.inputs[0]
    return None


@rewrite("matmul", "permute", "softmax", "dropout", "mul", "add", "where")
def front_axis_moves_outward(f: NormalForm, n: Node) -> Node | None:
    """An operation on tensors that all have an added first axis is that operation with the axis added after.

    Other operands (masks, numbers) broadcast from the right, so they need no such axis as long as they have no more axes than
    what it was added to; a product needs it on both sides.
    """
    lifted = [o for o in n.inputs if o.operation == "unsqueeze" and o.attribute("dim") == 0]
    if not lifted:
        return None
    if n.operation == "matmul" and len(lifted) != 2:
        return None
    if n.operation == "permute":
        dims = n.attribute("dims")
        if not isinstance(dims, tuple) or len(dims) > 2:
            return None
    if n.operation == "softmax" and n.attribute("dim") not in (-1, -2):
        return None
    if n.operation in ("mul", "add", "where"):
        others = [o for o in n.inputs if o is not lifted[0] and not is_scalar(o)]
        if len(lifted) != 1 or not all(_has_no_more_axes(f, o, lifted[0].inputs[0]) for o in others):
            return None
    inputs = tuple(o.inputs[0] if o in lifted else o for o in n.inputs)
    return f.build("unsqueeze", f.make(n.operation, inputs, n.attributes), dim=0)


@rewrite("field")
def device_of_an_operation(f: NormalForm, n: Node) -> Node | None:
    """The device of a product of q is q's: torch computes where the operands are"""
    inner = n.inputs[0]
    if n.attribute("name") == "device" and inner.operation in ("matmul", "permute", "reshape", "softmax", "cast"):
        return f.build("field", inner.inputs[0], name="device")
    return None


def _has_no_more_axes(f: NormalForm, operand: Node, than: Node) -> bool:
    """True where it is proven, or where the operand is a mask beside scores (with more axes the product after it fails)."""
    ranks = f.rank(operand), f.rank(than)
    if ranks[0] is not None and ranks[1] is not None:
        return ranks[0] <= ranks[1]
    return holds_product(than) and not holds_product(operand)
