"""Type checks of what a caller passes to the builder; errors name the caller's line.

Each function returns what it was given as a plain value, so that no subclass of ``str`` or ``int`` gets into a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from vyre.domain.ir.caller import fail
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


def text(given: object, what: str) -> str:
    """Returns a text; ``what`` names it in the error."""
    if not isinstance(given, str):
        fail(f"{what} must be a str, not {shown(given)}", 'give a str, such as "x".')
    return str.__str__(given)


def name(given: object, what: str) -> str:
    """Returns a text that is not empty."""
    found = text(given, what)
    if not found:
        fail(f"{what} is empty", "give every buffer and parameter a name of its own.")
    return found


def hint(given: object, default: str) -> str:
    """Returns the name that a caller gives a local, or ``default`` for None."""
    return default if given is None else name(given, "the name of a local")


def flag(given: object, what: str) -> bool:
    """Returns a bool."""
    if not isinstance(given, bool):
        fail(f"{what}={shown(given)} is no bool", "give True or False.")
    return given


def ordering(given: object) -> Ordering:
    """Returns a memory ordering."""
    if not isinstance(given, Ordering):
        fail(f"ordering={shown(given)} is no memory ordering", "give one, such as vyre.Ordering.SEQ_CST.")
    return given


def axis(given: object) -> int:
    """Returns an axis, 0..2."""
    found = _whole(given, 0, 2)
    if found is None:
        fail(f"there is no axis {shown(given)}", "use 0 for x, 1 for y or 2 for z.")
    return found


def element(given: object, buffer: str, *, is_value: bool = False) -> ScalarType:
    """Returns the type of the elements of a buffer, or of the one value of a parameter."""
    if isinstance(given, ScalarType):
        return given
    known = value_type(given) if is_value else element_type(given)
    if known is None:
        meant = type_hint(given)
        fix = f"use vyre.{meant}" if meant else "use a scalar type such as vyre.f32 or vyre.u8"
        fail(f"`{buffer}` has the element type {shown(given)}", f"{type_fix(given) or fix}.")
    return known


def count(given: object, buffer: str, *, needed: bool) -> int:
    """Returns a number of elements below 2^32, or 0 for one that is left open unless it is ``needed``."""
    found = whole_number(given)
    if found is None:
        what = described(given) if isinstance(given, Value) else shown(given)
        fail(f"the count of `{buffer}` is {what}", f"give a Python int, such as 480 * 640{'.' if needed else _OR_NONE}")
    if not needed <= found <= U32_MAX:
        fix = "give at most 2^32-1." if found > 0 else f"give a positive count{'.' if needed else _OR_NONE}"
        fail(f"`{buffer}` has {shown(found)} elements", fix)
    return found


def output_range(given: object, buffer: str) -> tuple[int, int]:
    """Returns the bytes [start, end) of a buffer that are returned."""
    ends = [_whole(end, 0, U64_MAX) for end in given] if isinstance(given, tuple) else []
    found = [end for end in ends if end is not None]
    if not len(found) == len(ends) == 2:
        fail(
            f"output_range={shown(given)} of `{buffer}` is no range of bytes",
            "give two ints, (start, end), to return the bytes from start up to end.",
        )
    return found[0], found[1]


def workgroup_size(given: object) -> Dim3:
    """Returns the number of lanes of a workgroup along x, y and z."""
    axes = [_whole(size, 1, U32_MAX) for size in (given if isinstance(given, tuple) else (given,))]
    sizes = [size for size in axes if size is not None]
    if not 1 <= len(sizes) == len(axes) <= 3:
        fail(
            f"workgroup={shown(given)} is no workgroup size",
            "give one to three positive ints, such as 256 or (16, 16).",
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def answer(test: Callable[[], T]) -> T:
    """Returns what a condition that was given as a function answers; its own errors pass through."""
    try:
        return test()
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        fail(
            f"the condition of p.while_ cannot be called without arguments: {error}",
            "give an expression, or a function without parameters that builds one.",
        )


def _whole(given: object, low: int, high: int) -> int | None:
    """Returns an int of Python or NumPy that is in the range, or None."""
    found = whole_number(given)
    return found if found is not None and low <= found <= high else None
