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
from vyre.testing.backend_contract.known import Known, check_known
from vyre.testing.backend_contract.operators import samples

PARALLEL: Final = Group("parallel")


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


@PARALLEL.case()
def workgroup_memory_is_zero_in_each_workgroup(bench: Bench) -> None:
    """Workgroup memory starts as zeros, whatever the workgroup before it stored."""
    kernel = """
    workgroup_size 32, 1, 1
    buffer y @0 write u32[640]
    buffer shared @- workgroup u32[32]
    body { y[gid.x] = shared[lid.x] barrier(seq_cst) shared[lid.x] = gid.x + 1u }
    """
    equal(bench.words(kernel), [0] * 640)


@PARALLEL.case()
def workgroup_buffers_are_apart(bench: Bench) -> None:
    """Several workgroup buffers of different types do not overlap."""
    kernel = """
    workgroup_size 16, 1, 1
    buffer y @0 write u32[16]
    buffer a @- workgroup u8[17]
    buffer b @- workgroup u64[16]
    buffer c @- workgroup u16[3]
    buffer d @- workgroup f32[16]
    body {
      a[lid.x] = lid.x
      b[lid.x] = cast<u64>(lid.x) * 1000u64
      c[lid.x] = 7u
      d[lid.x] = cast<f32>(lid.x) * 0.5f
      barrier(seq_cst)
      let k = 15u - lid.x
      y[lid.x] = a[k] + cast<u32>(b[k]) + c[k] + cast<u32>(d[k] * 2000000.0f)
    }
    """
    equal(bench.words(kernel), [k + 1000 * k + (7 if k < 3 else 0) + 1000000 * k for k in range(15, -1, -1)])


@PARALLEL.case()
def workgroup_memory_out_of_range(bench: Bench) -> None:
    """Loads past the end are zero, stores are dropped, also between two workgroup buffers."""
    kernel = """
    workgroup_size 8, 1, 1
    buffer y @0 write u32[8]
    buffer a @- workgroup u32[4]
    buffer b @- workgroup u32[4]
    body {
      b[lid.x] = 5u
      barrier(seq_cst)
      a[lid.x + 2u] = 100u + lid.x
      barrier(seq_cst)
      y[lid.x] = a[lid.x] * 1000u + b[lid.x % 4u]
    }
    """
    equal(bench.words(kernel), [5, 5, 100005, 101005, 5, 5, 5, 5])


@PARALLEL.case()
def uniform_flow_may_hold_a_barrier(bench: Bench) -> None:
    """Barriers may stand inside branches and loops that all lanes take together."""
    kernel = """
    workgroup_size 32, 1, 1
    buffer n @0 read u32[1]
    buffer y @1 write u32[64]
    buffer shared @- workgroup u32[32]
    body {
      if wid.x < n[0u] {
        shared[lid.x] = lid.x
        for k in 0u..n[0u] + 2u {
          barrier(seq_cst)
          let next = shared[(lid.x + 1u) % 32u]
          barrier(seq_cst)
          shared[lid.x] = next
        }
        y[gid.x] = shared[lid.x]
      } else { y[gid.x] = 7u }
    }
    """
    equal(bench.words(kernel, words(1)), [(k + 3) % 32 for k in range(32)] + [7] * 32)


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
    found = bench.run(_SHUFFLED.format(element.text), stored(element, values), words(*lanes))
    equal(found, (b"".join(scalar.store_element(element, w) for w in wanted),))


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
    found = bench.run(_SUMMED.format(element.text), stored(element, tuple(values)))
    equal(found, (b"".join(scalar.store_element(element, w) for w in wanted),))


@PARALLEL.table(
    {
        "ballot": Known(
            """workgroup_size 40, 1, 1
            buffer x @0 read u32[runtime]
            buffer y @1 write u32[runtime] like x
            body { let v = subgroup_ballot(x[gid.x] % 3u == 1u) y[gid.x] = v }""",
            (words(*range(40)),),
            (
                words(
                    *[sum(1 << k for k in range(32) if k % 3 == 1)] * 32,
                    *[sum(1 << k for k in range(8) if (k + 32) % 3 == 1)] * 8,
                ),
            ),
        ),
        "lane_and_size": Known(
            """workgroup_size 40, 1, 1
            buffer y @0 write u32[40]
            body { y[gid.x] = subgroup_lane() * 100u + subgroup_size() }""",
            (),
            (words(*[(k % 32) * 100 + 32 for k in range(40)]),),
        ),
        "two_axes": Known(
            """workgroup_size 8, 5, 1
            buffer y @0 write u32[40]
            body { let n = subgroup_add(1u) y[lid.y * 8u + lid.x] = n * 100u + subgroup_lane() }""",
            (),
            (words(*[3200 + k for k in range(32)], *[800 + k for k in range(8)]),),
            {"grid": (1, 1, 1)},
        ),
        "shuffle_in_a_tail": Known(
            """workgroup_size 5, 1, 1
            buffer y @0 write u32[5]
            body { let v = subgroup_shuffle(gid.x + 10u, gid.x + 2u) y[gid.x] = v }""",
            (),
            (words(12, 13, 14, 0, 0),),
        ),
        "a_single_lane": Known(
            """workgroup_size 1, 1, 1
            buffer y @0 write u32[3]
            body { let b = subgroup_ballot(true) let s = subgroup_add(gid.x) y[gid.x] = b * 10u + s }""",
            (),
            (words(10, 11, 12),),
        ),
        "inclusive_scan_by_shuffles": Known(
            """workgroup_size 32, 1, 1
            buffer x @0 read u32[runtime]
            buffer y @1 write u32[runtime] like x
            body {
              let sum = x[gid.x]
              for level in 0u..5u {
                let reach = 1u << level
                let other = subgroup_shuffle(sum, subgroup_lane() - reach)
                if subgroup_lane() >= reach { sum := sum + other }
              }
              y[gid.x] = sum
            }""",
            (words(*range(64)),),
            (words(*[sum(range(k + 1)) for k in range(32)], *[sum(range(32, k + 1)) for k in range(32, 64)]),),
        ),
    },
    "supports_subgroup_ops",
)
def subgroups(bench: Bench, known: Known) -> None:
    """Subgroups are 32 lanes by linear local id; the last of a workgroup may be shorter."""
    check_known(bench, known)


# ---------------------------------------------------------------- grid barriers
@PARALLEL.table(
    {
        "mirrored": Known(
            """workgroup_size 4, 1, 1
            buffer x @0 read_write u32[runtime]
            buffer y @1 write u32[runtime] like x
            body {
              let mirror = len(x) - 1u - gid.x
              x[gid.x] = x[gid.x] + 1u
              barrier(grid_sync)
              y[gid.x] = x[mirror]
            }""",
            (words(*range(40)),),
            (words(*range(1, 41)), words(*range(40, 0, -1))),
        ),
        "two_barriers": Known(
            """workgroup_size 8, 1, 1
            buffer x @0 read_write u32[32]
            buffer y @1 write u32[32]
            body {
              y[gid.x] = x[31u - gid.x]
              barrier(grid_sync)
              x[gid.x] = y[gid.x ^ 1u] * 2u
              barrier(grid_sync)
              y[gid.x] = x[(gid.x + 9u) % 32u]
            }""",
            (words(*range(32)),),
            (
                words(*[2 * (31 - (k ^ 1)) for k in range(32)]),
                words(*[2 * (31 - (((k + 9) % 32) ^ 1)) for k in range(32)]),
            ),
        ),
        "a_total_for_everyone": Known(
            """workgroup_size 16, 1, 1
            buffer x @0 read u32[runtime]
            buffer sum @1 read_write u32[1] output
            buffer y @2 write u32[runtime] like x
            body { let n = atomic_add(sum, 0u, x[gid.x]) barrier(grid_sync) y[gid.x] = sum[0u] - x[gid.x] }""",
            (words(*range(50)),),
            (words(1225), words(*[1225 - k for k in range(50)])),
        ),
        "two_axes": Known(
            """workgroup_size 2, 2, 1
            buffer a @0 write u32[24]
            buffer b @1 write u32[24]
            body {
              let lane = gid.y * 6u + gid.x
              a[lane] = lane * lane
              barrier(grid_sync)
              b[lane] = a[23u - lane]
            }""",
            (),
            (words(*[k * k for k in range(24)]), words(*[k * k for k in range(23, -1, -1)])),
            {"extent": (6, 4)},
        ),
        "repeated": Known(
            """workgroup_size 2, 1, 1
            buffer y @0 read_write u32[6]
            buffer z @1 write u32[6]
            body {
              y[gid.x] = y[gid.x] + 1u
              barrier(grid_sync)
              z[gid.x] = z[gid.x] + y[5u - gid.x]
            }""",
            (words(1, 2, 3, 4, 5, 6),),
            (words(4, 5, 6, 7, 8, 9), words(24, 21, 18, 15, 12, 9)),
            {"fixpoint_iterations": 3},
        ),
    }
)
def grid_barriers(bench: Bench, known: Known) -> None:
    """All lanes of the grid wait at a grid barrier, in one kernel or split into several."""
    if not bench.backend.profile.allows_host_grid_sync_split:
        bench.need("supports_grid_sync")
    check_known(bench, known)


# ---------------------------------------------------------------- asynchronous copies
@PARALLEL.table(
    {
        "captured_at_issue": Known(
            """workgroup_size 1, 1, 1
            buffer x @0 read_write u32[3]
            buffer y @1 read_write u32[4]
            body { async_load(x, y, 4u, 12u, "t") x[0u] = 7u async_wait("t") }""",
            (words(1, 2, 3), words(9, 9, 9, 9)),
            (words(7, 2, 3), words(2, 3, 0, 9)),
            {"grid": (1, 1, 1)},
        ),
        "stored_at_the_wait": Known(
            """workgroup_size 1, 1, 1
            buffer x @0 read u32[2]
            buffer y @1 read_write u32[4]
            buffer z @2 write u32[1]
            body { async_store(x, y, 8u, 8u, "t") z[0u] = y[2u] async_wait("t") y[0u] = y[3u] }""",
            (words(1, 2), words(5, 6, 7, 8)),
            (words(2, 6, 1, 2), words(7)),
            {"grid": (1, 1, 1)},
        ),
        "clipped": Known(
            """workgroup_size 1, 1, 1
            buffer x @0 read u32[2]
            buffer y @1 write u32[1]
            buffer z @2 write u8[12]
            body {
              async_load(x, y, 3u, 0xffffffffu, "a")
              async_store(x, z, 2u, 6u, "b")
              async_wait("b")
              async_wait("a")
            }""",
            (words(0x11223344, 0x55667788),),
            (words(0x66778811), bytes.fromhex("000044332211887700000000")),
            {"grid": (1, 1, 1)},
        ),
        "into_workgroup_memory": Known(
            """workgroup_size 4, 1, 1
            buffer x @0 read u32[16]
            buffer y @1 write u32[16]
            buffer tile @- workgroup u32[4]
            body {
              if lid.x == 0u { async_load(x, tile, wid.x * 16u, 16u, "t") async_wait("t") }
              barrier(seq_cst)
              y[gid.x] = tile[3u - lid.x] + 1u
            }""",
            (words(*range(16)),),
            (words(*[4 * (k // 4) + 3 - k % 4 + 1 for k in range(16)]),),
        ),
        "of_no_bytes": Known(
            """workgroup_size 1, 1, 1
            buffer x @0 read u32[2]
            buffer y @1 read_write u32[2]
            body { async_load(x, y, 0u, 0u, "t") async_wait("t") }""",
            (words(1, 2), words(3, 4)),
            (words(3, 4),),
            {"grid": (1, 1, 1)},
        ),
    }
)
def asynchronous_copies(bench: Bench, known: Known) -> None:
    """A copy reads its bytes when it is issued and writes them at the wait, clipped to the destination."""
    check_known(bench, known)
