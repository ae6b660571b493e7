"""Command lists run as one call, in order, and end where a run is stopped or a lane fails."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import addressof, c_int64, c_ubyte, c_uint32, c_uint64, string_at

import pytest

from support.cpu.pool import ARCH, TARGET, Frame, compiled, entries, exchange_mode, kernels, merged_value, merging
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native.features import X86_64
from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool import work
from vyre.adapters.cpu.pool.commands import CommandList, Copy, Fill, Kernel, Private, PrivateTable
from vyre.adapters.cpu.pool.entries import Entries
from vyre.adapters.cpu.pool.job import Job, Trap
from vyre.adapters.cpu.pool.layout import Outcome
from vyre.adapters.cpu.pool.translation import runtime_text
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.domain.errors import BackendError, DeviceOutOfMemory

pytestmark = NEEDS_LLVM


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(entries(), size=2, cpus=2)
    yield made
    assert made.close()


WAYS = ["run_short", "run"]


def run(pool: WorkerPool, way: str, job: Job) -> Outcome:
    outcome = pool.run_short(job) if way == "run_short" else pool.run(job)
    assert outcome is job.outcome
    return outcome


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize(("groups", "grain"), [(0, 1), (1, 1), (7, 3), (1000, 1), (1000, 64), (1000, 5000), (50, 0)])
def test_every_group_runs_once(pool: WorkerPool, way: str, threads: int, groups: int, grain: int) -> None:
    frame = Frame(5)
    command = Kernel(kernels()["spread"], frame.address, groups, grain, threads)
    job = pool.job(CommandList([command], [command], 9))
    assert run(pool, way, job) is Outcome.COMPLETED
    assert list(frame.data) == [10 * sum(g + 1 for g in range(groups) if g % 5 == i) for i in range(5)]
    assert job.executed == 10


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("counts", "groups"),
    [((4, 3, 2), 24), ((1, 1, 1), 1), ((2, 3, 1), 10), ((3, 1, 2), 15), ((4, 0, 2), 0), ((0, 9, 9), 1), ((5, 1, 1), 1)],
)
def test_memory_counts_the_groups(pool: WorkerPool, threads: int, counts: tuple[int, int, int], groups: int) -> None:
    """All up to the last one that is counted run, and the first alone where the grid of the frame is too small."""
    data, held = (c_int64 * 3)(), (c_uint32 * 3)(*counts)
    frame = (c_int64 * 10)(4, 3, 2, 0, 0, 0, addressof(data), 3, addressof(held), 3)
    command = Kernel(kernels()["spread"], addressof(frame), 24, 5, threads, counted=8 * 8)
    assert run(pool, "run", pool.job(CommandList([command]))) is Outcome.COMPLETED
    assert list(data) == [sum(g + 1 for g in range(groups) if g % 3 == i) for i in range(3)]


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize(
    ("dtype", "operation"),
    [(dtype, op) for dtype in ("u32", "i32", "u64") for op in ("add", "or", "and", "xor", "min", "max")],
)
def test_private_copies_are_merged(pool: WorkerPool, dtype: str, operation: str, threads: int) -> None:
    bits, groups, count = (64 if dtype == "u64" else 32), 300, 21
    initial = [0x1234_5678_9ABC_DEF0 % 2**bits, 0xFFFF_FFFF_FFFF_FFFF % 2**bits, 0] * (count // 3)
    element = c_uint64 if bits == 64 else c_uint32
    data = (element * (count + 1))(*initial, 77)
    words = (c_int64 * 8)(1, 1, 1, 0, 0, 0, addressof(data), count)
    table = PrivateTable(len(words), [Private(0, count * bits // 8, dtype, operation)])
    command = Kernel(merging(dtype, operation), addressof(words), groups, 7, threads, 100, table)
    for _ in range(5):
        assert pool.run(pool.job(CommandList([command]))) is Outcome.COMPLETED

    def signed(value: int) -> int:
        return value - 2**bits if dtype == "i32" and value >> (bits - 1) else value

    expected = list(initial)
    for group in [*range(groups)] * 5:
        old, value = expected[group % count], merged_value(group, dtype)
        expected[group % count] = {
            "add": lambda old=old, value=value: (old + value) % 2**bits,
            "or": lambda old=old, value=value: old | value,
            "and": lambda old=old, value=value: old & value,
            "xor": lambda old=old, value=value: old ^ value,
            "min": lambda old=old, value=value: min(old, value, key=signed),
            "max": lambda old=old, value=value: max(old, value, key=signed),
        }[operation]()
    assert list(data) == [*expected, 77]
    assert words[6] == addressof(data)


def test_two_private_buffers(pool: WorkerPool) -> None:
    first, second = (c_int64 * 3)(), (c_int64 * 9)()
    words = (c_int64 * 10)(1, 1, 1, 0, 0, 0, addressof(first), 3, addressof(second), 9)
    table = PrivateTable(10, [Private(1, 72, "u64", "xor"), Private(0, 24, "u64", "add")])
    command = Kernel(kernels()["spread_alone"], addressof(words), 500, 3, 8, 0, table)
    assert pool.run(pool.job(CommandList([], [command], 20))) is Outcome.COMPLETED
    assert list(first) == [20 * sum(g + 1 for g in range(500) if g % 3 == i) for i in range(3)]
    assert list(second) == [0] * 9


def test_one_thread_merges_at_a_time(pool: WorkerPool) -> None:
    count, groups, rounds = 200, 8, 30_000
    frame = Frame(count)
    table = PrivateTable(8, [Private(0, 8 * count, "u64", "add")])
    command = Kernel(kernels()["touching"], frame.address, groups, 1, 4, 0, table)
    assert pool.run(pool.job(CommandList([], [command], rounds))) is Outcome.COMPLETED
    assert set(frame.data) == {groups * rounds}


@pytest.mark.parametrize("way", WAYS)
def test_copies_and_fills(pool: WorkerPool, way: str) -> None:
    size = work.PIECE + 1000
    source, to = (c_ubyte * size)(*(b"\1\2\3" * 10)), (c_ubyte * (size + 1))()
    to[size] = 9
    a, b = addressof(source), addressof(to)
    job = pool.job(CommandList([Copy(b, a, size), Fill(b + 1, 0xAB, 2), Fill(b + size - 3, 7, 3), Copy(b + 5, a, 1)]))
    assert run(pool, way, job) is Outcome.COMPLETED
    assert string_at(b, 7) == b"\1\xab\xab\1\2\1\1"
    assert string_at(b + size - 4, 5) == b"\0\7\7\7\t"
    assert job.executed == 4
    filled = pool.job(CommandList([Fill(b, 0xEE, size)]))
    assert run(pool, way, filled) is Outcome.COMPLETED
    assert string_at(b, size) == b"\xee" * size
    assert to[size] == 9


def test_a_stop_ends_a_long_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first piece of the fill sets the stop flag of its own job, so that the second one must not be written."""
    monkeypatch.setattr(work, "PIECE", 4)
    code = compiled(runtime_text(TARGET))
    pool = WorkerPool(Entries(code.addresses, code), size=1, cpus=1)
    job = pool.job(CommandList([]))
    job.set_commands(CommandList([Fill(job.address + at.Job.stop, 1, 8)]))
    assert pool.run_short(job) is Outcome.STOPPED
    assert string_at(job.address + at.Job.stop, 8) == b"\1\1\1\1\0\0\0\0"
    assert pool.close()


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_list(pool: WorkerPool, way: str) -> None:
    job = pool.job(CommandList([], [], 10**18))
    assert run(pool, way, job) is Outcome.COMPLETED
    assert job.executed == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 8])
def test_a_trap_ends_the_list(pool: WorkerPool, way: str, threads: int) -> None:
    frame = Frame(1)
    count = Kernel(kernels()["spread"], frame.address, 1)
    trap = Kernel(kernels()["trapping"], frame.address, 20, 2, threads)
    job = pool.job(CommandList([count], [count, trap, count], 5))
    for _ in range(2):  # the second run starts anew
        frame.data[0] = 0
        assert run(pool, way, job) is Outcome.TRAPPED
        assert frame.data[0] == 2
        assert job.executed == 3
        assert job.trap == Trap(40, 7, 2)
        assert job.budget_lane is None
        assert job.stop_reason is None


@pytest.mark.parametrize("way", WAYS)
def test_an_exceeded_budget_ends_the_list(pool: WorkerPool, way: str) -> None:
    frame = Frame(1)
    over = Kernel(kernels()["exceeding"], frame.address, 20)
    job = pool.job(CommandList([over, Kernel(kernels()["spread"], frame.address, 1)]))
    assert run(pool, way, job) is Outcome.OVER_BUDGET
    assert (frame.data[0], job.budget_lane, job.trap, job.executed) == (0, 3, None, 1)


def test_both_failures(pool: WorkerPool) -> None:
    frame = Frame(1)
    words = [Kernel(kernels()[name], frame.address, 20) for name in ("exceeding", "trapping")]
    job = pool.job(CommandList(words))
    assert pool.run_short(job) is Outcome.OVER_BUDGET
    assert job.executed == 1


# ---------------------------------------------------------------- scratch
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_scratch_is_aligned_and_grows(pool: WorkerPool, way: str, threads: int) -> None:
    frame = Frame(2)
    for size in (1, 5000, 100_000, 64):
        frame.data[0], frame.data[1] = 0, size
        command = Kernel(kernels()["scratching"], frame.address, 40, 1, threads, size)
        assert run(pool, way, pool.job(CommandList([command]))) is Outcome.COMPLETED
        assert frame.data[0] == 40


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 4])
def test_no_memory_for_scratch(pool: WorkerPool, way: str, threads: int) -> None:
    frame = Frame(1)
    count = Kernel(kernels()["spread"], frame.address, 10, 1, threads)
    job = pool.job(CommandList([count, count._replace(scratch_bytes=1 << 62)]))
    with pytest.raises(DeviceOutOfMemory) as caught:
        run(pool, way, job)
    assert caught.value.requested == 1 << 62
    assert frame.data[0] == 0
    job.set_commands(CommandList([count]))
    assert run(pool, way, job) is Outcome.COMPLETED
    assert frame.data[0] == 55


# ---------------------------------------------------------------- the caller's floating-point mode
FLUSHING = 0x9FC0 | 0x6000 if ARCH == X86_64 else 0b111 << 22
"""Subnormals are flushed and taken as zero, and results are rounded toward zero."""
DEFAULT = 0x1F80 if ARCH == X86_64 else 0
KEPT = 0xFFC0
"""The bits of the mode, without the record of exceptions."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threads", [1, 8])
def test_the_mode_of_the_caller_is_neither_used_nor_changed(pool: WorkerPool, way: str, threads: int) -> None:
    frame = Frame(3)
    command = Kernel(kernels()["product"], frame.address, 8, 1, threads)
    job = pool.job(CommandList([command]))
    # 0x00800000 is the least normal number; its half is subnormal.  The second product lies between two numbers.
    for a, b, expected in ((0x0080_0000, 0x3F00_0000, 0x0040_0000), (0x3F80_0001, 0x3FC0_0000, 0x3FC0_0002)):
        frame.data[:] = [0, a, b]
        before = exchange_mode(FLUSHING)
        try:
            outcome = run(pool, way, job)
        finally:
            after = exchange_mode(before)
        assert outcome is Outcome.COMPLETED
        assert frame.data[0] == expected
        assert after & KEPT == FLUSHING & KEPT


def test_workers_do_not_inherit_a_mode() -> None:
    """The threads are started by one that flushes subnormals."""
    frame = Frame(3)
    frame.data[:] = [0, 0x0080_0000, 0x3F00_0000]
    pool = WorkerPool(entries(), size=2, cpus=2)
    job = pool.job(CommandList([Kernel(kernels()["product"], frame.address, 1)]))
    before = exchange_mode(FLUSHING)
    try:
        pool.submit(job)
    finally:
        exchange_mode(before)
    assert pool.wait(job, LIMIT_S)
    assert frame.data[0] == 0x0040_0000
    assert pool.close()


def test_the_mode_matters_to_the_kernel() -> None:
    """The kernel of the test above computes something else in the caller's mode."""
    from ctypes import CFUNCTYPE

    frame = Frame(3)
    frame.data[:] = [0, 0x0080_0000, 0x3F00_0000]
    call = CFUNCTYPE(None, c_int64, c_int64, c_int64, c_int64)(kernels()["product"])
    before = exchange_mode(FLUSHING)
    try:
        call(frame.address, 0, 1, 0)
    finally:
        exchange_mode(before)
    assert frame.data[0] == 0


def test_incomplete_code_is_refused() -> None:
    with pytest.raises(BackendError, match="lacks `vyre_pool_lead`"):
        Entries(dict.fromkeys(("vyre_pool_allocate", "vyre_pool_release", "vyre_pool_enter"), 1))
