"""`kernelwright server`: the language server on stdin and stdout, as an editor starts it."""

from __future__ import annotations

import argparse
from typing import Any

from kernelwright.server.cli.target import add_verb


def add(verbs: Any) -> None:
    parser = add_verb(verbs, "server", run, "Serve an editor on stdin and stdout (LSP).", python=False)
    # What VS Code's client appends to the command; stdio is the only way there is, and a closed stdin ends us.
    parser.add_argument("--stdio", action="store_true", help="accepted, and always so")
    parser.add_argument("--clientProcessId", type=int, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    # Imported here: the protocol's classes take longer to load than every other verb to run.
    from kernelwright.server.lsp.application import serve

    return serve()
