"""The class that an expression makes a layer of: by name, by a function of the file, by a constructor's default."""

from __future__ import annotations

import ast

from kernelwright.analyzers.frontends.torch.scope import Scope


def class_of(
    scope: Scope, call: ast.Call, around: ast.FunctionDef | ast.AsyncFunctionDef | None = None
) -> tuple[str, bool]:
    """The qualified class of what a call makes ("" where it is not known), and whether that is only what a parameter of the
    function `around` it stands for by default."""
    name = call.func.id if isinstance(call.func, ast.Name) else None
    if name is not None and around is not None and name in _parameters(around):
        default = _default(around, name)
        return (scope.qualified(default) or "", True) if default is not None else ("", False)
    function = scope.source.module_functions.get(name or "")
    if function is not None:
        # `def conv3x3(a, b): return nn.Conv2d(a, b, 3)`
        last = function.node.body[-1]
        returns = [n for n in ast.walk(function.node) if isinstance(n, ast.Return)]
        if len(returns) == 1 and last is returns[0] and isinstance(last.value, ast.Call):
            return scope.qualified(last.value.func) or "", False
        return "", False
    return scope.qualified(call.func) or "", False


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    form = function.args
    return {a.arg for a in (*form.posonlyargs, *form.args, *form.kwonlyargs)}


def _default(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """What a parameter is where the caller does not say: its default, or what `if name is None: name = ...` sets."""
    form = function.args
    positional = [*form.posonlyargs, *form.args]
    pairs = [
        *zip(positional[len(positional) - len(form.defaults) :], form.defaults, strict=True),
        *zip(form.kwonlyargs, form.kw_defaults, strict=True),
    ]
    default = next((default for argument, default in pairs if argument.arg == name), None)
    if not (isinstance(default, ast.Constant) and default.value is None):
        return default
    for statement in function.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == f"{name} is None":
            for inner in statement.body:
                if isinstance(inner, ast.Assign) and any(
                    isinstance(t, ast.Name) and t.id == name for t in inner.targets
                ):
                    return inner.value
    return None
