"""The resolver of names in other files, set up for the chosen interpreter's packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelwright.server.interpreter import Interpreter, site_packages

if TYPE_CHECKING:
    from kernelwright.analyzers.resolve import JediResolver


def resolver_of(interpreter: Interpreter) -> JediResolver:
    """A resolver that searches the interpreter's packages. Its helper process starts at the first look-up."""
    from kernelwright.analyzers.resolve import JediResolver

    return JediResolver(tuple(str(folder) for folder in site_packages(interpreter.command[0])))
