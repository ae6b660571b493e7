"""Sessions that keep a program running: tickets, batches, callbacks and awaiting, full queues, and the end."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre
from support.cpu.backends import ENDLESS
from support.cpu.pool import until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.profiles import SOAK
from support.small_programs import saxpy_program, square_program
from support.storms.interrupt_storm import Places
from support.storms.interrupts import interrupted_everywhere
from vyre.adapters.cpu.runtime import persistent
from vyre.adapters.cpu.runtime.persistent import CpuEngine
from vyre.adapters.cuda.runtime.engine import CudaEngine
from vyre.app.persistent import jobs as jobs_module
from vyre.app.persistent import queues, tickets
from vyre.testing.backend_contract.bench import parsed

pytestmark = NEEDS_LLVM

SAXPY = saxpy_program()
SQUARE = square_program()
X = np.arange(100, dtype=np.float32)
FDS = Path("/proc/self/fd")
STATM = Path("/proc/self/statm")


def opened(backend: str) -> vyre.Session:
    return vyre.open("cpu", threads=2) if backend == "cpu" else vyre.open(backend)


@pytest.fixture(scope="module", params=["cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with opened(request.param) as made:
        yield made


def named(a: float, y: Any = X) -> dict[str, Any]:
    return {"a": a, "x": X, "y": y}


def flags() -> vyre.Program:
    with vyre.ProgramBuilder("flags", workgroup=64) as p:
        c = p.input("c", vyre.bool_)
        d = p.output("d", vyre.bool_, like=c)
        i = p.global_id()
        with p.if_(i < c.length):
            d[i] = ~c[i]
    return p.build()


# ---------------------------------------------------------------- results
def test_a_result_is_that_of_a_dispatch(session: vyre.Session) -> None:
    with session.persistent(SAXPY) as jobs:
        for a in (0.0, 1.5, -3.0):
            ticket, want = jobs.submit(named(a)), session.dispatch(SAXPY, named(a))
            found = ticket.result(LIMIT_S)
            assert found["y"].tobytes() == want["y"].tobytes() and found["y"].dtype == want["y"].dtype
            assert found.launch == want.launch and found.backend == session.backend
            assert ticket.done() and ticket.result() is found and ticket.exception() is None
        assert jobs.counters()["launches"] == 1


def test_inputs_may_have_other_lengths_and_shapes(session: vyre.Session) -> None:
    with session.persistent(SQUARE, capacity=2) as jobs:
        for count in (1, 5, 64, 1000):
            x = np.arange(count, dtype=np.uint32)
            assert (jobs.submit({"x": x}).result(LIMIT_S)["y"] == x * x).all()
        assert jobs.counters()["launches"] == 4
    with session.persistent(SAXPY) as jobs:
        y = np.ones((10, 10), np.float32)
        assert jobs.submit(named(1.0, y)).result(LIMIT_S)["y"].shape == (10, 10)


def test_too_many_lengths_are_refused(session: vyre.Session) -> None:
    with session.persistent(SQUARE, capacity=2) as jobs:
        for count in range(1, 9):
            jobs.submit([np.zeros(count, np.uint32)])
        with pytest.raises(vyre.InvalidInput, match="other combinations of lengths"):
            jobs.submit([np.zeros(9, np.uint32)])


def test_an_example_opens_the_engine_ahead(session: vyre.Session) -> None:
    with session.persistent(SAXPY, named(1.0)) as jobs:
        assert jobs.counters()["launches"] == 1
        assert jobs.submit(named(1.0)).result(LIMIT_S)["y"].tobytes() == (X + X).tobytes()


def test_a_batch_is_many_dispatches(session: vyre.Session) -> None:
    a, y = np.arange(300, dtype=np.float32), np.arange(30_000, dtype=np.float32).reshape(300, 100)
    with session.persistent(SAXPY) as jobs:
        batch = jobs.submit_many({"a": a, "x": X, "y": y})
        found = batch.result(LIMIT_S)["y"]
        assert found.shape == (300, 100) and found.tobytes() == (a[:, None] * X + y).tobytes()
        assert len(batch) == 300 and batch.done() and batch.errors() == {} and batch.wait() == 0
        rows = [result["y"] for result in batch]
        assert [row.tobytes() for row in rows] == [row.tobytes() for row in found]
        assert batch[-1].result()["y"].tobytes() == found[299].tobytes()
        ended = [ticket.index for ticket in batch.as_completed(LIMIT_S)]
        assert sorted(ended) == list(range(300))
        assert len(jobs.submit_many({"a": 1.0, "x": X, "y": X}, jobs=3).result(LIMIT_S)["y"]) == 3
        assert len(jobs.submit_many({"a": a[:0], "x": X, "y": X})) == 0


def test_batches_of_more_jobs_than_an_entry_holds() -> None:
    x = np.arange(150_000, dtype=np.uint32)[:, None]
    with opened("cpu") as session, session.persistent(SQUARE) as jobs:
        batch = jobs.submit_many({"x": x})
        assert (batch.result(LIMIT_S)["y"] == x * x).all()
        assert batch[149_999].result()["y"].tolist() == [149_999 * 149_999 & 0xFFFF_FFFF]
        assert jobs.counters()["submissions"] == 3


def test_truth_values_are_converted_like_those_of_a_dispatch(session: vyre.Session) -> None:
    c = np.array([[True, False, True], [False, False, True]])
    with session.persistent(flags()) as jobs:
        assert jobs.submit({"c": c[0]}).result(LIMIT_S)["d"].tolist() == [False, True, False]
        found = jobs.submit_many({"c": c})
        assert found.result(LIMIT_S)["d"].tolist() == (~c).tolist()
        assert found[1].result()["d"].tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("columns", "jobs", "message"),
    [
        ({"a": 1.0, "x": X, "y": X}, None, "no input with a row for each job"),
        ({"a": np.zeros(3, np.float32), "x": X, "y": np.zeros((4, 100), np.float32)}, None, "`y` has 4 rows for 3"),
        ({"a": np.zeros(3, np.float32), "x": X, "y": X}, 2, "`a` has 3 rows for 2"),
        ({"a": np.zeros(3), "x": X, "y": X}, None, "`a` holds f32"),
        ({"a": np.zeros(3, np.float32), "x": X}, None, "`y` is missing"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    session: vyre.Session, columns: dict[str, Any], jobs: int | None, message: str
) -> None:
    with session.persistent(SAXPY) as kept, pytest.raises(vyre.InvalidInput, match=message):
        kept.submit_many(columns, jobs)


# ---------------------------------------------------------------- errors
def traps() -> vyre.Program:
    with vyre.ProgramBuilder("traps", workgroup=4) as p:
        x = p.inout("x", vyre.u32)
        i = p.global_id()
        with p.if_(x[i] == 13):
            p.trap(i, "unlucky")
        x[i] = x[i] + 1
    return p.build()


def test_an_error_is_that_of_its_ticket(session: vyre.Session) -> None:
    column = np.array([[1] * 4, [13] * 4, [5] * 4], np.uint32)
    with session.persistent(traps()) as jobs:
        tickets = [jobs.submit([row]) for row in column]
        assert [type(ticket.exception(LIMIT_S)) for ticket in tickets] == [type(None), vyre.TrapError, type(None)]
        assert tickets[2].result()["x"].tolist() == [6] * 4
        for _ in range(2):
            with pytest.raises(vyre.TrapError, match="unlucky"):
                tickets[1].result()
        batch = jobs.submit_many([column])
        with pytest.raises(vyre.TrapError, match="unlucky"):
            batch.result(LIMIT_S)
        assert batch.wait() == 1 and list(batch.errors()) == [1]
        assert batch[0].result()["x"].tolist() == [2] * 4 and batch[2].result()["x"].tolist() == [6] * 4
        with pytest.raises(vyre.TrapError):
            list(batch)


TRAPS = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body {
      if x[gid.x] % 7u == 3u { trap(x[gid.x], "unlucky") }
      x[gid.x] = x[gid.x] + 1u
    }
    """)


def test_results_are_collected_while_others_are_submitted() -> None:
    """Jobs that nobody has collected yet take no more memory than a queue of them, and each keeps its own end."""
    with opened("cpu") as session, session.persistent(TRAPS, capacity=16, backpressure=True) as jobs:
        tickets = [jobs.submit([np.full(4, n, np.uint32)]) for n in range(2000)]
        (engine,) = jobs.engines
        assert isinstance(engine, CpuEngine) and len(engine._all) <= 4 * 16
        for n, ticket in reversed(list(enumerate(tickets))):
            error = ticket.exception(LIMIT_S)
            if n % 7 == 3:
                assert isinstance(error, vyre.TrapError) and error.address == n
            else:
                assert error is None and ticket.result()["x"].tolist() == [n + 1] * 4


def test_threads_may_collect_a_ticket_at_once(session: vyre.Session) -> None:
    """Whoever comes second gets the result of the ticket, though its memory may be that of another job by then."""
    wrong: list[tuple[int, int]] = []
    with session.persistent(SQUARE, capacity=4, backpressure=True) as jobs:
        for round in range(60):
            tickets = [jobs.submit([np.full(64, 3 * round + n, np.uint32)]) for n in range(3)]

            def collect(round: int = round, tickets: list[vyre.Ticket] = tickets) -> None:
                for n, ticket in enumerate(tickets):
                    found = ticket.result(LIMIT_S)["y"]
                    if (found != (3 * round + n) ** 2).any():
                        wrong.append((round, n))

            threads = [threading.Thread(target=collect) for _ in range(3)]
            for thread in threads:
                thread.start()
            jobs.submit([np.full(64, 9, np.uint32)])
            for thread in threads:
                thread.join(LIMIT_S)
            assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_an_interrupt_anywhere_mixes_up_no_jobs() -> None:
    """Wherever Ctrl-C comes, also while the result of another job is collected, later jobs have their own results."""
    with opened("cpu") as session, session.persistent(SQUARE, capacity=4, backpressure=True) as jobs:
        before: list[vyre.Ticket] = []  # an interrupt where one of them is dropped would not leave the action

        def run() -> None:
            before.append(jobs.submit([np.full(4, 5, np.uint32)]))
            jobs.flush(LIMIT_S)
            before.append(jobs.submit([np.full(4, 5, np.uint32)]))
            assert before[-1].result(LIMIT_S)["y"].tolist() == [25] * 4

        def works() -> None:
            found = [jobs.submit([np.full(4, n, np.uint32)]) for n in range(9)]
            assert [ticket.result(LIMIT_S)["y"].tolist() for ticket in found] == [[n * n] * 4 for n in range(9)]
            assert all(ticket.result(LIMIT_S)["y"].tolist() == [25] * 4 for ticket in before)
            before.clear()

        modules = jobs_module, tickets, queues, persistent
        assert interrupted_everywhere(modules, run, works) > 60
        assert interrupted_everywhere(modules, run, works, Places.SIGNALS, every=3) > 40


@pytest.mark.parametrize(
    "moment", ["before the job", "while a ticket is made", "after the job", "once it has a number"]
)
@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_no_memory_is_that_of_two_jobs_after_an_interrupt(
    backend: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ticket that is dropped on the way gives its memory back, and so does the interrupted call: one of them may."""
    with opened(backend) as session, session.persistent(SQUARE, capacity=8, backpressure=True) as jobs:
        four = np.full(4, 4, np.uint32)
        assert jobs.submit([four]).result(LIMIT_S)["y"].tolist() == [16] * 4
        (queue,) = jobs._queues.values()
        submit = queue.engine.submit

        def interrupt(*args: Any) -> None:
            if moment == "while a ticket is made":
                tickets.Ticket(*args)  # and it is gone before the call sees the interrupt
            if moment == "after the job":
                submit(args[-1])
            raise KeyboardInterrupt

        owner: dict[str, tuple[object, str]] = {
            "after the job": (type(queue.engine), "submit"),
            "once it has a number": (queues.JobQueue, "add"),
        }
        with monkeypatch.context() as patch:
            patch.setattr(*owner.get(moment, (jobs_module, "Ticket")), interrupt)
            for _ in range(9):  # more than there are places
                with pytest.raises(KeyboardInterrupt):
                    jobs.submit([four])
        for first in range(0, 80, 8):
            several = [jobs.submit([np.full(4, first + n, np.uint32)]) for n in range(8)]
            assert [t.result(LIMIT_S)["y"][0] for t in several] == [(first + n) ** 2 for n in range(8)]
        if isinstance(queue.engine, persistent.CpuEngine):
            assert len(queue.engine._free) == len(set(queue.engine._free))


@pytest.mark.parametrize(("places", "lost"), [(Places.LINES, 0), (Places.SIGNALS, 3)])
def test_an_interrupted_submission_keeps_no_memory(places: Places, lost: int) -> None:
    """The memory of the job comes back once it cannot be under way, and not before the engine has ended.

    ``lost``: what is on its way from one call to the next, which nobody has at that instruction, is lost with it.
    """
    with opened("cpu") as session, session.persistent(SQUARE, capacity=4, backpressure=True) as jobs:
        four, five = np.full(4, 4, np.uint32), np.full(4, 5, np.uint32)
        assert jobs.submit([four]).result(LIMIT_S)["y"].tolist() == [16] * 4
        (queue,) = jobs._queues.values()
        engine = queue.engine
        assert isinstance(engine, persistent.CpuEngine)

        def run() -> None:
            jobs.submit([five])

        def works() -> None:
            jobs.flush(LIMIT_S)
            assert jobs.submit([four]).result(LIMIT_S)["y"].tolist() == [16] * 4
            while queue._tickets:
                queue._tickets.popleft()
            engine._sweep()
            assert not engine._jobs and not engine._abandoned and not engine._dropped
            assert engine._all.issuperset(engine._free) and len(engine._free) == len(set(engine._free))
            assert len(engine._all) <= len(engine._free) + lost

        assert interrupted_everywhere((jobs_module,), run, works, places) > 8


def ended(run: Callable[[Any], vyre.Result], inputs: Any) -> tuple[object, ...]:
    try:
        found = run(inputs)["y"]
    except vyre.VyreError as error:
        return type(error), str(error)
    return found.tobytes(), found.dtype, found.shape


def test_every_kind_of_inputs_has_the_bytes_and_errors_of_a_dispatch(session: vyre.Session) -> None:
    """Also where the job before had other lengths, so that another engine takes it."""
    x = np.arange(12, dtype=np.uint32)
    given: list[Any] = [
        {"x": x},
        [x[:5]],
        (x.reshape(3, 4),),
        {"x": x[::2]},
        {"x": x.tolist()},
        {"x": x.tobytes()},
        {"x": x.astype(np.float32)},
        {"x": x.astype(">u4")},
        {"z": x},
        [],
        None,
    ]
    with session.persistent(SQUARE) as jobs:
        for _ in range(2):
            for inputs in given:
                found = ended(lambda given: jobs.submit(given).result(LIMIT_S), inputs)
                assert found == ended(lambda given: session.dispatch(SQUARE, given), inputs)


def test_resident_arrays_are_refused(session: vyre.Session) -> None:
    memory = session.resident(np.zeros(4, np.uint32))
    with session.persistent(SQUARE) as jobs:
        for inputs in ({"x": memory}, [memory]):
            with pytest.raises(vyre.InvalidInput, match="take host data"):
                jobs.submit(inputs)
    memory.close()


def test_a_full_queue_is_an_error_or_waited_for(session: vyre.Session) -> None:
    zeros = [np.zeros(4, np.uint32)]
    with pytest.raises(vyre.QueueFull, match=r"full.*backpressure"), session.persistent(ENDLESS, capacity=2) as jobs:
        for _ in range(2):
            assert jobs.try_submit(zeros) is not None
        assert jobs.try_submit(zeros) is None
        jobs.submit(zeros)
    with session.persistent(SQUARE, capacity=2, backpressure=True) as jobs:
        tickets = [jobs.submit([np.full(4, n, np.uint32)]) for n in range(500)]
        assert [int(ticket.result(LIMIT_S)["y"][0]) for ticket in tickets] == [n * n for n in range(500)]


def test_waiting_has_a_limit(session: vyre.Session) -> None:
    jobs = session.persistent(ENDLESS, capacity=4)
    ticket, batch = jobs.submit([np.zeros(4, np.uint32)]), jobs.submit_many([np.zeros((2, 4), np.uint32)])
    for wait in (ticket.result, ticket.exception, batch.result, batch.wait, batch[1].result, jobs.flush):
        with pytest.raises(TimeoutError):
            wait(0.01)
    for endless in (batch.as_completed, lambda limit: jobs.as_completed([ticket], limit)):
        with pytest.raises(TimeoutError):
            next(endless(0.01))
    for wrong in (-1, "1", True, float("nan")):
        with pytest.raises(vyre.InvalidConfig, match="timeout"):
            ticket.result(wrong)  # type: ignore[arg-type]
    assert not ticket.done() and not batch.done()
    jobs.close()
    assert isinstance(ticket.exception(), vyre.DispatchFailed) and len(batch.errors()) == 2


def test_an_exception_in_the_block_stops_jobs(session: vyre.Session) -> None:
    with pytest.raises(KeyError), session.persistent(ENDLESS) as jobs:
        ticket = jobs.submit([np.zeros(4, np.uint32)])
        raise KeyError
    with pytest.raises(vyre.DispatchFailed, match="closed"):
        ticket.result()
    with pytest.raises(vyre.InvalidResource, match="after close"):
        jobs.submit_many([np.zeros((1, 4), np.uint32)])
    with pytest.raises(vyre.InvalidResource, match="after close"), jobs:
        pass
    assert jobs.closed


def test_leaving_the_block_waits_for_jobs(session: vyre.Session) -> None:
    with session.persistent(SQUARE, capacity=256) as jobs:
        tickets = [jobs.submit([np.full(1000, n, np.uint32)]) for n in range(200)]
    assert all(ticket.done() for ticket in tickets)
    assert [int(ticket.result()["y"][0]) for ticket in tickets] == [n * n for n in range(200)]


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_closing_the_session_ends_jobs(backend: str) -> None:
    own = opened(backend)
    jobs = own.persistent(ENDLESS)
    ticket = jobs.submit([np.zeros(4, np.uint32)])
    own.close()
    assert isinstance(ticket.exception(LIMIT_S), vyre.DispatchFailed) and jobs.closed
    with pytest.raises(vyre.VyreError, match="closed"):
        jobs.submit([np.zeros(4, np.uint32)])
    with pytest.raises(vyre.InvalidResource, match="session is closed"):
        own.persistent(SQUARE)
    jobs.close()


def test_dropped_jobs_warn_and_end(session: vyre.Session) -> None:
    jobs = session.persistent(ENDLESS)
    jobs.submit([np.zeros(4, np.uint32)])
    with pytest.warns(ResourceWarning, match="never closed"):
        del jobs
        gc.collect()


def test_backends_without_engines_say_so() -> None:
    refused = pytest.raises(vyre.UnsupportedFeature, match=r"persistent engines.*Fix: open the backend `cpu`")
    with vyre.open("reference") as other, refused:
        other.persistent(SQUARE)


# ---------------------------------------------------------------- as they end
def test_callbacks_are_called_once_each(session: vyre.Session) -> None:
    seen: list[int] = []
    with session.persistent(SQUARE, capacity=64) as jobs:
        tickets = [jobs.submit([np.full(4, n, np.uint32)]) for n in range(50)]
        for number, ticket in enumerate(tickets):
            ticket.add_done_callback(lambda _, number=number: seen.append(number))  # type: ignore[misc]
        until(lambda: len(seen) == 50)
        batch = jobs.submit_many([np.zeros((20, 4), np.uint32)])
        for index in range(20):
            batch[index].add_done_callback(lambda _, index=index: seen.append(100 + index))  # type: ignore[misc]
        with pytest.raises(vyre.InvalidConfig, match="callback"):
            tickets[0].add_done_callback("no function")  # type: ignore[arg-type]
    assert sorted(seen) == [*range(50), *range(100, 120)]


def test_callbacks_of_stopped_jobs_are_called_when_it_closes(session: vyre.Session) -> None:
    seen: list[BaseException | None] = []
    jobs = session.persistent(ENDLESS, capacity=8)
    for _ in range(3):
        jobs.submit([np.zeros(4, np.uint32)]).add_done_callback(lambda ticket: seen.append(ticket.exception()))
    jobs.close()
    assert [type(error) for error in seen] == [vyre.DispatchFailed] * 3


def test_an_error_in_a_callback_is_told_and_ends_nothing(
    session: vyre.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: told.append(arguments.exc_type))
    with session.persistent(SQUARE) as jobs:
        for _ in range(2):
            jobs.submit([np.zeros(4, np.uint32)]).add_done_callback(lambda _: {"": 0}["key"])
    assert told == [KeyError, KeyError]


def test_tickets_are_awaited_in_event_loops(session: vyre.Session) -> None:
    async def value(ticket: vyre.Ticket) -> int:
        return int((await ticket)["y"][0])

    async def work(jobs: vyre.PersistentJobs) -> list[int]:
        tickets = [jobs.submit([np.full(4, n, np.uint32)]) for n in range(40)]
        batch = jobs.submit_many([np.arange(20, dtype=np.uint32)[:, None].repeat(4, 1)])
        return list(await asyncio.gather(*map(value, [*tickets, *(batch[index] for index in range(20))])))

    with session.persistent(SQUARE, capacity=64) as jobs:
        for _ in range(3):  # three loops, one after the other
            assert asyncio.run(asyncio.wait_for(work(jobs), LIMIT_S)) == [n * n for n in (*range(40), *range(20))]


def test_awaiting_ends_when_the_engine_is_closed_and_can_be_cancelled(session: vyre.Session) -> None:
    jobs = session.persistent(ENDLESS, capacity=8)

    async def work() -> None:
        ticket = jobs.submit([np.zeros(4, np.uint32)])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ticket, 0.01)
        asyncio.get_running_loop().call_later(0.01, threading.Thread(target=jobs.close).start)
        with pytest.raises(vyre.DispatchFailed):
            await asyncio.wait_for(ticket, LIMIT_S)

    asyncio.run(work())


def test_results_come_as_they_end(session: vyre.Session) -> None:
    program = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[runtime]
        body {
          if x[0u] == 1u { for k in 0u..4294967295u { for l in 0u..4294967295u { x[gid.x] = x[gid.x] * 3u + k } } }
          x[gid.x] = x[gid.x] + 1u
        }
        """)
    jobs = session.persistent(program, capacity=8)
    slow = jobs.submit([np.ones(4, np.uint32)])
    quick = [jobs.submit([np.zeros(4, np.uint32)]) for _ in range(4)]
    ended = jobs.as_completed([slow, *quick], LIMIT_S)
    assert {next(ended) for _ in range(4)} == set(quick)
    jobs.close()
    assert next(ended) is slow and list(ended) == []
    with pytest.raises(vyre.InvalidInput, match="tickets"):
        jobs.as_completed([1])  # type: ignore[list-item]


def test_no_descriptor_is_left(session: vyre.Session) -> None:
    def work() -> None:
        with session.persistent(SQUARE) as jobs:
            tickets = [jobs.submit([np.zeros(4, np.uint32)]) for _ in range(10)]
            tickets[0].add_done_callback(lambda _: None)
            list(jobs.as_completed(tickets, LIMIT_S))

    work()
    if not FDS.is_dir():
        pytest.skip("this platform does not show descriptors")
    before = len(list(FDS.iterdir()))
    for _ in range(20):
        work()
    assert len(list(FDS.iterdir())) <= before


def test_dropped_tickets_keep_no_result(session: vyre.Session) -> None:
    """Neither those of jobs that have ended, nor those of jobs that have not begun."""
    with session.persistent(SQUARE, capacity=4) as jobs:
        kept = jobs.submit([np.full(4, 3, np.uint32)])
        for _ in range(50):
            until(lambda: jobs.try_submit([np.zeros(4, np.uint32)]) is not None)
        jobs.submit_many([np.zeros((100, 4), np.uint32)])
        jobs.flush(LIMIT_S)
        (engine,) = jobs.engines
        assert isinstance(engine, CpuEngine | CudaEngine)

        def wanted() -> int:
            return len(engine._jobs) + len(engine._batches) if isinstance(engine, CpuEngine) else len(engine._entries)

        assert wanted() <= 1  # the engine has forgotten a job whose result was collected early
        assert int(kept.result()["y"][0]) == 9
        assert wanted() == 0


@pytest.mark.skipif(not STATM.is_file(), reason="this platform does not tell the memory of a process")
def test_many_engines_leave_nothing_behind(session: vyre.Session) -> None:
    """The memory of one for every entry of its ring, threads and descriptors would add up."""

    def work(times: int) -> None:
        for _ in range(times):
            with session.persistent(SQUARE, capacity=1024) as jobs:
                assert int(jobs.submit([np.full(4, 3, np.uint32)]).result(LIMIT_S)["y"][0]) == 9

    def pages() -> int:
        return int(STATM.read_text().split()[1])

    engines = 1000 if SOAK else 200
    work(100)
    before, threads = pages(), threading.active_count()
    work(engines)
    grown = (pages() - before) * os.sysconf("SC_PAGE_SIZE")
    assert grown < engines * 1024 * 128 // 8, "an eighth of what their entries take"
    assert threading.active_count() <= threads + 2, "none for each"
    assert session.metrics()["persistent_jobs"] >= 100 + engines


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_fork_is_refused_and_harms_nothing(session: vyre.Session) -> None:
    with session.persistent(SQUARE) as jobs:
        ticket = jobs.submit([np.full(4, 3, np.uint32)])
        child = os.fork()
        if not child:
            code = 1
            try:
                jobs.submit([np.full(4, 3, np.uint32)])
            except vyre.VyreError as error:
                code = 0 if "fork" in str(error) else 2
            jobs.close()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert int(ticket.result(LIMIT_S)["y"][0]) == 9
