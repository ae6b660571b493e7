"""The programs that pack: they have no data race, and scan like a running sum, whatever the number of items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from vyre.domain.packing import HEADER, ROW, SCANNERS, pack_program, scan_marks_program, scan_slots_program

COUNTS = [0, 1, 3, SCANNERS - 1, SCANNERS, SCANNERS + 1, 3 * SCANNERS + 5]


def run(program: vyre.Program, inputs: dict[str, Any], groups: int) -> vyre.Result:
    with vyre.open("reference", cache=False) as session:
        return session.dispatch(program, inputs, grid=groups, race_check=True)


@pytest.mark.parametrize("count", COUNTS)
def test_slots_begin_where_those_before_them_end(count: int) -> None:
    lengths = (np.arange(count) * 5 % 9).astype(np.uint32)
    inputs = {
        "lengths": lengths,
        "table": np.full(ROW * count, 77, np.uint32),
        "header": np.full(HEADER + count, 77, np.uint32),
        "slots": count,
        "unit": 3,
        "stride": 24,
        "most": 6,
        "capacity": 7,
        "grain": 4,
    }
    found = run(scan_slots_program(), inputs, 1)
    units = 3 * np.where(lengths <= 6, lengths, 0)
    sizes = -(-units // 4) * 4
    table = found["table"].reshape(count, ROW)
    np.testing.assert_array_equal(table[:, 0], 24 * np.arange(count))
    np.testing.assert_array_equal(table[:, 1], units)
    np.testing.assert_array_equal(table[:, 2], np.cumsum(sizes) - sizes)
    assert found["header"][0] == sizes.sum()
    np.testing.assert_array_equal(found["header"][HEADER:], lengths)


@pytest.mark.parametrize("count", COUNTS[1:])
@pytest.mark.parametrize("limit", [1, 100, 1000])
def test_marked_items_are_numbered_in_their_order(count: int, limit: int) -> None:
    marks = (np.arange(count) * 7 % 5 < 2).astype(np.uint32)
    inputs = {
        "marks": marks,
        "table": np.full(ROW * limit, 77, np.uint32),
        "header": np.full(HEADER + limit, 77, np.uint32),
        "items": count,
        "width": 6,
        "limit": limit,
    }
    found = run(scan_marks_program(), inputs, 1)
    where = np.flatnonzero(marks)[:limit]
    table = found["table"].reshape(limit, ROW)
    assert found["header"][0] == marks.sum()
    np.testing.assert_array_equal(found["header"][HEADER : HEADER + where.size], where)
    np.testing.assert_array_equal(table[: where.size, 0], 6 * where)
    np.testing.assert_array_equal(table[: where.size, 2], 6 * np.arange(where.size))
    np.testing.assert_array_equal(table[:, 1], 6 * (np.arange(limit) < where.size))


@pytest.mark.parametrize("groups", [1, 2, 9])
@pytest.mark.parametrize("kind", [vyre.u8, vyre.u32])
def test_packing_copies_the_ranges_and_nothing_else(kind: vyre.ScalarType, groups: int) -> None:
    source = (np.arange(200) % 256).astype(np.uint8 if kind is vyre.u8 else np.uint32)
    table = np.array([(3, 40, 1), (100, 0, 41), (150, 33, 60)], np.uint32)
    slab = np.full(100, 255, source.dtype)
    found = run(pack_program(kind), {"source": source, "table": table, "slab": slab}, groups)["slab"]
    slab[1:41], slab[60:93] = source[3:43], source[150:183]
    np.testing.assert_array_equal(found, slab)


def test_ranges_that_overlap_in_the_slab_are_a_race() -> None:
    table = np.array([(0, 8, 0), (8, 8, 4)], np.uint32)
    with pytest.raises(vyre.DataRaceError):
        run(pack_program(vyre.u32), {"source": np.arange(16, dtype=np.uint32), "table": table,
                                     "slab": np.zeros(16, np.uint32)}, 2)  # fmt: skip
