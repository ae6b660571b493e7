"""From values to elements: scalars where all operands are uniform, else vectors of lanes."""

from __future__ import annotations

from typing import NamedTuple

from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.instructions import Instructions
from vyre.adapters.cpu.llvm.values import Shape, Value
from vyre.domain.ir.types import ScalarType


class Lifted(NamedTuple):
    """The operands of an instruction, all scalars or all vectors, and what writes instructions on them."""

    ins: Instructions
    operands: tuple[str, ...]

    def value(self, dtype: ScalarType, operand: str) -> Value:
        """Returns a result."""
        return Value(dtype, operand, Shape.UNIFORM if self.ins.lanes is None else Shape.VARYING)


def lift(k: Kernel, *values: Value) -> Lifted:
    """Returns values as scalars if all of them are uniform, else as vectors."""
    for value in values:
        if value.shape is not Shape.UNIFORM:
            return Lifted(Instructions(k.w, k.lanes), tuple([k.vector(value) for value in values]))
    return Lifted(Instructions(k.w, None), tuple([value.operand for value in values]))
