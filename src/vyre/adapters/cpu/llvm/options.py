"""Options of an emission, all of which are part of the key of the code."""

from __future__ import annotations

from typing import Final, NamedTuple

LANES: Final = (1, 4, 8, 16, 32)
"""The numbers of lanes that a vector can have; code for one lane is scalar."""
SUBGROUP: Final = 32
"""The lanes of a subgroup."""


class EmitOptions(NamedTuple):
    """Options of an emission.

    ``lanes`` is the number of lanes of a vector, one of ``LANES``; programs with subgroup operations have 32 whatever
    it says.  ``counting`` counts the loop back edges of every lane against the step budget.  ``exclusive`` promises
    that no other thread uses the buffers during a run.  ``wide`` allows buffers of 2^31 bytes and more.
    ``joined`` promises a grid with one axis, and lets a vector hold lanes of several workgroups (see ``can_join``).
    ``predicated`` says that the processor has scatters, and masks for elements of every size; other code, in
    which loops that lanes leave one by one keep masks as words, runs everywhere as well, but not as fast.
    ``halves`` says that it has the operators of f16, which other processors would be slow to imitate.
    ``slow_gathers`` says that the processor takes longer for a gather than for a load of each element: lanes that load
    consecutive elements then read them in one piece.  ``located`` names the places of statements in the source; the
    machine code is the same.
    ``passes``: the passes of the optimizer that prepare the program before it is emitted, with their versions.
    """

    lanes: int = 16
    counting: bool = False
    exclusive: bool = False
    wide: bool = False
    joined: bool = False
    predicated: bool = True
    halves: bool = False
    slow_gathers: bool = False
    located: bool = False
    passes: str = ""
