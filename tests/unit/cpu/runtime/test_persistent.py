"""Persistent engines of the native CPU backend: tickets, slots, batches, errors of single jobs, and the end."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any
from weakref import ref

import numpy as np
import pytest

from support.cpu.backends import ADD, ENDLESS, CountedTools, backend_of
from support.cpu.pool import until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.storms.interrupt_storm import Interrupt, Places, Tracer
from support.storms.interrupts import interrupted_everywhere
from vyre.adapters.cpu.pool import layout
from vyre.adapters.cpu.pool.ring import Ring
from vyre.adapters.cpu.runtime import persistent
from vyre.adapters.cpu.runtime.persistent import CpuEngine
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, OutputArena
from vyre.domain.errors import (
    DispatchFailed,
    DispatchTimeout,
    InvalidInput,
    InvalidResource,
    StepBudgetExceeded,
    TrapError,
    VyreError,
)
from vyre.domain.ir.program import Program
from vyre.ports.backend import Backend
from vyre.ports.requests import DispatchRequest
from vyre.testing.backend_contract.bench import parsed
from vyre.testing.backend_contract.persistent import EngineJobs

pytestmark = NEEDS_LLVM

TRAPS = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body {
      if x[gid.x] == 13u { trap(gid.x + 7u, "unlucky") }
      x[gid.x] = x[gid.x] + 1u
    }
    """)
LOOPS = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { for k in 0u..x[gid.x] { x[gid.x] = x[gid.x] + 1u } }
    """)
RANGED = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read u32[8]
    buffer y @1 write u32[8] output range 8..24
    body { y[gid.x] = x[gid.x] * 2u }
    """)


@pytest.fixture(scope="module")
def tools() -> CountedTools:
    return CountedTools()


@pytest.fixture
def backend(tools: CountedTools) -> Iterator[Backend]:
    with backend_of(tools.tools, threads=2) as made:
        yield made


def engine_of(
    backend: Backend, program: Program = ADD, capacity: int = 4, nbytes: int = 16, **config: Any
) -> EngineJobs:
    assert backend.persistent is not None
    engine = backend.persistent.open(program, DispatchConfig(**config), (nbytes,), capacity)
    assert isinstance(engine, CpuEngine)
    return EngineJobs(engine)


def words(*values: int) -> list[memoryview]:
    return [memoryview(np.array(values, np.uint32).tobytes())]


def collected(engine: EngineJobs, ticket: int | None, timeout: float = LIMIT_S) -> list[int]:
    assert ticket is not None
    arena = OutputArena()
    engine.wait(ticket, arena, timeout=timeout)
    found: list[int] = np.frombuffer(arena[0], np.uint32).tolist()
    return found


# ---------------------------------------------------------------- one job after the other
def test_a_launch_serves_all_jobs_whatever_slot_they_have(backend: Backend) -> None:
    engine = engine_of(backend)
    for value in range(50):
        assert collected(engine, engine.submit(words(value, 1, 2, 3))) == [value + 1, 2, 3, 4]
    counts = engine.counters()
    assert (counts["launches"], counts["jobs"], counts["submissions"], counts["full"]) == (1, 50, 50, 0)
    engine.close()
    assert engine.counters()["jobs"] == 50
    metrics = backend.metric_source.metrics()  # type: ignore[union-attr]
    assert (metrics["persistent_launches"], metrics["persistent_jobs"], metrics["kernel_launches"]) == (1, 50, 0)


def test_results_outlive_their_slots_until_they_are_collected(backend: Backend) -> None:
    engine = engine_of(backend, capacity=2)
    tickets = []
    for value in range(40):
        ticket = engine.submit(words(value, 0, 0, 0))
        while ticket is None:
            assert engine.wait_room(LIMIT_S)
            ticket = engine.submit(words(value, 0, 0, 0))
        tickets.append(ticket)
    assert sorted(set(tickets)) == tickets
    for value, ticket in reversed(list(enumerate(tickets))):
        assert collected(engine, ticket) == [value + 1, 1, 1, 1]
        assert engine.done(ticket) and collected(engine, ticket) == [value + 1, 1, 1, 1]
        engine.forget(ticket)
        with pytest.raises(InvalidResource, match="was forgotten"):
            collected(engine, ticket)
    assert not engine._jobs


def test_memory_of_forgotten_jobs_is_used_again(backend: Backend) -> None:
    engine = engine_of(backend, capacity=2)
    for value in range(8):
        ticket = engine.submit(words(value, 0, 0, 0))
        assert ticket is not None
        engine.wait(ticket, None)
        engine.forget(ticket)
    assert not engine._jobs and len(engine._all) == 1
    kept = [engine.submit(words(value, 0, 0, 0)) for value in (1, 2)]
    assert engine.drain(LIMIT_S) and len(engine._all) == 2
    for ticket in kept:
        assert ticket is not None
        engine.forget(ticket)
    assert not engine._jobs and len(engine._free) == 2


def test_memory_of_jobs_that_were_forgotten_too_early_is_used_again(backend: Backend) -> None:
    engine = engine_of(backend, capacity=2)
    for value in range(200):
        while (ticket := engine.submit(words(value, 0, 0, 0))) is None:
            assert engine.wait_room(LIMIT_S)
        engine.forget(ticket)
    assert not engine._jobs and len(engine._all) <= 8


def test_memory_beyond_that_of_a_full_queue_is_given_back(backend: Backend) -> None:
    engine = engine_of(backend, capacity=2)
    tickets = []
    for value in range(60):
        while (ticket := engine.submit(words(value, 0, 0, 0))) is None:
            assert engine.wait_room(LIMIT_S)
        tickets.append(ticket)
    assert engine.drain(LIMIT_S) and len(engine._all) >= 60
    for ticket in tickets:
        engine.forget(ticket)
    assert len(engine._all) == len(engine._free) < 16


def test_a_full_queue_is_told_at_once(backend: Backend) -> None:
    engine = engine_of(backend, ENDLESS, capacity=2)
    assert [engine.submit(words(1, 1, 1, 1)) is None for _ in range(4)] == [False, False, True, True]
    assert engine.submit_many(words(1, 1, 1, 1), 1, [memoryview(bytearray(16))]) is None
    assert engine.counters()["full"] == 3
    assert not engine.wait_room(0.01)
    assert not engine.drain(0.01)
    with pytest.raises(TimeoutError):
        collected(engine, 0, timeout=0.01)


def test_the_capacity_is_a_power_of_two_and_at_least_two(backend: Backend) -> None:
    assert engine_of(backend, capacity=5).capacity == 8
    for capacity in (1, 0, (1 << 20) + 1):
        with pytest.raises(InvalidResource, match="capacity"):
            engine_of(backend, capacity=capacity)


def test_inputs_of_other_lengths_are_refused_and_leave_the_engine_whole(backend: Backend) -> None:
    engine = engine_of(backend)
    for inputs in (words(1, 2, 3), words(1, 2, 3, 4, 5), [], words(1, 2, 3, 4) * 2):
        with pytest.raises(InvalidInput, match="persistent engine of inputs of"):
            engine.submit_many(inputs, 3, [memoryview(bytearray(48))])
    assert collected(engine, engine.submit(words(1, 2, 3, 4))) == [2, 3, 4, 5]


def test_inputs_are_copied_before_submit_returns(backend: Backend) -> None:
    engine, mine = engine_of(backend, capacity=64), np.zeros(4, np.uint32)
    tickets = []
    for value in range(32):
        mine[:] = value
        tickets.append(engine.submit([memoryview(mine).cast("B").toreadonly()]))  # type: ignore[arg-type]
    mine[:] = 99
    assert [collected(engine, ticket)[0] for ticket in tickets] == list(range(1, 33))


# ---------------------------------------------------------------- batches
def test_a_batch_gives_every_job_its_row(backend: Backend) -> None:
    engine = engine_of(backend)
    column, out = np.arange(4000, dtype=np.uint32), np.empty(4000, np.uint32)
    first = engine.submit_many([memoryview(column.tobytes())], 1000, [memoryview(out).cast("B")])  # type: ignore[arg-type]
    assert first is not None
    ended = engine.wait_many(first, 1000, timeout=LIMIT_S)
    assert ended.failed == () and (out == column + 1).all()
    assert engine.done(first) and engine.done(first + 999)
    assert engine.wait(first + 999, None).device_ns is not None
    counts = engine.counters()
    assert (counts["launches"], counts["jobs"], counts["submissions"]) == (1, 1000, 1)


def test_an_input_of_one_job_is_shared_by_all(backend: Backend) -> None:
    engine, out = engine_of(backend), np.empty((7, 4), np.uint32)
    first = engine.submit_many(words(1, 2, 3, 4), 7, [memoryview(out).cast("B")])  # type: ignore[arg-type]
    assert first is not None
    engine.wait_many(first, 7, timeout=LIMIT_S)
    assert out.tolist() == [[2, 3, 4, 5]] * 7


@pytest.mark.parametrize("jobs", [1, 2, 65, layout.MOST_ROWS])
def test_batches_and_jobs_follow_each_other_in_the_slots(backend: Backend, jobs: int) -> None:
    engine = engine_of(backend, capacity=2)
    for round in range(6):
        assert collected(engine, engine.submit(words(round, 0, 0, 0)))[0] == round + 1
        column, out = np.full(4 * jobs, round, np.uint32), np.zeros(4 * jobs, np.uint32)
        first = engine.submit_many([memoryview(column.tobytes())], jobs, [memoryview(out).cast("B")])  # type: ignore[arg-type]
        assert first is not None
        if round % 2:
            engine.wait_many(first, jobs, timeout=LIMIT_S)
        else:
            assert engine.wait(first + jobs - 1, None, timeout=LIMIT_S)
            assert engine.drain(LIMIT_S)
        assert (out == round + 1).all()
        engine.forget(first)
    assert not engine._batches


def test_more_jobs_than_an_entry_holds_are_refused(backend: Backend) -> None:
    engine = engine_of(backend)
    for jobs in (0, engine.most_jobs + 1):
        with pytest.raises(InvalidInput, match="jobs in one submission"):
            engine.submit_many(words(0, 0, 0, 0), jobs, [memoryview(bytearray(16))])


def test_returned_ranges_are_those_of_a_dispatch(backend: Backend) -> None:
    arena, x = OutputArena(), np.arange(8, dtype=np.uint32)
    backend.executor.execute(DispatchRequest(RANGED, (memoryview(x.tobytes()),)), arena)
    want = bytes(arena[0])
    engine = engine_of(backend, RANGED, nbytes=32)
    assert engine.output_nbytes == (16,) == (len(want),)
    ticket = engine.submit([memoryview(x.tobytes())])
    assert ticket is not None
    engine.wait(ticket, arena, timeout=LIMIT_S)
    assert bytes(arena[0]) == want
    out = np.zeros((3, 16), np.uint8)
    first = engine.submit_many([memoryview(x.tobytes())], 3, [memoryview(out).cast("B")])  # type: ignore[arg-type]
    assert first is not None
    engine.wait_many(first, 3, timeout=LIMIT_S)
    assert [row.tobytes() for row in out] == [want] * 3


# ---------------------------------------------------------------- errors are those of one ticket
def test_a_trap_is_that_of_its_ticket_alone(backend: Backend) -> None:
    engine = engine_of(backend, TRAPS, capacity=8)
    tickets = [engine.submit(words(12, value, value, 0)) for value in (1, 13, 2)]
    assert collected(engine, tickets[0]) == [13, 2, 2, 1]
    with pytest.raises(TrapError) as found:
        collected(engine, tickets[1])
    assert (found.value.tag, found.value.address, found.value.global_id) == ("unlucky", 8, (1, 0, 0))
    assert collected(engine, tickets[2]) == [13, 3, 3, 1]
    column, out = np.array([[1] * 4, [13] * 4, [5] * 4, [0, 0, 0, 13]], np.uint32), np.zeros((4, 4), np.uint32)
    first = engine.submit_many([memoryview(column.tobytes())], 4, [memoryview(out).cast("B")])  # type: ignore[arg-type]
    assert first is not None
    assert engine.wait_many(first, 4, timeout=LIMIT_S).failed == (first + 1, first + 3)
    assert out[[0, 2]].tolist() == [[2] * 4, [6] * 4]
    with pytest.raises(TrapError) as found:
        engine.wait(first + 3, None)
    assert found.value.global_id == (3, 0, 0)


def test_a_step_budget_is_that_of_each_job(backend: Backend) -> None:
    engine = engine_of(backend, LOOPS, step_budget=10)
    tickets = [engine.submit(words(1, value, 1, 1)) for value in (9, 12, 9)]
    assert collected(engine, tickets[0]) == [2, 18, 2, 2]
    with pytest.raises(StepBudgetExceeded) as found:
        collected(engine, tickets[1])
    assert (found.value.budget, found.value.global_id) == (10, (1, 0, 0))
    assert collected(engine, tickets[2]) == [2, 18, 2, 2]


def test_a_timeout_ends_its_own_job(backend: Backend) -> None:
    program = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[runtime]
        body {
          if x[0u] == 1u { for k in 0u..4294967295u { for l in 0u..4294967295u { x[gid.x] = x[gid.x] * 3u + k } } }
          x[gid.x] = x[gid.x] + 1u
        }
        """)
    engine = engine_of(backend, program, capacity=16, timeout_s=0.05)
    tickets = [engine.submit(words(value, 0, 0, 0)) for value in (5, 1, 6, 7, 1, 8)]
    for value, ticket in zip((5, 1, 6, 7, 1, 8), tickets, strict=True):
        if value == 1:
            with pytest.raises(DispatchTimeout, match=r"0\.05 s"):
                collected(engine, ticket)
        else:
            assert collected(engine, ticket) == [value + 1, 1, 1, 1]
    assert backend.metric_source.metrics()["timeouts"] == 2  # type: ignore[union-attr]


def test_kernels_run_as_often_as_the_config_says(backend: Backend) -> None:
    engine = engine_of(backend, fixpoint_iterations=3)
    assert collected(engine, engine.submit(words(1, 2, 3, 4))) == [4, 5, 6, 7]


# ---------------------------------------------------------------- the end
def test_closing_ends_endless_jobs_and_keeps_the_results_of_others(backend: Backend) -> None:
    program = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[runtime]
        body {
          if x[0u] == 1u { for k in 0u..4294967295u { for l in 0u..4294967295u { x[gid.x] = x[gid.x] * 3u + k } } }
          x[gid.x] = x[gid.x] + 1u
        }
        """)
    engine = engine_of(backend, program, capacity=32)
    ended = engine.submit(words(2, 0, 0, 0))
    assert ended is not None
    engine.wait(ended, None, timeout=LIMIT_S)
    stuck = [engine.submit(words(1, 0, 0, 0)) for _ in range(10)]
    found: list[BaseException] = []

    def wait() -> None:
        try:
            collected(engine, stuck[-1])
        except VyreError as error:
            found.append(error)

    thread, waits = threading.Thread(target=wait), engine.counters()["waits"]
    thread.start()
    until(lambda: engine.counters()["waits"] > waits)
    engine.close()
    engine.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive() and isinstance(found[0], DispatchFailed)
    assert collected(engine, ended) == [3, 1, 1, 1]
    for ticket in stuck:
        with pytest.raises(DispatchFailed, match="engine was closed"):
            collected(engine, ticket)
    with pytest.raises(InvalidResource, match="is closed"):
        engine.submit(words(1, 1, 1, 1))
    assert engine.counters()["jobs"] == 11


def test_closing_the_backend_ends_every_job(tools: CountedTools) -> None:
    with backend_of(tools.tools, threads=2) as backend:
        engine, other = engine_of(backend, ENDLESS), engine_of(backend)
        tickets = [engine.submit(words(1, 1, 1, 1)) for _ in range(3)]
        assert collected(other, other.submit(words(1, 1, 1, 1)))  # beside workers that never end
    for ticket in tickets:
        with pytest.raises(DispatchFailed, match="closed"):
            collected(engine, ticket)
    with pytest.raises(DispatchFailed, match="is closed"):
        other.submit(words(1, 1, 1, 1))


def test_the_rings_of_a_process_are_limited_and_used_again(backend: Backend) -> None:
    for _ in range(2):
        engines = [engine_of(backend) for _ in range(layout.RINGS)]
        with pytest.raises(InvalidResource, match="persistent engines are open"):
            engine_of(backend)
        for value, engine in enumerate(engines):
            assert collected(engine, engine.submit(words(value, 0, 0, 0)))[0] == value + 1
        for engine in engines:
            engine.close()


def test_a_dropped_engine_gives_its_ring_back(backend: Backend) -> None:
    for _ in range(2 * layout.RINGS):
        engine_of(backend, ENDLESS).submit(words(1, 1, 1, 1))


def test_flushing_waits_for_jobs(backend: Backend) -> None:
    engine = engine_of(backend, capacity=64)
    tickets = [engine.submit(words(value, 0, 0, 0)) for value in range(40)]
    backend.lifecycle.flush()
    assert all(ticket is not None and engine.done(ticket) for ticket in tickets)


# ---------------------------------------------------------------- beside other work
def test_dispatches_run_beside_jobs(backend: Backend) -> None:
    engine, arena = engine_of(backend, capacity=64), OutputArena()
    pipeline = backend.compiler.compile(ADD, DEFAULT_CONFIG).pipeline  # type: ignore[union-attr]
    pending, expected = [], []
    for value in range(200):
        ticket = engine.submit(words(value, 1, 1, 1))
        if ticket is not None:
            pending.append(ticket)
            expected.append(value + 1)
        pipeline.dispatch(words(value, 7, 7, 7), arena)
        assert np.frombuffer(arena[0], np.uint32).tolist() == [value + 1, 8, 8, 8]
        handle = backend.async_executor.submit(DispatchRequest(ADD, tuple(words(value, 5, 5, 5))))  # type: ignore[union-attr]
        handle.wait(arena, timeout=LIMIT_S)
        assert np.frombuffer(arena[0], np.uint32).tolist() == [value + 1, 6, 6, 6]
        while len(pending) > 8:
            assert collected(engine, pending.pop(0))[0] == expected.pop(0)


def test_many_threads_share_an_engine(backend: Backend) -> None:
    engine = engine_of(backend, capacity=8)
    wrong: list[object] = []

    def work(number: int) -> None:
        for value in range(number, number + 100):
            ticket = engine.submit(words(value, 0, 0, 0))
            while ticket is None:
                engine.wait_room()
                ticket = engine.submit(words(value, 0, 0, 0))
            found = collected(engine, ticket)
            if found != [value + 1, 1, 1, 1]:
                wrong.append((value, found))

    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads) and not wrong
    assert engine.counters()["jobs"] == 600


def test_better_code_is_taken_between_jobs(tools: CountedTools) -> None:
    with backend_of(tools.tools, threads=1, recompile=False) as backend:
        engine = engine_of(backend)
        assert collected(engine, engine.submit(words(1, 1, 1, 1))) == [2] * 4
        module = engine._module
        module.loaded = replace_code(module.loaded)
        for value in range(600):
            assert collected(engine, engine.submit(words(value, 1, 1, 1)))[0] == value + 1
        assert engine._loaded is module.loaded


def replace_code(loaded: Any) -> Any:
    return loaded._replace(lanes=loaded.lanes)


# ---------------------------------------------------------------- descriptors
def test_a_descriptor_tells_of_ends_once_until_it_is_rearmed(backend: Backend) -> None:
    engine = engine_of(backend, capacity=16)
    descriptor = engine.subscribe()
    assert not select.select([descriptor], [], [], 0)[0]
    for _ in range(3):
        engine.rearm(descriptor)
        for _ in range(5):
            ticket = engine.submit(words(1, 1, 1, 1))
            assert ticket is not None
            engine.wait(ticket, None)
            engine.forget(ticket)
        assert select.select([descriptor], [], [], LIMIT_S)[0]
    assert 3 <= engine.counters()["signals"] <= 6  # a worker may tell of an end after its reader has gone on
    engine.unsubscribe(descriptor)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)
    engine.unsubscribe(descriptor)


def test_descriptors_are_limited_and_closed(backend: Backend) -> None:
    engine = engine_of(backend)
    found = [engine.subscribe() for _ in range(layout.MOST_FDS)]
    with pytest.raises(VyreError, match="event loops"):
        engine.subscribe()
    for descriptor in found:
        engine.unsubscribe(descriptor)
    assert engine.subscribe() >= 0


def test_pipes_stand_in_where_there_are_no_event_descriptors(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "eventfd", raising=False)
    engine = engine_of(backend)
    descriptor = engine.subscribe()
    for _ in range(2):
        engine.rearm(descriptor)
        ticket = engine.submit(words(1, 1, 1, 1))
        assert ticket is not None
        assert select.select([descriptor], [], [], LIMIT_S)[0] and engine.done(ticket)
    engine.unsubscribe(descriptor)


def test_who_waits_long_sleeps_and_is_woken_once_for_a_batch(backend: Backend) -> None:
    engine = engine_of(backend, LOOPS, capacity=16)
    out = np.empty((6, 4), np.uint32)
    column = np.zeros((6, 4), np.uint32)
    column[:, 0] = 1_000_000
    for batches in range(1, 50):
        first = engine.submit_many([memoryview(column).cast("B")], 6, [memoryview(out).cast("B")])  # type: ignore[arg-type]
        assert first is not None
        assert engine.wait_many(first, 6, timeout=LIMIT_S).failed == ()
        assert (out[:, 0] == 2_000_000).all()
        counts = engine.counters()
        assert (counts["launches"], counts["jobs"]) == (1, 6 * batches)
        assert counts["wakes"] <= counts["waits"] <= batches
        if counts["wakes"]:  # else every wait looked in the very moment of an end
            return
    raise AssertionError("no wait was ended by a worker")


# ---------------------------------------------------------------- Ctrl-C
def test_an_interrupt_anywhere_leaves_the_engine_whole(backend: Backend) -> None:
    """Whatever was under way, later jobs and batches get their own results."""
    engine = engine_of(backend, capacity=4)

    def batch(value: int, into: Any) -> int:
        column = memoryview(np.full(into.shape, value, np.uint32).tobytes())
        first: int | None = engine.submit_many([column], len(into), [memoryview(into).cast("B")])
        assert first is not None
        return first

    def works() -> None:
        assert engine.drain(LIMIT_S)
        assert collected(engine, engine.submit(words(10, 1, 2, 3))) == [11, 2, 3, 4]
        into = np.zeros((3, 4), np.uint32)
        first = batch(20, into)
        assert engine.wait_many(first, 3, timeout=LIMIT_S).failed == () and (into == 21).all()
        for ticket in range(first, first + 3):
            engine.wait(ticket, None, timeout=LIMIT_S)
        engine.forget(first)

    def one() -> None:
        ticket = engine.submit(words(5, 6, 7, 8))
        assert ticket is not None and collected(engine, ticket) == [6, 7, 8, 9]
        engine.forget(ticket)

    def many() -> None:
        into = np.zeros((2, 4), np.uint32)
        first = batch(30, into)
        engine.wait_many(first, 2, timeout=LIMIT_S)
        engine.forget(first)

    for places in Places:
        assert interrupted_everywhere((persistent,), one, works, places) > 10
        assert interrupted_everywhere((persistent,), many, works, places) > 20


def test_an_interrupted_close_does_not_close_the_ring_of_a_later_engine(backend: Backend) -> None:
    for place in count():
        ring: Ring | None = engine_of(backend)._ring
        assert ring is not None
        address, tracer = ring.address, Tracer(Places.SIGNALS, place)
        with suppress(Interrupt), tracer.tracing():
            ring.close()
        engine = engine_of(backend)
        was_raised, where = tracer.raised is not None, tracer.where
        assert was_raised or engine._ring.address == address
        tracer.raised = ring = None  # the caller drops the interrupt, and with it the ring
        assert collected(engine, engine.submit(words(5, 6, 7, 8))) == [6, 7, 8, 9], where
        if not was_raised:
            break
        engine.close()
    assert place > 3


@pytest.mark.parametrize("places", Places)
def test_an_interrupt_frees_no_memory_of_a_batch_that_runs(backend: Backend, places: Places) -> None:
    engine = engine_of(backend, ENDLESS, capacity=64)
    column = memoryview(np.zeros(4, np.uint32).tobytes())
    for place in count():
        first = engine.submit_many([column], 1, [memoryview(bytearray(16))])
        assert first is not None
        memory = ref(engine._batches[first >> layout.ROW_BITS].status)
        tracer = Tracer(places, place)
        with suppress(Interrupt), tracer.tracing():
            engine.forget(first)
            engine._sweep()
        tracer.raised, was_raised = None, tracer.raised is not None
        assert memory() is not None, tracer.where
        if not was_raised:
            break
    assert place > 8
