"""Shuffles, votes, matches and reductions, on whole and partial warps, in any order of lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.cuda.ptx_runs import SCHEDULES, Machine, fault, kernel, run, zeros
from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.options import RunOptions

schedules = pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: f"{o.schedule}{o.seed}")
STORE = "ld.param.u64 %rd0, [a]; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r9;"
VALUE = "mad.lo.u32 %r4, %r3, 7, 3;"


def value(lane: int) -> int:
    return lane * 7 + 3


def expected_shuffle(source: Callable[[int], int], low: Callable[[int], int], high: Callable[[int], int]) -> list[int]:
    result = []
    for lane in range(64):
        warp, own = lane // 32 * 32, lane % 32
        j = source(own)
        result.append(value(warp + (j if low(own) <= j <= high(own) else own)))
    return result


SHUFFLES = {
    "idx, 5, 31": expected_shuffle(lambda lane: 5, lambda lane: 0, lambda lane: 31),
    "bfly, 16, 31": expected_shuffle(lambda lane: lane ^ 16, lambda lane: 0, lambda lane: 31),
    "down, 3, 31": expected_shuffle(lambda lane: lane + 3, lambda lane: 0, lambda lane: 31),
    "up, 3, 0": expected_shuffle(lambda lane: lane - 3, lambda lane: 0, lambda lane: 31),
    "down, 1, 0x1807": expected_shuffle(lambda lane: lane + 1, lambda lane: lane & 24, lambda lane: lane & 24 | 7),
    "idx, 2, 0x181f": expected_shuffle(lambda lane: lane & 24 | 2, lambda lane: lane & 24, lambda lane: 31),
}


@schedules
@pytest.mark.parametrize("mode", SHUFFLES)
def test_shuffles(mode: str, options: RunOptions) -> None:
    kind, operand, control = mode.split(", ")
    body = f"{VALUE} shfl.sync.{kind}.b32 %r9|%p0, %r4, {operand}, {control}, 0xffffffff; {STORE}"
    assert run(kernel(body), zeros(64), block=64, options=options).tolist() == SHUFFLES[mode]


@schedules
def test_a_shuffle_says_whether_the_lane_was_in_range(options: RunOptions) -> None:
    body = f"{VALUE} shfl.sync.down.b32 %r9|%p0, %r4, 4, 31, -1; selp.u32 %r9, 1, 0, %p0; {STORE}"
    assert run(kernel(body), zeros(32), options=options).tolist() == [1] * 28 + [0] * 4


VOTES: dict[str, Callable[[range], int]] = {
    "ballot.b32 %r9, %p0, -1;": lambda lanes: sum(1 << lane % 32 for lane in lanes if lane % 3 == 0),
    "all.pred %p1, %p0, -1; selp.u32 %r9, 1, 0, %p1;": lambda lanes: 0,
    "any.pred %p1, %p0, -1; selp.u32 %r9, 1, 0, %p1;": lambda lanes: 1,
    "any.pred %p1, !%p0, -1; selp.u32 %r9, 1, 0, %p1;": lambda lanes: 1,
    "uni.pred %p1, %p0, -1; selp.u32 %r9, 1, 0, %p1;": lambda lanes: 0,
}


@schedules
@pytest.mark.parametrize("vote", VOTES)
def test_votes(vote: str, options: RunOptions) -> None:
    body = f"rem.u32 %r4, %r3, 3; setp.eq.u32 %p0, %r4, 0; vote.sync.{vote} {STORE}"
    warps = [range(32), range(32, 64)]
    expected = [VOTES[vote](warp) for warp in warps for _ in warp]
    assert run(kernel(body), zeros(64), block=64, options=options).tolist() == expected


REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add.u32": lambda xs: sum(xs) & 0xFFFFFFFF,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda xs: min(xs, key=lambda x: x - (x >> 31 << 32)),
    "max.s32": lambda xs: max(xs, key=lambda x: x - (x >> 31 << 32)),
    "and.b32": lambda xs: int(np.bitwise_and.reduce(xs)),
    "or.b32": lambda xs: int(np.bitwise_or.reduce(xs)),
    "xor.b32": lambda xs: int(np.bitwise_xor.reduce(xs)),
}


@schedules
@pytest.mark.parametrize("operation", REDUCTIONS)
def test_reductions_over_part_of_a_warp(operation: str, options: RunOptions) -> None:
    body = f"""ld.param.u64 %rd0, [a]; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; ld.global.u32 %r4, [%rd1];
    setp.ge.u32 %p0, %r0, 9; @%p0 bra $E; redux.sync.{operation} %r9, %r4, 0x1ff; st.global.u32 [%rd1], %r9;"""
    data = np.random.default_rng(3).integers(0, 1 << 32, 32, np.uint32)
    result = run(kernel(body), data, options=options)
    assert result[:9].tolist() == [REDUCTIONS[operation](data[:9].tolist())] * 9
    assert result[9:].tolist() == data[9:].tolist()


@schedules
def test_lanes_that_hold_the_same_bits_find_each_other(options: RunOptions) -> None:
    body = f"and.b32 %r4, %r3, 3; match.sync.any.b32 %r9, %r4, -1; {STORE}"
    assert run(kernel(body), zeros(32), options=options).tolist() == [0x11111111 << lane % 4 for lane in range(32)]


def test_a_tail_warp_has_a_mask_of_its_own() -> None:
    body = f"""setp.ge.u32 %p0, %r0, 32; selp.b32 %r5, 0x1f, -1, %p0; {VALUE}
    setp.ne.u32 %p1, %r4, 0; vote.sync.ballot.b32 %r9, %p1, %r5; {STORE}"""
    assert run(kernel(body), zeros(37), block=37).tolist() == [0xFFFFFFFF] * 32 + [0x1F] * 5


@pytest.mark.parametrize(
    "body",
    [
        "vote.sync.ballot.b32 %r9, %p0, 0xffff;",  # lanes that the mask does not name
        "setp.ge.u32 %p1, %r0, 9; @%p1 bra $E; vote.sync.ballot.b32 %r9, %p0, -1;",  # lanes that are elsewhere
        "setp.ge.u32 %p1, %r0, 9; @%p1 ret; shfl.sync.idx.b32 %r9, %r0, 0, 31, -1;",  # lanes that have ended
        "mov.u32 %r4, 0; redux.sync.add.u32 %r9, %r0, %r4;",
    ],
)
def test_a_mask_names_exactly_the_lanes_that_take_part(body: str) -> None:
    found = fault(FaultKind.BAD_MASK, kernel(body), 0)
    assert "mask" in found.detail


def test_a_shuffle_from_a_lane_outside_the_mask_gives_poison() -> None:
    body = f"setp.ge.u32 %p0, %r0, 8; @%p0 bra $E; {VALUE} shfl.sync.idx.b32 %r9, %r4, 20, 31, 0xff; {STORE}"
    assert run(kernel(body), zeros(32)).tolist()[:8] == [0xDEADBEEF] * 8


def test_special_registers() -> None:
    body = "mov.u32 %r4, %laneid; mov.u32 %r5, %warpid; mad.lo.u32 %r9, %r5, 100, %r4;" + STORE
    assert run(kernel(body), zeros(64), block=64).tolist() == [lane // 32 * 100 + lane % 32 for lane in range(64)]
    machine = Machine()
    machine.launch(kernel("activemask.b32 %r9;" + STORE), address := machine.array(zeros(32)))
    assert machine.read(address).tolist() == [0xFFFFFFFF] * 32
