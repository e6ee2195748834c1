"""The normal form: spelling does not matter any more, equal programs are one node.

`NormalForm` interns nodes: within one of them, two computations are the same exactly if they are the same object. Every
node is built through a list of small named rewrites (modules `rewrites_*`), each an identity of real arithmetic, of
tensors or of branches. Rewrites that hold up to rounding only (a softmax's upcast) say so; they are why a match has a
numerics class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernelwright.analyzers.architecture import Attribute, Node, Program
from kernelwright.analyzers.architecture.node import walk

Rewrite = Callable[["NormalForm", Node], Node | None]
Expansion = Callable[["NormalForm", Node], Node | None]

_REWRITES: dict[str, list[Rewrite]] = {}


def rewrite(*operations: str) -> Callable[[Rewrite], Rewrite]:
    """Register a rewrite for nodes of these operations. It returns the better node, or None where it does not apply."""

    def register(function: Rewrite) -> Rewrite:
        for operation in operations:
            _REWRITES.setdefault(operation, []).append(function)
        return function

    return register


def registered() -> dict[str, list[Rewrite]]:
    """All rewrites by operation, for tests and documentation."""
    return _REWRITES


def canonical(value: Attribute) -> Attribute:
    """A number as the normal form keeps it: integral floats as ints, others to seven digits.

    Seven digits are what float32 holds; code writes constants such as sqrt(2/pi) with eight or more.
    """
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.7g}")
    return value


def _key(value: Attribute) -> object:
    if isinstance(value, tuple):
        return tuple(_key(part) for part in value)
    return (type(value).__name__, repr(value))


class NormalForm:
    """Builds interned normal nodes.

    `expansions` give each kernel operation its definition; `ranks` are proven axis counts; `types` element types that an
    assumption decides (set while a path is compared, see `assumptions`); `booleans` values that the code selects by.
    """

    def __init__(self, expansions: Mapping[str, Expansion] | None = None) -> None:
        # The rewrites register themselves when their modules are read.
        from kernelwright.analyzers import (  # noqa: F401
            rewrites_arithmetic,
            rewrites_axes,
            rewrites_branches,
            rewrites_groups,
            rewrites_tensors,
        )

        self._table: dict[tuple[object, ...], Node] = {}
        self._serial: dict[Node, int] = {}
        self._memo: dict[Node, Node] = {}
        self._expansions = dict(expansions or {})
        self.ranks: dict[Node, int] = {}
        self.types: dict[Node, Node] = {}
        self.assumed_ranks: dict[Node, int] = {}
        self.booleans: set[Node] = set()
        self._occurrences: dict[Node, int] = {}

    def begin(self) -> None:
        """Another program follows: its first random number is the first again."""
        self._occurrences.clear()

    # ---- building

    def serial(self, node: Node) -> int:
        """Creation order: the sort key that makes operands of commutative operations canonical."""
        return self._serial[node]

    def build(self, operation: str, *inputs: Node, **attributes: Attribute) -> Node:
        return self.make(operation, inputs, tuple(attributes.items()))

    def make(self, operation: str, inputs: tuple[Node, ...], attributes: tuple[tuple[str, Attribute], ...]) -> Node:
        """The normal node of an operation on normal operands."""
        node = self.interned(operation, inputs, attributes)
        for _ in range(64):
            better = self._once(node)
            if better is None or better is node:
                return node
            node = better
        return node

    def _once(self, node: Node) -> Node | None:
        for rule in _REWRITES.get(node.operation, ()):
            better = rule(self, node)
            if better is not None and better is not node:
                return better
        return None

    def interned(self, operation: str, inputs: tuple[Node, ...], attributes: tuple[tuple[str, Attribute], ...]) -> Node:
        # The first spelling of a constant is kept in full: rounding is for comparing only, not for calculating on.
        key = (operation, tuple(map(id, inputs)), tuple((n, _key(canonical(v))) for n, v in attributes))
        found = self._table.get(key)
        if found is None:
            kept = tuple(
                (n, int(v) if isinstance(v, float) and isinstance(canonical(v), int) else v) for n, v in attributes
            )
            found = Node(operation, inputs, kept)
            self._table[key] = found
            self._serial[found] = len(self._serial)
        return found

    def constant(self, value: Attribute) -> Node:
        return self.interned("constant", (), (("value", value),))

    # ---- from raw programs

    def of(self, raw: Node, ranks: Mapping[Node, int] | None = None) -> Node:
        """The normal form of a raw node; memoised. `ranks` are axis counts proven for raw nodes."""
        memo = self._memo
        for node in walk((raw,), memo):
            normal = self.leaf_or_made(node)
            memo[node] = normal
            if ranks and node in ranks:
                self.ranks.setdefault(normal, ranks[node])
        return memo[raw]

    def leaf_or_made(self, node: Node) -> Node:
        inputs = tuple(self._memo[operand] for operand in node.inputs)
        if node.operation == "input":
            # The name alone identifies an argument: old and new text have the same parameters.
            return self.interned("input", (), (("name", node.attribute("name")),))
        if node.operation in ("constant", "dtype"):
            return self.interned(node.operation, (), node.attributes)
        if node.operation == "cast" and _is_own_type(node):
            return inputs[0]
        if node.operation == "where":
            selector = inputs[0]
            self.booleans.update((selector, selector.inputs[0]) if selector.operation == "logical_not" else (selector,))
        expanded = self.expand(node.operation, inputs, node.attributes)
        made = expanded if expanded is not None else self.make(node.operation, inputs, node.attributes)
        return self._told_apart(node, made) if _is_event(node) else made

    def _told_apart(self, raw: Node, made: Node) -> Node:
        """The second run of something random or unknown is another value than the first, though it is written alike."""
        count = self._occurrences.get(made, 0)
        self._occurrences[made] = count + 1
        if not count:
            return made
        return self.make(made.operation, made.inputs, (*made.attributes, ("occurrence", count)))

    def expand(
        self, operation: str, inputs: tuple[Node, ...], attributes: tuple[tuple[str, Attribute], ...]
    ) -> Node | None:
        """A kernel operation written out by its definition, or None for any other."""
        expansion = self._expansions.get(operation)
        if expansion is None:
            return None
        return expansion(self, Node(operation, inputs, attributes))

    def substitute(self, root: Node, replacements: Mapping[Node, Node]) -> Node:
        """`root` with some of its (normal) nodes replaced, rebuilt in normal form."""
        memo: dict[Node, Node] = dict(replacements)
        for node in walk((root,), memo):
            inputs = tuple(memo[operand] for operand in node.inputs)
            if inputs == node.inputs and not self._may_change(node):
                memo[node] = node
            else:
                memo[node] = self.make(node.operation, inputs, node.attributes)
        return memo[root]

    def _may_change(self, node: Node) -> bool:
        """True for an operation that reads another way once an assumption decides types or ranks."""
        if self.types and node.operation == "cast":
            return True
        return bool(self.assumed_ranks) and node.operation in ("softmax", "log_softmax")

    @property
    def expands(self) -> bool:
        """True where kernels are written out: two programs are compared."""
        return bool(self._expansions)

    # ---- facts

    def rank(self, node: Node) -> int | None:
        """The number of axes, where the program proves it."""
        from kernelwright.analyzers.facts import rank_of

        return rank_of(self, node)


_PURE_CALLS = frozenset(
    {
        "builtins.len", "builtins.int", "builtins.min", "builtins.max", "builtins.isinstance", "builtins.hasattr",
        "builtins.str", "str.format", "is", "torch.arange", "torch.tensor", "torch.finfo", "torch.linspace", "torch.eye",
        "in", "builtins.range", "builtins.slice", "builtins.zip", "builtins.enumerate",
        "torch.nn.functional.pad", "torch.nn.functional.normalize",
    }
)  # fmt: skip


def _is_own_type(cast: Node) -> bool:
    """True for `x.to(x.dtype)`, seen in the source: in the normal form the type may be named by another value."""
    x, target = cast.inputs
    return target.operation == "dtype_of" and target.inputs[0] is x


def _is_event(node: Node) -> bool:
    """True for what may give another value each time it runs: unknown code, submodules, random numbers."""
    if node.operation == "call":
        return node.attribute("target") not in _PURE_CALLS
    return node.operation in ("opaque", "layer", "dropout", "scaled_dot_product_attention") and not (
        node.operation == "opaque" and node.attribute("reason") == "unbound"
    )


def instantiate(form: NormalForm, program: Program, arguments: Mapping[str, Node]) -> Node:
    """The normal form of a one-output program (a definition) with its inputs bound to normal nodes."""
    memo: dict[Node, Node] = {node: arguments[str(node.attribute("name"))] for node in program.inputs}
    for node in walk(program.outputs):
        if node in memo:
            continue
        inputs = tuple(memo[operand] for operand in node.inputs)
        if node.operation in ("constant", "dtype"):
            memo[node] = form.interned(node.operation, (), node.attributes)
            continue
        expanded = form.expand(node.operation, inputs, node.attributes)
        memo[node] = expanded if expanded is not None else form.make(node.operation, inputs, node.attributes)
    return memo[program.outputs[0]]
