"""Binding a call's arguments to a parameter list, closed-world: an argument nobody asked for makes the call opaque."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kernelwright.analyzers.frontends.torch.values import NotUnderstood, Value


@dataclass(frozen=True, slots=True)
class Signature:
    positional: tuple[str, ...]
    names: tuple[str, ...]
    required: frozenset[str]
    variadic: str | None


@cache
def signature(text: str) -> Signature:
    """`"input dim? *sizes dtype?"`: names in order, `?` marks optional ones, `*` collects the rest, later ones are
    passed by keyword only."""
    positional: list[str] = []
    names: list[str] = []
    required: set[str] = set()
    variadic: str | None = None
    for word in text.split():
        if word.startswith("*"):
            variadic = word[1:]
            continue
        name = word.rstrip("?")
        names.append(name)
        if variadic is None:
            positional.append(name)
        if name == word:
            required.add(word)
    return Signature(tuple(positional), tuple(names), frozenset(required), variadic)


def bind(
    text: str, arguments: tuple[Value, ...], keywords: tuple[tuple[str, Value], ...]
) -> tuple[dict[str, Value], tuple[Value, ...]]:
    """Arguments by parameter name, and those the variadic parameter takes.

    Raises:
        NotUnderstood: too many, unknown, doubled or missing arguments.
    """
    form = signature(text)
    bound: dict[str, Value] = dict(zip(form.positional, arguments, strict=False))
    rest = arguments[len(form.positional) :]
    if rest and form.variadic is None:
        raise NotUnderstood("more arguments than the function takes")
    for name, value in keywords:
        if name not in form.names or name in bound:
            raise NotUnderstood(f"unknown argument {name}")
        bound[name] = value
    missing = form.required - bound.keys()
    if missing:
        raise NotUnderstood(f"argument {sorted(missing)[0]} is missing")
    return bound, rest
