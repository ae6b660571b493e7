"""Cases of grid loops: rounds that all lanes of the grid run together until one changes nothing."""

from __future__ import annotations

from typing import Final

from vyre.domain.errors import DispatchTimeout
from vyre.ports.backend import BackendRole
from vyre.testing.backend_contract.bench import Bench, u32s, words
from vyre.testing.backend_contract.case import Group, Skipped
from vyre.testing.backend_contract.expect import equal
from vyre.testing.backend_contract.known import Known, check_known

GRID_LOOPS: Final = Group("grid_loops")

_SPREAD: Final = """workgroup_size 4, 1, 1
buffer x @0 read_write u32[runtime]
buffer flag @1 read_write u32[1]
param limit @2 u32
buffer y @3 read_write u32[runtime] output like x
buffer n @4 write u32[1]
body {
  let i = gid.x
  let rounds = grid_loop(limit, flag) {
    y[i] = x[i]
    if i > 0u { y[i] = min(x[i], x[i - 1u] + 1u) }
    barrier(grid_sync)
    if y[i] != x[i] {
      x[i] = y[i]
      flag[0u] = 1u
    }
  }
  if i == 0u { n[0u] = rounds }
}"""
"""Distances along a path: with a path of k elements, round k is the first that changes nothing."""
_FAR: Final = 1000


def _spread(length: int, rounds: int) -> list[int]:
    return [k if k <= rounds else _FAR for k in range(length)]


@GRID_LOOPS.table({str(limit): limit for limit in (0, 1, 2, 17, 39, 40, 41, 0xFFFF_FFFF)})
def rounds_run_until_one_changes_nothing(bench: Bench, limit: int) -> None:
    """The loop ends after a round that left the flag 0, or after so many rounds as the limit says; 0 runs none and
    leaves the flag alone.
    """
    _need_grid_barriers(bench)
    length = 40
    found = [u32s(data) for data in bench.run(_SPREAD, words(0, *[_FAR] * (length - 1)), words(7), words(limit))]
    rounds = min(limit, length)
    flag = 7 if not limit else int(limit < length)
    wanted = _spread(length, rounds)
    equal(found, [wanted, [flag], wanted if rounds else [0] * length, [rounds]])


@GRID_LOOPS.table(
    {
        "memory_of_a_round": Known(
            """workgroup_size 4, 1, 1
            buffer y @0 read_write u32[8]
            buffer f @1 read_write u32[1]
            buffer sh @- workgroup u32[4]
            buffer own @- private u32[40]
            body {
              let rounds = grid_loop(3u, f) {
                let at = gid.x % 40u
                sh[lid.x] = sh[lid.x] + 1u
                own[at] = own[at] + 1u
                barrier(seq_cst)
                y[gid.x] = y[gid.x] + sh[3u - lid.x] + own[at]
                f[0u] = 1u
              }
            }""",
            (words(*[0] * 8), words(1)),
            (words(*[6] * 8), words(1)),
        ),
        "atomics_on_the_flag": Known(
            """workgroup_size 2, 1, 1
            buffer f @0 read_write u32[1]
            buffer y @1 write u32[4]
            body {
              let rounds = grid_loop(2u, f) { let old = atomic_add(f, 0u, 1u) }
              y[gid.x] = f[0u] + rounds
            }""",
            (words(9),),
            (words(4), words(*[6] * 4)),
        ),
        "other_elements_of_the_flag": Known(
            """workgroup_size 2, 1, 1
            buffer f @0 read_write u32[runtime]
            buffer n @1 write u32[1]
            body {
              let rounds = grid_loop(5u, f) { f[gid.x] = gid.x }
              if gid.x == 0u { n[0u] = rounds }
            }""",
            (words(9, 9, 9, 9),),
            (words(0, 1, 2, 3), words(1)),
        ),
        "a_flag_without_elements": Known(
            """workgroup_size 2, 1, 1
            buffer y @0 read_write u32[4]
            buffer f @1 read_write u32[runtime]
            body {
              let rounds = grid_loop(5u, f) {
                y[gid.x] = y[gid.x] + 1u
                f[0u] = 1u
              }
            }""",
            (words(1, 2, 3, 4), b""),
            (words(2, 3, 4, 5), b""),
        ),
        "two_loops_and_a_barrier_under_a_condition": Known(
            """workgroup_size 2, 1, 1
            buffer y @0 read_write u32[4]
            buffer f @1 read_write u32[1]
            buffer z @2 read_write u32[4] output
            body {
              let first = grid_loop(3u, f) {
                y[gid.x] = y[gid.x] + 1u
                f[0u] = 1u
              }
              let second = grid_loop(first * 2u, f) {
                if first == 3u {
                  z[gid.x] = y[gid.x]
                  barrier(grid_sync)
                  y[gid.x] = z[3u - gid.x] + 5u
                } else {
                  y[gid.x] = 0u
                }
                f[0u] = 1u
              }
              z[gid.x] = second
            }""",
            (words(*[0] * 4), words(0)),
            (words(*[33] * 4), words(1), words(*[6] * 4)),
        ),
        "two_axes": Known(
            """workgroup_size 2, 2, 1
            buffer y @0 read_write u32[16]
            buffer f @1 read_write u32[1]
            body {
              let at = gid.y * 4u + gid.x
              let rounds = grid_loop(50u, f) {
                if y[at] < 3u {
                  y[at] = y[at] + 1u
                  f[0u] = 1u
                }
              }
            }""",
            (words(*[0] * 16), words(0)),
            (words(*[3] * 16), words(0)),
            {"grid": (2, 2, 1)},
        ),
        "repeated": Known(
            """workgroup_size 2, 1, 1
            buffer y @0 read_write u32[4]
            buffer f @1 read_write u32[1]
            body {
              let rounds = grid_loop(2u, f) {
                y[gid.x] = y[gid.x] + 1u
                f[0u] = 1u
              }
            }""",
            (words(*[0] * 4), words(0)),
            (words(*[6] * 4), words(1)),
            {"fixpoint_iterations": 3},
        ),
    }
)
def grid_loops(bench: Bench, known: Known) -> None:
    """Rounds have memory of their own, flags of any length, and grid barriers under conditions of the whole grid."""
    _need_grid_barriers(bench)
    check_known(bench, known)


@GRID_LOOPS.case("memory", "resident_executor")
def rounds_on_resident_memory(bench: Bench) -> None:
    """A sequence runs a loop of rounds anew each time, on memory that stays on the device."""
    _need_grid_barriers(bench)
    length = 24
    x, flag, y, n = bench.holding(0, *[_FAR] * (length - 1)), *(bench.allocate(k) for k in (4, 4 * length, 4))
    step = bench.step(_SPREAD, x, flag, words(5), y, n)
    bench.sequence(repeated=(step,), repeat_count=3)
    equal([bench.content(x), bench.content(flag), bench.content(n)], [_spread(length, 15), [1], [5]])
    bench.sequence(prefix=(step,))
    equal([bench.content(x), bench.content(n)], [_spread(length, 20), [5]])


_MANY: Final = """workgroup_size 4, 1, 1
buffer flag @0 read_write u32[1]
param limit @1 u32
body { let rounds = grid_loop(limit, flag) { flag[0u] = 1u } }"""


@GRID_LOOPS.case()
def a_timeout_ends_the_rounds(bench: Bench) -> None:
    """A dispatch with a timeout ends after it, however many rounds its loop still has; the backend keeps working."""
    _need_grid_barriers(bench)
    if bench.subject.registration.role is BackendRole.EMULATION:
        raise Skipped(f"`{bench.backend.id}` emulates a kernel within one call, during which no deadline can pass")
    with bench.elsewhere() as other:
        other.backend.lifecycle.prepare()
        other.run(_MANY, words(0), words(1), grid=(1, 1, 1))
        other.refuses(DispatchTimeout, _MANY, words(0), words(1 << 27), grid=(1, 1, 1), timeout_s=0.05)
        equal(other.words(_MANY, words(0), words(3), grid=(1, 1, 1)), [1])


def _need_grid_barriers(bench: Bench) -> None:
    if not bench.backend.profile.allows_host_grid_sync_split:
        bench.need("supports_grid_sync")
