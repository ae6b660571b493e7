"""A cache in one file."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from support.disk_cache import artifact, entry_file, entry_files, key, store
from vyre.adapters.disk.entry_directory import EntryDirectory
from vyre.adapters.disk.file_operations import REAL_FILES
from vyre.adapters.disk.inventory import clear, listing, verify
from vyre.adapters.disk.transfer import export_entries, import_entries
from vyre.domain.errors import UnreadableFile

COUNT = 6


def directory(root: Path) -> EntryDirectory:
    return EntryDirectory(REAL_FILES, str(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A cache of ``COUNT`` entries."""
    cache = store(tmp_path / "cache")
    for number in range(COUNT):
        assert cache.put(key(number, program=number % 2), artifact(number))
    return tmp_path / "cache"


def test_what_is_exported_can_be_imported(root: Path, tmp_path: Path) -> None:
    exported = export_entries(directory(root), tmp_path / "all.tar")
    assert exported == (COUNT, sum(path.stat().st_size for path in entry_files(root)), ())
    target = store(tmp_path / "other")
    assert import_entries(target, tmp_path / "all.tar") == (COUNT, ())
    for number in range(COUNT):
        assert target.get(key(number, program=number % 2)) == artifact(number)
    assert (tmp_path / "all.tar").stat().st_mode & 0o077 == 0


def test_equal_caches_make_equal_files(root: Path, tmp_path: Path) -> None:
    export_entries(directory(root), tmp_path / "a.tar")
    import_entries(store(tmp_path / "other"), tmp_path / "a.tar")
    export_entries(directory(tmp_path / "other"), tmp_path / "b.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_damaged_entries_are_not_exported(root: Path, tmp_path: Path) -> None:
    path = entry_files(root)[0]
    path.write_bytes(path.read_bytes()[:-1])
    exported = export_entries(directory(root), tmp_path / "all.tar")
    assert exported.entries == COUNT - 1
    assert path.name in exported.skipped[0]


def test_any_flipped_byte_of_an_archive_imports_nothing_wrong(root: Path, tmp_path: Path) -> None:
    clear(directory(root))
    assert store(root).put(key(), artifact(nbytes=20))
    archive = tmp_path / "all.tar"
    export_entries(directory(root), archive)
    whole = archive.read_bytes()
    target = store(tmp_path / "other")
    refused = 0
    for at in range(0, 512 + entry_file(root).stat().st_size, 3):
        archive.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            refused += bool(import_entries(target, archive).refused)
        except UnreadableFile:
            refused += 1
        assert target.get(key()) in (None, artifact(nbytes=20))
    assert target.stats().corrupt == 0
    assert refused > 100


def test_an_archive_that_is_cut_off_says_so(root: Path, tmp_path: Path) -> None:
    archive = tmp_path / "all.tar"
    export_entries(directory(root), archive)
    whole = archive.read_bytes()
    for length in range(2_100, 2_100 + 512 * 6, 256):  # the first entry is whole
        archive.write_bytes(whole[:length])
        imported = import_entries(store(tmp_path / f"other{length}"), archive)
        assert 1 <= imported.entries < COUNT
        assert any("cut off" in problem for problem in imported.refused)


@pytest.mark.parametrize("content", [b"", b"no archive at all" * 100])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UnreadableFile, match="is no exported cache"):
        import_entries(store(tmp_path / "cache"), tmp_path / "x")
    with pytest.raises(UnreadableFile, match="cannot read"):
        import_entries(store(tmp_path / "cache"), tmp_path / "nothing")


def test_members_that_are_no_entries_touch_nothing(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for name in ("../../escaped", "/tmp/escaped", "v1/entries/x"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    imported = import_entries(store(tmp_path / "cache"), tmp_path / "evil.tar")
    assert imported.entries == 0
    assert len(imported.refused) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.tar"]


def test_an_export_that_cannot_be_written_leaves_nothing(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="cannot write"):
        export_entries(directory(root), tmp_path / "missing" / "all.tar")
    (tmp_path / "taken").mkdir()
    with pytest.raises(UnreadableFile, match="cannot write"):
        export_entries(directory(root), tmp_path / "taken")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "taken"]


# ---------------------------------------------------------------- the inventory
def test_a_check_names_what_is_wrong_and_mends_it(root: Path) -> None:
    paths = entry_files(root)
    paths[0].write_bytes(b"damaged")
    paths[1].write_bytes(paths[2].read_bytes())
    found = {checked.path: checked.problem for checked in verify(directory(root), repair=False) if checked.problem}
    assert sorted(found.values()) == ["it ends after 7 bytes", "it is of another key"]
    assert list(verify(directory(root), repair=True)) != []
    assert len(entry_files(root)) == COUNT - 2
    assert all(checked.problem is None for checked in verify(directory(root), repair=False))


def test_a_listing_shows_keys_and_costs(root: Path) -> None:
    listed = list(listing(directory(root)))
    assert {entry.key for entry in listed} == {key(number, program=number % 2) for number in range(COUNT)}
    assert {entry.cost_ns for entry in listed} == {artifact().cost_ns}
    entry_files(root)[0].write_bytes(b"damaged")
    assert sum(entry.key is None for entry in listing(directory(root))) == 1


def test_clearing_removes_what_is_ours(root: Path) -> None:
    (root / "notes").write_bytes(b"mine")
    assert clear(directory(root)) == COUNT
    assert [path for path in root.rglob("*") if path.is_file()] == [root / "notes"]
    assert clear(directory(root / "nothing")) == 0
