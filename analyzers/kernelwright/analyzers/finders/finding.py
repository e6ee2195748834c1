"""What a finder looks at, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kernelwright.analyzers.architecture import Span
from kernelwright.analyzers.opportunity import Condition, TextEdit
from kernelwright.analyzers.workload import Workload

if TYPE_CHECKING:
    from kernelwright.analyzers.detect import Detector
    from kernelwright.analyzers.frontends.torch.scope import Scope
    from kernelwright.analyzers.frontends.torch.translate import Translation
    from kernelwright.analyzers.rules.loader import Rule
    from kernelwright.analyzers.source import SourceFile

Check = Literal["same program", "keywords", "none"]
"""How the edited text is checked before it is offered. same program: `same_program.difference` of the edited function.
keywords: the syntax tree is the old one but for keyword arguments of one call, whose effect the finder has proven.
none: the edit is not checked; only rules of the tiers advice and bug may say so, and the finding tells it."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What is known of the chosen interpreter without running it. Versions are (major, minor); None where not found."""

    torch_version: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A place found by a finder.

    `function` is the qualified name of the function around it ("" at module level). `message` and `title` replace those of
    the rule. No `edits` means advice in words. `declined` is the reason where there is no fix although it looks like one.
    `identity` tells findings of one rule in one function apart, and must not hold line numbers.
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
