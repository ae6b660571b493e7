"""The type in which a loop counts, decided by its bounds and its step."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.caller import fail
from vyre.domain.ir.numpy_scalars import python_number
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import Operand, Value, typed, types_of
from vyre.domain.shown import shown

_ROLES: Final = ("the start of a loop", "the stop of a loop", "the step of a loop")


def loop_bounds(start: Operand, stop: Operand, step: Operand) -> tuple[Value, Value, Value]:
    """Returns start, stop and step as values of one integer type.

    It is the type of the values among them.  If all are numbers, it is i32 if one of them is negative, and u32 if not.
    """
    given = (start, stop, step)
    for bound, role in zip(given, _ROLES, strict=True):
        if isinstance(bound, Value) and not bound.dtype.is_integer:
            fail(
                f"{role} must be an integer, not {bound.dtype.text}{types_of(bound)}",
                "convert it with .cast(u32), or .cast(i32).",
            )
    numbers = [python_number(bound) for bound in given]
    is_negative = any(isinstance(number, int) and number < 0 for number in numbers)
    dtype = next((bound.dtype for bound in given if isinstance(bound, Value)), None)
    if dtype is None:
        dtype = ScalarType.I32 if is_negative else ScalarType.U32
    elif is_negative and not dtype.is_signed:
        role, number = next((r, n) for r, n in zip(_ROLES, numbers, strict=True) if isinstance(n, int) and n < 0)
        fail(
            f"{role}, {shown(number)}, is negative, and the loop counts in {dtype.text}, the type of its other bounds",
            "count in a signed type: `with p.for_(n.cast(i32) - 1, -1, -1) as k:`.",
        )
    first, last, stride = (typed(bound, dtype, role) for bound, role in zip(given, _ROLES, strict=True))
    return first, last, stride
