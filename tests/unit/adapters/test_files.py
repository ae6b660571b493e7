"""Files appear whole or not at all."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from vyre.adapters.files import read_file, write_files
from vyre.domain.errors import UnreadableFile


@vyre.kernel
def fill(y: vyre.InOut[vyre.f32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = 1.0


def test_contents_replace_what_was_there(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"old")
    write_files({a: b"new", b: b""})
    assert (a.read_bytes(), b.read_bytes()) == (b"new", b"")
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b"}


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_files({tmp_path / "a": b"x"})
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_the_umask_of_the_process_is_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to all threads: one that makes a private file meanwhile would make one that others may read."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail(f"umask({mask})"))
    with vyre.open("reference", cache=tmp_path / "cache") as session:
        session.export_pins(tmp_path / "pins.json")
        session.write_evidence(tmp_path / "evidence.zip", fill.program, {"y": np.zeros(4, np.float32)})
    assert (tmp_path / "pins.json").exists() and (tmp_path / "evidence.zip").exists()


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize("nth", [1, 2])
def test_the_nth_failing_operation_leaves_old_files_and_no_temporary_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, nth: int
) -> None:
    targets = [tmp_path / "a", tmp_path / "b"]
    for target in targets:
        target.write_bytes(b"old")
    count = 0

    def failing(original: object) -> object:
        def wrapper(*args: object, **kwargs: object) -> object:
            nonlocal count
            count += 1
            if count == nth:
                raise OSError(28, "No space left on device")
            assert callable(original)
            return original(*args, **kwargs)

        return wrapper

    holder = {
        "fsync": (os, "fsync"),
        "open": (Path, "open"),
        "replace": (Path, "replace"),
    }[call]
    monkeypatch.setattr(*holder, failing(getattr(*holder)))
    with pytest.raises(UnreadableFile, match=r"cannot write .*: No space left.*Fix:"):
        write_files(dict.fromkeys(targets, b"new"))
    monkeypatch.undo()
    renamed = 1 if call == "replace" and nth == 2 else 0  # renames are the commit: the first one stands
    assert [t.read_bytes() for t in targets] == [b"new"] * renamed + [b"old"] * (2 - renamed)
    assert sorted(tmp_path.iterdir()) == targets


def test_unreadable_and_unwritable_paths(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(UnreadableFile, match="Fix:"):
            read_file(path)
    for path in (tmp_path / "no" / "dir", tmp_path):
        with pytest.raises(UnreadableFile, match="Fix:"):
            write_files({path: b""})


def test_a_link_is_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_files({link: b"new"})
    assert link.is_symlink() and target.read_bytes() == b"new"
    (tmp_path / "dangling").symlink_to(tmp_path / "later")
    write_files({tmp_path / "dangling": b"there"})
    assert (tmp_path / "later").read_bytes() == b"there"
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(UnreadableFile, match=r"cannot write .*round.*Fix:"):
        write_files({tmp_path / "round": b""})


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as threads:
        read = threads.submit(pipe.read_bytes)
        write_files({pipe: b"through", tmp_path / "a": b"beside"})
        assert read.result(LIMIT_S) == b"through"
    assert pipe.is_fifo() and (tmp_path / "a").read_bytes() == b"beside"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no file without an end")
def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(UnreadableFile, match=r"/dev/zero: it has more than 100 bytes.*Fix:"):
        read_file(Path("/dev/zero"), max_bytes=100)


def test_a_file_of_as_many_bytes_as_allowed_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    assert read_file(path, max_bytes=100) == bytes(100)
    with pytest.raises(UnreadableFile):
        read_file(path, max_bytes=99)
