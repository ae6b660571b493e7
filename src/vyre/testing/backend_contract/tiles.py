"""Cases of launches on tiles: what a confirmer and a commit of a speculation are made to."""

from __future__ import annotations

from typing import Final

from vyre.domain.tiles import judging, of_tiles
from vyre.testing.backend_contract.bench import Bench, parsed
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal

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
