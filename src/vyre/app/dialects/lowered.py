"""``LoweredProgram``: a program whose calls are replaced, with the choices that were made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

DEFINITION: Final = "definition"
LOWERING: Final = "lowering"


class LoweringChoice(NamedTuple):
    """Whether the lowering of an operation that a program calls is used, and why."""

    operation: str
    is_used: bool
    why: str

    def __str__(self) -> str:
        return f"{self.operation}: {LOWERING if self.is_used else DEFINITION}, since {self.why}"


class LoweredProgram(NamedTuple):
    """A program without calls, and a choice for each operation in it that has a lowering for the backend."""

    program: Program
    choices: tuple[LoweringChoice, ...]
