"""Cases of grid loops: rounds that all lanes of the grid run together until one changes nothing."""

from __future__ import annotations

from typing import Final

from vyre.domain.errors import DispatchTimeout
from vyre.ports.backend import BackendRole
from vyre.testing.backend_contract.bench import GRID_BARRIERS, Bench, u32s, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import Skipped, equal
from vyre.testing.backend_contract.programs import add_programs

GRID_LOOPS: Final = Group("grid_loops", GRID_BARRIERS)
add_programs(GRID_LOOPS)

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
    length = 40
    outputs = [u32s(data) for data in bench.run(_SPREAD, words(0, *[_FAR] * (length - 1)), words(7), words(limit))]
    rounds = min(limit, length)
    flag = 7 if not limit else int(limit < length)
    wanted = _spread(length, rounds)
    equal(outputs, [wanted, [flag], wanted if rounds else [0] * length, [rounds]])


@GRID_LOOPS.case("memory", "resident_executor")
def rounds_on_resident_memory(bench: Bench) -> None:
    """A sequence runs a loop of rounds anew each time, on memory that stays on the device."""
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
    if bench.subject.registration.role is BackendRole.EMULATION:
        raise Skipped(f"`{bench.backend.id}` emulates a kernel within one call, during which no deadline can pass")
    with bench.elsewhere() as other:
        other.run(_MANY, words(0), words(1), grid=(1, 1, 1))
        other.refuses(DispatchTimeout, _MANY, words(0), words(1 << 27), grid=(1, 1, 1), timeout_s=0.05)
        equal(other.words(_MANY, words(0), words(3), grid=(1, 1, 1)), [1])
