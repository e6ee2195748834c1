"""Records on disk: what was written comes back, whatever moment a crash chose. No tvm here."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelwright.tuner.search.programs import Program, load_programs, save_programs
from kernelwright.tuner.search.record_arrays import STATUSES, load, replicate_pairs, summary
from kernelwright.tuner.search.record_store import Measurement, RecordStore, StoreError, Turn, read_blocks

TASK = "softmax-m128-n1000"
DATE = "2026-01-02T03:04:05+00:00"
TURN = Turn(TASK, "avx2-1", 0)


def program(number: int, stores: int = 2) -> Program:
    features = np.random.default_rng(number).standard_normal((stores, 164)).astype(np.float32)
    return Program(f"{2**63 + number:016x}", f'[["Instruction",{number}],[]]', features, "evolved", number // 2)


def result(number: int, seconds: float = 1e-3) -> Measurement:
    return Measurement(number, "ok", (seconds, 2 * seconds, 1.5 * seconds), 3 * seconds, 0.25, 0.01, 0.3, 1.5)


def fill(store: RecordStore, turn: Turn = TURN, count: int = 4, seconds: float = 1e-3, *, moved: bool = False) -> None:
    store.begin(turn, "abc", DATE, 2e-3)
    for number in range(count):
        store.add(result(number, seconds))
    store.finish(2.02e-3, moved)


def measurements(folder: Path) -> Path:
    return folder / "measurements" / f"{TASK}.jsonl.gz"


def test_programs_come_back(tmp_path: Path) -> None:
    programs = [program(0), program(1, 5), program(2, 1)]
    save_programs(tmp_path / "p.npz", programs, {"flops": 12.0})
    back, about = load_programs(tmp_path / "p.npz")
    assert about == {"flops": 12.0}
    assert [(p.key, p.trace, p.origin, p.round) for p in back] == [
        (p.key, p.trace, p.origin, p.round) for p in programs
    ]
    assert all(np.array_equal(p.features, q.features) for p, q in zip(back, programs, strict=True))
    save_programs(tmp_path / "none.npz", [], {})
    assert load_programs(tmp_path / "none.npz") == ([], {})


def test_records_come_back_as_arrays(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    store.add_programs(TASK, [program(0, 1), program(1, 3)], {"flops": 1.0})
    store.add_programs(TASK, [program(2), program(3)], {"flops": 2.0})
    fill(store)
    fill(store, Turn(TASK, "avx2-1", 0, 1), seconds=1.1e-3)
    store.begin(Turn(TASK, "sse-2", 0), "def", DATE, 2e-3)
    store.add(Measurement(0, "slow", (), 0.5, 0.1))
    store.add(Measurement(1, "timeout", detail=""))
    store.add(Measurement(2, "crash", detail="signal 11"))
    store.finish(2e-3, moved=False)
    store.close()
    records = load(tmp_path)
    assert (records.tasks, records.devices) == ((TASK,), ("avx2-1@abc", "sse-2@def"))
    assert records.about == ({"flops": 2.0},)
    assert records.first_store.tolist() == [0, 1, 4, 6, 8]
    assert np.array_equal(records.features[1:4], program(1, 3).features)
    assert records.program_key.tolist() == [2**63 + number for number in range(4)]
    assert records.program.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    assert records.device.tolist() == [0] * 8 + [1] * 3
    assert [STATUSES[status] for status in records.status] == ["ok"] * 8 + ["slow", "timeout", "crash"]
    assert np.allclose(records.best_seconds[:8], [1e-3] * 4 + [1.1e-3] * 4)
    assert np.allclose(records.seconds[0], [1e-3, 2e-3, 1.5e-3])
    assert np.isnan(records.seconds[8:]).all()
    assert records.once[8] == pytest.approx(0.5)
    assert np.isnan(records.once[9])
    assert records.sentinel[0] == 2e-3
    assert records.day[0] == pytest.approx(20455.128, abs=1e-3)  # days from 1970 to 2026-01-02 03:04:05
    assert np.allclose(replicate_pairs(records), [[1e-3, 1.1e-3]] * 4)
    assert "4 measured again: median change 10.0 %" in summary(records)
    assert len(load(tmp_path, tasks=["another"]).program) == 0


def test_measurements_between_which_the_sentinel_moved_do_not_count_and_are_due_again(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    store.add_programs(TASK, [program(number) for number in range(4)], {})
    fill(store, moved=True)
    assert (store.records, store.finished) == (0, set())
    fill(store)
    store.close()
    assert len(load(tmp_path).program) == 4
    assert [block.moved for block, _ in read_blocks(measurements(tmp_path))] == [True, False]


def test_a_member_cut_short_anywhere_is_cut_off_and_the_rest_is_whole(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    store.add_programs(TASK, [program(number) for number in range(4)], {})
    fill(store)
    first = measurements(tmp_path).stat().st_size
    fill(store, Turn(TASK, "sse-1", 0))
    store.close()
    whole = measurements(tmp_path).read_bytes()
    for length in range(first, len(whole)):
        measurements(tmp_path).write_bytes(whole[:length])
        assert len(load(tmp_path).program) == 4
        store = RecordStore(tmp_path)
        assert store.finished == {(TURN, "abc")}
        assert measurements(tmp_path).stat().st_size == first
        store.close()
    store = RecordStore(tmp_path)
    fill(store, Turn(TASK, "sse-1", 0))
    store.close()
    assert gzip.decompress(measurements(tmp_path).read_bytes()).count(b"\n") == 2 * 5


def test_a_block_that_was_written_when_the_crash_came_is_not_written_again(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    store.begin(TURN, "abc", DATE, 2e-3)
    store.add(result(0))
    journal = (tmp_path / "open-block.jsonl").read_bytes()
    store.finish(2e-3, moved=False)
    store.close()
    (tmp_path / "open-block.jsonl").write_bytes(journal)  # the crash came before it was removed
    store = RecordStore(tmp_path)
    assert store.open is None
    assert store.records == 1
    store.close()


def test_an_open_block_goes_on_without_the_line_that_was_cut_short(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    store.begin(TURN, "abc", DATE, 2e-3)
    store.add(result(0))
    store.add(result(1, 5e-4))
    store.close()
    journal = tmp_path / "open-block.jsonl"
    journal.write_bytes(journal.read_bytes() + b'[2,"ok",[1000.0,10')
    store = RecordStore(tmp_path)
    assert store.open is not None
    assert [found.program for found in store.open.measurements] == [0, 1]
    assert store.best(TASK, "abc") == pytest.approx(5e-4)
    store.add(result(2))
    store.finish(2e-3, moved=False)
    store.close()
    ((block, _),) = read_blocks(measurements(tmp_path))
    assert [found.program for found in block.measurements] == [0, 1, 2]


WRITER = """
import sys
from pathlib import Path
from kernelwright.tuner.search.record_store import Measurement, RecordStore, Turn
store, number = RecordStore(Path(sys.argv[1])), 0
for turn in range(1000):
    store.begin(Turn("softmax-m128-n1000", "avx2-1", turn), "abc", "2026-01-02T03:04:05+00:00", 2e-3)
    for program in range(7):
        store.add(Measurement(program, "ok", (1e-3, 1e-3, 1e-3), 1e-3, 0.1))
        number += 1
        print(number, flush=True)
    store.finish(2e-3, moved=False)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("after", [1, 6, 7, 8, 30, 63])
def test_kill_9_loses_no_finished_candidate(tmp_path: Path, after: int) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(after):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    told = after + len(writer.stdout.read().splitlines())
    writer.wait()
    writer.stdout.close()
    store = RecordStore(tmp_path)
    stored = store.records + (len(store.open.measurements) if store.open else 0)
    store.close()
    assert told <= stored <= told + 1  # one more may have been written and not yet told
    turns = [block.turn.round for block, _ in read_blocks(measurements(tmp_path))] if told > 7 else []
    assert turns == list(range(len(turns)))


def test_two_writers_are_kept_apart(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    with pytest.raises(StoreError, match="another collector writes to"):
        RecordStore(tmp_path)
    store.close()
    RecordStore(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        RecordStore(tmp_path / "file" / "records")


def test_devices_of_another_machine_stand_beside(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    for mark in ("abc", "def", "abc"):
        store.add_device("avx2-1", {"fingerprint": mark, "cpu": f"cpu {mark}"})
    store.close()
    known = json.loads((tmp_path / "devices.json").read_text())
    assert {name: device["cpu"] for name, device in known.items()} == {"avx2-1@abc": "cpu abc", "avx2-1@def": "cpu def"}
