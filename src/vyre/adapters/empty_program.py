"""A program that does nothing: what launching it takes is what a launch takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program


def empty_program() -> Program:
    """One lane, and one parameter, so that there is something to change between launches."""
    from vyre.domain.ir.builder import ProgramBuilder
    from vyre.domain.ir.types import u32

    with ProgramBuilder("empty", workgroup=1) as p:
        p.param("n", u32)
    return p.build()
