"""From a site or a finding to an opportunity: the edit, the conditions with their states, the check of the edited text."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from kernelwright.analyzers.architecture import Node, Span
from kernelwright.analyzers.detect import Detector, Site
from kernelwright.analyzers.finders.finding import Finding
from kernelwright.analyzers.frontends.torch.scope import Resolver, Scope
from kernelwright.analyzers.frontends.torch.translate import Translation, translate
from kernelwright.analyzers.kernel_call import NoEdit
from kernelwright.analyzers.opportunity import Condition, Opportunity, TextEdit, Tier
from kernelwright.analyzers.predicates import Place, conditions_of, version_condition
from kernelwright.analyzers.rewrite import Plan, plan_edit
from kernelwright.analyzers.rules.loader import Rule
from kernelwright.analyzers.same_program import difference
from kernelwright.analyzers.source import SourceError, SourceFile, parse_source
from kernelwright.analyzers.workloads import workload_of


@dataclass(frozen=True, slots=True)
class Offer:
    """An opportunity and its edits; None where there are none to apply."""

    opportunity: Opportunity
    edits: tuple[TextEdit, ...] | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an offer depends on besides the place."""

    torch_version: tuple[int, int] | None = None
    batch: int | None = None
    sequence: int | None = None
    resolver: Resolver | None = None


def offer_of_site(detector: Detector, site: Site, settings: Surroundings) -> Offer:
    """What a match of a definition offers."""
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
        unequal = _difference_after(translation, plan.edits, settings.resolver, plan.dropped_checks)
        if unequal is not None:
            reason = f"withheld, the edited code is not shown to be the same program: {unequal}"
    tier = _tier(rule, conditions)
    span = _span(site)
    variant = site.variant.name or "plain"
    function = translation.function
    class_name = function.qualified_name.rpartition(".")[0] or None
    message = rule.message.format(variant=variant, kernel=(site.variant.kernel_name or rule.kernel).rpartition(".")[2])
    assumed = [c.text for c in conditions if c.state == "assumed"]
    kernel = site.variant.kernel_name or rule.kernel
    title = f"Use {kernel.replace('torch.nn.functional.', 'F.')}"
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
        kernel,
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
    return Offer(opportunity, plan.edits if plan is not None else None)


def offer_of_finding(
    rule: Rule, finding: Finding, source: SourceFile, translation: Translation | None, settings: Surroundings
) -> Offer:
    """What a finder's finding offers; its edits have passed the check that it names."""
    version = version_condition(rule.min_torch, settings.torch_version)
    conditions = (*finding.conditions, version)
    reason = finding.declined
    if reason is None:
        reason = next((c.text for c in conditions if c.state == "violated"), None)
    if reason is None and finding.edits:
        unequal = _unequal(rule, finding, source, translation, settings.resolver)
        if unequal is not None:
            reason = f"withheld, the edited code is not shown to be the same program: {unequal}"
    class_name, _, function = finding.function.rpartition(".")
    identity = f"{rule.name}|{finding.function}|{finding.identity}"
    assumed = [c.text for c in conditions if c.state == "assumed"]
    title = finding.title or f"Use {rule.kernel.replace('torch.nn.functional.', 'F.')}"
    if finding.edits and rule.tier not in ("advice", "bug") and assumed:
        title += f" (unsafe: {assumed[0]})"
    opportunity = Opportunity(
        source.path,
        rule.name,
        class_name or None,
        function,
        finding.span,
        _tier(rule, conditions),
        conditions,
        rule.kernel,
        rule.numerics,
        finding.message or rule.message,
        title,
        hashlib.sha256(identity.encode()).hexdigest()[:16],
        finding.workload,
        finding.state_dict_changes,
        rule.keeps,
        finding.guard,
        reason,
        has_edit=bool(finding.edits),
        check=finding.check,
        snippet=finding.snippet,
    )
    return Offer(opportunity, finding.edits or None)


def _unequal(
    rule: Rule, finding: Finding, source: SourceFile, translation: Translation | None, resolver: Resolver | None
) -> str | None:
    """What the check of a finding's edits has against them."""
    if finding.check == "none":
        return None if rule.tier in ("advice", "bug") else "an unchecked edit may only be advice"
    if finding.check == "keywords":
        return _keywords_difference(source, finding.edits)
    if finding.check == "names":
        return _names_difference(source, finding.edits)
    if translation is None:
        return "no function to compare"
    return _difference_after(translation, finding.edits, resolver)


def _names_difference(source: SourceFile, edits: Iterable[TextEdit]) -> str | None:
    """None where the edited text is the old one but for the name of a single attribute."""
    try:
        edited = parse_source(apply_edits(source.text, edits), source.path)
    except SourceError as error:
        return f"the edited text does not parse: {error}"
    olds, news = list(ast.walk(source.tree)), list(ast.walk(edited.tree))
    pairs = zip(olds, news, strict=False)
    changed = [
        (a, b) for a, b in pairs if isinstance(a, ast.Attribute) and isinstance(b, ast.Attribute) and a.attr != b.attr
    ]
    if len(olds) != len(news) or len(changed) != 1:
        return "the edit changes more than one name"
    old, new = changed[0]
    new.attr = old.attr
    return None if ast.dump(source.tree) == ast.dump(edited.tree) else "the edit changes more than one name"


def _keywords_difference(source: SourceFile, edits: Iterable[TextEdit]) -> str | None:
    """None where the edited text is the old one but for keyword arguments of a single call (and imports)."""
    try:
        edited = parse_source(apply_edits(source.text, edits), source.path)
    except SourceError as error:
        return f"the edited text does not parse: {error}"
    pairs: list[tuple[ast.AST, ast.AST]] = [(source.tree, edited.tree)]
    changed = 0
    while pairs:
        old, new = pairs.pop()
        if type(old) is not type(new):
            return "the edit changes more than keyword arguments"
        for name, before in ast.iter_fields(old):
            after = getattr(new, name, None)
            if isinstance(old, ast.Call) and name == "keywords":
                before, after, differs = _common_keywords(before, getattr(new, name))
                changed += differs
            befores, afters = _as_list(before), _as_list(after)
            if len(befores) != len(afters):
                return "the edit changes more than keyword arguments"
            for x, y in zip(befores, afters, strict=True):
                if isinstance(x, ast.AST) and isinstance(y, ast.AST):
                    pairs.append((x, y))
                elif x != y:
                    return "the edit changes more than keyword arguments"
    return None if changed <= 1 else "the edit changes more than one call"


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _common_keywords(
    before: list[ast.keyword], after: list[ast.keyword]
) -> tuple[list[ast.keyword], list[ast.keyword], bool]:
    """The keywords both calls have with the same value, and whether others differ."""
    values = {k.arg: ast.dump(k.value) for k in after if k.arg is not None}
    same = {k.arg for k in before if k.arg is not None and values.get(k.arg) == ast.dump(k.value)}
    kept = [k for k in before if k.arg in same or k.arg is None]
    also = [k for k in after if k.arg in same or k.arg is None]
    return kept, also, len(kept) != len(before) or len(also) != len(after)


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
    output = site.translation.origins[site.output]
    if output.inlined is not None:
        return site.translation.source.span(output.statement)
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


def _difference_after(
    old: Translation, edits: Iterable[TextEdit], resolver: Resolver | None, droppable: frozenset[Node] = frozenset()
) -> str | None:
    """None where the function is the same program after the edits; else what differs."""
    try:
        source = parse_source(apply_edits(old.source.text, edits), old.source.path)
    except SourceError as error:
        return f"the edited text does not parse: {error}"
    name = old.function.qualified_name
    function = next((f for f in source.functions if f.qualified_name == name), None)
    if function is None:
        return "the function is gone after the edit"
    return difference(old, translate(Scope(source, resolver), function), droppable)
