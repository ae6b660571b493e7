"""Expressions: a closed union of frozen nodes, each with one static type.

All operands are always evaluated, from left to right; nothing short-circuits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeAlias

from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.bits import bits_value, value_bits
from vyre.domain.ir.node import Node, fields_getter, misplaced
from vyre.domain.ir.numpy_scalars import NumpyNumber, python_number
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.shown import shown


class IdKind(IdentityEnum):
    """Launch ids; each has an axis 0..2 and type u32.  Values are stable wire tags."""

    GLOBAL = 0
    GROUP = 1
    LOCAL = 2
    NUM_GROUPS = 3


_LARGEST_BITS: Final = {
    dtype: 1 if dtype is ScalarType.BOOL else (1 << dtype.bits) - 1 for dtype in ScalarType if dtype.is_executable
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Node):
    """A constant of an executable type, held as its bit pattern (bool: 0 or 1).

    Raises ``ValueError`` if the type is not executable or the bits do not fit.
    """

    dtype: ScalarType
    bits: int

    def __post_init__(self) -> None:
        limit = _LARGEST_BITS.get(self.dtype, -1)
        if not 0 <= self.bits <= limit:
            limit = (1 << self.dtype.bits) - 1 if limit < 0 else limit
            raise ValueError(
                f"no literal of {self.dtype.text} has bits {self.bits:#x}. Fix: use an executable type and "
                f"bits in 0..{limit:#x}"
            )

    @classmethod
    def of(cls, dtype: ScalarType, value: int | float | bool | NumpyNumber) -> Literal:
        """Returns the literal nearest to a number of Python or NumPy.

        Integers must be in range, and what is no such number is refused (``ValueError``); floats round once.
        """
        number = python_number(value)
        if not isinstance(number, int | float):
            raise ValueError(f"{shown(value)} is no number. Fix: give an int, a float or a bool of Python or NumPy.")
        return cls(dtype, value_bits(dtype, number))

    @property
    def value(self) -> int | float | bool:
        """Returns the Python value of the bits."""
        return bits_value(self.dtype, self.bits)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Node):
    """The current value of the innermost visible local of this name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Load(Node):
    """The element ``index`` (any integer type) of a buffer, widened; zero when out of range.

    The index is zero- or sign-extended to 64 bits; a negative one is out of range.
    """

    buffer: str
    index: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferLength(Node):
    """The number of elements of the bound buffer (u32)."""

    buffer: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LaunchId(Node):
    """An id of the running lane, or the grid size, along one axis (u32)."""

    kind: IdKind
    axis: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupLane(Node):
    """The position of the lane in its subgroup, 0..31 (u32)."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupSize(Node):
    """The width of a subgroup: always 32 (u32)."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Node):
    """A binary operator applied to two operands; ``operators.BINARY`` has types and meaning."""

    op: BinaryOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Node):
    """A unary operator applied to one operand; ``operators.UNARY`` has types and meaning."""

    op: UnaryOp
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Select(Node):
    """``on_true`` where ``condition`` (bool) holds, else ``on_false``; all three are evaluated; the bits are
    unchanged.
    """

    condition: Expr
    on_true: Expr
    on_false: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cast(Node):
    """The operand's value converted to an executable type."""

    dtype: ScalarType
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bitcast(Node):
    """The same bits as another type of equal width; NaN bits of the operand become canonical first."""

    dtype: ScalarType
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Narrow(Node):
    """The value that a load gives after ``operand`` was stored to an element of the narrow type ``dtype``.

    ``dtype`` is u8 or u16 (of a u32), i8 or i16 (of an i32), f16 or bf16 (of an f32); the type stays the operand's.
    """

    dtype: ScalarType
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pack(Node):
    """The bits that a store of ``operand`` leaves in an element of the narrow type ``dtype``, zero-extended to u32."""

    dtype: ScalarType
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unpack(Node):
    """The value of an element of the narrow type ``dtype`` that holds the low bits of ``operand`` (u32)."""

    dtype: ScalarType
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WrapCast(Node):
    """The float ``operand`` truncated toward zero, modulo 2^width of an integer type; 0 for infinities and NaN."""

    dtype: ScalarType
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fma(Node):
    """``a * b + c`` with one rounding, f32 or f64."""

    a: Expr
    b: Expr
    c: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Atomic(Node):
    """A read-modify-write of one element that yields the old value (0 out of range).

    Index, expected and value are evaluated in this order.  ``expected`` belongs to COMPARE_EXCHANGE alone.
    """

    op: AtomicOp
    buffer: str
    index: Expr
    expected: Expr | None
    value: Expr
    ordering: Ordering = Ordering.SEQ_CST


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupAdd(Node):
    """The sum over the lanes of the subgroup, ascending from 0 (+0 for floats)."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupBallot(Node):
    """A u32 whose bit k is the bool condition of lane k."""

    condition: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SubgroupShuffle(Node):
    """The operand's value in lane ``lane`` (u32) of the subgroup; 0 if that lane does not exist."""

    value: Expr
    lane: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpecConst(Node):
    """A constant fixed at compile time by a ``SpecMap``; typed by its default (u32 i32 f32 bool)."""

    name: str
    default: Literal


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Node):
    """The result of the definition ``op`` of the program, such as ``acme.gelu``, for these arguments.

    Each argument is evaluated once, from left to right.  The call means the body of the definition; it touches no
    memory.
    """

    op: str
    args: tuple[Expr, ...]


Expr: TypeAlias = (
    Literal
    | Var
    | Load
    | BufferLength
    | LaunchId
    | SubgroupLane
    | SubgroupSize
    | Binary
    | Unary
    | Select
    | Cast
    | Bitcast
    | Narrow
    | Pack
    | Unpack
    | WrapCast
    | Fma
    | Atomic
    | SubgroupAdd
    | SubgroupBallot
    | SubgroupShuffle
    | SpecConst
    | Call
)
"""Any expression node."""

CHILD_FIELDS: Final[dict[type[Node], tuple[str, ...]]] = {
    Literal: (),
    Var: (),
    Load: ("index",),
    BufferLength: (),
    LaunchId: (),
    SubgroupLane: (),
    SubgroupSize: (),
    Binary: ("left", "right"),
    Unary: ("operand",),
    Select: ("condition", "on_true", "on_false"),
    Cast: ("operand",),
    Bitcast: ("operand",),
    Narrow: ("operand",),
    Pack: ("operand",),
    Unpack: ("operand",),
    WrapCast: ("operand",),
    Fma: ("a", "b", "c"),
    Atomic: ("index", "expected", "value"),
    SubgroupAdd: ("value",),
    SubgroupBallot: ("condition",),
    SubgroupShuffle: ("value", "lane"),
    SpecConst: (),
    Call: ("args",),
}
"""The fields that hold operands, in evaluation order, by the type of an expression."""
EXPR_TYPES: Final[tuple[type[Node], ...]] = tuple(CHILD_FIELDS)
LEAVES: Final = frozenset(cls for cls, names in CHILD_FIELDS.items() if not names)
"""The types of expressions without operands."""
CHILDREN: Final[dict[type[Node], Callable[[Any], tuple[Any, ...]]]] = {
    **{cls: fields_getter(names) for cls, names in CHILD_FIELDS.items()},
    Call: attrgetter("args"),
}
"""Functions from an expression to its operands by its type, None for the absent one of an atomic."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """Returns the operands in evaluation order; raises ``InvalidProgram`` for what is no expression."""
    try:
        found: tuple[Expr, ...] = CHILDREN[type(expr)](expr)
    except KeyError:
        raise misplaced(expr, "an expression", "Literal.of(ScalarType.U32, 1)") from None
    if type(expr) is Atomic and expr.expected is None:
        return expr.index, expr.value
    return found


def walk(expr: Expr) -> Iterator[Expr]:
    """Yields every node of the tree, parents before operands, operands in evaluation order; does not recurse."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))
