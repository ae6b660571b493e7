"""The store of launch costs when the file system fails at any operation, or the process ends there."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from support.disk_cache import Disk, Killed
from support.launch_costs import SOURCE, launch_costs
from vyre.adapters.disk.measurement_stores import DiskCostStore
from vyre.domain.errors import UnreadableFile
from vyre.domain.launch_costs import LaunchCosts

OLD, NEW = launch_costs(launch=1_000), launch_costs(launch=2_000)
CODES = ("ENOSPC", "EIO", "ENOENT", "EACCES", "EROFS")


def operations(root: Path, *, first: bool) -> int:
    if not first:
        DiskCostStore(str(root)).save(OLD)
    disk = Disk()
    DiskCostStore(str(root), files=disk.files).save(NEW)
    return len(disk.operations)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("code", CODES)
def test_a_save_that_fails_leaves_the_old_costs_or_the_new(code: str, first: bool, tmp_path: Path) -> None:
    for at in range(operations(tmp_path / "counted", first=first)):
        root = tmp_path / str(at)
        if not first:
            DiskCostStore(str(root)).save(OLD)
        disk = Disk(fail_at=at, code=getattr(errno, code))
        before: LaunchCosts | None = NEW
        try:
            DiskCostStore(str(root), files=disk.files).save(NEW)
        except UnreadableFile as error:
            assert error.fix
            before = None if first else OLD
        assert DiskCostStore(str(root)).load(SOURCE) in (before, NEW)


@pytest.mark.parametrize("first", [True, False])
def test_a_process_that_ends_anywhere_leaves_the_old_costs_or_the_new(first: bool, tmp_path: Path) -> None:
    for at in range(operations(tmp_path / "counted", first=first)):
        root = tmp_path / str(at)
        if not first:
            DiskCostStore(str(root)).save(OLD)
        with pytest.raises(Killed):
            DiskCostStore(str(root), files=Disk(kill_at=at).files).save(NEW)
        assert DiskCostStore(str(root)).load(SOURCE) in (None if first else OLD, NEW)


@pytest.mark.parametrize("code", CODES)
def test_a_load_that_fails_tells_the_costs_nothing_or_why(code: str, tmp_path: Path) -> None:
    store = DiskCostStore(str(tmp_path))
    store.save(OLD)
    disk = Disk()
    DiskCostStore(str(tmp_path), files=disk.files).load(SOURCE)
    for at in range(len(disk.operations)):
        failing = DiskCostStore(str(tmp_path), files=Disk(fail_at=at, code=getattr(errno, code)).files)
        try:
            assert failing.load(SOURCE) in (OLD, None)
        except UnreadableFile as error:
            assert error.fix
