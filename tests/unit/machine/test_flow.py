"""Control flow of the interpreter: divergence, loops, barriers between blocks, deadlock."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from support.cuda.ptx_runs import HEADER, SCHEDULES, Machine, fault, kernel, run, zeros
from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.memory import Region
from vyre.adapters.cuda.machine.options import RunOptions

schedules = pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: f"{o.schedule}{o.seed}")
STORE = "mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r9;"
LOAD = "ld.param.u64 %rd0, [a];"

COLLATZ = f"""
{LOAD} add.u32 %r4, %r3, 1; mov.u32 %r9, 0;
$LOOP:
setp.eq.u32 %p0, %r4, 1; @%p0 bra $DONE;
and.b32 %r5, %r4, 1; setp.eq.u32 %p1, %r5, 0; @%p1 bra $EVEN;
mad.lo.u32 %r4, %r4, 3, 1; bra $NEXT;
$EVEN:
shr.u32 %r4, %r4, 1;
$NEXT:
add.u32 %r9, %r9, 1; bra $LOOP;
$DONE:
{STORE}
"""


def collatz(start: int) -> int:
    steps = 0
    while start != 1:
        start = start // 2 if start % 2 == 0 else 3 * start + 1
        steps += 1
    return steps


@schedules
def test_lanes_leave_a_loop_at_different_times_and_meet_again(options: RunOptions) -> None:
    result = run(kernel(COLLATZ), zeros(192), grid=3, block=64, options=options)
    assert result.tolist() == [collatz(lane + 1) for lane in range(192)]


BREAK_AND_CONTINUE = f"""
{LOAD} mov.u32 %r9, 0; mov.u32 %r4, 0;
$TOP:
setp.ge.u32 %p0, %r4, 20; @%p0 bra $OUT;
and.b32 %r5, %r4, 3; and.b32 %r6, %r3, 3; setp.eq.u32 %p1, %r5, %r6; @%p1 bra $STEP;
setp.gt.u32 %p2, %r4, %r3; @%p2 bra $OUT;
add.u32 %r9, %r9, %r4;
$STEP:
add.u32 %r4, %r4, 1; bra $TOP;
$OUT:
{STORE}
"""


@schedules
def test_break_and_continue(options: RunOptions) -> None:
    def expected(lane: int) -> int:
        total = 0
        for i in range(20):
            if i % 4 == lane % 4:
                continue
            if i > lane:
                break
            total += i
        return total

    result = run(kernel(BREAK_AND_CONTINUE), zeros(40), block=40, options=options)
    assert result.tolist() == [expected(lane) for lane in range(40)]


@schedules
def test_lanes_that_end_early_do_not_hold_up_a_barrier(options: RunOptions) -> None:
    body = f"""{LOAD} setp.ge.u32 %p0, %r0, 48; @%p0 ret; bar.sync 0; add.u32 %r9, %r3, 7; {STORE}"""
    result = run(kernel(body), zeros(128), grid=2, block=64, options=options)
    assert result.tolist() == [0 if lane % 64 >= 48 else lane + 7 for lane in range(128)]


@schedules
def test_a_reduction_in_shared_memory(options: RunOptions) -> None:
    body = f"""
    .shared .align 16 .b8 sums[512];
    {LOAD} mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; ld.global.u32 %r9, [%rd1];
    mov.u32 %r10, sums; mad.lo.u32 %r11, %r0, 4, %r10; st.shared.u32 [%r11], %r9; bar.sync 0;
    mov.u32 %r4, 64;
    $HALF:
    setp.ge.u32 %p0, %r0, %r4; @%p0 bra $SKIP;
    mad.lo.u32 %r12, %r4, 4, %r11; ld.shared.u32 %r5, [%r12]; ld.shared.u32 %r6, [%r11];
    add.u32 %r5, %r5, %r6; st.shared.u32 [%r11], %r5;
    $SKIP:
    bar.sync 0; shr.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra $HALF;
    setp.ne.u32 %p2, %r0, 0; @%p2 bra $E;
    ld.shared.u32 %r9, [sums]; {STORE}
    """
    data = np.arange(3 * 128, dtype=np.uint32) * 5
    result = run(kernel(body), data, grid=3, block=128, options=options)
    assert result[::128].tolist() == data.reshape(3, 128).sum(axis=1).tolist()


@schedules
def test_dynamic_shared_memory_follows_the_static_one(options: RunOptions) -> None:
    body = f"""
    .shared .align 4 .b8 fixed[20];
    {LOAD} mov.u32 %r10, tail; mad.lo.u32 %r11, %r0, 4, %r10; st.shared.u32 [%r11], %r3; bar.sync 0;
    xor.b32 %r12, %r0, 31; mad.lo.u32 %r12, %r12, 4, %r10; ld.shared.u32 %r9, [%r12]; {STORE}
    """
    text = kernel(body, module_scope=".extern .shared .align 16 .b8 tail[];")
    result = run(text, zeros(64), grid=2, block=32, shared=128, options=options)
    assert result.tolist() == [lane // 32 * 32 + 31 - lane % 32 for lane in range(64)]


GRID_BARRIER = """
.visible .entry gridsync(.param .u64 bar, .param .u64 out, .param .u32 nblk)
.reqntid 64, 1, 1
{
.reg .b64 %rd<9>; .reg .b32 %r<16>; .reg .pred %p<6>;
ld.param.u64 %rd0, [bar]; cvta.to.global.u64 %rd0, %rd0; ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1;
ld.param.u32 %r0, [nblk]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r8, %r2, 64, %r1; mad.wide.u32 %rd2, %r8, 4, %rd1; add.u32 %r9, %r8, 100; st.global.u32 [%rd2], %r9;
bar.sync 0;
setp.ne.u32 %p0, %r1, 0; @%p0 bra $W;
ld.relaxed.gpu.global.u32 %r3, [%rd0+4];
sub.u32 %r4, %r0, 1;
fence.acq_rel.gpu;
atom.relaxed.gpu.global.inc.u32 %r5, [%rd0], %r4;
setp.ne.u32 %p1, %r5, %r4; @%p1 bra $S;
fence.acq_rel.gpu;
add.u32 %r6, %r3, 1; st.relaxed.gpu.global.u32 [%rd0+4], %r6;
bra $F;
$S:
ld.acquire.gpu.global.u32 %r7, [%rd0+4]; setp.eq.u32 %p2, %r7, %r3; @%p2 bra $S;
$F:
fence.acq_rel.gpu;
$W:
bar.sync 0;
mul.lo.u32 %r10, %r0, 64; sub.u32 %r10, %r10, 1; sub.u32 %r10, %r10, %r8;
mad.wide.u32 %rd3, %r10, 4, %rd1; ld.global.u32 %r11, [%rd3];
mad.wide.u32 %rd4, %r0, 256, %rd2; st.global.u32 [%rd4], %r11;
ret;
}
"""


@schedules
@pytest.mark.parametrize("together", [1, 2, None])
def test_blocks_wait_for_each_other_at_a_grid_barrier(options: RunOptions, together: int | None) -> None:
    blocks = 5
    machine = Machine()
    barrier, out = machine.array(zeros(2)), machine.array(zeros(2 * 64 * blocks))
    chosen = replace(options, workgroups_at_once=together)
    machine.launch(HEADER + GRID_BARRIER, barrier, out, blocks, layout="QQI", grid=blocks, block=64, options=chosen)
    lanes = np.arange(64 * blocks)
    assert machine.read(out).tolist() == [*(lanes + 100), *(lanes[::-1] + 100)]
    assert machine.read(barrier).tolist() == [0, 1]


def test_a_grid_barrier_deadlocks_when_not_all_blocks_are_resident() -> None:
    machine = Machine()
    barrier, out = machine.array(zeros(2)), machine.array(zeros(2 * 64 * 5))
    options = RunOptions(resident_blocks=3)
    found = fault(
        FaultKind.DEADLOCK,
        HEADER + GRID_BARRIER,
        barrier,
        out,
        5,
        machine=machine,
        layout="QQI",
        grid=5,
        block=64,
        options=options,
    )
    assert found.entry == "gridsync"


def test_reading_across_blocks_without_the_grid_barrier_is_a_race() -> None:
    text = HEADER + GRID_BARRIER.replace("bar.sync 0;\nsetp.ne.u32 %p0, %r1, 0; @%p0 bra $W;", "bra $W;")
    machine = Machine()
    barrier, out = machine.array(zeros(2)), machine.array(zeros(2 * 64 * 5))
    found = fault(FaultKind.RACE, text, barrier, out, 5, machine=machine, layout="QQI", grid=5, block=64)
    assert "ld.global.u32" in found.instruction or "st.global.u32" in found.instruction


LOCK = f"""
{LOAD}
$AGAIN:
atom.acquire.gpu.global.cas.b32 %r4, [%rd0], 0, 1; setp.ne.u32 %p0, %r4, 0; @%p0 bra $AGAIN;
ld.relaxed.gpu.global.u32 %r5, [%rd0+4]; add.u32 %r5, %r5, %r3; st.relaxed.gpu.global.u32 [%rd0+4], %r5;
fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd0], 0;
"""


@schedules
def test_lanes_of_a_warp_that_spin_for_a_lock_let_its_holder_go_on(options: RunOptions) -> None:
    result = run(kernel(LOCK), zeros(2), grid=2, block=8, options=options)
    assert result.tolist() == [0, sum(range(16))]


def test_a_barrier_that_part_of_a_warp_reaches_is_reported() -> None:
    body = "setp.lt.u32 %p0, %r0, 5; @%p0 bra $LOW; bar.sync 0; bra $E; $LOW: bar.sync 0;"
    found = fault(FaultKind.DIVERGENT_BARRIER, kernel(body), 0)
    assert (found.lane, found.instruction) == ((5, 0, 0), "bar.sync 0;")
    assert "27 of 32 lanes" in found.detail


def test_a_barrier_that_part_of_the_lanes_reach_is_a_deadlock() -> None:
    body = "setp.lt.u32 %p0, %r0, 32; @%p0 bra $OTHER; bar.sync 0; bra $E; $OTHER: bar.sync 1;"
    found = fault(FaultKind.DEADLOCK, kernel(body), 0, block=64)
    assert found.instruction in ("bar.sync 0;", "bar.sync 1;")


def test_barrier_sync_takes_lanes_of_a_warp_one_by_one() -> None:
    body = f"""{LOAD} mov.u32 %r9, 1; setp.lt.u32 %p0, %r0, 5; @%p0 bra $LOW; barrier.sync 0; bra $JOIN;
    $LOW: mov.u32 %r9, 2; barrier.sync 0; $JOIN: {STORE}"""
    assert run(kernel(body), zeros(32)).tolist() == [2] * 5 + [1] * 27


def test_an_endless_loop_meets_the_step_limit() -> None:
    found = fault(
        FaultKind.STEP_LIMIT, kernel("$L: add.u32 %r4, %r4, 1; bra $L;"), 0, options=RunOptions(step_limit=500)
    )
    assert (found.line, found.instruction) == (11, "bra $L;")


def test_waiting_for_what_never_comes_is_a_deadlock() -> None:
    machine = Machine()
    text = kernel(f"{LOAD} $L: ld.acquire.gpu.global.u32 %r4, [%rd0]; setp.eq.u32 %p0, %r4, 0; @%p0 bra $L;")
    found = fault(FaultKind.DEADLOCK, text, machine.array(zeros(1)), machine=machine, grid=2)
    assert "bra $L" in found.instruction


def test_a_timed_wait_ends() -> None:
    body = """mov.u64 %rd1, %globaltimer; add.u64 %rd1, %rd1, 1000000;
    $L: nanosleep.u32 100; mov.u64 %rd2, %globaltimer; setp.lt.u64 %p0, %rd2, %rd1; @%p0 bra $L;"""
    Machine().launch(kernel(body), 0)


def test_a_uniform_branch_is_for_whole_warps() -> None:
    text = kernel("setp.ge.u32 %p0, %r0, {first}; @%p0 bra.uni $L; add.u32 %r9, %r9, 1; $L: add.u32 %r9, %r9, 1;")
    Machine().launch(text.replace("{first}", "32"), 0, block=64)
    found = fault(FaultKind.DIVERGENT_UNIFORM_BRANCH, text.replace("{first}", "40"), 0, block=64)
    assert (found.lane, found.instruction) == ((32, 0, 0), "@%p0 bra.uni $L;")


TABLE = f"""
{LOAD} rem.u32 %r4, %r3, 5; mov.u32 %r9, 0;
setp.gt.u32 %p0, %r4, 3; @%p0 bra $DEFAULT;
$T: .branchtargets $ONE, $TWO, $ONE, $DEFAULT;
brx.idx %r4, $T;
$ONE: add.u32 %r9, %r9, 10; bra $JOIN;
$TWO: add.u32 %r9, %r9, 200; bra $JOIN;
$DEFAULT: add.u32 %r9, %r9, 3000;
$JOIN: bar.sync 0; add.u32 %r9, %r9, 1;
{STORE}
"""


@schedules
def test_lanes_take_the_branch_at_their_index_of_a_table_and_meet_again(options: RunOptions) -> None:
    result = run(kernel(TABLE), zeros(192), grid=3, block=64, options=options)
    assert result.tolist() == [(11, 201, 11, 3001, 3001)[lane % 5] for lane in range(192)]


def test_a_branch_by_table_may_depend_on_a_predicate() -> None:
    body = (
        TABLE.replace("@%p0 bra $DEFAULT;", "")
        .replace("brx.idx", "@!%p0 brx.idx")
        .replace("$ONE:", "bra $DEFAULT; $ONE:")
    )
    result = run(kernel(body), zeros(64), block=64)
    assert result.tolist() == [(11, 201, 11, 3001, 3001)[lane % 5] for lane in range(64)]


def test_an_index_beyond_the_table_is_a_fault() -> None:
    text = kernel(TABLE.replace("@%p0 bra $DEFAULT;", ""))
    found = fault(FaultKind.BAD_BRANCH, text, 0, block=64)
    assert (found.lane, found.instruction) == ((4, 0, 0), "brx.idx %r4, $T;")
    assert "index 4 of 4 branch targets" in str(found)


def test_a_uniform_branch_by_table_is_for_whole_warps() -> None:
    uniform = TABLE.replace("brx.idx", "brx.idx.uni").replace("rem.u32 %r4, %r3, 5;", "shr.u32 %r4, %r0, {shift};")
    Machine().launch(kernel(uniform.replace("{shift}", "5").replace(STORE, "")), 0, block=64)
    found = fault(FaultKind.DIVERGENT_UNIFORM_BRANCH, kernel(uniform.replace("{shift}", "4")), 0, block=64)
    assert found.instruction == "brx.idx.uni %r4, $T;"


class _Tracked(Region):
    __slots__ = ("__weakref__",)


def test_lanes_with_much_local_memory_run_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their local memory is freed with them, without a collection of garbage."""
    regions: list[weakref.ref[Region]] = []
    alive: list[int] = []

    def tracked(address: int, nbytes: int) -> Region:
        if nbytes < 65536:  # memory that is not local
            return Region(address, nbytes)
        region = _Tracked(address, nbytes)
        alive.append(sum(one.nbytes for reference in regions if (one := reference()) is not None) + region.nbytes)
        regions.append(weakref.ref(region))
        return region

    monkeypatch.setattr("vyre.adapters.cuda.machine.launch.Region", tracked)
    body = f"""
    .local .align 16 .b8 mine[65536]; {LOAD} mov.u32 %r4, mine; and.b32 %r5, %r3, 16383; mad.lo.u32 %r5, %r5, 4, %r4;
    st.local.b32 [%r5], %r3; ld.local.b32 %r9, [%r5]; {STORE}
    """
    gc.disable()
    try:
        result = run(kernel(body), zeros(4096), grid=32, block=128)
    finally:
        gc.enable()
    assert result.tolist() == list(range(4096))
    assert len(alive) == 4
    assert max(alive) <= 2 * (64 << 20)


def test_trap_names_the_first_lane() -> None:
    found = fault(FaultKind.TRAP, kernel("setp.lt.u32 %p0, %r3, 70; @%p0 bra $E; trap;"), 0, grid=2, block=64)
    assert (found.lane, found.instruction) == ((70, 0, 0), "trap;")


def test_the_report_counts_instructions_lanes_barriers_and_atomics() -> None:
    machine = Machine()
    text = kernel(f"{LOAD} bar.sync 0; red.relaxed.gpu.global.add.u32 [%rd0], 1;")
    report = machine.launch(text, machine.array(zeros(1)), grid=3, block=48)
    assert (report.barriers, report.atomics) == (3, 3 * 48)
    assert report.lane_instructions == 8 * 3 * 48
