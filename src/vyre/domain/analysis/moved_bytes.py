"""The bytes that a launch reads and writes.

They are those of whole arrays: a launch is taken to touch every element that it sees, once in each way in which its
program touches the array at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from vyre.domain.binding import plan_bindings
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.stmt import walk_statements


def moved_nbytes(program: Program, nbytes: Sequence[int]) -> int:
    """Returns the bytes that a launch of a valid program reads and writes.

    ``nbytes`` are those of its bindings, in their order.  An output without an input is also zeroed before the launch.
    """
    touched, moved = _touches(program), 0
    for binding, size in zip(plan_bindings(program).bindings, nbytes, strict=True):
        kinds = touched.get(binding.buffer.name, frozenset())
        times = (Touch.READ in kinds) + (Touch.WRITE in kinds) + 2 * (Touch.ATOMIC in kinds)
        if binding.buffer.is_writable and binding.input_index is None:
            times += 1
        moved += size * times
    return moved


@kept_with_program("touches")
def _touches(program: Program) -> dict[str, frozenset[Touch]]:
    """Returns how each buffer is touched by name; cached on the program.  Linear in its nodes."""
    touches_of: dict[str, set[Touch]] = {}
    for stmt in walk_statements(program.body):
        for use in accesses(stmt):
            touches_of.setdefault(use.buffer, set()).add(use.touch)
    return {name: frozenset(touches) for name, touches in touches_of.items()}
