"""The settings section `kernelwright`, from whatever JSON a client sends: what is missing or wrong is the default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

Background = Literal["off", "measure", "tune"]
Hints = Literal["quiet", "normal", "verbose"]
Baseline = Literal["eager", "compile"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The user's settings. Empty `select` means every rule; None for `batch` and `sequence` means the built-in default.

    `trusted` and `show_documents` come from the client's initialization options, not from settings: in a workspace
    without trust nothing is measured; `show_documents` asks the server to open results by `window/showDocument`.
    """

    interpreter: tuple[str, ...] = ()
    background: Background = "measure"
    hints: Hints = "normal"
    batch: int | None = None
    sequence: int | None = None
    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    advice: bool = True
    baseline: Baseline = "eager"
    budget_seconds: float = 6.0
    trusted: bool = True
    show_documents: bool = False


def parse(section: Any, options: Any = None) -> Configuration:
    """The configuration in a `kernelwright` section (keys nested or dotted) and the initialization options."""
    values = _flat(section) if isinstance(section, Mapping) else {}
    extra = options if isinstance(options, Mapping) else {}
    budget = values.get("budgetSeconds")
    return Configuration(
        interpreter=_strings(values.get("interpreter")),
        background=cast(Background, _choice(values.get("background"), get_args(Background), "measure")),
        hints=cast(Hints, _choice(values.get("hints"), get_args(Hints), "normal")),
        batch=_extent(values.get("batch")),
        sequence=_extent(values.get("sequence")),
        select=frozenset(_strings(values.get("rules.select"))),
        ignore=frozenset(_strings(values.get("rules.ignore"))),
        advice=values.get("advice") is not False,
        baseline=cast(Baseline, _choice(values.get("baseline"), get_args(Baseline), "eager")),
        budget_seconds=float(budget) if isinstance(budget, int | float) and 0 < budget <= 3600 else 6.0,
        trusted=extra.get("trusted") is not False,
        show_documents=extra.get("showDocuments") is True,
    )


def _flat(section: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + str(key)] = value
    return flat


def _strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, list | tuple):
        return tuple(item for item in value if isinstance(item, str) and item)
    return ()


def _choice(value: Any, choices: tuple[str, ...], default: str) -> str:
    return value if value in choices else default


def _extent(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
