"""Dataclasses and named tuples: classes that only hold fields, such as the outputs of a model."""

from __future__ import annotations

import ast

from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.values import ClassFacts


def record_fields(scope: Scope, facts: ClassFacts, depth: int = 4) -> tuple[str, ...] | None:
    """The fields of a dataclass or named tuple in order, inherited ones first; None for any other class."""
    decorators = [scope.qualified(d.func if isinstance(d, ast.Call) else d) or "" for d in facts.node.decorator_list]
    bases = [scope.qualified(base) or "" for base in facts.node.bases]
    is_record = any(d.rpartition(".")[2] == "dataclass" for d in decorators) or any(
        base.rpartition(".")[2] == "NamedTuple" for base in bases
    )
    if not is_record or depth == 0:
        return None
    own = {s.name for s in facts.node.body if isinstance(s, ast.FunctionDef)}
    if own & {"__init__", "__post_init__", "__new__"}:
        return None
    fields: dict[str, None] = {}
    for base in bases:
        inherited = scope.base_facts(base)
        if inherited is not None and inherited.node is not facts.node:
            inner = record_fields(scope.of(inherited.source), inherited, depth - 1)
            fields.update(dict.fromkeys(inner or ()))
    for statement in facts.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            fields[statement.target.id] = None
    return tuple(fields)
