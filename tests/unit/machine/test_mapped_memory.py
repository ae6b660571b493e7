"""Memory that the host shares with kernels, and kernels that stay and wait for what the host writes there."""

from __future__ import annotations

import struct
import threading
from functools import partial
from typing import Final

import pytest

from driver_contract.ptx import STORE, launch_shape, parameter_block
from support.limits import LIMIT_S
from support.machine.driver import Rig, code_of, rig
from support.machine.kernels import load_kernel, store
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine import streams
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.adapters.cuda.seam import DeviceAddress, HostBlock

STOP, ASKED, INPUT, ANSWERED, OUTPUT = range(5)
SERVE: Final = """
// answers each new number in word 1 of a mailbox with twice the input plus one, until word 0 is set; one lane does
.visible .entry serve(.param .u64 serve_p0)
.reqntid 32, 1, 1
{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [serve_p0];
    mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0; @%p0 ret;
    mov.u32 %r2, 0;
$WAIT:
    ld.acquire.sys.global.u32 %r3, [%rd1+4];
    setp.ne.u32 %p1, %r3, %r2; @%p1 bra $JOB;
    ld.acquire.sys.global.u32 %r4, [%rd1];
    setp.eq.u32 %p2, %r4, 0; @%p2 bra $WAIT;
    ret;
$JOB:
    ld.global.u32 %r5, [%rd1+8];
    mad.lo.u32 %r5, %r5, 2, 1;
    st.global.u32 [%rd1+16], %r5;
    mov.u32 %r2, %r3;
    st.release.sys.global.u32 [%rd1+12], %r2;
    bra $WAIT;
}
"""
schedules = pytest.mark.parametrize("schedule", StreamSchedule)
SEEDS: Final = range(4)


class Mailbox:
    """A mailbox in mapped memory, and a kernel that serves it on a stream of its own."""

    def __init__(self, r: Rig) -> None:
        self.rig = r
        self.block: HostBlock = r.driver.host_alloc(64, mapped=True)
        self.block.view[:] = bytes(64)
        self.words = self.block.view.cast("I")
        self.stream = r.driver.stream_create()
        self.start(r.driver.host_device_address(self.block))

    def start(self, address: DeviceAddress) -> None:
        kernel = load_kernel(self.rig, SERVE, "serve")
        self.rig.driver.prepare_launch(kernel, launch_shape(), self.stream, parameter_block("Q", address))()

    def ask(self, value: int) -> None:
        self.words[INPUT] = value
        self.words[ASKED] += 1

    def answer(self) -> int:
        for _ in range(1000):
            if self.words[ANSWERED] == self.words[ASKED]:
                return self.words[OUTPUT]
            assert not self.rig.driver.stream_ready(self.stream)
        raise AssertionError("no answer")

    def stop(self) -> None:
        self.words[STOP] = 1
        self.rig.driver.stream_synchronize(self.stream)


def opened(schedule: StreamSchedule = StreamSchedule.DEFERRED, seed: int = 0) -> Mailbox:
    return Mailbox(rig(schedule=schedule, seed=seed))


@pytest.mark.parametrize("seed", SEEDS)
@schedules
def test_one_launch_answers_many_jobs(schedule: StreamSchedule, seed: int) -> None:
    mailbox = opened(schedule, seed)
    for value in range(200):
        mailbox.ask(value)
        assert mailbox.answer() == 2 * value + 1
    driver = mailbox.rig.driver
    assert driver.calls["launch"] == 1 and not driver._device.scheduler.broken()
    mailbox.stop()
    assert driver.stream_ready(mailbox.stream) and not driver.violations and not driver.kernel_faults


@schedules
def test_an_idle_kernel_is_no_fault_and_stands_in_nobodys_way(schedule: StreamSchedule) -> None:
    mailbox = opened(schedule)
    r = mailbox.rig
    for _ in range(300):
        assert not r.driver.stream_ready(mailbox.stream)
    other, target = r.driver.stream_create(), r.upload(bytes(4 * 32))
    r.driver.stream_synchronize(r.stream)
    store(r, load_kernel(r, STORE, "store"), target, 5, stream=other)()
    r.driver.stream_synchronize(other)  # only that stream is waited for
    back = r.driver.host_alloc(4 * 32)
    r.driver.copy_to_host(back.address, target, 4 * 32, other)
    r.driver.stream_synchronize(other)
    assert bytes(back.view) == struct.pack("<I", 5) * 32
    mailbox.ask(20)
    assert mailbox.answer() == 41
    mailbox.stop()
    assert not r.driver.kernel_faults


@schedules
def test_another_thread_gives_work_to_a_kernel_that_is_waited_for(schedule: StreamSchedule) -> None:
    mailbox = opened(schedule)
    found: list[int] = []

    def feed() -> None:
        mailbox.ask(4)
        while mailbox.words[ANSWERED] != 1:
            pass  # the wait of the other thread lets the kernel run
        found.append(mailbox.words[OUTPUT])
        mailbox.words[STOP] = 1

    feeder = threading.Thread(target=feed)
    feeder.start()
    mailbox.rig.driver.stream_synchronize(mailbox.stream)
    feeder.join(LIMIT_S)
    assert found == [9]


@schedules
def test_a_wait_for_a_kernel_that_nobody_stops_ends(schedule: StreamSchedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MOST_NAPS", 3)
    mailbox = opened(schedule)
    driver = mailbox.rig.driver
    assert code_of(lambda: driver.stream_synchronize(mailbox.stream)) == Result.LAUNCH_TIMEOUT
    assert [fault.kind for fault in driver.kernel_faults] == [FaultKind.DEADLOCK]
    assert code_of(lambda: driver.stream_ready(mailbox.stream)) == Result.LAUNCH_TIMEOUT  # the context is lost


@schedules
def test_a_kernel_that_waits_for_memory_of_its_own_is_a_fault_as_before(schedule: StreamSchedule) -> None:
    """Although the host shares memory with kernels: this one polls none of it."""
    mailbox = opened(schedule)
    mailbox.stop()
    address = mailbox.rig.upload(bytes(64))
    mailbox.rig.driver.stream_synchronize(mailbox.rig.stream)
    mailbox.start(address)
    assert code_of(lambda: mailbox.rig.driver.stream_synchronize(mailbox.stream)) == Result.LAUNCH_TIMEOUT
    assert [fault.kind for fault in mailbox.rig.driver.kernel_faults] == [FaultKind.DEADLOCK]


def test_the_addresses_of_host_and_kernels_differ_so_that_none_is_taken_for_the_other() -> None:
    for wrong in range(3):
        r = rig()
        block, plain = r.driver.host_alloc(100, mapped=True), r.driver.host_alloc(100)
        address = r.driver.host_device_address(block)
        assert address != block.address and bytes(block.view) == b"\xcd" * 100
        assert code_of(partial(r.driver.host_device_address, plain)) == Result.INVALID_VALUE
        store(r, load_kernel(r, STORE, "store"), (block.address, plain.address, address + 100)[wrong], 1)()
        assert code_of(partial(r.driver.stream_synchronize, r.stream)) == Result.ILLEGAL_ADDRESS


def test_kernels_do_not_reach_a_block_that_was_freed() -> None:
    r = rig()
    block = r.driver.host_alloc(4 * 32, mapped=True)
    address = r.driver.host_device_address(block)
    r.driver.host_free(block)
    assert not r.driver.live()["host_memory"]
    store(r, load_kernel(r, STORE, "store"), address, 1)()
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == Result.ILLEGAL_ADDRESS


def test_a_destroyed_context_takes_its_kernels_and_its_mapped_memory_with_it() -> None:
    mailbox = opened()
    driver = mailbox.rig.driver
    assert not driver.stream_ready(mailbox.stream)
    driver.primary_reset(0)
    assert not any(count for kind, count in driver.live().items() if kind not in ("context", "pool", "library"))
    assert not driver._device.memory.shared


def test_a_fault_of_a_run_strikes_once_and_not_in_every_slice() -> None:
    r = rig(faults=FaultPlan(runs=(Fault(code=Result.ILLEGAL_ADDRESS, method="launch", nth=2),)))
    mailbox = Mailbox(r)
    for value in range(20):
        mailbox.ask(value)
        assert mailbox.answer() == 2 * value + 1
    mailbox.stop()
    assert r.driver.stream_ready(mailbox.stream)
