"""Views of a buffer as rows, or as planes of rows: ``m[y, x]`` and ``m[z, y, x]``.

The index of an element is computed in u64, in which nothing wraps: the number of a row is at most 2^32 - 1 where it is
used, and so are width and height.  A coordinate outside its axis makes the index 2^64 - 1, which is out of range of
every buffer; the rules of indices do the rest.
"""

from __future__ import annotations

from typing import ClassVar, Final, Generic, TypeVar

from vyre.domain.ir.caller import caller_location, fail
from vyre.domain.ir.expr import Binary, Cast, Expr, Literal, Select
from vyre.domain.ir.foreign_use import refuse
from vyre.domain.ir.handles import Atomics, BufferHandle
from vyre.domain.ir.limits import U32_MAX
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering
from vyre.domain.ir.recorder import Recorder
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.value import Operand, Value, derive, integer, typed
from vyre.domain.printable import shown
from vyre.domain.source_location import SourceLocation

I = TypeVar("I", bound=tuple[Operand, ...])  # noqa: E741
_U32: Final = ScalarType.U32
_U64: Final = ScalarType.U64
_OUTSIDE: Final = (1 << 64) - 1


def view_index(*coordinates: Expr, sizes: tuple[Expr, ...], loc: SourceLocation | None = None) -> Expr:
    """Returns the index (u64) of the element at two or three coordinates, or 2^64 - 1 where one is outside its axis.

    ``coordinates``: y and x, or z, y and x, each of any integer type.  ``sizes``: the width, or the height and the
    width, u32.  Every coordinate stands in the expression more than once.  Raises ``ValueError`` for another number of
    coordinates or sizes.
    """
    if len(coordinates) not in (2, 3) or len(sizes) != len(coordinates) - 1:
        raise ValueError(
            f"{len(coordinates)} coordinates and {len(sizes)} sizes make no index. Fix: give y, x and the width, or "
            "z, y, x and the height and the width."
        )
    return _index([_wide(c, loc) for c in coordinates], [_wide(s, loc) for s in sizes], (True, True), loc)


def checked_index(
    coordinates: list[tuple[Expr, ScalarType]], sizes: tuple[Expr, ...], loc: SourceLocation | None
) -> Expr:
    """Returns what ``view_index`` returns, without the checks that the types of the coordinates make needless.

    ``coordinates``: each with its type.  ``sizes``: as for ``view_index``.
    """
    first = coordinates[0][1]
    checks = first.bits > 32, len(coordinates) == 3 or first is not _U32
    wide = [expr if dtype is _U64 else _wide(expr, loc) for expr, dtype in coordinates]
    return _index(wide, [_wide(size, loc) for size in sizes], checks, loc)


class _View(Atomics[I], Generic[I]):
    """The base class of views: views of two axes and of three inherit their operations from it."""

    __slots__ = ("_buffer", "_recorder", "_sizes")
    _AXES: ClassVar[str]

    def __init__(self, recorder: Recorder, buffer: BufferHandle, *sizes: Value) -> None:
        self._recorder = recorder
        self._buffer = buffer
        self._sizes = sizes

    @property
    def name(self) -> str:
        """Returns the name of the buffer in the program."""
        return self._buffer.name

    @property
    def dtype(self) -> ScalarType:
        """Returns the type of an element."""
        return self._buffer.dtype

    @property
    def length(self) -> Value:
        """Returns the number of elements of the buffer (u32)."""
        return self._buffer.length

    def __getitem__(self, index: I) -> Value:
        return self._buffer[self._at(index)]

    def __setitem__(self, index: I, value: Operand) -> None:
        self._buffer[self._at(index)] = value

    def __iter__(self) -> None:
        refuse("a view cannot be iterated over in Python", "loop with p.for_ over each axis of its .shape.")

    def __repr__(self) -> str:
        return f"<view of {self._buffer.origin.label} by [{self._AXES}]>"

    def _update(self, op: AtomicOp, index: I, value: Operand, ordering: Ordering, *expected: Operand) -> Value:
        return self._buffer._update(op, self._at(index), value, ordering, *expected)

    def _at(self, index: I) -> Value:
        """Returns the index (u64) of the element at these coordinates."""
        axes = self._AXES.split(", ")
        indices = index if isinstance(index, tuple) else (index,)
        label = self._buffer.origin.label
        if len(indices) != len(axes) or any(isinstance(one, slice) for one in indices):
            count = "a slice" if any(isinstance(one, slice) for one in indices) else len(indices)
            refuse(
                f"a view of {label} has {len(axes)} coordinates, and {count} is given",
                f"write m[{self._AXES}] for one element.",
            )
        values = tuple(
            _coordinate(one, f"the coordinate {axis} of a view of {label}")
            for one, axis in zip(indices, axes, strict=True)
        )
        coordinates = [(value.expr, value.dtype) for value in values]
        expr = checked_index(coordinates, tuple(size.expr for size in self._sizes), caller_location())
        return derive(expr, _U64, *values, *self._sizes)


class View2d(_View[tuple[Operand, Operand]]):
    """A buffer as rows of equal width: ``m[y, x]`` loads, ``m[y, x] = v`` stores, ``m.atomic_add((y, x), v)`` updates.

    Coordinates have any integer type.  Outside the width or the rows that exist a load is zero, and a store is dropped.
    """

    __slots__ = ()
    _AXES = "y, x"

    def __init__(self, recorder: Recorder, buffer: BufferHandle, width: Operand) -> None:
        super().__init__(recorder, buffer, _size(width, "width", buffer))

    @property
    def shape(self) -> tuple[Value, Value]:
        """Returns the number of rows that exist, the last of which may be partial, and the width (u32)."""
        (width,) = self._sizes
        return _parts(self.length, width), width


class View3d(_View[tuple[Operand, Operand, Operand]]):
    """A buffer as planes of rows: ``m[z, y, x]`` loads, ``m[z, y, x] = v`` stores.

    Coordinates have any integer type.  Outside the width, the height or the planes that exist a load is zero, and a
    store is dropped.
    """

    __slots__ = ()
    _AXES = "z, y, x"

    def __init__(self, recorder: Recorder, buffer: BufferHandle, height: Operand, width: Operand) -> None:
        super().__init__(recorder, buffer, _size(height, "height", buffer), _size(width, "width", buffer))

    @property
    def shape(self) -> tuple[Value, Value, Value]:
        """Returns the number of planes that exist, the last of which may be partial, the height and the width (u32)."""
        height, width = self._sizes
        return _parts(_parts(self.length, width), height), height, width


def _size(operand: Operand, axis: str, buffer: BufferHandle) -> Value:
    """Returns the width or the height of a view, which is u32 and not 0."""
    role, number = f"the {axis} of a view of {buffer.origin.label}", whole_number(operand)
    if number is not None and not 1 <= number <= U32_MAX:
        fail(f"{role} is {shown(number)}", "give a number of elements in 1..2^32-1.")
    size = typed(operand, _U32, role)
    if isinstance(size.expr, Literal) and not size.expr.bits:
        fail(f"{role} is 0", "give a number of elements in 1..2^32-1.")
    return size


def _coordinate(operand: Operand, role: str) -> Value:
    """Returns a coordinate, which has any integer type; numbers are u32."""
    number = whole_number(operand)
    if number is not None and number < 0:
        fail(f"{role} is {shown(number)}, and views are not counted from their end", "subtract it from the .shape.")
    return integer(operand, role)


def _parts(length: Value, size: Value) -> Value:
    """Returns the number of parts of ``size`` elements in ``length``, the last of which may be partial."""
    return length / size + (length % size != 0).cast(_U32)


def _index(coordinates: list[Expr], sizes: list[Expr], checks: tuple[bool, bool], loc: SourceLocation | None) -> Expr:
    """Returns the index for coordinates and sizes in u64; ``checks``: the first coordinate and the row may be large."""
    first, *_, x = coordinates
    is_first_large, is_row_large = checks
    inside = [_binary(BinaryOp.LT, x, sizes[-1], loc)]
    row = first
    if len(coordinates) == 3:
        inside.append(_binary(BinaryOp.LT, coordinates[1], sizes[0], loc))
        if is_first_large:
            inside.append(_binary(BinaryOp.LE, first, Literal(_U64, U32_MAX), loc))
        row = _binary(BinaryOp.ADD, _binary(BinaryOp.MUL, first, sizes[0], loc), coordinates[1], loc)
    if is_row_large and not _is_small(first, sizes):
        inside.append(_binary(BinaryOp.LE, row, Literal(_U64, U32_MAX), loc))
    index = _binary(BinaryOp.ADD, _binary(BinaryOp.MUL, row, sizes[-1], loc), x, loc)
    unknown = [one for one in inside if not isinstance(one, Literal)]
    if any(isinstance(one, Literal) and not one.bits for one in inside):
        return Literal(_U64, _OUTSIDE)
    if not unknown:
        return index
    condition = unknown[0]
    for one in unknown[1:]:
        condition = Binary(BinaryOp.AND, condition, one, loc=loc)
    return Select(condition, index, Literal(_U64, _OUTSIDE), loc=loc)


def _binary(op: BinaryOp, left: Expr, right: Expr, loc: SourceLocation | None) -> Expr:
    """Returns ``left op right`` in u64; of literals it is a literal, which is 2^64 - 1 where the result is larger."""
    match op, left, right:
        case BinaryOp.LT, Literal(), Literal():
            return Literal(ScalarType.BOOL, left.bits < right.bits)
        case BinaryOp.LE, Literal(), Literal():
            return Literal(ScalarType.BOOL, left.bits <= right.bits)
        case BinaryOp.MUL, Literal(), Literal():
            return Literal(_U64, min(left.bits * right.bits, _OUTSIDE))
        case BinaryOp.ADD, Literal(), Literal():
            return Literal(_U64, min(left.bits + right.bits, _OUTSIDE))
        case BinaryOp.MUL, Literal(bits=0), _:
            return left
        case BinaryOp.ADD, Literal(bits=0), _:
            return right
        case _:
            return Binary(op, left, right, loc=loc)


def _is_small(plane: Expr, sizes: list[Expr]) -> bool:
    """Returns whether all rows of a plane are certainly at most 2^32 - 1: its number and the height are literals."""
    if len(sizes) != 2 or not isinstance(plane, Literal) or not isinstance(sizes[0], Literal):
        return False
    return (plane.bits + 1) * sizes[0].bits <= U32_MAX + 1


def _wide(expr: Expr, loc: SourceLocation | None) -> Expr:
    """Returns an integer in u64: a negative one becomes larger than every coordinate."""
    return Literal.of(_U64, expr.value % (1 << 64)) if isinstance(expr, Literal) else Cast(_U64, expr, loc=loc)
