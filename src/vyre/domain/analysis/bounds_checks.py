"""Accesses that need no bounds check, because their index is certainly in range.

Out of range a load gives 0 and a store does nothing, for which an emitter compares every index with the element
count. The comparison is redundant behind ``if index < buffer.length`` (in a conjunction, mirrored, or as an early
return), for a loop variable that stops there, and where ranges alone decide: literals, local ids, remainders, masks,
shifts and minima against a static count.  Sums count only where they provably do not wrap.  The cost is that of
``index_flow``.
"""

from __future__ import annotations

from vyre.domain.analysis.index_flow import IndexFlow, index_flow
from vyre.domain.analysis.index_meanings import length_model
from vyre.domain.interface import uses_atomics
from vyre.domain.ir.expr import Atomic, Load
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.ir.stmt import Store


class BoundsFacts:
    """Bounds facts about the accesses of a program, keyed by node objects.

    A node object that occurs several times is proven if all its occurrences are.
    """

    __slots__ = ("_program", "flow")

    def __init__(self, program: Program, flow: IndexFlow) -> None:
        self._program = program  # keeps the nodes alive, so that no other object gets the id of one of them
        self.flow: IndexFlow = flow
        """The index flow from which the facts are derived, for further analyses."""

    def proven(self, access: Load | Store | Atomic) -> bool:
        """Returns whether the index is less than the element count in every launch."""
        return self.flow.proven.get(id(access), False)


def bounds_facts(
    program: Program, *, workgroup: Dim3 | None = None, exact_grid: bool = False, same_length: bool = False
) -> BoundsFacts:
    """Returns facts about a valid program, for grids of any size; cached on it for the last parameters.

    ``workgroup`` gives the lanes along each axis if they are not the program's own.  ``exact_grid`` means that every
    global id along x is less than the length of the buffers that drive the inference of the grid, if they have one
    common length. ``same_length`` means that a buffer declared ``like`` another one has as many elements, which a
    launch with ``output_counts`` may contradict.
    """
    covered = _covered(program) if exact_grid else ()
    return BoundsFacts(program, index_flow(program, workgroup=workgroup, in_range=covered, same_length=same_length))


def _covered(program: Program) -> tuple[str, ...]:
    """Returns the buffers that have an element for each lane of an exact grid; none if several lengths drive the
    inference.
    """
    bound = [buffer for buffer in program.buffers if buffer.is_bound]
    returned = [buffer for buffer in bound if buffer.is_returned]
    by_input = uses_atomics(program) or any(buffer.is_workgroup for buffer in program.buffers)
    drivers = returned if returned and not by_input else bound
    models = {buffer.count or length_model(program.buffers_by_name, buffer.name) for buffer in drivers}
    if all(isinstance(model, int) for model in models):
        most = max((buffer.count for buffer in drivers), default=0)
        return tuple(buffer.name for buffer in bound if most and buffer.count >= most)
    return tuple(buffer.name for buffer in drivers) if len(models) == 1 else ()
