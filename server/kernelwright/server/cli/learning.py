"""`kernelwright model pretrain | evaluate | replay | search`: learn the cost model, compute its figures, search with it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.server.cli.target import UsageError, add_verb

if TYPE_CHECKING:
    from kernelwright.tuner.learn.examples import Examples


def add(actions: Any) -> None:
    """The actions beside `collect`."""
    add_search(actions)
    pretraining = add_verb(actions, "pretrain", pretrain, "Learn the weights from records.", python=False)
    _add_records(pretraining)
    pretraining.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the weights are written")
    pretraining.add_argument("--seed", type=int, default=0, metavar="N")
    evaluating = add_verb(
        actions, "evaluate", evaluate, "Compute the figures of the model: splits, samplers, transfer.", python=False
    )
    _add_records(evaluating)
    evaluating.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON; other parts in it are kept")
    evaluating.add_argument("--part", metavar="NAME,...", help="only these parts (default: all)")
    evaluating.add_argument("--seeds", type=int, default=5, metavar="N", help="(default: 5)")
    replaying = add_verb(
        actions,
        "replay",
        replay,
        "Tune a pool of measured programs on paper, with the model and without.",
        python=False,
    )
    replaying.add_argument("--pool", type=Path, required=True, metavar="DIR", help="what `collect --times 3` made")
    replaying.add_argument("--weights", type=Path, metavar="DIR", help="(default: those that are shipped)")
    replaying.add_argument("--strategy", metavar="NAME,...", help="only these (default: random, stock, learned)")
    replaying.add_argument("--seeds", type=int, default=5, metavar="N", help="(default: 5)")
    replaying.add_argument("--out", type=Path, metavar="FILE", help="the figures as JSON, the same bytes every time")


def add_search(actions: Any) -> None:
    """`search`: the loop that tunes tasks live."""
    summary = "Search the schedules of tasks on this CPU with the model, as one model calls them."
    searching = add_verb(actions, "search", search, summary, python=False)
    searching.add_argument("--python", metavar="PROGRAM", help="the interpreter that has apache-tvm")
    searching.add_argument(
        "--task",
        required=True,
        metavar="ID[*CALLS],...",
        help="for example linear-m128-n768-k768*12,softmax-m1536-n128",
    )
    searching.add_argument("--out", type=Path, required=True, metavar="DIR", help="what is there is continued")
    searching.add_argument("--trials", type=int, default=64, metavar="N", help="measured programs in all (default: 64)")
    searching.add_argument("--minutes", type=float, default=5.0, metavar="N", help="(default: 5)")
    searching.add_argument("--device", default="", metavar="NAME", help="for example avx2-1 (default: the best here)")
    searching.add_argument("--seed", type=int, default=0, metavar="N")
    searching.add_argument("--realtime", action="store_true", help="measure under SCHED_FIFO, see `collect`")


def search(options: argparse.Namespace) -> int:
    """Search, with a line a round; what is finished is kept, the same command goes on."""
    import tempfile

    from kernelwright.tuner.learn.models import SHIPPED, Shipped
    from kernelwright.tuner.search import realtime, tuning
    from kernelwright.tuner.search.measurer import Measurer, MeasurerError, ZygoteDied, own_interpreter
    from kernelwright.tuner.search.pseudo_devices import offered
    from kernelwright.tuner.search.record_store import StoreError
    from kernelwright.tuner.search.tasks import tasks

    known = {task.id: task for task in tasks()}
    parts = [part.partition("*") for part in options.task.split(",")]
    if unknown := sorted(name for name, _, _ in parts if name not in known):
        raise UsageError(f"no task {', '.join(unknown)}; docs/tuning.md tells how tasks are named")
    if any(calls and not calls.isdecimal() for _, _, calls in parts):
        raise UsageError("the calls of a task are a number: linear-m128-n768-k768*12")
    here = {device.name: device for device in offered()}
    name = options.device or list(here)[-1]
    if name not in here:
        raise UsageError(f"this machine cannot be {name}; it can be: {', '.join(here)}")
    if options.realtime and (problem := realtime.problem()):
        raise UsageError(problem)
    settings = tuning.Settings(
        options.out, [(known[task], int(calls or 1)) for task, _, calls in parts], here[name], options.trials,
        options.minutes, options.seed,
    )  # fmt: skip
    begun = time.monotonic()
    interpreter = (options.python,) if options.python else own_interpreter()
    try:
        with tempfile.TemporaryDirectory(prefix="kernelwright-") as scratch:
            measurer = Measurer(interpreter, here[name].threads, Path(scratch), realtime_scheduling=options.realtime)
            try:
                found = tuning.tune(settings, measurer, Shipped(SHIPPED), lambda line: print(line, flush=True))
            finally:
                measurer.close()
    except (MeasurerError, StoreError, ZygoteDied) as error:
        print(f"kernelwright: {error}", file=sys.stderr)
        return 1
    print(tuning.report(found))
    print(f"{time.monotonic() - begun:.0f} s; records in {options.out}")
    return 0


def _add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=Path, required=True, action="append", metavar="DIR", help="may be repeated")
    parser.add_argument(
        "--hold-out", type=Path, metavar="DIR", help="leave out the tasks of this pool, so that it stays unseen"
    )


def pretrain(options: argparse.Namespace) -> int:
    """Learn both models from all examples, and write them."""
    import numpy as np

    examples = _examples(options.records, options.hold_out)
    try:
        from kernelwright.tuner.learn import boosting, rank_model, rank_training
        from kernelwright.tuner.learn.features import features
        from kernelwright.tuner.learn.models import EPOCHS

        found, begun = features(examples), time.monotonic()
        trees = boosting.train(found, examples, boosting.Boosting(seed=options.seed))
        grown = time.monotonic() - begun
        weights = rank_training.train(found, examples, rank_training.Training(seed=options.seed, epochs=EPOCHS))
    except ImportError as error:
        raise UsageError(f"{error.name} is needed to learn: pip install 'kernelwright[learn]'") from error
    options.out.mkdir(parents=True, exist_ok=True)
    rank_model.save(options.out / "attention.npz", weights)
    np.savez_compressed(options.out / "trees.npz", allow_pickle=False, **trees)
    size = sum((options.out / name).stat().st_size for name in ("attention.npz", "trees.npz"))
    print(
        f"{len(examples)} examples; trees in {grown:.0f} s, attention ({rank_model.count(weights)} weights) in "
        f"{time.monotonic() - begun - grown:.0f} s; {size / 1000:.0f} kB in {options.out}"
    )
    return 0


def evaluate(options: argparse.Namespace) -> int:
    """Compute parts, each written as soon as it is done."""
    from kernelwright.tuner.learn import evaluation
    from kernelwright.tuner.learn.features import features

    names = options.part.split(",") if options.part else list(evaluation.PARTS)
    if unknown := sorted(set(names) - evaluation.PARTS.keys()):
        raise UsageError(f"no part {', '.join(unknown)}; there are: {', '.join(evaluation.PARTS)}")
    examples = _examples(options.records, options.hold_out)
    found = features(examples)
    for name in names:
        begun = time.monotonic()
        try:
            rows = evaluation.PARTS[name](examples, found, range(options.seeds), lambda line: print(line, flush=True))
        except ImportError as error:
            raise UsageError(f"{error.name} is needed to learn: pip install 'kernelwright[learn]'") from error
        known = json.loads(options.out.read_text()) if options.out.exists() else {}
        known[name] = {"examples": len(examples), "seeds": options.seeds, "rows": rows}
        options.out.write_text(json.dumps(known, indent=1) + "\n")
        print(f"{name}: {len(rows)} rows in {time.monotonic() - begun:.0f} s", flush=True)
    return 0


def replay(options: argparse.Namespace) -> int:
    """Print what each strategy needs on each task of the pool."""
    from kernelwright.tuner.learn import replay as replaying
    from kernelwright.tuner.learn.models import SHIPPED, Shipped

    try:
        pool = replaying.read_pool(options.pool)
        shipped = Shipped(options.weights or SHIPPED)
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename} is not there: name a folder that `kernelwright model` wrote") from error
    strategies = {"random": replaying.at_random, "stock": replaying.stock, "learned": replaying.ours(shipped)}
    names = options.strategy.split(",") if options.strategy else list(strategies)
    if unknown := sorted(set(names) - strategies.keys()):
        raise UsageError(f"no strategy {', '.join(unknown)}; there are: {', '.join(strategies)}")
    try:
        rows = replaying.figures(pool, {name: strategies[name] for name in names}, range(options.seeds))
    except ImportError as error:
        raise UsageError(
            f"the strategy stock needs {error.name}: pip install 'kernelwright[learn]', or --strategy random,learned"
        ) from error
    print(replaying.table(rows))
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _examples(folders: Sequence[Path], held_out: Path | None) -> Examples:
    from kernelwright.tuner.learn.examples import joined, read, without_tasks

    try:
        examples = joined([read(folder) for folder in folders])
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename} is not there: name a folder that `model collect` wrote") from error
    if held_out is not None:
        examples = without_tasks(examples, [path.stem for path in (held_out / "programs").glob("*.npz")])
    if not len(examples):
        raise UsageError("these folders hold no record that counts: `kernelwright model collect` makes some")
    return examples
