"""What the interpreter checks at every access: each check fires, names the place, and can be switched off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.cuda.ptx_runs import SCHEDULES, Machine, fault, kernel, run, zeros
from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.options import RunOptions

schedules = pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: f"{o.schedule}{o.seed}")
BASE = "ld.param.u64 %rd0, [a];"
ELEMENT = f"{BASE} mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1;"
TWO = ".param .u64 a, .param .u64 b"


# ------------------------------------------------------------------------------ addresses


def test_an_access_past_the_end_names_lane_line_and_address() -> None:
    machine = Machine()
    address = machine.array(zeros(40))
    text = kernel(f"{ELEMENT}\nst.global.u32 [%rd1], %r3;")
    found = fault(FaultKind.ILLEGAL_ADDRESS, text, address, machine=machine, grid=2)
    assert (found.lane, found.address) == ((40, 0, 0), address + 160)
    assert found.instruction == "st.global.u32 [%rd1], %r3;"
    assert text.splitlines()[found.line - 1].strip() == found.instruction


@pytest.mark.parametrize("offset", [-4, -(1 << 40), 1 << 50, -1 << 63])
def test_wild_addresses(offset: int) -> None:
    machine = Machine()
    address = machine.array(zeros(4))
    text = kernel(f"{BASE} mov.u64 %rd2, {offset}; add.u64 %rd1, %rd0, %rd2; ld.global.u32 %r4, [%rd1];")
    fault(FaultKind.ILLEGAL_ADDRESS, text, address, machine=machine)
    scattered = kernel(
        f"{ELEMENT} mov.u64 %rd2, {offset}; setp.eq.u32 %p0, %r3, 0; selp.b64 %rd2, %rd2, 0, %p0;"
        "add.u64 %rd1, %rd1, %rd2; ld.global.u32 %r4, [%rd1];"
    )
    assert fault(FaultKind.ILLEGAL_ADDRESS, scattered, address, machine=machine, block=4).lane == (0, 0, 0)


def test_the_last_bytes_of_an_allocation_count() -> None:
    machine = Machine()
    address = machine.array(np.zeros(7, np.uint8))
    machine.launch(kernel(f"{BASE} ld.global.u8 %r4, [%rd0+6];"), address)
    fault(FaultKind.ILLEGAL_ADDRESS, kernel(f"{BASE} ld.global.u32 %r4, [%rd0+4];"), address, machine=machine)


def test_use_after_free() -> None:
    machine = Machine()
    address = machine.array(zeros(4))
    machine.memory.free(address)
    fault(FaultKind.USE_AFTER_FREE, kernel(f"{BASE} ld.global.u32 %r4, [%rd0];"), address, machine=machine)


@pytest.mark.parametrize("access", ["ld.global.u32 %r4, [%rd0+2]", "ld.global.v2.u32 {%r4, %r5}, [%rd0+4]"])
def test_misaligned_global(access: str) -> None:
    machine = Machine()
    address = machine.array(zeros(8))
    found = fault(FaultKind.MISALIGNED, kernel(f"{BASE} {access};"), address, machine=machine)
    assert found.address == address + (2 if "+2" in access else 4)


def test_misaligned_shared_and_shared_past_the_end() -> None:
    declared = ".shared .align 4 .b8 s[64]; mov.u32 %r4, s;"
    fault(FaultKind.MISALIGNED, kernel(f"{declared} st.shared.u32 [%r4+2], %r3;"), 0, block=1)
    found = fault(
        FaultKind.ILLEGAL_ADDRESS, kernel(f"{declared} mad.lo.u32 %r4, %r0, 4, %r4; st.shared.u32 [%r4], %r3;"), 0
    )
    assert (found.lane, found.address) == ((16, 0, 0), 64)


def test_lanes_may_access_different_allocations() -> None:
    machine = Machine()
    a, b = machine.array(np.arange(32, dtype=np.uint32)), machine.array(np.arange(32, dtype=np.uint32) + 100)
    out = machine.array(zeros(32))
    body = """
    ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [c];
    and.b32 %r4, %r3, 1; setp.eq.u32 %p0, %r4, 0; selp.b64 %rd3, %rd0, %rd1, %p0;
    mul.wide.u32 %rd4, %r3, 4; add.u64 %rd3, %rd3, %rd4; add.u64 %rd5, %rd2, %rd4;
    ld.global.u32 %r5, [%rd3]; add.u32 %r6, %r5, 1; st.global.u32 [%rd3], %r6; st.global.u32 [%rd5], %r5;
    """
    machine.launch(kernel(body, TWO + ", .param .u64 c"), a, b, out)
    lanes = np.arange(32)
    assert machine.read(out).tolist() == np.where(lanes % 2 == 0, lanes, lanes + 100).tolist()
    assert machine.read(b).tolist() == np.where(lanes % 2 == 0, lanes + 100, lanes + 101).tolist()


# ------------------------------------------------------------------------------ uninitialised memory


def test_uninitialised_global_memory_is_found_byte_by_byte() -> None:
    machine = Machine()
    address = machine.memory.allocate(64)
    machine.memory.write(address, bytes(33))
    text = kernel(f"{ELEMENT} ld.global.u32 %r4, [%rd1];")
    machine.launch(text, address, block=8)
    found = fault(FaultKind.UNINITIALISED, text, address, machine=machine, block=16)
    assert (found.lane, found.address) == ((8, 0, 0), address + 32)
    machine.launch(text, address, block=16, options=RunOptions(check_uninitialised=False))


def test_what_a_kernel_stored_is_initialised() -> None:
    machine = Machine()
    address = machine.memory.allocate(64)
    text = kernel(f"{ELEMENT} st.global.u32 [%rd1], 5; ld.global.u32 %r4, [%rd1];")
    machine.launch(text, address, block=16)
    assert machine.memory.initialised(address, 64)
    assert machine.read(address).tolist() == [5] * 16


def test_uninitialised_shared_memory() -> None:
    declared = ".shared .align 4 .b8 s[64]; mov.u32 %r4, s;"
    found = fault(FaultKind.UNINITIALISED, kernel(f"{declared} ld.shared.u32 %r5, [%r4+8];"), 0, block=1)
    assert found.address == 8


def test_an_atomic_reads_too() -> None:
    machine = Machine()
    text = kernel(f"{BASE} red.relaxed.gpu.global.add.u32 [%rd0], 1;")
    fault(FaultKind.UNINITIALISED, text, machine.memory.allocate(4), machine=machine)


def test_shared_memory_is_poison_for_every_block() -> None:
    declared = ".shared .align 4 .b8 s[4]; mov.u32 %r4, s; ld.shared.u32 %r5, [%r4]; st.shared.u32 [%r4], 1;"
    body = f"{ELEMENT} {declared} st.global.u32 [%rd1], %r5;"
    result = run(kernel(body), zeros(3), grid=3, block=1, options=RunOptions(check_uninitialised=False))
    assert result.tolist() == [0xCDCDCDCD] * 3


# ------------------------------------------------------------------------------ races

NEIGHBOUR = "add.u32 %r4, %r3, 1; and.b32 %r4, %r4, 31; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd2, %rd0, %rd2;"
SHARED = ".shared .align 4 .b8 s[256]; mov.u32 %r10, s; mad.lo.u32 %r11, %r0, 4, %r10;"
SHARED_NEIGHBOUR = "xor.b32 %r12, %r0, 1; mad.lo.u32 %r12, %r12, 4, %r10;"
RACES = {
    "write then read": f"{ELEMENT} {NEIGHBOUR} st.global.u32 [%rd1], %r3; ld.global.u32 %r5, [%rd2];",
    "read then write": f"{ELEMENT} {NEIGHBOUR} ld.global.u32 %r5, [%rd2]; st.global.u32 [%rd1], %r5;",
    "two writes": f"{ELEMENT} {NEIGHBOUR} st.global.u32 [%rd1], 1; st.global.u32 [%rd2], 2;",
    "one store, one address": f"{BASE} st.global.u32 [%rd0], %r3;",
    "one store, scattered": f"{ELEMENT} and.b64 %rd1, %rd1, -8; st.global.u32 [%rd1], %r3;",
    "all read, one writes": f"{BASE} ld.global.u32 %r4, [%rd0]; setp.ne.u32 %p0, %r3, 7; @%p0 bra $E;"
    "st.global.u32 [%rd0], 1;",
    "plain after atomic": f"{BASE} red.relaxed.gpu.global.add.u32 [%rd0], 1; ld.global.u32 %r4, [%rd0];",
    "plain before atomic": f"{BASE} ld.global.u32 %r4, [%rd0]; red.relaxed.gpu.global.add.u32 [%rd0], 1;",
    "bytes of a word": f"{ELEMENT} {NEIGHBOUR} st.global.u8 [%rd1+1], %r3; ld.global.u32 %r5, [%rd2];",
    "shared, no barrier": f"{SHARED} {SHARED_NEIGHBOUR} st.shared.u32 [%r11], %r3; ld.shared.u32 %r5, [%r12];",
    "shared, second barrier missing": f"{SHARED} {SHARED_NEIGHBOUR} st.shared.u32 [%r11], %r3; bar.sync 0;"
    "ld.shared.u32 %r5, [%r12]; st.shared.u32 [%r11], %r5;",
    "halves of a long word": f"{ELEMENT} and.b64 %rd3, %rd1, -8; st.global.u32 [%rd1], 1; ld.global.u64 %rd4, [%rd3];",
}


@schedules
@pytest.mark.parametrize("body", RACES.values(), ids=RACES)
def test_races(body: str, options: RunOptions) -> None:
    machine = Machine()
    text = kernel(body)
    found = fault(FaultKind.RACE, text, machine.array(zeros(64)), machine=machine, options=options)
    assert found.lane is not None
    machine.launch(text, machine.array(zeros(64)), options=replace(options, check_races=False))


FINE = {
    "own element": f"{ELEMENT} ld.global.u32 %r4, [%rd1]; st.global.u32 [%rd1], %r4; ld.global.u32 %r4, [%rd1];",
    "equal bits that nobody reads": f"{BASE} st.global.u32 [%rd0], 7; st.global.u32 [%rd0], 7;",
    "atomics": f"{BASE} red.relaxed.gpu.global.add.u32 [%rd0], 1; atom.relaxed.gpu.global.exch.b32 %r4, [%rd0], %r3;",
    "strong loads and stores": f"{BASE} st.relaxed.gpu.global.u32 [%rd0], %r3; ld.relaxed.gpu.global.u32 %r4, [%rd0];",
    "all read": f"{BASE} ld.global.u32 %r4, [%rd0]; ld.global.nc.u32 %r5, [%rd0];",
    "bytes of one word": f"{BASE} cvt.u64.u32 %rd1, %r3; add.u64 %rd1, %rd0, %rd1;"
    "st.global.u8 [%rd1], %r3; ld.global.u8 %r5, [%rd1];",
    "global, a barrier between": f"{ELEMENT} {NEIGHBOUR} st.global.u32 [%rd1], %r3; bar.sync 0;"
    "ld.global.u32 %r5, [%rd2];",
    "shared, barriers between": f"{SHARED} {SHARED_NEIGHBOUR} st.shared.u32 [%r11], %r3; bar.sync 0;"
    "ld.shared.u32 %r5, [%r12]; bar.sync 0; st.shared.u32 [%r11], %r5; bar.sync 0; ld.shared.u32 %r5, [%r12];",
}


@schedules
@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_accesses_that_are_no_race(body: str, options: RunOptions) -> None:
    run(kernel(body), zeros(64), options=options)


@schedules
def test_a_barrier_orders_no_other_block(options: RunOptions) -> None:
    other_block = "xor.b32 %r4, %r3, 32; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd2, %rd0, %rd2;"
    body = f"{ELEMENT} {other_block} st.global.u32 [%rd1], %r3; bar.sync 0; ld.global.u32 %r5, [%rd2];"
    machine = Machine()
    fault(FaultKind.RACE, kernel(body), machine.array(zeros(64)), machine=machine, grid=2, options=options)


MESSAGE = """
ld.param.u64 %rd0, [a]; setp.eq.u32 %p0, %r1, 0; @%p0 bra $SEND;
$WAIT: ld.{load}.u32 %r4, [%rd0+64]; setp.eq.u32 %p1, %r4, 0; @%p1 bra $WAIT;
ld.global.u32 %r5, [%rd0]; bra $E;
$SEND: st.global.u32 [%rd0], 42; st.{store}.u32 [%rd0+64], 1;
"""


def test_release_and_acquire_order_blocks() -> None:
    good = kernel(MESSAGE.format(load="acquire.gpu.global", store="release.gpu.global"))
    run(good, zeros(32), grid=2, block=1)
    relaxed = kernel(MESSAGE.format(load="relaxed.gpu.global", store="relaxed.gpu.global"))
    narrow = kernel(MESSAGE.format(load="acquire.cta.global", store="release.cta.global"))
    for text in (relaxed, narrow):
        machine = Machine()
        fault(FaultKind.RACE, text, machine.array(zeros(32)), machine=machine, grid=2, block=1)


@pytest.mark.parametrize(
    "body",
    [
        f"{ELEMENT} st.global.u32 [%rd1], 1; ld.global.nc.u32 %r4, [%rd1];",
        f"{ELEMENT} ld.global.nc.u32 %r4, [%rd1]; st.global.u32 [%rd1], 1;",
    ],
)
def test_noncoherent_loads_of_memory_that_the_launch_writes(body: str) -> None:
    machine = Machine()
    fault(FaultKind.READ_ONLY_WRITTEN, kernel(body), machine.array(zeros(32)), machine=machine)


# ------------------------------------------------------------------------------ asynchronous copies

COPY = """
.shared .align 16 .b8 s[512];
ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; mul.wide.u32 %rd2, %r3, 16; add.u64 %rd0, %rd0, %rd2;
mov.u32 %r4, s; mad.lo.u32 %r4, %r0, 16, %r4;
cp.async.ca.shared.global [%r4], [%rd0], 16; cp.async.commit_group;
"""
USE = "ld.shared.u32 %r5, [%r4+4]; mul.wide.u32 %rd2, %r3, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r5;"


def test_an_asynchronous_copy_lands_when_it_is_waited_for() -> None:
    machine = Machine()
    source, out = machine.array(np.arange(128, dtype=np.uint32)), machine.array(zeros(32))
    machine.launch(kernel(f"{COPY} cp.async.wait_group 0; {USE}", TWO), source, out)
    assert machine.read(out).tolist() == [4 * lane + 1 for lane in range(32)]
    for early in ("", "cp.async.wait_group 1;"):
        fault(FaultKind.UNINITIALISED, kernel(f"{COPY} {early} {USE}", TWO), source, out, machine=machine)
