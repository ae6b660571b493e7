"""Cases of cooperating lanes: barriers, workgroup memory, subgroups, grid barriers, asynchronous copies."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool_
from vyre.domain.numerics import scalar
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.elements import EXECUTABLE, stored
from vyre.testing.backend_contract.expect import equal
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
