"""Programs that pack ranges of one buffer into a slab, so that one copy brings all of them to the host.

``pack_program`` copies the ranges of a table.  Where only the device knows what is to be packed, another program writes
the table first, by an exclusive scan over the items in their order.  A table has a row of three u32 for each range: its
first element in the source, its number of elements, and its first element in the slab.  Ranges of the slab do not
overlap, so the bytes depend on no order and on no size of the grid.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.functions import min_, select
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType, u32
from vyre.domain.ir.value import Value

LANES: Final = 32
"""The lanes of a workgroup, which copies one range after the other."""
MOST_GROUPS: Final = 1024
"""The workgroups that pack at most; each takes every so many ranges."""
ROW: Final = 3
"""The numbers in a row of a table."""
SCANNERS: Final = 256
"""The lanes of the one workgroup that scans."""
HEADER: Final = 4
"""The words of a header before those of its items; the first is the result of the scan."""


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


@cache
def scan_slots_program() -> Program:
    """Returns the program of one workgroup that finds the places of slots in the slab.

    Slot i holds ``lengths[i]`` units, at most ``capacity``, of ``unit`` elements each, from element ``i * stride`` on.
    Those of up to ``most`` units are packed in their order, each at the next multiple of ``grain`` elements; all others
    get a row without elements.  ``header`` gets the elements of the slab up to the end of the last slot, rounded up to
    ``grain``, then from word ``HEADER`` on the lengths.
    """
    with ProgramBuilder("scan_slots", workgroup=SCANNERS) as p:
        lengths = p.input("lengths", ScalarType.U32)
        table = p.inout("table", ScalarType.U32)
        header = p.inout("header", ScalarType.U32)
        slots, unit, stride, most, capacity, grain = (
            p.param(name, ScalarType.U32) for name in ("slots", "unit", "stride", "most", "capacity", "grain")
        )

        def units(slot: Value) -> Value:
            length = p.let(lengths[slot])
            return p.let(select((length <= most) & (length <= capacity), length, u32(0)))

        def rounded(count: Value) -> Value:
            return (count + grain - 1) // grain * grain

        first, last = _share(p, slots)
        size = p.var(u32(0))
        with p.for_(first, last) as i:
            size += rounded(units(i) * unit)
        before, total = _scanned(p, size)
        header[0] = total
        offset = p.var(before)
        with p.for_(first, last) as i:
            count = p.let(units(i) * unit)
            table[i * ROW] = i * stride
            table[i * ROW + 1] = count
            table[i * ROW + 2] = offset
            header[i + HEADER] = lengths[i]
            offset += rounded(count)
    return p.build()


@cache
def scan_marks_program() -> Program:
    """Returns the program of one workgroup that numbers the items with a mark, in their order.

    Item i has ``width`` elements from element ``i * width`` on, and is emitted if ``marks[i]`` is not 0.  The first
    ``limit`` of these are packed densely.  ``header`` gets the number of all, then from word ``HEADER`` on the
    positions of those that are packed.
    """
    with ProgramBuilder("scan_marks", workgroup=SCANNERS) as p:
        marks = p.input("marks", ScalarType.U32)
        table = p.inout("table", ScalarType.U32)
        header = p.inout("header", ScalarType.U32)
        items, width, limit = (p.param(name, ScalarType.U32) for name in ("items", "width", "limit"))
        first, last = _share(p, items)
        count = p.var(u32(0))
        with p.for_(first, last) as i, p.if_(marks[i] != 0):
            count += 1
        before, total = _scanned(p, count)
        header[0] = total
        number = p.var(before)
        with p.for_(first, last) as i, p.if_(marks[i] != 0):
            with p.if_(number < limit):
                table[number * ROW] = i * width
                table[number * ROW + 1] = width
                table[number * ROW + 2] = number * width
                header[number + HEADER] = i
            number += 1
        with p.for_(total + p.local_id(), limit, SCANNERS) as row:
            table[row * ROW + 1] = 0
    return p.build()


def _share(p: ProgramBuilder, count: Value) -> tuple[Value, Value]:
    """Returns the first item of this lane, and the end of its items: each lane has as many that follow each other."""
    share = p.let((count + (SCANNERS - 1)) // SCANNERS)
    first = p.let(min_(p.local_id() * share, count))
    return first, p.let(min_(first + share, count))


def _scanned(p: ProgramBuilder, value: Value) -> tuple[Value, Value]:
    """Returns the sum of ``value`` over the lanes of the workgroup before this one, and over all lanes."""
    sums = p.workgroup("sums", u32, SCANNERS)
    lane = p.local_id()
    sums[lane] = value
    p.barrier()
    with p.for_(0, SCANNERS.bit_length() - 1) as k:
        apart = p.let(u32(1) << k)
        sum_ = p.var(sums[lane])
        with p.if_(lane >= apart):
            sum_ += sums[lane - apart]
        p.barrier()
        sums[lane] = sum_
        p.barrier()
    return p.let(sums[lane] - value), p.let(sums[SCANNERS - 1])
