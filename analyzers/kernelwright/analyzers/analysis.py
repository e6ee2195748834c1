"""The engine: a file's text in, opportunities out; on request the edits of one, checked to be the same program.

The way: `source` parses, `frontends.torch` translates each function, `detect` finds sites, `rewrite` plans the edit,
`predicates` judges the conditions, `same_program` checks the edited text.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kernelwright.analyzers.architecture import Node, Program, Span
from kernelwright.analyzers.detect import Detector, Site
from kernelwright.analyzers.frontends.torch.scope import Resolver, Scope
from kernelwright.analyzers.frontends.torch.translate import Translation, translate
from kernelwright.analyzers.kernel_call import NoEdit
from kernelwright.analyzers.opportunity import Condition, FixResult, Opportunity, TextEdit, Tier
from kernelwright.analyzers.predicates import Place, conditions_of
from kernelwright.analyzers.rewrite import Plan, plan_edit
from kernelwright.analyzers.rules.loader import Rule, rules
from kernelwright.analyzers.same_program import difference
from kernelwright.analyzers.source import Function, SourceError, SourceFile, mentions_torch, parse_source
from kernelwright.analyzers.suppressions import suppression_edit, suppressions
from kernelwright.analyzers.workloads import workload_of


@dataclass(frozen=True, slots=True)
class Settings:
    """What an analysis depends on besides the text. `torch_version` is that of the chosen interpreter."""

    torch_version: tuple[int, int] | None = None
    rules: frozenset[str] | None = None
    batch: int | None = None
    sequence: int | None = None
    resolver: Resolver | None = None


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
    chosen = [r for r in rules() if settings.rules is None or r.name in settings.rules]
    found: list[Opportunity] = []
    declined: list[Opportunity] = []
    plans: dict[str, tuple[TextEdit, ...]] = {}
    counts: Counter[str] = Counter()
    for function in source.functions:
        if not _worth_translating(function) or _is_compiled_apart(scope, function):
            continue
        try:
            translation = translate(scope, function)
            detector = Detector(translation)
            sites = _apart([site for rule in chosen for site in detector.sites(rule)])
        except RecursionError:
            continue  # an expression nested deeper than Python's stack: nothing is known of it
        for site in (s for s in sites if not s.done):
            opportunity, edits = _opportunity(detector, site, settings)
            counts[opportunity.key] += 1
            if counts[opportunity.key] > 1:
                opportunity = replace(opportunity, key=f"{opportunity.key}-{counts[opportunity.key]}")
            if opportunity.declined is None and edits is not None:
                found.append(opportunity)
                plans[opportunity.key] = edits
            else:
                declined.append(opportunity)
    silenced = suppressions(source)
    found = [o for o in found if not any(s.silences(o.rule, o.span) for s in silenced)]
    found.sort(key=lambda o: (o.span, o.rule))
    declined.sort(key=lambda o: (o.span, o.rule))
    return FileAnalysis(path, text, tuple(found), tuple(declined), None, plans)


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
    return (
        any(isinstance(n, ast.BinOp | ast.Call) for n in ast.walk(function.node)) and function.node.name != "__init__"
    )


def _is_compiled_apart(scope: Scope, function: Function) -> bool:
    """True for TorchScript functions and autograd functions: their bodies follow rules of their own and are left alone."""
    for decorator in function.node.decorator_list:
        name = scope.qualified(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
        if name.startswith("torch.jit.script"):
            return True
    bases = function.class_node.bases if function.class_node is not None else []
    return any((scope.qualified(base) or "").endswith("autograd.Function") for base in bases)


def _opportunity(detector: Detector, site: Site, settings: Settings) -> tuple[Opportunity, tuple[TextEdit, ...] | None]:
    rule, translation = site.rule, site.translation
    plan: Plan | None = None
    reason: str | None = None
    if site.leak is not None:
        reason = f"an inner value is needed elsewhere: {site.leak}"
    else:
        try:
            plan = plan_edit(detector, site)
        except NoEdit as error:
            reason = str(error)
    guard = plan.guard if plan is not None else None
    conditions = conditions_of(
        Place(detector, site, guard, settings.torch_version, len(plan.dropped_checks) if plan is not None else 0)
    )
    violated = next((c for c in conditions if c.state == "violated"), None)
    if reason is None and violated is not None:
        reason = violated.text
    if reason is None and plan is not None:
        unequal = _difference_after(translation, plan, settings)
        if unequal is not None:
            reason = f"withheld, the edited code is not shown to be the same program: {unequal}"
    tier = _tier(rule, conditions)
    span = _span(site)
    variant = site.variant.name or "plain"
    function = translation.function
    class_name = function.qualified_name.rpartition(".")[0] or None
    message = rule.message.format(variant=variant)
    assumed = [c.text for c in conditions if c.state == "assumed"]
    title = f"Use {rule.kernel.replace('torch.nn.functional.', 'F.')}"
    if guard is not None:
        title += " where the guard allows"
    if assumed:
        title += f" (unsafe: {assumed[0]})"
    try:
        workload = workload_of(detector, site, settings.batch, settings.sequence)
    except ValueError:
        workload = None
    opportunity = Opportunity(
        translation.source.path,
        rule.name,
        class_name,
        function.node.name,
        span,
        tier,
        conditions,
        rule.kernel,
        rule.numerics,
        message,
        title,
        _key(rule, translation, site),
        workload,
        (),
        rule.keeps,
        guard,
        reason,
    )
    return opportunity, plan.edits if plan is not None else None


def _tier(rule: Rule, conditions: Iterable[Condition]) -> Tier:
    states = {c.state for c in conditions}
    if rule.tier in ("advice", "bug"):
        return rule.tier
    if "assumed" in states or rule.tier == "assumed":
        return "assumed"
    if "guarded" in states or rule.tier == "guarded":
        return "guarded"
    return "exact"


def _span(site: Site) -> Span:
    """From the first to the last source line the region covers in its own function."""
    own = site.translation.source.span(site.translation.function.node)
    spans = []
    for node in site.region:
        origin = site.translation.origins.get(node)
        written_here = origin is not None and origin.inlined is None and node.operation not in ("constant", "choose")
        if written_here and node.span is not None and own.contains(node.span):
            spans.append(node.span)
    assert site.output.span is not None
    result = site.output.span
    for span in spans:
        result = result.joined(span)
    return result


def _key(rule: Rule, translation: Translation, site: Site) -> str:
    names = sorted(str(node.operation) for node in site.region)
    text = f"{rule.name}|{translation.function.qualified_name}|{site.variant.name}|{names}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """The text after non-overlapping edits."""
    parts: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < position:
            raise ValueError("overlapping edits")
        parts += [text[position : edit.start], edit.replacement]
        position = edit.end
    return "".join([*parts, text[position:]])


def edits(analysis: FileAnalysis, opportunity: Opportunity) -> tuple[TextEdit, ...]:
    """The edits of one finding; they have passed the same-program check when it was found.

    Raises:
        Withheld: there is no edit, or the edited function is not shown to be the same program.
    """
    if opportunity.declined is not None:
        raise Withheld(opportunity.declined)
    planned = analysis.plans.get(opportunity.key)
    if planned is None:
        raise Withheld("the file has changed since this was found")
    return planned


def _difference_after(old: Translation, plan: Plan, settings: Settings) -> str | None:
    """None where the function is the same program after the edits; else what differs."""
    try:
        source = parse_source(apply_edits(old.source.text, plan.edits), old.source.path)
    except SourceError as error:
        return f"the edited text does not parse: {error}"
    name = old.function.qualified_name
    function = next((f for f in source.functions if f.qualified_name == name), None)
    if function is None:
        return "the function is gone after the edit"
    return difference(old, translate(Scope(source, settings.resolver), function), plan.dropped_checks)


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
            if o.tier in tiers and (names is None or o.rule in names) and o.key not in refused
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
