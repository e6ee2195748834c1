"""The Adopter table: every patch in transformers 4.35.0, and the patched classes run against the original ones.

    python benchmarks/corpus/run_patches.py [--write] [--only TEXT] [--processes N] [--minutes N]

For each modeling file all fixes are applied. Models of the file are built small, from the original and from the patched module,
with the same weights; each submodule that runs a patched line is then run on the inputs that the original model gives it:
outputs, element types and gradients, in training and eval, float64, float32, bfloat16 and autocast. A patch counts as run only
where the lines of its kernel call were executed, as a trace of the run shows. Each file runs in a process of its own, forked
from one that has torch and transformers loaded.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import importlib
import inspect
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cases"))
from corpus import CORPUS, corpus_environment, missing, modeling_files, read  # noqa: E402

SECONDS = 240
"""Longest time for one file."""
LARGEST = 60_000_000
"""Parameters of the largest model that is built."""
PLACES = 2
"""Calls of one class that are compared."""
EXACT = 2e-6
"""Largest relative difference in float64: many classes compute in float32 inside."""
ALL_TIERS = frozenset({"exact", "guarded", "assumed"})


# --- in the process of one file: needs torch and the corpus -------------------------------------------------


def work(name: str, patched: str, patches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Run the patches of one module; yields results {"patches", "name", "passed", "detail"} with the numbers of the patches
    that the check ran through, and one with `passed` None for each patch that no model reached."""
    import torch
    from ran_equal import MODES, compare
    from real_class import load
    from tiny_models import without_dropout

    torch.set_num_threads(1)
    old = importlib.import_module(name)
    everything = list(range(len(patches)))
    try:
        new = load(patched, f"{name}_patched")
    except Exception as error:
        yield {"patches": everything, "name": "imports", "passed": False, "detail": f"{type(error).__name__}: {error}"}
        return
    yield {"patches": everything, "name": "imports", "passed": True, "detail": ""}
    lines = {line: number for number, patch in enumerate(patches) for line in patch["lines"]}
    wanted = {patch["class"] for patch in patches if patch["class"]}
    left = set(everything)
    notes: Counter[str] = Counter()
    for model_class in model_classes(old):
        if not left:
            break
        try:
            model, arguments, captured = built_and_run(model_class, wanted)
        except Exception as error:
            notes[f"{model_class.__name__}: {type(error).__name__}: {str(error)[:150]}"] += 1
            continue
        torch.manual_seed(0)
        twin = getattr(new, model_class.__name__)(model.config)
        without_dropout(twin)
        state = model.state_dict()
        same = [(k, v.shape) for k, v in state.items()] == [(k, v.shape) for k, v in twin.state_dict().items()]
        try:
            twin.load_state_dict(state, strict=True)
            refused = ""
        except RuntimeError as error:
            refused = str(error)[:300]
        twin.eval()
        with torch.no_grad():
            whole = reached(functools.partial(twin, **arguments), patched, lines)
        compared: Counter[str] = Counter()
        through: set[int] = set()
        for path, call in captured:
            before, after = model.get_submodule(path), twin.get_submodule(path)
            class_name = type(before).__name__
            if compared[class_name] == PLACES:
                continue
            call, numbers = reaching(before, after, call, patched, lines)
            if not numbers:
                notes[f"{class_name}: its patched lines do not run in {model_class.__name__}"] += 1
                continue
            through |= numbers
            compared[class_name] += 1
            for check in compare(f"{model_class.__name__}.{path}", before, after, call, exact=EXACT, factor=4.0):
                yield {
                    "patches": sorted(numbers),
                    "name": check.name,
                    "passed": check.passed,
                    "detail": check.detail,
                    "class": class_name,
                }
            before.float()
            after.float()
        numbers = sorted(whole | through)
        left -= set(numbers)
        if not numbers:
            continue
        yield {"patches": numbers, "name": "state-dict keys", "passed": same, "detail": ""}
        yield {"patches": numbers, "name": "old checkpoint loads", "passed": not refused, "detail": refused}
        modes = tuple(mode for mode in MODES if mode.dtype == torch.float32 and not mode.autocast)
        for check in compare(
            model_class.__name__,
            model.float(),
            twin.float(),
            typed(arguments),
            modes=modes,
            factor=8.0,
            inputs_too=False,
        ):
            yield {
                "patches": sorted(whole),
                "name": check.name,
                "passed": check.passed,
                "detail": check.detail,
                "whole": True,
            }
    for number in sorted(left):
        mine = [n for n in notes if not patches[number]["class"] or ":" in n]
        yield {"patches": [number], "name": "not reached", "passed": None, "detail": "; ".join(mine)[:600]}


def model_classes(module: Any) -> list[Any]:
    """The models of a modeling file that have a configuration: the bare ones first."""
    base = importlib.import_module("transformers").PreTrainedModel

    found: list[Any] = [
        value
        for name, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, base) and value.__module__ == module.__name__ and not name.endswith("PreTrainedModel")
    ]
    found = [c for c in found if c.config_class is not None]
    return sorted(found, key=lambda c: (not c.__name__.endswith("Model"), "LMHead" in c.__name__, c.__name__))[:8]


def built_and_run(model_class: Any, wanted: set[str]) -> tuple[Any, dict[str, Any], list[tuple[str, Any]]]:
    """A small model, arguments it ran with (with a padding mask, if it takes one), and what its submodules of the wanted
    classes were called with, with and without a mask.

    Raises:
        Exception: no configuration and no arguments led to a run; the first error.
    """
    import torch
    from tiny_models import configurations, inputs, size_of, without_dropout

    first: Exception | None = None
    for config in configurations(model_class.config_class):
        try:
            if size_of(model_class, config) > LARGEST:
                raise ValueError("too large")
            torch.manual_seed(0)
            model = model_class(config)
            with torch.no_grad():
                for parameter in model.parameters():
                    width = parameter.shape[-1] if parameter.dim() > 1 else 32
                    parameter.add_(torch.randn_like(parameter) * 0.3 / width**0.5)
            without_dropout(model)
        except Exception as error:
            first = first or error
            continue
        ran: list[tuple[dict[str, Any], list[tuple[str, Any]]]] = []
        for arguments in inputs(model, config):
            try:
                ran.append((arguments, capture(model.eval(), arguments, wanted)))
            except Exception as error:
                first = first or error
            if len(ran) == 2:
                break
        if ran:
            return model, ran[0][0], [call for _, calls in ran for call in calls]
    assert first is not None
    raise first


def capture(model: Any, arguments: dict[str, Any], wanted: set[str]) -> list[tuple[str, Any]]:
    """Run a model; for its submodules of the wanted classes the path and the (first) call as inputs by dtype."""
    import torch

    calls: list[tuple[str, Any]] = []
    counts: Counter[str] = Counter()
    handles = []

    def hook(path: str, module: Any, given: Any, keywords: Any) -> None:
        name = type(module).__name__
        if counts[name] < PLACES and path not in dict(calls):
            counts[name] += 1
            bound = inspect.signature(module.forward).bind(*given, **keywords).arguments
            extra = bound.pop("kwargs", {})
            calls.append((path, typed({**bound, **extra})))

    for path, module in model.named_modules():
        if type(module).__name__ in wanted:
            handles.append(module.register_forward_pre_hook(functools.partial(hook, path), with_kwargs=True))
    with torch.no_grad():
        model(**arguments)
    for handle in handles:
        handle.remove()
    return calls


def typed(arguments: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """The arguments for a dtype: floating tensors follow it, a mask's finite minimum stays finite."""
    from ran_equal import mapped

    def made(dtype: Any) -> dict[str, Any]:
        import torch

        def change(path: str, value: Any) -> Any:
            if not value.is_floating_point():
                return value
            low = torch.finfo(dtype).min
            return torch.where(value.isinf(), value, value.double().clamp(low, -low)).to(dtype)

        result = mapped(arguments, change)
        assert isinstance(result, dict)
        return result

    return made


def reaching(before: Any, after: Any, call: Any, patched: str, lines: dict[int, int]) -> tuple[Any, set[int]]:
    """The call with which the patched module runs most patched lines, and the patches these belong to: the call as it is, or
    without its masks, where the patch keeps the old path for a mask."""
    import torch

    def unmasked(dtype: Any) -> dict[str, Any]:
        return {name: None if "mask" in name else value for name, value in call(dtype).items()}

    best: tuple[Any, set[int]] = (call, set())
    for made in (call, unmasked):
        try:
            with torch.no_grad():
                before(**made(torch.float32))
                numbers = reached(functools.partial(after, **made(torch.float32)), patched, lines)
        except (TypeError, AttributeError):  # the original needs its mask
            continue
        if len(numbers) > len(best[1]):
            best = made, numbers
    return best


def reached(call: Callable[[], object], patched: str, lines: dict[int, int]) -> set[int]:
    """The patches whose lines a call runs."""
    found: set[int] = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != patched:
            return None
        if event == "line" and frame.f_lineno in lines:
            found.add(lines[frame.f_lineno])
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return found


# --- the program that starts them ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What one file gave: its patches, the results as `work` yields them, and why it ended early (None: it did not)."""

    path: str
    patches: tuple[dict[str, Any], ...]
    results: tuple[dict[str, Any], ...]
    trouble: str | None = None


def run_file(path: Path) -> Outcome | None:
    """Patch a file and run it; None where there is nothing to patch. In a process that may be spoilt by it."""
    from kernelwright.analyzers.analysis import Settings, fix

    name = path.relative_to(CORPUS).as_posix()
    result = fix(read(path), str(path), Settings(torch_version=(2, 13)), ALL_TIERS)
    if not result.applied:
        return None
    patches = [
        {
            "rule": o.rule,
            "tier": o.tier,
            "class": (o.class_name or "").rpartition(".")[2],
            "function": o.qualified_name,
            "check": o.check,
            "lines": kernel_lines(result.text, o.qualified_name, o.kernel.rpartition(".")[2]),
        }
        for o in result.applied
    ]
    lines: list[dict[str, Any]] = []
    trouble = None
    with tempfile.TemporaryDirectory() as folder:
        patched = Path(folder) / "patched.py"
        patched.write_bytes(result.text.encode())
        try:
            lines.extend(work(name.removesuffix(".py").replace("/", "."), str(patched), patches))
        except Exception as error:  # what the comparison itself could not do is told, and is no verdict on a patch
            trouble = f"{type(error).__name__}: {error}"
    return Outcome(name, tuple(patches), tuple(lines), trouble)


def run_files(files: list[Path], processes: int, minutes: float) -> Iterator[Outcome]:
    """Every file in a forked process, a few at a time, each with its time limit; in the order in which they are done."""
    import transformers  # noqa: F401  loaded once, before the forks

    running: dict[int, tuple[Path, Path, float]] = {}
    waiting = list(files)
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            if time.monotonic() > end:
                waiting.clear()
            while waiting and len(running) < processes:
                path = waiting.pop(0)
                print(f"{len(waiting)} files wait after {path.parent.name}", file=sys.stderr, flush=True)
                answer = Path(folder) / f"{len(waiting)}.json"
                child = os.fork()
                if child == 0:
                    _answer(path, answer)
                running[child] = path, answer, time.monotonic() + SECONDS
            time.sleep(0.05)
            for child, (path, answer, limit) in list(running.items()):
                late = time.monotonic() > limit
                if late:
                    os.kill(child, signal.SIGKILL)
                if os.waitpid(child, 0 if late else os.WNOHANG)[0] == 0:
                    continue
                del running[child]
                name = path.relative_to(CORPUS).as_posix()
                if not answer.is_file():
                    yield Outcome(name, (), (), f"longer than {SECONDS} s" if late else "the process died")
                elif content := json.loads(answer.read_text(encoding="utf-8")):
                    yield Outcome(name, tuple(content["patches"]), tuple(content["results"]), content["trouble"])


def _answer(path: Path, answer: Path) -> NoReturn:
    """In the child: write the outcome and end without any clean-up of the parent's."""
    try:
        outcome = run_file(path)
        partial = answer.with_suffix(".part")
        partial.write_text(json.dumps(None if outcome is None else dataclasses.asdict(outcome)), encoding="utf-8")
        partial.rename(answer)
    except BaseException as error:
        print(f"{path.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(0)


def kernel_lines(text: str, qualified_name: str, kernel: str) -> list[int]:
    """The lines of the calls of a kernel in one function of a patched text; the function's own where there is none."""
    from kernelwright.analyzers.source import parse_source

    found: list[int] = []
    for function in parse_source(text, "patched.py").functions:
        if function.qualified_name != qualified_name:
            continue
        for part in ast.walk(function.node):
            if isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] == kernel:
                found += range(part.lineno, (part.end_lineno or part.lineno) + 1)
        found = found or [function.node.body[-1].lineno]
    return found


COLUMNS = (
    "imports",
    "state dict equal",
    "old checkpoint loads",
    "forward equal, eval",
    "forward equal, training",
    "gradients equal",
)


def columns_of(result: dict[str, Any]) -> dict[str, bool]:
    """What one check says, by the table's columns. A check of a mode compares outputs first, then gradients. What fails below
    float64 by its figures alone is another rounding of the same program: float64 decides."""
    name, passed = result["name"], result["passed"]
    if name == "imports":
        return {"imports": passed}
    if name == "state-dict keys":
        return {"state dict equal": passed}
    if name == "old checkpoint loads":
        return {"old checkpoint loads": passed}
    forward = "forward equal, training" if "training" in name else "forward equal, eval"
    rounding = "float64" not in name and ": off by " in result["detail"]
    if passed or rounding:
        return {forward: True, "gradients equal": True}
    if result["detail"].startswith(("d ", "gradients")):
        return {forward: True, "gradients equal": False}
    return {forward: False}


def judged(outcome: Outcome, number: int) -> dict[str, bool | None]:
    """The columns of one patch: True, False, or None where nothing ran it."""
    verdict: dict[str, bool | None] = dict.fromkeys(COLUMNS)
    for result in outcome.results:
        if number in result["patches"] and result["passed"] is not None:
            for column, passed in columns_of(result).items():
                verdict[column] = passed and verdict[column] is not False
    return verdict


def tables(outcomes: list[Outcome]) -> str:
    """By rule: patches, and of them how many passed each column; then every patch that failed or was not run."""
    from tables import machine, table

    rows: dict[str, Counter[str]] = {}
    faults: list[tuple[str, str, str, str]] = []
    for outcome in outcomes:
        for number, patch in enumerate(outcome.patches):
            row = rows.setdefault(patch["rule"], Counter())
            verdict = judged(outcome, number)
            row["patches"] += 1
            row[patch["check"]] += 1
            row["run"] += verdict["forward equal, eval"] is not None
            for column in COLUMNS:
                row[column] += verdict[column] is True
            failed = [column for column in COLUMNS if verdict[column] is False]
            reasons = [r["detail"] for r in outcome.results if number in r["patches"] and not r["passed"]]
            if failed or verdict["forward equal, eval"] is None:
                what = f"FAILS {', '.join(failed)}" if failed else "not run"
                why = outcome.trouble or (reasons[-1] if reasons else "no model of the file reaches it")
                faults.append((f"{outcome.path} {patch['function']}", patch["rule"], what, why[:200]))
    head = ("rule", "patches", "parse", "same program", "imports", "run", *COLUMNS[1:])
    body = [
        (
            rule,
            str(row["patches"]),
            str(row["patches"]),
            str(row["same program"]),
            *(str(row[c]) for c in ("imports", "run", *COLUMNS[1:])),
        )
        for rule, row in sorted(rows.items())
    ]
    checks = sum(1 for o in outcomes for r in o.results if r["passed"] is not None)
    return "\n".join(
        (
            f"{machine()}. {checks} checks in {len(outcomes)} files with a patch.\n",
            table(head, body),
            "The columns after `run` count patches; of those that no model reached they say nothing. `same program`: the check "
            "without torch that every fix passes before it is offered; the rest change keywords of one call.\n",
            table(("patch", "rule", "state", "why"), faults),
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/corpus.md")
    parser.add_argument("--only", default="", help="files whose path holds this text")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no further file after that time")
    options = parser.parse_args()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    from tables import write_section

    outcomes = []
    files = [path for path in modeling_files() if options.only in path.as_posix()]
    for outcome in run_files(files, options.processes, options.minutes):
        outcomes.append(outcome)
        words = {True: "passed", False: "FAILED", None: "not reached"}
        summary = Counter(words[r["passed"]] for r in outcome.results)
        print(outcome.path, dict(summary), outcome.trouble or "", flush=True)
        for result in outcome.results:
            if not result["passed"]:
                names = [outcome.patches[number]["function"] for number in result["patches"]]
                print("   ", names, result["name"], result["detail"], flush=True)
    outcomes.sort(key=lambda outcome: outcome.path)
    text = tables(outcomes)
    print(text)
    if options.write:
        write_section("run", text)
    failed = any(False in judged(o, n).values() for o in outcomes for n in range(len(o.patches)))
    return 1 if failed else 0


if __name__ == "__main__":
    if str(CORPUS) not in sys.path:  # once more, with the corpus beside this Python's own packages
        environment = corpus_environment()
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CORPUS), os.environ.get("PYTHONPATH"))))
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    sys.exit(main())
