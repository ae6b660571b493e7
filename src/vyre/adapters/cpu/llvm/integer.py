"""Integer operators except division, on elements.  Nothing here is undefined for any operand."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.instructions import Instructions, width
from vyre.domain.ir.operators import BinaryOp, UnaryOp

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
