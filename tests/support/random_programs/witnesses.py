"""The literals of random programs; ``vyre.domain.numerics.witnesses`` has the values and the contents of buffers."""

from __future__ import annotations

from support.random_programs.choices import Choices
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.witnesses import WITNESSES, buffer_bytes

__all__ = ["WITNESSES", "buffer_bytes", "literal"]


def literal(choices: Choices, dtype: ScalarType) -> Literal:
    """Mostly a witness, sometimes any bits."""
    if choices.chance(25) and dtype is not ScalarType.BOOL:
        return Literal(dtype, choices.below(1 << dtype.bits))
    return Literal(dtype, choices.pick(WITNESSES[dtype]))
