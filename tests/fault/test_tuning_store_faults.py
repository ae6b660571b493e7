"""The store of tuning records when the file system fails, and when others write at the same time: nothing is lost that
was put, and nothing is raised.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from support.disk_cache import Disk, Killed
from support.limits import LIMIT_S
from support.profiles import SOAK
from support.tuning import tuning_key, tuning_record, tuning_store
from vyre.adapters.disk import tuning_store as module
from vyre.adapters.disk.file_operations import REAL_FILES
from vyre.domain.tuning import TuningRecord
from vyre.testing.recording_telemetry import RecordingTelemetry

TESTS: Final = Path(__file__).parents[1]
CODES: Final = ("ENOSPC", "EIO", "ESTALE", "ENOENT", "EBUSY", "EACCES", "EROFS", "EDQUOT", "EMFILE")
MOST_FILES: Final = module.MOST_FILES
FEW_FILES: Final = 4
"""Of a program, beyond which these tests have them merged."""
PROCESSES, PUTS = (16, 60) if SOAK else (4, 40)


@pytest.fixture(autouse=True)
def _few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", FEW_FILES)


def record_in_bucket(number: int) -> TuningRecord:
    """Of a key of its own, so that none takes the place of another."""
    return tuning_record(key=tuning_key(bucket=number))


def held(root: Path, count: int) -> list[TuningRecord]:
    store, records = tuning_store(root), [record_in_bucket(number) for number in range(count)]
    for found in records:
        assert store.put([found])
    return records


NEW: Final = record_in_bucket(1_000)
SCENES: Final = {"the first put": 0, "one more": 2, "one that merges files": FEW_FILES}


def operations_of(scene: str, root: Path) -> list[str]:
    held(root, SCENES[scene])
    disk = Disk()
    assert tuning_store(root, files=disk.files).put([NEW])
    return disk.operations


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("scene", SCENES)
def test_a_put_that_fails_at_any_operation_loses_nothing(scene: str, code: str, tmp_path: Path) -> None:
    for at in range(len(operations_of(scene, tmp_path / "counted"))):
        for forever in (False, True):
            root = tmp_path / f"{at}-{forever}"
            before = held(root, SCENES[scene])
            telemetry = RecordingTelemetry()
            disk = Disk(fail_at=at, code=getattr(errno, code), forever=forever)
            store = tuning_store(root, telemetry=telemetry, files=disk.files)
            stored = store.put([NEW])
            assert store.stats()[1:3] == (int(stored), int(not stored))
            found = set(tuning_store(root).records())
            assert found >= {*before, NEW} if stored else found >= set(before)
            assert len(telemetry.events) <= 2
            assert stored or telemetry.events


@pytest.mark.parametrize("scene", SCENES)
def test_a_put_that_dies_at_any_operation_loses_nothing(scene: str, tmp_path: Path) -> None:
    for at, name in enumerate(operations_of(scene, tmp_path / "counted")):
        for before_it, torn in ((True, False), (False, False), *([(False, True)] if name == "write" else [])):
            root = tmp_path / f"{at}-{before_it}-{torn}"
            before = held(root, SCENES[scene])
            with pytest.raises(Killed):
                tuning_store(root, files=Disk(kill_at=at, before=before_it, torn=torn).files).put([NEW])
            after = tuning_store(root)
            assert set(after.records()) - {NEW} == set(before)
            assert after.stats().corrupt == 0
            assert after.put([NEW])
            assert set(after.records()) == {*before, NEW}


@pytest.mark.parametrize("code", CODES)
def test_a_get_that_fails_at_any_operation_raises_nothing(code: str, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    before = held(root, 3)
    counted = Disk()
    assert set(tuning_store(root, files=counted.files).records()) == set(before)
    for at in range(len(counted.operations)):
        disk = Disk(fail_at=at, code=getattr(errno, code))
        store = tuning_store(root, files=disk.files)
        assert set(store.records()) <= set(before)
        assert set(store.records()) == set(before), "one failure is not remembered"


@pytest.mark.parametrize(
    ("code", "only", "says"),
    [
        ("ENOSPC", "write mkdir", "No space left"),
        ("EROFS", "write open mkdir replace unlink", "Read-only"),
        ("EACCES", "open mkdir replace unlink listdir", "Permission denied"),
    ],
)
def test_work_goes_on_without_the_store_and_one_diagnostic_says_why(
    code: str, only: str, says: str, tmp_path: Path
) -> None:
    held(tmp_path / "cache", 1)
    telemetry = RecordingTelemetry()
    disk = Disk(fail_at=0, code=getattr(errno, code), forever=True, only=frozenset(only.split()))
    store = tuning_store(tmp_path / "cache", telemetry=telemetry, files=disk.files)
    for number in range(5):
        assert not store.put([record_in_bucket(number)])
        assert len(store.get(tuning_key(bucket=0))) == ("open" not in only)
    (event,) = telemetry.events
    assert event.name == "vyre.tuning.unusable"
    assert says in str(event.fields["problem"])
    assert "VYRE_CACHE_DIR" in str(event.fields["fix"])


# ---------------------------------------------------------------- beside others
def meddling(name: str, at: int, meddle: Callable[[], object]) -> Any:
    """Files of a process beside which another does something just before the ``at``th call of ``name``."""
    calls = 0

    def call(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            meddle()
        return getattr(REAL_FILES, name)(*arguments)

    return replace(REAL_FILES, **{name: call})


@pytest.mark.parametrize("at", range(1, FEW_FILES + 1))
def test_files_that_are_merged_while_they_are_read_are_read(at: int, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    before = held(root, FEW_FILES)
    store = tuning_store(root, files=meddling("open", at, lambda: tuning_store(root).put([NEW])))
    assert set(store.records()) >= set(before)


def test_a_reader_whose_files_vanish_each_time_takes_what_there_is(tmp_path: Path) -> None:
    before = held(tmp_path / "cache", 3)
    gone = next((tmp_path / "cache").glob("tuning-v1/*/*.jsonl")).name

    def opened(path: str, *arguments: Any) -> int:
        if path.endswith(gone):
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return REAL_FILES.open(path, *arguments)

    store = tuning_store(tmp_path / "cache", files=replace(REAL_FILES, open=opened))
    assert len(list(store.records())) == len(before) - 1


@pytest.mark.parametrize("name", ["listdir", "open", "replace", "unlink"])
def test_two_that_merge_at_once_lose_nothing(name: str, tmp_path: Path) -> None:
    other = record_in_bucket(2_000)
    disk = Disk()
    held(tmp_path / "counted", FEW_FILES)
    assert tuning_store(tmp_path / "counted", files=disk.files).put([NEW])
    for at in range(1, disk.operations.count(name) + 1):
        root = tmp_path / f"{at}"
        before = held(root, FEW_FILES)
        store = tuning_store(root, files=meddling(name, at, partial(tuning_store(root).put, [other])))
        assert store.put([NEW])
        assert set(tuning_store(root).records()) == {*before, NEW, other}


WRITER: Final = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.tuning import tuning_key, tuning_record, tuning_store
store = tuning_store(Path({root!r}))
for number in range({puts}):
    bucket = int(sys.argv[1]) * {puts} + number
    assert store.put([tuning_record(key=tuning_key(bucket=bucket))])
    assert store.get(tuning_key(bucket=bucket)) == (tuning_record(key=tuning_key(bucket=bucket)),)
assert store.stats().corrupt == 0
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """All of them tune one program; their files are merged again and again meanwhile."""
    root = tmp_path / "cache"
    script = WRITER.format(tests=str(TESTS), root=str(root), puts=PUTS)
    writers = [subprocess.Popen([sys.executable, "-c", script, str(number)]) for number in range(PROCESSES)]
    assert [writer.wait(LIMIT_S) for writer in writers] == [0] * PROCESSES
    assert set(tuning_store(root).records()) == {record_in_bucket(number) for number in range(PROCESSES * PUTS)}
    files = list(root.glob("tuning-v1/*/*"))
    assert len(files) <= MOST_FILES + PROCESSES
