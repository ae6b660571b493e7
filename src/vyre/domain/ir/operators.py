"""The operator tables: every operator once, with its spelling, types and meaning.

The validator, the printer and parser, the engines and ``docs/semantics.md`` all read these tables.  The exact
arithmetic of each row is in ``vyre.domain.numerics.scalar``.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType

_S = ScalarType
U32, I32, U64, I64, F32, F64, BOOL = _S.U32, _S.I32, _S.U64, _S.I64, _S.F32, _S.F64, _S.BOOL

INTEGERS: Final = frozenset({U32, I32, U64, I64})
FLOATS: Final = frozenset({F32, F64})
NUMBERS: Final = INTEGERS | FLOATS
ANY_TYPE: Final = frozenset(EXECUTABLE_TYPES)


class BinaryOp(IdentityEnum):
    """Binary operators; the value is the stable wire tag."""

    ADD = 0x01
    SUB = 0x02
    MUL = 0x03
    DIV = 0x04
    MOD = 0x05
    BIT_AND = 0x06
    BIT_OR = 0x07
    BIT_XOR = 0x08
    SHL = 0x09
    SHR = 0x0A
    EQ = 0x0B
    NE = 0x0C
    LT = 0x0D
    GT = 0x0E
    LE = 0x0F
    GE = 0x10
    AND = 0x11
    OR = 0x12
    ABS_DIFF = 0x13
    MIN = 0x14
    MAX = 0x15
    SATURATING_ADD = 0x16
    SATURATING_SUB = 0x17
    SATURATING_MUL = 0x18
    ROTATE_LEFT = 0x1D
    ROTATE_RIGHT = 0x1E
    MUL_HIGH = 0x21


class UnaryOp(IdentityEnum):
    """Unary operators; the value is the stable wire tag."""

    NEGATE = 0x01
    BIT_NOT = 0x02
    LOGICAL_NOT = 0x03
    POPCOUNT = 0x04
    CLZ = 0x05
    CTZ = 0x06
    REVERSE_BITS = 0x07
    COS = 0x08
    SIN = 0x09
    ABS = 0x0A
    SQRT = 0x0B
    FLOOR = 0x0C
    CEIL = 0x0D
    ROUND = 0x0E
    TRUNC = 0x0F
    SIGN = 0x10
    IS_NAN = 0x11
    IS_INF = 0x12
    IS_FINITE = 0x13
    EXP = 0x14
    LOG = 0x15
    LOG2 = 0x16
    EXP2 = 0x17
    TAN = 0x18
    ACOS = 0x19
    ASIN = 0x1A
    ATAN = 0x1B
    TANH = 0x1C
    SINH = 0x1D
    COSH = 0x1E
    INVERSE_SQRT = 0x1F
    RECIPROCAL = 0x24
    ROUND_EVEN = 0x38


class AtomicOp(IdentityEnum):
    """Read-modify-write operators; the value is the stable wire tag."""

    ADD = 1
    OR = 2
    AND = 3
    XOR = 4
    MIN = 5
    MAX = 6
    EXCHANGE = 7
    COMPARE_EXCHANGE = 8
    FETCH_NAND = 10


class Ordering(IdentityEnum):
    """Memory orderings; atomics take 0-4, barriers 1-5."""

    RELAXED = 0
    ACQUIRE = 1
    RELEASE = 2
    ACQ_REL = 3
    SEQ_CST = 4
    GRID_SYNC = 5

    @property
    def text(self) -> str:
        """Returns the spelling in ``.vyre`` text."""
        return self.name.lower()


class Result(Enum):
    """The rule by which the type of a result follows from the type of the (left) operand."""

    LEFT = "the type of the left operand"
    BOOL = "bool"


class RightOperand(Enum):
    """The types that the right operand of a binary operator may have."""

    SAME = "the same type as the left operand"
    SHIFT = "u32 or the type of the left operand"


class BinaryRow(NamedTuple):
    """One binary operator: spelling in text, whether it is written infix, types, meaning."""

    text: str
    infix: bool
    operands: frozenset[ScalarType]
    right: RightOperand
    result: Result
    meaning: str


class UnaryRow(NamedTuple):
    """One unary operator: its function name in text, operand types, result, meaning."""

    text: str
    operands: frozenset[ScalarType]
    result: Result
    meaning: str


def _bin(
    text: str,
    operands: frozenset[ScalarType],
    meaning: str,
    *,
    infix: bool = False,
    right: RightOperand = RightOperand.SAME,
    result: Result = Result.LEFT,
) -> BinaryRow:
    return BinaryRow(text, infix, operands, right, result, meaning)


_WRAP = "integers wrap modulo 2^width; floats round once to nearest even"
BINARY: Final[dict[BinaryOp, BinaryRow]] = {
    BinaryOp.ADD: _bin("+", NUMBERS, f"sum; {_WRAP}", infix=True),
    BinaryOp.SUB: _bin("-", NUMBERS, f"difference; {_WRAP}", infix=True),
    BinaryOp.MUL: _bin("*", NUMBERS, f"product; {_WRAP}", infix=True),
    BinaryOp.DIV: _bin(
        "/",
        NUMBERS,
        "quotient truncated toward zero; unsigned x/0 = all ones, signed x/0 = 0, MIN/-1 = MIN; floats IEEE",
        infix=True,
    ),
    BinaryOp.MOD: _bin("%", INTEGERS, "remainder with the sign of the dividend; x%0 = 0, MIN%-1 = 0", infix=True),
    BinaryOp.BIT_AND: _bin("&", INTEGERS, "bitwise and", infix=True),
    BinaryOp.BIT_OR: _bin("|", INTEGERS, "bitwise or", infix=True),
    BinaryOp.BIT_XOR: _bin("^", INTEGERS, "bitwise exclusive or", infix=True),
    BinaryOp.SHL: _bin(
        "<<", INTEGERS, "left shift; the count's low log2(width) bits are used", infix=True, right=RightOperand.SHIFT
    ),
    BinaryOp.SHR: _bin(
        ">>",
        INTEGERS,
        "right shift, arithmetic for signed types; the count's low log2(width) bits are used",
        infix=True,
        right=RightOperand.SHIFT,
    ),
    BinaryOp.EQ: _bin("==", ANY_TYPE, "equal; false if an operand is NaN", infix=True, result=Result.BOOL),
    BinaryOp.NE: _bin("!=", ANY_TYPE, "not equal; true if an operand is NaN", infix=True, result=Result.BOOL),
    BinaryOp.LT: _bin("<", NUMBERS, "less; false if an operand is NaN", infix=True, result=Result.BOOL),
    BinaryOp.GT: _bin(">", NUMBERS, "greater; false if an operand is NaN", infix=True, result=Result.BOOL),
    BinaryOp.LE: _bin("<=", NUMBERS, "less or equal; false if an operand is NaN", infix=True, result=Result.BOOL),
    BinaryOp.GE: _bin(">=", NUMBERS, "greater or equal; false if an operand is NaN", infix=True, result=Result.BOOL),
    BinaryOp.AND: _bin("and", frozenset({BOOL}), "logical and; both sides are evaluated", infix=True),
    BinaryOp.OR: _bin("or", frozenset({BOOL}), "logical or; both sides are evaluated", infix=True),
    BinaryOp.ABS_DIFF: _bin(
        "absdiff", INTEGERS, "absolute difference max - min, wrapping into the type of the left operand"
    ),
    BinaryOp.MIN: _bin("min", NUMBERS, "smaller; floats: minimumNumber, -0 < +0, NaN only if both are NaN"),
    BinaryOp.MAX: _bin("max", NUMBERS, "larger; floats: maximumNumber, -0 < +0, NaN only if both are NaN"),
    BinaryOp.SATURATING_ADD: _bin("sat_add", INTEGERS, "sum clamped to the range of the type"),
    BinaryOp.SATURATING_SUB: _bin("sat_sub", INTEGERS, "difference clamped to the range of the type"),
    BinaryOp.SATURATING_MUL: _bin("sat_mul", INTEGERS, "product clamped to the range of the type"),
    BinaryOp.ROTATE_LEFT: _bin(
        "rotl", INTEGERS, "rotate left by the count's low log2(width) bits", right=RightOperand.SHIFT
    ),
    BinaryOp.ROTATE_RIGHT: _bin(
        "rotr", INTEGERS, "rotate right by the count's low log2(width) bits", right=RightOperand.SHIFT
    ),
    BinaryOp.MUL_HIGH: _bin("mulhi", INTEGERS, "high half of the double-width product, signed for signed types"),
}
"""Spelling, operand types, result and meaning of each binary operator."""


def _un(text: str, operands: frozenset[ScalarType], meaning: str, result: Result = Result.LEFT) -> UnaryRow:
    return UnaryRow(text, operands, result, meaning)


_F32_ONLY = frozenset({F32})
_CR = "correctly rounded for every input (a shared binary64 program)"
UNARY: Final[dict[UnaryOp, UnaryRow]] = {
    UnaryOp.NEGATE: _un("neg", NUMBERS, "integers: 0 - x, wrapping; floats: the sign bit flipped"),
    UnaryOp.BIT_NOT: _un("bitnot", INTEGERS, "every bit flipped"),
    UnaryOp.LOGICAL_NOT: _un("not", frozenset({BOOL}), "logical not"),
    UnaryOp.POPCOUNT: _un("popcount", INTEGERS, "number of one bits, in the operand's type"),
    UnaryOp.CLZ: _un("clz", INTEGERS, "leading zero bits, in the operand's type; clz(0) = width"),
    UnaryOp.CTZ: _un("ctz", INTEGERS, "trailing zero bits, in the operand's type; ctz(0) = width"),
    UnaryOp.REVERSE_BITS: _un("reverse_bits", INTEGERS, "bits in reverse order"),
    UnaryOp.ABS: _un("abs", NUMBERS, "signed integers: wrapping |x| (|MIN| = MIN); floats: the sign bit cleared"),
    UnaryOp.SQRT: _un("sqrt", FLOATS, "square root, rounded once; negative gives NaN"),
    UnaryOp.FLOOR: _un("floor", FLOATS, "largest integer not above x; the sign of zero is kept"),
    UnaryOp.CEIL: _un("ceil", FLOATS, "smallest integer not below x; ceil(-0.5) = -0"),
    UnaryOp.ROUND: _un("round", FLOATS, "nearest integer, halves away from zero; the sign of zero is kept"),
    UnaryOp.ROUND_EVEN: _un("round_even", FLOATS, "nearest integer, halves to even; the sign of zero is kept"),
    UnaryOp.TRUNC: _un("trunc", FLOATS, "x without its fraction; the sign of zero is kept"),
    UnaryOp.SIGN: _un("sign", FLOATS, "1, -1, +0 for both zeros, NaN for NaN"),
    UnaryOp.IS_NAN: _un("is_nan", FLOATS, "x is NaN", Result.BOOL),
    UnaryOp.IS_INF: _un("is_inf", FLOATS, "x is infinite", Result.BOOL),
    UnaryOp.IS_FINITE: _un("is_finite", FLOATS, "x is neither NaN nor infinite", Result.BOOL),
    UnaryOp.COS: _un("cos", _F32_ONLY, f"cosine; {_CR}"),
    UnaryOp.SIN: _un("sin", _F32_ONLY, f"sine; {_CR}"),
    UnaryOp.TAN: _un("tan", _F32_ONLY, f"tangent; {_CR}"),
    UnaryOp.ACOS: _un("acos", _F32_ONLY, f"arc cosine; {_CR}"),
    UnaryOp.ASIN: _un("asin", _F32_ONLY, f"arc sine; {_CR}"),
    UnaryOp.ATAN: _un("atan", _F32_ONLY, f"arc tangent; {_CR}"),
    UnaryOp.TANH: _un("tanh", _F32_ONLY, f"hyperbolic tangent; {_CR}"),
    UnaryOp.SINH: _un("sinh", _F32_ONLY, f"hyperbolic sine; {_CR}"),
    UnaryOp.COSH: _un("cosh", _F32_ONLY, f"hyperbolic cosine; {_CR}"),
    UnaryOp.EXP: _un("exp", _F32_ONLY, f"e^x; {_CR}"),
    UnaryOp.EXP2: _un("exp2", _F32_ONLY, f"2^x; {_CR}"),
    UnaryOp.LOG: _un("log", _F32_ONLY, f"natural logarithm; {_CR}"),
    UnaryOp.LOG2: _un("log2", _F32_ONLY, f"binary logarithm; {_CR}"),
    UnaryOp.INVERSE_SQRT: _un("inverse_sqrt", _F32_ONLY, "1 / sqrt(x) in two roundings"),
    UnaryOp.RECIPROCAL: _un("reciprocal", _F32_ONLY, "1 / x, rounded once"),
}
"""Spelling, operand types, result and meaning of each unary operator."""

TRANSCENDENTALS: Final = frozenset(
    {
        UnaryOp.COS,
        UnaryOp.SIN,
        UnaryOp.TAN,
        UnaryOp.ACOS,
        UnaryOp.ASIN,
        UnaryOp.ATAN,
        UnaryOp.TANH,
        UnaryOp.SINH,
        UnaryOp.COSH,
        UnaryOp.EXP,
        UnaryOp.EXP2,
        UnaryOp.LOG,
        UnaryOp.LOG2,
    }
)

ATOMIC_ELEMENTS: Final = frozenset({U32, I32, U64})
"""The element types on which atomics act."""
ATOMIC_TEXT: Final[dict[AtomicOp, str]] = {op: f"atomic_{op.name.lower()}" for op in AtomicOp}
ATOMIC_MEANING: Final[dict[AtomicOp, str]] = {
    AtomicOp.ADD: "old + v, wrapping",
    AtomicOp.OR: "old | v",
    AtomicOp.AND: "old & v",
    AtomicOp.XOR: "old ^ v",
    AtomicOp.MIN: "the smaller, by the signedness of the element",
    AtomicOp.MAX: "the larger, by the signedness of the element",
    AtomicOp.EXCHANGE: "v",
    AtomicOp.COMPARE_EXCHANGE: "v if old = expected, else old; never fails spuriously",
    AtomicOp.FETCH_NAND: "~(old & v)",
}
"""The value that each atomic writes, from the old value and its operand ``v``."""


def binary_result(op: BinaryOp, left: ScalarType, right: ScalarType) -> ScalarType | None:
    """Returns the type of ``left op right``, or None where the operands are not legal."""
    row = BINARY[op]
    if left not in row.operands:
        return None
    if right is not left and not (row.right is RightOperand.SHIFT and right is U32):
        return None
    return BOOL if row.result is Result.BOOL else left


def unary_result(op: UnaryOp, operand: ScalarType) -> ScalarType | None:
    """Returns the type of ``op operand``, or None where the operand is not legal."""
    row = UNARY[op]
    if operand not in row.operands:
        return None
    return BOOL if row.result is Result.BOOL else operand


def bitcast_is_legal(source: ScalarType, target: ScalarType) -> bool:
    """Returns whether a bitcast is legal: between executable types of equal width, except bool."""
    return (
        source is not BOOL
        and target is not BOOL
        and source.is_executable
        and target.is_executable
        and source.size == target.size
    )


def narrow_is_legal(dtype: ScalarType) -> bool:
    """Returns whether ``narrow``, ``pack`` and ``unpack`` exist for a type: u8, u16, i8, i16, f16 or bf16."""
    return dtype in NARROW_TYPES


def wrap_cast_is_legal(source: ScalarType, target: ScalarType) -> bool:
    """Returns whether a wrapping cast is legal: from f32 or f64 to u32, i32, u64 or i64."""
    return source in FLOATS and target in INTEGERS


def cast_is_legal(source: ScalarType, target: ScalarType) -> bool:
    """Returns whether a cast is legal: between any two executable types."""
    return source.is_executable and target.is_executable
