"""Cases of re-entrancy: dispatches of many threads at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.domain.dispatch import OutputArena
from vyre.domain.errors import InvalidInput, TrapError
from vyre.domain.specialization import SpecMap
from vyre.ports.requests import DispatchRequest
from vyre.testing.backend_contract.bench import Bench, at_once, u32s, view, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal
from vyre.testing.backend_contract.kernels import TRAP

THREADS: Final = Group("threads")
_THREADS: Final = 8
_ROUNDS: Final = 5
_SCALE: Final = """
    workgroup_size 8, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { y[gid.x] = x[gid.x] * spec(factor, 3u) }
    """
_REVERSE: Final = """
    workgroup_size 32, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    buffer sh @- workgroup u32[32]
    body { sh[lid.x] = x[gid.x] barrier(seq_cst) y[gid.x] = sh[31u - lid.x] }
    """
_COUNT: Final = """
    workgroup_size 16, 1, 1
    buffer x @0 read_write u32[1]
    body { let old = atomic_add(x, 0u, 1u) }
    """


_Work: TypeAlias = Callable[[Bench, int, int], None]
"""Dispatches once in a thread, given by its number, and a round, and checks the answer."""


def _scale(bench: Bench, thread: int, round_: int) -> None:
    equal(bench.words(_SCALE, words(*range(thread + 1))), [3 * k for k in range(thread + 1)])


def _specialized(bench: Bench, thread: int, round_: int) -> None:
    factor = thread % 3 + 1
    equal(bench.words(_SCALE, words(1, 2), spec=SpecMap({"factor": factor})), [factor, 2 * factor])


def _different_programs(bench: Bench, thread: int, round_: int) -> None:
    kernel = f"workgroup_size 4, 1, 1 buffer x @0 read_write u32[4] body {{ x[gid.x] = x[gid.x] + {1000 * thread}u }}"
    equal(bench.words(kernel, words(1, 2, 3, 4)), [1000 * thread + k for k in (1, 2, 3, 4)])


def _workgroup_memory(bench: Bench, thread: int, round_: int) -> None:
    values = [thread * 1000 + round_ * 100 + k for k in range(64)]
    equal(bench.words(_REVERSE, words(*values)), values[31::-1] + values[:31:-1])


def _traps(bench: Bench, thread: int, round_: int) -> None:
    if thread % 2:
        error = bench.refuses(TrapError, TRAP, words(*[9 if k == thread else 0 for k in range(10)]))
        equal(error.address, thread, "the address of the trap")
    else:
        equal(bench.words(TRAP, words(1, 2, thread + 10)), [2, 3, thread + 11])


def _refusals(bench: Bench, thread: int, round_: int) -> None:
    if thread % 2:
        bench.refuses(InvalidInput, _SCALE, b"123")
    else:
        equal(bench.words(_SCALE, words(thread)), [3 * thread])


def _lengths(bench: Bench, thread: int, round_: int) -> None:
    size = (thread * 37 + round_ * 11) % 90
    equal(bench.words(_SCALE, words(*range(size))), [3 * k for k in range(size)])


def _atomics(bench: Bench, thread: int, round_: int) -> None:
    equal(bench.words(_COUNT, words(thread), grid=(round_ + 1, 1, 1)), [thread + 16 * (round_ + 1)])


@THREADS.table(
    {
        "one_program": _scale,
        "one_program_specialized": _specialized,
        "different_programs": _different_programs,
        "workgroup_memory": _workgroup_memory,
        "traps": _traps,
        "refusals": _refusals,
        "lengths": _lengths,
        "atomics": _atomics,
    }
)
def dispatches_at_once(bench: Bench, work: _Work) -> None:
    """Threads that dispatch at once get the same answers as alone."""

    def thread(number: int) -> None:
        for round_ in range(_ROUNDS):
            work(bench, number, round_)

    at_once(_THREADS, thread)


@THREADS.case()
def inputs_may_be_shared(bench: Bench) -> None:
    """Threads may pass the same memory."""
    data = words(*range(200))
    at_once(_THREADS, lambda _: equal(bench.words(_SCALE, data), [3 * k for k in range(200)]))


@THREADS.case()
def arenas_are_one_per_thread(bench: Bench) -> None:
    """Threads that each reuse an arena keep their results apart."""

    def thread(number: int) -> None:
        arena = OutputArena()
        for round_ in range(_ROUNDS):
            size = (number + 1) * (round_ % 3 + 1)
            request = DispatchRequest(bench.program(_SCALE), (view(words(*[number] * size)),))
            bench.backend.executor.execute(request, arena)
            equal(u32s(arena[0]), [3 * number] * size, f"thread {number}, round {round_}")

    at_once(_THREADS, thread)


@THREADS.case()
def a_thread_may_end(bench: Bench) -> None:
    """State that one thread set up serves the next, after the first has ended."""
    for number in range(6):
        at_once(1, lambda _, n=number: equal(bench.words(_SCALE, words(n)), [3 * n]))  # type: ignore[misc]
