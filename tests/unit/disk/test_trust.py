"""Which directories are used, and what is said about those that are not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.disk_cache import artifact, entry_file, key, store, unusable
from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.trust import UntrustedDirectory, check_directory
from vyre.testing.recording_telemetry import RecordingTelemetry

ME = 1000


def filesystem(**owners: tuple[int, int]) -> FileOperations:
    """Directories by name, each with its owner and mode; names stand for themselves below ``/``, ``_`` for ``/``."""
    known = {"/": (0, 0o40755)} | {"/" + name.replace("_", "/"): found for name, found in owners.items()}

    def lstat(path: str) -> os.stat_result:
        if path not in known:
            raise FileNotFoundError(2, "No such file or directory", path)
        owner, mode = known[path]
        return os.stat_result((mode, 1, 1, 1, owner, owner, 0, 0, 0, 0))

    return replace(REAL_FILES, lstat=lstat)


HOME = {"home": (0, 0o40755), "home_me": (ME, 0o40755)}


@pytest.mark.parametrize(
    ("directories", "exists"),
    [
        (HOME | {"home_me_cache": (ME, 0o40700)}, True),
        (HOME | {"home_me_cache": (ME, 0o40755)}, True),
        (HOME | {"home_me_cache": (0, 0o40755)}, True),
        (HOME, False),
        ({"home": (0, 0o41777), "home_me": (ME, 0o40700), "home_me_cache": (ME, 0o40700)}, True),
    ],
)
def test_directories_that_only_we_can_change_are_used(directories: dict[str, tuple[int, int]], exists: bool) -> None:
    assert check_directory(filesystem(**directories), "/home/me/cache", ME) is exists


@pytest.mark.parametrize(
    ("directories", "refused", "fix"),
    [
        ({"home_me_cache": (ME, 0o40775)}, "/home/me/cache can be written by others", "chmod go-w /home/me/cache"),
        ({"home_me_cache": (ME, 0o40702)}, "/home/me/cache can be written by others", "chmod go-w /home/me/cache"),
        ({"home_me_cache": (ME, 0o41777)}, "/home/me/cache can be written by others", "chmod go-w /home/me/cache"),
        ({"home_me": (ME, 0o40775)}, "/home/me can be written by others", "chmod go-w /home/me"),
        ({"home": (0, 0o40777)}, "/home can be written by others", "chmod go-w /home"),
        ({"home_me_cache": (1001, 0o40700)}, "/home/me/cache belongs to user 1001", "a directory of your own"),
        ({"home_me": (1001, 0o40755)}, "/home/me belongs to user 1001", "a directory of your own"),
        ({"home_me_cache": (ME, 0o120777)}, "/home/me/cache is a symbolic link", "name the directory it leads to"),
        ({"home": (0, 0o120777)}, "/home is a symbolic link", "name the directory it leads to"),
        (
            {"home_me_cache": (ME, 0o100600)},
            "the cache cannot be kept in /home/me/cache, which is no directory",
            "name a directory",
        ),
    ],
)
def test_others_are_refused_with_a_fix(directories: dict[str, tuple[int, int]], refused: str, fix: str) -> None:
    files = filesystem(**HOME | {"home_me_cache": (ME, 0o40700)} | directories)
    with pytest.raises(UntrustedDirectory) as caught:
        check_directory(files, "/home/me/cache", ME)
    assert caught.value.message.startswith(refused)
    assert fix in caught.value.fix


def test_a_link_is_refused_and_what_it_leads_to_is_named(tmp_path: Path) -> None:
    real = tmp_path / "real"
    assert store(real).put(key(), artifact())
    (tmp_path / "link").symlink_to(real)
    telemetry = RecordingTelemetry()
    cache = store(tmp_path / "link", telemetry=telemetry)
    assert cache.get(key()) is None
    assert not cache.put(key(1), artifact(1))
    (diagnostic,) = unusable(telemetry)
    assert str(real) in str(diagnostic["fix"])
    assert len(list(real.rglob("*.vya"))) == 1


def _widen(path: Path) -> None:
    path.chmod(0o666)


def _link(path: Path) -> None:
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("change", [_widen, _link, _pipe, _directory])
def test_an_entry_that_is_not_a_file_of_ours_is_not_read(tmp_path: Path, change: Callable[[Path], None]) -> None:
    root = tmp_path / "cache"
    assert store(root).put(key(), artifact())
    change(entry_file(root))
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry)
    for _ in range(3):
        assert cache.get(key()) is None
    assert len(unusable(telemetry)) == 1


def test_an_entry_of_another_user_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    assert store(root).put(key(), artifact())

    def fstat(descriptor: int) -> os.stat_result:
        fields: list[Any] = list(os.fstat(descriptor))
        fields[4] = 4242
        return os.stat_result(fields)

    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry, files=replace(REAL_FILES, fstat=fstat))
    assert cache.get(key()) is None
    assert "belongs to user 4242" in str(unusable(telemetry)[0]["problem"])
    assert telemetry.counts["vyre.cache.miss", (("reason", "untrusted"),)] == 1


def test_a_directory_inside_that_others_may_write_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    assert store(root).put(key(), artifact())
    (root / "v1" / "entries").chmod(0o777)
    telemetry = RecordingTelemetry()
    assert store(root, telemetry=telemetry).get(key()) is None
    assert unusable(telemetry)[0]["fix"] == f"chmod go-w {root / 'v1' / 'entries'}"


def test_a_directory_that_others_made_meanwhile_is_not_written(tmp_path: Path) -> None:
    """As in ``/tmp``: it did not exist when the store was opened."""
    root = tmp_path / "cache"
    telemetry = RecordingTelemetry()
    cache = store(root, telemetry=telemetry)
    for path in (root, root / "v1", root / "v1" / "entries", root / "v1" / "temporary"):
        path.mkdir()
        path.chmod(0o777)
    assert not cache.put(key(), artifact())
    assert unusable(telemetry)[0]["fix"] == f"chmod go-w {root}"
    assert not [path for path in root.rglob("*") if path.is_file()]
