"""``vyre replay`` and ``vyre run --evidence``: what they print, and their exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import Vyre, vyre_command
from support.evidence import encoded, measured, scale, trapping, words, write
from vyre.domain.errors import TrapError
from vyre.domain.evidence.failures import failure_of
from vyre.domain.evidence.records import SpeedClaim


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str]) -> Vyre:
    return vyre_command(capsys)


def test_a_run_is_recorded_and_replayed(vyre: Vyre, tmp_path: Path) -> None:
    program, bundle = tmp_path / "scale.vyre", tmp_path / "e.zip"
    program.write_text(scale().to_text(), "utf-8")
    given = ("--in", "a=3", "--in", "x=1,2,3", "--in", "y=1,1,1")
    ran = vyre("run", program, *given, "--evidence", bundle, "--backend", "reference")
    assert (ran.code, ran.err) == (0, "")
    for options in ((), ("--backend", "cpu"), ("-b", "cuda-machine")):
        again = vyre("replay", bundle, *options)
        assert again.code == 0 and "the bytes of the answer of reference (12 bytes)" in again.out
    assert "0 different verdict" in vyre("explain", "--replay", bundle).out


def test_a_run_that_traps_is_recorded_and_replayed(vyre: Vyre, tmp_path: Path) -> None:
    program, bundle = tmp_path / "trapping.vyre", tmp_path / "e.zip"
    program.write_text(trapping().to_text(), "utf-8")
    ran = vyre("run", program, "--in", "x=1,9", "--in", "y=0,0", "--evidence", bundle, "--backend", "reference")
    assert ran.code == 4 and "trap `too large` at address 9" in ran.err
    assert f"the evidence is in {bundle}" in ran.err
    for options in ((), ("--backend", "cpu"), ("-b", "cuda-machine")):
        again = vyre("replay", bundle, *options)
        assert again.code == 0 and "the answer of reference, TrapError (1011): " in again.out
        assert ":8:7: trap `too large` at address 9" in again.out
    document = vyre("replay", bundle, "--json").json
    assert (document["ok"], document["end"]) == (True, None)


def test_another_end_is_printed(vyre: Vyre, tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write(path, got=failure_of(TrapError(tag="a tag", address=1, global_id=(2, 0, 0))))
    found = vyre("replay", path)
    assert found.code == 1 and "the end differs from the answer of reference" in found.out
    assert "DIFFERS the run ends in no error, expected was TrapError (1011)" in found.out
    document = vyre("replay", path, "--json").json
    assert document["end"]["found"] is None and "a tag" in document["end"]["expected"]


def test_errors_of_the_call_write_no_evidence(vyre: Vyre, tmp_path: Path) -> None:
    program, bundle = tmp_path / "trapping.vyre", tmp_path / "e.zip"
    program.write_text(trapping().to_text(), "utf-8")
    assert vyre("run", program, "--in", "x=1,9", "--evidence", bundle).code == 2
    assert not bundle.exists()


def test_a_difference_is_printed_with_its_place(vyre: Vyre, tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write(path, got={"y": words(13, 26, 39, 53, 65)})
    found = vyre("replay", path)
    assert found.code == 1
    assert "DIFFERS `y`[3] (slot 1, byte 12) is 0x00000034, expected was 0x00000035" in found.out
    document = vyre("replay", path, "--json").json
    assert (document["ok"], document["differences"][0]["element"], document["backend"]) == (False, 3, "reference")


def test_a_wrong_answer_beside_the_right_one(vyre: Vyre, tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write(path, got={"y": words(0, 0, 0, 0, 0)}, expected={"y": words(13, 26, 39, 52, 65)}, expected_by="oracle")
    found = vyre("replay", path)
    assert found.code == 0
    assert "the bytes of the answer of oracle" in found.out
    assert "comes to something else than was recorded of reference" in found.out


def test_claims_are_judged_again(vyre: Vyre, tmp_path: Path) -> None:
    path = tmp_path / "m.zip"
    path.write_bytes(encoded(measured(SpeedClaim("row", "ours", "theirs", 1.5))))
    found = vyre("replay", path)
    assert found.code == 0
    assert found.out.splitlines() == [
        "`row`: theirs takes at least 1.5 times as long as ours: supported, the median is at least 2.000;"
        " 1.500 is claimed",
        "1 measurements, 1 claims, all supported by their samples; nothing ran",
    ]
    claim = vyre("replay", path, "--json").json["supported_claims"][0]
    assert (claim["factor"], claim["median"], claim["lower_bound"]) == (1.5, 2.0, 2.0)
    path.write_bytes(encoded(measured(SpeedClaim("row", "ours", "theirs", 2.5))))
    assert vyre("replay", path).code == 1


def test_what_cannot_be_replayed(vyre: Vyre, tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    assert vyre("replay", path).code == 2
    path.write_bytes(b"no bundle")
    damaged = vyre("replay", path)
    assert damaged.code == 1 and "Fix: use the file as it was written" in damaged.err
    write(path)
    assert vyre("replay", path, "--backend", "nobody").code == 3
    path.write_bytes(encoded(measured()))
    assert vyre("replay", path, "--backend", "cpu").code == 2
    assert vyre("explain", "--replay", path).code == 1
