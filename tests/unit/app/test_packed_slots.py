"""Downloads by lengths and marks that only the device knows: bytes, copies, controls, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.copies import Copies
from vyre import u32
from vyre.app.transfers import slots as slot_reading
from vyre.domain.errors import InvalidConfig, InvalidInput, InvalidResource, PlanError
from vyre.policies.transfer import readback

Made = Callable[[Any], vyre.ResidentArray]
BACKENDS: Final = ["reference", "reference-scalar", "cpu", "cuda-machine"]
HEADER: Final = 16


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


@pytest.fixture
def made(session: vyre.Session) -> Iterator[Made]:
    with ExitStack() as stack:
        yield lambda data: stack.enter_context(session.resident(data))


@pytest.fixture
def copies(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> Copies:
    return Copies(session, monkeypatch)


def same(found: list[npt.NDArray[Any]], data: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> None:
    assert len(found) == len(data)
    for got, row, length in zip(found, data, lengths, strict=True):
        assert (got.dtype, got.shape) == (row.dtype, row[:length].shape)
        np.testing.assert_array_equal(got, row[:length])


def words(shape: tuple[int, ...], dtype: Any = np.uint32) -> npt.NDArray[Any]:
    return (np.arange(np.prod(shape)) % 251).astype(dtype).reshape(shape)


# ---------------------------------------------------------------- slots
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((37, 16), np.uint32), ((61, 5), np.uint8), ((40, 3), np.float64), ((9, 4, 3), np.int16), ((30, 8), np.bool_)],
)
def test_the_used_part_of_every_slot(session: vyre.Session, made: Made, shape: tuple[int, ...], dtype: Any) -> None:
    data, lengths = words(shape, dtype), (np.arange(shape[0]) * 7 % (shape[1] + 1)).astype(np.uint32)
    slots, counts = made(data), made(lengths)
    for most in (None, 0, 6, 10**6):
        same(session.download_slots(slots, counts, most_packed=most), data, lengths)


def test_one_copy_of_header_and_slab_where_both_are_short(session: vyre.Session, made: Made, copies: Copies) -> None:
    for count in (1, 10, 60):
        data, lengths = words((count, 8)), np.full(count, 5, np.uint32)
        copies.reads.clear()
        found = session.download_slots(made(data), made(lengths))
        header = -(-(HEADER + 4 * count) // 16) * 16
        assert copies.reads == [header + 32 * count]
        assert (found.report.copies, found.report.nbytes, found.report.packed) == (1, header + 32 * count, count)
        same(found, data, lengths)
    assert copies.launches == 6


@pytest.mark.parametrize("count", [1100, 2500])
def test_two_copies_of_header_and_selected_bytes(session: vyre.Session, made: Made, copies: Copies, count: int) -> None:
    if session.backend == "reference-scalar":
        count //= 10  # of slots that are ten times as long: it runs lane by lane
    width = 64 if count > 1000 else 640
    data, lengths = words((count, width)), (np.arange(count) % 3).astype(np.uint32)
    found = session.download_slots(made(data), made(lengths))
    selected = 16 * int((lengths > 0).sum())
    header = -(-(HEADER + 4 * count) // 16) * 16
    assert copies.reads == [header, selected]
    assert (found.report.copies, found.report.nbytes, copies.launches) == (2, header + selected, 2)
    same(found, data, lengths)


def test_a_limit_of_zero_takes_a_copy_for_each_slot(session: vyre.Session, made: Made, copies: Copies) -> None:
    data, lengths = words((30, 8)), (1 + np.arange(30) % 8).astype(np.uint32)
    found = session.download_slots(made(data), made(lengths), most_packed=0)
    header = -(-(HEADER + 4 * 30) // 16) * 16
    assert copies.reads == [header, *(4 * lengths).tolist()]
    assert (found.report.copies, found.report.packed) == (31, 0)
    same(found, data, lengths)


def test_long_slots_have_copies_of_their_own(session: vyre.Session, made: Made, copies: Copies) -> None:
    data, lengths = words((10, 8)), np.array([1, 2, 3, 4, 5, 6, 7, 8, 0, 4], np.uint32)
    found = session.download_slots(made(data), made(lengths), most_packed=16)
    assert copies.reads[1:] == [20, 24, 28, 32]
    assert found.report.packed == 5
    same(found, data, lengths)


@pytest.mark.parametrize("groups", [1, 7, 1024])
def test_the_size_of_the_grid_changes_no_byte(
    session: vyre.Session, made: Made, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    data, lengths = words((50, 12)), (np.arange(50) * 5 % 13).astype(np.uint32)
    monkeypatch.setattr(slot_reading, "MOST_GROUPS", groups)
    same(session.download_slots(made(data), made(lengths)), data, lengths)


def test_lengths_that_a_program_wrote(session: vyre.Session, made: Made) -> None:
    with vyre.ProgramBuilder("fill", workgroup=8) as p:
        out, lengths = p.inout("out", u32), p.inout("lengths", u32)
        i = p.global_id()
        with p.if_(i < lengths.length):
            lengths[i] = i % 4
            with p.for_(0, i % 4) as k:
                out[i * 4 + k] = i * 10 + k
    slots, counts = made(np.zeros(80, np.uint32)), made(np.zeros(20, np.uint32))
    session.dispatch(p.build(), {"out": slots, "lengths": counts}, extent=20)
    found = session.download_slots(slots, counts, capacity=4)
    assert [each.tolist() for each in found] == [[10 * i + k for k in range(i % 4)] for i in range(20)]


def test_random_slots(session: vyre.Session, made: Made) -> None:
    random = Random(3)
    for _ in range(3 if session.backend == "reference-scalar" else 10):
        shape = random.randrange(1, 90), random.randrange(1, 20)
        dtype = random.choice([np.uint8, np.uint16, np.uint32, np.float64])
        most = random.choice([None, 0, 8, 33])
        data = np.frombuffer(random.randbytes(shape[0] * shape[1]), np.uint8).astype(dtype).reshape(shape)
        lengths = np.array([random.randrange(shape[1] + 1) for _ in range(shape[0])], np.uint32)
        same(session.download_slots(made(data), made(lengths), most_packed=most), data, lengths)


def test_parts_of_an_array_are_slots(session: vyre.Session, made: Made) -> None:
    whole = made(words((900,), np.uint8))
    part, lengths = whole.view(3, 30 * 7), (np.arange(30) % 8).astype(np.uint32)
    same(
        session.download_slots(part, made(lengths), capacity=7), words((900,), np.uint8)[3:213].reshape(30, 7), lengths
    )


def test_no_slots(session: vyre.Session, made: Made) -> None:
    assert session.download_slots(made(np.zeros((0, 4), np.uint32)), made(np.zeros(0, np.uint32))) == []
    found = session.download_slots(made(np.zeros((3, 4), np.uint32)), made(np.zeros(3, np.uint32)))
    assert [each.size for each in found] == [0, 0, 0]


def test_slots_that_do_not_fit_are_refused(session: vyre.Session, made: Made) -> None:
    slots, lengths = made(words((3, 4))), made(np.array([1, 5, 2], np.uint32))
    with pytest.raises(InvalidInput, match="slot 1 has length 5, and room for 4"):
        session.download_slots(slots, lengths)
    with pytest.raises(InvalidInput, match="lengths are"):
        session.download_slots(slots, made(np.zeros(2, np.uint32)))
    with pytest.raises(InvalidInput, match="lengths are"):
        session.download_slots(slots, made(np.zeros(3, np.int32)))
    with pytest.raises(InvalidInput, match="no axis of slots"):
        session.download_slots(lengths, lengths)
    for array, capacity in ((lengths, 2), (slots, 4)):
        with pytest.raises(InvalidInput, match=f"slots of {capacity} elements"):
            session.download_slots(array, lengths, capacity=capacity)
    for wrong in ({"capacity": 0}, {"capacity": True}, {"most_packed": -1}):
        with pytest.raises(InvalidConfig):
            session.download_slots(slots, lengths, **wrong)
    with pytest.raises(InvalidInput, match="item 1"):
        session.download_slots(slots, np.zeros(3, np.uint32))  # type: ignore[arg-type]
    lengths.close()
    with pytest.raises(InvalidResource, match="item 1"):
        session.download_slots(slots, lengths)


# ---------------------------------------------------------------- marks
@pytest.mark.parametrize("limit", [1, 5, 33, 34, 1000])
def test_marked_items_come_in_order_and_the_rest_is_counted(
    session: vyre.Session, made: Made, copies: Copies, limit: int
) -> None:
    data, marks = words((100, 3), np.float32), (np.arange(100) % 3 == 1).astype(np.uint32) * 9
    found = session.download_marked(made(data), made(marks), limit=limit)
    where = np.flatnonzero(marks)
    assert (found.emitted, found.overflow) == (33, max(0, 33 - limit))
    np.testing.assert_array_equal(found.positions, where[:limit])
    np.testing.assert_array_equal(found.items, data[where[:limit]])
    assert (found.items.dtype.str, found.positions.dtype.str, len(copies.reads)) == ("<f4", "<u4", 1)
    assert (found.report.copies, found.report.nbytes, copies.launches) == (1, sum(copies.reads), 2)


def test_marks_of_one_run_do_not_leak_into_the_next(session: vyre.Session, made: Made) -> None:
    data = words((64, 4))
    everything = session.download_marked(made(data), made(np.ones(64, np.uint32)), limit=64)
    np.testing.assert_array_equal(everything.items, data)
    nothing = session.download_marked(made(data), made(np.zeros(64, np.uint32)), limit=64)
    assert (nothing.emitted, nothing.overflow, nothing.items.shape) == (0, 0, (0, 4))
    last = session.download_marked(made(data), made(np.eye(64, dtype=np.uint32)[63]), limit=64)
    assert (last.items.tolist(), last.positions.tolist()) == ([data[63].tolist()], [63])


def test_many_marked_items_come_in_two_copies(session: vyre.Session, made: Made, copies: Copies) -> None:
    count = 300 if session.backend == "reference-scalar" else 3000
    data, marks = words((count, 64)), (np.arange(count) % 2).astype(np.uint32)
    found = session.download_marked(made(data), made(marks), limit=count)
    half = count // 2
    assert copies.reads == [HEADER + 4 * count, half * 256]
    assert (found.emitted, found.overflow, found.report.copies) == (half, 0, 2)
    np.testing.assert_array_equal(found.items, data[1::2])


def test_marks_that_do_not_fit_are_refused(session: vyre.Session, made: Made) -> None:
    items, marks = made(words((3, 4))), made(np.ones(3, np.uint32))
    for limit in (0, -1, True, 1.5, None):
        with pytest.raises(InvalidConfig, match="limit"):
            session.download_marked(items, marks, limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="marks are"):
        session.download_marked(items, items, limit=1)
    with pytest.raises(InvalidInput, match="item 0"):
        session.download_marked(marks.download(), marks, limit=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="has no items"):
        session.download_marked(made(np.array(1.0)), marks, limit=1)


def test_what_exceeds_the_budget_is_refused_before_it_runs(
    session: vyre.Session, made: Made, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readback, "U32_MAX", 1000)
    with pytest.raises(PlanError, match="over budget"):
        session.download_slots(made(words((40, 6))), made(np.ones(40, np.uint32)))
    assert (copies.reads, copies.launches) == ([], 0)
