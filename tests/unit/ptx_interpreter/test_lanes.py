"""Lanes of the interpreter exchange values, wait for each other and share memory as the PTX manual says."""

from __future__ import annotations

import numpy as np
import pytest

from support.ptx_interpreter.by_hand import changed, kernel
from support.ptx_interpreter.engine import SCHEDULES, Schedule
from support.ptx_interpreter.memory import Array
from support.ptx_interpreter.syntax import PtxError

MINE = "mad.wide.u32 %rd2, %r3, 4, %rd1;"
STORE = f"{MINE} st.global.b32 [%rd2], %r7;"
EVERY_ORDER = pytest.mark.parametrize("schedule", [pytest.param(s, id=s.name) for s in SCHEDULES])


def words(count: int) -> Array:
    return np.zeros(count, np.uint32)


@EVERY_ORDER
@pytest.mark.parametrize(
    ("mode", "b", "c", "wanted"),
    [
        ("idx", "5", "31", [5] * 32),
        ("idx", "37", "31", [5] * 32),  # only five bits of the lane count
        ("bfly", "16", "31", [*range(16, 32), *range(16)]),
        ("up", "1", "0", [0, *range(31)]),
        ("down", "2", "31", [*range(2, 32), 30, 31]),
        ("down", "1", "0x181F", [k if k % 8 == 7 else k + 1 for k in range(32)]),  # segments of eight
    ],
)
def test_shuffles(schedule: Schedule, mode: str, b: str, c: str, wanted: list[int]) -> None:
    body = f"shfl.sync.{mode}.b32 %r7, %r0, {b}, {c}, 0xFFFFFFFF; {STORE}"
    assert changed(kernel(body), words(32), schedule=schedule).tolist() == wanted


@EVERY_ORDER
def test_sums_and_ballots_of_a_last_warp_that_is_not_full(schedule: Schedule) -> None:
    add = changed(kernel(f"redux.sync.add.u32 %r7, %r0, 0xFFFFFFFF; {STORE}", block=40), words(40), schedule=schedule)
    assert add.tolist() == [496] * 32 + [sum(range(32, 40))] * 8
    ballot = f"and.b32 %r4, %r0, 1; setp.eq.u32 %p1, %r4, 1; vote.sync.ballot.b32 %r7, %p1, 0xFFFFFFFF; {STORE}"
    assert changed(kernel(ballot, block=40), words(40), schedule=schedule).tolist() == [0xAAAA_AAAA] * 32 + [0xAA] * 8


@EVERY_ORDER
def test_a_warp_waits_for_lanes_on_both_sides_of_a_branch_and_for_none_that_left(schedule: Schedule) -> None:
    body = f"""
        setp.ge.u32 %p1, %r0, 24; @%p1 bra $Left; setp.lt.u32 %p2, %r0, 8; @%p2 bra $Join;
        mov.b32 %r9, 100;
        $Again: sub.u32 %r9, %r9, 1; setp.ne.u32 %p3, %r9, 0; @%p3 bra $Again;
        $Join: redux.sync.add.u32 %r7, 1, 0xFFFFFFFF; {STORE}
        $Left: ret
    """
    assert changed(kernel(body + ";"), words(32), schedule=schedule).tolist() == [24] * 24 + [0] * 8


@EVERY_ORDER
def test_after_a_barrier_a_lane_sees_what_the_others_of_its_block_stored(schedule: Schedule) -> None:
    body = f"""
        .shared .align 16 .b8 smem[256];
        mov.u32 %r4, smem; mad.lo.u32 %r5, %r0, 4, %r4; st.shared.b32 [%r5], %r3;
        bar.sync 0;
        sub.u32 %r6, 63, %r0; mad.lo.u32 %r5, %r6, 4, %r4; ld.shared.b32 %r7, [%r5+0]; {STORE}
    """
    wanted = [64 * (k // 64) + 63 - k % 64 for k in range(192)]
    assert changed(kernel(body, block=64), words(192), grid=3, schedule=schedule).tolist() == wanted


@EVERY_ORDER
def test_a_lane_that_waits_for_another_one_gives_way_to_it(schedule: Schedule) -> None:
    body = f"""
        setp.eq.u32 %p1, %r3, 0; @%p1 bra $Last;
        $Again: ld.acquire.gpu.global.u32 %r7, [%rd1]; setp.eq.u32 %p2, %r7, 0; @%p2 bra $Again;
        bra $Done;
        $Last: mov.b32 %r7, 9; st.relaxed.gpu.global.u32 [%rd1], %r7;
        $Done: {STORE}
    """
    assert changed(kernel(body), words(64), grid=2, schedule=schedule).tolist() == [9] * 64


@EVERY_ORDER
def test_atomic_updates_are_each_seen_once(schedule: Schedule) -> None:
    body = f"atom.relaxed.gpu.global.add.u32 %r7, [%rd1], 1; add.u32 %r3, %r3, 1; {STORE}"
    count, *old = changed(kernel(body), words(65), grid=2, schedule=schedule).tolist()
    assert count == 64 and sorted(old) == list(range(64))


def test_inc_wraps_behind_its_limit() -> None:
    body = f"atom.relaxed.gpu.global.inc.u32 %r7, [%rd1], 2; add.u32 %r3, %r3, 1; {STORE}"
    assert changed(kernel(body), words(33)).tolist() == [32 % 3, *(k % 3 for k in range(32))]


def test_the_active_mask_names_the_lanes_of_a_warp_that_execute_together() -> None:
    body = f"""
        setp.lt.u32 %p1, %r0, 40; @%p1 bra $Low; activemask.b32 %r7; bra $Join;
        $Low: activemask.b32 %r7; $Join: {STORE}
    """
    found = changed(kernel(body, block=64), words(64)).tolist()
    assert found == [0xFFFF_FFFF] * 32 + [0xFF] * 8 + [0xFFFF_FF00] * 24


def test_a_parameter_has_an_address() -> None:
    body = f"mov.b64 %rd3, a; ld.param.u64 %rd4, [%rd3]; sub.u64 %rd4, %rd4, %rd0; cvt.u32.u64 %r7, %rd4; {STORE}"
    assert changed(kernel(body), np.ones(32, np.uint32)).tolist() == [0] * 32


def test_schedules_differ_where_the_order_shows() -> None:
    text = kernel("st.global.b32 [%rd1], %r3;")
    found = [int(changed(text, words(1), grid=2, schedule=schedule, seed=1)[0]) for schedule in SCHEDULES]
    assert found[:2] == [63, 0] and len(set(found)) == 3


def test_a_branch_table() -> None:
    body = f"""
        and.b32 %r4, %r0, 1;
        $Table: .branchtargets $Zero, $One;
        brx.idx %r4, $Table;
        $Zero: mov.b32 %r7, 10; bra $Done;
        $One: mov.b32 %r7, 11;
        $Done: {STORE}
    """
    assert changed(kernel(body), words(32)).tolist() == [10, 11] * 16


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("frobnicate.u32 %r7, %r0;", "unknown instruction: frobnicate"),
        ("add.ftz.f32 %f1, %f2, %f3;", "unknown instruction"),
        ("add.u32.sat %r7, %r0, 1;", "unknown instruction"),
        ("bra $Over; add.u31 %r7, %r0, 1; $Over:", "unknown instruction"),  # though no lane reaches it
        ("ld.global.relaxed.u32 %r7, [%rd1];", "unknown instruction"),
        ("shfl.sync.none.b32 %r7, %r0, 1, 31, 0xFFFFFFFF;", "unknown instruction"),
        ("bar.sync 1;", "unknown instruction"),
        ("@%p1 ret;", "a guard is not known here"),
        ("add.u32 %r7, %r0;", "2 operands are expected"),
        ("add.u32 %r7, %r0, %q1;", "unknown operand"),
        ("add.u32 %r7, %r0, %rd1;", "no register of 4 bytes"),
        ("add.u32 %r7, %r0, 0x100000000;", "no value of u32"),
        ("add.rn.f32 %f1, %f2, 1;", "unknown operand"),
        ("bra $Nowhere;", "no label"),
        ("ld.param.u64 %rd2, [b];", "unknown operand"),
        ("ld.global.b32 %r7, [%rd1+2];", "not aligned"),
        ("ld.global.b32 %r7, [%rd1+128];", "outside every allocation"),
        ("st.global.v2.b32 [%rd1+4], {%r0, %r0};", "not aligned"),
        ("ld.global.b32 %r7, [16];", "unknown operand|outside"),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 bra.uni $Over; $Over:", "parts at bra.uni"),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 bra $Out; bar.sync 0; $Out: ret;", "for ever|never reaches"),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 bra $Other; bar.sync 0; bra $Out; $Other: bar.sync 0; $Out: ret;", "different"),
        (
            "setp.eq.u32 %p1, %r0, 0; @%p1 bra $Other; bar.sync 0; $Other: redux.sync.add.u32 %r7, 1, 0xFFFFFFFF;",
            "for ever",
        ),
        ("redux.sync.add.u32 %r7, 1, 1;", "do not name themselves"),
        ("$Table: .branchtargets $A; brx.idx 1, $Table; $A: ret;", "outside its list"),
    ],
)
def test_what_is_unknown_or_broken_is_refused(body: str, complaint: str) -> None:
    with pytest.raises(PtxError, match=complaint):
        changed(kernel(body), words(32))


@pytest.mark.parametrize(
    ("old", "new"),
    [(".reg .b32", ".reg .b31"), (".entry", ".func"), ("sm_90\n", "sm_90, debug\n"), (".visible", ".weak")],
)
def test_declarations_that_are_unknown_are_refused(old: str, new: str) -> None:
    with pytest.raises(PtxError):
        changed(kernel("").replace(old, new), words(32))


def test_memory_that_nobody_initialised_holds_noise() -> None:
    body = f".shared .align 16 .b8 smem[16]; mov.u32 %r4, smem; ld.shared.b32 %r7, [%r4]; {STORE}"
    first, second = (int(changed(kernel(body), words(32), seed=seed)[0]) for seed in (1, 2))
    assert first != second


def test_an_endless_launch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.ptx_interpreter.engine.MOST_BLOCKS", 100)
    with pytest.raises(PtxError, match="has not ended"):
        changed(kernel("$Again: bra $Again;"), words(32))
