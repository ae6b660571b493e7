"""Atomics on bound and workgroup memory: the old values and the memory are those of updates lane by lane."""

from __future__ import annotations

import ctypes
import random
from typing import Final

import pytest

pytest.importorskip("llvmlite")

from support.cpu.accesses import Accesses, Case
from support.cpu.guarded_memory import GuardedMemory
from support.cpu.indices import data_of, lane_indices, lane_values, random_values, some_masks, starts
from support.profiles import SOAK
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Access, Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

S = ScalarType
PAIRS: Final = ((S.U32, 4), (S.U32, 8), (S.I32, 16), (S.U64, 16), (S.I32, 32))


@pytest.fixture(scope="module")
def memory() -> GuardedMemory:
    return GuardedMemory(4096)


def check_atomics(accesses: Accesses, memory: GuardedMemory) -> int:
    """Compares old values and memory with those of updates lane by lane; returns the number of updates in range."""
    rng, lanes, hits = random.Random(accesses.lanes), accesses.lanes, 0
    everyone = (1 << lanes) - 1
    for number, case in enumerate(accesses.cases):
        element, op, size = case.element, case.op, case.element.size
        assert op is not None
        for length in (case.count,) if case.count else (0, 1, lanes):
            for given in starts(case, lanes, length, rng):
                indices = lane_indices(case, lanes, given)
                for mask in some_masks(lanes, rng) if case.masked else (everyone,):
                    active = [lane for lane in range(lanes) if mask >> lane & 1]
                    if case.proven and not all(0 <= indices[lane] < length for lane in active):
                        continue
                    data = data_of(element, length, rng)
                    wanted, old = bytearray(data), [0] * lanes
                    given_values = random_values(element, lanes, rng)
                    values = lane_values(element, case.value, given_values)
                    held = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
                    given_expected = [rng.choice((*held, 7)) for _ in range(lanes)]
                    expected = lane_values(element, case.value, given_expected)
                    for lane in active:
                        at = slice(indices[lane] * size, indices[lane] * size + size)
                        if 0 <= indices[lane] < length:
                            hits += 1
                            old[lane] = int.from_bytes(wanted[at], "little")
                            new = scalar.atomic(op, element, old[lane], expected[lane], values[lane])
                            wanted[at] = new.to_bytes(size, "little")
                    if case.access is Access.WORKGROUP:
                        ctypes.memmove(accesses.scratch, data, len(data))
                        address, frame = accesses.scratch, (0, 0)
                    else:
                        address = memory.at_end(data)
                        frame = (address if length else 0, length)
                    found = accesses.run(number, frame, mask, given, given_values, given_expected)
                    assert ctypes.string_at(address, len(data)) == wanted, (case, length, indices, hex(mask))
                    if case.used:
                        assert all(found[lane] == old[lane] for lane in active), (case, length, indices, hex(mask))
                    if case.access is not Access.WORKGROUP:
                        assert set(memory.around(address, len(data))) <= {0xA5}, (case, length, indices, hex(mask))
    return hits


def atomic_cases(element: ScalarType, op: AtomicOp, lanes: int) -> list[Case]:
    cases = [
        Case(element=element, index=index, stride=stride, masked=masked, used=used, value=value, op=op, exclusive=alone)
        for index in (S.U32, S.I64)
        for stride in (0, 1, None)
        for masked in (False, True)
        for used in (False, True)
        for alone in (False, True)
        for value in ((None, 0, 3) if index is S.U32 else (None,))
    ]
    cases += [
        Case(element=element, stride=stride, masked=masked, used=used, op=op, proven=True, exclusive=alone, wide=wide)
        for stride in (0, None)
        for masked in (False, True)
        for used in (False, True)
        for alone in (False, True)
        for wide in (False, True)
    ]
    cases += [
        Case(element=element, stride=stride, masked=masked, used=used, op=op, access=Access.WORKGROUP, count=lanes + 2)
        for stride in (0, 1, None)
        for masked in (False, True)
        for used in (False, True)
    ]
    cases += [
        Case(element=element, stride=None, masked=masked, used=False, value=0, op=op, exclusive=alone, predicated=False)
        for masked in (False, True)
        for alone in (False, True)
    ]
    return cases


def some_pairs() -> list[tuple[AtomicOp, ScalarType, int]]:
    """Each operation at two of ``PAIRS``, so that every pair has several operations; in a soak, at all of them."""
    return [
        (op, *PAIRS[place])
        for number, op in enumerate(AtomicOp)
        for place in (range(len(PAIRS)) if SOAK else (number % len(PAIRS), (number + 2) % len(PAIRS)))
    ]


@pytest.mark.parametrize(("op", "element", "lanes"), some_pairs())
def test_atomics_update_lane_after_lane(op: AtomicOp, element: ScalarType, lanes: int, memory: GuardedMemory) -> None:
    accesses = Accesses(atomic_cases(element, op, lanes), lanes)
    assert check_atomics(accesses, memory) > 1000
    accesses.close()


@pytest.mark.parametrize(
    ("op", "exclusive", "looks"),
    [("min", False, True), ("max", False, True), ("add", False, False), ("min", True, False)],
)
def test_lanes_look_before_they_lock(op: str, exclusive: bool, looks: bool) -> None:
    """An update that would change nothing takes no lock, also where every lane has a value of its own."""
    text = f"""
workgroup_size 64, 1, 1
buffer x @0 read u32[64]
buffer to @1 read u32[64]
buffer y @2 read_write u32[64]
body {{
  let value = x[gid.x]
  let place = to[gid.x]
  let old = atomic_{op}(y, place, value)
}}
"""
    code = emit(Program.from_text(text), EmitOptions(lanes=16, exclusive=exclusive)).text
    assert ("atomicrmw" in code) is not exclusive
    assert ("call <16 x i32> @llvm.masked.gather" in code) is looks
