"""Which variant of a kernel may run on the memory that a launch binds?

The default variant is correct for naturally aligned buffers that may overlap.  Wide accesses need every buffer to start
at a multiple of 16 bytes.  Reading through the non-coherent cache and reordering loads need every written buffer to
overlap no other.  O(n log n) in the number of bindings.

A grid that covers the elements exactly would save the kernel its last bounds checks, but would compile one more variant
for a length that may come only once; such a variant is left to emitters of kernels for a fixed grid.
"""

from __future__ import annotations

from typing import Final

from vyre.policies.record import U64, Reason, record, verdict, why_field

WIDE_ALIGNMENT: Final = 16
"""Alignment in bytes that wide accesses need."""


@record
class BoundRange:
    """Memory of one binding, in bytes; ``written`` says that the kernel may store to it."""

    address: U64
    nbytes: U64
    written: bool


@record
class VariantInputs:
    """The memory of all bindings of a launch."""

    ranges: tuple[BoundRange, ...]


@verdict
class KernelVariant:
    """The properties of memory that the kernel may assume."""

    aligned16: bool
    noalias: bool
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """The assumptions that hold, for telemetry."""
        assumptions = {"aligned16": self.aligned16, "noalias": self.noalias}
        return " and ".join(name for name, holds in assumptions.items() if holds) or "neither"


def choose_variant(inputs: VariantInputs) -> KernelVariant:
    """Returns the variant with every assumption that holds.  Empty ranges are aligned and overlap nothing."""
    used = sorted((r for r in inputs.ranges if r.nbytes), key=lambda r: (r.address, r.nbytes))
    askew = next((r.address for r in used if r.address % WIDE_ALIGNMENT), None)
    overlap = _first_overlap(used)
    if askew is None and overlap is None:
        why = Reason("{} ranges, aligned and apart", (len(used),))
    elif overlap is None:
        why = Reason("memory at {:#x} is not aligned to 16 bytes", (askew,))
    else:
        why = Reason("written memory overlaps another binding at {:#x}", (overlap,))
    return KernelVariant(askew is None, overlap is None, why)


def _first_overlap(ranges: list[BoundRange]) -> int | None:
    """Returns the first address, ascending, where a written range meets another one, or None."""
    end = written_end = 0
    for r in ranges:
        if r.address < (end if r.written else written_end):
            return r.address
        end = max(end, r.address + r.nbytes)
        if r.written:
            written_end = max(written_end, r.address + r.nbytes)
    return None
