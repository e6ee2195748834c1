"""Other spellings of a source text, and mutants of it: syntax tree in, syntax tree out, drawn with a fixed seed.

A spelling computes what the text computed; a mutant may compute something else, or nothing.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable

METHODS = {
    "softmax": "torch",
    "sigmoid": "torch",
    "tanh": "torch",
    "erf": "torch",
    "rsqrt": "torch",
    "sqrt": "torch",
} | {
    "mean": "torch",
    "pow": "torch",
    "transpose": "torch",
    "matmul": "torch",
    "exp": "torch",
    "clamp": "torch",
    "masked_fill": "torch",
    "var": "torch",
}
"""Operations that are functions of a module and methods of a tensor, with the same arguments."""

Change = Callable[[ast.Module, random.Random], None]


def respelled(text: str, seed: int, changes: int = 6) -> str:
    """The text in another spelling: some changes, one after the other."""
    return _changed(text, seed, SPELLINGS, changes)


def mutated(text: str, seed: int) -> str:
    """The text with one change of what it says."""
    return _changed(text, seed, MUTATIONS, 1)


def _changed(text: str, seed: int, kinds: tuple[Change, ...], changes: int) -> str:
    draw = random.Random(seed)
    tree = ast.parse(text)
    for _ in range(changes):
        draw.choice(kinds)(tree, draw)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name != "__init__" and n.body]


def _replaced(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put `new` where `old` stands."""
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is old:
                setattr(node, name, new)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if item is old:
                        value[index] = new


def _sites(tree: ast.Module, kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> list[ast.AST]:
    return [n for function in _functions(tree) for s in function.body for n in ast.walk(s) if isinstance(n, kind)]


def _one(found: list[ast.AST], draw: random.Random) -> ast.AST | None:
    return draw.choice(found) if found else None


def _is_dotted(node: ast.AST, *heads: str) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in heads


# ---- spellings


def swap_operands(tree: ast.Module, draw: random.Random) -> None:
    found = [n for n in _sites(tree, ast.BinOp) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add | ast.Mult)]
    node = _one([*found], draw)
    if isinstance(node, ast.BinOp):
        node.left, node.right = node.right, node.left


def product_as_call(tree: ast.Module, draw: random.Random) -> None:
    found = [n for n in _sites(tree, ast.BinOp) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult)]
    node = _one([*found], draw)
    if isinstance(node, ast.BinOp):
        function = ast.Attribute(ast.Name("torch", ast.Load()), "matmul", ast.Load())
        _replaced(tree, node, ast.Call(function, [node.left, node.right], []))


def call_as_product(tree: ast.Module, draw: random.Random) -> None:
    found = [n for n in _sites(tree, ast.Call) if isinstance(n, ast.Call) and ast.unparse(n.func) == "torch.matmul"]
    node = _one([*found], draw)
    if isinstance(node, ast.Call):
        _replaced(tree, node, ast.BinOp(node.args[0], ast.MatMult(), node.args[1]))


def method_as_function(tree: ast.Module, draw: random.Random) -> None:
    found = [
        n
        for n in _sites(tree, ast.Call)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in METHODS
        and not _is_dotted(n.func, "torch", "F", "math", "self")
    ]
    node = _one([*found], draw)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        node.args.insert(0, node.func.value)
        node.func = ast.Attribute(ast.Name(METHODS[name], ast.Load()), name, ast.Load())


def function_as_method(tree: ast.Module, draw: random.Random) -> None:
    found = [
        n
        for n in _sites(tree, ast.Call)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in METHODS
        and _is_dotted(n.func, "torch", "F")
        and n.args
    ]
    node = _one([*found], draw)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node.func = ast.Attribute(node.args.pop(0), node.func.attr, ast.Load())


def division_as_product(tree: ast.Module, draw: random.Random) -> None:
    """`x / c` as `x * (1 / c)`, for a number c."""
    found = [
        n
        for n in _sites(tree, ast.BinOp)
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) and _is_number(n.right) and not _is_number(n.left)
    ]
    node = _one([*found], draw)
    if isinstance(node, ast.BinOp):
        node.op, node.right = ast.Mult(), ast.BinOp(ast.Constant(1.0), ast.Div(), node.right)


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).startswith("math.")
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def temporary_in(tree: ast.Module, draw: random.Random) -> None:
    """A part of a statement gets a name of its own in the line before."""
    function = draw.choice(_functions(tree))
    places = [
        (index, part)
        for index, statement in enumerate(function.body)
        if isinstance(statement, ast.Assign | ast.Return) and statement.value is not None
        for part in ast.walk(statement.value)
        if isinstance(part, ast.BinOp | ast.Call) and part is not statement.value
    ]
    if not places:
        return
    index, part = draw.choice(places)
    name = f"part_{draw.randrange(10**6)}"
    _replaced(function.body[index], part, ast.Name(name, ast.Load()))
    function.body.insert(index, ast.Assign([ast.Name(name, ast.Store())], part))


def temporary_out(tree: ast.Module, draw: random.Random) -> None:
    """A name that only the next statement reads, once, is replaced by its value there."""
    function = draw.choice(_functions(tree))
    places = []
    for index, (first, second) in enumerate(zip(function.body, function.body[1:], strict=False)):
        if isinstance(first, ast.Assign) and isinstance(first.targets[0], ast.Name):
            name = first.targets[0].id
            used = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
            there = [n for n in ast.walk(second) if isinstance(n, ast.Name) and n.id == name]
            if len(used) == 2 and len(there) == 1 and isinstance(second, ast.Assign | ast.Return):
                places.append((index, there[0], first.value))
    if places:
        index, name_node, value = draw.choice(places)
        _replaced(function.body[index + 1], name_node, value)
        del function.body[index]


def rename(tree: ast.Module, draw: random.Random) -> None:
    """A local variable of a function gets another name."""
    function = draw.choice(_functions(tree))
    arguments = {a.arg for a in function.args.args}
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if local := sorted(stored - arguments):
        old, new = draw.choice(local), f"v{draw.randrange(10**6)}"
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id == old:
                node.id = new


def helper_out(tree: ast.Module, draw: random.Random) -> None:
    """The value of a statement moves into a function of the file, or into a method where it needs `self`.

    Not that of the last statement but one: a kernel's result that another function returns is edited there, if at all.
    """
    owners = [(node, f) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for f in node.body]
    function = draw.choice(_functions(tree))
    statements = [s for s in function.body if isinstance(s, ast.Assign)][:-1]
    statements = [s for s in statements if isinstance(s.value, ast.BinOp | ast.Call)]
    if not statements or any(isinstance(n, ast.FunctionDef) and n is not function for n in ast.walk(function)):
        return
    statement = draw.choice(statements)
    local = {a.arg for a in function.args.args}
    local |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names = sorted({n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name) and n.id in local})
    needs_self = "self" in names
    owner = next((node for node, f in owners if f is function), None)
    if needs_self and owner is None:
        return
    given = [name for name in names if name != "self"]
    name = f"helper_{draw.randrange(10**6)}"
    form = [ast.arg("self"), *map(ast.arg, given)] if needs_self else [*map(ast.arg, given)]
    arguments = ast.arguments([], form, None, [], [], None, [])
    made = ast.FunctionDef(name, arguments, [ast.Return(copy.deepcopy(statement.value))], [], None, None)
    if needs_self and owner is not None:
        owner.body.append(made)
        called: ast.expr = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load())
    else:
        tree.body.insert(
            next(i for i, s in enumerate(tree.body) if not isinstance(s, ast.Import | ast.ImportFrom)), made
        )
        called = ast.Name(name, ast.Load())
    statement.value = ast.Call(called, [ast.Name(n, ast.Load()) for n in given], [])


SPELLINGS: tuple[Change, ...] = (
    swap_operands, product_as_call, call_as_product, method_as_function, function_as_method, division_as_product,
    temporary_in, temporary_out, rename, helper_out,
)  # fmt: skip


# ---- mutations


def other_number(tree: ast.Module, draw: random.Random) -> None:
    found = [
        n
        for n in _sites(tree, ast.Constant)
        if isinstance(n, ast.Constant) and isinstance(n.value, int | float) and not isinstance(n.value, bool)
    ]
    node = _one([*found], draw)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        changes: list[int | float] = [node.value + 1, -node.value]
        node.value = draw.choice([*changes, node.value * 1.5] if isinstance(node.value, float) else changes)


def other_operator(tree: ast.Module, draw: random.Random) -> None:
    found = [n for n in _sites(tree, ast.BinOp) if isinstance(n, ast.BinOp) and not isinstance(n.op, ast.MatMult)]
    node = _one([*found], draw)
    if isinstance(node, ast.BinOp):
        node.op = draw.choice(
            [op for op in (ast.Add(), ast.Sub(), ast.Mult(), ast.Div()) if type(op) is not type(node.op)]
        )


def swapped_operands(tree: ast.Module, draw: random.Random) -> None:
    """Also where the order matters."""
    node = _one(_sites(tree, ast.BinOp), draw)
    if isinstance(node, ast.BinOp):
        node.left, node.right = node.right, node.left


def operand_dropped(tree: ast.Module, draw: random.Random) -> None:
    node = _one(_sites(tree, ast.BinOp), draw)
    if isinstance(node, ast.BinOp):
        _replaced(tree, node, draw.choice([node.left, node.right]))


def other_name(tree: ast.Module, draw: random.Random) -> None:
    """A variable is read where another one was."""
    function = draw.choice(_functions(tree))
    read = [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    read = [n for n in read if n.id not in ("torch", "F", "math", "self", "nn")]
    if read:
        draw.choice(read).id = draw.choice(sorted({n.id for n in read}))


def argument_dropped(tree: ast.Module, draw: random.Random) -> None:
    found = [n for n in _sites(tree, ast.Call) if isinstance(n, ast.Call) and (n.keywords or len(n.args) > 1)]
    node = _one([*found], draw)
    if isinstance(node, ast.Call):
        (node.keywords or node.args).pop()


def call_dropped(tree: ast.Module, draw: random.Random) -> None:
    """The first argument, or the object of a method, stands for the call."""
    node = _one(_sites(tree, ast.Call), draw)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        dotted = _is_dotted(node.func, "torch", "F", "math", "self")
        if node.args or not dotted:
            _replaced(tree, node, node.args[0] if dotted else node.func.value)


def used_again(tree: ast.Module, draw: random.Random) -> None:
    """What is returned also has a part of what was computed."""
    function = draw.choice(_functions(tree))
    names = [s.targets[0].id for s in function.body if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)]
    last = function.body[-1]
    if names and isinstance(last, ast.Return) and last.value is not None:
        last.value = ast.Tuple([last.value, ast.Name(draw.choice(names), ast.Load())], ast.Load())


MUTATIONS: tuple[Change, ...] = (
    other_number, other_number, other_operator, swapped_operands, operand_dropped, other_name, argument_dropped,
    call_dropped, used_again,
)  # fmt: skip
