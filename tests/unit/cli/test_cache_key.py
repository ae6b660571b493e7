"""``vyre cache key``: what a cache looks code up by, for people and machines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import vyre
from vyre import ProgramBuilder, f32, u32
from vyre.adapters.cpu.runtime.runtime_code import load_entries
from vyre.adapters.cpu.runtime.tools import native_tools
from vyre.adapters.disk.artifact_store import DiskArtifactStore
from vyre.adapters.disk.configuration import cache_settings
from vyre.adapters.system import ProcessEnvironment
from vyre.app.cli import main
from vyre.app.emission import emission_keys
from vyre.domain.artifact_key import FIELDS
from vyre.domain.cache_config import CacheConfig
from vyre.domain.ir.program import Program
from vyre.ports.support import NullTelemetry


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
    found, key = document(capsys, path), emission_keys(scaled())[0]
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
    assert shown["digest"] == emission_keys(scaled(), target="sm_75")[0].digest.hex()


def counted(workgroup: int) -> Program:
    with ProgramBuilder("counted", workgroup=workgroup) as p:
        x = p.input("x", u32)
        counts = p.inout("counts", u32, 8)
        i = p.global_id()
        with p.if_(i < x.length):
            counts.atomic_add(x[i] & 7, p.spec("weight", u32(1)))
    return p.build()


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("workgroup", [4, 64])
def test_keys_for_the_processor_are_those_of_what_a_session_stores(
    workgroup: int, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VYRE_CPU_THREADS", threads)
    file, store = tmp_path / "counted.vyre", tmp_path / "store"
    file.write_text(counted(workgroup).to_text(), encoding="utf-8")
    key = document(capsys, str(file), "--target", "cpu", "--spec", "weight=3")
    assert list(key) == [*FIELDS, "digest"]
    assert (key["kind"], key["program"]) == ("object", counted(workgroup).digest.hex())
    assert key["policy"]["exclusive"] == ("true" if threads == "1" else "false")
    assert key["policy"]["joined"] == ("true" if workgroup == 4 else "false")
    with vyre.open("cpu", cache=store) as session:
        session.compile(counted(workgroup), spec={"weight": 3})
    assert main(["cache", "list", "--dir", str(store), "--json"]) == 0
    stored = [entry for entry in json.loads(capsys.readouterr().out) if entry["program"] == key["program"]]
    assert [(entry["key"], entry["policy"], entry["workgroup"]) for entry in stored] == [
        (key["digest"], key["policy"], key["workgroup"])
    ]


def test_people_get_the_key_of_machine_code(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "key", path, "--target", "cpu"]) == 0
    lines = [line.rstrip().rsplit("  ", 1) for line in capsys.readouterr().out.splitlines()]
    shown = [(name.strip(), value.strip()) for name, value in lines]
    names = [name for name, _ in shown]
    assert (names.count("program"), names.count("digest")) == (1, 1)
    keys = emission_keys(scaled(), target="cpu")
    assert [value for name, value in shown if name == "digest"] == [key.digest.hex() for key in keys]
    assert ("policy lanes", dict(keys[0].policy)["lanes"]) in shown


def test_listed_objects_name_their_variant_and_the_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with vyre.open("cpu", cache=tmp_path, threads=1) as session:
        session.compile(counted(64))
    settings = cache_settings(CacheConfig(directory=tmp_path), ProcessEnvironment())
    assert settings is not None
    load_entries(native_tools(), DiskArtifactStore(settings, NullTelemetry()))
    assert main(["cache", "list", "--dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    code = next(line for line in lines if counted(64).digest.hex()[:12] in line)
    assert re.search(r"\bexclusive lanes=\d+\b", code) and "joined" not in code
    assert any("vyre runtime of worker threads" in line and " 0.0 ms" not in line for line in lines)


def test_what_cannot_be_emitted_has_no_key(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "key", path, "--target", "sm_1"]) == 2
    assert "unknown target 'sm_1'\nFix: use one of sm_75" in capsys.readouterr().err
    broken = tmp_path / "broken.vyre"
    broken.write_text("program nonsense", encoding="utf-8")
    assert main(["cache", "key", str(broken)]) == 1
    assert "Fix: " in capsys.readouterr().err
