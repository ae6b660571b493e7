"""Programs that pack ranges of one buffer into a slab, so that one copy brings all of them to the host.

A table has a row of three u32 for each range: its first element in the source, its number of elements, and its first
element in the slab.  Ranges of the slab do not overlap, so the bytes depend on no order and on no size of the grid.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType

LANES: Final = 32
"""The lanes of a workgroup, which copies one range after the other."""
MOST_GROUPS: Final = 1024
"""The workgroups that pack at most; each takes every so many ranges."""
ROW: Final = 3
"""The numbers in a row of a table."""


@cache
def pack_program(element: ScalarType) -> Program:
    """Returns the program that copies the ranges of ``table`` from ``source`` to ``slab``, whose type is u8 or u32."""
    with ProgramBuilder(f"pack_{element.text}", workgroup=LANES) as p:
        source = p.input("source", element)
        table = p.input("table", ScalarType.U32)
        slab = p.inout("slab", element)
        rows = p.let(table.length // ROW, "rows")
        with p.for_(p.group_id(), rows, p.num_groups()) as row:
            first = p.let(table[row * ROW], "first")
            count = p.let(table[row * ROW + 1], "count")
            to = p.let(table[row * ROW + 2], "to")
            with p.for_(p.local_id(), count, LANES) as i:
                slab[to + i] = source[first + i]
    return p.build()
