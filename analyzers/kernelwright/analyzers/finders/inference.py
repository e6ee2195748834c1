"""Finder for evaluation code under `torch.no_grad` that gives nothing but plain numbers away."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.analyzers.finders.finding import FileView, Finding
from kernelwright.analyzers.finders.syntax import calls_in, names_bound, root_name
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.opportunity import Condition, TextEdit
from kernelwright.analyzers.source import Function, FunctionNode
from kernelwright.analyzers.syntax_tree import walk

_NO_GRAD = frozenset({"torch.no_grad", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"})
_PLAIN_METHODS = frozenset(
    {"item", "tolist", "numpy", "format", "join", "keys", "split", "strip", "lower", "replace", "decode", "time"}
)
_PLAIN_FUNCTIONS = frozenset(
    {"float", "int", "len", "bool", "str", "round", "range", "repr", "isinstance", "getattr", "type"}
)
_KEEPS_PLAIN = frozenset({"sum", "min", "max", "abs", "sorted", "list", "tuple", "dict", "set", "zip", "enumerate"})
_TRAINS = frozenset(
    {
        "backward", "requires_grad", "requires_grad_", "enable_grad", "set_grad_enabled", "Parameter", "load_state_dict",
        "register_buffer", "register_parameter", "state_dict", "autograd", "grad", "step", "trace", "script", "compile",
        "export", "data", "copy_", "train_step", "training_step", "inference_mode",
    }
)  # fmt: skip
"""Names beside which a function is more than evaluation."""
_MAKES_MODELS = ("load", "save", "convert", "from_pretrained", "init", "reset", "train", "export", "recursively_load")


def inference_mode(view: FileView) -> Iterator[Finding]:
    """Functions and `with` blocks under `torch.no_grad()` that no tensor made there leaves."""
    source = view.source
    if "no_grad" not in source.text:
        return
    for function in source.functions:
        if _is_more_than_evaluation(function.node):
            continue
        plain = _Plain(function.node, view.scope)
        for decorator in function.node.decorator_list:
            if _is_no_grad(view.scope, decorator) and plain.keeps_its_tensors(function.node.body, whole=True):
                yield _finding(view, function, decorator)
        for node in walk(function.node):
            if isinstance(node, ast.With):
                calls = [item.context_expr for item in node.items if _is_no_grad(view.scope, item.context_expr)]
                if len(calls) == 1 and plain.keeps_its_tensors(node.body, whole=False):
                    yield _finding(view, function, calls[0])


def _is_no_grad(scope: Scope, node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and not node.args
        and not node.keywords
        and (scope.qualified(node.func) or "") in _NO_GRAD
        and isinstance(node.func, ast.Attribute)
    )


def _is_more_than_evaluation(function: FunctionNode) -> bool:
    for node in walk(function):
        if node is not function and isinstance(node, FunctionNode | ast.ClassDef | ast.Global | ast.Nonlocal):
            return True
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            return True
        if isinstance(node, ast.Attribute) and (node.attr in _TRAINS or _is_in_place(node.attr)):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2].startswith(_MAKES_MODELS):
            return True
    return function.name.startswith("__") or not any(isinstance(n, ast.Call) for s in function.body for n in walk(s))


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _finding(view: FileView, function: Function, call: ast.expr) -> Finding:
    source = view.source
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    end = source.end(call.func)
    said = (
        "nothing that is called here keeps a tensor for training later (a cache that a module fills on its first call, "
        "a metric that is differentiated)"
    )
    return Finding(
        source.span(call),
        function.qualified_name,
        "no_grad",
        edits=(TextEdit(end - len("no_grad"), end, "inference_mode"),),
        check="names",
        title="Use torch.inference_mode()",
        conditions=(
            Condition(
                "no_tensor_leaves", "proven", "what this code returns and stores are plain numbers, lists or arrays"
            ),
            Condition("no_cache", "assumed", said),
        ),
    )


_CONTAINERS = frozenset({"dict", "list", "set", "defaultdict", "OrderedDict", "Counter", "deque"})


def _is_fresh(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else ast.unparse(value.func)
        return name in _CONTAINERS
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


class _Plain:
    """Which values of a function are no tensors for sure."""

    def __init__(self, function: FunctionNode, scope: Scope) -> None:
        self.function = function
        self.scope = scope
        self.active: set[str] = set()
        form = function.args
        self.arguments = {a.arg for a in (*form.posonlyargs, *form.args, *form.kwonlyargs)}
        self.stores: dict[str, list[ast.expr | None]] = {}
        self.bound: dict[str, list[ast.expr | None]] = {}
        for node in walk(function):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._stored(target, node.value)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            if node.value is not None:
                self._stored(node.target, node.value)
        elif isinstance(node, ast.NamedExpr):
            self._stored(node.target, node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            self._looped(node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._stored(node.optional_vars, None)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = root_name(node.func.value)
            if name is not None and node.func.attr in ("append", "extend", "add", "insert", "update", "setdefault"):
                for argument in (*node.args, *(k.value for k in node.keywords)):
                    self.stores.setdefault(name, []).append(argument)

    def _looped(self, target: ast.expr, iterated: ast.expr) -> None:
        """`for i in range(n)` gives numbers; of anything else the elements are what the whole is."""
        counted = isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "enumerate" and bool(iterated.args)
        if counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            assert isinstance(iterated, ast.Call)
            self._stored(target.elts[0], ast.Constant(0))
            self._looped(target.elts[1], iterated.args[0])
            return
        self._stored(target, iterated)

    def _stored(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
            for index, part in enumerate(target.elts):
                self._stored(part, values[index] if values is not None else value)
            return
        name = root_name(target.value if isinstance(target, ast.Starred) else target)
        if name is not None:
            self.stores.setdefault(name, []).append(value)
            if isinstance(target, ast.Name):
                self.bound.setdefault(name, []).append(value)

    def keeps_its_tensors(self, body: list[ast.stmt], *, whole: bool) -> bool:
        """True where no tensor made in these statements is returned, stored outside, or read after them."""
        inside = {id(n) for s in body for n in walk(s)}
        if not any(calls_in(s) for s in body):
            return False
        for node in (n for s in body for n in walk(s)):
            if isinstance(node, ast.Return) and node.value is not None and not self.is_plain(node.value):
                return False
            stored = isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
            if stored and not (isinstance(node, ast.Subscript) and self._is_own_container(root_name(node))):
                return False
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                root = root_name(node.func.value)
                grows = node.func.attr in ("append", "extend", "add", "insert", "setdefault")
                if grows and not self._is_own_container(root) and not all(self.is_plain(a) for a in node.args):
                    return False
        if whole:
            return True
        bound = {n for s in body for n in names_bound(s)} | self._grown(body)
        read_outside = {
            n.id
            for n in walk(self.function)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in inside
        }
        return all(self._is_plain_name(name) for name in bound & read_outside)

    def _is_own_container(self, name: str | None) -> bool:
        """True for a local name that only ever holds containers made in this function: no alias of something outside."""
        bound = self.bound.get(name or "", [])
        return bool(bound) and name not in self.arguments and all(_is_fresh(value) for value in bound)

    def _grown(self, body: list[ast.stmt]) -> set[str]:
        """Names of containers that the statements put something into."""
        found = set()
        for node in (n for s in body for n in walk(s)):
            target: ast.expr | None = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                target = node.func.value
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                target = node
            name = root_name(target) if target is not None else None
            if name in self.stores:
                found.add(str(name))
        return found

    def is_plain(self, node: ast.expr | None) -> bool:
        if node is None:
            return False
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.Compare):
            return not isinstance(node, ast.Compare) or all(self.is_plain(p) for p in (node.left, *node.comparators))
        if isinstance(node, ast.BinOp):
            return self.is_plain(node.left) and self.is_plain(node.right)
        if isinstance(node, ast.UnaryOp):
            return self.is_plain(node.operand)
        if isinstance(node, ast.BoolOp):
            return all(self.is_plain(v) for v in node.values)
        if isinstance(node, ast.IfExp):
            return self.is_plain(node.body) and self.is_plain(node.orelse)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return all(self.is_plain(e) for e in node.elts)
        if isinstance(node, ast.Dict):
            return all(self.is_plain(v) for v in node.values)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return self.is_plain(node.elt)
        if isinstance(node, ast.DictComp):
            return self.is_plain(node.value)
        if isinstance(node, ast.Subscript | ast.Starred):
            return self.is_plain(node.value)
        if isinstance(node, ast.Name):
            return self._is_plain_name(node.id)
        return isinstance(node, ast.Call) and self._is_plain_call(node)

    def _is_plain_call(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Name):
            if call.func.id in _PLAIN_FUNCTIONS:
                return True
            return call.func.id in _KEEPS_PLAIN and all(self.is_plain(a) for a in call.args)
        if not isinstance(call.func, ast.Attribute):
            return False
        name = self.scope.qualified(call.func) or ""
        return call.func.attr in _PLAIN_METHODS or name.startswith(("numpy.", "math.", "time.", "sklearn.", "os."))

    def _is_plain_name(self, name: str) -> bool:
        if name in self.arguments:
            return False  # it may be an object that keeps tensors
        if name in self.active:
            return True
        stores = self.stores.get(name)
        if stores is None:
            return True  # something global: not made here
        self.active.add(name)
        try:
            return all(self.is_plain(value) for value in stores)
        finally:
            self.active.discard(name)
