"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from vyre.adapters.files import read_file, write_files
from vyre.domain.errors import UnreadableFile


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


@pytest.mark.parametrize("call", ["write", "fsync", "chmod", "mkstemp", "replace"])
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
        "write": (os, "fdopen"),
        "fsync": (os, "fsync"),
        "chmod": (Path, "chmod"),
        "mkstemp": (tempfile, "mkstemp"),
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
