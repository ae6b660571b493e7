"""Cases of ``PersistentSteps``: steps on resident memory that resident workers run in waves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from vyre.domain.errors import InvalidResource, TrapError
from vyre.ports.persistent import KeptSteps
from vyre.ports.requests import ResidentStep
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal, holds, refusal
from vyre.testing.backend_contract.kernels import TRAP

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
