"""The operators of ``arith``, ``math`` and ``index`` as expressions of ``vyre.ir``.

Values of i1 are bools, and values of i8, i16 and f16 are held in 32 bits; each result is one that fits its type.
MLIR's integers have no sign: here they are signed, and ``unsigned`` gives the same bits to operators that want them so.
"""

from __future__ import annotations  # noqa: I001

from typing import Any, Final

from operations import Malformed, Refused, name_of, number, stored, word
from xdsl.ir import Operation

# fmt: off
from vyre.ir import (
    Binary, Bitcast, Cast, Expr, Fma, Literal, Narrow, Pack, Select, Unary, Unpack, unary_result, BinaryOp as B,
    ScalarType as S, UnaryOp as U,
)
# fmt: on

NARROW: Final = {S.I8: 8, S.I16: 16, S.F16: 16, S.BF16: 16}
SHORT_FLOATS: Final = (S.F16, S.BF16)
INTEGER: Final = {
    "addi": (B.ADD, False), "subi": (B.SUB, False), "muli": (B.MUL, False), "divsi": (B.DIV, False),
    "divui": (B.DIV, True), "remsi": (B.MOD, False), "remui": (B.MOD, True), "andi": (B.BIT_AND, False),
    "ori": (B.BIT_OR, False), "xori": (B.BIT_XOR, False), "shli": (B.SHL, False), "shrsi": (B.SHR, False),
    "shrui": (B.SHR, True), "maxsi": (B.MAX, False), "maxui": (B.MAX, True), "minsi": (B.MIN, False),
    "minui": (B.MIN, True),
}  # fmt: skip
"""The operator of ``arith``, and whether its operands are unsigned."""
FLOAT: Final = {
    "addf": B.ADD, "subf": B.SUB, "mulf": B.MUL, "divf": B.DIV, "maxnumf": B.MAX, "minnumf": B.MIN,
    "maximumf": B.MAX, "minimumf": B.MIN, "maxf": B.MAX, "minf": B.MIN,
}  # fmt: skip
PROPAGATE: Final = ("maximumf", "minimumf", "maxf", "minf")
"""These give NaN where an operand is NaN; vyre's ``max`` and ``min`` give the other operand."""
UNARY: Final = {
    "negf": U.NEGATE, "absf": U.ABS, "ceil": U.CEIL, "floor": U.FLOOR, "trunc": U.TRUNC, "round": U.ROUND,
    "roundeven": U.ROUND_EVEN, "sqrt": U.SQRT, "rsqrt": U.INVERSE_SQRT, "exp": U.EXP, "exp2": U.EXP2, "log": U.LOG,
    "log2": U.LOG2, "sin": U.SIN, "cos": U.COS, "tan": U.TAN, "tanh": U.TANH, "atan": U.ATAN, "asin": U.ASIN,
    "acos": U.ACOS, "sinh": U.SINH, "cosh": U.COSH,
}  # fmt: skip
OF_INDEX: Final = {"casts": "index_cast", "castu": "index_castui"}
"""The operators of ``index`` have the names of ``arith`` without the last letter, but for these."""
PREDICATES: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES: Final = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
RELATION: Final = {"eq": B.EQ, "ne": B.NE, "lt": B.LT, "le": B.LE, "gt": B.GT, "ge": B.GE}


def operator_of(op: Operation) -> str:
    """Returns the name of the operator without its dialect, by its name in ``arith`` or ``math``."""
    dialect, _, name = name_of(op).partition(".")
    return OF_INDEX.get(name, name + "i") if dialect == "index" else name


def predicate(op: Operation) -> str:
    """Returns the predicate of a comparison, which ``arith`` has as a number and ``index`` as a word."""
    known = FLOAT_PREDICATES if name_of(op) == "arith.cmpf" else PREDICATES
    numbered: dict[Any, str] = dict(enumerate(known))
    which = word(op, "pred") if name_of(op) == "index.cmp" else numbered.get(number(op, "predicate"), "")
    if which not in known:
        raise Malformed(op, "a predicate that is none of its dialect's")
    return which


def held(type_: S) -> S:
    """Returns the type of the values that a load of an element gives."""
    return type_.widened if type_ is not S.BOOL8 else S.BOOL


def width(type_: S) -> int:
    return 1 if type_ is S.BOOL8 else type_.bits


def literal(type_: S, value: float) -> Literal:
    """Returns a constant as a value of an element type holds it."""
    if type_.is_float:
        return Literal.of(held(type_), float(value))
    if type_ is S.BOOL8:
        return Literal.of(S.BOOL, bool(value))
    wrapped = int(value) % (1 << type_.bits)
    return Literal.of(held(type_), wrapped - (1 << type_.bits) if wrapped >> (type_.bits - 1) else wrapped)


def signed(type_: S, value: Expr) -> Expr:
    return Unary(U.NEGATE, Cast(S.I32, value)) if type_ is S.BOOL8 else value


def unsigned(type_: S, value: Expr) -> Expr:
    """Returns a value as an unsigned number of 32 or 64 bits."""
    if type_ is S.BOOL8:
        return Cast(S.U32, value)
    if type_ in NARROW:
        return Pack(type_, value)
    return Bitcast(S.U64 if type_ is S.I64 else S.U32, value)


def back(type_: S, value: Expr, was_unsigned: bool) -> Expr:
    """Returns the low bits of a number of 32 or 64 bits as a value of a type."""
    if type_ is S.BOOL8:
        of = S.U32 if was_unsigned else S.I32
        return Binary(B.NE, Binary(B.BIT_AND, value, Literal.of(of, 1)), Literal.of(of, 0))
    if type_ in NARROW:
        return Unpack(type_, value if was_unsigned else Bitcast(S.U32, value))
    return Bitcast(type_, value) if was_unsigned else value


def resized(source: S, target: S, value: Expr, as_unsigned: bool) -> Expr:
    """Returns an integer extended or cut off to another width."""
    wide, short = (S.U64, S.U32) if as_unsigned else (S.I64, S.I32)
    value, now = (unsigned if as_unsigned else signed)(source, value), wide if source is S.I64 else short
    wanted = wide if target is S.I64 else short
    return back(target, value if now is wanted else Cast(wanted, value), as_unsigned)


def rounded(type_: S, value: Expr) -> Expr:
    """Returns a float as its type can hold it.  One rounding to f32 before it changes no result of + - * / sqrt."""
    return Narrow(type_, value) if type_ in SHORT_FLOATS else value


def integer(name: str, type_: S, x: Expr, y: Expr) -> Expr:
    """Returns an integer operator of two operands."""
    if name in INTEGER:
        op, as_unsigned = INTEGER[name]
        view = unsigned if as_unsigned else signed
        return back(type_, Binary(op, view(type_, x), view(type_, y)), as_unsigned)
    as_unsigned = name == "ceildivui"
    of = (S.U64 if as_unsigned else S.I64) if type_ is S.I64 else (S.U32 if as_unsigned else S.I32)
    view, zero = unsigned if as_unsigned else signed, Literal.of(of, 0)
    x, y = view(type_, x), view(type_, y)
    quotient, remainder = Binary(B.DIV, x, y), Binary(B.MOD, x, y)
    inexact: Expr = Binary(B.NE, remainder, zero)
    if not as_unsigned:
        alike = Binary(B.EQ, Binary(B.LT, remainder, zero), Binary(B.LT, y, zero))
        inexact = Binary(B.AND, inexact, alike if name == "ceildivsi" else Unary(U.LOGICAL_NOT, alike))
    step = Binary(B.SUB if name == "floordivsi" else B.ADD, quotient, Literal.of(of, 1))
    return back(type_, Select(inexact, step, quotient), as_unsigned)


def floating(name: str, type_: S, x: Expr, y: Expr) -> Expr:
    """Returns a float operator of two operands."""
    result = Binary(FLOAT[name], x, y)
    return rounded(type_, Select(unordered(x, y), Binary(B.ADD, x, y), result) if name in PROPAGATE else result)


def unordered(x: Expr, y: Expr) -> Expr:
    return Binary(B.OR, Unary(U.IS_NAN, x), Unary(U.IS_NAN, y))


def compared(which: str, type_: S, x: Expr, y: Expr) -> Expr:
    """Returns a comparison; ``which`` is a predicate of ``arith.cmpi`` or ``arith.cmpf``."""
    if not type_.is_float:
        view = unsigned if which[0] == "u" else signed
        return Binary(RELATION[which[-2:]], view(type_, x), view(type_, y))
    match which:
        case "false" | "true":
            return Literal.of(S.BOOL, which == "true")
        case "ord" | "uno":
            return unordered(x, y) if which == "uno" else Unary(U.LOGICAL_NOT, unordered(x, y))
        case "one":
            return Binary(B.OR, Binary(B.LT, x, y), Binary(B.GT, x, y))
        case "une":
            return Binary(B.NE, x, y)
    holds = Binary(RELATION[which[1:]], x, y)
    return Binary(B.OR, unordered(x, y), holds) if which[0] == "u" else holds


def counted(name: str, type_: S, x: Expr) -> Expr:
    """Returns the number of leading or trailing zeros, or of ones."""
    x, of = unsigned(type_, x), S.U64 if type_ is S.I64 else S.U32
    bits = Literal.of(of, width(type_))
    match name:
        case "ctpop":
            found: Expr = Unary(U.POPCOUNT, x)
        case "cttz":
            found = Binary(B.MIN, Unary(U.CTZ, x), bits)
        case _:
            found = Binary(B.SUB, Unary(U.CLZ, x), Literal.of(of, of.bits - width(type_)))
    return back(type_, found, True)


def copysign(type_: S, x: Expr, y: Expr) -> Expr:
    of = S.U64 if type_ is S.F64 else S.U32
    sign = Literal.of(of, 1 << (of.bits - 1))
    size = Binary(B.BIT_AND, Bitcast(of, x), Unary(U.BIT_NOT, sign))
    return Bitcast(held(type_), Binary(B.BIT_OR, size, Binary(B.BIT_AND, Bitcast(of, y), sign)))


def converted(name: str, op: Operation, source: S, target: S, x: Expr) -> Expr:
    """Returns a conversion; floats that no integer of the target holds saturate, where MLIR does not define them."""
    match name:
        case "extf" | "truncf":
            if source is S.F64 and target in SHORT_FLOATS:
                raise Refused(op, f"f64 to {target.text} would be rounded twice", "round to f32 first if that is meant")
            return rounded(target, x if held(source) is held(target) else Cast(held(target), x))
        case "sitofp" | "uitofp":
            if target is S.BF16 and width(source) > 16:
                raise Refused(op, f"{source.text} to bf16 would be rounded twice", "convert to f32 first")
            return rounded(target, Cast(held(target), (signed if name == "sitofp" else unsigned)(source, x)))
        case "fptosi" | "fptoui":
            wide, short = (S.I64, S.I32) if name == "fptosi" else (S.U64, S.U32)
            return back(target, Cast(wide if target is S.I64 else short, x), name == "fptoui")
        case "bitcast":
            return Unpack(target, Pack(source, x)) if source in NARROW else Bitcast(held(target), x)
    return resized(source, target, x, name in ("extui", "index_castui"))


CONVERSIONS: Final = (
    "extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast", "extsi", "extui", "trunci", "index_cast",
    "index_castui",
)  # fmt: skip


def extended(name: str, type_: S, x: Expr, y: Expr) -> list[Expr]:
    """Returns both results of a sum or product of twice the width."""
    if name == "addui_extended":
        total = integer("addi", type_, x, y)
        return [total, Binary(B.LT, unsigned(type_, total), unsigned(type_, x))]
    as_unsigned = name == "mului_extended"
    view = unsigned if as_unsigned else signed
    if width(type_) >= 32:
        high: Expr = Binary(B.MUL_HIGH, view(type_, x), view(type_, y))
    else:
        product = Binary(B.MUL, view(type_, x), view(type_, y))
        high = Binary(B.SHR, product, Literal.of(S.U32, width(type_)))
    return [integer("muli", type_, x, y), back(type_, high, as_unsigned)]


def lowered(op: Operation, values: list[Expr]) -> list[Expr]:
    """Returns the results of an operator.

    Fast-math and overflow flags are ignored: they permit what vyre never does.
    """
    if not op.operands or not op.results:
        raise Refused(op, "no such operator", "write it with operators of the table in README.md")
    name, type_ = operator_of(op), stored(op, op.operands[0].type)
    result = stored(op, op.results[0].type)
    if name in INTEGER or name in ("ceildivsi", "ceildivui", "floordivsi"):
        return [integer(name, type_, *values)]
    if name in FLOAT:
        return [floating(name, type_, *values)]
    if name in CONVERSIONS:
        return [converted(name, op, type_, result, *values)]
    if name in UNARY and unary_result(UNARY[name], held(type_)) is not None:
        return [rounded(type_, Unary(UNARY[name], *values))]
    match name:
        case "select" if stored(op, op.operands[0].type) is S.BOOL8:
            return [Select(*values)]
        case "cmpi" | "cmpf":
            return [compared(predicate(op), type_, *values)]
        case "addui_extended" | "mului_extended" | "mulsi_extended":
            return extended(name, type_, *values)
        case "fma" if type_ not in SHORT_FLOATS:
            return [Fma(*values)]
        case "absi":
            return [back(type_, Unary(U.ABS, signed(type_, *values)), False)]
        case "ctlz" | "cttz" | "ctpop":
            return [counted(name, type_, *values)]
        case "copysign":
            return [copysign(type_, *values)]
    raise Refused(op, f"no such operator of {type_.text}", "write it with operators of the table in README.md")
