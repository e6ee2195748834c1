"""The command line: exit statuses, the JSON, what is written and what is not."""

from __future__ import annotations

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelwright.analyzers.architecture import parse_program
from kernelwright.server.cli.main import main


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str) -> Path:
    """A folder to work in: a file with a finding, one without, one without torch, one that cannot be parsed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "w"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "found.py").write_text(sample, encoding="utf-8")
    (folder / "clean.py").write_text("import torch\n\n\ndef f(x):\n    return torch.relu(x)\n")
    (folder / "plain.py").write_text("import math\n")
    (folder / "broken.py").write_text("import torch\ndef f(:\n")
    return folder


def rows(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.split("\n") if line]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["found.py"], 1),
        (["clean.py"], 0),
        (["plain.py"], 0),
        (["broken.py"], 0),
        (["."], 1),
        ([".", "--exit-zero"], 0),
        (["found.py", "--rules", "silu"], 0),
        (["found.py", "--rules", "gelu,silu"], 1),
        (["found.py", "--rules", "nonsense"], 2),
        (["not there.py"], 2),
    ],
)
def test_exit_status_of_check(arguments: list[str], status: int) -> None:
    assert main(["check", *arguments]) == status


def test_an_unknown_option_is_bad_use() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--nonsense"])
    assert ended.value.code == 2


def test_text_names_place_rule_and_tier(capsys: pytest.CaptureFixture[str], sample: str, gelu: str) -> None:
    main(["check", "."])
    output = capsys.readouterr()
    line = sample[: sample.index(gelu)].count("\n") + 1
    column = sample.index(gelu) - sample.rindex("\n", 0, sample.index(gelu))
    assert output.out.startswith(f"found.py:{line}:{column}: gelu: ")
    assert "1 finding (1 exact) in 4 files" in output.err


def test_lines_and_columns_count_code_points_from_1_with_both_ends_included(
    capsys: pytest.CaptureFixture[str], sample: str, gelu: str
) -> None:
    main(["check", "--format", "jsonl", "found.py"])
    (row,) = rows(capsys.readouterr().out)
    lines = sample.split("\n")
    assert row["start_line"] == row["end_line"]
    assert lines[row["start_line"] - 1][row["start_column"] - 1 : row["end_column"]] == gelu
    assert (row["file"], row["rule"], row["class"], row["function"]) == ("found.py", "gelu", "NewGELU", "forward")
    assert row["gain"] is None


def test_json_is_the_list_of_the_same_objects(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--format", "jsonl", "."])
    lines = rows(capsys.readouterr().out)
    main(["check", "--format", "json", "."])
    assert json.loads(capsys.readouterr().out) == lines
    main(["check", "--format", "json", "clean.py"])
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("verb", [["check"], ["fix"], ["fix", "--diff"]])
def test_a_file_that_cannot_be_parsed_is_named_with_the_reason_and_the_others_go_on(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("latin.py").write_bytes(b"import torch  # \xe4\n")
    main([*verb, "."])
    output = capsys.readouterr()
    assert "broken.py: " in output.err
    assert "line 2" in output.err
    assert "latin.py: cannot be decoded" in output.err
    assert "found.py" in output.out


def test_many_files_are_checked_by_two_processes_with_the_same_result(
    capsys: pytest.CaptureFixture[str], sample: str
) -> None:
    for number in range(20):
        Path(f"m{number:02}.py").write_text(sample, encoding="utf-8")
    assert main(["check", "--format", "jsonl", "."]) == 1
    found = [row["file"] for row in rows(capsys.readouterr().out)]
    assert found == ["found.py", *(f"m{number:02}.py" for number in range(20))]


def test_fix_changes_the_expression_only_and_a_second_run_changes_nothing(sample: str, gelu: str) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert main(["fix", "."]) == 0
    fixed = Path("found.py").read_text(encoding="utf-8")
    ast.parse(fixed)
    assert gelu not in fixed
    assert fixed.endswith(sample.partition(gelu)[2])
    after = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert {name for name in after if after[name] != before[name]} == {"found.py"}
    assert main(["fix", "."]) == 0
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == after


def test_fix_keeps_byte_order_mark_and_line_ends(sample: str) -> None:
    Path("found.py").write_bytes(b"\xef\xbb\xbf" + sample.replace("\n", "\r\n").encode())
    main(["fix", "found.py"])
    content = Path("found.py").read_bytes()
    assert content.startswith(b"\xef\xbb\xbfimport math\r\n")
    assert b"torch.tanh" not in content
    assert content.count(b"\n") == content.count(b"\r\n")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_diff_applied_is_the_fix_and_writes_nothing_itself(
    ends: str, capsys: pytest.CaptureFixture[str], sample: str, tmp_path: Path
) -> None:
    content = sample.rstrip("\n").replace("\n", ends).encode()
    Path("found.py").write_bytes(content)
    assert main(["fix", "--diff", "found.py"]) == 0
    assert Path("found.py").read_bytes() == content
    (tmp_path / "change.diff").write_bytes(capsys.readouterr().out.encode())
    main(["fix", "found.py"])
    fixed = Path("found.py").read_bytes()
    Path("found.py").write_bytes(content)
    subprocess.run(["git", "apply", "--whitespace=nowarn", str(tmp_path / "change.diff")], check=True)
    assert Path("found.py").read_bytes() == fixed != content


def test_fix_of_other_rules_leaves_the_file(sample: str) -> None:
    assert main(["fix", "--rules", "silu", "found.py"]) == 0
    assert Path("found.py").read_text(encoding="utf-8") == sample


def test_arch_prints_programs_that_parse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arch", "found.py::NewGELU"]) == 0
    program = parse_program(capsys.readouterr().out)
    assert program.name.endswith("NewGELU.forward")
    assert "tanh" in {node.operation for node in program.nodes()}


def test_arch_counts_what_is_not_understood(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arch", "found.py", "--stats"]) == 0
    assert "0 opaque: 100.0 % understood" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["arch", "found.py::Nobody"],
        ["arch", "found.py::"],
        ["arch", "broken.py"],
        ["tune", "not there.py"],
        ["verify", "found.py::Nobody"],
        ["explain", "nonsense"],
        ["explain", "not there.py:3"],
    ],
)
def test_a_target_that_is_not_there_is_bad_use_and_said_so(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("kernelwright: ")


def test_explain_a_rule_is_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    from kernelwright.analyzers.rules.loader import rules

    for rule in rules():
        assert main(["explain", rule.name]) == 0
        assert capsys.readouterr().out.strip() == rule.page.strip()


def test_explain_a_line(capsys: pytest.CaptureFixture[str], sample: str, gelu: str) -> None:
    line = sample[: sample.index(gelu)].count("\n") + 1
    assert main(["explain", f"found.py:{line}"]) == 0
    text = capsys.readouterr().out
    assert "rule gelu" in text
    assert "✓ same program" in text
    assert main(["explain", "found.py:1"]) == 0
    assert capsys.readouterr().out.strip() not in ("", text.strip())


def test_doctor_tells_torch_and_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    for part in ("interpreter", "torch", "records", "machine", "not probed yet"):
        assert part in output


def test_a_number_that_is_known_is_in_check(capsys: pytest.CaptureFixture[str], sample: str) -> None:
    from kernelwright.analyzers.analysis import analyse
    from kernelwright.server.cli import check
    from kernelwright.server.interpreter import choose
    from kernelwright.tuner.devices import assumed
    from kernelwright.tuner.evidence import Gain
    from kernelwright.tuner.records import Records

    torch = choose([], []).torch
    if torch is None:
        pytest.skip("this interpreter has no torch, so there is no device to have numbers of")
    device = dataclasses.replace(assumed(torch), probed=True, date="2026-11-30T20:30:47+00:00")
    records = Records()
    records.store_probe(device)
    main(["check", "--format", "jsonl", "found.py"])
    assert rows(capsys.readouterr().out)[0]["gain"]["basis"] == "predicted"
    (opportunity,) = analyse(sample, "found.py").opportunities
    assert opportunity.workload is not None
    gain = Gain(2.5, 2.0, 3.0, "measured", device.name, opportunity.workload.shapes, "float32", "eval", device.date)
    check._measurements.cache_clear()  # kept for the life of a process, which is one command
    records.store_gain(opportunity.workload, device.fingerprint, device.toolchain, gain)
    main(["check", "--format", "jsonl", "found.py"])
    assert rows(capsys.readouterr().out)[0]["gain"] == {
        "value": 2.5,
        "low": 2.0,
        "high": 3.0,
        "basis": "measured",
        "device": device.name,
        "shapes": opportunity.workload.shapes,
        "dtype": "float32",
        "mode": "eval",
    }
    main(["check", "found.py"])
    assert " 2.5× measured\n" in capsys.readouterr().out
    main(["doctor"])
    assert "probed 2026-11-30" in capsys.readouterr().out


def test_check_and_fix_load_no_framework_and_no_protocol() -> None:
    program = (
        "import sys\n"
        "from kernelwright.server.cli.main import main\n"
        "main(['check', 'found.py'])\n"
        "main(['fix', '--diff', 'found.py'])\n"
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'torch', 'tvm', 'pygls', 'lsprotocol'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_the_entry_point_runs_as_a_program() -> None:
    command = "import sys; from kernelwright.server.cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", command, "check", "found.py"], capture_output=True, check=False)
    assert done.returncode == 1
    gone = subprocess.run(
        f'{sys.executable} -c "{command}" check . --format jsonl | true', shell=True, capture_output=True, check=False
    )
    assert b"Traceback" not in gone.stderr
