"""Printing kernel calls and values as Python source for torch, with the names a place in the code has at hand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from kernelwright.analyzers.architecture import Attribute, Node

TextOf = Callable[[Node], str | None]

_PRECEDENCE = {"or": 1, "and": 2, "not": 3, "compare": 4, "add": 6, "mul": 7, "unary": 8, "pow": 9, "atom": 10}


class Unprintable(Exception):
    """A value has no name and no source text at the place of the edit; the message says which."""


def parenthesised(text: str, at_least: str) -> str:
    """The expression in parentheses if it binds looser than the place needs."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return f"({text})"
    return text if _level(node) >= _PRECEDENCE[at_least] else f"({text})"


def _level(node: ast.expr) -> int:
    if isinstance(node, ast.IfExp | ast.Lambda):
        return 0
    if isinstance(node, ast.BoolOp):
        return _PRECEDENCE["or" if isinstance(node.op, ast.Or) else "and"]
    if isinstance(node, ast.UnaryOp):
        return _PRECEDENCE["not" if isinstance(node.op, ast.Not) else "unary"]
    if isinstance(node, ast.Compare):
        return _PRECEDENCE["compare"]
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow):
            return _PRECEDENCE["pow"]
        return _PRECEDENCE["add" if isinstance(node.op, ast.Add | ast.Sub) else "mul"]
    return _PRECEDENCE["atom"]


def literal(value: Attribute) -> str:
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{"-" if value < 0 else ""}inf")'
    if isinstance(value, str) and value.isprintable():
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def kernel_text(template: ast.expr, texts: Mapping[str, str | None], module: Callable[[str], str]) -> str:
    """The kernel's return expression over its parameters, printed with the texts bound to them.

    A parameter whose text is None was absent: a keyword argument that is just it, or a factor or summand, is left out.
    `module` maps a qualified module name (`torch.nn.functional`) to how the file spells it.
    """
    text = _print(template, texts, module)
    if text is None:
        raise Unprintable("the kernel's only value is absent")
    return text


_ALIASES = {"F": "torch.nn.functional", "torch": "torch", "math": "math"}


def _print(node: ast.expr, texts: Mapping[str, str | None], module: Callable[[str], str]) -> str | None:
    if isinstance(node, ast.Name):
        if node.id in texts:
            return texts[node.id]
        return module(_ALIASES[node.id]) if node.id in _ALIASES else node.id
    if isinstance(node, ast.Constant):
        return literal(node.value) if isinstance(node.value, bool | int | float | str | None) else repr(node.value)
    if isinstance(node, ast.Attribute):
        base = _print(node.value, texts, module) or "None"
        if node.attr == "dtype":
            base = _without_views(base)
        return f"{parenthesised(base, 'atom')}.{node.attr}"
    if isinstance(node, ast.Tuple):
        parts = [_print(e, texts, module) or "None" for e in node.elts]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(node, ast.Subscript):
        return f"{_print(node.value, texts, module)}[{_print(node.slice, texts, module)}]"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"-{parenthesised(_print(node.operand, texts, module) or 'None', 'unary')}"
    if isinstance(node, ast.BinOp):
        return _binary(node, texts, module)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        operator = {"Eq": "==", "NotEq": "!=", "Is": "is", "IsNot": "is not"}[type(node.ops[0]).__name__]
        left, right = (_print(e, texts, module) or "None" for e in (node.left, node.comparators[0]))
        return f"{parenthesised(left, 'add')} {operator} {parenthesised(right, 'add')}"
    if isinstance(node, ast.BoolOp):
        word = "and" if isinstance(node.op, ast.And) else "or"
        return f" {word} ".join(parenthesised(_print(e, texts, module) or "None", "not") for e in node.values)
    if isinstance(node, ast.Call):
        function = _print(node.func, texts, module)
        arguments = [_print(a, texts, module) or "None" for a in node.args]
        for keyword in node.keywords:
            value = _print(keyword.value, texts, module)
            if value is not None:
                arguments.append(f"{keyword.arg}={value}")
        return f"{function}({', '.join(arguments)})"
    raise Unprintable(f"a kernel template with {type(node).__name__}")


def _without_views(text: str) -> str:
    """The tensor of which a text takes views: it has their element type, and is shorter to write."""
    node = ast.parse(text, mode="eval").body
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        node = node.func.value
    return ast.get_source_segment(text, node) or text


_VIEWS = frozenset({"unflatten", "flatten", "unsqueeze", "squeeze", "transpose"})


def _binary(node: ast.BinOp, texts: Mapping[str, str | None], module: Callable[[str], str]) -> str | None:
    left, right = _print(node.left, texts, module), _print(node.right, texts, module)
    if left is None or right is None:
        return right if left is None else left
    symbol, level = {
        "Add": ("+", "add"), "Sub": ("-", "add"), "Mult": ("*", "mul"), "Div": ("/", "mul"), "Pow": ("**", "pow")
    }[type(node.op).__name__]  # fmt: skip
    right_level = {"add": "mul", "mul": "unary", "pow": "unary"}[level]
    left_level = "atom" if level == "pow" else level
    return f"{parenthesised(left, left_level)} {symbol} {parenthesised(right, right_level)}"


def value_text(node: Node, text_of: TextOf, module: Callable[[str], str]) -> str:
    """Source text for a normal node, built from values that have a text.

    Raises:
        Unprintable: some value under it has none and cannot be built.
    """
    named = text_of(node)
    if named is not None:
        return named

    def inner(operand: Node) -> str:
        return value_text(operand, text_of, module)

    operation = node.operation
    if operation == "constant":
        return literal(node.attribute("value"))
    if operation in ("attribute", "parameter"):
        return _attribute_text(str(node.attribute("path")))
    if operation == "field":
        return f"{parenthesised(inner(node.inputs[0]), 'atom')}.{node.attribute('name')}"
    if operation == "dtype":
        return f"{module('torch')}.{node.attribute('name')}"
    if operation == "dtype_of":
        return f"{parenthesised(inner(node.inputs[0]), 'atom')}.dtype"
    if operation == "size":
        return f"{parenthesised(inner(node.inputs[0]), 'atom')}.size({node.attribute('dim')})"
    if operation == "choose":
        condition, a, b = node.inputs
        if condition.operation == "is_none" and a.operation == "constant" and a.attribute("value") in (0, None):
            # An optional argument: absent and None are the same to the kernel.
            if b is condition.inputs[0]:
                return inner(b)
            return f"None if {inner(condition)} else {inner(b)}"
        for arm, other, test in ((a, b, condition), (b, a, Node("logical_not", (condition,)))):
            if arm.operation == "constant" and arm.attribute("value") is True and other.operation != "constant":
                # A keep mask of nothing but True is no mask.
                return f"None if {inner(test)} else {inner(other)}"
        second = "0.0" if b.operation == "constant" and b.attribute("value") == 0 else inner(b)
        return f"{parenthesised(inner(a), 'or')} if {inner(condition)} else {second}"
    if operation == "truth":
        return inner(node.inputs[0])
    if operation == "is_none":
        return f"{inner(node.inputs[0])} is None"
    if operation == "equal":
        return f"{parenthesised(inner(node.inputs[0]), 'add')} == {parenthesised(inner(node.inputs[1]), 'add')}"
    if operation == "logical_and":
        return " and ".join(parenthesised(inner(part), "not") for part in node.inputs)
    if operation == "logical_not":
        return _negation(node.inputs[0], inner)
    if operation == "pow":
        return _power(node, inner)
    if operation == "mul":
        return _product(node, inner)
    if operation == "add" and len(node.inputs) <= 3:
        return _sum(node, inner)
    if operation == "permute" and node.attribute("dims") == (-1, -2):
        return f"{parenthesised(inner(node.inputs[0]), 'atom')}.transpose(-2, -1)"
    if operation == "permute" and (exchanged := _exchanged(node.attribute("dims"))) is not None:
        return f"{parenthesised(inner(node.inputs[0]), 'atom')}.transpose{exchanged}"
    if operation == "slice":
        return _slice(node, inner)
    if operation == "cast":
        return f"{parenthesised(inner(node.inputs[0]), 'atom')}.to({inner(node.inputs[1])})"
    if operation == "expand":
        x, *sizes = node.inputs
        return f"{parenthesised(inner(x), 'atom')}.expand({', '.join(inner(size) for size in sizes)})"
    if operation == "unflatten":
        x, *sizes = node.inputs
        text = ", ".join(inner(size) for size in sizes)
        return f"{parenthesised(inner(x), 'atom')}.unflatten({node.attribute('dim')}, ({text}))"
    raise Unprintable(f"a value ({operation}) that has no name here")


def _exchanged(dims: Attribute) -> tuple[int, int] | None:
    """The two axes, counted from the end, that an order exchanges, if it does nothing else."""
    if not isinstance(dims, tuple):
        return None
    moved = [place - len(dims) for place, axis in enumerate(dims) if axis != place - len(dims)]
    return (moved[0], moved[1]) if len(moved) == 2 else None


def _attribute_text(path: str) -> str:
    """`self.attend[1].p` for the path `attend.1.p`: a number is a place in a container."""
    text = "self"
    for part in path.split("."):
        text += f"[{part}]" if part.isdigit() else f".{part}"
    return text


def _negation(node: Node, inner: Callable[[Node], str]) -> str:
    if node.operation == "equal":
        return f"{parenthesised(inner(node.inputs[0]), 'add')} != {parenthesised(inner(node.inputs[1]), 'add')}"
    if node.operation == "is_none":
        return f"{inner(node.inputs[0])} is not None"
    return f"~{parenthesised(inner(node), 'unary')}"


def _power(node: Node, inner: Callable[[Node], str]) -> str:
    base, exponent = node.inputs
    text = parenthesised(inner(base), "atom")
    value = exponent.attribute("value")
    if value == -1:
        return f"1.0 / {text}"
    return f"{text}**{literal(value) if exponent.operation == 'constant' else parenthesised(inner(exponent), 'unary')}"


def _sum(node: Node, inner: Callable[[Node], str]) -> str:
    def is_negative(term: Node) -> bool:
        return term.operation == "mul" and term.inputs[0].attribute("value") == -1 and len(term.inputs) == 2

    text = ""
    terms = node.inputs[::-1]
    for term in (*(t for t in terms if not is_negative(t)), *(t for t in terms if is_negative(t))):
        negative = is_negative(term)
        if text and negative:
            text += f" - {parenthesised(inner(term.inputs[1]), 'mul')}"
        else:
            text += f"{' + ' if text else ''}{parenthesised(_summand(term, inner), 'add')}"
    return text


def _slice(node: Node, inner: Callable[[Node], str]) -> str:
    """`x[:, :, a:b]`, slices of several axes in one pair of brackets."""
    parts: dict[int, str] = {}
    while node.operation == "slice" and (dim := node.attribute("dim")) not in parts:
        base, *bounds = node.inputs
        if not isinstance(dim, int) or dim < 0 or not _is_none(bounds[2]):
            raise Unprintable("a value (slice) that has no name here")
        start, stop = ("" if _is_none(bound) else inner(bound) for bound in bounds[:2])
        parts[dim] = f"{start}:{stop}" if " " not in start + stop else f"{start} : {stop}".strip()
        node = base
    return f"{parenthesised(inner(node), 'atom')}[{', '.join(parts.get(axis, ':') for axis in range(max(parts) + 1))}]"


def _is_none(node: Node) -> bool:
    return node.operation == "constant" and node.attribute("value") is None


def _summand(node: Node, inner: Callable[[Node], str]) -> str:
    """A term of a sum: where it may be absent, 0.0 stands for it."""
    if node.operation == "choose" and node.inputs[0].operation == "is_none" and node.inputs[1].attribute("value") == 0:
        return f"0.0 if {inner(node.inputs[0])} else {inner(node.inputs[2])}"
    return inner(node)


def _product(node: Node, inner: Callable[[Node], str]) -> str:
    over: list[str] = []
    under: list[str] = []
    for factor in node.inputs:
        if factor.operation == "pow" and factor.inputs[1].attribute("value") == -1:
            under.append(parenthesised(inner(factor.inputs[0]), "atom"))
        else:
            over.append(parenthesised(inner(factor), "mul"))
    text = " * ".join(over) or "1.0"
    return text + "".join(f" / {part}" for part in under)


def condition_text(condition: Node, value: bool, text_of: TextOf, module: Callable[[str], str]) -> str:
    """A branch condition as a Python test that is true where the condition has the given value."""
    if condition.operation in ("is_none", "equal"):
        node = condition if value else Node("logical_not", (condition,))
        return value_text(node, text_of, module)
    text = value_text(condition, text_of, module)
    return text if value else f"not {parenthesised(text, 'compare')}"
