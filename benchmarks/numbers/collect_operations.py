"""Measures random programs of single operations and writes one JSON line each: the data that predictions are fitted to.

    python benchmarks/numbers/collect_operations.py --isa native --minutes 10 --out operations/native.jsonl

`--isa` makes a pseudo-device of this machine: `avx2` and `default` limit the instructions that torch and oneDNN use.
The first line of a run holds the probe of that pseudo-device. May be stopped at any time and run again: it goes on with
other shapes (the seed is the number of lines in the file).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

LIMITS = {
    "native": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "default": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", choices=LIMITS, default="native")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--core", type=int, default=0, help="the first of the cores to measure on")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    os.environ.update(LIMITS[options.isa])  # before torch is imported
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ.update({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"})
    _collect(options)


def _collect(options: argparse.Namespace) -> None:
    import torch
    from bursts import Bursts
    from device_figures import figures
    from operations import draw

    from kernelwright.analyzers.architecture import parse_program
    from kernelwright.analyzers.workload import Workload
    from kernelwright.tuner.execute import NotExecutable, compile_program
    from kernelwright.tuner.inputs import InputCase, build

    torch.set_num_threads(options.threads)
    bursts = Bursts(tuple(range(options.core, options.core + options.threads)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = len(options.out.read_text().splitlines()) if options.out.exists() else 0
    generator = random.Random(f"{options.isa} {options.threads} {lines}")
    end = time.monotonic() + 60 * options.minutes
    roles = {"i": "index", "t": "index", "v": "positive", "mask": "normal"}
    with options.out.open("a") as out, torch.no_grad():
        probe = {"isa": options.isa, "threads": options.threads, "device": figures(bursts)}
        out.write(json.dumps(probe) + "\n")
        while time.monotonic() < end:
            name, text = draw(generator)
            program = parse_program(text)
            inputs = tuple(
                (str(n.attribute("name")), roles.get(str(n.attribute("name")), "normal")) for n in program.inputs
            )
            workload = Workload(name, program, program, inputs, (), ())
            try:
                arguments = build(workload, InputCase("normal"), seed=lines)
                executable = compile_program(program, arguments)
                timing = bursts.time(lambda: executable(*arguments))  # noqa: B023
            except (NotExecutable, RuntimeError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            bursts.pause()
            if timing is not None:
                row = {"operation": name, "seconds": timing.seconds, "median": timing.median}
                out.write(json.dumps({**row, "interrupted": timing.interrupted, "program": text}) + "\n")
                out.flush()
                lines += 1


if __name__ == "__main__":
    main()
