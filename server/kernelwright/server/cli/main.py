"""The command line: `kernelwright VERB ...`. Each verb is a module with `add` (its options) and `run` (its work)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from kernelwright.server.cli import arch, check, doctor, explain, fix, model, server, tune, verify
from kernelwright.server.cli.target import UsageError

VERBS = (check, fix, verify, tune, arch, explain, doctor, model, server)

DESCRIPTION = (
    "Finds places in PyTorch models where an optimized kernel computes the same, proves it, fixes and measures it."
)


def parser() -> argparse.ArgumentParser:
    """The parser of all verbs; a verb's function is in the attribute `run` of what it parses."""
    result = argparse.ArgumentParser("kernelwright", description=DESCRIPTION)
    verbs = result.add_subparsers(metavar="VERB", required=True)
    for verb in VERBS:
        verb.add(verbs)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb. Returns the exit status: 0 well, 1 findings or a failure, 2 bad use, 130 interrupted."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except UsageError as error:
        print(f"kernelwright: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has gone. Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
