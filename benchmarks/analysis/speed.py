"""How long an analysis takes: a whole file, again after an edit inside one class, and the same-program check of a fix.

    python benchmarks/analysis/speed.py FILE [FILE...] [--repeat N]

Give files of some 2,000 lines, such as `modeling_bart.py` of transformers. Times are medians in milliseconds of processor
time after a warm-up, beside the medians of the wall clock: other work on the machine shows in the second only.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from kernelwright.analyzers import offers
from kernelwright.analyzers.analysis import analyse


def milliseconds(run: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Medians of processor and wall time."""
    run()
    spent: list[tuple[float, float]] = []
    for _ in range(repeat):
        processor, wall = time.process_time(), time.perf_counter()
        run()
        spent.append((time.process_time() - processor, time.perf_counter() - wall))
    return (1e3 * statistics.median(p for p, _ in spent), 1e3 * statistics.median(w for _, w in spent))


def edited_texts(text: str) -> Callable[[], str]:
    """Each call gives the text with another comment at the end of its last method's first line."""
    at = text.index("\n", text.rindex("    def "))
    count = 0

    def edited() -> str:
        nonlocal count
        count += 1
        return f"{text[:at]}  # edit {count}{text[at:]}"

    return edited


def check_times(text: str, path: str) -> list[float]:
    """Processor time of every same-program check that an analysis of the file makes."""
    found: list[float] = []
    original = offers.difference

    def timed(*arguments: object, **keywords: object) -> str | None:
        start = time.process_time()
        result = original(*arguments, **keywords)  # type: ignore[arg-type]
        found.append(1e3 * (time.process_time() - start))
        return result

    offers.difference = timed
    try:
        analyse(text, path)
    finally:
        offers.difference = original
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    print(f"{'file':40} {'lines':>6} {'whole file':>18} {'after an edit':>18} {'checks':>16}")
    for path in options.files:
        text = path.read_text(encoding="utf-8")
        whole = milliseconds(lambda text=text, path=path: analyse(text, str(path)), options.repeat)  # type: ignore[misc]
        edited = edited_texts(text)
        again = milliseconds(lambda edited=edited, path=path: analyse(edited(), str(path)), options.repeat)  # type: ignore[misc]
        checks = check_times(text, str(path))
        shown = f"{statistics.median(checks):.0f} ms x {len(checks)}" if checks else "-"
        times = " ".join(f"{processor:7.0f} ({wall:.0f}) ms" for processor, wall in (whole, again))
        print(f"{path.name:40} {text.count(chr(10)):6} {times} {shown:>16}")


if __name__ == "__main__":
    main()
