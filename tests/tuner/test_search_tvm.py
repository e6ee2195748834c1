"""Search on the real TVM: programs compute what they say, sampling repeats, nothing a candidate does ends the run.

Needs an interpreter with the pinned tvm: the one that runs the tests, or the one in KERNELWRIGHT_TVM_PYTHON.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kernelwright.tuner
from kernelwright.tuner.search import pinned
from kernelwright.tuner.search.measurer import Measurer, MeasurerError
from kernelwright.tuner.search.programs import Program, load_programs
from kernelwright.tuner.search.pseudo_devices import PseudoDevice
from kernelwright.tuner.search.record_arrays import load
from kernelwright.tuner.search.record_store import read_blocks
from kernelwright.tuner.search.tasks import FAMILIES

TVM_PYTHON = os.environ.get("KERNELWRIGHT_TVM_PYTHON") or (sys.executable if pinned.problem() is None else "")
PROGRAMS = sorted(program for programs in FAMILIES.values() for program in programs)
TASK = "rotary-h16-t128-d64"

needs_tvm = pytest.mark.skipif(
    not TVM_PYTHON,
    reason=f"apache-tvm {pinned.TVM} is not installed: pip install '.[tvm]', or name an interpreter that has it in "
    "KERNELWRIGHT_TVM_PYTHON",
)
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="children die with their parent on Linux only")


@pytest.fixture
def measurer(tmp_path: Path) -> Iterator[Measurer]:
    with contextlib.closing(Measurer((TVM_PYTHON,), 1, tmp_path)) as made:
        yield made


def target(measurer: Measurer) -> dict[str, str | int]:
    return PseudoDevice("native", 1).target(measurer.toolchain.host_cpu)


def sampled(measurer: Measurer, out: Path, *, seed: int = 5, count: int = 6, known: list[str] | None = None,
            elites: list[tuple[str, float]] | None = None, task: str = TASK) -> list[Program]:  # fmt: skip
    assert measurer.sample(task, target(measurer), seed, count, known or [], elites or [], out) is None
    return load_programs(out)[0]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: object, seconds: float = 30.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


# --- the programs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def errors() -> dict[str, list[float]]:
    """Of every program against numpy, as written and scheduled; see search_reference.py."""
    root = str(Path(kernelwright.tuner.__file__ or "").parents[2])
    script = Path(__file__).with_name("search_reference.py")
    done = subprocess.run(
        [TVM_PYTHON, str(script)], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


@needs_tvm
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_computes_what_numpy_computes_as_written_and_scheduled(
    program: str, errors: dict[str, list[float]]
) -> None:
    as_written, scheduled = errors[program]
    assert as_written < 1e-5
    assert scheduled < 1e-5


# --- sampling --------------------------------------------------------------------------------------------------------


@needs_tvm
def test_the_same_seed_gives_the_same_programs_in_another_process(measurer: Measurer, tmp_path: Path) -> None:
    first = sampled(measurer, tmp_path / "first.npz")
    other = sampled(measurer, tmp_path / "other.npz", seed=6)
    (tmp_path / "z").mkdir()
    with contextlib.closing(Measurer((TVM_PYTHON,), 1, tmp_path / "z")) as again:
        second = sampled(again, tmp_path / "second.npz")
    assert [(p.key, p.trace, p.origin) for p in first] == [(p.key, p.trace, p.origin) for p in second]
    assert all(np.array_equal(p.features, q.features) for p, q in zip(first, second, strict=True))
    assert [p.key for p in first] != [p.key for p in other]


@needs_tvm
def test_no_structure_comes_twice_nor_one_that_is_known(measurer: Measurer, tmp_path: Path) -> None:
    first = sampled(measurer, tmp_path / "first.npz", count=16)
    keys = [program.key for program in first]
    assert len(set(keys)) == len(keys) == 16
    assert {program.origin for program in first} == {"random", "evolved"}
    assert all(program.features.shape[1] == 164 and np.isfinite(program.features).all() for program in first)
    again = sampled(measurer, tmp_path / "again.npz", count=16, known=keys)
    assert not {program.key for program in again} & set(keys)
    elites = [(program.trace, 1e-3 * (1 + place)) for place, program in enumerate(first[:4])]
    evolved = sampled(measurer, tmp_path / "evolved.npz", count=16, known=keys, elites=elites)
    assert evolved
    assert not {program.key for program in evolved} & set(keys)


# --- measuring: a candidate can do no harm ---------------------------------------------------------------------------


@needs_tvm
@needs_linux
def test_crashing_hanging_and_broken_candidates_cost_their_own_result_only(measurer: Measurer, tmp_path: Path) -> None:
    traces = {place: program.trace for place, program in enumerate(sampled(measurer, tmp_path / "p.npz", count=4))}
    traces[4] = "[[], [], []]"
    built = measurer.build(TASK, target(measurer), traces)
    assert built[4].status == "error"
    assert built[4].detail
    assert all(built[number].build > 0 for number in range(4))
    crashing, hanging = children(measurer.pid)[:2]  # forked in order; every one waits, built, for its turn
    os.kill(crashing, signal.SIGSEGV)
    os.kill(hanging, signal.SIGSTOP)
    results = [measurer.run(built[number], None, limit=2.0) for number in range(4)]
    assert sorted(result.status for result in results) == ["crash", "ok", "ok", "timeout"]
    assert [result.detail for result in results if result.status == "crash"] == [f"signal {signal.SIGSEGV.value}"]
    assert not alive(hanging)
    assert children(measurer.pid) == []
    assert measurer.sentinel(target(measurer)) > 0
    slow = measurer.build(TASK, target(measurer), {0: traces[0]})[0]
    result = measurer.run(slow, 1e-9)
    assert (result.status, result.seconds) == ("slow", ())
    assert result.once > 0


@needs_tvm
@needs_linux
def test_a_hanging_compiler_is_ended(measurer: Measurer, tmp_path: Path) -> None:
    (program,) = sampled(measurer, tmp_path / "p.npz", count=1)
    result = measurer.build(TASK, target(measurer), {0: program.trace}, wall_limit=0.001)[0]
    assert (result.status, result.build) == ("timeout", 0.0)
    assert measurer.build(TASK, target(measurer), {0: program.trace})[0].build > 0


@needs_tvm
@needs_linux
def test_a_zygote_does_not_outlive_its_parent_and_has_one_thread(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from kernelwright.tuner.search.measurer import Measurer\n"
        "m = Measurer((sys.argv[1],), 2, Path(sys.argv[2])); print(m.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, TVM_PYTHON, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None and parent.stdin is not None
    zygote = int(parent.stdout.readline())
    assert len(list(Path(f"/proc/{zygote}/task").iterdir())) == 1
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(zygote))
    parent.stdin.close()
    parent.stdout.close()


# --- the whole collector ---------------------------------------------------------------------------------------------


def collecting(folder: Path, *more: str) -> list[str]:
    program = "import sys; from kernelwright.server.cli.main import main; sys.exit(main(sys.argv[1:]))"
    options = ["--out", str(folder), "--python", TVM_PYTHON, "--tasks", "rotary", "--load-limit", "1000", *more]
    return [sys.executable, "-c", program, "model", "collect", *options]


@needs_tvm
@needs_linux
def test_killed_in_the_middle_it_goes_on_behind_the_last_finished_candidate(tmp_path: Path) -> None:
    folder, journal = tmp_path / "records", tmp_path / "records" / "open-block.jsonl"
    collector = subprocess.Popen(collecting(folder, "--minutes", "5"), stdout=subprocess.DEVNULL)
    try:
        # the header, and some candidates of the first block
        wait_for(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 3, 60.0)
    finally:
        helpers = children(collector.pid)
        collector.kill()
        collector.wait()
    wait_for(lambda: not any(map(alive, helpers)))
    header, *before = (json.loads(line) for line in journal.read_text().splitlines())
    measured = folder / "measurements" / f"{header['task']}.jsonl.gz"
    finished = len(list(read_blocks(measured))) if measured.exists() else 0
    more = subprocess.Popen(collecting(folder, "--minutes", "5"), stdout=subprocess.PIPE, text=True)
    assert more.stdout is not None
    try:
        first_line = more.stdout.readline()
    finally:
        more.terminate()
        more.communicate()
    assert more.returncode == 130
    assert header["task"] in first_line
    assert not (folder / ".scratch").exists()
    block = [block for block, _ in read_blocks(measured)][finished]
    assert sorted(result.program for result in block.measurements) == list(range(20)) or block.moved
    if not block.moved:
        assert [result.row() for result in block.measurements[: len(before)]] == before
        records = load(folder)
        assert len(records.program) >= 20
        assert np.isfinite(records.best_seconds[records.status == 0]).all()


def test_an_interpreter_without_tvm_is_named_with_what_to_do(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    (tmp_path / "scratch").mkdir()
    python = str(bare / "bin" / "python")
    with pytest.raises(MeasurerError) as raised:
        Measurer((python,), 1, tmp_path / "scratch")
    message = str(raised.value)
    assert "apache-tvm is not installed" in message
    assert python in message
    assert f"apache-tvm-ffi=={pinned.TVM_FFI}" in message
    assert "--python" in message
    with pytest.raises(MeasurerError, match="cannot be started"):
        Measurer((str(tmp_path / "nothing"),), 1, tmp_path / "scratch")
