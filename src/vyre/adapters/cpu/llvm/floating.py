"""Floating-point operators, on elements.

Nothing is contracted or reassociated.  A NaN result may have any payload, because a store writes the canonical one;
only where a value that is no NaN depends on a NaN do the rules below say so.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.instructions import FRACTION, WORD, Instructions, width
from vyre.domain.ir.operators import BinaryOp, UnaryOp

_DIRECT: Final[dict[BinaryOp, str]] = {
    BinaryOp.ADD: "fadd",
    BinaryOp.SUB: "fsub",
    BinaryOp.MUL: "fmul",
    BinaryOp.DIV: "fdiv",
}
_PREDICATES: Final[dict[BinaryOp, str]] = {
    BinaryOp.EQ: "oeq",
    BinaryOp.NE: "une",
    BinaryOp.LT: "olt",
    BinaryOp.GT: "ogt",
    BinaryOp.LE: "ole",
    BinaryOp.GE: "oge",
}
_INTRINSICS: Final[dict[UnaryOp, str]] = {
    UnaryOp.ABS: "fabs",
    UnaryOp.SQRT: "sqrt",
    UnaryOp.FLOOR: "floor",
    UnaryOp.CEIL: "ceil",
    UnaryOp.TRUNC: "trunc",
    UnaryOp.ROUND_EVEN: "rint",  # by the rounding mode, which is to nearest even
}
CLASSIFICATIONS: Final = frozenset({UnaryOp.IS_NAN, UnaryOp.IS_INF, UnaryOp.IS_FINITE})
"""The operators whose result is a bool."""


def infinity_bits(element: str) -> int:
    """Returns the bit pattern of infinity."""
    return ((1 << (width(element) - 1 - FRACTION[element])) - 1) << FRACTION[element]


def magnitude_bits(ins: Instructions, element: str, a: str) -> str:
    """Returns the bit pattern of a float without its sign."""
    word = WORD[element]
    return ins.do("and", word, ins.bits(element, a), ins.number(word, (1 << (width(word) - 1)) - 1))


def compare(ins: Instructions, op: BinaryOp, element: str, a: str, b: str) -> str:
    """Returns a comparison, an i1."""
    return ins.compare(_PREDICATES[op], element, a, b)


def binary(ins: Instructions, op: BinaryOp, element: str, a: str, b: str) -> str:
    """Returns ``a op b`` for an operator that is no comparison."""
    direct = _DIRECT.get(op)
    if direct is not None:
        return ins.do(direct, element, a, b)
    return _extremum(ins, element, a, b, greatest=op is BinaryOp.MAX)


def _extremum(ins: Instructions, element: str, a: str, b: str, *, greatest: bool) -> str:
    """Returns minimumNumber or maximumNumber: a NaN loses, and -0 is less than +0.

    LLVM's ``minimumnum`` and ``maximumnum`` of scalars give NaN on x86-64 if one operand is NaN and the other one is
    known to be none, such as a converted integer (LLVM 22.1).
    """
    word = WORD[element]
    wins = ins.compare("ogt" if greatest else "olt", element, a, b)  # not if an operand is NaN
    extreme = ins.select(element, wins, a, b)
    number = ins.select(element, ins.compare("uno", element, b, b), a, extreme)
    # Equal numbers differ in the sign of zero only: both bits must be set for the greater one, one for the lesser one.
    zero = ins.do("and" if greatest else "or", word, ins.bits(element, a), ins.bits(element, b))
    equal = ins.compare("oeq", element, a, b)
    return ins.select(element, equal, ins.from_bits(element, zero), number)


def fma(ins: Instructions, element: str, a: str, b: str, c: str) -> str:
    """Returns ``a * b + c``, rounded once."""
    return ins.call("fma", element, a, b, c)


def classify(ins: Instructions, op: UnaryOp, element: str, a: str) -> str:
    """Returns an i1, decided on the bits."""
    word = WORD[element]
    predicate = {UnaryOp.IS_NAN: "ugt", UnaryOp.IS_INF: "eq", UnaryOp.IS_FINITE: "ult"}[op]
    return ins.compare(predicate, word, magnitude_bits(ins, element, a), ins.number(word, infinity_bits(element)))


def unary(ins: Instructions, op: UnaryOp, element: str, a: str) -> str:
    """Returns ``op a`` for an operator that is neither a classification nor a transcendental function."""
    intrinsic = _INTRINSICS.get(op)
    if intrinsic is not None:
        return ins.call(intrinsic, element, a)
    match op:
        case UnaryOp.NEGATE:
            return ins.do("fneg", element, a)
        case UnaryOp.ROUND:
            return _round_away(ins, element, a)
        case UnaryOp.SIGN:
            return _sign(ins, element, a)
        case UnaryOp.RECIPROCAL:
            return ins.do("fdiv", element, ins.real(element, 1.0), a)
        case UnaryOp.INVERSE_SQRT:  # two roundings
            return ins.do("fdiv", element, ins.real(element, 1.0), ins.call("sqrt", element, a))
        case _:
            raise AssertionError(f"no instruction for {op}")


def _round_away(ins: Instructions, element: str, a: str) -> str:
    """Returns the nearest integer, halves away from zero.

    The fraction ``a - trunc(a)`` is exact, and so is a step of one from an integer that has a fraction beyond it.
    Infinities have the fraction NaN, for which the comparison does not hold.
    """
    whole = ins.call("trunc", element, a)
    fraction = ins.call("fabs", element, ins.do("fsub", element, a, whole))
    one = ins.call("copysign", element, ins.real(element, 1.0), a)
    steps = ins.compare("oge", element, fraction, ins.real(element, 0.5))
    return ins.select(element, steps, ins.do("fadd", element, whole, one), whole)


def _sign(ins: Instructions, element: str, a: str) -> str:
    """Returns 1, -1, +0 for both zeros, and NaN for NaN."""
    word = WORD[element]
    infinity, zero = ins.number(word, infinity_bits(element)), ins.number(word, 0)
    bits, magnitude = ins.bits(element, a), magnitude_bits(ins, element, a)
    one = ins.bits(element, ins.call("copysign", element, ins.real(element, 1.0), a))
    known = ins.select(word, ins.compare("eq", word, magnitude, zero), zero, one)
    number = ins.compare("ule", word, magnitude, infinity)
    return ins.from_bits(element, ins.select(word, number, known, bits))
