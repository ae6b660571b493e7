"""Kernels that wait for the host rest: slices in which nothing changes let time pass, and run nothing."""

from __future__ import annotations

import threading
from typing import Final

import pytest

from driver_contract.ptx import STORE, launch_shape, parameter_block
from support.limits import LIMIT_S
from support.machine.driver import Rig, code_of, rig
from support.machine.kernels import load_kernel, store
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine import execution
from vyre.adapters.cuda.machine.launch import Strand
from vyre.adapters.cuda.machine.resting import IDLE_NANOSECONDS, MOST_TURNS, Rest
from vyre.adapters.cuda.machine.streams import MOST_STEPS_OF_A_QUERY, Scheduler
from vyre.adapters.cuda.seam import HostBlock

LATEST, SEEN = 0, 2
STAYS: Final = """
// counts in word 2 how often word 0 had another value; leaves when it is 9, or after so many ns
.visible .entry stays(.param .u64 stays_p0, .param .u64 stays_p1)
.reqntid 1, 1, 1
{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [stays_p0]; ld.param.u64 %rd2, [stays_p1];
    mov.u64 %rd3, %globaltimer; mov.u32 %r2, 0; mov.u32 %r3, 0;
$AGAIN:
    ld.acquire.sys.global.u32 %r1, [%rd1];
    setp.ne.u32 %p0, %r1, %r2; @%p0 bra $NEW;
    mov.u64 %rd4, %globaltimer; sub.u64 %rd4, %rd4, %rd3;
    setp.lt.u64 %p1, %rd4, %rd2; @%p1 bra $AGAIN;
    ret;
$NEW:
    mov.u32 %r2, %r1; add.u32 %r3, %r3, 1;
    st.release.sys.global.u32 [%rd1+8], %r3;
    setp.ne.u32 %p2, %r1, 9; @%p2 bra $AGAIN;
    ret;
}
"""
LONG_NS: Final = 1 << 60


class Stays:
    """A kernel that stays, with the memory that it polls."""

    def __init__(self, lease_ns: int) -> None:
        self.rig: Rig = rig()
        self.block: HostBlock = self.rig.driver.host_alloc(4 * 32, mapped=True)
        self.block.view[:] = bytes(4 * 32)
        self.words = self.block.view.cast("I")
        self.stream = self.rig.driver.stream_create()
        self.address = self.rig.driver.host_device_address(self.block)
        parameters = parameter_block("QQ", self.address, lease_ns)
        kernel = load_kernel(self.rig, STAYS, "stays")
        self.rig.driver.prepare_launch(kernel, launch_shape(threads=1), self.stream, parameters)()

    def queries(self, times: int) -> bool:
        """Queries the stream; returns whether the kernel has left."""
        left = [self.rig.driver.stream_ready(self.stream) for _ in range(times)]
        return any(left)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by an element with each basic block that a kernel runs."""
    found: list[int] = []
    run = execution._Scheduler._execute

    def counted(scheduler: execution._Scheduler, strand: Strand) -> bool:
        found.append(1)
        return run(scheduler, strand)

    monkeypatch.setattr(execution._Scheduler, "_execute", counted)
    return found


def test_queries_of_an_idle_kernel_run_next_to_nothing(executed: list[int]) -> None:
    stays = Stays(LONG_NS)
    assert not stays.queries(2_000)
    assert len(executed) < 500
    stays.words[LATEST] = 9
    stays.rig.driver.stream_synchronize(stays.stream)


def test_without_a_rest_each_query_runs_it(executed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rest, "lasts", lambda _: False)
    stays = Stays(LONG_NS)
    assert not stays.queries(200)
    assert len(executed) >= 200
    stays.words[LATEST] = 9
    stays.rig.driver.stream_synchronize(stays.stream)


def test_it_wakes_as_soon_as_the_host_has_written_what_it_polls() -> None:
    stays = Stays(LONG_NS)
    for value in range(1, 9):
        stays.queries(300)
        stays.words[LATEST] = value
        assert not stays.queries(2)
        assert stays.words[SEEN] == value
    stays.words[LATEST] = 9
    stays.queries(2)
    assert stays.queries(1) and not stays.rig.driver.violations


def test_it_wakes_when_another_stream_has_written_what_it_polls() -> None:
    stays = Stays(LONG_NS)
    stays.queries(300)
    driver = stays.rig.driver
    store(stays.rig, load_kernel(stays.rig, STORE, "store"), stays.address, 5)()
    driver.stream_synchronize(stays.rig.stream)
    stays.queries(2)
    assert stays.words[SEEN] == 1
    stays.words[LATEST] = 9
    driver.stream_synchronize(stays.stream)


def test_it_finds_that_its_memory_was_freed() -> None:
    stays = Stays(LONG_NS)
    stays.queries(300)
    stays.rig.driver._device.memory.free(stays.address)
    assert code_of(lambda: stays.queries(2)) == Result.ILLEGAL_ADDRESS


def test_time_passes_while_it_rests() -> None:
    stays = Stays(200 * IDLE_NANOSECONDS)
    assert not stays.queries(200 // MOST_STEPS_OF_A_QUERY - 1)
    assert stays.queries(200 + 2 * MOST_TURNS)


def test_a_wait_for_it_looks_a_few_times_and_not_each_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[int] = []
    idle = Scheduler._idle

    def counted(scheduler: Scheduler) -> bool:
        naps.append(1)
        return idle(scheduler)

    monkeypatch.setattr(Scheduler, "_idle", counted)
    stays = Stays(200 * IDLE_NANOSECONDS)
    stays.rig.driver.stream_synchronize(stays.stream)
    assert 3 <= len(naps) <= 12


def test_a_thread_gives_work_to_a_kernel_that_rests_while_it_is_waited_for() -> None:
    stays = Stays(LONG_NS)
    stays.queries(300)

    def feed() -> None:
        for value in (4, 9):
            stays.words[LATEST] = value
            while not stays.words[SEEN]:
                pass

    feeder = threading.Thread(target=feed)
    feeder.start()
    stays.rig.driver.stream_synchronize(stays.stream)
    feeder.join(LIMIT_S)
    assert stays.words[SEEN] in (1, 2)
