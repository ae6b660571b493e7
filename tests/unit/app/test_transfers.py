"""Downloads and uploads of many arrays: their bytes, the number of copies, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.copies import Copies
from vyre import u32
from vyre.app.transfers import reading
from vyre.app.transfers.services import TransferServices
from vyre.domain.errors import InvalidConfig, InvalidInput, InvalidResource
from vyre.policies.transfer.packing import PackingThresholds

BACKENDS: Final = ["reference", "reference-scalar", "cpu", "cuda-machine"]
X: Final = np.arange(400, dtype=np.uint32)


@contextmanager
def opened(backend: str) -> Iterator[vyre.Session]:
    """A session that closes every array it made."""
    with vyre.open(backend, cache=False) as session, ExitStack() as made:
        make = session.resident

        def resident(*arguments: Any) -> vyre.ResidentArray:
            return made.enter_context(make(*arguments))

        setattr(session, "resident", resident)  # noqa: B010 -- type checkers know the method
        yield session


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with opened(request.param) as found:
        yield found


@pytest.fixture
def copies(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> Copies:
    return Copies(session, monkeypatch)


def counted(session: vyre.Session) -> tuple[int, int, int, int]:
    """Reads and their bytes, writes and their bytes, as the backend's counters have them."""
    names = {
        "cpu": ("downloads", "downloaded_bytes", "uploads", "uploaded_bytes"),
        "cuda-machine": ("downloads", "downloaded_bytes", "uploads", "uploaded_bytes"),
    }[session.backend]
    found = session.metrics()
    reads, read, writes, written = (found[name] for name in names)
    return reads, read, writes, written


def slots(session: vyre.Session, count: int = 40) -> tuple[vyre.ResidentArray, list[vyre.ResidentArray]]:
    """Parts of 8 words of one allocation, with gaps between them."""
    whole = session.resident(np.arange(16 * count, dtype=np.uint32))
    return whole, [whole[16 * i : 16 * i + 8] for i in range(count)]


# ---------------------------------------------------------------- downloads
@pytest.mark.parametrize("most", [None, 0, 64, 10**6])
def test_arrays_of_every_kind_are_those_of_single_downloads(session: vyre.Session, most: int | None) -> None:
    r, q = session.resident(X), session.resident(np.arange(6, dtype=np.float64).reshape(2, 3))
    truth, raw = session.resident(np.array([True, False])), session.resident(b"12345")
    arrays = [r[0:4], r[4:8], q, r[300:], truth, q[1:], r[:0], r.view(3, 5, vyre.u8), raw, r[2:6]]
    found = session.download(arrays, most_packed=most)
    assert len(found) == len(arrays)
    for array, got in zip(arrays, found, strict=True):
        want = array.download()
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.flags.aligned and got.flags.c_contiguous and got.flags.writeable
        np.testing.assert_array_equal(got, want)
    for i, one in enumerate(found):
        assert not any(np.shares_memory(one, other) for other in found[i + 1 :])


@pytest.mark.parametrize("count", [1, 7, 40])
def test_packed_slots_take_one_copy_whatever_their_number(session: vyre.Session, copies: Copies, count: int) -> None:
    whole, parts = slots(session, count)
    found = session.download(parts, most_packed=32)
    assert copies.reads == [32 * count]
    assert copies.launches == (0 if session.backend == "cpu" else 1)
    assert (found.report.copies, found.report.nbytes, found.report.packed) == (1, 32 * count, count)
    np.testing.assert_array_equal(np.concatenate(found), whole.download().reshape(count, 16)[:, :8].ravel())


def test_a_limit_of_zero_takes_a_copy_for_each_slot(session: vyre.Session, copies: Copies) -> None:
    _, parts = slots(session)
    found = session.download(parts, most_packed=0)
    assert (copies.reads, copies.launches, found.report.copies) == ([32] * 40, 0, 40)
    for part, got in zip(parts, found, strict=True):
        np.testing.assert_array_equal(got, part.download())


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_the_counters_of_the_backend_agree(backend: str) -> None:
    with opened(backend) as session:
        _, parts = slots(session)
        for most, reads in ((0, 40), (31, 40), (32, 1)):
            before = counted(session)
            report = session.download(parts, most_packed=most).report
            after = counted(session)
            assert (after[0] - before[0], after[1] - before[1]) == (reads, 40 * 32) == (report.copies, report.nbytes)


@pytest.mark.parametrize("groups", [1, 3, 1024])
def test_the_size_of_the_grid_changes_no_byte(
    session: vyre.Session, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    whole, parts = slots(session)
    other = session.resident(np.arange(77, dtype=np.uint8))
    monkeypatch.setattr(reading, "MOST_GROUPS", groups)
    found = session.download([*parts, other[3:20], other[40:]], most_packed=100)
    want = [*whole.download().reshape(40, 16)[:, :8], np.arange(3, 20), np.arange(40, 77)]
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_touching_parts_are_one_copy(session: vyre.Session, copies: Copies) -> None:
    r = session.resident(X)
    found = session.download([r[10:20], r[20:30], r[:10]])
    assert copies.reads == [120]
    np.testing.assert_array_equal(np.concatenate(found), np.r_[10:30, 0:10])


def test_costs_decide_what_is_packed(session: vyre.Session, copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    free, dear = (PackingThresholds(copy_ns=1, gib_ns=10**12, pack_ns=ns, launch_ns=ns) for ns in (0, 10**9))
    for thresholds, count, reads in ((free, 40, [40 * 32]), (dear, 30, [32] * 30)):  # no layout has a plan already
        monkeypatch.setattr(TransferServices, "thresholds", lambda self, t=thresholds: t)
        monkeypatch.setattr(reading, "HOST_MEMORY", thresholds)
        _, parts = slots(session, count)
        copies.reads.clear()
        session.download(parts)
        assert copies.reads == reads


def test_a_bound_download_reads_the_present_content(session: vyre.Session) -> None:
    whole, parts = slots(session)
    read = session.bind_download(parts, most_packed=100)
    first = read()
    whole.upload(np.full(640, 7, np.uint32))
    second = read()
    assert read.report == first.report == second.report
    assert [list(first[1]), list(second[1])] == [list(range(16, 24)), [7] * 8]
    whole.close()
    with pytest.raises(InvalidResource, match="close"):
        read()


def test_random_parts_of_several_arrays(session: vyre.Session) -> None:
    random = Random(5)
    for _ in range(4 if session.backend == "reference-scalar" else 12):
        wholes = [session.resident(random.randbytes(random.randrange(1, 300))) for _ in range(3)]
        arrays = []
        for _ in range(random.randrange(12)):
            whole = random.choice(wholes)
            start = random.randrange(whole.nbytes + 1)
            arrays.append(whole[start : random.randrange(start, whole.nbytes + 1)])
        most = random.choice([None, 0, 5, 40, 1000])
        for got, array in zip(session.download(arrays, most_packed=most), arrays, strict=True):
            np.testing.assert_array_equal(got, array.download())
        for whole in wholes:
            whole.close()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_adopted_memory_between_words(backend: str) -> None:
    theirs = np.arange(101, dtype=np.uint8)
    with vyre.open(backend, cache=False) as session, session.adopt(theirs[1:]) as ours:
        found = session.download([ours[0:8], ours[16:24], ours[64:]], most_packed=1000)
        np.testing.assert_array_equal(np.concatenate(found), np.r_[1:9, 17:25, 65:101])


def test_nothing_is_downloaded(session: vyre.Session, copies: Copies) -> None:
    assert (session.download([]), copies.reads) == ([], [])
    empty = session.resident(0)
    assert [each.size for each in session.download([empty, empty])] == [0, 0]
    assert copies.reads == []


def test_a_program_writes_what_is_packed(session: vyre.Session) -> None:
    with vyre.ProgramBuilder("square", workgroup=8) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = y[p.global_id()] * y[p.global_id()]
    square = p.build()
    arrays = [session.resident(np.arange(i, i + 8, dtype=np.uint32)) for i in range(5)]
    for array in arrays:
        session.dispatch(square, {"y": array})
    found = session.download(arrays, most_packed=64)
    np.testing.assert_array_equal(np.stack(found), (np.arange(5)[:, None] + np.arange(8)) ** 2)


def test_what_cannot_be_downloaded_is_refused(session: vyre.Session) -> None:
    r, closed = session.resident(X), session.resident(X)
    part = closed[:3]
    closed.close()
    with pytest.raises(InvalidInput, match="item 1 is array"):
        session.download([r, X])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="arrays"):
        session.download(r)  # type: ignore[arg-type]
    for array in (closed, part):
        with pytest.raises(InvalidResource, match="item 1 is <ResidentArray"):
            session.download([r, array])
    with pytest.raises(InvalidResource, match="outside of a sequence"):
        session.download([session.temporary(u32, 4)])
    with opened("reference") as other, pytest.raises(InvalidResource, match="another session"):
        session.download([other.resident(X)])
    for most in (-1, True, 1.5, 2**64):
        with pytest.raises(InvalidConfig, match="most_packed"):
            session.download([r], most_packed=most)  # type: ignore[arg-type]
    session.close()
    with pytest.raises(InvalidResource, match="session is closed"):
        session.download([r])


# ---------------------------------------------------------------- uploads
def test_the_later_of_overlapping_writes_wins(session: vyre.Session, copies: Copies) -> None:
    for first, second, want in (((0, 4), (2, 6), [1, 1, 2, 2, 2, 2]), ((2, 6), (0, 4), [2, 2, 2, 2, 1, 1])):
        r = session.resident(np.zeros(6, np.uint32))
        copies.writes.clear()
        writes = [(r[a:b], np.full(4, value, np.uint32)) for value, (a, b) in ((1, first), (2, second))]
        report = session.upload(writes)
        assert (copies.writes, report.copies, report.nbytes) == ([24], 1, 24)
        assert r.download().tolist() == want


def test_writes_of_several_arrays(session: vyre.Session, copies: Copies) -> None:
    r, q = session.resident(X), session.resident(np.zeros(3))
    copies.writes.clear()
    report = session.upload([(r[:2], X[5:7]), (q, np.array([1.0, 2.0, 3.0])), (r[9:10], X[7:8]), (r[2:3], X[8:9])])
    assert (sorted(copies.writes), report.arrays, report.copies, report.nbytes) == ([4, 4, 8, 24], 4, 4, 40)
    assert (r[:4].download().tolist(), int(r[9:10].download()[0])) == ([5, 6, 8, 3], 7)
    assert q.download().tolist() == [1, 2, 3]


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_the_counters_of_uploads_agree(backend: str) -> None:
    with opened(backend) as session:
        r = session.resident(X)
        before = counted(session)
        report = session.upload([(r[i : i + 1], np.full(1, i, np.uint32)) for i in (1, 2, 3, 7, 8, 100)])
        after = counted(session)
        assert (after[2] - before[2], after[3] - before[3]) == (3, 24) == (report.copies, report.nbytes)


def test_random_writes_are_those_of_single_uploads(session: vyre.Session) -> None:
    random = Random(9)
    for _ in range(10):
        start = np.frombuffer(random.randbytes(64), np.uint8).copy()
        r, want = session.resident(start), start
        writes = []
        for _ in range(random.randrange(8)):
            low = random.randrange(65)
            data = np.frombuffer(random.randbytes(random.randrange(65 - low)), np.uint8)
            writes.append((r[low : low + data.size], data))
            want[low : low + data.size] = data
        session.upload(writes)
        np.testing.assert_array_equal(r.download(), want)
        r.close()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_memory_that_was_adopted_twice_keeps_the_order_of_writes(backend: str) -> None:
    theirs = np.zeros(4, np.uint8)
    with vyre.open(backend, cache=False) as session, session.adopt(theirs) as a, session.adopt(theirs) as b:
        session.upload([(a[:2], b"aa"), (b, b"bbbb"), (a[1:3], b"cc")])
        assert theirs.tobytes() == b"bccb"


def test_wrong_writes_change_nothing(session: vyre.Session) -> None:
    r = session.resident(X)
    right: tuple[vyre.ResidentArray, Any] = (r[:1], X[99:100])
    wrong: list[tuple[Any, str]] = [
        ((r[:2], X[1:2]), "item 1 has 4 bytes for the 8 bytes"),
        ((r[:1], np.ones(1, np.float32)), "upload holds float32"),
        ((X, X), "item 1 is array"),
        ([r, X], "item 1 is"),
        ((r,), "item 1 is"),
        (r, "item 1 is"),
    ]
    for item, message in wrong:
        with pytest.raises(InvalidInput, match=message):
            session.upload([right, item])
    with pytest.raises(InvalidInput, match="writes"):
        session.upload(5)  # type: ignore[arg-type]
    np.testing.assert_array_equal(r.download(), X)


def test_reports_are_readable(session: vyre.Session) -> None:
    _, parts = slots(session)
    text = str(session.download(parts, most_packed=0).report)
    assert text.startswith("40 arrays: 40 copies of 1280 bytes, 0 ranges packed by 0 launches\n")
