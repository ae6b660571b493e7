"""The type in which a loop counts, decided by its bounds and its step."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.caller import fail
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import Operand, Value, typed, types_of
from vyre.domain.printable import shown

_ROLES: Final = ("the start of a loop", "the stop of a loop", "the step of a loop")


def loop_bounds(start: Operand, stop: Operand, step: Operand) -> tuple[Value, Value, Value]:
    """Returns start, stop and step as values of one integer type.

    It is the type of the values among them.  If all are numbers, it is i32 if one of them is negative, and u32 if not.
    """
    dtype: ScalarType | None = None
    negative: tuple[str, int] | None = None
    for bound, role in zip((start, stop, step), _ROLES, strict=True):
        if not isinstance(bound, Value):
            number = bound if type(bound) is int else whole_number(bound)
            if number is not None and number < 0:
                negative = negative or (role, number)
        elif not bound.dtype.is_integer:
            fail(
                f"{role} must be an integer, not {bound.dtype.text}{types_of(bound)}",
                "convert it with .cast(u32), or .cast(i32).",
            )
        elif dtype is None:
            dtype = bound.dtype
    if dtype is None:
        dtype = ScalarType.U32 if negative is None else ScalarType.I32
    elif negative is not None and not dtype.is_signed:
        role, number = negative
        fail(
            f"{role}, {shown(number)}, is negative, and the loop counts in {dtype.text}, the type of its other bounds",
            "count in a signed type: `with p.for_(n.cast(i32) - 1, -1, -1) as k:`.",
        )
    return typed(start, dtype, _ROLES[0]), typed(stop, dtype, _ROLES[1]), typed(step, dtype, _ROLES[2])
