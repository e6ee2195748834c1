"""How much of a file's functions the front end understands, and the commonest causes where it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelwright.analyzers.architecture import Program
from kernelwright.analyzers.frontends.torch.scope import Resolver, Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.source import parse_source

LEAVES = frozenset({"input", "constant", "dtype", "global", "parameter", "attribute", "tuple"})
"""What computes nothing: these are not counted."""
NO_OPERATION = "unbound"
"""The reason of an `opaque` that stands for no operation: a name that one path leaves without a value."""
_EXAMPLE_WIDTH = 60


@dataclass
class Coverage:
    """Counts over programs. `operations` are all that compute something, `opaque` those not understood, `closed` calls of
    functions and submodules that are known but not looked into; `causes` and `examples` are by reason."""

    programs: int = 0
    operations: int = 0
    opaque: int = 0
    closed: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def understood(self) -> float:
        """The share of operations that are not opaque, in per cent."""
        return 100.0 * (self.operations - self.opaque) / self.operations if self.operations else 100.0

    def add(self, program: Program) -> None:
        self.programs += 1
        for node in program.nodes():
            if node.operation in LEAVES or node.attribute("reason") == NO_OPERATION:
                continue
            self.operations += 1
            if node.operation in ("call", "layer"):
                self.closed += 1
            elif node.operation == "opaque":
                self.opaque += 1
                reason = str(node.attribute("reason"))
                self.causes[reason] += 1
                written = " ".join(str(node.attribute("text") or "").split())
                self.examples.setdefault(reason, written[:_EXAMPLE_WIDTH])


def coverage_of(programs: Iterable[Program]) -> Coverage:
    found = Coverage()
    for program in programs:
        found.add(program)
    return found


def forward_programs(text: str, path: str, resolver: Resolver | None = None) -> list[Program]:
    """The programs of all `forward` methods of a file.

    Raises:
        SourceError: the file cannot be parsed.
    """
    source = parse_source(text, path)
    scope = Scope(source, resolver)
    chosen = [f for f in source.functions if f.node.name == "forward" and f.class_node is not None]
    programs = []
    for function in chosen:
        try:
            programs.append(translate(scope, function).program)
        except RecursionError:
            continue  # an expression nested deeper than Python's stack
    return programs
