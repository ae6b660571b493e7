"""``vyre aot`` and ``vyre run`` of a bundle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.bundles import copy_program
from support.small_programs import saxpy_program
from vyre.app.cli import main

INPUTS = ["--in", "a=2", "--in", "x=1,2,3", "--in", "y=1,1,1"]


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "saxpy.vyre"
    path.write_text(saxpy_program().to_text(), encoding="utf-8")
    return str(path)


@pytest.fixture
def bundle(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path = str(tmp_path / "saxpy.vyrz")
    assert main(["aot", program, "--target", "cuda", "--ptx-only", "-o", path]) == 0
    capsys.readouterr()
    return path


def test_a_bundle_is_written_and_described(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "b.vyrz"
    assert main(["aot", program, "--target", "sm_90,sm_120", "--ptx-only", "-o", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "file": str(path),
        "digest": path.read_bytes()[-32:].hex(),
        "programs": {"saxpy": saxpy_program().digest.hex()},
        "bytes": path.stat().st_size,
        "members": ["sm_90.ptx", "sm_120.ptx"],
        "assembler": None,
        "lowerings": {},
    }
    assert main(["aot", program, "--ptx-only", "--target", "cuda", "-o", str(path)]) == 0
    assert "sm_75.ptx" in (text := capsys.readouterr().out) and "PTX only" in text


def test_without_an_assembler_the_command_says_so(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre.adapters.cuda.code_tools.find_tools", lambda _: ())
    assert main(["aot", program, "--target", "cuda", "-o", str(tmp_path / "b.vyrz")]) == 0
    assert "PTX only: no ptxas was found" in capsys.readouterr().out


def test_a_bundle_runs(bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "y.npy"
    assert main(["run", bundle, "--backend", "cuda-machine", *INPUTS, "--out", f"y={out}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "asked for by name"
    assert np.load(out).tolist() == [3.0, 5.0, 7.0]


def test_the_expected_digest_is_that_of_what_is_run(
    bundle: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = Path(bundle).read_bytes()[-32:].hex()
    run = ["--backend", "cuda-machine", *INPUTS]
    assert main(["run", bundle, *run, "--expect", digest]) == 0
    assert main(["run", program, *run, "--expect", saxpy_program().digest.hex()]) == 0
    capsys.readouterr()
    for path, other in ((bundle, saxpy_program().digest.hex()), (program, digest)):
        assert main(["run", path, *run, "--expect", other]) == 1
        assert f"expected was {other}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--target", "sm_90a"], 3, "aot target sm_90a"),
        (["--target", "sm_90,sm_90"], 2, "each of them once"),
        (["--workgroup", "1,2,3,4"], 2, "workgroup=(1, 2, 3, 4) has 4 axes"),
        (["--spec", "n=1"], 2, "n"),
    ],
)
def test_what_cannot_be_built_is_refused(
    arguments: list[str], code: int, message: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.vyrz"
    assert main(["aot", program, "--ptx-only", "-o", str(path), *arguments]) == code
    assert message in capsys.readouterr().err
    assert not path.exists()


def test_one_of_several_entry_points_is_run_by_its_name(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "copy.vyre"
    other.write_text(copy_program().to_text(), encoding="utf-8")
    path = str(tmp_path / "b.vyrz")
    assert main(["aot", program, str(other), "--target", "cuda", "--ptx-only", "-o", path]) == 0
    run = ["run", path, "--backend", "cuda-machine"]
    assert main([*run, *INPUTS, "--entry", "saxpy"]) == 0
    assert main([*run, "--entry", "copy", "--in", "x=1,2"]) == 0
    capsys.readouterr()
    assert main([*run, *INPUTS]) == 2
    assert "name one by --entry: saxpy, copy." in capsys.readouterr().err
    assert main([*run, *INPUTS, "--entry", "scale"]) == 2
    assert "the bundle has no 'scale'" in capsys.readouterr().err
    assert main(["run", program, *INPUTS, "--entry", "saxpy"]) == 2
    assert main(["aot", program, program, "-o", path]) == 2
    assert "two programs have the name saxpy" in capsys.readouterr().err


def test_a_damaged_bundle_exits_1(bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(bundle).write_bytes(Path(bundle).read_bytes()[:-1])
    assert main(["run", bundle, "--backend", "cuda-machine", *INPUTS]) == 1
    assert "error[E1110]" in capsys.readouterr().err


def test_constants_cannot_be_given_again(bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", bundle, "--backend", "cuda-machine", *INPUTS, "--spec", "n=1"]) == 2
    assert "no specialization constant 'n'" in capsys.readouterr().err
