"""Host bytes of steps on resident memory: copied while earlier steps run, waited for by nobody but their kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
import pytest

from vyre.adapters.cuda import ids
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.fault_plan import FOREVER, FaultPlan, SlowKernel
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.presets import H200
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.chunks import CHUNK
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.journal import DecisionJournal
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import DispatchTimeout, TrapError
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import u32
from vyre.ports.backend import Backend, BackendServices
from vyre.ports.requests import Readback, ResidentSequence, ResidentStep, Upload
from vyre.ports.resident_buffer import ResidentBuffer

N: Final = 64
LONG: Final = 1 << 18
SLOW_NS: Final = 10_000_000
PLAIN: Final = CudaOptions(graph_after=None)


def add(*, traps: bool = False) -> Program:
    """``y = 3 * y + x``, where ``y`` is the shorter one; 7 is trapped."""
    with ProgramBuilder("add", workgroup=32) as p:
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < y.length):
            if traps:
                with p.if_(x[i] == 7):
                    p.trap(i, "seven")
            y[i] = y[i] * 3 + x[i]
    return p.build()


ADD: Final = add()


class Accumulator(NamedTuple):
    """The driver of a machine, a buffer ``y`` on it, and another one."""

    driver: MachineDriver
    backend: Backend
    y: ResidentBuffer
    other: ResidentBuffer

    def steps(self, values: Sequence[int], length: int = N, program: Program = ADD) -> tuple[ResidentStep, ...]:
        return tuple(ResidentStep(program, (words(value, length), self.y)) for value in values)

    def run(
        self, steps: Sequence[ResidentStep], rounds: int = 1, once: Sequence[ResidentStep] = ()
    ) -> tuple[list[int], DispatchTiming]:
        self.backend.require_memory().upload([Upload(self.y, words(1))])
        back = bytearray(4 * N)
        timing = self.backend.require_resident_executor().run(
            ResidentSequence(
                prefix=tuple(once),
                repeated=tuple(steps),
                repeat_count=rounds,
                reads=(Readback(self.y, memoryview(back)),),
            )
        )
        return sorted(set(np.frombuffer(back, np.uint32).tolist())), timing


def words(value: int, length: int = N) -> memoryview:
    return memoryview(np.full(length, value, np.uint32).tobytes())


def wanted(values: Sequence[int]) -> list[int]:
    y = 1
    for value in values:
        y = (3 * y + value) % 2**32
    return [y]


@contextmanager
def opened(
    options: CudaOptions = PLAIN, seed: int = 0, journal: DecisionJournal | None = None
) -> Iterator[Accumulator]:
    driver = MachineDriver(MachineOptions(seed=seed))
    backend = make_backend(driver, ids.MACHINE, options, BackendServices(decisions=journal))
    backend.lifecycle.prepare()
    memory = backend.require_memory()
    with memory.allocate(4 * N) as y, memory.allocate(4 * N) as other:
        yield Accumulator(driver, backend, y, other)
    backend.lifecycle.close()
    assert not any(driver.live().values())
    assert not driver.violations


def spent(a: Accumulator, steps: Sequence[ResidentStep]) -> Counter[str]:
    before = Counter(a.driver.calls)
    a.run(steps)
    return Counter(a.driver.calls) - before


@pytest.mark.parametrize("copy_overlap", [True, False])
def test_a_copy_runs_beside_the_step_before_it(copy_overlap: bool) -> None:
    with opened(CudaOptions(graph_after=None, copy_overlap=copy_overlap)) as a:
        steps = a.steps((2, 3), LONG)
        a.run(steps)
        a.driver.inject(FaultPlan(slow=(SlowKernel(virtual_ns=SLOW_NS),)))
        found, timing = a.run(steps)
        assert found == wanted((2, 3))
        assert timing.device_ns is not None
        copy_ns = H200.speed.copy(4 * LONG, over_link=True)
        hidden = timing.device_ns < SLOW_NS + copy_ns // 2
        assert hidden is copy_overlap
        assert timing.device_ns > SLOW_NS


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("graph_after", [None, 0])
def test_every_order_of_streams_gives_the_same_bytes(graph_after: int | None, seed: int) -> None:
    with opened(CudaOptions(graph_after=graph_after), seed) as a:
        for first in (2, 9):
            once, values = (first, 5), tuple(range(first, first + 6))
            steps, before = a.steps(values), a.steps(once)
            assert a.run(steps, rounds=2, once=before)[0] == wanted((*once, *values, *values))
            assert a.run(steps, rounds=0, once=before)[0] == wanted(once)


def test_no_copy_is_waited_for() -> None:
    with opened() as a:
        waits = set()
        for steps in (a.steps((2, 3)), a.steps(range(2, 42))):
            a.run(steps)
            calls = spent(a, steps)
            assert calls["stream_wait_event"] == len(steps)
            waits.add(calls["event_synchronize"] + calls["stream_synchronize"])
        assert len(waits) == 1


def test_a_single_step_needs_one_stream() -> None:
    with opened() as a:
        steps = a.steps((2,))
        a.run(steps)
        assert spent(a, steps)["stream_wait_event"] == 0


def test_bytes_of_more_than_all_chunks() -> None:
    length = CHUNK // 4 + 3
    with opened() as a:
        assert a.run(a.steps((2, 3, 4), length))[0] == wanted((2, 3, 4))


def test_behind_many_accesses_copies_go_the_way_of_the_launches() -> None:
    values = range(2, 302)
    with opened() as a:
        steps = a.steps(values)
        assert a.run(steps)[0] == wanted(values)
        assert 200 < spent(a, steps)["stream_wait_event"] < 290


def test_a_trap_leaves_nothing_behind() -> None:
    program = add(traps=True)
    with opened() as a:
        for _ in range(3):
            with pytest.raises(TrapError):
                a.run(a.steps((2, 7, 3), program=program))
            assert a.run(a.steps((2, 6, 3), program=program))[0] == wanted((2, 6, 3))


def test_what_is_copied_when_time_is_up_stays_until_it_is_done() -> None:
    with opened() as a:
        steps, hurried = (
            [ResidentStep(ADD, (words(k, LONG), a.y), DispatchConfig(timeout_s=limit)) for k in (2, 3)]
            for limit in (None, 0.05)
        )
        a.run(steps)
        a.driver.inject(FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
        with pytest.raises(DispatchTimeout):
            a.run(hurried)
        assert a.driver.live()["stream"] == 3  # two of the run, one for uploads
        a.driver.end_slow_kernels()
        a.driver.inject(FaultPlan())
        again = [ResidentStep(ADD, (words(k), a.other)) for k in (2, 3)]
        for _ in range(8):
            a.backend.require_resident_executor().run(ResidentSequence(prefix=tuple(again)))
        assert a.driver.live()["stream"] == 2  # those of the run that was given up are gone
        assert a.run(a.steps((2, 3)))[0] == wanted((2, 3))
