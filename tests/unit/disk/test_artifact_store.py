"""The store on disk, from one process."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from support.disk_cache import Disk, artifact, entry_file, entry_files, key, store, unusable
from support.limits import LIMIT_S
from vyre.adapters.disk.entry_directory import QUARANTINE_FILES, STALE_S
from vyre.adapters.disk.ledger import MAX_BYTES as LEDGER_BYTES
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.cache_config import Durability, Eviction
from vyre.domain.errors import InvalidField
from vyre.policies.journal import Decision
from vyre.ports.artifact_store import NEIGHBOURS, Artifact
from vyre.testing.recording_telemetry import RecordingTelemetry

DAY_NS = 86_400 * 1_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def entry_files_of(root: Path, number: int) -> list[Path]:
    return [path for path in entry_files(root) if key(number).digest.hex() in path.name]


# ---------------------------------------------------------------- what is kept
def test_what_one_store_puts_another_gets(root: Path) -> None:
    written, read = store(root), store(root)
    assert read.get(key()) is None
    assert written.put(key(), artifact())
    assert read.get(key()) == artifact()
    assert read.stats()[2:] == (1, 1, 0, 0, 0)
    assert written.stats()[2:] == (0, 0, 1, 0, 0)
    assert read.stats()[:2] == written.stats()[:2] == (1, entry_file(root).stat().st_size)


def test_the_last_put_of_a_key_wins(root: Path) -> None:
    cache = store(root)
    for number in (1, 2):
        assert cache.put(key(), artifact(number))
        assert cache.get(key()) == artifact(number)
    assert cache.stats().entries == 1


def test_every_field_of_the_key_separates(root: Path) -> None:
    cache = store(root)
    changed = [
        key(),
        key(kind=ArtifactKind.PTX),
        key(program=1),
        key(interface=("x",)),
        key(workgroup=(2, 1, 1)),
        key(1),
        key(policy=(("a", "b"),)),
        key(target="sm_120"),
        key(device=(("a", "b"),)),
        key(driver="13.1"),
        key(tool="ptxas"),
        key(emitter=b"e" * 32),
    ]
    for number, other in enumerate(changed):
        assert cache.put(other, artifact(number))
    assert [cache.get(other) for other in changed] == [artifact(number) for number in range(len(changed))]


def test_a_program_that_is_no_digest_is_refused(root: Path) -> None:
    with pytest.raises(InvalidField, match="a digest of 32 bytes"):
        store(root).get(replace(key(), program=b"short"))


def test_nothing_is_made_before_the_first_put(root: Path) -> None:
    cache = store(root)
    cache.get(key())
    cache.neighbours(key())
    cache.stats()
    assert not root.exists()


def test_files_and_directories_are_private(root: Path) -> None:
    before = os.umask(0)
    try:
        assert store(root / "deep").put(key(), artifact())
    finally:
        os.umask(before)
    for path in (root, *root.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_put_neither_reads_nor_looks_for_its_entry(root: Path) -> None:
    """Whoever loses a race goes on with what it built itself."""
    cache = store(root)
    assert cache.put(key(), artifact())
    disk = Disk()
    later = store(root, files=disk.files)
    assert later.put(key(1), artifact(1))
    disk.operations.clear()
    assert later.put(key(2), artifact(2))
    assert "read" not in disk.operations
    assert "lstat" not in disk.operations


@pytest.mark.parametrize(("durability", "syncs"), [(Durability.NONE, 0), (Durability.FILE, 1), (Durability.DIR, 3)])
def test_durability_is_what_is_synced(root: Path, durability: Durability, syncs: int) -> None:
    disk = Disk()
    cache = store(root, files=disk.files, durability=durability)
    assert cache.put(key(), artifact())
    assert disk.operations.count("fsync") == syncs
    if syncs:
        assert disk.operations.index("fsync") < disk.operations.index("replace")
    assert cache.get(key()) == artifact()


def test_a_directory_that_is_removed_meanwhile_comes_back(root: Path) -> None:
    cache = store(root)
    assert cache.put(key(), artifact())
    root.rename(root.with_name("gone"))
    assert cache.get(key()) is None
    assert cache.put(key(), artifact())
    assert cache.get(key()) == artifact()


# ---------------------------------------------------------------- neighbours
def test_neighbours_are_of_the_same_program_and_kind(root: Path) -> None:
    cache = store(root)
    near = key(driver="13.1")
    for other in (near, key(program=1), key(kind=ArtifactKind.PTX), key()):
        assert cache.put(other, artifact())
    assert cache.neighbours(key()) == [near]
    assert key().differences(near) == ("driver",)


def test_neighbours_are_the_latest_and_few(root: Path) -> None:
    disk = Disk()
    cache = store(root, files=disk.files)
    for number in range(NEIGHBOURS + 8):
        assert cache.put(key(number), artifact(number))
        os.utime(entry_file(root, key(number)), ns=(number * DAY_NS, number * DAY_NS))
    disk.operations.clear()
    found = cache.neighbours(key(10_000))
    assert set(found) == {key(number) for number in range(8, NEIGHBOURS + 8)}
    assert disk.operations.count("open") <= 2 * NEIGHBOURS


def test_neighbours_that_cannot_be_read_are_left_out(root: Path) -> None:
    cache = store(root)
    assert cache.put(key(1), artifact(1))
    entry_file(root).write_bytes(b"garbage")
    assert cache.neighbours(key(2)) == []
    assert cache.put(key(1), artifact(1))
    path = entry_file(root)
    path.rename(path.with_name(path.name[:-8] + "0000.vya"))
    assert cache.neighbours(key(2)) == []


# ---------------------------------------------------------------- limits
def test_entries_are_held_to_their_number(root: Path) -> None:
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry, max_entries=5)
    for number in range(20):
        assert cache.put(key(number, program=number), artifact(number, program=number))
        assert len(entry_files(root)) <= 5
        assert cache.get(key(number, program=number)) is not None
    assert cache.stats().entries == 5
    assert cache.stats().evicted == 15
    assert telemetry.counts["vyre.cache.evicted", ()] == 15


def test_bytes_are_held_to_their_sum(root: Path) -> None:
    cache = store(root, max_bytes=5_000)
    for number in range(20):
        assert cache.put(key(number), artifact(number, 1_000))
        assert sum(path.stat().st_size for path in entry_files(root)) <= 5_000
    assert 3 <= cache.stats().entries <= 4


class Putting:
    """A sink that puts the same entry again whenever it is told of a decision."""

    keeps = False

    def __init__(self, root: Path, eviction: Eviction) -> None:
        self.cache = store(root, max_entries=2, eviction=eviction, sink=self)
        self.told = 0

    def note(self, decision: Decision, /) -> None:
        self.told += 1
        assert self.cache.put(key(2), artifact(2))


@pytest.mark.parametrize("eviction", Eviction, ids=lambda eviction: eviction.value)
def test_who_is_told_may_call_the_store(root: Path, eviction: Eviction) -> None:
    sink = Putting(root, eviction)
    puts = threading.Thread(target=lambda: [sink.cache.put(key(n), artifact(n)) for n in range(3)], daemon=True)
    puts.start()
    puts.join(LIMIT_S)
    assert not puts.is_alive(), "it waits for itself"
    assert sink.told and entry_files_of(root, 2)


@pytest.mark.parametrize(("eviction", "left"), [(Eviction.COST, 1), (Eviction.HEAT, 2)])
def test_the_policy_of_the_settings_decides_who_leaves(root: Path, eviction: Eviction, left: int) -> None:
    """1 is cheap and in use, 2 would take a minute to build and is not."""
    cache = store(root, max_entries=2, eviction=eviction)
    assert cache.put(key(1), Artifact(b"", b"1", 1))
    assert cache.put(key(2), Artifact(b"", b"2", 60_000_000_000))
    for _ in range(8):
        assert cache.get(key(1)) is not None
    assert cache.put(key(3), Artifact(b"", b"3", 1_000_000))
    assert [number for number in (1, 2) if cache.get(key(number)) is None] == [left]


def test_an_entry_beyond_the_limit_is_not_kept_and_nothing_leaves_for_it(root: Path) -> None:
    cache = store(root, max_bytes=2_000)
    assert cache.put(key(1), artifact(1))
    assert not cache.put(key(2), artifact(2, 3_000))
    assert cache.get(key(1)) == artifact(1)


def test_an_entry_as_large_as_the_limit_fits(root: Path) -> None:
    cache = store(root)
    assert cache.put(key(1), artifact(1, 3_000))
    limit = entry_file(root).stat().st_size
    exact = store(root, max_bytes=limit)
    assert exact.put(key(2), artifact(2, 3_000))
    assert exact.get(key(2)) == artifact(2, 3_000)
    assert exact.stats().entries == 1


def test_what_is_costly_to_build_stays(root: Path) -> None:
    cache = store(root, max_entries=4)
    assert cache.put(key(0), artifact(0, cost_ns=10**12))
    for number in range(1, 20):
        assert cache.put(key(number), artifact(number, cost_ns=10**6))
    assert cache.get(key(0)) == artifact(0, cost_ns=10**12)


def test_cost_and_last_use_count_across_processes(root: Path) -> None:
    """What others left is judged by the cost in its header and by its age."""
    for number, (cost_ns, age_days) in enumerate([(10**9, 0), (10**9, 300), (10**6, 0), (10**11, 30)]):
        assert store(root).put(key(number), artifact(number, cost_ns=cost_ns))
        then = 1_000 * DAY_NS - age_days * DAY_NS
        os.utime(entry_file(root, key(number)), ns=(then, then))
    later = store(root, max_entries=4, now_ns=lambda: 1_000 * DAY_NS)
    assert later.put(key(9), artifact(9))
    assert [later.get(key(number)) is not None for number in range(4)] == [True, False, True, True]


def test_what_is_used_stays_longer(root: Path) -> None:
    """Of entries that cost the same; by this process, and by another one as far as its files tell."""
    now = 20_000 * DAY_NS
    cache = store(root, max_entries=4, now_ns=lambda: now)
    for number in range(4):
        assert cache.put(key(number), artifact(number))
        os.utime(entry_file(root, key(number)), ns=(now, now))
    assert cache.get(key(0)) is not None  # too soon to be noted in the file
    now += DAY_NS
    assert store(root, now_ns=lambda: now).get(key(1)) is not None
    for number in (4, 5):
        assert cache.put(key(number), artifact(number))
    kept = {number for number in range(6) if entry_files_of(root, number)}
    assert kept == {0, 1, 4, 5}


def test_a_use_is_noted_once_an_hour(root: Path) -> None:
    now = 10_000 * DAY_NS
    cache = store(root, now_ns=lambda: now)
    assert cache.put(key(), artifact())
    path = entry_file(root)
    os.utime(path, ns=(now, now))
    now += 3_000 * 10**9
    assert cache.get(key()) is not None
    assert path.stat().st_mtime_ns == 10_000 * DAY_NS
    now += 1_000 * 10**9
    assert cache.get(key()) is not None
    assert path.stat().st_mtime_ns == now


def test_other_processes_are_counted_without_scanning(root: Path) -> None:
    disk = Disk()
    cache = store(root, files=disk.files, max_entries=8)
    other = store(root, max_entries=8)
    assert cache.put(key(0), artifact(0))
    disk.operations.clear()
    for number in range(1, 7):
        assert other.put(key(number), artifact(number))
    assert cache.put(key(7), artifact(7))
    assert "listdir" not in disk.operations
    assert len(entry_files(root)) == 8
    assert cache.put(key(8), artifact(8))
    assert "listdir" in disk.operations
    assert len(entry_files(root)) <= 8


def test_the_ledger_is_begun_anew_when_it_is_long(root: Path) -> None:
    cache = store(root, max_entries=3)
    assert cache.put(key(0), artifact(0))
    ledger = root / "v1" / "announced"
    ledger.write_bytes(bytes(LEDGER_BYTES))
    for number in range(1, 10):
        assert cache.put(key(number), artifact(number))
        assert len(entry_files(root)) <= 3
    assert ledger.stat().st_size < 1_000


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 160, bytes(37)])
def test_a_damaged_ledger_costs_a_scan_and_nothing_else(root: Path, content: bytes) -> None:
    cache = store(root, max_entries=3)
    for number in range(12):
        assert cache.put(key(number), artifact(number))
        assert cache.get(key(number)) == artifact(number)
        assert len(entry_files(root)) <= 3
        (root / "v1" / "announced").write_bytes(content)


# ---------------------------------------------------------------- what lies around
def test_quarantine_is_bounded(root: Path) -> None:
    cache = store(root)
    for number in range(QUARANTINE_FILES + 10):
        assert cache.put(key(number), artifact(number))
        entry_file(root).write_bytes(b"damaged")
        assert cache.get(key(number)) is None
    assert len(list((root / "v1" / "quarantine").iterdir())) == QUARANTINE_FILES


def test_what_killed_writers_left_goes_after_a_while(root: Path) -> None:
    assert store(root).put(key(), artifact())
    temporary = root / "v1" / "temporary"
    for name, age_s in (("old", STALE_S + 60), ("young", 60), ("future", -STALE_S - 60)):
        (temporary / name).write_bytes(b"half an ent")
        then = DAY_NS * 20_000 - age_s * 10**9
        os.utime(temporary / name, ns=(then, then))
    assert store(root, now_ns=lambda: DAY_NS * 20_000).put(key(1), artifact(1))
    assert [path.name for path in temporary.iterdir()] == ["young"]


def test_files_of_others_are_left_alone(root: Path) -> None:
    cache = store(root, max_entries=2)
    assert cache.put(key(), artifact())
    strangers = [root / "README", root / "v2" / "entries" / "x", entry_file(root).with_name("notes.txt")]
    strangers.append(root / "v1" / "entries" / "zz" / "x")
    for path in strangers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not ours")
    for number in range(6):
        assert cache.put(key(number, program=number), artifact(number))
    assert all(path.read_bytes() == b"not ours" for path in strangers)
    assert cache.stats().entries == 2


def test_there_are_few_directories(root: Path) -> None:
    cache = store(root)
    for number in range(400):
        assert cache.put(key(program=number), artifact(number))
    assert len(list((root / "v1" / "entries").iterdir())) == 256


# ---------------------------------------------------------------- lower layers
def test_lower_layers_are_read_and_not_written(root: Path, tmp_path: Path) -> None:
    image, newer = tmp_path / "image", tmp_path / "newer"
    assert store(image).put(key(1), artifact(1))
    assert store(image).put(key(2), artifact(22))
    assert store(newer).put(key(2), artifact(2))
    before = sorted(path.read_bytes() for path in entry_files(image))
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry, layers=(newer, image), max_entries=1)
    assert cache.get(key(1)) == artifact(1)
    assert cache.get(key(2)) == artifact(2)
    assert cache.put(key(3), artifact(3))
    assert cache.put(key(1), artifact(11))
    assert cache.get(key(1)) == artifact(11)
    assert telemetry.counts["vyre.cache.hit", (("layer", "lower"),)] == 2
    assert set(cache.neighbours(key(4))) == {key(1), key(2)}
    assert sorted(path.read_bytes() for path in entry_files(image)) == before


def test_damage_in_a_lower_layer_stays_where_it_is(root: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    assert store(image).put(key(), artifact())
    entry_file(image).write_bytes(b"damaged")
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry, layers=(image,))
    assert cache.get(key()) is None
    assert cache.stats().corrupt == 1
    assert entry_file(image).exists()
    assert telemetry.counts["vyre.cache.miss", (("reason", "corrupt"),)] == 1


def test_lower_layers_serve_when_our_own_directory_cannot(root: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    assert store(image).put(key(), artifact())
    root.mkdir()
    root.chmod(0o777)
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry, layers=(image,))
    assert cache.get(key()) == artifact()
    assert not cache.put(key(1), artifact(1))
    (diagnostic,) = unusable(telemetry)
    assert diagnostic["fix"] == f"chmod go-w {root}"


# ---------------------------------------------------------------- telemetry, versions
def test_each_outcome_is_counted(root: Path) -> None:
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry)
    cache.get(key())
    cache.put(key(), artifact())
    cache.get(key())
    entry_file(root).write_bytes(b"damaged")
    cache.get(key())
    assert telemetry.counts == {
        ("vyre.cache.miss", (("reason", "absent"),)): 1,
        ("vyre.cache.put", ()): 1,
        ("vyre.cache.hit", (("layer", "own"),)): 1,
        ("vyre.cache.corrupt", ()): 1,
        ("vyre.cache.miss", (("reason", "corrupt"),)): 1,
    }
    (event,) = telemetry.events
    assert (event.name, event.level) == ("vyre.cache.corrupt", "warning")
    assert event.fields["problem"] == "it ends after 7 bytes"


def test_versions_of_the_package_share_a_directory(root: Path) -> None:
    """Code of one is never served to the other; keys that one cannot read are entries like any other."""
    old, new = store(root, max_entries=3), store(root, max_entries=3)
    of_old, of_new = key(emitter=b"o" * 32), key(emitter=b"n" * 32)
    assert old.put(of_old, Artifact(b"", b"old"))
    assert new.get(of_new) is None
    assert new.put(of_new, Artifact(b"", b"new"))
    assert (old.get(of_old), new.get(of_new)) == (Artifact(b"", b"old"), Artifact(b"", b"new"))
    assert list(new.neighbours(of_new)) == [of_old]
    foreign = entry_files(root)[0].with_name(f"{'0' * 64}-bitcode-{'0' * 64}.vya")
    foreign.write_bytes(b"an entry of a kind and with a key that this version does not know")
    assert new.stats().entries == 3
    assert list(new.neighbours(of_new)) == [of_old]
    later = store(root, max_entries=3)
    for number in range(6):
        assert later.put(key(number), artifact(number))
        assert len(entry_files(root)) <= 3


def test_key_is_what_the_file_begins_with(root: Path) -> None:
    assert store(root).put(key(), artifact())
    content = entry_file(root).read_bytes()
    length = int.from_bytes(content[12:16], "little")
    assert ArtifactKey.decode(content[40 : 40 + length]) == key()
    assert entry_file(root).name == f"{key().program.hex()}-cubin-{key().digest.hex()}.vya"
