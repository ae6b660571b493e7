"""The field of a program that an edit changes."""

from __future__ import annotations

from vyre.domain.ir.program import Program
from vyre.testing.program_edits import Path, at


def field_of(program: Program, path: Path) -> tuple[str, str]:
    """Class and field that hold the value at ``path``, tuples looked through."""
    steps = path
    while not isinstance(steps[-1], str):
        steps = steps[:-1]
    return type(at(program, steps[:-1])).__name__, str(steps[-1])
