"""The store of tuning records on disk, from one process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from support.disk_cache import Disk
from support.tuning import tuning_key, tuning_record, tuning_store
from vyre.adapters.disk.tuning_store import MAX_FILE_BYTES, MOST_FILES, MOST_PROGRAMS
from vyre.adapters.disk.whole_files import STALE_S
from vyre.domain.tuning import KEPT, TuningRecord, merge, to_line
from vyre.ports.tuning_store import TuningStoreStats
from vyre.testing.recording_telemetry import RecordingTelemetry

DAY_NS = 86_400 * 10**9


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def files_of(root: Path) -> list[Path]:
    return sorted(root.glob("tuning-v1/??/*.jsonl"))


def of_program(program: int, number: int = 0) -> TuningRecord:
    return tuning_record(number, key=tuning_key(program))


def test_what_one_store_puts_another_gets_latest_first(root: Path) -> None:
    written, read = tuning_store(root), tuning_store(root)
    assert read.get(tuning_key()) == ()
    assert written.put([tuning_record(1), tuning_record(3)])
    assert written.put([tuning_record(2)])
    assert read.get(tuning_key()) == (tuning_record(3), tuning_record(2), tuning_record(1))
    assert written.stats() == TuningStoreStats(puts=2)
    assert read.stats() == TuningStoreStats(reads=2)


def test_a_record_is_a_line_of_a_file_below_its_program(root: Path) -> None:
    assert tuning_store(root).put([tuning_record(1), of_program(0xAB << 248)])
    first, other = files_of(root)
    assert first.parent.name == "00"
    assert other.parent.name == other.name[:2] == "ab"
    assert first.read_text("ascii") == to_line(tuning_record(1)) + "\n"


def test_keys_of_one_program_are_told_apart(root: Path) -> None:
    store = tuning_store(root)
    other = tuning_key(device="another")
    assert store.put([tuning_record(1), tuning_record(2, key=other)])
    assert store.get(other) == (tuning_record(2, key=other),)
    assert store.get(tuning_key(device="a third")) == ()


def test_putting_the_same_again_adds_nothing(root: Path) -> None:
    store = tuning_store(root)
    for _ in range(3):
        assert store.put([tuning_record(1), tuning_record(2)])
    assert len(files_of(root)) == 1
    assert store.put([])
    assert len(files_of(root)) == 1


def test_records_are_those_of_all_programs(root: Path) -> None:
    store = tuning_store(root)
    put = [of_program(program << 247) for program in range(5)]
    assert store.put(put)
    (root / "tuning-v1" / "other").mkdir(mode=0o700)
    (root / "tuning-v1" / "00" / "notes.txt").write_text("mine")
    assert set(store.records()) == set(put)
    assert list(tuning_store(root / "elsewhere").records()) == []


def test_nothing_is_made_before_the_first_put(root: Path) -> None:
    store = tuning_store(root)
    store.get(tuning_key())
    list(store.records())
    assert not root.exists()


def test_files_and_directories_are_private(root: Path) -> None:
    before = os.umask(0)
    try:
        assert tuning_store(root / "deep").put([tuning_record()])
    finally:
        os.umask(before)
    for path in (root, *root.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_many_files_of_a_program_become_one_with_the_same_content(root: Path) -> None:
    store = tuning_store(root)
    records = [tuning_record(number, run="one", place=number, of=100, at_s=1) for number in range(MOST_FILES)]
    for found in records:
        assert store.put([replace(found, key=tuning_key(bucket=found.place))])
    assert len(files_of(root)) == MOST_FILES
    assert store.put([tuning_record(1_000)])
    assert len(files_of(root)) == 1
    assert len(list(store.records())) == MOST_FILES + 1
    assert store.get(tuning_key(bucket=3)) == (replace(records[3], key=tuning_key(bucket=3)),)


def test_only_so_many_runs_of_a_candidate_are_kept(root: Path) -> None:
    store = tuning_store(root)
    records = [tuning_record(number) for number in range(3 * MOST_FILES)]
    for found in records:
        assert store.put([found])
        assert len(files_of(root)) <= MOST_FILES
    assert store.get(tuning_key()) == merge(records) == tuple(records[: -KEPT.of_a_candidate - 1 : -1])


def test_the_program_that_was_tuned_longest_ago_is_forgotten(root: Path) -> None:
    store = tuning_store(root)
    for program in range(MOST_PROGRAMS):
        assert store.put([of_program(program, 1), of_program(program + MOST_PROGRAMS, 2)][:1])
    for age, path in enumerate(files_of(root)):
        os.utime(path, ns=(DAY_NS * (age != 5) + age, DAY_NS * (age != 5) + age))
    oldest = files_of(root)[5].name[:64]
    assert store.put([of_program(MOST_PROGRAMS)])
    kept = {path.name[:64] for path in files_of(root)}
    assert len(kept) == MOST_PROGRAMS
    assert oldest not in kept
    assert of_program(MOST_PROGRAMS).key.program in kept


def test_what_a_killed_writer_left_is_removed_with_time(root: Path) -> None:
    now = 10 * DAY_NS
    store = tuning_store(root, now_ns=lambda: now)
    assert store.put([tuning_record()])
    part = files_of(root)[0].parent
    for name, seconds in (("old", STALE_S + 1), ("future", -STALE_S - 1), ("new", 10)):
        (part / f"{name}.tmp").write_bytes(b"")
        os.utime(part / f"{name}.tmp", ns=(now - seconds * 10**9,) * 2)
    for number in range(MOST_FILES):
        assert store.put([tuning_record(number + 1)])
    assert [path.name for path in part.glob("*.tmp")] == ["new.tmp"]


# ---------------------------------------------------------------- what others spoilt
@pytest.mark.parametrize("damage", [b"", b"x", b"\xff\xfe", b'{"version":1}', b"\0" * 100])
def test_lines_that_do_not_verify_are_dropped_and_counted(root: Path, damage: bytes) -> None:
    telemetry = RecordingTelemetry()
    store = tuning_store(root, telemetry=telemetry)
    assert store.put([tuning_record(1), tuning_record(2)])
    (path,) = files_of(root)
    first, second = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([damage, second, first[:-1], first.replace(b"run", b"nur")]))
    assert store.get(tuning_key()) == (tuning_record(1),)
    assert store.stats().corrupt == telemetry.counts["vyre.tuning.corrupt", ()] == 3


def test_a_file_of_another_program_under_a_wrong_name_gives_nothing_to_it(root: Path) -> None:
    store = tuning_store(root)
    assert store.put([of_program(1)])
    (path,) = files_of(root)
    path.rename(path.with_name(f"{2:064x}{path.name[64:]}"))
    assert store.get(tuning_key(2)) == ()


@pytest.mark.parametrize("spoil", ["others may write", "too long", "a link", "a directory"])
def test_a_file_that_cannot_be_trusted_is_not_read_and_not_removed(root: Path, spoil: str) -> None:
    telemetry = RecordingTelemetry()
    store = tuning_store(root, telemetry=telemetry)
    assert store.put([tuning_record(1)])
    (path,) = files_of(root)
    if spoil == "others may write":
        path.chmod(0o666)
    elif spoil == "too long":
        os.truncate(path, MAX_FILE_BYTES + 1)
    else:
        path.rename(root / "moved")
        (path.symlink_to if spoil == "a link" else lambda _: path.mkdir())(root / "moved")
    assert store.get(tuning_key()) == ()
    for number in range(MOST_FILES + 1):
        assert store.put([tuning_record(2 + number)])
    assert path.exists()
    assert len(store.get(tuning_key())) == KEPT.of_a_candidate
    assert [event.name for event in telemetry.events] == ["vyre.tuning.unusable"]


def test_more_than_a_file_may_hold_is_not_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuning_store(root).put([tuning_record(1)])
    monkeypatch.setattr("vyre.adapters.disk.tuning_store.MAX_FILE_BYTES", files_of(root)[0].stat().st_size)
    store = tuning_store(root)
    assert store.put([tuning_record(2)])
    assert not store.put([tuning_record(3), tuning_record(4)])
    assert store.stats() == TuningStoreStats(puts=1, failed=1)
    for number in range(MOST_FILES + 3):  # neither is a file made of them all
        assert store.put([tuning_record(5 + number % 2, run=f"run {number}", at_s=5)])
    assert len(files_of(root)) > MOST_FILES


def test_a_directory_that_others_could_change_is_refused(root: Path) -> None:
    telemetry = RecordingTelemetry()
    root.mkdir()
    root.chmod(0o777)
    store = tuning_store(root, telemetry=telemetry)
    assert not store.put([tuning_record()])
    assert store.get(tuning_key()) == ()
    (event,) = telemetry.events
    assert "can be written by others" in str(event.fields["problem"])
    assert event.fields["fix"] == f"chmod go-w {root}"
    assert event.fields["directory"] == f"{root}/tuning-v1"


def test_a_directory_that_is_removed_meanwhile_comes_back(root: Path) -> None:
    disk = Disk()
    store = tuning_store(root, files=disk.files)
    assert store.put([tuning_record(1)])
    root.rename(root.with_name("gone"))
    assert store.get(tuning_key()) == ()
    assert store.put([tuning_record(2)])
    assert store.get(tuning_key()) == (tuning_record(2),)
