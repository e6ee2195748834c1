"""Conditions on what the chosen interpreter has and on where the code runs, in the words the hover shows."""

from __future__ import annotations

from kernelwright.analyzers.finders.finding import Installed
from kernelwright.analyzers.opportunity import Condition


def package(installed: Installed, distribution: str, minimum: tuple[int, ...] = ()) -> Condition:
    """That a distribution is installed, in a version from `minimum` on. One that is missing can be installed: assumed."""
    have = installed.packages.get(distribution.lower().replace("-", "_"))
    wanted = f"{distribution} >= {_dotted(minimum)}" if minimum else distribution
    if have is None:
        where = "in the chosen interpreter" if installed.packages else "known of: no interpreter to look in"
        return Condition("package", "assumed", f"{wanted} can be installed (none is {where})")
    if have[: len(minimum)] < minimum:
        return Condition("package", "violated", f"{wanted} is needed, {_dotted(have)} is installed")
    return Condition("package", "proven", f"{wanted} (installed: {_dotted(have)})")


def accelerator(installed: Installed, wanted: str) -> Condition:
    """That the code runs on a device as named. The build of torch tells where it cannot be this interpreter."""
    told = ""
    if installed.torch_build == "cpu":
        told = " (the chosen interpreter's torch is the CPU build: not there)"
    return Condition("device", "assumed", f"it runs on {wanted}{told}")


def not_run_by_us(checked_against: str) -> Condition:
    """Said of every call into a package that our tests cannot run."""
    text = f"not run by us: the call is checked against the signatures of {checked_against} only"
    return Condition("not_run_by_us", "assumed", text)


def user_knows(name: str, text: str) -> Condition:
    """A condition that nothing in the code tells."""
    return Condition(name, "assumed", text)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
