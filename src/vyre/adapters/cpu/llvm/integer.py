"""Integer operators, on elements.  Nothing here is undefined for any operand.

The rules of division are total: unsigned ``a / 0`` is all ones, signed ``a / 0`` is 0, ``a % 0`` is 0, ``MIN / -1``
is ``MIN`` with remainder 0.  LLVM leaves those cases undefined, so they divide by 1 instead; the operands are frozen,
because those of a lane that is not active may have no value.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.instructions import Instructions, width
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.policies.emission.constant_division import (
    ByOne,
    ByZero,
    Compare,
    DivisionInputs,
    DivisionPlan,
    Multiply,
    Shift,
    SignedMultiply,
    SignedShift,
    divide_by,
)
from vyre.policies.journal import decide

_DIRECT: Final[dict[BinaryOp, str]] = {
    BinaryOp.ADD: "add",
    BinaryOp.SUB: "sub",
    BinaryOp.MUL: "mul",
    BinaryOp.BIT_AND: "and",
    BinaryOp.BIT_OR: "or",
    BinaryOp.BIT_XOR: "xor",
}
_BY_SIGN: Final[dict[BinaryOp, tuple[str, str]]] = {
    BinaryOp.MIN: ("umin", "smin"),
    BinaryOp.MAX: ("umax", "smax"),
    BinaryOp.SATURATING_ADD: ("uadd.sat", "sadd.sat"),
    BinaryOp.SATURATING_SUB: ("usub.sat", "ssub.sat"),
}
"""The intrinsics for unsigned and for signed operands."""
_FUNNEL: Final = {BinaryOp.ROTATE_LEFT: "fshl", BinaryOp.ROTATE_RIGHT: "fshr"}
_EQUALITY: Final = {BinaryOp.EQ: "eq", BinaryOp.NE: "ne"}
_ORDER: Final = {BinaryOp.LT: "lt", BinaryOp.GT: "gt", BinaryOp.LE: "le", BinaryOp.GE: "ge"}
WRITTEN: Final = frozenset(
    {
        *(*_DIRECT, *_BY_SIGN, *_FUNNEL, BinaryOp.SHL, BinaryOp.SHR),
        *(BinaryOp.ABS_DIFF, BinaryOp.MUL_HIGH, BinaryOp.SATURATING_MUL),
    }
)
"""The operators that ``binary`` writes."""


def compare(ins: Instructions, op: BinaryOp, element: str, a: str, b: str, *, signed: bool) -> str:
    """Returns a comparison, an i1."""
    predicate = _EQUALITY.get(op) or ("s" if signed else "u") + _ORDER[op]
    return ins.compare(predicate, element, a, b)


def binary(ins: Instructions, op: BinaryOp, element: str, a: str, b: str, *, signed: bool) -> str:
    """Returns ``a op b`` for an operator of ``WRITTEN``.

    Counts of shifts and rotations are of the element type; any high bits are ignored, which constants do not have.
    """
    direct = _DIRECT.get(op)
    if direct is not None:
        return ins.do(direct, element, a, b)
    if op in _BY_SIGN:
        return ins.call(_BY_SIGN[op][signed], element, a, b)
    if op in _FUNNEL:
        return ins.call(_FUNNEL[op], element, a, a, b)
    match op:
        case BinaryOp.SHL | BinaryOp.SHR:
            count = ins.do("and", element, b, ins.number(element, width(element) - 1)) if b.startswith("%") else b
            instruction = "shl" if op is BinaryOp.SHL else "ashr" if signed else "lshr"
            return ins.do(instruction, element, a, count)
        case BinaryOp.ABS_DIFF:
            low, high = _BY_SIGN[BinaryOp.MIN][signed], _BY_SIGN[BinaryOp.MAX][signed]
            return ins.do("sub", element, ins.call(high, element, a, b), ins.call(low, element, a, b))
        case BinaryOp.MUL_HIGH:
            return ins.high_product(element, a, b, signed=signed)
        case BinaryOp.SATURATING_MUL:
            return _saturating_product(ins, element, a, b, signed=signed)
        case _:
            raise AssertionError(f"no instruction for {op}")


def _saturating_product(ins: Instructions, element: str, a: str, b: str, *, signed: bool) -> str:
    bits = width(element)
    if bits == 32:
        extend = "sext" if signed else "zext"
        product = ins.do("mul", "i64", ins.convert(extend, element, "i64", a), ins.convert(extend, element, "i64", b))
        if signed:
            product = ins.call("smin", "i64", product, ins.number("i64", 2**31 - 1))
            product = ins.call("smax", "i64", product, ins.number("i64", -(2**31)))
        else:
            product = ins.call("umin", "i64", product, ins.number("i64", 2**32 - 1))
        return ins.convert("trunc", "i64", element, product)
    low, high = ins.do("mul", element, a, b), ins.high_product(element, a, b, signed=signed)
    if not signed:
        fits = ins.compare("eq", element, high, ins.number(element, 0))
        return ins.select(element, fits, low, ins.number(element, -1))
    top = ins.number(element, bits - 1)
    fits = ins.compare("eq", element, high, ins.do("ashr", element, low, top))
    # The greatest number, or the least, which is its complement, where the signs of the factors differ.
    negative = ins.do("ashr", element, ins.do("xor", element, a, b), top)
    limit = ins.do("xor", element, negative, ins.number(element, (1 << (bits - 1)) - 1))
    return ins.select(element, fits, low, limit)


def unary(ins: Instructions, op: UnaryOp, element: str, a: str, *, signed: bool) -> str:
    """Returns ``op a``."""
    match op:
        case UnaryOp.NEGATE:
            return ins.do("sub", element, ins.number(element, 0), a)
        case UnaryOp.BIT_NOT:
            return ins.do("xor", element, a, ins.number(element, -1))
        case UnaryOp.ABS:
            return ins.call("abs", element, a, flags=", i1 false") if signed else a
        case UnaryOp.POPCOUNT:
            return ins.call("ctpop", element, a)
        case UnaryOp.CLZ:
            return ins.call("ctlz", element, a, flags=", i1 false")
        case UnaryOp.CTZ:
            return ins.call("cttz", element, a, flags=", i1 false")
        case UnaryOp.REVERSE_BITS:
            return ins.call("bitreverse", element, a)
        case _:
            raise AssertionError(f"no instruction for {op}")


# ---------------------------------------------------------------- division


def divide(ins: Instructions, element: str, a: str, b: str, *, signed: bool) -> str:
    """Returns the quotient truncated toward zero."""
    a, b = ins.do("freeze", element, a), ins.do("freeze", element, b)
    zero = ins.compare("eq", element, b, ins.number(element, 0))
    quotient = _quotient(ins, element, a, _safe_divisor(ins, element, a, b, signed=signed), signed=signed)
    return ins.select(element, zero, ins.number(element, 0 if signed else -1), quotient)


def remainder(ins: Instructions, element: str, a: str, b: str, *, signed: bool) -> str:
    """Returns the remainder, with the sign of the dividend."""
    a, b = ins.do("freeze", element, a), ins.do("freeze", element, b)
    divisor = _safe_divisor(ins, element, a, b, signed=signed)
    # Where the divisor was replaced by 1 the remainder is 0, as the language has it.
    if _is_divided_by_instruction(ins, element):
        return ins.do("srem" if signed else "urem", element, a, divisor)
    quotient = _quotient(ins, element, a, divisor, signed=signed)
    return ins.do("sub", element, a, ins.do("mul", element, quotient, divisor))


def _safe_divisor(ins: Instructions, element: str, a: str, b: str, *, signed: bool) -> str:
    """Returns ``b``, or 1 where the division by ``b`` is undefined."""
    bad = ins.compare("eq", element, b, ins.number(element, 0))
    if signed:
        least = ins.compare("eq", element, a, ins.number(element, 1 << (width(element) - 1)))
        minus = ins.compare("eq", element, b, ins.number(element, -1))
        bad = ins.do("or", "i1", bad, ins.do("and", "i1", least, minus))
    return ins.select(element, bad, ins.number(element, 1), b)


def _is_divided_by_instruction(ins: Instructions, element: str) -> bool:
    """Tells whether integers are divided by an instruction: CPUs have none for vectors."""
    return ins.lanes is None or width(element) == 64


def _quotient(ins: Instructions, element: str, a: str, b: str, *, signed: bool) -> str:
    """Returns a quotient that is defined."""
    if _is_divided_by_instruction(ins, element):
        return ins.do("sdiv" if signed else "udiv", element, a, b)
    # A quotient of integers of 32 bits is at least 2^-32 away from the next integer, unless it is one, which is more
    # than half a place of binary64: rounding cannot reach that integer.
    to_real, to_integer = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    dividend, divisor = (ins.convert(to_real, element, "double", x) for x in (a, b))
    return ins.convert(to_integer, "double", element, ins.do("fdiv", "double", dividend, divisor))


# ------------------------------------------------------------------------------ by constants


def divide_by_constant(ins: Instructions, element: str, a: str, divisor: int, *, signed: bool) -> str:
    """Returns the quotient by a bit pattern that is known."""
    plan = _plan(ins, element, divisor, signed=signed)
    if isinstance(plan, ByZero):
        return ins.number(element, plan.quotient)
    return _by_plan(ins, element, a, plan)


def remainder_by_constant(ins: Instructions, element: str, a: str, divisor: int, *, signed: bool) -> str:
    """Returns the remainder by a bit pattern that is known."""
    plan = _plan(ins, element, divisor, signed=signed)
    match plan:
        case ByZero() | ByOne():
            return ins.number(element, 0)
        case Shift():
            return ins.do("and", element, a, ins.number(element, plan.mask))
        case SignedShift():
            kept = ins.do("and", element, _biased(ins, element, a, plan), ins.number(element, plan.keep))
            return ins.do("sub", element, a, kept)
        case _:
            quotient = _by_plan(ins, element, a, plan)
            return ins.do("sub", element, a, ins.do("mul", element, quotient, ins.number(element, divisor)))


def _plan(ins: Instructions, element: str, divisor: int, *, signed: bool) -> DivisionPlan:
    return decide(ins.w.decisions, divide_by, DivisionInputs(divisor=divisor, width=width(element), signed=signed))


def _biased(ins: Instructions, element: str, a: str, plan: SignedShift) -> str:
    sign = ins.do("ashr", element, a, ins.number(element, width(element) - 1))
    return ins.do("add", element, a, ins.do("lshr", element, sign, ins.number(element, plan.bias_shift)))


def _by_plan(ins: Instructions, element: str, a: str, plan: DivisionPlan) -> str:
    def number(value: int) -> str:
        return ins.number(element, value)

    def negated(quotient: str, negate: bool) -> str:
        return ins.do("sub", element, number(0), quotient) if negate else quotient

    match plan:
        case ByOne():
            return negated(a, plan.negate)
        case Shift():
            return ins.do("lshr", element, a, number(plan.shift))
        case SignedShift():
            shifted = ins.do("ashr", element, _biased(ins, element, a, plan), number(plan.shift))
            return negated(shifted, plan.negate)
        case Compare():
            return ins.convert("zext", "i1", element, ins.compare("uge", element, a, number(plan.threshold)))
        case Multiply():
            if not plan.add:
                shifted = ins.do("lshr", element, a, number(plan.pre_shift)) if plan.pre_shift else a
                high = ins.high_product(element, shifted, number(plan.multiplier), signed=False)
            else:
                high = ins.high_product(element, a, number(plan.multiplier), signed=False)
                half = ins.do("lshr", element, ins.do("sub", element, a, high), number(1))
                high = ins.do("add", element, high, half)
            return ins.do("lshr", element, high, number(plan.post_shift))
        case SignedMultiply():
            high = ins.high_product(element, a, number(plan.multiplier), signed=True)
            if plan.add:
                high = ins.do("add", element, high, a)
            shifted = ins.do("ashr", element, high, number(plan.post_shift))
            sign = ins.do("ashr", element, a, number(width(element) - 1))
            if plan.negate:
                return ins.do("sub", element, sign, shifted)
            return ins.do("sub", element, shifted, sign)
        case _:
            raise AssertionError(f"no division by {plan}")
