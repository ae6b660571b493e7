"""Which ranges are packed, where every range lies on the host, and what that costs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.policies.transfer.packing import Packer, PackingInputs, PackingPlan, PackingThresholds, plan_packing
from vyre.policies.transfer.transfers import ReadRequest

APART = tuple(ReadRequest(0, 10**6 * i, 100) for i in range(100))
"""Short ranges of one allocation, so far apart that no gap is read."""


def planned(*requests: tuple[int, int, int], packer: Packer = Packer.LAUNCHES, most: int | None = None) -> PackingPlan:
    return plan_packing(PackingInputs(tuple(ReadRequest(*each) for each in requests), packer, most))


def test_many_short_ranges_are_packed_by_one_launch() -> None:
    plan = plan_packing(PackingInputs(APART, Packer.LAUNCHES))
    assert (plan.copies, plan.launches, len(plan.packed), plan.direct) == (1, 1, 100, ())
    assert plan.slab_bytes == plan.block_bytes == plan.bytes == 99 * 112 + 100
    assert plan.places == tuple(112 * i for i in range(100))
    assert str(plan.why) == "100 reads in 1 copies of 11188 bytes; 100 ranges are packed by 1 launches"


def test_one_call_moves_no_padding() -> None:
    plan = plan_packing(PackingInputs(APART, Packer.ONE_CALL))
    assert (plan.copies, plan.launches, plan.bytes, plan.slab_bytes) == (1, 0, 10_000, 99 * 112 + 100)
    assert str(plan.why) == "100 reads in 1 copies of 10000 bytes; 100 ranges are packed by the copy"


@pytest.mark.parametrize("packer", [Packer.NONE, Packer.LAUNCHES, Packer.ONE_CALL])
def test_a_limit_of_zero_sends_every_range_directly(packer: Packer) -> None:
    plan = plan_packing(PackingInputs(APART, packer, 0))
    assert (plan.copies, plan.packed, len(plan.direct), plan.bytes) == (100, (), 100, 10_000)


def test_without_a_packer_nothing_is_packed() -> None:
    assert plan_packing(PackingInputs(APART, Packer.NONE)).copies == 100
    assert plan_packing(PackingInputs(APART, Packer.NONE, 10**6)).copies == 100


@pytest.mark.parametrize(("limit", "direct"), [(7, 2), (8, 1), (31, 1), (32, 0)])
def test_the_limit_is_the_longest_range_that_is_packed(limit: int, direct: int) -> None:
    plan = planned((0, 0, 8), (0, 100, 4), (1, 0, 32), most=limit)
    assert len(plan.direct) == direct
    assert plan.copies == direct + 1


def test_launches_are_counted_by_allocation() -> None:
    plan = planned((5, 0, 1), (3, 0, 1), (5, 9, 1), most=10)
    assert (plan.launches, [each.handle_id for each in plan.packed]) == (2, [3, 5, 5])
    assert plan.places == (16, 0, 32)


def test_few_reads_are_not_worth_a_launch() -> None:
    assert planned((0, 0, 4), (0, 10**6, 4)).packed == ()
    assert planned((0, 0, 4)).copies == 1
    assert planned(packer=Packer.ONE_CALL).copies == 0


def test_reads_that_touch_are_one_and_a_small_gap_is_read() -> None:
    assert planned((0, 0, 4), (0, 4, 4), most=0).bytes == 8
    plan = planned((0, 0, 4), (0, 100, 4), (0, 2, 0))
    assert (plan.copies, plan.bytes, plan.places) == (1, 104, (0, 100, 0))


def test_costs_decide() -> None:
    dear, cheap = PackingThresholds(pack_ns=10**9), PackingThresholds(pack_ns=0, launch_ns=0)
    inputs = PackingInputs(APART[:2], Packer.LAUNCHES)
    assert plan_packing(PackingInputs(APART, Packer.LAUNCHES), dear).packed == ()
    assert len(plan_packing(inputs, cheap).packed) == 2


REQUESTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500), st.integers(0, 60)), max_size=20)


@given(REQUESTS, st.sampled_from(Packer), st.none() | st.integers(0, 200))
def test_every_request_is_found_at_its_place(
    requests: list[tuple[int, int, int]], packer: Packer, most: int | None
) -> None:
    plan = planned(*requests, packer=packer, most=most)
    memory = [bytes((7 * h + i * (h + 1)) % 251 for i in range(600)) for h in range(4)]
    block = bytearray(b"\xff" * plan.block_bytes)
    placed = sorted((*plan.packed, *plan.direct), key=lambda each: each.place)
    assert all(a.place + a.byte_len <= b.place and b.place % 16 == 0 for a, b in pairwise(placed))
    assert all(each.place + each.byte_len <= plan.slab_bytes for each in plan.packed)
    for each in placed:
        block[each.place : each.place + each.byte_len] = memory[each.handle_id][each.src : each.src + each.byte_len]
    for (handle, start, size), place in zip(requests, plan.places, strict=True):
        assert block[place : place + size] == memory[handle][start : start + size]
    assert plan.copies == len(plan.direct) + bool(plan.packed)
