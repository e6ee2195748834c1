"""The engine: a file's text in, opportunities out; on request the edits of one, checked to be the same program.

The way: `source` parses, `frontends.torch` translates each function, `detect` finds sites of definitions and `finders` what
no definition can say, `offers` makes opportunities of them: the edit, the conditions, the check of the edited text.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kernelwright.analyzers.architecture import Node, Program
from kernelwright.analyzers.detect import Detector, Site
from kernelwright.analyzers.finders.finding import FileView, FunctionView, Installed
from kernelwright.analyzers.finders.registry import FILE_FINDERS, FUNCTION_FINDERS
from kernelwright.analyzers.frontends.torch.scope import Resolver, Scope
from kernelwright.analyzers.frontends.torch.translate import translate
from kernelwright.analyzers.offers import Offer, Surroundings, apply_edits, offer_of_finding, offer_of_site
from kernelwright.analyzers.opportunity import FixResult, Opportunity, TextEdit, Tier
from kernelwright.analyzers.rules.loader import Rule, rules
from kernelwright.analyzers.source import Function, SourceError, SourceFile, mentions_torch, parse_source
from kernelwright.analyzers.suppressions import suppression_edit, suppressions
from kernelwright.analyzers.syntax_tree import walk


@dataclass(frozen=True, slots=True)
class Settings:
    """What an analysis depends on besides the text. `torch_version`, `packages` and `torch_build` are those of the
    chosen interpreter (see `Installed`); `advice` asks for the rules of that tier too."""

    torch_version: tuple[int, int] | None = None
    rules: frozenset[str] | None = None
    batch: int | None = None
    sequence: int | None = None
    resolver: Resolver | None = None
    advice: bool = False
    ignored: frozenset[str] = frozenset()
    packages: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    torch_build: str | None = None

    @property
    def installed(self) -> Installed:
        return Installed(self.torch_version, self.packages, self.torch_build)

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(self.torch_version, self.batch, self.sequence, self.resolver)

    def wants(self, rule: Rule) -> bool:
        """Advice is given where it is asked for, or its rule is named."""
        if rule.name in self.ignored:
            return False
        if self.rules is not None:
            return rule.name in self.rules
        return self.advice or rule.tier != "advice"


@dataclass(frozen=True)
class FileAnalysis:
    """The findings of one text. `declined` are places where no fix is offered, with the reason in `declined`."""

    path: str
    text: str
    opportunities: tuple[Opportunity, ...] = ()
    declined: tuple[Opportunity, ...] = ()
    error: str | None = None
    plans: dict[str, tuple[TextEdit, ...]] = field(default_factory=dict, repr=False, compare=False)


class Withheld(Exception):
    """The fix is not offered; the message is the reason, for people."""


def analyse(text: str, path: str, settings: Settings = Settings()) -> FileAnalysis:
    """All findings of a file. Never raises on bad input: `error` then says what is wrong."""
    if not mentions_torch(text):
        return FileAnalysis(path, text)
    try:
        source = parse_source(text, path)
    except SourceError as error:
        return FileAnalysis(path, text, error=str(error))
    scope = Scope(source, settings.resolver)
    chosen = [rule for rule in rules() if settings.wants(rule)]
    collected = _Collected()
    for offer in _file_offers(scope, [r for r in chosen if r.finder in FILE_FINDERS], settings):
        collected.add(offer)
    rest = [r for r in chosen if r.variants or r.finder in FUNCTION_FINDERS]
    for function in source.functions if rest else ():
        if not _worth_translating(function) or _is_compiled_apart(scope, function):
            continue
        try:
            for offer in _function_offers(scope, function, rest, settings):
                collected.add(offer)
        except RecursionError:
            continue  # an expression nested deeper than Python's stack: nothing is known of it
    found, declined, plans = collected.found, collected.declined, collected.plans
    silenced = suppressions(source)
    found = [o for o in found if not any(s.silences(o.rule, o.span) for s in silenced)]
    found.sort(key=lambda o: (o.span, o.rule))
    declined.sort(key=lambda o: (o.span, o.rule))
    return FileAnalysis(path, text, tuple(found), tuple(declined), None, plans)


@dataclass
class _Collected:
    """The offers of a file, each under a key of its own."""

    found: list[Opportunity] = field(default_factory=list)
    declined: list[Opportunity] = field(default_factory=list)
    plans: dict[str, tuple[TextEdit, ...]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, offer: Offer) -> None:
        opportunity = offer.opportunity
        self.counts[opportunity.key] += 1
        if self.counts[opportunity.key] > 1:
            opportunity = replace(opportunity, key=f"{opportunity.key}-{self.counts[opportunity.key]}")
        if opportunity.declined is not None or (opportunity.has_edit and offer.edits is None):
            self.declined.append(opportunity)
            return
        self.found.append(opportunity)
        if offer.edits is not None:
            self.plans[opportunity.key] = offer.edits


def _file_offers(scope: Scope, chosen: list[Rule], settings: Settings) -> Iterator[Offer]:
    for rule in chosen:
        assert rule.finder is not None
        view = FileView(rule, scope, settings.installed)
        for finding in FILE_FINDERS[rule.finder](view):
            yield offer_of_finding(rule, finding, scope.source, None, settings.surroundings)


def _function_offers(scope: Scope, function: Function, chosen: list[Rule], settings: Settings) -> Iterator[Offer]:
    translation = translate(scope, function)
    detector = Detector(translation)
    sites = _apart([site for rule in chosen if rule.variants for site in detector.sites(rule)])
    for site in sites:
        if not site.done:
            yield offer_of_site(detector, site, settings.surroundings)
    for rule in chosen:
        if rule.finder in FUNCTION_FINDERS:
            view = FunctionView(rule, scope, detector, settings.installed)
            for finding in FUNCTION_FINDERS[rule.finder](view):
                yield offer_of_finding(rule, finding, scope.source, translation, settings.surroundings)


def _apart(sites: list[Site]) -> list[Site]:
    """Sites that share no operation: of two that overlap, the one that covers more."""
    taken: set[Node] = set()
    kept = []
    for site in sorted(sites, key=lambda s: -len(s.region)):
        if not taken & site.region:
            taken |= site.region
            kept.append(site)
    return kept


def _worth_translating(function: Function) -> bool:
    """Cheap filter: a function without a call or an operator computes nothing a rule could match."""
    return any(isinstance(n, ast.BinOp | ast.Call) for n in walk(function.node)) and function.node.name != "__init__"


def _is_compiled_apart(scope: Scope, function: Function) -> bool:
    """True for TorchScript functions and autograd functions: their bodies follow rules of their own and are left alone."""
    for decorator in function.node.decorator_list:
        name = scope.qualified(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
        if name.startswith("torch.jit.script"):
            return True
    bases = function.class_node.bases if function.class_node is not None else []
    return any((scope.qualified(base) or "").endswith("autograd.Function") for base in bases)


def edits(analysis: FileAnalysis, opportunity: Opportunity) -> tuple[TextEdit, ...]:
    """The edits of one finding; they have passed the same-program check when it was found.

    Raises:
        Withheld: there is no edit, or the edited function is not shown to be the same program.
    """
    if opportunity.declined is not None:
        raise Withheld(opportunity.declined)
    if not opportunity.has_edit:
        raise Withheld("this is advice in words, there is no edit to apply")
    planned = analysis.plans.get(opportunity.key)
    if planned is None:
        raise Withheld("the file has changed since this was found")
    return planned


def silencing_edit(analysis: FileAnalysis, opportunity: Opportunity) -> TextEdit:
    """The edit that inserts the comment which silences a finding (see `suppressions`)."""
    return suppression_edit(parse_source(analysis.text, analysis.path), opportunity)


DEFAULT_TIERS: frozenset[Tier] = frozenset({"exact", "guarded"})


def fix(
    text: str,
    path: str,
    settings: Settings = Settings(),
    tiers: frozenset[Tier] = DEFAULT_TIERS,
    names: frozenset[str] | None = None,
    skip: frozenset[str] = frozenset(),
) -> FixResult:
    """Apply every fix of the tiers, one after the other, each checked; a second call changes nothing.

    `skip` holds keys of findings to leave alone (measured here, and not worth it).
    """
    applied: list[Opportunity] = []
    withheld: list[tuple[Opportunity, str]] = []
    refused = set(skip)
    for _ in range(200):
        analysis = analyse(text, path, settings)
        todo = [
            o
            for o in analysis.opportunities
            if o.tier in tiers and (names is None or o.rule in names) and o.key not in refused and o.has_edit
        ]
        if not todo:
            break
        # From the end of the file, so that the places found before stay where they are.
        chosen = todo[-1]
        try:
            text = apply_edits(text, edits(analysis, chosen))
            applied.append(chosen)
        except Withheld as error:
            refused.add(chosen.key)
            withheld.append((chosen, str(error)))
    return FixResult(text, tuple(applied), tuple(withheld))


def programs(
    text: str, path: str, qualified_name: str | None = None, settings: Settings = Settings()
) -> tuple[Program, ...]:
    """The programs of a file: of one class (its forward), of one function, or of everything.

    Raises:
        SourceError: the file cannot be parsed.
        KeyError: there is no such class or function.
    """
    source = parse_source(text, path)
    scope = Scope(source, settings.resolver)
    chosen = _chosen(source, qualified_name)
    return tuple(translate(scope, function).program for function in chosen)


def _chosen(source: SourceFile, qualified_name: str | None) -> list[Function]:
    if qualified_name is None:
        return [f for f in source.functions if f.node.name != "__init__"]
    chosen = [f for f in source.functions if f.qualified_name in (qualified_name, f"{qualified_name}.forward")]
    if not chosen:
        raise KeyError(f"no class or function {qualified_name!r} in {source.path}")
    return chosen


def explain_line(text: str, path: str, line: int, settings: Settings = Settings()) -> str:
    """What is known about a line: the finding there, why it is declined, or the furthest point a match reached."""
    analysis = analyse(text, path, settings)
    if analysis.error is not None:
        return analysis.error
    parts: list[str] = []
    for o in analysis.opportunities:
        if o.span.start_line <= line <= o.span.end_line:
            states = "\n".join(f"  {c.state}: {c.text}" for c in o.conditions)
            parts.append(f"{o.rule} ({o.tier}): {o.message}\n{states}")
    declined = [o for o in analysis.declined if o.span.start_line <= line <= o.span.end_line]
    parts.extend(f"{o.rule}: no fix: {o.declined}" for o in declined)
    parts.extend(_near_misses(text, path, line, settings) if not parts else [])
    return "\n".join(parts) or f"line {line}: no rule begins to match here"


def _near_misses(text: str, path: str, line: int, settings: Settings) -> list[str]:
    source = parse_source(text, path)
    scope = Scope(source, settings.resolver)
    lines = []
    for function in source.functions:
        if not function.node.lineno <= line <= (function.node.end_lineno or 0):
            continue
        detector = Detector(translate(scope, function))
        for rule in rules():
            for _ in detector.sites(rule):
                pass
        for miss in sorted(detector.near_misses, key=lambda m: -m.blocked.depth)[:3]:
            if miss.node.span is None:
                continue
            blocking = next(
                (raw for raw, n in detector.normal.items() if n is miss.blocked.node and raw.span is not None), None
            )
            where = (
                f"line {blocking.span.start_line}"
                if blocking is not None and blocking.span
                else "a value without a line"
            )
            what = ""
            if blocking is not None and blocking.span is not None:
                what = " `" + text[slice(*source.offsets(blocking.span))].partition("\n")[0] + "`"
            lines.append(
                f"{miss.rule}: began to match at line {miss.node.span.start_line}, blocked by{what}, {where} "
                f"(expected {miss.blocked.expected})"
            )
    return lines
