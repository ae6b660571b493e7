"""Any sequence of operations on a cache directory, by several processes' stores, against a dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from support.disk_cache import entry_file, entry_files, key, store
from support.profiles import examples
from vyre.adapters.disk.artifact_store import DiskArtifactStore
from vyre.adapters.disk.entry_format import Damaged, decode, encode
from vyre.domain.artifact_key import ArtifactKey
from vyre.ports.artifact_store import Artifact

STORES = 3
KEYS = [key(number, program=number % 2) for number in range(5)]
PARTS = st.binary(max_size=300)
ARTIFACTS = st.builds(Artifact, PARTS, PARTS, st.integers(0, 10**12))


class Put(NamedTuple):
    store: int
    key: int
    artifact: Artifact


class Get(NamedTuple):
    store: int
    key: int


class Damage(NamedTuple):
    """XOR of one byte of the entry, at a part of its length in thousandths."""

    key: int
    at: int
    change: int


class Cut(NamedTuple):
    key: int
    at: int


class Reopen(NamedTuple):
    store: int


class Advance(NamedTuple):
    seconds: int


STORE, KEY, PART = st.integers(0, STORES - 1), st.integers(0, len(KEYS) - 1), st.integers(0, 999)
STEPS = st.one_of(
    st.builds(Put, STORE, KEY, ARTIFACTS),
    st.builds(Get, STORE, KEY),
    st.builds(Damage, KEY, PART, st.integers(1, 255)),
    st.builds(Cut, KEY, PART),
    st.builds(Reopen, STORE),
    st.builds(Advance, st.integers(-(10**7), 10**7)),
)


class Directory:
    """A cache directory with a clock, the stores on it, and what was put last under each key and is not damaged."""

    def __init__(self, root: Path, entries: int) -> None:
        self.root, self.entries, self.now_s = root, entries, 2 * 10**9
        self.stores = [self.opened() for _ in range(STORES)]
        self.last: dict[int, Artifact] = {}

    def opened(self) -> DiskArtifactStore:
        return store(self.root, max_entries=self.entries, now_ns=lambda: self.now_s * 10**9)

    def run(self, step: object) -> None:
        match step:
            case Put(number, index, artifact):
                assert self.stores[number].put(KEYS[index], artifact)
                self.last[index] = artifact
            case Get(number, index):
                found = self.stores[number].get(KEYS[index])
                if self.entries >= len(KEYS):
                    assert found == self.last.get(index)
                else:
                    assert found in (None, self.last.get(index))
            case Damage(index, at, change):
                for path, content in self.file_of(KEYS[index]):
                    place = len(content) * at // 1000
                    path.write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
                    del self.last[index]
            case Cut(index, at):
                for path, content in self.file_of(KEYS[index]):
                    path.write_bytes(content[: len(content) * at // 1000])
                    del self.last[index]
            case Reopen(number):
                self.stores[number] = self.opened()
            case Advance(seconds):
                self.now_s = max(self.now_s + seconds, 0)

    def file_of(self, wanted: ArtifactKey) -> list[tuple[Path, bytes]]:
        """Its file and content, unless it is not there or damaged already."""
        found = [path for path in entry_files(self.root) if wanted.digest.hex() in path.name]
        return [(path, path.read_bytes()) for path in found if KEYS.index(wanted) in self.last]


@examples(150)
@given(st.sampled_from([2, 3, 100]), st.lists(STEPS, max_size=40))
def test_every_answer_is_the_last_put_or_none(entries: int, steps: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Directory(Path(folder) / "cache", entries)
        for step in steps:
            directory.run(step)
            files = entry_files(directory.root)
            assert len(files) <= entries
        stats = directory.stores[0].stats()
        assert stats[:2] == (len(files) if steps else 0, sum(path.stat().st_size for path in files) if steps else 0)


@examples(300)
@given(ARTIFACTS, st.data())
def test_no_change_of_an_entry_goes_unnoticed(artifact: Artifact, data: st.DataObject) -> None:
    """Any other bytes: flips, cuts, insertions, swapped parts."""
    whole = encode(KEYS[0].encode(), artifact)
    first, second = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    changed = whole[:first] + data.draw(st.binary(max_size=64)) + whole[second:]
    if changed != whole:
        try:
            decode(changed)
        except Damaged:
            return
        raise AssertionError("damage was not noticed")


@examples(50)
@given(ARTIFACTS)
def test_what_is_put_comes_back_from_its_file(artifact: Artifact) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "cache"
        assert store(root).put(KEYS[0], artifact)
        assert decode(entry_file(root).read_bytes()) == (KEYS[0].encode(), artifact)
        assert store(root).get(KEYS[0]) == artifact
