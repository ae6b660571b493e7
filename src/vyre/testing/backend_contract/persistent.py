"""Cases of ``PersistentExecutor``: jobs of a program that is kept running, their tickets, and the end; and of
``PersistentSteps``: steps on resident memory that resident workers run in waves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import DispatchFailed, InvalidInput, InvalidResource, TrapError
from vyre.ports.persistent import JobMemory, KeptSteps, PersistentEngine
from vyre.ports.requests import HostBytes, OutputStorage, ResidentStep
from vyre.testing.backend_contract.bench import TRAP, Bench, Data, Storage, equal, holds, refusal, view, words
from vyre.testing.backend_contract.case import Group

PERSISTENT: Final = Group("persistent", "persistent")
_LIMIT_S: Final = 60.0
_ADD: Final = """
    workgroup_size 4, 1, 1
    param a @0 u32
    buffer x @1 read_write u32[runtime]
    buffer y @2 write u32[4] output
    body { y[gid.x] = x[gid.x]  x[gid.x] = x[gid.x] + a }
    """
_ENDLESS: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { for k in 0u..4294967295u { for l in 0u..4294967295u { x[gid.x] = x[gid.x] * 3u + k } } }
    """
_ROW: Final = 16


class EngineJobs:
    """An engine whose jobs take bytes, and whose results are written to storage; everything else is the engine's.

    It keeps the memory of each job by its ticket, until the ticket is forgotten.
    """

    def __init__(self, engine: PersistentEngine) -> None:
        self.engine: Final[Any] = engine
        self._memory: dict[int, JobMemory] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def submit(self, inputs: Sequence[HostBytes], /) -> int | None:
        """Writes inputs into memory of the engine, and queues a job with them; returns None if the queue is full."""
        memory = self.engine.memory()
        for target, data in zip(memory.inputs, inputs, strict=True):
            target[:] = data
        ticket: int | None = self.engine.submit(memory)
        if ticket is None:
            self.engine.give_back(memory)
        else:
            self._memory[ticket] = memory
        return ticket

    def wait(
        self, ticket: int, outputs: OutputStorage | None = None, /, *, timeout: float | None = None
    ) -> DispatchTiming:
        """Waits for a job, writes the outputs of its memory to ``outputs``, and returns the measured times."""
        timing: DispatchTiming = self.engine.wait(ticket, timeout=timeout)
        if outputs is not None:
            views = outputs.begin(self.engine.output_nbytes)
            for view, data in zip(views, self._memory[ticket].outputs, strict=True):
                view[:] = data
        return timing

    def forget(self, ticket: int, /) -> None:
        """Forgets a ticket, and its memory."""
        self.engine.forget(ticket)
        self._memory.pop(ticket, None)


@contextmanager
def _opened(bench: Bench, kernel: str, *lengths: int, capacity: int = 4, **config: Any) -> Iterator[EngineJobs]:
    bench.need("persistent")
    assert bench.backend.persistent is not None
    engine = bench.backend.persistent.open(bench.program(kernel), DispatchConfig(**config), lengths, capacity)
    try:
        yield EngineJobs(engine)
    finally:
        engine.close()


def _submitted(engine: EngineJobs, *inputs: Data) -> int:
    ticket = engine.submit(tuple(map(view, inputs)))
    while ticket is None:
        holds(engine.wait_room(_LIMIT_S), "the queue stays full")
        ticket = engine.submit(tuple(map(view, inputs)))
    return ticket


def _result(engine: EngineJobs, ticket: int) -> tuple[bytes, ...]:
    storage = Storage()
    engine.wait(ticket, storage, timeout=_LIMIT_S)
    return storage.outputs


@PERSISTENT.case()
def a_job_equals_execute(bench: Bench) -> None:
    """A job has the bytes that ``execute`` returns, however often its place in the queue was used before."""
    with _opened(bench, _ADD, 4, _ROW) as engine:
        for number in range(11):
            inputs = words(number), words(number, 1, 2, 3)
            ticket = _submitted(engine, *inputs)
            equal(_result(engine, ticket), bench.run(_ADD, *inputs))
            holds(engine.done(ticket), "a job that was awaited is not done")
            engine.forget(ticket)
        equal(engine.output_nbytes, (_ROW, _ROW))


@PERSISTENT.case()
def results_wait_for_their_readers(bench: Bench) -> None:
    """Results of more jobs than the queue holds are those of their tickets, which grow; they are read in any order and
    more than once.
    """
    with _opened(bench, _ADD, 4, _ROW, capacity=2) as engine:
        holds(engine.capacity >= 2, f"the capacity is {engine.capacity}")
        tickets = [_submitted(engine, words(5), words(number, 0, 0, 0)) for number in range(3 * engine.capacity + 1)]
        equal(sorted(set(tickets)), tickets, "the tickets")
        for _ in range(2):
            for number, ticket in reversed(list(enumerate(tickets))):
                equal(_result(engine, ticket), (words(number + 5, 5, 5, 5), words(number, 0, 0, 0)))
        holds(engine.drain(_LIMIT_S), "jobs that have ended are under way")


@PERSISTENT.case()
def inputs_are_taken_at_submit(bench: Bench) -> None:
    """Memory that the caller changes after ``submit_many``, and memory of other jobs, does not reach the jobs."""
    with _opened(bench, _ADD, 4, _ROW, capacity=64) as engine:
        for round in range(2):  # the second time in memory that was used before
            tickets = [_submitted(engine, words(round), words(*[number] * 4)) for number in range(40)]
            spare = [engine.memory() for _ in range(40)]
            for memory in spare:
                equal(tuple(each.nbytes for each in memory.inputs), (4, _ROW), "the inputs in memory")
                equal(tuple(each.nbytes for each in memory.outputs), engine.output_nbytes, "the outputs in memory")
                for each in memory.inputs:
                    each[:] = b"\xff" * each.nbytes
            for number, ticket in enumerate(tickets):
                equal(_result(engine, ticket)[0], words(*[number + round] * 4))
                engine.forget(ticket)
            for memory in spare:
                engine.give_back(memory)
        column, into = bytearray(words(*range(64))), [bytearray(16 * _ROW), bytearray(16 * _ROW)]
        first = engine.submit_many([view(words(1)), view(column)], 16, [memoryview(each) for each in into])
        column[:] = b"\xff" * len(column)
        assert first is not None
        engine.wait_many(first, 16, timeout=_LIMIT_S)
        equal(bytes(into[0]), words(*range(1, 65)))


@PERSISTENT.case()
def a_batch_equals_its_jobs(bench: Bench) -> None:
    """A batch has a row for each job, and consecutive tickets; an input of one job is shared by all."""
    with _opened(bench, _ADD, 4, _ROW) as engine:
        jobs = min(engine.most_jobs, 300)
        into = [bytearray(b"\xee" * jobs * _ROW) for _ in range(2)]
        column = words(*range(4 * jobs))
        first = engine.submit_many([view(words(7)), view(column)], jobs, [memoryview(each) for each in into])
        assert first is not None
        equal(engine.wait_many(first, jobs, timeout=_LIMIT_S).failed, ())
        equal((bytes(into[0]), bytes(into[1])), (words(*range(7, 4 * jobs + 7)), column))
        holds(all(engine.done(first + row) for row in range(jobs)), "a job of a batch that has ended is not done")
        holds(engine.wait(first + jobs - 1, None).wall_ns >= 0, "a job took no time")


@PERSISTENT.case()
def an_error_is_that_of_its_ticket(bench: Bench) -> None:
    """A trap ends its own job; the others have their results."""
    with _opened(bench, TRAP, _ROW, capacity=8) as engine:
        tickets = [_submitted(engine, words(1, number, 2, 3)) for number in (8, 9, 10)]
        equal(_result(engine, tickets[0]), (words(2, 9, 3, 4),))
        error = refusal(TrapError, lambda: _result(engine, tickets[1]))
        equal((error.tag, error.address, error.global_id), ("nine", 1, (1, 0, 0)))
        equal(_result(engine, tickets[2]), (words(2, 11, 3, 4),))
        into = bytearray(3 * _ROW)
        column = words(1, 1, 1, 1, 2, 2, 2, 9, 3, 3, 3, 3)
        first = engine.submit_many([view(column)], 3, [memoryview(into)])
        assert first is not None
        equal(engine.wait_many(first, 3, timeout=_LIMIT_S).failed, (first + 1,))
        equal((bytes(into[:_ROW]), bytes(into[2 * _ROW :])), (words(2, 2, 2, 2), words(4, 4, 4, 4)))
        refusal(TrapError, lambda: engine.wait(first + 1, None))


@PERSISTENT.case()
def wrong_inputs_are_refused(bench: Bench) -> None:
    """Columns of other lengths are refused, and harm nothing."""
    with _opened(bench, TRAP, _ROW) as engine:
        into = [memoryview(bytearray(3 * _ROW))]
        for wrong in ((), (words(1),), (words(1, 2, 3, 4, 5),), (words(1, 2, 3, 4),) * 2):
            columns = tuple(map(view, wrong))
            refusal(InvalidInput, lambda columns=columns: engine.submit_many(columns, 3, into))  # type: ignore[misc]
        equal(_result(engine, _submitted(engine, words(1, 2, 3, 4))), (words(2, 3, 4, 5),))


@PERSISTENT.case()
def a_full_queue_is_told_and_closing_ends_every_job(bench: Bench) -> None:
    """A queue of jobs that never end is full after ``capacity`` of them, which is told at once; closing ends them."""
    with _opened(bench, _ENDLESS, _ROW, capacity=2) as engine:
        inputs = (view(words(1, 1, 1, 1)),)
        tickets = [engine.submit(inputs) for _ in range(engine.capacity + 3)]
        equal([ticket is None for ticket in tickets], [False] * engine.capacity + [True] * 3)
        into = [memoryview(bytearray(_ROW))]
        holds(engine.submit_many(inputs, 1, into) is None, "a batch found room in a full queue")
        holds(not engine.wait_room(0.01) and not engine.drain(0.01), "jobs that never end have ended")
        engine.close()
        engine.close()
        for ticket in tickets[: engine.capacity]:
            assert ticket is not None
            refusal(DispatchFailed, lambda ticket=ticket: engine.wait(ticket, None))  # type: ignore[misc]
        refusal((InvalidResource, DispatchFailed), lambda: engine.submit(inputs))


@PERSISTENT.case()
def jobs_are_counted(bench: Bench) -> None:
    """The counters tell jobs, submissions and refusals."""
    with _opened(bench, TRAP, _ROW) as engine:
        for number in range(5):
            _result(engine, _submitted(engine, words(number, 0, 0, 0)))
        first = engine.submit_many([view(words(1, 1, 1, 1))], 3, [memoryview(bytearray(3 * _ROW))])
        assert first is not None
        engine.wait_many(first, 3, timeout=_LIMIT_S)
        counts = engine.counters()
        equal((counts["jobs"], counts["submissions"], counts["full"]), (8, 6, 0))
        holds(1 <= counts["launches"] < 8, f"{counts['launches']} launches served 8 jobs")


KEPT_STEPS: Final = Group("kept_steps", "persistent_steps", "memory")
_MIX: Final = """
    workgroup_size 4, 1, 1
    param a @0 u32
    buffer x @1 read u32[runtime]
    buffer y @2 read_write u32[runtime]
    body { y[gid.x] = y[gid.x] * 3u + x[gid.x] + a }
    """
_REPLACE: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[4] output
    body { if gid.x < 2u { y[gid.x] = x[gid.x] + 1u } }
    """


@contextmanager
def _kept(bench: Bench, *parts: Sequence[Sequence[ResidentStep]]) -> Iterator[KeptSteps]:
    assert bench.backend.persistent_steps is not None
    steps = bench.backend.persistent_steps.keep(parts)
    try:
        yield steps
    finally:
        steps.close()


def _mixed(a: int, x: list[int], y: list[int]) -> list[int]:
    return [(old * 3 + new + a) % 2**32 for old, new in zip(y, x, strict=True)]


@KEPT_STEPS.case()
def waves_and_rounds_run_in_order(bench: Bench) -> None:
    """The steps of a wave see what those of the waves and rounds before wrote, in any number of rounds."""
    x, y, z = [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]
    one, two, three = (bench.holding(*each) for each in (x, y, z))
    wave = [bench.step(_MIX, words(1), one, two), bench.step(_MIX, words(2), one, three)]
    then = [bench.step(_MIX, words(3), two, one)]
    with _kept(bench, [wave, then]) as steps:
        for rounds in (1, 0, 2, 65):
            steps.run(0, rounds)
            for _ in range(rounds):
                y, z = _mixed(1, x, y), _mixed(2, x, z)
                x = _mixed(3, y, x)
            equal([bench.content(each) for each in (one, two, three)], [x, y, z])


@KEPT_STEPS.case()
def parts_are_run_by_number(bench: Bench) -> None:
    """Each run is one of the parts; an empty part does nothing.  Outputs hold zeros when a step begins."""
    x, y, zeros = bench.holding(1, 2, 3, 4), bench.holding(9, 9, 9, 9), bench.holding(0, 0, 0, 0)
    with _kept(bench, [[bench.step(_MIX, words(0), zeros, x)]], [], [[bench.step(_REPLACE, x, y)]]) as steps:
        for part, times in ((0, 2), (1, 3), (2, 1)):
            steps.run(part, times)
        equal((bench.content(x), bench.content(y)), ([9, 18, 27, 36], [10, 19, 0, 0]))


@KEPT_STEPS.case()
def host_bytes_are_read_once(bench: Bench) -> None:
    """Host bytes that change after ``keep`` do not reach the steps."""
    x, y, data = bench.holding(0, 0, 0, 0), bench.holding(1, 1, 1, 1), bytearray(words(5))
    with _kept(bench, [[bench.step(_MIX, memoryview(data), x, y)]]) as steps:
        data[:] = words(7)
        steps.run(0, 1)
        equal(bench.content(y), [8, 8, 8, 8])


@KEPT_STEPS.case()
def a_failure_keeps_later_waves_from_running(bench: Bench) -> None:
    """A trap is raised as that of a dispatch; what the waves before wrote remains, and the steps can be run again."""
    x, y, zeros = bench.holding(1, 8, 2, 3), bench.holding(1, 1, 1, 1), bench.holding(0, 0, 0, 0)
    more = bench.step(_MIX, words(0), zeros, y)
    with _kept(bench, [[more], [bench.step(TRAP, x)], [more]], [[more]]) as steps:
        error = refusal(TrapError, lambda: steps.run(0, 5))
        equal((error.tag, error.address, error.global_id), ("nine", 1, (1, 0, 0)))
        equal(bench.content(y), [27, 27, 27, 27])
        steps.run(1, 1)
        equal(bench.content(y), [81, 81, 81, 81])


@KEPT_STEPS.case()
def nothing_is_launched_for_a_run(bench: Bench) -> None:
    """One launch serves many runs, of one submission and one wait each; timings say that nothing was launched."""
    x, zeros = bench.holding(1, 1, 1, 1), bench.holding(0, 0, 0, 0)
    step = bench.step(_MIX, words(1), zeros, x)
    assert bench.backend.persistent_steps is not None
    holds(bench.backend.persistent_steps.most_steps >= 1 and bench.backend.persistent_steps.workers >= 1, "no workers")
    with _kept(bench, [[step], [step]]) as steps:
        for _ in range(5):
            ran = steps.run(0, 4)
            equal((ran.submissions, ran.timing.launches), (1, 0))
        counts = steps.counters()
        equal((counts["jobs"], counts["submissions"], counts["waits"]), (40, 5, 5))
        holds(1 <= counts["launches"] < 5, f"{counts['launches']} launches served 5 runs")


@KEPT_STEPS.case()
def closed_steps_are_refused(bench: Bench) -> None:
    """Closing is idempotent; closed steps, and steps on closed memory, are refused."""
    x, y = bench.holding(1, 1, 1, 1), bench.holding(0, 0, 0, 0)
    part = [[bench.step(_MIX, words(1), y, x)]]
    with _kept(bench, part) as steps:
        steps.close()
        steps.close()
        refusal(InvalidResource, lambda: steps.run(0, 1))
    with _kept(bench, part) as steps:
        steps.run(0, 1)
        y.close()
        refusal(InvalidResource, lambda: steps.run(0, 1))
        equal(bench.content(x), [4, 4, 4, 4])
