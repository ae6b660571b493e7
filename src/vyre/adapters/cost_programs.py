"""Programs whose times are costs: of a launch, of a barrier of the grid, and of making code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

BARRIER_LANES: Final = 32
BARRIER_WORKGROUPS: Final = 8


def barriers_program() -> Program:
    """Returns a program whose workgroups meet at a barrier of the grid in each round; a parameter says how often.

    Its inputs are the u32 ``rounds`` and a u32 that tells that there is another round.
    """
    from vyre.domain.ir.builder import ProgramBuilder
    from vyre.domain.ir.types import u32

    with ProgramBuilder("barriers", workgroup=BARRIER_LANES) as p:
        rounds = p.param("rounds", u32)
        again = p.inout("again", u32, count=1)
        first = p.global_id() == 0
        with p.grid_loop(rounds, again), p.if_(first):
            again[0] = 1
    return p.build()


def new_program(number: int, statements: int) -> Program:
    """Returns an element-wise program of so many statements on two arrays; ``number`` tells it from all others."""
    from vyre.domain.ir.builder import ProgramBuilder
    from vyre.domain.ir.types import u32

    with ProgramBuilder("new", workgroup=64) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        i = p.global_id()
        with p.if_((i < x.length) & (i < y.length)):
            value = p.let(x[i] ^ number)
            for _ in range(statements):
                value = p.let(value * 3 + y[i])
            y[i] = value
    return p.build()


def empty_program() -> Program:
    """Returns a program of one lane, with one parameter, so that a value can change between launches."""
    from vyre.domain.ir.builder import ProgramBuilder
    from vyre.domain.ir.types import u32

    with ProgramBuilder("empty", workgroup=1) as p:
        p.param("n", u32)
    return p.build()
