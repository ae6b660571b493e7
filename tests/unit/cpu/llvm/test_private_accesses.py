"""Private memory: every element type and shape of index, in the area of the current vector of lanes alone."""

from __future__ import annotations

import ctypes
import random
from typing import Final

import pytest

pytest.importorskip("llvmlite")

from support.cpu.accesses import Accesses, Case
from support.cpu.indices import data_of, lane_indices, random_values, some_masks, starts
from vyre.domain.ir.program import Access
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

S = ScalarType
COUNT: Final = 5
AREAS: Final = 3
CASES: Final = [
    (element, lanes) for element in ScalarType for lanes in ((4, 16) if element in (S.U32, S.I8) else (16,))
]


def private_cases(element: ScalarType, *, is_store: bool) -> list[Case]:
    shapes = [(0, None), (1, None), (None, None), (0, 0), (0, COUNT - 1), (0, COUNT)]
    return [
        Case(
            element=element,
            index=index,
            stride=stride,
            number=number,
            masked=masked,
            proven=proven,
            access=Access.PRIVATE,
            count=COUNT,
            areas=areas,
            is_store=is_store,
        )
        for index in (S.U32, S.I64)
        for stride, number in shapes
        for masked in (False, True)
        for proven in (False, True)
        for areas in (0, AREAS)
    ]


@pytest.mark.parametrize("is_store", [False, True], ids=["load", "store"])
@pytest.mark.parametrize(("element", "lanes"), CASES)
def test_lanes_reach_their_own_elements_only(element: ScalarType, lanes: int, is_store: bool) -> None:
    accesses = Accesses(private_cases(element, is_store=is_store), lanes)
    rng, size, dtype = random.Random(lanes), element.size, element.widened
    hits = 0
    for number, case in enumerate(accesses.cases):
        area = -(-(COUNT + 1) * lanes * size // 64) * 64
        for given in starts(case, lanes, COUNT, rng):
            indices = lane_indices(case, lanes, given)
            mask = rng.choice(some_masks(lanes, rng)) if case.masked else (1 << lanes) - 1
            active = [lane for lane in range(lanes) if mask >> lane & 1]
            if case.proven and not all(0 <= indices[lane] < COUNT for lane in active):
                continue
            chunk = rng.randrange(AREAS) if case.areas else 0
            before = bytearray(data_of(S.U8, accesses.scratch_nbytes, rng))
            ctypes.memmove(accesses.scratch, bytes(before), len(before))
            values = random_values(dtype, lanes, rng)
            found = accesses.run(number, (0, 0), mask, given, values, chunk=chunk)
            after = bytearray(ctypes.string_at(accesses.scratch, len(before)))
            for lane in active:
                inside = 0 <= indices[lane] < COUNT
                at = chunk * area + (indices[lane] * lanes + lane) * size
                hits += inside
                if is_store and inside:
                    before[at : at + size] = scalar.store_element(element, values[lane])
                if not is_store:
                    wanted = scalar.load_element(element, bytes(before[at : at + size])) if inside else 0
                    if dtype.is_float:
                        found[lane], wanted = scalar.canonical(dtype, found[lane]), scalar.canonical(dtype, wanted)
                    assert found[lane] == wanted, (case, lane, indices, hex(mask))
            spare = slice(chunk * area + COUNT * lanes * size, (chunk + 1) * area)  # takes the stores that are dropped
            before[spare] = after[spare] = b""
            assert after == before, (case, indices, hex(mask), chunk)
    assert hits > 500
    accesses.close()
