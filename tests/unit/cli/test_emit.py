"""``vyre emit``: PTX for people who launch it themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import vyre
from support.limits import LIMIT_S
from support.small_programs import saxpy_program
from vyre.app.cli import main
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32


def two_phases() -> Program:
    with ProgramBuilder("phases", workgroup=64) as p:
        a = p.inout("a", u32)
        i = p.global_id()
        a[i] = a[i] + 1
        p.grid_sync()
        a[i] = a[i] + p.spec("step", u32(2))
    return p.build()


def saved(program: Program, folder: Path) -> str:
    path = folder / "program.vyre"
    path.write_text(program.to_text(), encoding="utf-8")
    return str(path)


def test_the_text_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", saved(saxpy_program(), tmp_path), "--target", "sm_75"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(".version 6.3\n.target sm_75\n")
    assert out == vyre.emit(saxpy_program(), target="sm_75").text


def test_the_document_has_all_a_launcher_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", saved(two_phases(), tmp_path), "--json", "--spec", "step=5"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("passes") == document.pop("lowerings") == []
    assert document == vyre.emit(two_phases(), spec={"step": 5}).to_json()
    assert document["cooperative"] is True and len(document["kernels"]) == 1
    assert {"kind": "barrier", "bytes": 8}.items() <= document["params"][1].items()


def test_grid_barriers_can_be_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", saved(two_phases(), tmp_path), "--json", "--grid-sync", "split"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [kernel["cooperative"] for kernel in document["kernels"]] == [False, False]
    assert document["entry"] == document["kernels"][0]["entry"]


def test_assumptions_are_named_and_only_used_ones_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["emit", saved(saxpy_program(), tmp_path), "--json", "--assume", "noalias,exact-grid"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "noalias" in document["assumes"] and "ld.global.nc" in document["ptx"]
    assert "aligned16" not in document["assumes"]
    assert vyre.emit(saxpy_program()).to_json()["assumes"] == []


def test_out_writes_a_file(tmp_path: Path) -> None:
    target = tmp_path / "kernel.ptx"
    assert main(["emit", saved(saxpy_program(), tmp_path), "--out", str(target)]) == 0
    assert target.read_text() == vyre.emit(saxpy_program()).text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--target", "sm_60"], 2, "sm_75"),
        (["--target", "volta"], 2, "sm_90"),
        (["--assume", "luck"], 2, "exact-grid"),
        (["--grid-sync", "maybe"], 2, "native, split"),
    ],
)
def test_wrong_options_list_the_right_ones(
    arguments: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["emit", saved(saxpy_program(), tmp_path), *arguments]) == code
    error = capsys.readouterr().err
    assert said in error and "Fix:" in error


def test_an_invalid_program_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.vyre"
    path.write_text(saxpy_program().to_text().replace("y[", "nowhere["), encoding="utf-8")
    assert main(["emit", str(path)]) == 1
    assert "Fix:" in capsys.readouterr().err


def test_what_the_target_cannot_run_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgramBuilder("wide", workgroup=2048) as p:
        out = p.output("out", u32, 4096)
        out[p.global_id()] = p.global_id()
    assert main(["emit", saved(p.build(), tmp_path)]) == 3
    assert "1024" in capsys.readouterr().err


def test_the_library_function_checks_its_options() -> None:
    with pytest.raises(InvalidConfig, match="sm_75"):
        vyre.emit(saxpy_program(), target="gpu")


def test_it_needs_no_cuda_package(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['cuda'] = None\n"
        "from vyre.app.cli import main; sys.exit(main(['emit', sys.argv[1], '--json']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, saved(saxpy_program(), tmp_path)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["format"] == 1
