"""The command: what it says without a GPU, how groups are judged, and that no rehearsal passes for a GPU's record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runs.command import exit_code, main, record_name
from gpu_runs.context import COMMANDS
from gpu_runs.exit_codes import ExitCode
from gpu_runs.presence import Presence, look
from gpu_runs.supervisor import GroupVerdict
from support.limits import LIMIT_S

NOTHING = Presence((), "libcuda.so.1 cannot be loaded (no such file)")
NODES_ONLY = Presence(("/dev/nvidia0", "/dev/nvidiactl"), "libcuda.so.1 cannot be loaded (no such file)")

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("extra", "code"), [([], ExitCode.PASSED), (["--require-gpu"], ExitCode.ABSENT)])
def test_without_a_gpu_one_line_says_so_and_nothing_is_written(
    command: str, extra: list[str], code: ExitCode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([command, "--out", str(out), *extra], look=lambda: NOTHING) == code
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 and printed[0].startswith("no NVIDIA GPU here")
    assert not out.exists()


def test_a_device_without_its_driver_is_unusable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--out", str(tmp_path)], look=lambda: NODES_ONLY) == ExitCode.UNUSABLE
    assert "/dev/nvidia0" in capsys.readouterr().out


def test_a_rehearsal_is_no_gpu(tmp_path: Path) -> None:
    assert main(["check", "--out", str(tmp_path), "--backend", "reference", "--require-gpu"]) == ExitCode.ABSENT


def test_results_need_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == ExitCode.USAGE
    assert "--out" in capsys.readouterr().err


def test_looking_finds_nodes_and_tries_the_driver(tmp_path: Path) -> None:
    def missing(name: str) -> object:
        raise OSError(f"{name}: not there")

    assert look(tmp_path, missing).absent
    (tmp_path / "nvidia0").touch()
    (tmp_path / "nvidia-uvm").touch()
    found = look(tmp_path, missing)
    assert found.nodes == (str(tmp_path / "nvidia0"),)
    assert not found.absent and found.problem is not None
    assert look(tmp_path / "elsewhere", lambda name: name) == Presence((), None)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([GroupVerdict.PASSED, GroupVerdict.SKIPPED], ExitCode.PASSED),
        ([GroupVerdict.UNAVAILABLE, GroupVerdict.NOT_RUN], ExitCode.UNUSABLE),
        ([GroupVerdict.PASSED, GroupVerdict.TIMEOUT], ExitCode.FAILED),
        ([GroupVerdict.PASSED, GroupVerdict.CRASHED], ExitCode.FAILED),
        ([GroupVerdict.PASSED, GroupVerdict.NOT_RUN], ExitCode.FAILED),
        ([], ExitCode.FAILED),
    ],
)
def test_exit_codes(verdicts: list[GroupVerdict], code: ExitCode) -> None:
    assert exit_code(verdicts) == code


def test_a_rehearsal_runs_groups_and_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "--out", str(tmp_path), "--backend", "reference", "--only", "checksums", "--budget", "1100"]
    assert main([*arguments, "--revision", "abc"]) == ExitCode.PASSED
    assert "EMULATED" in capsys.readouterr().out
    record = json.loads((tmp_path / "rehearsal-check-reference.json").read_text())
    assert record["emulated"] is True and record["backend"] == "reference" and record["revision"] == "abc"
    assert [(g["name"], g["verdict"]) for g in record["groups"]] == [("probe", "passed"), ("checksums", "passed")]
    assert record["groups"][1]["passed"] == 13 * 4
    assert record_name("check", "cuda") != record_name("check", "cuda-machine")


def test_several_groups_are_chosen_by_several_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "--out", str(tmp_path), "--backend", "reference", "--only", "queries", "--only", "wav*"]
    assert main(arguments) == ExitCode.PASSED
    record = json.loads((tmp_path / "rehearsal-check-reference.json").read_text())
    assert record["only"] == ["queries", "wav*"]
    assert [(g["name"], g["verdict"]) for g in record["groups"]] == [
        ("probe", "passed"),
        ("queries", "skipped"),
        ("waves", "skipped"),
    ]


def test_a_backend_that_cannot_run_makes_the_gpu_unusable(tmp_path: Path) -> None:
    assert main(["check", "--out", str(tmp_path), "--backend", "nobody", "--budget", "60"]) == ExitCode.UNUSABLE
    record = json.loads((tmp_path / "rehearsal-check-nobody.json").read_text())
    assert [g["verdict"] for g in record["groups"]] == ["unavailable"] + ["not run"] * (len(record["groups"]) - 1)


def test_a_driver_that_does_not_work_is_unusable(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a library that only has the driver's name needs a C compiler")
    source = tmp_path / "nothing.c"
    source.write_text("int nothing;\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", source], check=True, timeout=LIMIT_S)
    command = [sys.executable, "-m", "tests.gpu_runs", "check", "--out", str(tmp_path / "out"), "--budget", "60"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == ExitCode.UNUSABLE, done.stdout + done.stderr
    record = json.loads((tmp_path / "out" / "gpu-check.json").read_text())
    assert record["emulated"] is False and record["device"] is None
    assert [group["verdict"] for group in record["groups"]][:2] == ["unavailable", "not run"]
