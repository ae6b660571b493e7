"""Cases of sequences with a flag, rounds that end when nothing changes any more, and of launches on tiles: what a
confirmer and a commit of a speculation are made to.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from vyre.domain.errors import InvalidInput, InvalidResource, TrapError
from vyre.domain.tiles import judging, of_tiles
from vyre.policies.frontiers.fixpoint import FixpointExecutor
from vyre.ports.requests import Readback, Upload
from vyre.testing.backend_contract.bench import ADD, Bench, equal, holds, parsed, refusal, u32s, view, words
from vyre.testing.backend_contract.case import Group

ROUNDS: Final = Group("rounds", "memory", "resident_executor")

_DOWN: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    buffer changed @1 read_write u32[1]
    body { if gid.x < len(x) { if x[gid.x] != 0u {
        x[gid.x] = x[gid.x] - 1u
        let old = atomic_or(changed, 0u, 4u)
    } } }
    """
"""Counts every element down to 0, and says so while there is something to count."""
_SQUARES: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { if x[gid.x] != 2u { y[gid.x] = x[gid.x] * x[gid.x] } }
    """
_ACROSS: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[12]
    body { x[gid.x] = x[gid.x] + 1u barrier(grid_sync) x[gid.x] = x[gid.x] + x[11u - gid.x] }
    """
_TRAP: Final = """
    workgroup_size 1, 1, 1
    buffer x @0 read_write u32[1]
    body { if x[0u] == 9u { trap(3u, "nine") } x[0u] = x[0u] + 1u }
    """


class _Ended(NamedTuple):
    start: list[int]
    limit: int
    rounds: int
    converged: bool


@ROUNDS.table(
    {
        "at_once": _Ended([0, 0], 9, 1, True),
        "in_time": _Ended([3, 5, 0, 1, 2], 100, 6, True),
        "at_the_limit": _Ended([3, 5], 6, 6, True),
        "one_short": _Ended([3, 5], 5, 5, False),
        "once": _Ended([3, 5], 1, 1, False),
        "never": _Ended([3, 5], 0, 0, False),
        "long": _Ended([400, 7], 2**63, 401, True),
    }
)
def rounds_end_when_nothing_changes(bench: Bench, row: _Ended) -> None:
    """A round that leaves the flag at 0 is the last, at most ``repeat_count`` run, and the timing tells how it was."""
    x, flag, y, into = bench.holding(*row.start), bench.holding(7, 8), bench.holding(0), bytearray(4)
    for _ in range(2):
        fresh = ((x, row.start), (flag, [7, 8]), (y, [0]))
        bench.memory.upload([Upload(buffer, view(words(*values))) for buffer, values in fresh])
        timing = bench.sequence(
            prefix=(bench.step(ADD, words(5), y),),
            repeated=(bench.step(ADD, words(10), y), bench.step(_DOWN, x, flag)),
            repeat_count=row.limit,
            reads=(Readback(y, memoryview(into)),),
            flag=flag,
        )
        equal((timing.rounds, timing.converged), (row.rounds, row.converged))
        equal(bench.content(x), [max(0, k - row.rounds) for k in row.start])
        equal(u32s(into), [5 + 10 * row.rounds])
        left = 7 if not row.limit else 0 if row.converged else 4
        equal(bench.content(flag), [left, 8])


@ROUNDS.case()
def the_same_steps_serve_other_limits(bench: Bench) -> None:
    """The steps of a sequence may run again with another limit, and without a flag."""
    x, flag = bench.holding(50), bench.holding(0)
    steps = (bench.step(_DOWN, x, flag),)
    for limit in (10, 3, 10, 1):
        timing = bench.sequence(repeated=steps, repeat_count=limit, flag=flag)
        equal((timing.rounds, timing.converged), (limit, False))
    equal(bench.content(x), [26])
    timing = bench.sequence(repeated=steps, repeat_count=20)
    equal((timing.rounds, timing.converged), (None, None))
    timing = bench.sequence(repeated=steps, repeat_count=20, flag=flag)
    equal((timing.rounds, timing.converged), (7, True))


@ROUNDS.case()
def outputs_are_zeroed_in_every_round(bench: Bench) -> None:
    """An output starts as zeros in each round, as it does in each launch."""
    x, y, n, flag = bench.holding(2, 3), bench.holding(9, 9), bench.holding(3), bench.holding(0)
    steps = (bench.step(_SQUARES, x, y), bench.step(_DOWN, n, flag))
    timing = bench.sequence(repeated=steps, repeat_count=9, flag=flag)
    equal((timing.rounds, bench.content(y)), (4, [0, 9]))


@ROUNDS.case()
def a_flag_that_nobody_sets(bench: Bench) -> None:
    """Steps that do not know the flag run once."""
    x, flag = bench.holding(1), bench.holding(1)
    timing = bench.sequence(repeated=(bench.step(ADD, words(1), x),), repeat_count=9, flag=flag)
    equal((timing.rounds, timing.converged, bench.content(x), bench.content(flag)), (1, True, [2], [0]))


@ROUNDS.case()
def every_byte_of_the_flag_counts(bench: Bench) -> None:
    """A flag is set by any bit of its u32, and by no byte behind it."""
    kernel = """
    workgroup_size 1, 1, 1
    buffer x @0 read_write u32[1]
    buffer changed @1 read_write u32[2]
    body { if gid.x == 0u {
      changed[1u] = 1u
      if x[0u] < 32u { changed[0u] = 1u << x[0u] }
      x[0u] = x[0u] + 1u
    } }
    """
    x, flag = bench.holding(0), bench.holding(0, 0)
    timing = bench.sequence(repeated=(bench.step(kernel, x, flag),), repeat_count=99, flag=flag)
    equal((timing.rounds, bench.content(x), bench.content(flag)), (33, [33], [0, 1]))


@ROUNDS.case("supports_trap_propagation")
def a_trap_in_a_later_round_ends_them(bench: Bench) -> None:
    """A step that traps in its third round has run twice, and nothing runs behind the trap."""
    x, n, flag = bench.holding(7), bench.holding(50), bench.holding(0)
    steps = (bench.step(_TRAP, x), bench.step(_DOWN, n, flag))
    trap = refusal(TrapError, lambda: bench.sequence(repeated=steps, repeat_count=10, flag=flag))
    equal((trap.tag, trap.address), ("nine", 3))
    equal((bench.content(x), bench.content(n)), ([9], [48]))


@ROUNDS.case()
def a_flag_without_rounds_is_refused(bench: Bench) -> None:
    """A flag needs steps to repeat."""
    x, flag = bench.holding(1), bench.holding(1)
    refusal(InvalidInput, lambda: bench.sequence(prefix=(bench.step(ADD, words(1), x),), repeat_count=1, flag=flag))
    equal(bench.content(x), [1])


@ROUNDS.case()
def a_flag_that_is_too_short_or_closed_is_refused(bench: Bench) -> None:
    """A flag has at least four bytes, and is open; nothing runs without it."""
    x, closed = bench.holding(1), bench.holding(1)
    closed.close()
    steps = (bench.step(ADD, words(1), x),)
    for flag in (bench.allocate(3), closed):
        run = partial(bench.sequence, prefix=steps, repeated=steps, repeat_count=1, flag=flag)
        refusal(InvalidResource, run)
    equal(bench.content(x), [1])


@ROUNDS.case()
def what_repeats_steps_is_known(bench: Bench) -> None:
    """The facet ``loops`` names executors that a backend has by itself."""
    x, flag = bench.holding(1), bench.holding(0)
    step = bench.step(_DOWN, x, flag)
    loops = bench.backend.loops
    if loops is None:
        return
    own = {FixpointExecutor.COMMAND_LIST, FixpointExecutor.WHILE_GRAPH}
    executors = loops.loop_executors((step,))
    holds(executors <= own, f"{executors - own} need no help of a backend")
    equal(loops.loop_executors((step,)), executors, "the second answer")
    equal(bench.content(x), [1], "nothing is launched")


@ROUNDS.case()
def what_is_resident_of_a_grid_is_known(bench: Bench) -> None:
    """The facet ``loops`` tells the grid of a step with grid barriers, and launches nothing."""
    if not bench.backend.profile.allows_host_grid_sync_split:
        bench.need("supports_grid_sync")
    loops = bench.backend.loops
    if loops is None:
        return
    x = bench.holding(*range(12))
    step = bench.step(_ACROSS, x, grid=(3, 1, 1))
    grid = loops.grid_sync(step)
    equal((grid.workgroups, loops.grid_sync(step)), (3, grid), "the grid, and the second answer")
    fits = grid.workgroups <= grid.multiprocessors * grid.resident_per_multiprocessor
    holds(grid.cooperative or not fits, "what launches no cooperative kernels holds none of a grid")
    equal(bench.content(x), list(range(12)), "nothing is launched")


TILES: Final = Group("tiles", "memory", "resident_executor")

_CONFIRM: Final = """
    workgroup_size 2, 1, 1
    buffer x @0 read u32[6]
    buffer found @1 read_write u32[6]
    buffer confirmed @2 read_write u32[3]
    body {
      if x[gid.x] == 9u { trap(wid.x, "nine") }
      found[gid.x + 1u] = x[gid.x] + found[gid.x + 2u]
      let old = atomic_or(confirmed, wid.x + lid.x, 6u)
    }
    """


@TILES.table({"every": False, "passed": True})
def a_tile_sees_its_own_part_alone(bench: Bench, guarded: bool) -> None:
    """Elements of another tile's part are out of range, in a load, a store and an atomic; a tile whose flag is 0 does
    nothing at all, and traps nowhere.
    """
    program = of_tiles(parsed(_CONFIRM), {"found": 2, "confirmed": 1}, guarded=guarded)
    last = (9, 9) if guarded else (6, 7)
    x, hits = bench.holding(1, 2, 3, 4, *last), bench.holding(50, 51, 52, 53, 54, 55)
    confirmed, passed, counts = bench.holding(0, 0, 0), bench.holding(4, 8, 0), bench.holding(0, 0, 0)
    flags = (passed,) if guarded else ()
    confirm = bench.step(program, x, hits, confirmed, *flags, grid=(3, 1, 1))
    bench.sequence(prefix=(confirm, bench.step(judging(), passed, confirmed, counts, extent=3)))
    equal(bench.content(hits), [50, 1, 52, 3, 54, 55 if guarded else 6])
    equal((bench.content(confirmed), bench.content(counts)), ([1, 1, 0], [2, 2 if guarded else 3, 2]))
