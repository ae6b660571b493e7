"""Scratch memory of the vectors of lanes of a workgroup.

Every vector has its own if barriers switch between them; else the next one uses it again.
"""

from __future__ import annotations

from vyre.adapters.cpu.llvm.context import ALIGNMENT, Kernel
from vyre.adapters.cpu.llvm.copies import PerVector


def reserve(k: Kernel, nbytes: int) -> PerVector:
    """Reserves ``nbytes`` bytes for each vector."""
    nbytes = -(-nbytes // ALIGNMENT) * ALIGNMENT
    return PerVector(k.scratch.reserve(nbytes * k.areas), nbytes)


def address(k: Kernel, area: PerVector) -> str:
    """Returns the address of the memory of the current vector of lanes."""
    start = k.scratch_address(area.offset)
    if k.areas == 1:
        return start
    distance = k.w.pure(f"mul i64 {{}}, {area.nbytes}", k.chunk)
    return k.w.pure("getelementptr i8, ptr {}, i64 {}", start, distance)
