"""``vyre cache``, in-process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from dependency_injector import providers

from support.command_line import Vyre, vyre_command
from support.disk_cache import artifact, entry_files, key, store
from support.small_programs import square_program
from vyre.container import Container
from vyre.domain.artifact_key import ArtifactKind
from vyre.testing.fakes import MemoryArtifactStore


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configured cache directory."""
    for name in ("BYTES", "ENTRIES", "LAYERS", "DISABLE"):
        monkeypatch.delenv(f"VYRE_CACHE_{name}", raising=False)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str], root: Path) -> Vyre:
    return vyre_command(capsys, "cache")


@pytest.fixture
def full(root: Path) -> Path:
    """Two programs with three entries."""
    cache = store(root)
    assert cache.put(key(1), artifact(1, cost_ns=1_500_000_000))
    assert cache.put(key(1, kind=ArtifactKind.PTX), artifact(2, cost_ns=500_000_000))
    assert cache.put(key(1, program=7, target="sm_120"), artifact(3, cost_ns=0))
    for age, path in enumerate(entry_files(root)):
        os.utime(path, ns=(10**18 - age, 10**18 - age))
    return root


def test_path_prints_where_it_is(vyre: Vyre, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vyre("path").out == f"{root}\n"
    assert vyre("path", "--dir", "/x/y").out == "/x/y\n"
    monkeypatch.setenv("VYRE_CACHE_LAYERS", "/image/a:/image/b")
    assert vyre("path").out == f"{root}\n/image/a\n/image/b\n"
    assert vyre("path", "--json").json == {"directory": str(root), "layers": ["/image/a", "/image/b"]}


def test_stats_of_nothing_make_nothing(vyre: Vyre, root: Path) -> None:
    found = vyre("stats", "--json")
    assert (found.code, found.json["entries"], found.json["bytes"]) == (0, 0, 0)
    assert "kinds      none" in vyre("stats").out
    assert not root.exists()


def test_stats_count(vyre: Vyre, full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_ENTRIES", "9")
    nbytes = sum(path.stat().st_size for path in entry_files(full))
    found = vyre("stats", "--json").json
    assert found == {
        "directory": str(full),
        "entries": 3,
        "max_entries": 9,
        "bytes": nbytes,
        "max_bytes": 1 << 30,
        "programs": 2,
        "build_seconds": 2.0,
        "kinds": {"cubin": 2, "ptx": 1},
    }
    text = vyre("stats").out
    assert "entries    3 of at most 9, of 2 programs" in text
    assert f"bytes      {nbytes} of at most {1 << 30}" in text
    assert "worth      2 s of building" in text


def test_list_shows_entries(vyre: Vyre, full: Path) -> None:
    found = vyre("list", "--json").json
    assert len(found) == 3
    by_program = {entry["program"]: entry for entry in found}
    last = by_program[(7).to_bytes(32, "little").hex()]
    assert (last["kind"], last["target"], last["driver"], last["cost_ns"]) == ("cubin", "sm_120", "13.0", 0)
    assert [entry["file"] for entry in found] == [
        str(path.relative_to(full / "v1" / "entries"))
        for path in sorted(entry_files(full), key=lambda path: -path.stat().st_mtime_ns)
    ]
    text = vyre("list").out.splitlines()
    assert text[0].split() == ["kind", "name", "program", "target", "variant", "bytes", "built", "in", "last", "used"]
    assert "1500.0 ms  2001-09-09" in "\n".join(text)


def test_an_entry_of_another_version_is_listed(vyre: Vyre, full: Path) -> None:
    entry_files(full)[0].write_bytes(b"of the future")
    assert sum("target" not in entry for entry in vyre("list", "--json").json) == 1
    assert "?" in vyre("list").out


def test_verify_finds_damage_once(vyre: Vyre, full: Path) -> None:
    assert vyre("verify").out == "3 entries, 0 of them bad\n"
    entry_files(full)[0].write_bytes(b"damaged")
    found = vyre("verify", "--json")
    assert found.code == 1
    (problem,) = found.json["problems"]
    assert problem["problem"] == "it ends after 7 bytes"
    assert vyre("verify", "--json").json == {"checked": 2, "problems": []}
    assert len(list((full / "v1" / "quarantine").iterdir())) == 1


def test_verify_reads_layers_and_leaves_them(vyre: Vyre, full: Path, tmp_path: Path) -> None:
    environment = {"VYRE_CACHE_LAYERS": str(full), "VYRE_CACHE_DIR": str(tmp_path / "own")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        entry_files(full)[0].write_bytes(b"damaged")
        found = vyre("verify")
    assert found.code == 1
    assert found.out.endswith("3 entries, 1 of them bad\n")
    assert len(entry_files(full)) == 3


def test_prune_holds_limits(vyre: Vyre, full: Path) -> None:
    (full / "v1" / "temporary" / "left").write_bytes(b"half")
    os.utime(full / "v1" / "temporary" / "left", (0, 0))
    assert vyre("prune").out == "evicted 0 entries, removed 1 temporary files\n"
    assert vyre("prune", "--entries", 2, "--json").json == {"evicted": 1, "temporary": 0}
    assert vyre("prune", "--bytes", 1, "--json").json == {"evicted": 2, "temporary": 0}
    assert entry_files(full) == []
    assert vyre("prune", "--entries", 0).code == 2


def test_clear_removes_everything(vyre: Vyre, full: Path) -> None:
    assert vyre("clear").out == "removed 3 entries\n"
    assert vyre("clear", "--json").json == {"removed": 0}


def test_export_and_import(vyre: Vyre, full: Path, tmp_path: Path) -> None:
    archive, other = tmp_path / "all.tar", tmp_path / "other"
    assert vyre("export", archive, "--json").json["entries"] == 3
    assert vyre("import", archive, "--dir", other).out == "imported 3 entries, refused 0\n"
    assert store(other).get(key(1)) == store(full).get(key(1))
    archive.write_bytes(archive.read_bytes()[:3_000])
    found = vyre("import", archive, "--dir", tmp_path / "third")
    assert found.code == 1
    assert "it is cut off" in found.err
    entry_files(full)[0].write_bytes(b"damaged")
    found = vyre("export", archive)
    assert found.code == 1
    assert "skipped" in found.err


def test_import_says_why_nothing_could_be_stored(vyre: Vyre, full: Path, tmp_path: Path) -> None:
    vyre("export", tmp_path / "all.tar")
    blocked = tmp_path / "blocked"
    assert store(blocked).put(key(9), artifact(9))
    (blocked / "v1" / "announced").unlink()
    (blocked / "v1" / "announced").mkdir()
    found = vyre("import", tmp_path / "all.tar", "--dir", blocked)
    assert found.code == 1
    assert found.out == "imported 0 entries, refused 3\n"
    assert "announced: Is a directory. Fix: " in found.err


@pytest.mark.parametrize("command", [["stats"], ["list"], ["verify"], ["prune"], ["clear"], ["export", "x"]])
def test_a_directory_that_cannot_be_trusted_is_refused(vyre: Vyre, root: Path, command: list[str]) -> None:
    root.mkdir()
    root.chmod(0o777)
    found = vyre(*command)
    assert found.code == 2
    assert f"{root} can be written by others" in found.err
    assert f"Fix: chmod go-w {root}" in found.err


def test_a_cache_that_is_turned_off(vyre: Vyre, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "1")
    found = vyre("stats")
    assert found.code == 2
    assert "Fix: unset VYRE_CACHE_DISABLE." in found.err


def test_the_list_names_programs(vyre: Vyre, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also programs that were checked before they were compiled, and all names of one digest."""
    run = vyre_command(capsys, "run")
    for name in ("square", "quadrat"):
        (tmp_path / "p.vyre").write_text(replace(square_program(), name=name).to_text(), "utf-8")
        assert run(tmp_path / "p.vyre", "--in", "x=1,2", "--backend", "cuda-machine").code == 0
    listed = vyre("list", "--json").json
    code = [entry for entry in listed if entry["kind"] != "verdict"]
    assert {entry["program"] for entry in code} == {square_program().digest.hex()}
    assert all(sorted(entry["names"]) == ["quadrat", "square"] for entry in code)
    assert sorted(entry["names"] for entry in listed if entry["kind"] == "verdict") == [["quadrat"], ["square"]]
    assert "quadrat" in vyre("list").out


def test_entries_without_a_verdict_have_no_name(vyre: Vyre, full: Path) -> None:
    assert all(entry["names"] == [] for entry in vyre("list", "--json").json)


def test_a_store_of_a_container_is_shown_and_managed(vyre: Vyre, full: Path, tmp_path: Path) -> None:
    held = MemoryArtifactStore()
    container = Container()
    container.artifact_store.override(providers.Object(held))
    for number, cost_ns in ((1, 1_500_000_000), (2, 500_000_000)):
        held.put(key(number, program=number), artifact(number, cost_ns=cost_ns))
    nbytes, archive = held.stats().nbytes, tmp_path / "all.tar"
    with container.applied():
        facts = vyre("stats", "--json").json
        assert (facts["entries"], facts["bytes"], facts["programs"], facts["build_seconds"]) == (2, nbytes, 2, 2.0)
        assert (facts["directory"], facts["max_bytes"], facts["kinds"]) == (None, None, {"cubin": 2})
        assert f"none: the store is in MemoryArtifactStore\nentries    2, of 2 programs\nbytes      {nbytes}\n" in (
            vyre("stats").out
        )
        listed = vyre("list", "--json").json
        assert {entry["key"] for entry in listed} == {each.digest.hex() for each in held}
        assert {entry["cost_ns"] for entry in listed} == {1_500_000_000, 500_000_000}
        assert {entry["last_used"] for entry in listed} == {"-"}
        assert vyre("export", archive, "--json").json["entries"] == 2
        assert vyre("invalidate", "--key", key(1, program=1).digest.hex()).code == 0
        assert vyre("clear").out == "removed 1 entries\n"
        assert not list(held)
        assert vyre("import", archive).out == "imported 2 entries, refused 0\n"
        assert held.get(key(1, program=1)) == artifact(1, cost_ns=1_500_000_000)
        for command in ("path", "verify", "prune"):
            refused = vyre(command)
            assert refused.code == 2
            assert "MemoryArtifactStore, has no directory" in refused.err
            assert "Fix: name a directory with --dir" in refused.err
        assert vyre("stats", "--dir", full, "--json").json["entries"] == 3, "what is named counts"
    assert vyre("stats", "--json").json["entries"] == 3, "the usual store was left alone"


def test_a_directory_of_a_container_is_the_one_that_commands_use(vyre: Vyre, full: Path, tmp_path: Path) -> None:
    other = store(tmp_path / "other")
    assert other.put(key(5), artifact(5))
    container = Container()
    container.artifact_store.override(providers.Object(other))
    with Container(cache=tmp_path / "third").applied():
        assert vyre("path").out == f"{tmp_path / 'third'}\n"
    with container.applied():
        assert vyre("path").out == f"{tmp_path / 'other'}\n"
        assert vyre("verify").out == "1 entries, 0 of them bad\n"
        assert vyre("prune", "--bytes", "1").out.startswith("evicted 1 entries")
    assert len(entry_files(full)) == 3


def test_a_container_without_a_store_is_told(vyre: Vyre) -> None:
    container = Container()
    container.artifact_store.override(providers.Object(None))
    with container.applied():
        refused = vyre("stats")
    assert (refused.code, "has no artifact store" in refused.err) == (2, True)
