"""The task list, the pseudo-devices and the order of work. No tvm here."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import time

import pytest

from kernelwright.server.cli.main import main
from kernelwright.tuner.devices import Machine
from kernelwright.tuner.search import realtime
from kernelwright.tuner.search.collector import REPLICATED, plan
from kernelwright.tuner.search.own_load import OrdinaryUse, OwnLoad, _ordinary_seconds, damped
from kernelwright.tuner.search.pseudo_devices import PseudoDevice, Toolchain, description, environment, offered
from kernelwright.tuner.search.tasks import FAMILIES, task, tasks

AVX512 = ("avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl")
TOOLCHAIN = Toolchain("0.27.0.post1", "0.1.14.post1", "icelake-server")


def machine(cores: int = 2, isa: tuple[str, ...] = AVX512, system: str = "Linux x86_64") -> Machine:
    return Machine("Some CPU", cores, isa, system, "")


def test_the_task_list_is_wide_and_its_ids_are_for_ever() -> None:
    every = tasks()
    assert len(every) >= 60
    assert {known.family for known in every} == FAMILIES.keys()
    assert len(FAMILIES) >= 12
    assert len({known.id for known in every}) == len({known.seed for known in every}) == len(every)
    assert {known.family for known in every[: len(FAMILIES)]} == FAMILIES.keys()
    bert = task("linear-m128-n768-k768")
    assert (bert.family, bert.program, dict(bert.shapes)) == ("matmul", "linear", {"m": 128, "n": 768, "k": 768})
    assert bert.seed == 1391451349
    assert all(set(known.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for known in every)


@pytest.mark.parametrize(
    ("of", "names"),
    [
        (machine(), ["sse-1", "avx2-1", "avx512-1", "sse-2", "avx2-2", "avx512-2"]),
        (machine(cores=1), ["sse-1", "avx2-1", "avx512-1"]),
        (machine(isa=("avx", "avx2", "fma")), ["sse-1", "avx2-1", "sse-2", "avx2-2"]),
        (machine(isa=("sse4_2",)), ["sse-1", "sse-2"]),
        (machine(isa=("asimd",), system="Linux aarch64"), ["native-1", "native-2"]),
    ],
)
def test_a_machine_offers_what_its_cpu_can(of: Machine, names: list[str]) -> None:
    assert [device.name for device in offered(of)] == names


def test_a_device_is_known_by_all_that_its_numbers_depend_on() -> None:
    device = PseudoDevice("avx512", 2)
    assert device.target("znver4") == {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}
    assert PseudoDevice("avx2", 2).target("znver4")["mcpu"] == "haswell"
    prints = {
        str(description(*of)["fingerprint"])
        for of in (
            (device, TOOLCHAIN, machine()),
            (PseudoDevice("avx512", 1), TOOLCHAIN, machine()),
            (PseudoDevice("avx2", 2), TOOLCHAIN, machine()),
            (device, Toolchain("0.28.0", "0.1.14.post1", "icelake-server"), machine()),
            (device, TOOLCHAIN, machine(cores=4)),
        )
    }
    assert len(prints) == 5
    assert description(device, TOOLCHAIN, machine())["fingerprint"] in prints
    own = environment(2, "/scratch")
    assert (own["TVM_NUM_THREADS"], own["TMPDIR"]) == ("2", "/scratch")


def test_every_task_meets_every_device_before_the_next_round_and_any_beginning_is_wide() -> None:
    some, devices = tasks()[:20], offered(machine())
    turns = list(itertools.takewhile(lambda turn: turn.round == 0, plan(some, devices)))
    first = [turn for turn in turns if not turn.replicate]
    assert len(first) == len(set(first)) == len(some) * len(devices)
    assert {turn.task for turn in first[: 2 * len(some)]} == {known.id for known in some}  # each on both thread counts
    assert {turn.device for turn in first[: len(devices)]} == {device.name for device in devices}
    again = [turn for turn in turns if turn.replicate]
    assert abs(len(again) - len(first) / REPLICATED) <= len(devices)
    assert all(turns.index(turn) > turns.index(type(turn)(turn.task, turn.device, turn.round)) for turn in again)


def test_a_level_is_compiled_once_for_all_its_thread_counts() -> None:
    turns = list(plan(tasks()[:9], offered(machine()), rounds=1))
    first = [turn for turn in turns if not turn.replicate]
    for one, other in zip(first[::2], first[1::2], strict=True):
        assert (one.task, one.round) == (other.task, other.round)
        assert one.device.replace("-1", "-2") == other.device


def test_a_pool_measures_all_its_blocks_so_often_and_ends() -> None:
    some, devices = tasks()[:3], [PseudoDevice("avx2", 1)]
    turns = list(plan(some, devices, times=3, rounds=2))
    assert len(turns) == len(set(turns)) == 3 * 3 * 2
    assert [turn.replicate for turn in turns[:3]] == [0, 1, 2]
    assert {turn.round for turn in turns} == {0, 1}


@pytest.mark.skipif(sys.platform != "linux", reason="SCHED_FIFO is Linux's")
def test_realtime_scheduling_is_tried_before_it_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = os.sched_getscheduler(0)
    monkeypatch.setattr(os, "sched_setscheduler", refused)
    message = realtime.problem()
    assert message is not None
    assert "CAP_SYS_NICE" in message
    assert os.sched_getscheduler(0) == before


def test_without_permission_collecting_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(realtime, "problem", lambda: "--realtime is not permitted: leave it out")
    assert main(["model", "collect", "--minutes", "1", "--out", "nowhere", "--realtime"]) == 2
    assert "not permitted" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_niced_processes_do_is_not_ordinary_use() -> None:
    burn = "import os, time\nos.nice(19)\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    before, use = _ordinary_seconds(), OrdinaryUse()
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", burn], check=True)
    cores, passed = use.cores(), time.monotonic() - begun
    assert cores * passed == pytest.approx(_ordinary_seconds() - before, abs=0.3)


def test_own_work_is_damped_as_the_system_damps_the_load() -> None:
    assert damped(0.0, used=120.0, passed=60.0) == pytest.approx(2 * (1 - 1 / math.e))
    assert damped(2.0, used=0.0, passed=60.0) == pytest.approx(2 / math.e)
    in_steps = 0.0
    for _ in range(12):
        in_steps = damped(in_steps, used=7.5, passed=5.0)
    assert in_steps == pytest.approx(damped(0.0, used=90.0, passed=60.0))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_own_work_and_that_of_helpers_is_not_others_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0, 3.0, 3.0))  # the system's own one is not ours to set
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as helper:
        assert helper.stdout is not None
        knows_it, knows_it_not = OwnLoad(), OwnLoad()
        helper.stdout.readline()
        others, all_of_it = knows_it.others([helper.pid]), knows_it_not.others([])
        helper.communicate(b"\n")
    assert 0 < others < all_of_it <= 3.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "nonsense"], "no family nonsense; there are: attention_scores"),
        (["--device", "avx1024"], "this machine cannot be avx1024; it can be:"),
    ],
)
def test_what_is_not_there_is_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "collect", "--minutes", "1", "--out", "nowhere", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "soon"])
def test_minutes_are_more_than_nothing(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["model", "collect", "--out", "nowhere", "--minutes", minutes])
    assert ended.value.code == 2
    assert "--minutes" in capsys.readouterr().err
