"""`kernelwright model pretrain | evaluate | replay`: learn the cost model from records, and compute every figure of it."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.server.cli.target import UsageError, add_verb

if TYPE_CHECKING:
    from kernelwright.tuner.learn.examples import Examples


def add(actions: Any) -> None:
    """The three actions beside `collect`."""
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
