"""``vyre dialects``, in-process."""

from __future__ import annotations

import json

import pytest

from vyre.adapters.proving.prover import Z3Prover
from vyre.app.cli import main
from vyre.domain.dialects.laws.law import Law
from vyre.domain.ir.operators import FLOATS
from vyre.ports.proving import Answer, Proof

TRAP = Law("fadd.zero", "x + 0.0", "x", FLOATS)


def test_laws_that_hold_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects", "verify", "negate.twice", "not"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 laws of the language at 7 types: 7 hold, 0 refused"


def test_what_holds_is_listed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects", "verify", "negate.twice", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[:-1]] == [
        f"negate.twice at {t}" for t in ["u32", "i32", "u64", "i64"]
    ]


def test_a_law_that_is_refused_is_shown_with_operands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre.app.cli.dialects.LAWS", (TRAP,))
    assert main(["dialects", "verify"]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "fadd.zero at f32: refuted: 0.0 (0x00000000) is not -0.0 (0x80000000) with x = -0.0 (0x80000000)"
    assert last == "1 laws of the language at 2 types: 0 hold, 2 refused"


def test_json_has_every_law_with_what_was_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre.app.cli.dialects.LAWS", (TRAP, Law("fadd.swap", "x + y", "y + x", FLOATS)))
    assert main(["dialects", "verify", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["stated"] == document["lowerings"] == []
    found = document["laws"]
    assert [(entry["law"], entry["type"], entry["refused"]) for entry in found] == [
        ("fadd.zero", "f32", True),
        ("fadd.zero", "f64", True),
        ("fadd.swap", "f32", False),
        ("fadd.swap", "f64", False),
    ]
    assert found[2]["pure"] == ["x", "y"]
    last = {"what": "all 65536 values at 8 bits", "cases": 65536, "is_exhaustive": True, "is_model": True}
    assert found[2]["trials"][-1] == last
    assert found[2]["proof"] is None


def test_proofs_are_asked_for_and_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([Answer.PROVED, Answer.UNPROVED, Answer.PROVED, Answer.PROVED])
    monkeypatch.setattr(Z3Prover, "prove_equal", lambda *operands, **named: Proof(next(answers)))
    assert main(["dialects", "verify", "negate.twice", "--prove"]) == 0
    assert capsys.readouterr().out == "1 laws of the language at 4 types: 4 hold, 3 proved, 0 refused\n"


def test_an_unknown_law_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dialects", "verify", "no.such"]) == 2
    assert "there is no law, operation or dialect `no.such` to verify" in capsys.readouterr().err
