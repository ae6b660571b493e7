"""Atomics: lane after lane, in the order of the schedule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.cuda.ptx_runs import SCHEDULES, Machine, kernel, zeros
from vyre.adapters.cuda.machine.options import RunOptions

M32 = 0xFFFF_FFFF
BODY = """
ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [c]; ld.param.u64 %rd3, [d];
mul.wide.u32 %rd4, %r3, 4; add.u64 %rd5, %rd1, %rd4; ld.global.u32 %r4, [%rd5];
add.u64 %rd5, %rd2, %rd4; ld.global.u32 %r5, [%rd5];
mul.wide.u32 %rd6, %r4, 4; add.u64 %rd6, %rd0, %rd6;
{operation}
add.u64 %rd5, %rd3, %rd4; st.global.u32 [%rd5], %r7;
"""
PARAMETERS = ".param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d"


def signed(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda old, x: old + x & M32,
    "and.b32": lambda old, x: old & x,
    "or.b32": lambda old, x: old | x,
    "xor.b32": lambda old, x: old ^ x,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda old, x: min(old, x, key=signed),
    "max.s32": lambda old, x: max(old, x, key=signed),
    "exch.b32": lambda old, x: x,
    "inc.u32": lambda old, x: 0 if old >= x else old + 1,
    "dec.u32": lambda old, x: x if old == 0 or old > x else old - 1,
    "cas.b32": lambda old, x: x if old == 3 else old,
}


def launched(
    operation: str, memory: list[int], targets: list[int], values: list[int], options: RunOptions, block: int
) -> tuple[list[int], list[int]]:
    """Memory after, and what each lane got."""
    extra = "3, " if operation.startswith("cas") else ""
    text = kernel(
        BODY.replace("{operation}", f"atom.relaxed.gpu.global.{operation} %r7, [%rd6], {extra}%r5;"), PARAMETERS
    )
    machine = Machine()
    arrays = [machine.array(np.array(data, np.uint32)) for data in (memory, targets, values)]
    out = machine.array(zeros(len(targets)))
    machine.launch(text, *arrays, out, grid=len(targets) // block, block=block, options=options)
    return machine.read(arrays[0]).tolist(), machine.read(out).tolist()


@pytest.mark.parametrize("spread", [1, 5, 64], ids=["one address", "some addresses", "own addresses"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_lockstep_takes_lanes_in_ascending_order(operation: str, spread: int) -> None:
    random = np.random.default_rng(7)
    memory = [3, *random.integers(0, 6, 63).tolist()]
    targets = (np.arange(64) if spread == 64 else random.integers(0, spread, 64)).tolist()
    values = (
        random.integers(0, 8, 64).tolist()
        if operation[:3] in ("inc", "dec", "cas")
        else random.integers(0, 1 << 32, 64).tolist()
    )
    got_memory, got = launched(operation, memory, targets, values, RunOptions(), 32)
    advance, expected = OPERATIONS[operation], []
    for target, value in zip(targets, values, strict=True):
        expected.append(memory[target])
        memory[target] = advance(memory[target], value)
    assert got == expected
    assert got_memory == memory


def test_reverse_takes_them_in_descending_order() -> None:
    memory, got = launched("exch.b32", [77], [0] * 64, list(range(64)), RunOptions(schedule="reverse"), 32)
    assert got == [*range(1, 64), 77]
    assert memory == [0]


def test_a_ticket_shows_the_schedule_and_a_sum_does_not() -> None:
    tickets, sums = set(), set()
    for options in SCHEDULES:
        memory, got = launched("add.u32", [0], [0] * 64, [1] * 64, options, 16)
        assert sorted(got) == list(range(64))
        tickets.add(tuple(got))
        sums.add(tuple(memory))
    assert len(tickets) == len(SCHEDULES)
    assert sums == {(64,)}


def test_a_seed_gives_one_order() -> None:
    options = RunOptions(schedule="shuffled", seed=11)
    once, again = (launched("add.u32", [0], [0] * 64, [1] * 64, options, 16) for _ in range(2))
    assert once == again


@pytest.mark.parametrize("uniform", [True, False])
def test_long_words_and_shared_memory(uniform: bool) -> None:
    target = "0" if uniform else "%r9"
    body = f"""
    .shared .align 8 .b8 s[16]; mov.u32 %r8, s; and.b32 %r9, %r0, 1; mad.lo.u32 %r10, {target}, 8, %r8;
    setp.gt.u32 %p0, %r0, 1; @%p0 bra $READY; mad.lo.u32 %r11, %r0, 8, %r8; st.shared.u64 [%r11], 0xffffffff;
    $READY: bar.sync 0;
    red.relaxed.cta.shared.add.u64 [%r10], 1; bar.sync 0;
    setp.gt.u32 %p1, %r0, 1; @%p1 bra $E; mad.lo.u32 %r11, %r0, 8, %r8; ld.shared.u64 %rd3, [%r11];
    ld.param.u64 %rd0, [a]; mul.wide.u32 %rd1, %r0, 8; add.u64 %rd1, %rd0, %rd1; st.global.u64 [%rd1], %rd3;
    """
    machine = Machine()
    out = machine.array(zeros(4))
    machine.launch(kernel(body), out)
    expected = [32, 0] if uniform else [16, 16]
    assert machine.read(out, np.uint64).tolist() == [0xFFFF_FFFF + n for n in expected]
