"""A program that does nothing, so that the time of its launch is the cost of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program


def empty_program() -> Program:
    """Returns a program of one lane, with one parameter, so that a value can change between launches."""
    from vyre.domain.ir.builder import ProgramBuilder
    from vyre.domain.ir.types import u32

    with ProgramBuilder("empty", workgroup=1) as p:
        p.param("n", u32)
    return p.build()
