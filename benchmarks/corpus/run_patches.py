"""The patched classes of transformers 4.35.0 against the original ones, in as many small models as can be built.

    python benchmarks/corpus/run_patches.py [--write] [--only TEXT]

For each modeling file with findings all fixes are applied. A model of the file is built small, from the original and from the
patched module, with the same weights; each submodule whose class was patched is then run on the inputs that the original model
gives it: outputs, element types and gradients, in training and eval, float64, float32, bfloat16 and autocast. Counted as run is
a class only where the patched one called a kernel more than the original. Each file runs in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import inspect
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cases"))
from corpus import CORPUS, corpus_environment, missing, modeling_files, read  # noqa: E402

SECONDS = 240
"""Longest time for one file."""
LARGEST = 60_000_000
"""Parameters of the largest model that is built."""
PLACES = 4
"""Calls of one class that are compared."""
EXACT = 2e-6
"""Largest relative difference in float64: many classes compute in float32 inside."""
KERNELS = ("scaled_dot_product_attention", "gelu", "silu", "rms_norm", "layer_norm")


# --- in the process of one file: needs torch and the corpus, not Kernelwright -------------------------------------------------


def work(name: str, patched: str, wanted: list[str]) -> Iterator[dict[str, Any]]:
    """Compare the classes `wanted` of one module; yields results {"class", "passed", "name", "detail"} and notes."""
    import torch
    from ran_equal import MODES, compare
    from real_class import load
    from tiny_models import without_dropout
    from torch import nn

    torch.set_num_threads(1)
    old, new = importlib.import_module(name), load(patched, f"{name}_patched")
    left = set(wanted)
    notes: Counter[str] = Counter()
    for model_class in model_classes(old):
        if not left:
            break
        try:
            model, arguments, captured = built_and_run(model_class, left)
        except Exception as error:
            notes[f"{model_class.__name__}: {type(error).__name__}: {str(error)[:150]}"] += 1
            continue
        if not captured:
            continue
        torch.manual_seed(0)
        twin = getattr(new, model_class.__name__)(model.config)
        without_dropout(twin)
        yield {
            "class": model_class.__name__,
            "name": "state-dict keys",
            "detail": "",
            "whole": True,
            "passed": list(model.state_dict()) == list(twin.state_dict()),
        }
        twin.load_state_dict(model.state_dict())
        compared: Counter[str] = Counter()
        for path, call in captured:
            before, after = model.get_submodule(path), twin.get_submodule(path)
            class_name = type(before).__name__
            if compared[class_name] == PLACES:
                continue
            call = reaching(before, after, call)
            if call is None:
                notes[f"{class_name}: no kernel called in {model_class.__name__}"] += 1
                continue
            left.discard(class_name)
            compared[class_name] += 1
            for check in compare(f"{model_class.__name__}.{path}", before, after, call, exact=EXACT, factor=4.0):
                yield {"class": class_name, "name": check.name, "passed": check.passed, "detail": check.detail}
            before.float()
            after.float()
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
                "class": model_class.__name__,
                "name": check.name,
                "passed": check.passed,
                "detail": check.detail,
                "whole": True,
            }
        assert isinstance(model, nn.Module)
    for class_name in sorted(left):
        yield {"class": class_name, "name": "not reached", "passed": None, "detail": "; ".join(notes)[:600]}


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


def reaching(before: Any, after: Any, call: Any) -> Any:
    """The call with which the patched module reaches a kernel more than the original: as it is, or without its masks,
    where the patch keeps the old path for a mask; else None.
    """
    import torch

    def unmasked(dtype: Any) -> dict[str, Any]:
        return {name: None if "mask" in name else value for name, value in call(dtype).items()}

    for made in (call, unmasked):
        try:
            counts = [kernels_called(functools.partial(module, **made(torch.float32))) for module in (before, after)]
        except (TypeError, AttributeError):  # the original needs its mask
            continue
        if counts[1] > counts[0]:
            return made
    return None


def kernels_called(call: Callable[[], object]) -> int:
    """How often a call reaches one of the kernels through torch.nn.functional."""
    import torch

    count = 0
    functional = torch.nn.functional
    with contextlib.ExitStack() as stack:
        for name in KERNELS:
            original = getattr(functional, name)

            def counted(*arguments: Any, original: Any = original, **keywords: Any) -> Any:
                nonlocal count
                count += 1
                return original(*arguments, **keywords)

            setattr(functional, name, counted)
            stack.callback(setattr, functional, name, original)
        with torch.no_grad():
            call()
    return count


# --- the program that starts them ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What one file gave: its results as `work` yields them, and why it ended early (None: it did not)."""

    path: str
    results: tuple[dict[str, Any], ...]
    trouble: str | None = None


def run_file(path: Path) -> Outcome | None:
    """Patch a file and run it; None where there is nothing to patch."""
    from kernelwright.analyzers.analysis import Settings, fix

    name = path.relative_to(CORPUS).as_posix()
    result = fix(read(path), str(path), Settings(torch_version=(2, 13)), frozenset({"exact", "guarded", "assumed"}))
    wanted = sorted({o.class_name for o in result.applied if o.class_name})
    if not wanted:
        return None
    with tempfile.TemporaryDirectory() as folder:
        patched = Path(folder) / "patched.py"
        patched.write_bytes(result.text.encode())
        module = name.removesuffix(".py").replace("/", ".")
        command = [sys.executable, __file__, "--worker", module, str(patched), *wanted]
        try:
            done = subprocess.run(
                command, env=corpus_environment(), capture_output=True, text=True, timeout=SECONDS, check=False
            )
            output, trouble = done.stdout, done.stderr.strip().splitlines()[-1:] if done.returncode else []
        except subprocess.TimeoutExpired as error:
            output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
            trouble = [f"longer than {SECONDS} s"]
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return Outcome(name, tuple(lines), trouble[0] if trouble else None)


def state_of(judged: list[dict[str, Any]]) -> str:
    """A class in a word. What fails in float32 or below alone, by its figures, is another rounding: float64 decides."""
    if any(r["passed"] is None for r in judged):
        return "not reached"
    failed = [r for r in judged if not r["passed"]]
    if not failed:
        return "equal"
    rounding = all("float64" not in r["name"] and ": off by " in r["detail"] for r in failed)
    return "equal in float64 and rounded otherwise below" if rounding else "DIFFERS"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/corpus.md")
    parser.add_argument("--only", default="", help="files whose path holds this text")
    options = parser.parse_args()
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    from tables import machine, table, write_section

    outcomes = []
    with ThreadPoolExecutor(2) as pool:
        for outcome in pool.map(run_file, [p for p in modeling_files() if options.only in p.as_posix()]):
            if outcome is None:
                continue
            outcomes.append(outcome)
            summary = Counter(
                {True: "passed", False: "FAILED", None: "not reached"}[r["passed"]] for r in outcome.results
            )
            print(outcome.path, dict(summary), outcome.trouble or "", flush=True)
            for result in outcome.results:
                if not result["passed"]:
                    print("   ", result["class"], result["name"], result["detail"], flush=True)
    rows, totals = [], Counter[str]()
    for outcome in outcomes:
        if outcome.trouble:
            rows.append((outcome.path, "", f"ended early: {outcome.trouble}"))
        for name in sorted({r["class"] for r in outcome.results if not r.get("whole")}):
            judged = [r for r in outcome.results if r["class"] == name and not r.get("whole")]
            state = f"{state_of(judged)}, {len(judged)} checks"
            totals[state.partition(",")[0]] += 1
            rows.append((outcome.path, name, state))
    whole = [r["passed"] for o in outcomes for r in o.results if r.get("whole")]
    text = (
        f"{machine()}. Classes: {', '.join(f'{n} {state}' for state, n in totals.most_common())}. "
        f"Whole models: {sum(whole)} of {len(whole)} checks passed.\n\n" + table(("file", "class", "state"), rows)
    )
    print(text)
    if options.write:
        write_section("run", text)
    return 1 if totals["DIFFERS"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        for line in work(sys.argv[2], sys.argv[3], sys.argv[4:]):
            print(json.dumps(line), flush=True)
    else:
        sys.exit(main())
