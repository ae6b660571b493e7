"""Type checks of what a caller passes to the builder; errors name the caller's line.

Each function returns what it was given as a plain value, so that no subclass of ``str`` or ``int`` gets into a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from vyre.domain.ir.caller import fail, was_entered
from vyre.domain.ir.foreign_names import type_hint
from vyre.domain.ir.limits import U32_MAX, U64_MAX
from vyre.domain.ir.numpy_scalars import element_type, type_fix, value_type, whole_number
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import Value, described
from vyre.domain.names import Dim3
from vyre.domain.printable import shown

T = TypeVar("T")
_OR_NONE: Final = ", or None for a buffer that is sized by the caller."


def text(value: object, what: str) -> str:
    """Returns a text; ``what`` names it in the error."""
    if not isinstance(value, str):
        fail(f"{what} must be a str, not {shown(value)}", 'give a str, such as "x".')
    return str.__str__(value)


def name(value: object, what: str) -> str:
    """Returns a text that is not empty."""
    word = text(value, what)
    if not word:
        fail(f"{what} is empty", "give every buffer and parameter a name of its own.")
    return word


def hint(value: object, default: str) -> str:
    """Returns the name that a caller gives a local, or ``default`` for None."""
    return default if value is None else name(value, "the name of a local")


def flag(value: object, what: str) -> bool:
    """Returns a bool."""
    if not isinstance(value, bool):
        fail(f"{what}={shown(value)} is no bool", "give True or False.")
    return value


def ordering(value: object) -> Ordering:
    """Returns a memory ordering."""
    if not isinstance(value, Ordering):
        fail(f"ordering={shown(value)} is no memory ordering", "give one, such as vyre.Ordering.SEQ_CST.")
    return value


def axis(value: object) -> int:
    """Returns an axis, 0..2."""
    number = _whole(value, 0, 2)
    if number is None:
        fail(f"there is no axis {shown(value)}", "use 0 for x, 1 for y or 2 for z.")
    return number


def element(dtype: object, buffer: str, *, is_value: bool = False) -> ScalarType:
    """Returns the type of the elements of a buffer, or of the one value of a parameter."""
    if isinstance(dtype, ScalarType):
        return dtype
    element_dtype = value_type(dtype) if is_value else element_type(dtype)
    if element_dtype is None:
        meant = type_hint(dtype)
        fix = f"use vyre.{meant}" if meant else "use a scalar type such as vyre.f32 or vyre.u8"
        fail(f"`{buffer}` has the element type {shown(dtype)}", f"{type_fix(dtype) or fix}.")
    return element_dtype


def count(value: object, buffer: str, *, needed: bool) -> int:
    """Returns a number of elements below 2^32, or 0 for one that is left open unless it is ``needed``."""
    number = whole_number(value)
    if number is None:
        what = described(value) if isinstance(value, Value) else shown(value)
        fail(f"the count of `{buffer}` is {what}", f"give a Python int, such as 480 * 640{'.' if needed else _OR_NONE}")
    if not needed <= number <= U32_MAX:
        fix = "give at most 2^32-1." if number > 0 else f"give a positive count{'.' if needed else _OR_NONE}"
        fail(f"`{buffer}` has {shown(number)} elements", fix)
    return number


def output_range(value: object, buffer: str) -> tuple[int, int]:
    """Returns the bytes [start, end) of a buffer that are returned."""
    ends = [_whole(end, 0, U64_MAX) for end in value] if isinstance(value, tuple) else []
    bounds = [end for end in ends if end is not None]
    if not len(bounds) == len(ends) == 2:
        fail(
            f"output_range={shown(value)} of `{buffer}` is no range of bytes",
            "give two ints, (start, end), to return the bytes from start up to end.",
        )
    return bounds[0], bounds[1]


def workgroup_size(lanes: object) -> Dim3:
    """Returns the number of lanes of a workgroup along x, y and z."""
    axes = [_whole(size, 1, U32_MAX) for size in (lanes if isinstance(lanes, tuple) else (lanes,))]
    sizes = [size for size in axes if size is not None]
    if not 1 <= len(sizes) == len(axes) <= 3:
        fail(
            f"workgroup={shown(lanes)} is no workgroup size",
            "give one to three positive ints, such as 256 or (16, 16).",
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def answer(test: Callable[[], T]) -> T:
    """Returns what a condition that was given as a function answers; its own errors pass through."""
    try:
        return test()
    except TypeError as error:
        if was_entered(error):
            raise
        fail(
            f"the condition of p.while_ cannot be called without arguments: {error}",
            "give an expression, or a function without parameters that builds one.",
        )


def _whole(value: object, low: int, high: int) -> int | None:
    """Returns an int of Python or NumPy that is in the range, or None."""
    number = whole_number(value)
    return number if number is not None and low <= number <= high else None
