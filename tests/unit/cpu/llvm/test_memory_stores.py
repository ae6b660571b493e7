"""Stores to bound memory: every element type, shape of index and value, mask and length, between guard pages."""

from __future__ import annotations

import ctypes
import random
import re

import pytest

pytest.importorskip("llvmlite")

from support.cpu.accesses import Accesses, Case
from support.cpu.guarded_memory import GuardedMemory
from support.cpu.indices import (
    INDICES,
    PAIRS,
    STRIDES,
    data_of,
    lane_indices,
    lane_values,
    random_values,
    some_masks,
    starts,
)
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

S = ScalarType


@pytest.fixture(scope="module")
def memory() -> GuardedMemory:
    return GuardedMemory(4096)


def check_stores(accesses: Accesses, memory: GuardedMemory) -> int:
    """Compares the memory after stores with that after stores lane by lane; returns the number of stores in range."""
    rng, lanes, hits = random.Random(accesses.lanes), accesses.lanes, 0
    everyone = (1 << lanes) - 1
    for number, case in enumerate(accesses.cases):
        element = case.element
        for length in (case.count,) if case.count else (0, 1, lanes - 1, lanes, lanes + 1, 3 * lanes + 1):
            data = data_of(element, length, rng)
            for given in starts(case, lanes, length, rng):
                for put in (rng.choice((memory.at_start, memory.at_end)),):
                    indices = lane_indices(case, lanes, given)
                    for mask in some_masks(lanes, rng) if case.masked else (everyone,):
                        active = [lane for lane in range(lanes) if mask >> lane & 1]
                        if case.proven and not all(0 <= indices[lane] < length for lane in active):
                            continue
                        given_values = random_values(element.widened, lanes, rng)
                        values = lane_values(element.widened, case.value, given_values)
                        wanted = bytearray(data)
                        for lane in active:
                            at = indices[lane] * element.size
                            if 0 <= indices[lane] < length:
                                hits += 1
                                wanted[at : at + element.size] = scalar.store_element(element, values[lane])
                        address = put(data)
                        accesses.run(number, (address if length else 0, length), mask, given, given_values)
                        assert ctypes.string_at(address, len(data)) == wanted, (case, length, indices, hex(mask))
                        assert set(memory.around(address, len(data))) <= {0xA5}, (case, length, indices, hex(mask))
    return hits


def store_cases(element: ScalarType, lanes: int) -> list[Case]:
    strides = (None, 0, 5) if element.widened.is_integer else (None, 0)
    cases = [
        Case(element=element, index=index, stride=stride, masked=masked, wide=wide, value=value, is_store=True)
        for index in (INDICES if element in (S.U32, S.U8, S.F16) else (S.U32, S.I64))
        for stride in STRIDES
        for masked in (False, True)
        for wide in ((False, True) if stride != 0 else (False,))
        for value in (strides if index is S.U32 and not wide else (None,))
    ]
    cases += [
        Case(element=element, stride=stride, masked=masked, predicated=False, value=None, is_store=True)
        for stride in (1, -1)
        for masked in (False, True)
    ]
    cases += [
        Case(element=element, stride=stride, masked=masked, proven=True, wide=wide, value=None, is_store=True)
        for stride in STRIDES
        for masked in (False, True)
        for wide in (False, True)
    ]
    cases += [
        Case(element=element, stride=stride, count=count, masked=masked, value=None, is_store=True)
        for stride in STRIDES
        for count in (1, lanes, 3 * lanes)
        for masked in (False, True)
    ]
    cases += [
        Case(element=element, index=index, stride=0, number=number, count=count, value=None, is_store=True)
        for index in INDICES
        for number in (0, 2, 3, (1 << index.bits) - 1)
        for count in (0, 3)
    ]
    return cases


@pytest.mark.parametrize(("element", "lanes"), PAIRS)
def test_stores_are_right_and_touch_nothing_else(element: ScalarType, lanes: int, memory: GuardedMemory) -> None:
    accesses = Accesses(store_cases(element, lanes), lanes)
    assert check_stores(accesses, memory) > 1000
    accesses.close()


def test_the_last_active_lane_is_a_lane_even_if_none_is_active() -> None:
    """Its number may be computed before a loop, where no test has shown yet that a lane is active."""
    program = Program.from_text(
        "program p\nworkgroup_size 16, 1, 1\nbuffer x @0 read u32[16]\nbuffer y @1 write u32[1]\n"
        "body {\n  let own = x[gid.x]\n  for k in 0u .. 9u {\n    if own > 5u {\n      y[0u] = own\n    }\n  }\n}\n"
    )
    text = emit(program, EmitOptions(lanes=16)).text
    before, loop = text.split("\nloop", 1)
    found = re.search(r"(%\S+) = call i32 @llvm.ctlz.i32\(i32 %\S+, i1 (\w+)\)", before)
    assert found is not None and "extractelement" in before and "ctlz" not in loop.split("declare")[0]
    assert found[2] == "false"
    assert re.search(r"= and i32 %\S+, 15\n", before)
