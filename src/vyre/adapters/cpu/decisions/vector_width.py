"""How many lanes of a workgroup does one vector of a kernel hold?

Rule: as many as a register has 32-bit parts, between 4 and 16, or twice as many; exactly 32 where subgroup operations
occur, because the vector is then the subgroup; and no more than a small workgroup fills, unless a vector may hold lanes
of several workgroups.  O(1).

Two registers a vector pay where a lane does operations one after the other, each of which waits for the one before: the
second register fills the time.  They do not pay without such chains, for a processor then overlaps vectors itself, nor
with many of them, which fill the time and the registers alone; nor where lanes leave loops at different rounds because
of data, for a vector goes on until its last lane has ended.  Registers of 128 bits are not doubled.

Where such a loop carries a result, half a register of 512 bits is taken: the loads of a round take as long for each
lane in either, and fewer lanes wait for the longest.

Where a workgroup has several axes, a vector that holds lanes of one row has consecutive elements, and one that holds
lanes of two rows does not: it is not doubled beyond a row, unless loops leave memory alone, and has half a register
where that is a row.

Some processors read the elements of a gather one by one, in more steps than loads would take.  Where lanes leave such a
loop at different rounds because of data, and read elements that do not lie side by side, a vector gains nothing there:
one lane takes a branch for a mask and a load for a gather, and waits for no other lane.  Such a kernel is scalar code,
one lane after the other, unless the whole workgroup runs in step, where each lane would be a step of its own.

Neither holds for loops that compute what they read before their rounds, for all lanes of a vector in the order of
memory: few instructions then wait for the longest lane, and only elements at indices from memory are gathered, with all
lanes busy.  They take whole registers.
"""

from __future__ import annotations

from typing import Annotated, Final

from vyre.adapters.cpu.llvm.options import SUBGROUP
from vyre.domain.analysis.lane_chains import LaneChains
from vyre.policies.record import U32, U32_MAX, IntRange, Reason, record, verdict, why_field

WIDTHS: Final = (4, 8, 16)
"""The widths for which a register is made, ascending."""
MOST_CARRIED_WORDS: Final = 6
"""The words that a lane may carry from round to round of a loop where vectors of two registers are used."""
_LANE_BITS: Final = 32
_NO_CHAINS: Final = LaneChains()
_LEAST_DOUBLED: Final = 8


@record
class VectorInputs:
    """A processor and a program.

    - ``vector_bits``: bits of the widest vector register in use, such as 512; 0 if unknown.
    - ``workgroup_lanes``: lanes of a workgroup, over all axes.
    - ``subgroup_operations``: whether the program has any.
    - ``forced``: the number of lanes that the caller requires; None for the best.
    - ``joined``: whether a vector may hold lanes of several workgroups.
    - ``row_lanes``: lanes of a workgroup along its first axis, if it has several; 0 if it has one.
    - ``chains``: the chains of dependent operations that a lane evaluates one after the other.
    - ``slow_gathers``: whether the processor takes longer for a gather than for a load of each element.
    - ``in_step``: whether the program depends on the order of its lanes, so that all of a workgroup run in step.
    """

    vector_bits: U32
    workgroup_lanes: Annotated[int, IntRange(1, U32_MAX)]
    subgroup_operations: bool = False
    forced: U32 | None = None
    joined: bool = False
    row_lanes: U32 = 0
    chains: LaneChains = _NO_CHAINS
    slow_gathers: bool = False
    in_step: bool = False


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
    if _pays_alone(inputs):
        others = tuple(width for width in reversed(WIDTHS) if width <= _filled(inputs))
        return VectorWidth(1, (1, *others), Reason("a load for each lane is faster than a gather on this processor"))
    native = max([width for width in WIDTHS if width * _LANE_BITS <= inputs.vector_bits], default=WIDTHS[0])
    filled = _filled(inputs)
    chosen = min(native, filled)
    if filled < native:
        why = Reason("a workgroup of {} lanes fills no more than {}", (inputs.workgroup_lanes, chosen))
    elif inputs.vector_bits < WIDTHS[0] * _LANE_BITS:
        why = Reason("no vector register of {} bits is known, and code has {} lanes at least", (128, chosen))
    elif inputs.row_lanes * 2 == native and inputs.row_lanes in WIDTHS:
        chosen = inputs.row_lanes
        why = Reason("a row of the workgroup has {} lanes", (chosen,))
    elif native > _LEAST_DOUBLED and _pays_half(inputs, native // 2):
        chosen = native // 2
        why = Reason("lanes that leave loops by their data wait for fewer others in vectors of {} lanes", (chosen,))
    elif native >= _LEAST_DOUBLED and _pays_twice(inputs, native * 2):
        chosen = native * 2
        why = Reason("lanes wait for their own results, and {} lanes in two registers fill the time", (chosen,))
    else:
        why = Reason("a register of {} bits holds {} lanes of 32 bits", (inputs.vector_bits, chosen))
    candidates = (chosen, *[width for width in reversed(WIDTHS) if width != chosen and width <= filled])
    return VectorWidth(chosen, candidates, why)


def _filled(inputs: VectorInputs) -> int:
    """Returns the most lanes of a vector that a workgroup fills."""
    if inputs.joined or inputs.workgroup_lanes >= WIDTHS[-1]:
        return WIDTHS[-1]
    return min([width for width in WIDTHS if width >= inputs.workgroup_lanes])


def _pays_alone(inputs: VectorInputs) -> bool:
    """Returns whether one lane after the other is better than a vector of them."""
    chains = inputs.chains
    if chains.windowed or inputs.in_step:
        return False
    return inputs.slow_gathers and chains.ragged_loops and chains.scattered


def _pays_half(inputs: VectorInputs, lanes: int) -> bool:
    """Returns whether so many lanes in half a register are better than twice as many in a whole one."""
    chains = inputs.chains
    return chains.ragged_loops and not chains.windowed and chains.carried_words > 0 and inputs.row_lanes % lanes == 0


def _pays_twice(inputs: VectorInputs, lanes: int) -> bool:
    """Returns whether so many lanes in two registers are better than half of them in one."""
    chains = inputs.chains
    return (
        (chains.functions or chains.carried_words > 0)
        and chains.carried_words <= MOST_CARRIED_WORDS
        and not chains.ragged_loops
        and inputs.workgroup_lanes % lanes == 0
        and (inputs.row_lanes % lanes == 0 or (chains.carried_words > 0 and not chains.loops_access_memory))
    )
