"""Integer operators, one row each: total by construction, without sequences that ``ptxas`` is known to miscompile.

The following are never written: carry chains (``add.cc``), ``lop3``, ``prmt``, ``not.b32`` and xor with all ones (a
subtraction from all ones is used instead), ``neg``, ``abs``, ``mul.hi.s32``, and ``shr.s32`` by a literal (``bfe``).
``Fences`` decides where an opaque zero is xored or added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.adapters.cuda.decisions.ptxas_hazard_table import Fence
from vyre.adapters.cuda.ptx.operands import Immediate, Operand, Register, Word, hexadecimal
from vyre.adapters.cuda.ptx.values import Value, in_register, literal
from vyre.adapters.cuda.ptx.writer import CLASS_OF, Writer
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.policies.emission.constant_division import (
    ByOne,
    ByZero,
    Compare,
    DivisionInputs,
    Multiply,
    Shift,
    SignedMultiply,
    SignedShift,
    divide_by,
)
from vyre.policies.journal import DecisionSink, decide

_S = ScalarType
_U32: Final = _S.U32
_INTEGERS: Final = (_S.U32, _S.I32, _S.U64, _S.I64)


class Fences:
    """The opaque zero of a kernel, and the families of operations that need it."""

    __slots__ = ("_needed", "zero")

    def __init__(self, zero: Callable[[], Register], needed: frozenset[Fence]) -> None:
        self.zero: Final = zero
        self._needed = needed

    def __contains__(self, fence: Fence) -> bool:
        return fence in self._needed

    def around(self, w: Writer, fence: Fence, register: Register) -> Register:
        """Returns a 32-bit register, with the opaque zero xored in if the family needs it."""
        return w.emit("r", "xor.b32", register, self.zero()) if fence in self._needed else register


class IntegerWriter:
    """The writer of the kernel's text, and its fences."""

    __slots__ = ("fences", "w")

    def __init__(self, w: Writer, fences: Fences) -> None:
        self.w: Writer = w
        self.fences: Fences = fences

    def new(self, dtype: ScalarType, operation: str, *operands: Operand) -> Value:
        """Writes an operation and returns its result."""
        return Value(self.w.emit(CLASS_OF[dtype], operation, *operands), dtype)

    def predicate(self, operation: str, *operands: Operand) -> Register:
        """Writes an operation whose result is a predicate, and returns that."""
        return self.w.emit("p", operation, *operands)

    def reg(self, value: Value) -> Register:
        """Returns a value's register; an immediate is moved into one."""
        operand = value.operand
        return operand if type(operand) is Register else in_register(self.w, value)


Row: TypeAlias = Callable[[IntegerWriter, Value, Value], Value]
UnaryRow: TypeAlias = Callable[[IntegerWriter, Value], Value]


def _signed(dtype: ScalarType) -> str:
    """Returns the suffix by signedness: u32 s32 u64 s64."""
    return f"{'s' if dtype.is_signed else 'u'}{dtype.bits}"


def _ones(dtype: ScalarType) -> int:
    return (1 << dtype.bits) - 1


def _least(dtype: ScalarType) -> Immediate:
    return hexadecimal(1 << (dtype.bits - 1))


def _greatest(dtype: ScalarType) -> Immediate:
    return hexadecimal((1 << (dtype.bits - 1)) - 1)


def _plain(operation: str, suffix: str) -> Row:
    names = {dtype: f"{operation}.{suffix}{dtype.bits}" for dtype in _INTEGERS}

    def row(x: IntegerWriter, a: Value, b: Value) -> Value:
        return x.new(a.dtype, names[a.dtype], x.reg(a), b.operand)

    return row


def _xor(x: IntegerWriter, a: Value, b: Value) -> Value:
    bits = a.dtype.bits
    if a.bits is not None and a.bits == (1 << bits) - 1:
        return _complement(x, b)
    if b.bits is not None and b.bits == (1 << bits) - 1:
        return _complement(x, a)
    return x.new(a.dtype, f"xor.b{bits}", x.reg(a), b.operand)


def _complement(x: IntegerWriter, a: Value) -> Value:
    """Subtracts the operand from all ones: ``not`` and xor with all ones are folded wrongly under an equality."""
    return x.new(a.dtype, f"sub.u{a.dtype.bits}", x.w.emit(CLASS_OF[a.dtype], f"mov.b{a.dtype.bits}", -1), a.operand)


# ---- division
def _divisor(x: IntegerWriter, a: Value, b: Value) -> tuple[Register, Register]:
    """Returns a divisor that never faults, and whether it was zero: 1 replaces 0, and -1 if the dividend is MIN."""
    bits = a.dtype.bits
    divisor = x.reg(b)
    zero = x.predicate(f"setp.eq.u{bits}", divisor, 0)
    unsafe = zero
    if a.dtype.is_signed:
        least = x.predicate(f"setp.eq.u{bits}", x.reg(a), _least(a.dtype))
        minus_one = x.predicate(f"setp.eq.s{bits}", divisor, -1)
        overflow = x.predicate("and.pred", least, minus_one)
        unsafe = x.predicate("or.pred", zero, overflow)
    safe = x.w.emit(CLASS_OF[a.dtype], f"selp.b{bits}", 1, divisor, unsafe)
    return safe, zero


def _div(x: IntegerWriter, a: Value, b: Value) -> Value:
    safe, zero = _divisor(x, a, b)
    quotient = x.new(a.dtype, f"div.{_signed(a.dtype)}", x.reg(a), safe)
    by_zero = 0 if a.dtype.is_signed else _ones(a.dtype)
    return x.new(a.dtype, f"selp.b{a.dtype.bits}", by_zero, quotient.operand, zero)


def _mod(x: IntegerWriter, a: Value, b: Value) -> Value:
    """Any remainder by 1 is 0, which is also the required result where 1 replaces the divisor."""
    safe, _ = _divisor(x, a, b)
    return x.new(a.dtype, f"rem.{_signed(a.dtype)}", x.reg(a), safe)


# ---- shifts
def shift_count(x: IntegerWriter, dtype: ScalarType, count: Value) -> Value:
    """Returns the count's low bits, as u32."""
    mask = dtype.bits - 1
    if count.bits is not None:
        return literal(_U32, count.bits & mask)
    low = x.reg(count)
    if count.dtype.bits == 64:
        low = x.w.emit("r", "cvt.u32.u64", low)
    return x.new(_U32, "and.b32", low, mask)


def _shr(x: IntegerWriter, a: Value, b: Value) -> Value:
    count = shift_count(x, a.dtype, b)
    if a.dtype is _S.I32 and count.bits is not None:
        # An arithmetic shift by a literal before an unsigned comparison is folded as if it were logical.
        return x.new(a.dtype, "bfe.s32", x.reg(a), count.operand, 32 - count.bits)
    return x.new(a.dtype, f"shr.{_signed(a.dtype)}", x.reg(a), count.operand)


def _rotate(direction: str) -> Row:
    def row(x: IntegerWriter, a: Value, b: Value) -> Value:
        source = x.reg(a)
        if a.dtype.bits == 32:
            count: Word
            if b.bits is None:
                count = x.reg(b) if b.dtype.bits == 32 else x.w.emit("r", "cvt.u32.u64", x.reg(b))
            else:
                count = b.bits & 31
            if Fence.ROTATES in x.fences:
                count = x.w.emit("r", "add.u32", x.fences.zero(), count)
            return x.new(a.dtype, f"shf.{direction}.wrap.b32", source, source, count)
        forward = shift_count(x, a.dtype, b)
        negated = x.w.emit("r", "sub.u32", x.w.emit("r", "mov.b32", 0), forward.operand)
        back = x.w.emit("r", "and.b32", negated, 63)
        ahead, behind = ("shl.b64", "shr.u64") if direction == "l" else ("shr.u64", "shl.b64")
        high, low = x.w.emit("rd", ahead, source, forward.operand), x.w.emit("rd", behind, source, back)
        return x.new(a.dtype, "or.b64", high, low)

    return row


# ---- order
def _compare(relation: str) -> Row:
    def row(x: IntegerWriter, a: Value, b: Value) -> Value:
        return x.new(_S.BOOL, f"setp.{relation}.{_signed(a.dtype)}", x.reg(a), b.operand)

    return row


def _extreme(operation: str) -> Row:
    def row(x: IntegerWriter, a: Value, b: Value) -> Value:
        left, right = x.reg(a), b.operand
        if a.dtype is _S.I32:
            # max.s32 after a subtraction, or beside max.u32 of the same value, may see the wrong one.
            left = x.fences.around(x.w, Fence.MIN_MAX, left)
            right = x.fences.around(x.w, Fence.MIN_MAX, right) if isinstance(right, Register) else right
        return x.new(a.dtype, f"{operation}.{_signed(a.dtype)}", left, right)

    return row


def _abs_diff(x: IntegerWriter, a: Value, b: Value) -> Value:
    left, right = x.reg(a), x.reg(b)
    bits = a.dtype.bits
    less = x.predicate(f"setp.lt.{_signed(a.dtype)}", left, right)
    up, down = x.new(a.dtype, f"sub.u{bits}", right, left), x.new(a.dtype, f"sub.u{bits}", left, right)
    return x.new(a.dtype, f"selp.b{bits}", up.operand, down.operand, less)


# ---- saturation
def _sat_add(x: IntegerWriter, a: Value, b: Value) -> Value:
    bits = a.dtype.bits
    left, right = x.reg(a), x.reg(b)
    total = x.new(a.dtype, f"add.u{bits}", left, right)
    if not a.dtype.is_signed:
        wrapped = x.predicate(f"setp.lt.u{bits}", total.operand, left)
        return x.new(a.dtype, f"selp.b{bits}", _ones(a.dtype), total.operand, wrapped)
    changed = _bitwise(
        x,
        a.dtype,
        "and",
        _bitwise(x, a.dtype, "xor", left, total.operand),
        _bitwise(x, a.dtype, "xor", right, total.operand),
    )
    return _saturated(x, a.dtype, total, changed, left)


def _sat_sub(x: IntegerWriter, a: Value, b: Value) -> Value:
    bits = a.dtype.bits
    left, right = x.reg(a), x.reg(b)
    difference = x.new(a.dtype, f"sub.u{bits}", left, right)
    if not a.dtype.is_signed:
        below = x.predicate(f"setp.lt.u{bits}", left, right)
        return x.new(a.dtype, f"selp.b{bits}", 0, difference.operand, below)
    changed = _bitwise(
        x,
        a.dtype,
        "and",
        _bitwise(x, a.dtype, "xor", left, right),
        _bitwise(x, a.dtype, "xor", left, difference.operand),
    )
    return _saturated(x, a.dtype, difference, changed, left)


def _bitwise(x: IntegerWriter, dtype: ScalarType, operation: str, a: Register, b: Operand) -> Register:
    return x.w.emit(CLASS_OF[dtype], f"{operation}.b{dtype.bits}", a, b)


def _saturated(x: IntegerWriter, dtype: ScalarType, wrapped: Value, overflow: Register, sign_of: Register) -> Value:
    """Returns ``wrapped`` unless the sign bit of ``overflow`` is set; then the bound on the side of ``sign_of``."""
    bits = dtype.bits
    overflowed = x.predicate(f"setp.lt.s{bits}", overflow, 0)
    negative = x.predicate(f"setp.lt.s{bits}", sign_of, 0)
    bound = x.w.emit(CLASS_OF[dtype], f"selp.b{bits}", _least(dtype), _greatest(dtype), negative)
    return x.new(dtype, f"selp.b{bits}", bound, wrapped.operand, overflowed)


def _factors(x: IntegerWriter, a: Value, b: Value) -> tuple[Register, Register]:
    """Returns two factors in registers; if both are computed and have 32 bits, the second one is fenced."""
    left, right = x.reg(a), x.reg(b)
    if a.dtype.bits == 32 and a.bits is None and b.bits is None:
        right = x.fences.around(x.w, Fence.PRODUCTS, right)
    return left, right


def _mul(x: IntegerWriter, a: Value, b: Value) -> Value:
    bits = a.dtype.bits
    if b.bits is not None:
        return x.new(a.dtype, f"mul.lo.u{bits}", x.reg(a), b.operand)
    return x.new(a.dtype, f"mul.lo.u{bits}", *_factors(x, a, b))


def _sub(x: IntegerWriter, a: Value, b: Value) -> Value:
    difference = x.new(a.dtype, f"sub.u{a.dtype.bits}", x.reg(a), b.operand)
    if a.bits == 1 << 31 and a.dtype.bits == 32:
        return Value(x.fences.around(x.w, Fence.SUBTRACTIONS, x.reg(difference)), a.dtype)
    return difference


def _sat_mul(x: IntegerWriter, a: Value, b: Value) -> Value:
    left, right = _factors(x, a, b)
    match a.dtype:
        case _S.U32:
            wide = x.w.emit("rd", "mul.wide.u32", left, right)
            over = x.predicate("setp.gt.u64", wide, _ones(_U32))
            return x.new(a.dtype, "selp.b32", _ones(_U32), x.w.emit("r", "cvt.u32.u64", wide), over)
        case _S.I32:
            wide = x.w.emit("rd", "mul.wide.s32", left, right)
            low = x.w.emit("r", "cvt.u32.u64", wide)
            over = x.predicate("setp.gt.s64", wide, _greatest(a.dtype))
            under = x.predicate("setp.lt.s64", wide, -(1 << 31))
            clamped = x.w.emit("r", "selp.b32", _greatest(a.dtype), low, over)
            return x.new(a.dtype, "selp.b32", _least(a.dtype), clamped, under)
        case _S.U64:
            over = x.predicate("setp.ne.u64", x.w.emit("rd", "mul.hi.u64", left, right), 0)
            return x.new(a.dtype, "selp.b64", _ones(a.dtype), x.w.emit("rd", "mul.lo.u64", left, right), over)
        case _:
            high, low = x.w.emit("rd", "mul.hi.s64", left, right), x.w.emit("rd", "mul.lo.u64", left, right)
            over = x.predicate("setp.ne.s64", high, x.w.emit("rd", "shr.s64", low, 63))
            negative = x.predicate("setp.lt.s64", _bitwise(x, a.dtype, "xor", left, right), 0)
            bound = x.w.emit("rd", "selp.b64", _least(a.dtype), _greatest(a.dtype), negative)
            return x.new(a.dtype, "selp.b64", bound, low, over)


def _mul_high(x: IntegerWriter, a: Value, b: Value) -> Value:
    left, right = _factors(x, a, b)
    if a.dtype is _S.I32:
        wide = x.w.emit("rd", "mul.wide.s32", left, right)
        high = x.w.emit("r", "cvt.u32.u64", x.w.emit("rd", "shr.s64", wide, 32))
        return Value(x.fences.around(x.w, Fence.NARROWING, high), a.dtype)
    return x.new(a.dtype, f"mul.hi.{_signed(a.dtype)}", left, right)


BINARY: Final[dict[BinaryOp, Row]] = {
    BinaryOp.ADD: _plain("add", "u"),
    BinaryOp.SUB: _sub,
    BinaryOp.MUL: _mul,
    BinaryOp.DIV: _div,
    BinaryOp.MOD: _mod,
    BinaryOp.BIT_AND: _plain("and", "b"),
    BinaryOp.BIT_OR: _plain("or", "b"),
    BinaryOp.BIT_XOR: _xor,
    BinaryOp.SHL: lambda x, a, b: x.new(a.dtype, f"shl.b{a.dtype.bits}", x.reg(a), shift_count(x, a.dtype, b).operand),
    BinaryOp.SHR: _shr,
    BinaryOp.EQ: _compare("eq"),
    BinaryOp.NE: _compare("ne"),
    BinaryOp.LT: _compare("lt"),
    BinaryOp.GT: _compare("gt"),
    BinaryOp.LE: _compare("le"),
    BinaryOp.GE: _compare("ge"),
    BinaryOp.ABS_DIFF: _abs_diff,
    BinaryOp.MIN: _extreme("min"),
    BinaryOp.MAX: _extreme("max"),
    BinaryOp.SATURATING_ADD: _sat_add,
    BinaryOp.SATURATING_SUB: _sat_sub,
    BinaryOp.SATURATING_MUL: _sat_mul,
    BinaryOp.ROTATE_LEFT: _rotate("l"),
    BinaryOp.ROTATE_RIGHT: _rotate("r"),
    BinaryOp.MUL_HIGH: _mul_high,
}


def _negate(x: IntegerWriter, a: Value) -> Value:
    zero = x.w.emit(CLASS_OF[a.dtype], f"mov.b{a.dtype.bits}", 0)
    return x.new(a.dtype, f"sub.u{a.dtype.bits}", zero, a.operand)


def _abs(x: IntegerWriter, a: Value) -> Value:
    if not a.dtype.is_signed:
        return a
    negative = x.predicate(f"setp.lt.s{a.dtype.bits}", x.reg(a), 0)
    return x.new(a.dtype, f"selp.b{a.dtype.bits}", _negate(x, a).operand, a.operand, negative)


def _counting(operation: str) -> UnaryRow:
    """The instructions popc and clz yield 32 bits, whatever the width of their operand."""

    def row(x: IntegerWriter, a: Value) -> Value:
        count = x.new(a.dtype if a.dtype.bits == 32 else _U32, f"{operation}.b{a.dtype.bits}", x.reg(a))
        return count if a.dtype.bits == 32 else x.new(a.dtype, "cvt.u64.u32", count.operand)

    return row


def _reverse(x: IntegerWriter, a: Value) -> Value:
    return x.new(a.dtype, f"brev.b{a.dtype.bits}", x.reg(a))


UNARY: Final[dict[UnaryOp, UnaryRow]] = {
    UnaryOp.NEGATE: _negate,
    UnaryOp.BIT_NOT: _complement,
    UnaryOp.ABS: _abs,
    UnaryOp.POPCOUNT: _counting("popc"),
    UnaryOp.CLZ: _counting("clz"),
    UnaryOp.CTZ: lambda x, a: _counting("clz")(x, _reverse(x, a)),
    UnaryOp.REVERSE_BITS: _reverse,
}


# ---- division by a literal: the plan of ``policies.emission.constant_division``, in instructions
def divide(x: IntegerWriter, op: BinaryOp, n: Value, divisor: int, sink: DecisionSink | None = None) -> Value:
    """Returns the quotient (DIV) or remainder (MOD) of ``n`` by the bit pattern ``divisor``.

    ``sink`` receives the decision how it is computed.
    """
    dtype = n.dtype
    dividend = Value(x.reg(n), dtype)
    plan = decide(sink, divide_by, DivisionInputs(divisor, dtype.bits, dtype.is_signed))
    wants_quotient = op is BinaryOp.DIV
    match plan:
        case ByZero(pattern):
            return literal(dtype, pattern if wants_quotient else 0)
        case ByOne(negate):
            if not wants_quotient:
                return literal(dtype, 0)
            return _negate(x, dividend) if negate else dividend
        case Shift(shift, mask):
            if not wants_quotient:
                return _of_two(x, "and.b", dividend, literal(dtype, mask))
            return _right(x, dividend, shift, arithmetic=False)
        case SignedShift(shift, bias_shift, keep, negate):
            sign = _right(x, dividend, dtype.bits - 1, arithmetic=True)
            biased = _of_two(x, "add.u", dividend, _right(x, sign, bias_shift, arithmetic=False))
            if not wants_quotient:
                return _of_two(x, "sub.u", dividend, _of_two(x, "and.b", biased, literal(dtype, keep)))
            quotient = _right(x, biased, shift, arithmetic=True)
            return _negate(x, quotient) if negate else quotient
        case Compare(threshold):
            reached = x.predicate(f"setp.ge.u{dtype.bits}", dividend.operand, literal(dtype, threshold).operand)
            selp = f"selp.b{dtype.bits}"
            if wants_quotient:
                return x.new(dtype, selp, 1, 0, reached)
            return _of_two(x, "sub.u", dividend, x.new(dtype, selp, literal(dtype, threshold).operand, 0, reached))
        case Multiply(multiplier, pre_shift, post_shift, add):
            quotient = _unsigned_quotient(x, dividend, multiplier, pre_shift, post_shift, add)
        case SignedMultiply(multiplier, post_shift, add, negate):
            quotient = _signed_quotient(x, dividend, multiplier, post_shift, add, negate)
    return quotient if wants_quotient else _remainder(x, dividend, quotient, divisor)


def _unsigned_quotient(
    x: IntegerWriter, n: Value, multiplier: int, pre_shift: int, post_shift: int, add: bool
) -> Value:
    high = _mul_high(x, _right(x, n, pre_shift, arithmetic=False), literal(n.dtype, multiplier))
    if add:
        high = _of_two(x, "add.u", high, _right(x, _of_two(x, "sub.u", n, high), 1, arithmetic=False))
    return _right(x, high, post_shift, arithmetic=False)


def _signed_quotient(x: IntegerWriter, n: Value, multiplier: int, post_shift: int, add: bool, negate: bool) -> Value:
    high = _mul_high(x, n, literal(n.dtype, multiplier))
    if add:
        high = _of_two(x, "add.u", high, n)
    shifted = _right(x, high, post_shift, arithmetic=True)
    sign = _right(x, n, n.dtype.bits - 1, arithmetic=True)
    return _of_two(x, "sub.u", sign, shifted) if negate else _of_two(x, "sub.u", shifted, sign)


def _remainder(x: IntegerWriter, n: Value, quotient: Value, divisor: int) -> Value:
    bits = n.dtype.bits
    product = x.new(n.dtype, f"mul.lo.u{bits}", quotient.operand, divisor)
    return _of_two(x, "sub.u", n, product)


def _right(x: IntegerWriter, a: Value, count: int, *, arithmetic: bool) -> Value:
    """Shifts right by a literal; an arithmetic shift of 32 bits is written as the shift operator writes it."""
    if count == 0:
        return a
    signed: ScalarType = {32: ScalarType.I32, 64: ScalarType.I64}[a.dtype.bits]
    unsigned: ScalarType = {32: ScalarType.U32, 64: ScalarType.U64}[a.dtype.bits]
    shifted = _shr(x, Value(a.operand, signed if arithmetic else unsigned), literal(ScalarType.U32, count))
    return Value(shifted.operand, a.dtype)


def _of_two(x: IntegerWriter, operation: str, a: Value, b: Value) -> Value:
    return x.new(a.dtype, f"{operation}{a.dtype.bits}", a.operand, b.operand)
