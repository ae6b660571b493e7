"""Loads from bound memory: every element type, shape of index, mask and length, between pages without access."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("llvmlite")

from support.cpu.accesses import Accesses, Case
from support.cpu.guarded_memory import GuardedMemory
from support.cpu.indices import INDICES, PAIRS, STRIDES, data_of, lane_indices, some_masks, starts
from vyre.domain.ir.program import Access
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

S = ScalarType


@pytest.fixture(scope="module")
def memory() -> GuardedMemory:
    return GuardedMemory(4096)


def equal(dtype: ScalarType, one: int, other: int) -> bool:
    """Compares values; the bits of a NaN do not count, because nothing but memory shows them."""
    if dtype.is_float:
        return scalar.canonical(dtype, one) == scalar.canonical(dtype, other)
    return one == other


def check_loads(accesses: Accesses, memory: GuardedMemory) -> int:
    """Compares loads with the reference's rules for elements; returns the number of loads that were in range."""
    rng, lanes, hits = random.Random(accesses.lanes), accesses.lanes, 0
    for number, case in enumerate(accesses.cases):
        element, dtype = case.element, case.element.widened
        lengths = (case.count,) if case.count else (0, 1, lanes - 1, lanes, lanes + 1, 3 * lanes + 1)
        for length in lengths:
            data = data_of(element, length, rng)
            for given in starts(case, lanes, length, rng):
                for put in (rng.choice((memory.at_start, memory.at_end)),):
                    address = put(data) if length else 0
                    indices = lane_indices(case, lanes, given)
                    everyone = (1 << lanes) - 1
                    for mask in some_masks(lanes, rng) if case.masked else (everyone,):
                        active = [lane for lane in range(lanes) if mask >> lane & 1]
                        if case.proven and not all(0 <= indices[lane] < length for lane in active):
                            continue
                        found = accesses.run(number, (address, length), mask, given)
                        for lane in active:
                            wanted, at = 0, indices[lane] * element.size
                            if 0 <= indices[lane] < length:
                                hits += 1
                                wanted = scalar.load_element(element, data[at : at + element.size])
                            assert equal(dtype, found[lane], wanted), (case, length, lane, indices, hex(mask))
    return hits


def load_cases(element: ScalarType, lanes: int) -> list[Case]:
    indices = INDICES if element in (S.U32, S.U8, S.F16) else (S.U32, S.I64)
    cases = [
        Case(element=element, index=index, stride=stride, masked=masked, wide=wide)
        for index in indices
        for stride in STRIDES
        for masked in (False, True)
        for wide in ((False, True) if stride != 0 else (False,))
    ]
    cases += [
        Case(element=element, stride=stride, masked=masked, predicated=False)
        for stride in (1, -1)
        for masked in (False, True)
    ]
    cases += [
        Case(element=element, stride=stride, masked=masked, proven=True, wide=wide)
        for stride in STRIDES
        for masked in (False, True)
        for wide in (False, True)
    ]
    cases += [
        Case(element=element, stride=stride, access=Access.READ_ONLY, count=count, masked=masked)
        for stride in STRIDES
        for count in (1, lanes - 1, lanes, 3 * lanes)
        for masked in (False, True)
    ]
    cases += [
        Case(element=element, index=index, stride=0, number=number, count=count)
        for index in INDICES
        for number in (0, 2, 3, (1 << index.bits) - 1)
        for count in (0, 3)
    ]
    return cases


@pytest.mark.parametrize(("element", "lanes"), PAIRS)
def test_loads_are_right_and_touch_nothing_else(element: ScalarType, lanes: int, memory: GuardedMemory) -> None:
    accesses = Accesses(load_cases(element, lanes), lanes)
    assert check_loads(accesses, memory) > 1000
    accesses.close()
