"""Transfers: which of them are one copy, and what it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vyre.domain.errors import PlanError
from vyre.policies.transfer.transfers import (
    ReadCopy,
    ReadInputs,
    ReadPlan,
    ReadRequest,
    ReadView,
    Write,
    WriteCopy,
    WriteInputs,
    WritePlan,
    fuse_reads,
    fuse_writes,
)

TOP = 2**64 - 1


def reads(*requests: tuple[int, int, int], max_gap: int = 0) -> ReadPlan:
    """Of (handle, address, length)."""
    return fuse_reads(ReadInputs(tuple(ReadRequest(*r) for r in requests), max_gap))


def writes(*uploads: tuple[int, int, bytes]) -> WritePlan:
    """Of (handle, address, data)."""
    return fuse_writes(WriteInputs(tuple(Write(*w) for w in uploads)))


def test_reads_that_touch_are_one_copy() -> None:
    found = reads((1, 8, 4), (1, 0, 4), (1, 4, 4))
    assert found == ReadPlan((ReadCopy(1, 0, 12),), (ReadView(0, 8, 4), ReadView(0, 0, 4), ReadView(0, 4, 4)), 1, 12)
    assert str(found.why) == "3 transfers in 1 copies, which move 12 bytes for 12"


def test_gaps_are_not_read_unless_wanted() -> None:
    assert ReadInputs(()) == ReadInputs((), max_gap=0)


def test_reads_that_overlap_move_shared_bytes_once() -> None:
    found = reads((1, 0, 16), (1, 4, 4), (1, 10, 10))
    assert (found.copies, found.bytes) == ((ReadCopy(1, 0, 20),), 20)


def test_allocations_stay_apart() -> None:
    assert reads((2, 4, 4), (1, 0, 4)).copies == (ReadCopy(1, 0, 4), ReadCopy(2, 4, 4))


def test_empty_reads_are_views_of_nothing() -> None:
    found = reads((1, 4, 0), (1, TOP, 0), (1, 8, 2))
    assert found == ReadPlan((ReadCopy(1, 8, 2),), (ReadView(0, 0, 0), ReadView(0, 0, 0), ReadView(0, 0, 2)), 1, 2)


@pytest.mark.parametrize(("max_gap", "copies"), [(0, 3), (1, 3), (2, 2), (3, 1)])
def test_small_gaps_are_read_along(max_gap: int, copies: int) -> None:
    found = reads((1, 0, 4), (1, 6, 4), (1, 13, 1), max_gap=max_gap)
    assert found.non_empty_copy_count == len(found.copies) == copies


def test_the_view_behind_a_gap() -> None:
    found = reads((1, 0, 4), (1, 6, 4), max_gap=2)
    assert (found.copies, found.views[1], found.bytes) == ((ReadCopy(1, 0, 10),), ReadView(0, 6, 4), 10)
    assert str(found.why) == "2 transfers in 1 copies, which move 10 bytes for 8"


def test_reads_never_wrap() -> None:
    assert reads((1, TOP - 4, 4)).bytes == 4
    with pytest.raises(PlanError) as error:
        reads((1, TOP - 3, 4))
    assert str(error.value).startswith(f"address overflow: handle_id = 1, address = {TOP - 3}, byte_len = 4. Fix: ")
    with pytest.raises(PlanError) as error:
        reads((1, 0, TOP), (2, 0, 1))
    assert (error.value.kind, error.value.fields) == ("ByteCountOverflow", {"field": "transferred bytes"})


def test_a_write_that_touches_the_one_before_is_joined_with_it() -> None:
    found = writes((1, 0, b"ab"), (1, 2, b"c"))
    assert found == WritePlan((WriteCopy(1, 0, b"abc", owned=True),), 3, 3)
    assert writes((1, 2, b"c"), (1, 0, b"ab")).copies == found.copies


def test_the_later_of_two_writes_wins() -> None:
    assert writes((1, 0, b"aaaa"), (1, 2, b"bbbb")).copies[0].data == b"aabbbb"
    assert writes((1, 2, b"bbbb"), (1, 0, b"aaaa")).copies[0].data == b"aaaabb"
    assert writes((1, 0, b"aaaa"), (1, 1, b"bb")).copies[0].data == b"abba"


def test_a_write_that_covers_the_one_before_is_passed_on_as_it_is() -> None:
    data = b"abcd"
    found = writes((1, 1, b"xx"), (1, 0, data))
    assert found == WritePlan((WriteCopy(1, 0, data, owned=False),), 4, 6)
    assert found.copies[0].data is data
    assert str(found.why) == "2 transfers in 1 copies, which move 4 bytes for 6"


def test_covering_includes_both_ends() -> None:
    assert [c.owned for c in writes((1, 3, b"ab"), (1, 3, b"cde")).copies] == [False]
    assert [c.owned for c in writes((1, 3, b"ab"), (1, 2, b"cde")).copies] == [False]
    assert [c.owned for c in writes((1, 3, b"ab"), (1, 3, b"c")).copies] == [True]


def test_copies_begin_where_the_first_byte_goes() -> None:
    assert writes((1, 90, b"ab"), (1, 92, b"cd")).copies == (WriteCopy(1, 90, b"abcd", owned=True),)


def test_a_write_may_join_all_that_came_before() -> None:
    found = writes((1, 0, b"a"), (1, 4, b"b"), (1, 8, b"c"), (1, 1, b"-------"))
    assert found.copies == (WriteCopy(1, 0, b"a-------c", owned=True),)


def test_writes_to_others_come_between() -> None:
    """The third write touches the first, but a copy to another allocation lies between them."""
    found = writes((1, 0, b"a"), (2, 0, b"b"), (1, 1, b"c"))
    assert [c.handle_id for c in found.copies] == [1, 2, 1]
    assert found.uploaded_bytes == 3


def test_writes_apart_keep_their_order() -> None:
    found = writes((1, 8, b"a"), (1, 0, b"b"), (1, 7, b"cd"))
    assert [(c.dst_ptr, c.data) for c in found.copies] == [(8, b"a"), (0, b"b"), (7, b"cd")]


def test_empty_writes_are_dropped() -> None:
    assert writes((1, 0, b"a"), (2, TOP, b""), (1, 1, b"b")) == writes((1, 0, b"a"), (1, 1, b"b"))
    assert writes((1, 0, b"")) == WritePlan((), 0, 0)


def test_writes_never_wrap() -> None:
    assert writes((1, TOP - 1, b"a")).uploaded_bytes == 1
    with pytest.raises(PlanError) as error:
        writes((1, TOP, b"a"))
    assert error.value.fields == {"handle_id": 1, "address": TOP, "byte_len": 1}


def test_inputs_are_left_as_they_are() -> None:
    inputs = WriteInputs((Write(1, 0, b"ab"), Write(1, 1, b"c")))
    before = replace(inputs)
    assert fuse_writes(inputs) == fuse_writes(inputs)
    assert inputs == before
