"""Walking the entries of a store, and removing single ones."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from support.disk_cache import Disk, artifact, entry_file, entry_files, key, store, unusable
from vyre.domain.artifact_key import ArtifactKind
from vyre.ports.artifact_store import ArtifactStore, StoredEntry
from vyre.testing.fakes import MemoryArtifactStore
from vyre.testing.recording_telemetry import RecordingTelemetry


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(params=["disk", "memory"])
def any_store(request: pytest.FixtureRequest, root: Path) -> ArtifactStore:
    return store(root) if request.param == "disk" else MemoryArtifactStore()


def test_every_entry_is_walked(any_store: ArtifactStore) -> None:
    keys = {key(1), key(2), key(1, program=7), key(1, kind=ArtifactKind.PTX)}
    for number, each in enumerate(keys):
        assert any_store.put(each, artifact(number))
    found = list(any_store.entries())
    assert {entry.key for entry in found} == keys
    assert len(found) == len(keys)
    assert sum(entry.nbytes for entry in found) == any_store.stats().nbytes
    assert {entry.layer for entry in found} == {""}


def test_what_is_removed_is_gone_and_nothing_else(any_store: ArtifactStore) -> None:
    for number in (1, 2):
        assert any_store.put(key(number), artifact(number))
    assert any_store.remove(key(1))
    assert any_store.get(key(1)) is None
    assert any_store.get(key(2)) == artifact(2)
    assert [entry.key for entry in any_store.entries()] == [key(2)]
    assert any_store.put(key(1), artifact(1))
    assert any_store.get(key(1)) == artifact(1)


def test_what_is_not_there_is_gone(any_store: ArtifactStore) -> None:
    assert any_store.remove(key(1))
    assert any_store.put(key(1), artifact(1))
    assert any_store.remove(key(2))
    assert any_store.remove(key(1))
    assert any_store.remove(key(1))


def test_bytes_are_those_of_the_file(root: Path) -> None:
    cache = store(root)
    assert cache.put(key(1), artifact(1))
    assert list(cache.entries()) == [StoredEntry(key(1), entry_file(root).stat().st_size)]


def test_walking_and_removing_make_nothing(root: Path) -> None:
    cache = store(root)
    assert list(cache.entries()) == []
    assert cache.remove(key())
    assert not root.exists()


def test_entries_that_cannot_be_read_are_left_out(root: Path) -> None:
    cache = store(root)
    for number in (1, 2):
        assert cache.put(key(number), artifact(number))
    entry_file(root, key(1)).write_bytes(b"of the future")
    assert [entry.key for entry in cache.entries()] == [key(2)]


def test_layers_are_walked_and_left_alone(root: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    for number in (1, 2):
        assert store(image).put(key(number), artifact(number))
    cache = store(root, layers=(image,))
    assert cache.put(key(1), artifact(1))
    assert next(iter(cache.entries())).layer == ""
    assert {(entry.key, entry.layer) for entry in cache.entries()} == {
        (key(1), ""),
        (key(1), str(image)),
        (key(2), str(image)),
    }
    assert cache.remove(key(1))
    assert cache.remove(key(2))
    assert entry_files(root) == []
    assert len(entry_files(image)) == 2
    assert cache.get(key(1)) == artifact(1)


def test_without_a_directory_of_its_own_a_store_has_removed_everything(root: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    assert store(image).put(key(1), artifact(1))
    root.mkdir(mode=0o777)
    root.chmod(0o777)
    cache = store(root, layers=(image,))
    assert [entry.layer for entry in cache.entries()] == [str(image)]
    assert cache.remove(key(1))
    assert len(entry_files(image)) == 1


@pytest.mark.parametrize("code", ["EACCES", "EROFS", "EIO", "EBUSY", "ESTALE", "EPERM"])
def test_what_cannot_be_removed_is_told_once(root: Path, code: str) -> None:
    assert store(root).put(key(1), artifact(1))
    number = getattr(errno, code)
    disk = Disk(fail_at=0, code=number, forever=True, only=frozenset({"unlink"}))
    telemetry = RecordingTelemetry()
    cache = store(root, files=disk.files, telemetry=telemetry)
    assert not cache.remove(key(1))
    assert not cache.remove(key(1))
    (told,) = unusable(telemetry)
    assert told["problem"] == f"{entry_file(root)}: {os.strerror(number)}"
    assert told["fix"]
    assert cache.get(key(1)) == artifact(1)
