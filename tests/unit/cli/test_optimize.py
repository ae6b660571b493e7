"""``vyre optimize``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import vyre
from vyre.app.cli import main
from vyre.app.cli import optimize as command
from vyre.app.optimizer_check import CheckedRuns, Difference

TEXT = """program k
workgroup_size 8, 1, 1
buffer x @0 read u32[64]
buffer y @1 read_write u32[64]
body {
  let one = 1u + 0u
  y[gid.x] = x[gid.x] * one
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "k.vyre"
    path.write_text(TEXT)
    return path


def test_the_optimized_program_is_printed_or_written_in_the_form_of_the_file(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", str(file)]) == 0
    printed = vyre.Program.from_text(capsys.readouterr().out)
    target = tmp_path / "k.json"
    assert main(["optimize", str(file), "-o", str(target)]) == 0
    assert vyre.Program.from_json(json.loads(target.read_text())).digest == printed.digest
    assert "one" not in printed.to_text()


def test_what_was_done_is_told_beside_the_program(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(file), "--explain", "--check", "--passes", "folding"]) == 0
    told = capsys.readouterr()
    assert "folding: " in told.err and "check: 24 runs with seeded inputs gave the same" in told.err
    assert "folding" not in told.out


def test_the_document_has_passes_and_check(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(file), "--check", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["passes"][0].keys() == {"name", "nodes_before", "nodes_after", "counts"}
    assert document["rewrites"][0].splitlines()[-1].endswith("x[gid.x] * 1u -> x[gid.x]  [mul.one]")
    assert document["check"] == {"agreed": 24, "skipped": {}, "differences": [], "invalid": ""}


def test_nothing_is_written_if_the_check_finds_a_difference(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "check_runs", lambda *_: CheckedRuns(3, {}, (Difference(4, "y 00", "y 01"),)))
    target = tmp_path / "out.vyre"
    assert main(["optimize", str(file), "-o", str(target), "--check"]) == 1
    assert not target.exists()
    assert "check: 1 runs differ, 3 agree; seed 4: y 00 before, y 01 after" in capsys.readouterr().err


def test_an_unknown_pass_is_a_wrong_option(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(file), "--passes", "magic"]) == 2
    assert "there is no pass 'magic'" in capsys.readouterr().err
