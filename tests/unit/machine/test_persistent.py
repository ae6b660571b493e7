"""Kernels that stay: rounds between grid barriers, and blocks that draw jobs from a queue until it is drained."""

from __future__ import annotations

import numpy as np
import pytest

from support.cuda.ptx_runs import HEADER, SCHEDULES, Machine, zeros
from vyre.adapters.cuda.machine.options import RunOptions

orders = pytest.mark.parametrize(
    "options",
    [
        *SCHEDULES,
        *(RunOptions(schedule="shuffled", seed=seed) for seed in range(3, 9)),
        RunOptions(workgroups_at_once=1),
        RunOptions(workgroups_at_once=2),
    ],
    ids=lambda o: f"{o.schedule}-{o.seed}-{o.workgroups_at_once}",
)

# Every lane adds its left neighbour's value of the round before; the counter of arrivals never wraps.
ROUNDS = """
.visible .entry rounds(.param .u64 values, .param .u64 arrivals, .param .u32 count)
.reqntid 64, 1, 1
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<10>;
ld.param.u64 %rd0, [values]; ld.param.u64 %rd1, [arrivals]; ld.param.u32 %r0, [count];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x;
mad.lo.u32 %r4, %r2, 64, %r1; mul.lo.u32 %r5, %r3, 64; mov.u32 %r6, 0;
add.u32 %r7, %r4, %r5; sub.u32 %r7, %r7, 1; rem.u32 %r7, %r7, %r5;
$ROUND:
and.b32 %r8, %r6, 1; mad.lo.u32 %r9, %r8, %r5, %r4; mad.lo.u32 %r10, %r8, %r5, %r7;
xor.b32 %r11, %r8, 1; mad.lo.u32 %r12, %r11, %r5, %r4;
mad.wide.u32 %rd2, %r9, 4, %rd0; ld.global.u32 %r13, [%rd2];
mad.wide.u32 %rd3, %r10, 4, %rd0; ld.global.u32 %r14, [%rd3];
add.u32 %r13, %r13, %r14; mad.wide.u32 %rd4, %r12, 4, %rd0; st.global.u32 [%rd4], %r13;
add.u32 %r6, %r6, 1;
bar.sync 0;
setp.ne.u32 %p0, %r1, 0; @%p0 bra $WAITED;
fence.acq_rel.gpu;
red.relaxed.gpu.global.add.u32 [%rd1], 1;
mul.lo.u32 %r15, %r6, %r3;
$SPIN:
ld.acquire.gpu.global.u32 %r16, [%rd1]; setp.lt.u32 %p1, %r16, %r15; @%p1 bra $SPIN;
fence.acq_rel.gpu;
$WAITED:
bar.sync 0;
setp.lt.u32 %p2, %r6, %r0; @%p2 bra $ROUND;
ret;
}
"""


@orders
def test_rounds_between_grid_barriers(options: RunOptions) -> None:
    blocks, rounds = 3, 6
    start = np.arange(64 * blocks, dtype=np.uint32)
    machine = Machine()
    values, arrivals = machine.array(np.concatenate((start, zeros(64 * blocks)))), machine.array(zeros(1))
    machine.launch(HEADER + ROUNDS, values, arrivals, rounds, layout="QQI", grid=blocks, block=64, options=options)
    for _ in range(rounds):
        start = start + np.roll(start, 1)
    assert machine.read(values)[: 64 * blocks].tolist() == start.tolist()


# Control words: 0 stop, 1 published jobs, 2 next job.  A job is a row that all lanes of a block add to.
WORKERS = """
.visible .entry workers(.param .u64 control, .param .u64 rows, .param .u64 done)
.reqntid 48, 1, 1
{
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<10>;
.shared .align 8 .b8 job[8];
ld.param.u64 %rd0, [control]; ld.param.u64 %rd1, [rows]; ld.param.u64 %rd2, [done];
mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0;
$LOOP:
bar.sync 0;
@%p0 bra $GOT;
mov.u32 %r8, 32;
$POLL:
ld.relaxed.gpu.global.u32 %r2, [%rd0+8];
ld.acquire.sys.global.u32 %r3, [%rd0+4];
setp.lt.u32 %p1, %r2, %r3; @!%p1 bra $IDLE;
add.u32 %r4, %r2, 1; atom.relaxed.gpu.global.cas.b32 %r5, [%rd0+8], %r2, %r4;
setp.ne.u32 %p2, %r5, %r2; @%p2 bra $POLL;
st.shared.u32 [job], %r2; st.shared.u32 [job+4], 1; bra $GOT;
$IDLE:
ld.relaxed.sys.global.u32 %r6, [%rd0]; setp.ne.u32 %p3, %r6, 0; @%p3 bra $STOP;
nanosleep.u32 %r8; min.u32 %r8, %r8, 512; shl.b32 %r8, %r8, 1; bra $POLL;
$STOP:
st.shared.u32 [job+4], 0;
$GOT:
bar.sync 0;
ld.shared.u32 %r12, [job+4]; setp.eq.u32 %p6, %r12, 0; @%p6 bra $EXIT;
ld.shared.u32 %r13, [job]; mad.lo.u32 %r14, %r13, 48, %r1; mad.wide.u32 %rd3, %r14, 4, %rd1;
ld.global.u32 %r15, [%rd3]; add.u32 %r15, %r15, 1000; st.global.u32 [%rd3], %r15;
bar.sync 0;
@%p0 bra $LOOP;
fence.acq_rel.sys;
mad.wide.u32 %rd4, %r13, 4, %rd2; st.release.sys.global.u32 [%rd4], 1;
bra $LOOP;
$EXIT:
ret;
}
"""


@orders
def test_blocks_draw_jobs_until_the_queue_is_drained(options: RunOptions) -> None:
    jobs = 11
    machine = Machine()
    control = machine.array(np.array([1, jobs, 0], np.uint32))
    rows, done = machine.array(np.arange(48 * jobs, dtype=np.uint32)), machine.array(zeros(jobs))
    machine.launch(HEADER + WORKERS, control, rows, done, grid=4, block=48, options=options)
    assert machine.read(rows).tolist() == list(range(1000, 1000 + 48 * jobs))
    assert machine.read(done).tolist() == [1] * jobs
    assert machine.read(control).tolist() == [1, jobs, jobs]
