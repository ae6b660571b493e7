"""The cache on disk when the file system fails, processes die and others interfere: work goes on, and nothing that is
served is wrong.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from support.disk_cache import Disk, Killed, artifact, entry_files, key, plain_user_directory, store, unusable
from support.limits import LIMIT_S
from support.profiles import SOAK
from vyre.domain.cache_config import Durability
from vyre.ports.artifact_store import StoreStats
from vyre.testing.recording_telemetry import RecordingTelemetry

TESTS: Final = Path(__file__).parents[1]
CODES: Final = ("ENOSPC", "EIO", "ESTALE", "ENOENT", "EBUSY", "EACCES", "EROFS", "EDQUOT", "EMFILE")
HELD: Final = 3
"""Entries there are before something goes wrong; with ``LIMIT`` the put has to evict, too."""
LIMIT: Final = 3
KILLS: Final = 200 if SOAK else 12
USES: Final = 2_000 if SOAK else 150
PROCESSES, OPERATIONS = (16, 2_000) if SOAK else (4, 500)
DAY_NS: Final = 86_400 * 10**9


def scanned(root: Path) -> tuple[int, int]:
    """Entries and bytes, found without any code of the cache."""
    sizes = [path.stat().st_size for path in entry_files(root)]
    return len(sizes), sum(sizes)


def check_whole(root: Path, numbers: int) -> int:
    """Every entry that is served is right, and the cache takes more; how many were served?"""
    cache = store(root)
    found = [(number, cache.get(key(number))) for number in range(numbers)]
    assert all(held in (None, artifact(number)) for number, held in found)
    assert cache.stats().corrupt == 0
    assert cache.put(key(numbers), artifact(numbers))
    assert cache.get(key(numbers)) == artifact(numbers)
    assert cache.stats()[:2] == scanned(root)
    return sum(held is not None for _, held in found)


# ---------------------------------------------------------------- a put that is interrupted at each operation
def prepared(root: Path) -> None:
    cache = store(root)
    for number in range(HELD):
        assert cache.put(key(number), artifact(number))


SCENES: Final[dict[str, tuple[bool, dict[str, Any]]]] = {
    "the first put": (False, {}),
    "one more": (True, {}),
    "one that evicts": (True, {"max_entries": LIMIT}),
    "one that is synced": (True, {"durability": Durability.DIR}),
}


def operations_of(scene: str, root: Path) -> list[str]:
    held, settings = SCENES[scene]
    if held:
        prepared(root)
    disk = Disk()
    cache = store(root, files=disk.files, **settings)
    assert cache.put(key(HELD), artifact(HELD))
    return disk.operations


@pytest.mark.parametrize("scene", SCENES)
def test_a_put_that_dies_at_any_operation_leaves_a_readable_cache(scene: str, tmp_path: Path) -> None:
    operations = operations_of(scene, tmp_path / "counted")
    held, settings = SCENES[scene]
    served = []
    for at, name in enumerate(operations):
        for before, torn in ((True, False), (False, False), *([(False, True)] if name == "write" else [])):
            root = tmp_path / f"{at}-{before}-{torn}"
            if held:
                prepared(root)
            disk = Disk(kill_at=at, before=before, torn=torn)
            with pytest.raises(Killed):
                store(root, files=disk.files, **settings).put(key(HELD), artifact(HELD))
            served.append(check_whole(root, HELD + 1))
    assert len(operations) >= 10
    assert set(served) >= ({HELD, HELD + 1} if held and "evicts" not in scene else {LIMIT - 1} if held else {0, 1})


def failing_puts() -> list[tuple[str, str]]:
    """Each scene with a third of the codes, so that every code is in some; in a soak with all of them."""
    return [
        (scene, code) for number, scene in enumerate(SCENES) for code in (CODES if SOAK else CODES[number % 3 :: 3])
    ]


@pytest.mark.parametrize(("scene", "code"), failing_puts())
def test_a_put_that_fails_at_any_operation_leaves_a_readable_cache(
    scene: str, code: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    held, settings = SCENES[scene]
    operations = len(operations_of(scene, tmp_path / "counted"))
    record_property("failing_disks", 2 * operations)
    for at in range(operations):
        for forever in (False, True):
            root = tmp_path / f"{at}-{forever}"
            if held:
                prepared(root)
            telemetry = RecordingTelemetry()
            disk = Disk(fail_at=at, code=getattr(errno, code), forever=forever)
            cache = store(root, telemetry=telemetry, files=disk.files, **settings)
            stored = cache.put(key(HELD), artifact(HELD))
            assert cache.get(key(HELD)) in (None, artifact(HELD))
            if not stored and (forever or code != "ENOENT"):
                assert unusable(telemetry), f"nothing was said about operation {at}"
            assert len(unusable(telemetry)) <= 2
            assert not list((root / "v1").glob("temporary/*")) or forever or "unlink" in disk.operations
            check_whole(root, HELD + 1)


@pytest.mark.parametrize("code", CODES)
def test_a_get_that_fails_at_any_operation_is_a_miss(code: str, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    prepared(root)
    counted = Disk()
    opened = store(root, files=counted.files)
    before = len(counted.operations)
    assert opened.get(key(0)) is not None
    for at in range(len(counted.operations)):
        telemetry = RecordingTelemetry()
        disk = Disk(fail_at=at, code=getattr(errno, code))
        cache = store(root, telemetry=telemetry, files=disk.files)
        first = cache.get(key(0))
        assert first in (None, artifact(0))
        if at >= before and counted.operations[at] != "utime":
            assert first is None
            assert cache.get(key(0)) == artifact(0), "the entry is still good"
        assert len(unusable(telemetry)) <= 1
        assert len(entry_files(root)) == HELD


@pytest.mark.parametrize("code", CODES)
def test_neighbours_stats_and_scans_raise_nothing(code: str, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    prepared(root)
    counted = Disk()
    opened = store(root, files=counted.files)
    assert len(opened.neighbours(key(99))) == opened.stats().entries == HELD
    for at in range(len(counted.operations)):
        disk = Disk(fail_at=at, code=getattr(errno, code))
        cache = store(root, files=disk.files)
        assert {*cache.neighbours(key(99))} <= {key(number) for number in range(HELD)}
        assert cache.stats().entries <= HELD


def test_an_entry_that_is_replaced_while_it_is_read_is_not_quarantined(tmp_path: Path) -> None:
    """Damage was read; before it is moved away, another process puts a good entry in its place."""
    root = tmp_path / "cache"
    prepared(root)
    path = next(path for path in entry_files(root) if key(0).digest.hex() in path.name)
    path.write_bytes(path.read_bytes()[:-1])
    disk = Disk()
    cache = store(root, files=disk.files)
    real = cache._telemetry.event

    def mend(*arguments: object, **fields: object) -> None:
        assert store(root).put(key(0), artifact(0))

    cache._telemetry.event = mend  # type: ignore[method-assign]
    assert cache.get(key(0)) is None
    cache._telemetry.event = real  # type: ignore[method-assign]
    assert cache.get(key(0)) == artifact(0)


# ---------------------------------------------------------------- a disk that cannot be used for long
@pytest.mark.parametrize(
    ("code", "only", "says"),
    [
        ("ENOSPC", "write fsync mkdir", "No space left"),
        ("EDQUOT", "write", "quota"),
        ("EROFS", "write open mkdir replace unlink utime", "Read-only"),
        ("EACCES", "open mkdir replace unlink utime", "Permission denied"),
    ],
)
def test_work_goes_on_without_the_cache_and_one_diagnostic_says_why(
    code: str, only: str, says: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    root = tmp_path / "cache"
    prepared(root)
    record_property("uses_of_full_disks", 20)
    telemetry = RecordingTelemetry()
    disk = Disk(fail_at=0, code=getattr(errno, code), forever=True, only=frozenset(only.split()))
    cache = store(root, telemetry=telemetry, files=disk.files)
    for number in range(20):
        assert not cache.put(key(HELD + number), artifact(HELD + number))
        assert cache.get(key(HELD + number)) is None
    (diagnostic,) = unusable(telemetry)
    assert says in str(diagnostic["problem"])
    assert "VYRE_CACHE_DIR" in str(diagnostic["fix"])
    assert diagnostic["directory"] == str(root)
    assert (cache.get(key(0)) is None) is ("open" in only)
    check_whole(root, HELD)


@pytest.fixture
def plain_user() -> Iterator[Path]:
    with plain_user_directory() as folder:
        yield folder


def test_a_directory_without_write_permission_is_read(plain_user: Path) -> None:
    root = plain_user / "cache"
    prepared(root)
    directories = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for path in directories:
        path.chmod(0o500)
    (root / "v1" / "announced").chmod(0o400)
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry)
    for _ in range(3):
        assert cache.get(key(0)) == artifact(0)
        assert cache.get(key(9)) is None
        assert not cache.put(key(9), artifact(9))
    (diagnostic,) = unusable(telemetry)
    assert "Permission denied" in str(diagnostic["problem"])
    for path in directories:
        path.chmod(0o700)


def test_a_directory_that_may_not_be_read(plain_user: Path) -> None:
    root = plain_user / "cache"
    prepared(root)
    root.chmod(0)
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry)
    assert cache.get(key(0)) is None
    assert not cache.put(key(9), artifact(9))
    assert not cache.neighbours(key(9))
    assert cache.stats().entries == 0
    (diagnostic,) = unusable(telemetry)
    assert "Permission denied" in str(diagnostic["problem"])
    root.chmod(0o700)


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"")
    telemetry = RecordingTelemetry()
    cache = store(tmp_path / "cache", telemetry=telemetry)
    assert not cache.put(key(), artifact())
    assert cache.get(key()) is None
    (diagnostic,) = unusable(telemetry)
    assert "is no directory" in str(diagnostic["problem"])


@pytest.mark.parametrize("jump_days", [-20_000, -1, -0.001, 0.5, 20_000])
def test_a_clock_that_jumps(jump_days: float, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    now = 20_000 * DAY_NS
    cache = store(root, max_entries=LIMIT, now_ns=lambda: now)
    for number in range(12):
        assert cache.put(key(number), artifact(number))
        assert cache.get(key(number)) == artifact(number)
        now += int(jump_days * DAY_NS) * (number % 3 - 1)
    later = store(root, max_entries=LIMIT, now_ns=lambda: now + int(jump_days * DAY_NS))
    for number in range(12, 24):
        assert later.put(key(number), artifact(number))
        assert later.get(key(number)) == artifact(number)
        assert len(entry_files(root)) <= LIMIT


def test_entries_that_cannot_be_removed_are_not_added_to(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    prepared(root)
    telemetry = RecordingTelemetry()
    disk = Disk(fail_at=0, code=errno.EBUSY, forever=True, only=frozenset({"unlink"}))
    cache = store(root, telemetry=telemetry, files=disk.files, max_entries=LIMIT)
    for number in range(5):
        assert not cache.put(key(HELD + number), artifact(HELD + number))
    assert len(entry_files(root)) == HELD
    assert len(unusable(telemetry)) == 1


# ---------------------------------------------------------------- real processes
WRITER: Final = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.disk_cache import artifact, key, store
cache = store(Path({root!r}), max_entries={limit})
number = int(sys.argv[1])
print("ready", flush=True)
while True:
    number += 1
    cache.put(key(number % 50, program=number % 7), artifact(number % 50, 3_000, program=number % 7))
"""


def test_processes_that_are_killed_leave_a_readable_cache(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """``KILLS`` writers die by SIGKILL at random moments, two at a time beside each other."""
    record_property("killed_writers", KILLS)
    root, rng = tmp_path / "cache", random.Random(5)
    script = WRITER.format(tests=str(TESTS), root=str(root), limit=40)
    for _ in range(KILLS // 2):
        writers = [
            subprocess.Popen([sys.executable, "-c", script, str(rng.randrange(1000))], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * 0.02)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            assert writer.wait(LIMIT_S) == -signal.SIGKILL
            assert writer.stdout is not None
            writer.stdout.close()
        cache = store(root)
        for number in range(50):
            for program in range(7):
                found = cache.get(key(number, program=program))
                assert found in (None, artifact(number, 3_000, program=program))
        assert cache.stats().corrupt == 0
        assert cache.stats()[:2] == scanned(root)
        assert scanned(root)[0] <= 40 + 2
    assert store(root).put(key(), artifact())
    assert scanned(root)[0] > 0


WORKER: Final = """
import random, sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.disk_cache import artifact, key, store, unusable
from vyre.adapters.disk.configuration import CacheSettings
from vyre.adapters.disk.entry_directory import EntryDirectory
from vyre.adapters.disk.file_operations import REAL_FILES
from vyre.adapters.disk import inventory
from vyre.testing.recording_telemetry import RecordingTelemetry
from vyre.app.invalidation import Invalid, invalidate
seed, operations = int(sys.argv[1]), int(sys.argv[2])
rng, root, telemetry = random.Random(seed), Path({root!r}), RecordingTelemetry()
def opened():
    return store(root, telemetry=telemetry, max_entries={entries}, max_bytes={nbytes})
cache = opened()
directory = EntryDirectory(REAL_FILES, str(root))
print("ready", flush=True)
sys.stdin.readline()
hits = 0
for step in range(operations):
    number, program = rng.randrange(24), rng.randrange(4)
    size = 50 + 97 * number
    what = rng.random()
    if what < 0.5:
        found = cache.get(key(number, program=program))
        assert found in (None, artifact(number, size, program=program)), "a wrong answer"
        hits += found is not None
    elif what < 0.9:
        cache.put(key(number, program=program), artifact(number, size, program=program))
    elif what < 0.93:
        for near in cache.neighbours(key(999, program=program)):
            assert near.program == key(program=program).program
    elif what < 0.95:
        cache.stats()
    elif what < 0.96:
        assert not invalidate(cache, Invalid(key=key(number, program=program))).failed
    elif what < 0.97:
        cache = opened()
    elif what < 0.99:
        assert all(found.problem is None for found in inventory.verify(directory, repair=True)), "damage"
    else:
        inventory.clear(directory)
assert not unusable(telemetry), unusable(telemetry)
assert not cache.stats().corrupt
print(hits, flush=True)
"""

TINY: Final = StoreStats(entries=2, nbytes=6_000)
SMALL: Final = StoreStats(entries=40, nbytes=40_000)
AMPLE: Final = StoreStats(entries=4_096, nbytes=1 << 30)


def snapshots(root: Path, running: list[subprocess.Popen[bytes]]) -> Iterator[tuple[int, int]]:
    """What is there at moments at which every process stands still."""
    while True:
        alive = [process for process in running if process.poll() is None]
        if not alive:
            return
        for process in alive:
            process.send_signal(signal.SIGSTOP)
        for process in alive:
            with suppress(ChildProcessError):  # it had ended, as ``send_signal`` saw
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        found = scanned(root)
        for process in alive:
            process.send_signal(signal.SIGCONT)
        yield found
        time.sleep(0.003)


@pytest.mark.parametrize("limits", [TINY, SMALL, AMPLE], ids=["tiny", "small", "ample"])
def test_processes_share_a_directory(
    limits: StoreStats, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("uses_by_processes", PROCESSES * OPERATIONS)
    """No wrong answer, no exception, no diagnostic; the limits exceeded by one entry a writer at most."""
    root = tmp_path / "cache"
    script = WORKER.format(tests=str(TESTS), root=str(root), entries=limits.entries, nbytes=limits.nbytes)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(seed), str(OPERATIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for seed in range(PROCESSES)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        largest = 50 + 97 * 24 + 500
        looks = list(snapshots(root, workers))
        assert looks
        assert max(entries for entries, _ in looks) <= limits.entries + PROCESSES
        assert max(nbytes for _, nbytes in looks) <= limits.nbytes + PROCESSES * largest
        hits = 0
        for worker in workers:
            out, err = worker.communicate(timeout=LIMIT_S)
            assert worker.returncode == 0, err.decode()
            hits += int(out)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate(timeout=LIMIT_S)
    assert hits > 0
    cache = store(root, max_entries=limits.entries, max_bytes=limits.nbytes)
    assert cache.stats()[:2] == scanned(root)
    assert scanned(root)[0] <= limits.entries + PROCESSES
    assert not list((root / "v1" / "temporary").iterdir())
    assert not list((root / "v1").glob("quarantine/*"))


def test_threads_share_a_store(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    root = tmp_path / "cache"
    record_property("uses_by_threads", 16 * USES)
    cache = store(root, max_entries=10)
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(USES):
                number = rng.randrange(20)
                if rng.random() < 0.5:
                    assert cache.get(key(number)) in (None, artifact(number))
                else:
                    assert cache.put(key(number), artifact(number))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert cache.stats()[:2] == scanned(root)
    assert scanned(root)[0] <= 10 + len(threads)
    assert cache.stats().corrupt == 0


def test_a_directory_that_vanishes_again_and_again(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("uses_of_vanishing_disks", 300)
    root, stop = tmp_path / "cache", threading.Event()

    def vandal() -> None:
        while not stop.is_set():
            shutil.rmtree(root, ignore_errors=True)

    thread = threading.Thread(target=vandal)
    thread.start()
    try:
        cache = store(root)
        for number in range(300):
            cache.put(key(number), artifact(number))
            assert cache.get(key(number)) in (None, artifact(number))
    finally:
        stop.set()
        thread.join()
    assert cache.put(key(), artifact())
    assert cache.get(key()) == artifact()
