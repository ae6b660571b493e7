"""Repeats within command lists: how many rounds run, and where a run within one ends."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import addressof, c_uint32, c_uint64

import pytest

from support.cpu.pool import Frame, entries, kernels, until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.pool.commands import MOST_NESTED, Command, CommandList, Copy, Fill, Kernel, Repeat
from vyre.adapters.cpu.pool.job import Job
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.domain.errors import UnsupportedFeature

pytestmark = NEEDS_LLVM

WAYS = ["run_short", "run"]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(entries(), size=2, cpus=2)
    yield made
    assert made.close()


def run(pool: WorkerPool, way: str, job: Job) -> Outcome:
    return pool.run_short(job) if way == "run_short" else pool.run(job)


class Tape:
    """Values of a flag, one for each round: ``command`` shows the next of them at ``flag``, by shifting the tape."""

    def __init__(self, *values: int) -> None:
        self.values = (c_uint32 * (len(values) + 1))(9, *values)
        self.spare = (c_uint32 * len(values))()
        self.flag = addressof(self.values)
        size = 4 * len(values)
        self.commands: tuple[Command, ...] = (
            Copy(addressof(self.spare), self.flag + 4, size),
            Copy(self.flag, addressof(self.spare), size),
        )


def counting(frame: Frame, threads: int = 1) -> Kernel:
    """Adds 1 + 2 + ... + 8 to element 0 of the frame, with one group a number."""
    return Kernel(kernels()["spread"], frame.address, 8, 1, threads)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("limit", [0, 1, 7, 1000])
def test_without_a_word_all_rounds_run(pool: WorkerPool, way: str, threads: int, limit: int) -> None:
    frame, rounds = Frame(1), c_uint64(99)
    repeat = Repeat((counting(frame, threads),), 0, limit, addressof(rounds))
    job = pool.job(CommandList([repeat, counting(frame)]))
    for run_number in (1, 2):
        assert run(pool, way, job) is Outcome.COMPLETED
        assert (frame.data[0], rounds.value) == (run_number * 36 * (limit + 1), limit)
        assert job.executed == 2 + limit
        assert job.last == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("start", "limit", "expected"), [(0, 10, 0), (1, 0, 0), (1, 10, 4), (1, 3, 3), (1 << 31, 2**64 - 1, 4)]
)
def test_a_word_that_is_read_before_each_round(
    pool: WorkerPool, way: str, start: int, limit: int, expected: int
) -> None:
    tape, frame, rounds = Tape(5, 1, 1 << 31, 0, 1, 1, 1, 1, 1, 1), Frame(1), c_uint64()
    tape.values[0] = start
    body = (counting(frame), *tape.commands)
    assert run(pool, way, pool.job(CommandList([Repeat(body, tape.flag, limit, addressof(rounds))]))) is (
        Outcome.COMPLETED
    )
    assert (frame.data[0], rounds.value) == (36 * expected, expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("limit", "expected", "left"), [(0, 0, 9), (1, 1, 1), (3, 3, 1), (4, 4, 0), (9, 4, 0)])
def test_a_word_that_is_cleared_before_each_round(
    pool: WorkerPool, way: str, limit: int, expected: int, left: int
) -> None:
    """The kernel of rounds 1 to 3 sets the word; nothing touches it in the fourth."""
    tape, frame, flag, rounds = Tape(1, 1, 1, 0, 1, 1, 1, 1, 1), Frame(1), c_uint32(9), c_uint64()
    seen = (c_uint32 * 2)()
    note = Copy(addressof(seen), addressof(flag), 4)
    body = (note, counting(frame), *tape.commands, Copy(addressof(flag), tape.flag, 4))
    repeat = Repeat(body, addressof(flag), limit, addressof(rounds), cleared=True)
    assert run(pool, way, pool.job(CommandList([repeat]))) is Outcome.COMPLETED
    assert (frame.data[0], rounds.value, flag.value) == (36 * expected, expected, left)
    assert seen[0] == 0  # what the round saw before it wrote the word


def test_the_limit_may_change_between_runs(pool: WorkerPool) -> None:
    frame, rounds = Frame(1), c_uint64()
    listed = CommandList([Fill(frame.buffer, 0, 8), Repeat((counting(frame),), 0, 5, addressof(rounds))])
    job = pool.job(listed)
    for limit in (5, 2, 0, 8):
        listed.set_limit(1, limit)
        assert pool.run(job) is Outcome.COMPLETED
        assert (frame.data[0], rounds.value) == (36 * limit, limit)


@pytest.mark.parametrize("way", WAYS)
def test_repeats_within_repeats(pool: WorkerPool, way: str) -> None:
    frame, inner, outer = Frame(1), c_uint64(), c_uint64()
    most = Repeat((counting(frame), Repeat((), 0, 3), counting(frame)), 0, 5, addressof(inner))
    listed = CommandList([Repeat((most, counting(frame)), 0, 4, addressof(outer)), counting(frame)], [most], 2)
    assert (listed.prefix, listed.repeated) == (7, 4)
    assert run(pool, way, pool.job(listed)) is Outcome.COMPLETED
    assert frame.data[0] == 36 * (4 * (5 * 2 + 1) + 1 + 2 * 5 * 2)
    assert (inner.value, outer.value) == (5, 4)


def test_too_many_levels_are_refused(pool: WorkerPool) -> None:
    frame = Frame(1)
    command: Command = counting(frame)
    for _ in range(MOST_NESTED):
        command = Repeat((command,), 0, 2)
    assert pool.run(pool.job(CommandList([command]))) is Outcome.COMPLETED
    assert frame.data[0] == 36 << MOST_NESTED
    with pytest.raises(UnsupportedFeature, match="16 loops within one another"):
        CommandList([Repeat((command,), 0, 2)])


# ---------------------------------------------------------------- ends within a repeat
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("cleared", [False, True])
def test_a_trap_ends_the_rounds(pool: WorkerPool, way: str, threads: int, cleared: bool) -> None:
    frame, flag, rounds = Frame(1), c_uint32(1), c_uint64()
    trap = Kernel(kernels()["trapping"], frame.address, 20, 2, threads)
    stay = Fill(addressof(flag), 1, 1)
    inner = Repeat((stay, counting(frame), trap, counting(frame)), addressof(flag), 50, addressof(rounds), cleared)
    job = pool.job(CommandList([Repeat((counting(frame), inner), 0, 3), counting(frame)]))
    assert run(pool, way, job) is Outcome.TRAPPED
    assert (frame.data[0], rounds.value, job.last) == (72, 1, 5)
    assert job.trap is not None


@pytest.mark.parametrize("way", WAYS)
def test_an_exceeded_budget_ends_the_rounds(pool: WorkerPool, way: str) -> None:
    frame = Frame(1)
    over = Kernel(kernels()["exceeding"], frame.address, 20)
    job = pool.job(CommandList([Repeat((counting(frame), over), 0, 1 << 60)]))
    assert run(pool, way, job) is Outcome.OVER_BUDGET
    assert (frame.data[0], job.last, job.budget_lane) == (36, 2, 3)


@pytest.mark.parametrize("body", ["kernel", "nothing"])
@pytest.mark.parametrize("cleared", [False, True])
def test_endless_rounds_are_stopped(pool: WorkerPool, body: str, cleared: bool) -> None:
    frame, flag, rounds = Frame(1), c_uint32(1), c_uint64()
    commands: tuple[Command, ...] = (counting(frame), Fill(addressof(flag), 1, 1)) if body == "kernel" else ()
    word = addressof(flag) if commands or not cleared else 0
    job = pool.job(CommandList([Repeat(commands, word, rounds=addressof(rounds), cleared=cleared)]))
    pool.submit(job)
    until(lambda: rounds.value > 100)
    job.stop(StopReason.REQUESTED)
    assert pool.wait(job, LIMIT_S)
    assert (job.outcome, job.stop_reason) == (Outcome.STOPPED, StopReason.REQUESTED)


def test_endless_rounds_time_out(pool: WorkerPool) -> None:
    frame, flag = Frame(1), c_uint32(1)
    for timeout_s in (0.01, 0.1, 1.0, 10.0):  # a busy machine may not begin in the first one
        job = pool.job(CommandList([Repeat((counting(frame),), addressof(flag))]))
        job.set_timeout(timeout_s)
        assert pool.run(job) is Outcome.STOPPED
        assert job.stop_reason is StopReason.TIMEOUT
        if frame.data[0] > 0:
            break
    assert frame.data[0] > 0


def test_a_command_before_the_first_is_none(pool: WorkerPool) -> None:
    job = pool.job(CommandList([]))
    assert pool.run(job) is Outcome.COMPLETED
    assert job.last == 0


def test_scratch_and_threads_of_nested_commands_count(pool: WorkerPool) -> None:
    frame = Frame(2)
    frame.data[1] = 70_000
    scratching = Kernel(kernels()["scratching"], frame.address, 40, 1, 6, 70_000)
    listed = CommandList([Repeat((Repeat((scratching,), 0, 2),), 0, 3)])
    assert (listed.scratch_bytes, listed.threads) == (70_000, 6)
    assert pool.run(pool.job(listed)) is Outcome.COMPLETED
    assert frame.data[0] == 240
