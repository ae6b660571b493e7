"""Launch costs on disk: one file for each source, replaced whole; the rest of what may be in its place is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.launch_costs import SOURCE, launch_costs
from vyre.adapters.disk.file_operations import REAL_FILES
from vyre.adapters.disk.measurement_stores import COSTS_DIRECTORY, MAX_FILE_BYTES, DiskCostStore, costs_of_file, name_of
from vyre.adapters.disk.whole_files import STALE_S
from vyre.domain.errors import ForeignCosts, MalformedJson, UnreadableFile
from vyre.domain.launch_costs import CostSource, to_text

OTHER = replace(SOURCE, driver="12.9")


def file_of(root: Path, source: CostSource = SOURCE) -> Path:
    return root / COSTS_DIRECTORY / name_of(source)


def refuses(store: DiskCostStore, why: str) -> None:
    """To load and to save."""
    with pytest.raises(UnreadableFile, match=why):
        store.load(SOURCE)
    with pytest.raises(UnreadableFile, match=why):
        store.save(launch_costs())


def test_what_is_saved_is_loaded_and_replaced(tmp_path: Path) -> None:
    store = DiskCostStore(str(tmp_path / "a" / "b"))
    assert store.load(SOURCE) is None
    for launch in (3_000, 4_000):
        store.save(launch_costs(launch=launch))
        assert DiskCostStore(str(tmp_path / "a" / "b")).load(SOURCE) == launch_costs(launch=launch)
    assert store.load(OTHER) is None
    store.save(replace(launch_costs(), source=OTHER))
    assert store.load(SOURCE) == launch_costs(launch=4_000)
    assert len(list(Path(store.directory).iterdir())) == 2


def test_nobody_else_can_read_or_write_them(tmp_path: Path) -> None:
    store = DiskCostStore(str(tmp_path / "cache"))
    store.save(launch_costs())
    assert stat.S_IMODE(file_of(tmp_path / "cache").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "cache" / COSTS_DIRECTORY).stat().st_mode) == 0o700


@pytest.mark.parametrize(("age_s", "stays"), [(0, True), (STALE_S, True), (STALE_S + 1, False), (-STALE_S - 1, False)])
def test_what_a_writer_left_behind_goes_with_a_later_save(age_s: int, stays: bool, tmp_path: Path) -> None:
    DiskCostStore(str(tmp_path)).save(launch_costs())
    left = tmp_path / COSTS_DIRECTORY / "0.tmp"
    left.touch()
    written_ns = left.stat().st_mtime_ns
    store = DiskCostStore(str(tmp_path), files=replace(REAL_FILES, time_ns=lambda: written_ns + age_s * 10**9))
    store.save(launch_costs(launch=5_000))
    assert left.exists() is stays
    assert store.load(SOURCE) == launch_costs(launch=5_000)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


BAD: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "a link": (_link, UnreadableFile),
    "a directory": (_directory, UnreadableFile),
    "for others to write": (lambda path: path.chmod(0o622), UnreadableFile),
    "too long": (lambda path: os.truncate(path, MAX_FILE_BYTES + 1), UnreadableFile),
    "empty": (lambda path: path.write_bytes(b""), MalformedJson),
    "cut": (lambda path: os.truncate(path, path.stat().st_size - 2), MalformedJson),
    "no text": (lambda path: path.write_bytes(b"\xff\xfe"), MalformedJson),
    "of another source": (lambda path: path.write_bytes(file_of(path.parents[1], OTHER).read_bytes()), ForeignCosts),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_trusted_is_refused_and_replaced(bad: str, tmp_path: Path) -> None:
    store = DiskCostStore(str(tmp_path))
    store.save(launch_costs())
    store.save(replace(launch_costs(), source=OTHER))
    spoil, error = BAD[bad]
    spoil(file_of(tmp_path))
    with pytest.raises(error) as refused:
        store.load(SOURCE)
    assert "Fix: " in str(refused.value)
    if bad == "a directory":
        with pytest.raises(UnreadableFile):
            store.save(launch_costs())
        return
    store.save(launch_costs(launch=5_000))
    assert store.load(SOURCE) == launch_costs(launch=5_000)


def test_a_directory_that_others_can_change_is_refused(tmp_path: Path) -> None:
    store = DiskCostStore(str(tmp_path))
    store.save(launch_costs())
    (tmp_path / COSTS_DIRECTORY).chmod(0o777)
    refuses(store, "can be written by others")


def test_a_file_in_the_place_of_the_directory_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / COSTS_DIRECTORY).write_text("")
    refuses(DiskCostStore(str(tmp_path)), "is no directory")


@given(st.binary(max_size=200), st.integers(0, 2**20))
def test_no_other_bytes_are_taken_for_costs(data: bytes, place: int) -> None:
    whole = to_text(launch_costs()).encode()
    place %= len(whole)
    flipped = bytearray(whole)
    flipped[place] ^= 1 << (place % 8)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "costs.json"
        for spoilt in (bytes(flipped), whole[:place] + data + b"x"):
            path.write_bytes(spoilt)
            with pytest.raises(MalformedJson):
                costs_of_file(path)


def test_sources_have_files_of_their_own() -> None:
    names = {name_of(CostSource(*parts)) for parts in (("a", "bc", "d"), ("ab", "c", "d"), ("a", "b", "cd"))}
    assert len(names) == 3
