"""The operations of the architecture language: what each takes and means.

The vocabulary is nobody's: front ends translate a framework's spelling into it, back ends print it. An operand written
`?` may be the constant None (absent). Sizes, probabilities and scales are operands, not attributes, since real code
computes them; what selects the meaning of an operation (an axis, a flavour) is an attribute.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """Signature of one operation: operand names (`*` last for any number), attribute names, and its meaning in a line."""

    name: str
    operands: tuple[str, ...]
    attributes: tuple[str, ...]
    meaning: str
    kind: str


def _operations(kind: str, *rows: tuple[str, str, str, str]) -> list[Operation]:
    return [Operation(n, tuple(o.split()), tuple(a.split()), meaning, kind) for n, o, a, meaning in rows]


_TABLE: list[Operation] = [
    *_operations(
        "leaf",
        ("input", "", "name shape dtype", "an argument; shape (ints) and dtype where the program is a workload"),
        (
            "parameter",
            "",
            "path unit_axes",
            "a parameter or buffer, by its path under self; axes (from the end) made 1 wide",
        ),
        (
            "attribute",
            "",
            "path kind value",
            "any other value under self (self.scale); kind: number, flag, module or value; value where __init__ works it out",
        ),
        ("constant", "", "value", "a number, bool, string, None or tuple of them"),
        ("dtype", "", "name", "an element type: float32, bfloat16, int64 ..."),
        ("global", "", "name", "a module-level name whose value is not known"),
    ),
    *_operations(
        "elementwise",
        ("neg", "x", "", "-x"),
        ("abs", "x", "", "|x|"),
        ("exp", "x", "", "e**x"),
        ("log", "x", "", "natural logarithm"),
        ("sin", "x", "", "sine"),
        ("cos", "x", "", "cosine"),
        ("tanh", "x", "", "hyperbolic tangent"),
        ("erf", "x", "", "error function"),
        ("sqrt", "x", "", "square root"),
        ("rsqrt", "x", "", "1 / sqrt(x)"),
        ("reciprocal", "x", "", "1 / x"),
        ("sigmoid", "x", "", "1 / (1 + exp(-x))"),
        ("softplus", "x", "", "log(1 + exp(x))"),
        ("relu", "x", "", "max(x, 0)"),
        ("logical_not", "x", "", "not x, elementwise; ~x for booleans"),
        ("add", "a b", "", "a + b, broadcast"),
        ("sub", "a b", "", "a - b, broadcast"),
        ("mul", "a b", "", "a * b, broadcast"),
        ("div", "a b", "", "a / b, broadcast"),
        ("floordiv", "a b", "", "floor(a / b)"),
        ("mod", "a b", "", "a modulo b"),
        ("pow", "a b", "", "a ** b, broadcast"),
        ("maximum", "a b", "", "elementwise maximum"),
        ("minimum", "a b", "", "elementwise minimum"),
        ("clamp", "x low? high?", "", "x limited to [low, high]"),
        ("equal", "a b", "", "a == b"),
        ("not_equal", "a b", "", "a != b"),
        ("less", "a b", "", "a < b"),
        ("less_equal", "a b", "", "a <= b"),
        ("greater", "a b", "", "a > b"),
        ("greater_equal", "a b", "", "a >= b"),
        ("logical_and", "a b", "", "a and b"),
        ("logical_or", "a b", "", "a or b"),
        ("where", "condition a b", "", "a where the condition holds, else b, elementwise"),
        ("cast", "x dtype", "", "x converted to the element type (a `dtype` node or `dtype_of`)"),
    ),
    *_operations(
        "reduction",
        ("sum", "x", "dims keepdim", "sum over dims (a tuple; None is all)"),
        ("mean", "x", "dims keepdim", "mean over dims"),
        ("amax", "x", "dims keepdim", "maximum over dims"),
        ("amin", "x", "dims keepdim", "minimum over dims"),
        ("variance", "x", "dims keepdim correction", "variance over dims, divided by N - correction"),
        ("norm", "x", "order dims keepdim", "vector norm over dims"),
        ("softmax", "x", "dim", "softmax over one axis"),
        ("log_softmax", "x", "dim", "log of softmax over one axis"),
        ("cumsum", "x", "dim", "running sum along an axis"),
    ),
    *_operations("contraction", ("matmul", "a b", "", "matrix product over the last two axes, batch axes broadcast")),
    *_operations(
        "layout",
        ("transpose", "x", "a b", "exchange two axes"),
        ("permute", "x", "dims", "reorder all axes"),
        ("reshape", "x *", "", "new sizes, one operand an axis, -1 for the rest"),
        ("flatten", "x", "start end", "join the axes start..end"),
        ("unflatten", "x *sizes", "dim", "split the axis dim into axes of the sizes"),
        ("unsqueeze", "x", "dim", "insert an axis of size 1"),
        ("squeeze", "x", "dim", "drop an axis of size 1 (None: every such axis)"),
        ("expand", "x *", "", "broadcast to sizes, -1 keeps one"),
        ("expand_as", "x other", "", "broadcast to the shape of other"),
        ("repeat", "x *", "", "tile, one count an axis"),
        ("repeat_interleave", "x count", "dim", "repeat each element along an axis"),
        ("concatenate", "*", "dim", "join along an axis"),
        ("stack", "*", "dim", "join along a new axis"),
        ("chunk", "x", "count dim", "a tuple of count equal parts"),
        ("split", "x size", "dim", "a tuple of parts of that size (an int or a tuple)"),
        ("unbind", "x", "dim", "a tuple of the slices along an axis"),
        ("slice", "x start? stop? step?", "dim", "x[start:stop:step] along one axis"),
        ("pick", "x index", "dim", "x[index] along one axis, which goes away"),
        ("gather", "x index", "dim", "torch-like gather along an axis"),
        ("take", "x *", "", "advanced indexing with tensors"),
        ("contiguous", "x", "", "same values in row-major layout"),
        ("detach", "x", "", "same values, no gradient"),
        ("lower_triangle", "x diagonal", "", "x with everything above the diagonal zeroed"),
        ("upper_triangle", "x diagonal", "", "x with everything below the diagonal zeroed"),
    ),
    *_operations(
        "creation",
        ("full", "value *", "dtype", "a tensor of one value, one operand a size"),
        ("arange", "start stop step", "dtype", "evenly spaced values"),
        ("full_like", "x value", "", "a tensor like x of one value"),
    ),
    *_operations(
        "query",
        ("size", "x", "dim", "extent of an axis, an int"),
        ("shape", "x", "", "all extents, a tuple of unknown length"),
        ("rank", "x", "", "number of axes"),
        ("dtype_of", "x", "", "element type of x"),
        ("finfo_min", "dtype", "", "most negative finite value of an element type"),
        ("finfo_max", "dtype", "", "largest finite value of an element type"),
        ("finfo_eps", "dtype", "", "machine epsilon of an element type"),
        ("is_none", "x", "", "x is None"),
        ("truth", "x", "", "whether x counts as true in a Python condition"),
        ("is_tensor", "x", "", "x is a tensor"),
    ),
    *_operations(
        "network",
        ("linear", "x weight bias?", "", "x @ weight.T + bias"),
        ("embedding", "indices weight", "", "rows of weight"),
        ("dropout", "x p training", "", "x with elements zeroed with probability p while training, scaled by 1/(1-p)"),
        ("conv", "x weight bias?", "dimensions stride padding dilation groups", "convolution"),
        ("batch_norm", "x mean? variance? weight? bias? training eps", "", "batch normalisation"),
    ),
    *_operations(
        "kernel",
        ("gelu", "x", "approximate", "Gaussian error linear unit, approximate: none or tanh"),
        ("silu", "x", "", "x * sigmoid(x)"),
        ("mish", "x", "", "x * tanh(softplus(x))"),
        ("hardswish", "x", "", "x * clamp(x + 3, 0, 6) / 6"),
        (
            "scaled_dot_product_attention",
            "q k v mask? p scale? is_causal enable_gqa",
            "",
            "dropout(softmax(q @ k.T * scale + mask)) @ v; a boolean mask keeps True",
        ),
        ("rms_norm", "x weight? eps?", "dims", "x / sqrt(mean(x**2) + eps) * weight over the last dims axes"),
        (
            "layer_norm",
            "x weight? bias? eps",
            "dims",
            "(x - mean) / sqrt(var + eps) * weight + bias over the last dims axes",
        ),
        (
            "nll_loss",
            "x target weight? ignore_index reduction",
            "",
            "minus the log-probability x of the target class (axis 1); targets equal to ignore_index count nothing",
        ),
        (
            "cross_entropy",
            "x target weight? ignore_index? reduction?",
            "ignore_index reduction label_smoothing",
            "log-softmax and NLL; ignore_index and reduction are operands where they are computed, else attributes",
        ),
    ),
    *_operations(
        "structure",
        ("tuple", "*", "", "several values"),
        ("join", "a b", "", "two tuples, one after the other"),
        ("item", "x", "index", "one of several values"),
        ("field", "x", "name", "an attribute of a Python object that is not known further"),
        ("choose", "condition a b", "", "a if the (Python) condition holds, else b: a branch, not elementwise"),
        (
            "carried",
            "x",
            "name loop",
            "a value that a loop changes, as an iteration finds it; x is the value before the loop",
        ),
        ("element", "x", "loop", "the element of a sequence that an iteration of a loop is about"),
        ("iteration", "x", "loop", "true while an iteration of the loop over x runs"),
        (
            "loop",
            "*",
            "names conditions loop",
            "the first of `names` after the loop. Operands: what it runs over and the conditions that end it (`conditions` of "
            "them), for each name the value before the loop, for each the value after an iteration",
        ),
        (
            "updated",
            "x value *",
            "index",
            "x with the elements at an index replaced by value; index tells of each part whether it is a slice of three operands",
        ),
        ("store", "x *", "path", "an attribute of an object, or an argument's memory, is set to x (an effect)"),
        ("layer", "*", "path class", "a submodule that is not looked into"),
        (
            "call",
            "*",
            "target keywords text",
            "a function that is not looked into; keywords name the last operands, text is what else tells it apart",
        ),
        ("number", "x", "", "x, which is a Python number (what math functions take)"),
        (
            "raise",
            "condition *",
            "",
            "an error where the condition holds (an effect); further operands: what its message reads",
        ),
        ("opaque", "*", "reason text", "not understood; blocks matching. Operands: every value that flows in"),
    ),
]

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _TABLE}
"""Every operation by name. The grammar is open to additions only: printed programs are stored in records."""

ELEMENTWISE = frozenset(o.name for o in _TABLE if o.kind == "elementwise") | {
    "dropout",
    "gelu",
    "silu",
    "mish",
    "hardswish",
}
"""Operations whose result at an index depends on the operands at that index alone."""
