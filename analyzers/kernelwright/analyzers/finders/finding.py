"""What a finder looks at, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernelwright.analyzers.architecture import Span
from kernelwright.analyzers.opportunity import Check, Condition, TextEdit
from kernelwright.analyzers.workload import Workload

if TYPE_CHECKING:
    from kernelwright.analyzers.detect import Detector
    from kernelwright.analyzers.frontends.torch.scope import Scope
    from kernelwright.analyzers.frontends.torch.translate import Translation
    from kernelwright.analyzers.rules.loader import Rule
    from kernelwright.analyzers.source import SourceFile


@dataclass(frozen=True, slots=True)
class Installed:
    """What is known of the chosen interpreter without running it. torch's version is (major, minor); None where not found.

    `packages` maps the names of installed distributions (lower case, `_` for `-` and `.`) to their versions; it is empty
    where there is no interpreter to look in. `torch_build` is what torch's version says of its build (`cpu`, `cu130`).
    """

    torch_version: tuple[int, int] | None = None
    packages: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    torch_build: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A place found by a finder.

    `function` is the qualified name of the function around it ("" at module level). `message` and `title` replace those of
    the rule. No `edits` means advice in words. `declined` is the reason where there is no fix although it looks like one.
    `identity` tells findings of one rule in one function apart, and must not hold line numbers. `snippet` is code that
    shows what the advice means, for the hover.
    """

    span: Span
    function: str
    identity: str = ""
    message: str | None = None
    title: str | None = None
    edits: tuple[TextEdit, ...] = ()
    check: Check = "same program"
    conditions: tuple[Condition, ...] = ()
    guard: str | None = None
    workload: Workload | None = None
    state_dict_changes: tuple[str, ...] = ()
    declined: str | None = None
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class FunctionView:
    """A translated function, for a function finder."""

    rule: Rule
    scope: Scope
    detector: Detector
    installed: Installed

    @property
    def translation(self) -> Translation:
        return self.detector.translation

    @property
    def source(self) -> SourceFile:
        return self.detector.translation.source


@dataclass(frozen=True, slots=True)
class FileView:
    """A whole file, for a file finder: training code at module level, constructors, `__init__`."""

    rule: Rule
    scope: Scope
    installed: Installed

    @property
    def source(self) -> SourceFile:
        return self.scope.source


FunctionFinder = Callable[[FunctionView], Iterable[Finding]]
FileFinder = Callable[[FileView], Iterable[Finding]]
