"""Reading rule files: a kernel, its definition, conditions and examples. Parsed, never executed."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import cast

from kernelwright.analyzers.architecture import Program
from kernelwright.analyzers.architecture.node import walk
from kernelwright.analyzers.finders.registry import FILE_FINDERS, FUNCTION_FINDERS
from kernelwright.analyzers.frontends.torch.scope import Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.normalise import NormalForm
from kernelwright.analyzers.opportunity import Numerics, Tier
from kernelwright.analyzers.source import Function, SourceError, parse_source


class RuleError(ValueError):
    """A rule file that cannot be used: what is wrong, and in which line. It disables only itself."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Parameter:
    """A variable of a definition. `neutral` is the value that stands for "absent" (None: it must be there).

    kind: tensor, number (proven to be a Python number), weight (a parameter of the module), mask (added or chosen by),
    added (a term that the kernel's text adds), kept (a mask that the kernel's text selects by),
    rows (a tensor proven to be 1 wide in its last axis), any
    (whatever the operation takes).
    """

    name: str
    kind: str
    neutral: int | float | bool | str | None


@dataclass(frozen=True)
class Variant:
    """One definition and its kernel call. `expression` is the kernel's return expression over the parameters.

    `required` are operations that any match must hold: a quick way to say no.
    """

    name: str
    parameters: tuple[Parameter, ...]
    definition: Program
    kernel: Program
    expression: ast.expr
    guard: ast.expr | None = None
    guard_program: Program | None = None
    required: frozenset[str] = frozenset()

    @property
    def kernel_name(self) -> str | None:
        """The qualified name of the function of `torch.nn.functional` that the kernel's expression calls first."""
        for node in ast.walk(self.expression):
            function = node.func if isinstance(node, ast.Call) else None
            if (
                isinstance(function, ast.Attribute)
                and isinstance(function.value, ast.Name)
                and function.value.id == "F"
            ):
                return f"torch.nn.functional.{function.attr}"
        return None


@dataclass(frozen=True)
class Example:
    """Source before, and after the fix (None where there must be no fix)."""

    before: str
    after: str | None


@dataclass(frozen=True)
class Rule:
    """A rule file's content. `page` is its documentation in Markdown.

    `roles` tells how inputs of a workload are filled (`workload.Workload.roles`). `lifted` names the parameters that get a
    first axis of size 1 where the code has three axes and the kernel wants four. `finder` names the entry of
    `finders.registry` that finds the places where no definition can say it (`variants` is empty then); `reports` are
    sources in which it reports without an edit.
    """

    name: str
    kernel: str
    tier: Tier
    numerics: Numerics
    min_torch: tuple[int, int]
    message: str
    keeps: tuple[str, ...]
    shapes: dict[str, tuple[str | int, ...]]
    conditions: tuple[str, ...]
    variants: tuple[Variant, ...]
    examples: tuple[Example, ...] = field(repr=False)
    page: str = field(repr=False)
    path: str
    roles: dict[str, str] = field(default_factory=dict)
    lifted: tuple[str, ...] = ()
    finder: str | None = None
    reports: tuple[str, ...] = field(default=(), repr=False)

    @property
    def title(self) -> str:
        return self.page.partition("\n")[0]


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """The rules that come with Kernelwright, by name."""
    folder = resources.files("kernelwright.analyzers.rules") / "torch"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".py")), key=lambda f: f.name)
    return tuple(load_rule(f.read_text(encoding="utf-8"), f.name) for f in files if f.name != "__init__.py")


_KINDS = {name.capitalize(): name for name in ("number", "mask", "tensor", "any", "weight", "added", "kept", "rows")}


def load_rule(text: str, path: str) -> Rule:
    """Read one rule file.

    Raises:
        RuleError: a syntax error, a missing or malformed part, a definition the language cannot express.
    """
    try:
        source = parse_source(text, path)
    except SourceError as error:
        raise RuleError(str(error), error.line) from error
    values: dict[str, object] = {}
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            try:
                values[statement.targets[0].id] = ast.literal_eval(statement.value)
            except ValueError as error:
                raise RuleError(f"{statement.targets[0].id} must be a literal", statement.lineno) from error
    page = ast.get_docstring(source.tree)
    if page is None:
        raise RuleError("the file needs a docstring: it is the rule's page")
    scope = Scope(source)
    functions = source.module_functions
    variants = []
    for name, function in functions.items():
        if not name.startswith("definition"):
            continue
        suffix = name.removeprefix("definition").lstrip("_")
        kernel = functions.get(f"kernel_{suffix or 'call'}")
        if kernel is None:
            raise RuleError(f"{name} has no kernel_{suffix or 'call'}", function.node.lineno)
        guard = functions.get(f"guard_{suffix or 'call'}")
        variants.append(_variant(scope, suffix, function, kernel, guard))
    finder = values.get("finder")
    if finder is not None and not (isinstance(finder, str) and (finder in FUNCTION_FINDERS or finder in FILE_FINDERS)):
        raise RuleError(
            f"there is no finder {finder!r}; there are: {', '.join(sorted(FUNCTION_FINDERS | FILE_FINDERS))}"
        )
    if not variants and finder is None:
        raise RuleError("the file needs a function named definition or definition_<variant>, or else a finder")

    def text_of(key: str) -> str:
        if not isinstance(values.get(key), str):
            raise RuleError(f"{key} is missing or no string")
        return str(values[key])

    tier, numerics = text_of("tier"), text_of("numerics")
    if tier not in ("exact", "guarded", "assumed", "advice", "bug") or numerics not in ("E", "T", "S"):
        raise RuleError("tier must be exact, guarded, assumed, advice or bug; numerics E, T or S")
    major, _, minor = text_of("min_torch").partition(".")
    return Rule(
        text_of("name"),
        text_of("kernel"),
        cast(Tier, tier),
        cast(Numerics, numerics),
        (int(major), int(minor or 0)),
        text_of("message"),
        _texts(values, "keeps"),
        _mapping(values, "shapes"),
        _texts(values, "conditions"),
        tuple(variants),
        (*_examples(values, "matches", True), *_examples(values, "does_not_match", False)),
        page,
        path,
        {key: str(value) for key, value in cast(dict[str, object], values.get("roles", {})).items()},
        _texts(values, "lifted"),
        finder,
        tuple(textwrap.dedent(text).strip("\n") + "\n" for text in _texts(values, "reports")),
    )


def _variant(scope: Scope, name: str, definition: Function, kernel: Function, guard: Function | None) -> Variant:
    parameters = []
    form = definition.node.args
    defaults = [None] * (len(form.args) - len(form.defaults)) + list(form.defaults)
    for argument, default in zip(form.args, defaults, strict=True):
        kind = "tensor"
        if isinstance(argument.annotation, ast.Name):
            kind = _KINDS.get(argument.annotation.id, "?")
            if kind == "?":
                raise RuleError(
                    f"parameter {argument.arg} must be Tensor, Number, Weight, Mask or Any", argument.lineno
                )
        neutral = ast.literal_eval(default) if default is not None else None
        parameters.append(Parameter(argument.arg, kind, neutral))
    programs = []
    for function in (definition, kernel, *((guard,) if guard is not None else ())):
        program = translate(scope, function).program
        blocked = [n for n in program.nodes() if n.operation in ("opaque", "call", "global")]
        if blocked:
            raise RuleError(f"{function.node.name}: {blocked[0].attributes} is not understood", function.node.lineno)
        programs.append(program)
    return Variant(
        name,
        tuple(parameters),
        programs[0],
        programs[1],
        _returned(kernel),
        _returned(guard) if guard is not None else None,
        programs[2] if guard is not None else None,
        _required(programs[0]),
    )


_DISPENSABLE = frozenset({"input", "constant", "dtype", "dtype_of", "add", "mul", "permute", "dropout", "cast", "size"})


def _required(definition: Program) -> frozenset[str]:
    form = NormalForm()
    normal = form.of(definition.outputs[0])
    return frozenset(n.operation for n in walk((normal,))) - _DISPENSABLE


def _returned(function: Function) -> ast.expr:
    last = function.node.body[-1]
    if len(function.node.body) != 1 or not isinstance(last, ast.Return) or last.value is None:
        raise RuleError(f"{function.node.name} must be a single return", function.node.lineno)
    return last.value


def _texts(values: dict[str, object], key: str) -> tuple[str, ...]:
    value = values.get(key, ())
    if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
        raise RuleError(f"{key} must be a tuple of strings")
    return value


def _mapping(values: dict[str, object], key: str) -> dict[str, tuple[str | int, ...]]:
    value = values.get(key, {})
    if not isinstance(value, dict):
        raise RuleError(f"{key} must map parameter names to tuples of axis names")
    return {str(name): tuple(axes) for name, axes in value.items()}


def _examples(values: dict[str, object], key: str, positive: bool) -> list[Example]:
    found = []
    for text in _texts(values, key):
        before, _, after = textwrap.dedent(text).strip("\n").partition("\n---\n")
        if positive and not after:
            raise RuleError(f"an example of {key} has no '---' and result")
        found.append(Example(before + "\n", after + "\n" if positive else None))
    return found
