"""Expressions: a closed union of frozen nodes, each with one static type.

All operands are always evaluated, from left to right; nothing short-circuits.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final, TypeAlias, get_args

from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.bits import bits_value, value_bits
from vyre.domain.ir.forms import FORMS, OPERANDS, Effect, distinction, expression, functions, with_effects
from vyre.domain.ir.node import Node, misplaced
from vyre.domain.ir.numpy_scalars import NumpyNumber, python_number
from vyre.domain.ir.operators import (
    BINARY,
    SUBGROUP,
    UNARY,
    AtomicOp,
    BinaryOp,
    Ordering,
    Result,
    Span,
    SubgroupOp,
    UnaryOp,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown
from vyre.domain.source_location import SourceLocation


class IdKind(IdentityEnum):
    """Launch ids; each has an axis 0..2 and type u32.  Values are stable wire tags."""

    GLOBAL = 0
    GROUP = 1
    LOCAL = 2
    NUM_GROUPS = 3


_LARGEST_BITS: Final = {
    dtype: 1 if dtype is ScalarType.BOOL else (1 << dtype.bits) - 1 for dtype in ScalarType if dtype.is_executable
}


@expression(None, None, None, result="dtype")
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
    def of(
        cls, dtype: ScalarType, value: int | float | bool | NumpyNumber, *, loc: SourceLocation | None = None
    ) -> Literal:
        """Returns the literal nearest to a number of Python or NumPy.

        Integers must be in range, and what is no such number is refused (``ValueError``); floats round once.
        """
        number = python_number(value)
        if not isinstance(number, int | float):
            raise ValueError(f"{shown(value)} is no number. Fix: give an int, a float or a bool of Python or NumPy.")
        return cls(dtype, value_bits(dtype, number), loc=loc)

    @property
    def value(self) -> int | float | bool:
        """Returns the Python value of the bits."""
        return bits_value(self.dtype, self.bits)


@expression(None, 0x08, "var")
class Var(Node):
    """The current value of the innermost visible local of this name."""

    name: str


@expression(None, 0x09, "load", effect=Effect.READS)
class Load(Node):
    """The element ``index`` (any integer type) of a buffer, widened; zero when out of range.

    The index is zero- or sign-extended to 64 bits; a negative one is out of range.
    """

    buffer: str
    index: Expr


@expression("len", 0x0A, "buf_len", effect=Effect.DISPATCH, result=ScalarType.U32)
class BufferLength(Node):
    """The number of elements of the bound buffer (u32)."""

    buffer: str


@expression(None, 0x0B, None, effect=Effect.LANE, result=ScalarType.U32)
class LaunchId(Node):
    """An id of the running lane, or the grid size, along one axis (u32)."""

    kind: IdKind
    axis: int


@expression("subgroup_lane", 0x0C, "sg_local_id", effect=Effect.LANE, result=ScalarType.U32)
class SubgroupLane(Node):
    """The position of the lane in its subgroup, 0..31 (u32)."""


@expression("subgroup_size", 0x0D, "sg_size", effect=Effect.DISPATCH, result=ScalarType.U32)
class SubgroupSize(Node):
    """The width of a subgroup: always 32 (u32)."""


@expression(None, 0x80, "bin", result=0)
class Binary(Node):
    """A binary operator applied to two operands; ``operators.BINARY`` has types and meaning."""

    op: BinaryOp
    left: Expr
    right: Expr


@expression(None, 0x40, "un", result=0)
class Unary(Node):
    """A unary operator applied to one operand; ``operators.UNARY`` has types and meaning."""

    op: UnaryOp
    operand: Expr


@expression("select", 0x0E, "select", result=1)
class Select(Node):
    """``on_true`` where ``condition`` (bool) holds, else ``on_false``; all three are evaluated; the bits are
    unchanged.
    """

    condition: Expr
    on_true: Expr
    on_false: Expr


@expression("cast", 0x0F, "cast", result="dtype")
class Cast(Node):
    """The operand's value converted to an executable type."""

    dtype: ScalarType
    operand: Expr


@expression("bitcast", 0x10, "bitcast", result="dtype")
class Bitcast(Node):
    """The same bits as another type of equal width; NaN bits of the operand become canonical first."""

    dtype: ScalarType
    operand: Expr


@expression("narrow", 0x17, "narrow", result=0)
class Narrow(Node):
    """The value that a load gives after ``operand`` was stored to an element of the narrow type ``dtype``.

    ``dtype`` is u8 or u16 (of a u32), i8 or i16 (of an i32), f16 or bf16 (of an f32); the type stays the operand's.
    """

    dtype: ScalarType
    operand: Expr


@expression("pack", 0x18, "pack", result=ScalarType.U32)
class Pack(Node):
    """The bits that a store of ``operand`` leaves in an element of the narrow type ``dtype``, zero-extended to u32."""

    dtype: ScalarType
    operand: Expr


@expression("unpack", 0x19, "unpack", result="dtype.widened")
class Unpack(Node):
    """The value of an element of the narrow type ``dtype`` that holds the low bits of ``operand`` (u32)."""

    dtype: ScalarType
    operand: Expr


@expression("wrap_cast", 0x1A, "wrap_cast", result="dtype")
class WrapCast(Node):
    """The float ``operand`` truncated toward zero, modulo 2^width of an integer type; 0 for infinities and NaN."""

    dtype: ScalarType
    operand: Expr


@expression("fma", 0x11, "fma", result=0)
class Fma(Node):
    """``a * b + c`` with one rounding, f32 or f64."""

    a: Expr
    b: Expr
    c: Expr


@expression(None, 0x12, "atomic", effect=Effect.ATOMIC)
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


@expression(None, None, None, effect=Effect.EXCHANGES, result=0, operators=SUBGROUP)
class SubgroupReduce(Node):
    """The values of lanes of the subgroup folded into one; ``operators.SUBGROUP`` has types and meaning."""

    op: SubgroupOp
    value: Expr


@expression("subgroup_ballot", 0x14, "sg_ballot", effect=Effect.EXCHANGES, result=ScalarType.U32)
class SubgroupBallot(Node):
    """A u32 whose bit k is the bool condition of lane k."""

    condition: Expr


@expression("subgroup_shuffle", 0x15, "sg_shuffle", effect=Effect.EXCHANGES, result=0)
class SubgroupShuffle(Node):
    """The operand's value in lane ``lane`` (u32) of the subgroup; 0 if that lane does not exist."""

    value: Expr
    lane: Expr


@expression("spec", 0x16, "spec", effect=Effect.DISPATCH, result="default.dtype")
class SpecConst(Node):
    """A constant fixed at compile time by a ``SpecMap``; typed by its default (u32 i32 f32 bool)."""

    name: str
    default: Literal


@expression("call", 0x1B, "call")
class Call(Node):
    """The result of the definition ``op`` of the program, such as ``acme.gelu``, for these arguments.

    Each argument is evaluated once, from left to right.  The call means the body of the definition; it touches no
    memory.
    """

    op: str
    args: tuple[Expr, ...]


@expression("native", 0x1C, None, result="dtype")
class Native(Node):
    """What the instructions ``text`` of a language, such as ``ptx``, give for these operands.

    It stands in lowerings alone: no file can hold it, and sessions refuse a program that is given with it.
    """

    dtype: ScalarType
    language: str
    text: str
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
    | SubgroupReduce
    | SubgroupBallot
    | SubgroupShuffle
    | SpecConst
    | Call
    | Native
)
"""Any expression node."""

EXPR_TYPES: Final[tuple[type[Node], ...]] = get_args(Expr)
CHILD_FIELDS: Final = {cls: OPERANDS[cls].names for cls in EXPR_TYPES}
"""The fields that hold operands, in evaluation order, by the type of an expression."""
LEAVES: Final = frozenset([cls for cls, names in CHILD_FIELDS.items() if not names])
"""The types of expressions without operands."""
CHILDREN: Final = {cls: OPERANDS[cls].of for cls in EXPR_TYPES}
"""Functions from an expression to its operands by its type, None for the absent one of an atomic."""
FUNCTIONS: Final = {each.word: each for each in functions()}
"""The expressions written as a word and their operands, by the word."""
CONVERSIONS: Final = {each.word: each for each in functions("dtype")}
"""The expressions written as a word, a type and an operand, by the word."""
PURE: Final = with_effects(Effect.NONE)
"""The expressions whose value depends on locals and operands alone."""
DISTINCTIONS: Final = {cls: distinction(cls) for cls in PURE - LEAVES}
"""Functions from such an operation to its operator, type or name; None where its class and operands say all."""
EXCHANGING: Final = with_effects(Effect.EXCHANGES)
"""Expressions by which the lanes of a subgroup exchange values."""
OF_SUBGROUP: Final = EXCHANGING | {SubgroupLane, SubgroupSize}
"""Expressions about the subgroup of a lane."""
ATOMICS: Final = with_effects(Effect.ATOMIC)
IMPURE: Final = EXCHANGING | ATOMICS
"""Expressions that are never dropped, copied, moved or put in another order."""
OF_LANES: Final = IMPURE | {SubgroupLane}
"""Expressions that may differ between any two lanes that are otherwise alike, so that each lane evaluates its own."""
ORDERED: Final = IMPURE | with_effects(Effect.READS)
"""Expressions whose order among each other is kept, and which no more lanes evaluate than the program says."""


def is_common(expr: Expr) -> bool:
    """Returns whether an expression has one value in all lanes of a subgroup by what it is: a ballot or reduction."""
    return type(expr) is SubgroupBallot or (type(expr) is SubgroupReduce and SUBGROUP[expr.op].span is Span.ALL)


def result_type(expr: Expr, *operands: ScalarType) -> ScalarType:
    """Returns the type of an expression whose form or operator tells it, on operands of these types, which are
    legal.
    """
    if isinstance(expr, Binary | Unary):
        row = BINARY[expr.op] if isinstance(expr, Binary) else UNARY[expr.op]
        return ScalarType.BOOL if row.result is Result.BOOL else operands[0]
    result = FORMS[type(expr)].result
    if isinstance(result, int):
        return operands[result]
    if isinstance(result, str):
        result = attrgetter(result)(expr)
    assert isinstance(result, ScalarType)
    return result


def children(expr: Expr) -> tuple[Expr, ...]:
    """Returns the operands in evaluation order; raises ``InvalidProgram`` for what is no expression."""
    try:
        operands = CHILDREN[type(expr)](expr)
    except KeyError:
        raise misplaced(expr, "an expression", "Literal.of(ScalarType.U32, 1)") from None
    if type(expr) is Atomic and expr.expected is None:
        return expr.index, expr.value
    return operands


def walk(expr: Expr) -> Iterator[Expr]:
    """Yields every node of the tree, parents before operands, operands in evaluation order; does not recurse."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))
