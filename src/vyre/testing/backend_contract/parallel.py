"""Cases of cooperating lanes: barriers, workgroup memory, subgroups, grid barriers, asynchronous copies; and grid
loops, whose rounds all lanes of the grid run together until one changes nothing.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.errors import DispatchTimeout
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool_
from vyre.domain.numerics import scalar
from vyre.ports.backend import BackendRole
from vyre.testing.backend_contract.bench import GRID_BARRIERS, Bench, Skipped, equal, u32s, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.elements import EXECUTABLE, stored
from vyre.testing.backend_contract.programs import add_programs
from vyre.testing.samples import samples

PARALLEL: Final = Group("parallel")
add_programs(PARALLEL)


# ---------------------------------------------------------------- barriers
@PARALLEL.table({"1": 1, "2": 2, "32": 32, "33": 33, "64": 64, "256": 256})
def lanes_meet_at_a_barrier(bench: Bench, lanes: int) -> None:
    """After a barrier every lane of a workgroup reads what the others stored before it."""
    bench.need_room((lanes, 1, 1))
    kernel = f"""
    workgroup_size {lanes}, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    buffer shared @- workgroup u32[{lanes}]
    body {{
      shared[lid.x] = x[gid.x]
      barrier(seq_cst)
      y[gid.x] = shared[{lanes - 1}u - lid.x]
    }}
    """
    values = [k * k + 1 for k in range(3 * lanes)]
    wanted = [v for g in range(3) for v in values[g * lanes : (g + 1) * lanes][::-1]]
    equal(bench.words(kernel, words(*values)), wanted)


@PARALLEL.table({name: name for name in ("acquire", "release", "acq_rel", "seq_cst")})
def every_ordering_of_a_barrier(bench: Bench, ordering: str) -> None:
    """A barrier of any ordering separates stores from loads, in buffers too."""
    kernel = f"""
    workgroup_size 64, 1, 1
    buffer x @0 read_write u32[64]
    body {{
      let before = x[lid.x ^ 33u]
      barrier({ordering})
      x[lid.x] = before + 1u
      barrier({ordering})
      let other = x[63u - lid.x]
      barrier({ordering})
      x[lid.x] = other
    }}
    """
    equal(bench.words(kernel, words(*range(64))), [((63 - k) ^ 33) + 1 for k in range(64)])


@PARALLEL.case()
def a_tree_reduction_adds_up(bench: Bench) -> None:
    """Barriers inside a loop of uniform bounds keep the rounds apart."""
    bench.need_room((128, 1, 1))
    kernel = """
    workgroup_size 128, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[3]
    buffer part @- workgroup u32[128]
    body {
      part[lid.x] = x[gid.x]
      barrier(seq_cst)
      for level in 0u..7u {
        let reach = 64u >> level
        let sum = 0u
        if lid.x < reach { sum := part[lid.x] + part[lid.x + reach] }
        barrier(seq_cst)
        if lid.x < reach { part[lid.x] = sum }
        barrier(seq_cst)
      }
      if lid.x == 0u { y[wid.x] = part[0u] }
    }
    """
    values = [(k * 2654435761) % 1000 for k in range(384)]
    equal(bench.words(kernel, words(*values)), [sum(values[g : g + 128]) for g in (0, 128, 256)])


# ---------------------------------------------------------------- subgroups
_SHUFFLED: Final = """
    workgroup_size 64, 1, 1
    buffer x @0 read {0}[runtime]
    buffer lane @1 read u32[runtime]
    buffer y @2 write {0}[runtime] like x
    body {{ y[gid.x] = subgroup_shuffle(x[gid.x], lane[gid.x]) }}
    """


@PARALLEL.table(EXECUTABLE, "has_subgroup_shuffle")
def shuffles_move_bits(bench: Bench, element: ScalarType) -> None:
    """A shuffle returns the value of the requested lane, 0 where there is none."""
    values = (samples(element) * 64)[:64]
    lanes = [(k * 7 + 3) % 40 if k % 5 else 0xFFFF_FFFF for k in range(64)]
    read = [scalar.load_element(element, v.to_bytes(element.size, "little")) for v in values]
    wanted = [read[k // 32 * 32 + lane] if lane < 32 else 0 for k, lane in enumerate(lanes)]
    outputs = bench.run(_SHUFFLED.format(element.text), stored(element, values), words(*lanes))
    equal(outputs, (b"".join(scalar.store_element(element, w) for w in wanted),))


_SUMMED: Final = """
    workgroup_size 40, 1, 1
    buffer x @0 read {0}[runtime]
    buffer y @1 write {0}[runtime] like x
    body {{ y[gid.x] = subgroup_add(x[gid.x]) }}
    """


@PARALLEL.table({t.text: t for t in EXECUTABLE_TYPES if t is not bool_}, "supports_subgroup_ops")
def subgroup_sums(bench: Bench, element: ScalarType) -> None:
    """Sums wrap for integers and are added in ascending lanes for floats, over full subgroups and the tail."""
    finite = [v for v in samples(element) if not element.is_float or v >> (element.bits - 9) & 0xFF != 0xFF]
    values = [finite[(k * 5 + k // 7) % len(finite)] for k in range(80)]
    wanted: list[int] = []
    for group in range(2):
        for first, size in ((0, 32), (32, 8)):
            total = 0
            for k in range(size):
                total = scalar.binary(BinaryOp.ADD, element, total, values[group * 40 + first + k])
            wanted += [total] * size
    outputs = bench.run(_SUMMED.format(element.text), stored(element, tuple(values)))
    equal(outputs, (b"".join(scalar.store_element(element, w) for w in wanted),))


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
