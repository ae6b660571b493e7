"""``vyre cache invalidate``, in-process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from support.disk_cache import artifact, entry_file, entry_files, key, plain_user_directory, store
from support.small_programs import square_program
from vyre.adapters.source_digest import emitter_digest
from vyre.app.cli import main
from vyre.domain.artifact_key import ArtifactKind

PROGRAM: Final = square_program()
CUBIN: Final = key(
    1, program=int.from_bytes(PROGRAM.digest, "little"), emitter=emitter_digest(), tool="ptxas 13.0.88", driver="13000"
)
PTX: Final = replace(CUBIN, kind=ArtifactKind.PTX, driver="", tool="")
STALE: Final = key(2, emitter=b"\x22" * 32, target="sm_120", driver="12090")
STALE_TEXT: Final = f"ptx {replace(STALE, kind=ArtifactKind.PTX, driver='').digest.hex()[:12]}"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with three entries, the configured one."""
    for name in ("BYTES", "ENTRIES", "LAYERS", "DISABLE"):
        monkeypatch.delenv(f"VYRE_CACHE_{name}", raising=False)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    for number, each in enumerate((CUBIN, PTX, STALE)):
        assert store(tmp_path / "cache").put(each, artifact(number))
    return tmp_path / "cache"


def run(*arguments: object) -> int:
    return main(["cache", "invalidate", *map(str, arguments)])


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--program", PROGRAM.digest.hex()[:12]], {STALE}),
        (["--driver", "13000"], {PTX, STALE}),
        (["--tool", "ptxas"], {PTX, STALE}),
        (["--emitter", "old"], {CUBIN, PTX}),
        (["--emitter", "22222222"], {CUBIN, PTX}),
        (["--target", "sm_120"], {CUBIN, PTX}),
        (["--key", PTX.digest.hex()[:8]], {STALE}),
        (["--target", "sm_120", "--driver", "13000"], {PTX}),
        (["--target", "sm_75"], {CUBIN, PTX, STALE}),
    ],
)
def test_each_option_takes_its_entries(root: Path, options: list[str], left: set[object]) -> None:
    assert run(*options) == 0
    assert {entry.key for entry in store(root).entries()} == left


def test_a_program_is_named_by_its_file(root: Path, tmp_path: Path) -> None:
    (tmp_path / "square.vyre").write_text(PROGRAM.to_text())
    assert run("--program", tmp_path / "square.vyre") == 0
    assert {entry.key for entry in store(root).entries()} == {STALE}


def test_the_table_tells_what_went_and_why(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nbytes = [entry_file(root, each).stat().st_size for each in (PTX, CUBIN)]
    assert run("--key", PTX.digest.hex()) == 0
    digest = PROGRAM.digest.hex()[:12]
    header, *rows, summary = capsys.readouterr().out.splitlines()
    assert header.split() == ["kind", "program", "bytes", "why"]
    assert sorted(row.split() for row in rows) == [
        ["removed", "cubin", digest, str(nbytes[1]), "ptx", PTX.digest.hex()[:12]],
        ["removed", "ptx", digest, str(nbytes[0]), "named", "by", "its", "key"],
    ]
    assert summary == f"removed 2 entries, {sum(nbytes)} bytes; 1 stay"


def test_json_is_for_machines(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nbytes = entry_file(root, STALE).stat().st_size
    assert run("--emitter", "old", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "dry_run": False,
        "removed": [
            {
                "kind": "cubin",
                "program": STALE.program.hex(),
                "key": STALE.digest.hex(),
                "bytes": nbytes,
                "why": f"emitter 222222222222 -> {STALE_TEXT}",
            }
        ],
        "failed": [],
        "kept": 2,
        "bytes": nbytes,
    }


def test_a_dry_run_removes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--driver", "13000", "--dry-run") == 0
    assert "would remove 1 entries" in capsys.readouterr().out
    assert run("--driver", "13000", "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["dry_run"] is True
    assert len(entry_files(root)) == 3


def test_nothing_to_remove(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--driver", "1") == 0
    assert capsys.readouterr().out == "removed 0 entries, 0 bytes; 3 stay\n"
    assert run("--driver", "1", "--dir", root.parent / "other") == 0
    assert capsys.readouterr().out == "removed 0 entries, 0 bytes; 0 stay\n"
    assert not (root.parent / "other").exists()


def test_a_read_only_layer_is_told(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_CACHE_LAYERS", str(root))
    monkeypatch.setenv("VYRE_CACHE_DIR", str(root.parent / "own"))
    assert run("--target", "sm_120") == 1
    out = capsys.readouterr().out
    assert f"kept in {root}  cubin" in out
    assert out.endswith("removed 0 entries, 0 bytes; 1 cannot be removed; 2 stay\n")
    assert run("--target", "sm_120", "--json") == 1
    (failed,) = json.loads(capsys.readouterr().out)["failed"]
    assert (failed["layer"], failed["why"]) == (str(root), f"target sm_120 -> {STALE_TEXT}")
    assert len(entry_files(root)) == 3


def test_missing_rights_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_user_directory() as folder:
        root = folder / "cache"
        assert store(root).put(STALE, artifact())
        path = entry_file(root)
        path.parent.chmod(0o500)
        try:
            assert run("--target", "sm_120", "--dir", root) == 1
        finally:
            path.parent.chmod(0o700)
    told = capsys.readouterr()
    assert "not removed  cubin" in told.out
    assert "removed 0 entries, 0 bytes; 1 cannot be removed; 0 stay" in told.out
    assert f"{path}: Permission denied. Fix: make the directory readable and writable" in told.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing is named that is not valid any more"),
        (["--program", "zzzz"], "program='zzzz' is no digest"),
        (["--program", "missing.vyre"], "missing.vyre"),
        (["--emitter", "12"], "emitter='12' is no digest"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run(*options) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Fix: " in told
    assert len(entry_files(root)) == 3
