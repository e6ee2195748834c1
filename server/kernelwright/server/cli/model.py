"""`kernelwright model`: the cost model of the tuner. `collect` gathers the records that it learns from; see also `learning`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.server.cli import learning
from kernelwright.server.cli.target import UsageError, add_verb

if TYPE_CHECKING:
    from kernelwright.tuner.search.pseudo_devices import PseudoDevice
    from kernelwright.tuner.search.tasks import Task


def add(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "model",
        run,
        "The learned cost model behind tuning: collect records, learn from them, judge it.",
        python=False,
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    learning.add(actions)
    summary = "Measure random and mutated schedules of the task list on this CPU's pseudo-devices, while it is idle."
    collecting = add_verb(actions, "collect", collect, summary, python=False)
    collecting.add_argument(
        "--python", metavar="PROGRAM", help="the interpreter that has apache-tvm (default: the one that runs this)"
    )
    collecting.add_argument("--minutes", type=_positive, required=True, metavar="N", help="stop after so many minutes")
    collecting.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder of the records; what is there is continued"
    )
    collecting.add_argument("--tasks", metavar="FAMILY,...", help="only tasks of these families (default: all)")
    collecting.add_argument(
        "--device", metavar="LEVEL,...", help="only these pseudo-devices: avx2 (all its thread counts) or avx2-1"
    )
    collecting.add_argument(
        "--load-limit",
        type=float,
        default=0.5,
        metavar="LOAD",
        help="wait while others' part of the load average is over this (default: 0.5)",
    )
    collecting.add_argument(
        "--realtime",
        action="store_true",
        help="do not wait for calm: measure under SCHED_FIFO on own cores (Linux, root or CAP_SYS_NICE)",
    )
    collecting.add_argument(
        "--duty",
        type=_positive,
        default=0.4,
        metavar="SHARE",
        help="with --realtime: of one core's time, at most, while others need the cores (default: 0.4)",
    )
    collecting.add_argument(
        "--task", dest="ids", metavar="ID,...", help="only these tasks, for example linear-m128-n768-k768"
    )
    collecting.add_argument(
        "--block", type=int, default=20, metavar="N", help="programs of a round of a task (default: 20)"
    )
    collecting.add_argument(
        "--times", type=int, default=1, metavar="N", help="measure every block N times: a pool to replay (default: 1)"
    )
    collecting.add_argument("--rounds", type=int, metavar="N", help="stop after N rounds of every task")
    collecting.add_argument("--seed", type=int, default=0, metavar="N", help="of the random programs (default: 0)")


def run(options: argparse.Namespace) -> int:
    raise AssertionError("argparse asks for an action")


def collect(options: argparse.Namespace) -> int:
    """Collect, with a line a block on stdout. Ctrl-C or SIGTERM ends it; what is finished is stored."""
    if sys.platform == "win32":
        raise UsageError(
            "collecting forks a process for each candidate, which Windows cannot: run it in WSL or on Linux"
        )
    from kernelwright.tuner.search import realtime
    from kernelwright.tuner.search.collector import Settings, be_nice
    from kernelwright.tuner.search.collector import collect as collect_records
    from kernelwright.tuner.search.measurer import MeasurerError, own_interpreter
    from kernelwright.tuner.search.record_store import StoreError

    settings = Settings(
        folder=options.out,
        interpreter=(options.python,) if options.python else own_interpreter(),
        minutes=options.minutes,
        tasks=_named(options.ids) if options.ids else _tasks(options.tasks),
        devices=_devices(options.device),
        load_limit=options.load_limit,
        seed=options.seed,
        block=options.block,
        realtime=options.realtime,
        duty=options.duty,
        times=options.times,
        rounds=options.rounds,
    )
    if options.realtime and (problem := realtime.problem()):
        raise UsageError(problem)
    if not options.realtime:  # there the compilers are, and the rest must not wait
        be_nice()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as with Ctrl-C, also in the background
    try:
        records = collect_records(settings, _log)
    except (MeasurerError, StoreError) as error:
        print(f"kernelwright: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        _log(f"stopped by Ctrl-C or SIGTERM; what is finished is in {options.out}, the same command goes on there")
        return 130
    _log(f"{records} records in {options.out}")
    return 0


def _log(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def _tasks(families: str | None) -> Sequence[Task]:
    from kernelwright.tuner.search.tasks import FAMILIES, tasks

    if families is None:
        return tasks()
    named = _names(families)
    if unknown := sorted(named - FAMILIES.keys()):
        raise UsageError(f"no family {', '.join(unknown)}; there are: {', '.join(sorted(FAMILIES))}")
    return tuple(task for task in tasks() if task.family in named)


def _named(identifiers: str) -> Sequence[Task]:
    from kernelwright.tuner.search.tasks import tasks

    known = {task.id: task for task in tasks()}
    if unknown := sorted(_names(identifiers) - known.keys()):
        raise UsageError(f"no task {', '.join(unknown)}; `kernelwright model collect --help` tells how tasks are named")
    return tuple(task for task in known.values() if task.id in _names(identifiers))


def _devices(levels: str | None) -> Sequence[PseudoDevice]:
    from kernelwright.tuner.search.pseudo_devices import offered

    here = offered()
    if levels is None:
        return here
    named = _names(levels)
    chosen = tuple(device for device in here if {device.level, device.name} & named)
    known = {device.level for device in here} | {device.name for device in here}
    if unknown := sorted(named - known):
        raise UsageError(f"this machine cannot be {', '.join(unknown)}; it can be: {', '.join(sorted(known))}")
    return chosen


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value
