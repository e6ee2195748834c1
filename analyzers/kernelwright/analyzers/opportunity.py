"""What the analyzers find: an opportunity with its conditions, as plain data that any front can show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kernelwright.analyzers.architecture import Span
from kernelwright.analyzers.workload import Workload

Tier = Literal["exact", "guarded", "assumed", "advice", "bug"]
"""exact: in fix-all. guarded: the edit keeps the old path behind an `if`, or the result is equal within the dtype's
tolerance only. assumed: marked unsafe, the user must know. advice: no edit in fix-all ever. bug: the code looks wrong."""

State = Literal["proven", "guarded", "assumed", "violated"]

Numerics = Literal["E", "T", "S"]
"""E: same to rounding. T: within the dtype's tolerance. S: the semantics change."""


Check = Literal["same program", "keywords", "names", "none"]
"""How the edited text is checked before it is offered. same program: `same_program.difference` of the edited function.
keywords: the syntax tree is the old one but for keyword arguments of one call, whose effect the finder has proven.
names: the tree is the old one but for one attribute's name (`no_grad`), likewise.
none: the edit is not checked; only rules of the tiers advice and bug may say so, and the card tells it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One precondition of a rule at one place: its name (a predicate), its state, and a sentence for the user."""

    name: str
    state: State
    text: str


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace `text[start:end]` (offsets in code points of the file's text) by `replacement`."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Opportunity:
    """A place where an optimized kernel computes the same thing.

    `key` names the finding across edits elsewhere in the file: rule, qualified name and the program's fingerprint.
    `title` is the quick fix's title. `declined` holds the reason where no fix is offered (a condition is violated or the
    same-program check failed); such findings are shown on request only. `guard` is the source text of the run-time test
    where the edit keeps the old path. `keeps` are sentences on what stays the same. `has_edit` is False for advice in words,
    whose `snippet` is code that shows what is meant. `check` tells how the edit was checked.
    """

    file: str
    rule: str
    class_name: str | None
    function: str
    span: Span
    tier: Tier
    conditions: tuple[Condition, ...]
    kernel: str
    numerics: Numerics
    message: str
    title: str
    key: str
    workload: Workload | None = None
    state_dict_changes: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    guard: str | None = None
    declined: str | None = None
    has_edit: bool = True
    check: Check = "same program"
    snippet: str = ""

    @property
    def conditional(self) -> bool:
        return self.tier != "exact"

    @property
    def qualified_name(self) -> str:
        return f"{self.class_name}.{self.function}" if self.class_name else self.function


@dataclass(frozen=True, slots=True)
class FixResult:
    """A file's text after fixes: what was applied, and what was withheld with the reason."""

    text: str
    applied: tuple[Opportunity, ...] = ()
    withheld: tuple[tuple[Opportunity, str], ...] = field(default=())
