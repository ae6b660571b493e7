"""How many lanes of a workgroup does one vector of a kernel hold?

Rule: as many as a register has 32-bit parts, between 4 and 16; exactly 32 where subgroup operations occur, because the
vector is then the subgroup; and no more than a small workgroup fills, unless a vector may hold lanes of several
workgroups.  O(1).

Code is written for 4 lanes at least.  On a processor whose gathers are slow, 4 lanes take the place of scalar code, so
that width is always among the candidates that may be measured against the choice.
"""

from __future__ import annotations

from typing import Annotated, Final

from vyre.policies.record import U32, U32_MAX, IntRange, Reason, record, verdict, why_field

WIDTHS: Final = (4, 8, 16)
"""The widths for which a register is made, ascending."""
SUBGROUP: Final = 32
"""The lanes of a subgroup."""
_LANE_BITS: Final = 32


@record
class VectorInputs:
    """A processor and a program.

    - ``vector_bits``: bits of the widest vector register in use, such as 512; 0 if unknown.
    - ``workgroup_lanes``: lanes of a workgroup, over all axes.
    - ``subgroup_operations``: whether the program has any.
    - ``joined``: whether a vector may hold lanes of several workgroups.
    - ``forced``: the number of lanes that the caller requires; None for the best.
    """

    vector_bits: U32
    workgroup_lanes: Annotated[int, IntRange(1, U32_MAX)]
    subgroup_operations: bool = False
    forced: U32 | None = None
    joined: bool = False


@verdict
class VectorWidth:
    """The number of lanes of a vector; ``candidates`` holds it and then other widths worth measuring, descending."""

    lanes: int
    candidates: tuple[int, ...]
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """The width, for telemetry."""
        return f"{self.lanes} lanes"


def vector_width(inputs: VectorInputs) -> VectorWidth:
    """Returns the width for a program on a processor.

    A forced width is returned as it is, but for programs with subgroup operations, which allow no width other than 32.
    """
    if inputs.subgroup_operations:
        return VectorWidth(SUBGROUP, (SUBGROUP,), Reason("subgroup operations need the {} lanes at once", (SUBGROUP,)))
    if inputs.forced is not None:
        return VectorWidth(inputs.forced, (inputs.forced,), Reason("{} lanes are asked for", (inputs.forced,)))
    native = max((width for width in WIDTHS if width * _LANE_BITS <= inputs.vector_bits), default=WIDTHS[0])
    fitting = (width for width in WIDTHS if width >= inputs.workgroup_lanes and not inputs.joined)
    filled = min(fitting, default=WIDTHS[-1])
    chosen = min(native, filled)
    candidates = (chosen, *(width for width in reversed(WIDTHS) if width != chosen and width <= filled))
    if filled < native:
        why = Reason("a workgroup of {} lanes fills no more than {}", (inputs.workgroup_lanes, chosen))
    elif inputs.vector_bits < WIDTHS[0] * _LANE_BITS:
        why = Reason("no vector register of {} bits is known, and code has {} lanes at least", (128, chosen))
    else:
        why = Reason("a register of {} bits holds {} lanes of 32 bits", (inputs.vector_bits, chosen))
    return VectorWidth(chosen, candidates, why)
