"""The operator tables: every operator once, with its spelling, types and meaning.

The validator, the printer and parser, the engines and ``docs/semantics.md`` all read these tables.  The exact
arithmetic of each row is in ``vyre.domain.numerics.scalar``.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType

_S = ScalarType
U32, I32, U64, I64, F32, F64, BOOL = _S.U32, _S.I32, _S.U64, _S.I64, _S.F32, _S.F64, _S.BOOL

INTEGERS: Final = frozenset({U32, I32, U64, I64})
UNSIGNED: Final = frozenset({U32, U64})
SIGNED: Final = INTEGERS - UNSIGNED
FLOATS: Final = frozenset({F32, F64})
NUMBERS: Final = INTEGERS | FLOATS
ANY_TYPE: Final = frozenset(EXECUTABLE_TYPES)


FIRST_OWN_TAG: Final = 0x38
"""The least tag of an operator that vyre-driver, the Rust system, does not have."""


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
    CLMUL = 0x38


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


class SubgroupOp(IdentityEnum):
    """Operators over the lanes of a subgroup: reductions, and scans; the value is the stable opcode in wire."""

    ADD = 0x13
    MIN = 0x20
    MAX = 0x21
    AND = 0x22
    OR = 0x23
    XOR = 0x24
    ANY = 0x25
    ALL = 0x26
    INCLUSIVE_ADD = 0x28
    INCLUSIVE_MIN = 0x29
    INCLUSIVE_MAX = 0x2A
    INCLUSIVE_AND = 0x2B
    INCLUSIVE_OR = 0x2C
    INCLUSIVE_XOR = 0x2D
    EXCLUSIVE_ADD = 0x30
    EXCLUSIVE_MIN = 0x31
    EXCLUSIVE_MAX = 0x32
    EXCLUSIVE_AND = 0x33
    EXCLUSIVE_OR = 0x34
    EXCLUSIVE_XOR = 0x35


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


class Element(Enum):
    """A value that each type has, bool as its bit."""

    ZERO = "zero; +0 of floats"
    MINUS_ZERO = "-0 of floats"
    ONE = "one"
    ONES = "all bits set"
    LEAST = "the least value"
    GREATEST = "the greatest value"
    NAN = "the canonical NaN of floats"

    def bits(self, dtype: ScalarType) -> int:
        """Returns the bits of the element of a type; ``LEAST`` and others of bits are those of integers."""
        match self:
            case Element.ZERO:
                return 0
            case Element.MINUS_ZERO:
                return 1 << (dtype.bits - 1)
            case Element.ONE:
                return _ONE_BITS.get(dtype, 1)
            case Element.ONES:
                return 1 if dtype is BOOL else (1 << dtype.bits) - 1
            case Element.LEAST:
                return 1 << (dtype.bits - 1) if dtype.is_signed else 0
            case Element.GREATEST:
                return (1 << (dtype.bits - dtype.is_signed)) - 1
            case Element.NAN:
                return _NAN_BITS[dtype]


_ONE_BITS: Final = {F32: 0x3F80_0000, F64: 0x3FF0_0000_0000_0000}
_NAN_BITS: Final = {F32: 0x7FC0_0000, F64: 0x7FF8_0000_0000_0000}


class BinaryRow(NamedTuple):
    """One binary operator: spelling in text, whether it is written infix, types, meaning; and its laws.

    ``function`` is the name of the function of vyre that applies it, None for operators of Python.  ``commutes``: both
    orders of the operands give the same bits, or a NaN each.  With the right operand ``neutral`` it gives its left
    operand, with ``absorbing`` always ``absorbed``; ``float_neutral`` is that of floats, where the result may be
    another NaN than the operand.  ``lowers_to`` is what it gives for integers ``x`` and ``y`` of one type, made of
    other operators as laws write them, for engines that have no rule of their own.
    """

    text: str
    infix: bool
    operands: frozenset[ScalarType]
    right: RightOperand
    result: Result
    meaning: str
    function: str | None
    commutes: bool
    neutral: Element | None
    float_neutral: Element | None
    absorbing: Element | None
    absorbed: Element | None
    lowers_to: str | None


class UnaryRow(NamedTuple):
    """One unary operator: its function name in text, operand types, result and meaning.

    ``function`` is the name of the function of vyre that applies it, None for operators of Python.
    """

    text: str
    operands: frozenset[ScalarType]
    result: Result
    meaning: str
    function: str | None


class AtomicRow(NamedTuple):
    """One atomic: its function name in text, the value that it writes, and whether operands may come in any order and
    grouping; then ``neutral`` is the operand that changes nothing.
    """

    text: str
    meaning: str
    neutral: Element | None

    @property
    def commutes(self) -> bool:
        """Returns whether operands may be taken in any order and grouping."""
        return self.neutral is not None


class Span(Enum):
    """The lanes of a subgroup whose values make up the result of a lane."""

    ALL = "the lanes of the subgroup"
    INCLUSIVE = "the lanes up to its own"
    EXCLUSIVE = "the lanes below its own"


class SubgroupRow(NamedTuple):
    """One operator over the lanes of a subgroup: ``operator`` folds the values of a ``span`` in ascending lanes.

    ``text`` is its function name in text and of vyre, ``tag`` its tag in JSON.  The fold begins with ``first``, or
    ``float_first`` for floats; lanes that do not exist have no value.
    """

    text: str
    tag: str
    operator: BinaryOp
    span: Span
    first: Element
    float_first: Element
    meaning: str

    @property
    def operands(self) -> frozenset[ScalarType]:
        """Returns the types on which it is defined, which are those of its results."""
        return BINARY[self.operator].operands

    def start(self, dtype: ScalarType) -> int:
        """Returns the bits with which the fold of values of a type begins."""
        return (self.float_first if dtype.is_float else self.first).bits(dtype)


def _bin(
    text: str,
    operands: frozenset[ScalarType],
    meaning: str,
    *,
    right: RightOperand = RightOperand.SAME,
    result: Result = Result.LEFT,
    function: str | None = None,
    commutes: bool = False,
    neutral: Element | None = None,
    float_neutral: Element | None = None,
    absorbing: Element | None = None,
    absorbed: Element | None = None,
    lowers_to: str | None = None,
) -> BinaryRow:
    absorbed = absorbing if absorbed is None else absorbed
    infix = not text.isidentifier() or text in ("and", "or")
    function = function if infix else function or text
    laws = (commutes, neutral, float_neutral, absorbing, absorbed)
    return BinaryRow(text, infix, operands, right, result, meaning, function, *laws, lowers_to)


def _carry_less_product() -> str:
    """Returns the product by sums of products of every fourth bit, in which three free bits hold the carries of a bit.

    The lowest bit of a sum is its parity.  A sum of 16 bits, at the last place of 64, leaves the type with its carry.
    """
    masks = ("MAX / 15", "MAX / 15 * 2", "MAX / 15 * 4", "MAX / 15 * 8")
    sums = []
    for place, mask in enumerate(masks):
        products = [f"(x & {first}) * (y & {masks[(place - i) % 4]})" for i, first in enumerate(masks)]
        sums.append(f"(({' ^ '.join(products)}) & {mask})")
    return " | ".join(sums)


_WRAP = "integers wrap modulo 2^width; floats round once to nearest even"
BINARY: Final[dict[BinaryOp, BinaryRow]] = {
    BinaryOp.ADD: _bin(
        "+", NUMBERS, f"sum; {_WRAP}", commutes=True, neutral=Element.ZERO, float_neutral=Element.MINUS_ZERO
    ),
    BinaryOp.SUB: _bin("-", NUMBERS, f"difference; {_WRAP}", neutral=Element.ZERO, float_neutral=Element.ZERO),
    BinaryOp.MUL: _bin(
        "*",
        NUMBERS,
        f"product; {_WRAP}",
        commutes=True,
        neutral=Element.ONE,
        float_neutral=Element.ONE,
        absorbing=Element.ZERO,
    ),
    BinaryOp.DIV: _bin(
        "/",
        NUMBERS,
        "quotient truncated toward zero; unsigned x/0 = all ones, signed x/0 = 0, MIN/-1 = MIN; floats IEEE",
        neutral=Element.ONE,
        float_neutral=Element.ONE,
    ),
    BinaryOp.MOD: _bin(
        "%",
        INTEGERS,
        "remainder with the sign of the dividend; x%0 = 0, MIN%-1 = 0",
        absorbing=Element.ONE,
        absorbed=Element.ZERO,
    ),
    BinaryOp.BIT_AND: _bin("&", INTEGERS, "bitwise and", commutes=True, neutral=Element.ONES, absorbing=Element.ZERO),
    BinaryOp.BIT_OR: _bin("|", INTEGERS, "bitwise or", commutes=True, neutral=Element.ZERO, absorbing=Element.ONES),
    BinaryOp.BIT_XOR: _bin("^", INTEGERS, "bitwise exclusive or", commutes=True, neutral=Element.ZERO),
    BinaryOp.SHL: _bin(
        "<<", INTEGERS, "left shift; the count's low log2(width) bits are used", right=RightOperand.SHIFT
    ),
    BinaryOp.SHR: _bin(
        ">>",
        INTEGERS,
        "right shift, arithmetic for signed types; the count's low log2(width) bits are used",
        right=RightOperand.SHIFT,
    ),
    BinaryOp.EQ: _bin("==", ANY_TYPE, "equal; false if an operand is NaN", result=Result.BOOL, commutes=True),
    BinaryOp.NE: _bin("!=", ANY_TYPE, "not equal; true if an operand is NaN", result=Result.BOOL, commutes=True),
    BinaryOp.LT: _bin("<", NUMBERS, "less; false if an operand is NaN", result=Result.BOOL),
    BinaryOp.GT: _bin(">", NUMBERS, "greater; false if an operand is NaN", result=Result.BOOL),
    BinaryOp.LE: _bin("<=", NUMBERS, "less or equal; false if an operand is NaN", result=Result.BOOL),
    BinaryOp.GE: _bin(">=", NUMBERS, "greater or equal; false if an operand is NaN", result=Result.BOOL),
    BinaryOp.AND: _bin(
        "and",
        frozenset({BOOL}),
        "logical and; both sides are evaluated",
        commutes=True,
        neutral=Element.ONE,
        absorbing=Element.ZERO,
    ),
    BinaryOp.OR: _bin(
        "or",
        frozenset({BOOL}),
        "logical or; both sides are evaluated",
        commutes=True,
        neutral=Element.ZERO,
        absorbing=Element.ONE,
    ),
    BinaryOp.ABS_DIFF: _bin(
        "absdiff",
        INTEGERS,
        "absolute difference max - min, wrapping into the type of the left operand",
        function="abs_diff",
        commutes=True,
    ),
    BinaryOp.MIN: _bin(
        "min",
        NUMBERS,
        "smaller; floats: minimumNumber, -0 < +0, NaN only if both are NaN",
        function="min_",
        commutes=True,
        neutral=Element.GREATEST,
        absorbing=Element.LEAST,
    ),
    BinaryOp.MAX: _bin(
        "max",
        NUMBERS,
        "larger; floats: maximumNumber, -0 < +0, NaN only if both are NaN",
        function="max_",
        commutes=True,
        neutral=Element.LEAST,
        absorbing=Element.GREATEST,
    ),
    BinaryOp.SATURATING_ADD: _bin(
        "sat_add", INTEGERS, "sum clamped to the range of the type", commutes=True, neutral=Element.ZERO
    ),
    BinaryOp.SATURATING_SUB: _bin(
        "sat_sub", INTEGERS, "difference clamped to the range of the type", neutral=Element.ZERO
    ),
    BinaryOp.SATURATING_MUL: _bin(
        "sat_mul",
        INTEGERS,
        "product clamped to the range of the type",
        commutes=True,
        neutral=Element.ONE,
        absorbing=Element.ZERO,
    ),
    BinaryOp.ROTATE_LEFT: _bin(
        "rotl", INTEGERS, "rotate left by the count's low log2(width) bits", right=RightOperand.SHIFT
    ),
    BinaryOp.ROTATE_RIGHT: _bin(
        "rotr", INTEGERS, "rotate right by the count's low log2(width) bits", right=RightOperand.SHIFT
    ),
    BinaryOp.MUL_HIGH: _bin(
        "mulhi",
        INTEGERS,
        "high half of the double-width product, signed for signed types",
        commutes=True,
        absorbing=Element.ZERO,
    ),
    BinaryOp.CLMUL: _bin(
        "clmul",
        UNSIGNED,
        "carry-less product, of polynomials over GF(2): the exclusive or of x << i for the one bits i of y, low half",
        commutes=True,
        neutral=Element.ONE,
        absorbing=Element.ZERO,
        lowers_to=_carry_less_product(),
    ),
}
"""Spelling, operand types, result and meaning of each binary operator."""


def _un(
    text: str,
    operands: frozenset[ScalarType],
    meaning: str,
    result: Result = Result.LEFT,
    *,
    function: str | None = None,
) -> UnaryRow:
    function = None if text in ("neg", "bitnot", "not") else function or text
    return UnaryRow(text, operands, result, meaning, function)


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
    UnaryOp.ABS: _un(
        "abs", NUMBERS, "signed integers: wrapping |x| (|MIN| = MIN); floats: the sign bit cleared", function="abs_"
    ),
    UnaryOp.SQRT: _un("sqrt", FLOATS, "square root, rounded once; negative gives NaN"),
    UnaryOp.FLOOR: _un("floor", FLOATS, "largest integer not above x; the sign of zero is kept"),
    UnaryOp.CEIL: _un("ceil", FLOATS, "smallest integer not below x; ceil(-0.5) = -0"),
    UnaryOp.ROUND: _un(
        "round", FLOATS, "nearest integer, halves away from zero; the sign of zero is kept", function="round_"
    ),
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

TRANSCENDENTALS: Final = frozenset([op for op, row in UNARY.items() if row.meaning.endswith(_CR)])
"""The operators that a binary64 program computes, the same for all engines."""

ATOMIC_ELEMENTS: Final = frozenset({U32, I32, U64})
"""The element types on which atomics act."""
ATOMIC: Final[dict[AtomicOp, AtomicRow]] = {
    AtomicOp.ADD: AtomicRow("atomic_add", "old + v, wrapping", Element.ZERO),
    AtomicOp.OR: AtomicRow("atomic_or", "old | v", Element.ZERO),
    AtomicOp.AND: AtomicRow("atomic_and", "old & v", Element.ONES),
    AtomicOp.XOR: AtomicRow("atomic_xor", "old ^ v", Element.ZERO),
    AtomicOp.MIN: AtomicRow("atomic_min", "the smaller, by the signedness of the element", Element.GREATEST),
    AtomicOp.MAX: AtomicRow("atomic_max", "the larger, by the signedness of the element", Element.LEAST),
    AtomicOp.EXCHANGE: AtomicRow("atomic_exchange", "v", None),
    AtomicOp.COMPARE_EXCHANGE: AtomicRow(
        "atomic_compare_exchange", "v if old = expected, else old; never fails spuriously", None
    ),
    AtomicOp.FETCH_NAND: AtomicRow("atomic_fetch_nand", "~(old & v)", None),
}
"""Spelling and meaning of each atomic: the value that it writes, from the old value and its operand ``v``."""
_FOLDS: Final = {
    "ADD": (BinaryOp.ADD, Element.ZERO, Element.ZERO, "the sum over {}, in ascending order from 0 (+0 for floats)"),
    "MIN": (BinaryOp.MIN, Element.GREATEST, Element.NAN, "the least value of {}, by the rules of `min`"),
    "MAX": (BinaryOp.MAX, Element.LEAST, Element.NAN, "the greatest value of {}, by the rules of `max`"),
    "AND": (BinaryOp.BIT_AND, Element.ONES, Element.ONES, "the bitwise and of {}"),
    "OR": (BinaryOp.BIT_OR, Element.ZERO, Element.ZERO, "the bitwise or of {}"),
    "XOR": (BinaryOp.BIT_XOR, Element.ZERO, Element.ZERO, "the bitwise exclusive or of {}"),
    "ANY": (BinaryOp.OR, Element.ZERO, Element.ZERO, "whether the condition holds in one of {}"),
    "ALL": (BinaryOp.AND, Element.ONE, Element.ONE, "whether the condition holds in all of {}"),
}


def _over_lanes(op: SubgroupOp) -> SubgroupRow:
    name = op.name.lower()
    scan, _, fold = op.name.rpartition("_")
    span = Span[scan or "ALL"]
    operator, first, float_first, meaning = _FOLDS[fold]
    return SubgroupRow(f"subgroup_{name}", f"sg_{name}", operator, span, first, float_first, meaning.format(span.value))


SUBGROUP: Final = {op: _over_lanes(op) for op in SubgroupOp}
"""Spelling, fold and meaning of each operator over the lanes of a subgroup."""
Operator: TypeAlias = BinaryOp | UnaryOp | AtomicOp | SubgroupOp


class OperatorAt(NamedTuple):
    """An operator on operands of a type: for an atomic that of the elements, else that of the (left) operand."""

    operator: Operator
    dtype: ScalarType

    def __str__(self) -> str:
        match self.operator:
            case AtomicOp() as atomic:
                name = ATOMIC[atomic].text
            case SubgroupOp() as over_lanes:
                name = SUBGROUP[over_lanes].text
            case BinaryOp() | UnaryOp() as operator:
                name = operator.name.lower()
        return f"{name} {self.dtype.text}"


@cache
def operators_at(types: Collection[ScalarType] = EXECUTABLE_TYPES) -> frozenset[OperatorAt]:
    """Returns every operator of the language at each of these types that it has."""
    rows: list[tuple[Operator, frozenset[ScalarType]]] = [(op, row.operands) for op, row in BINARY.items()]
    rows += [(op, row.operands) for op, row in UNARY.items()]
    rows += [(op, row.operands) for op, row in SUBGROUP.items()]
    rows += [(op, ATOMIC_ELEMENTS) for op in ATOMIC]
    return frozenset([OperatorAt(op, dtype) for op, operands in rows for dtype in operands.intersection(types)])


ATOMIC_TEXT: Final = {op: row.text for op, row in ATOMIC.items()}
ATOMIC_MEANING: Final = {op: row.meaning for op, row in ATOMIC.items()}
"""The value that each atomic writes, from the old value and its operand ``v``."""
COMMUTING: Final = frozenset([op for op, row in BINARY.items() if row.commutes])
"""Operators of which both orders give the same bits, or a NaN each."""
COUNTED: Final = frozenset([op for op, row in BINARY.items() if row.right is RightOperand.SHIFT])
"""Operators whose right operand is a count, of which the low bits are used."""
EQUALITIES: Final = frozenset({BinaryOp.EQ, BinaryOp.NE})
OPPOSITE: Final = {
    BinaryOp.EQ: BinaryOp.NE,
    BinaryOp.NE: BinaryOp.EQ,
    BinaryOp.LT: BinaryOp.GE,
    BinaryOp.GE: BinaryOp.LT,
    BinaryOp.GT: BinaryOp.LE,
    BinaryOp.LE: BinaryOp.GT,
}
"""The comparison of integers that holds where another one does not; of floats only that of equalities."""
COMPARISONS: Final = frozenset(OPPOSITE)
MERGEABLE: Final = frozenset([op for op, row in ATOMIC.items() if row.commutes])
"""The atomics whose operands may be taken in any order and grouping."""


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
