"""``vyre cache key``: what a cache looks code up by, for people and machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vyre import ProgramBuilder, f32
from vyre.app.cli import main
from vyre.app.emission import emission_key
from vyre.domain.artifact_key import FIELDS
from vyre.domain.ir.program import Program


def scaled() -> Program:
    with ProgramBuilder("scaled", workgroup=64) as p:
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * p.spec("scale", f32(2.0))
    return p.build()


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "program.vyre"
    file.write_text(scaled().to_text(), encoding="utf-8")
    return str(file)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["cache", "key", "--json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_document_has_every_field_and_the_digest(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, key = document(capsys, path), emission_key(scaled())
    assert list(found) == [*FIELDS, "digest"]
    assert found["digest"] == key.digest.hex()
    assert found["program"] == scaled().digest.hex()
    assert found["emitter"] == key.emitter.hex()
    assert found["policy"] == dict(key.policy)
    assert found["interface"] == ["0 x", "1 y"]
    assert found["workgroup"] == [64, 1, 1]
    assert found["spec"] == {"scale": "f32 0x40000000"}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--target", "sm_120"], "target"),
        (["--assume", "aligned16,noalias"], "policy"),
        (["--grid-sync", "split"], "policy"),
        (["--spec", "scale=3"], "spec"),
    ],
)
def test_options_change_the_key(
    arguments: list[str], field: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = document(capsys, path), document(capsys, path, *arguments)
    assert [name for name in one if one[name] != other[name]] == [field, "digest"]


def test_people_get_a_line_for_each_field_fact_and_constant(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "key", path, "--target", "sm_75"]) == 0
    lines = dict(line.rstrip().rsplit("  ", 1) for line in capsys.readouterr().out.splitlines())
    shown = {name.strip(): value.strip() for name, value in lines.items()}
    assert shown["target"] == "sm_75"
    assert shown["driver"] == "-"
    assert shown["policy pointer_table"] == "none"
    assert shown["interface"] == "0 x, 1 y"
    assert shown["spec scale"] == "f32 0x40000000"
    assert shown["digest"] == emission_key(scaled(), target="sm_75").digest.hex()


def test_what_cannot_be_emitted_has_no_key(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "key", path, "--target", "sm_1"]) == 2
    assert "unknown target 'sm_1'\nFix: use one of sm_75" in capsys.readouterr().err
    broken = tmp_path / "broken.vyre"
    broken.write_text("program nonsense", encoding="utf-8")
    assert main(["cache", "key", str(broken)]) == 1
    assert "Fix: " in capsys.readouterr().err
