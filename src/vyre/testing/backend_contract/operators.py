"""Cases of every operator on every type it is defined for, at the values where rules differ.

Expected bits come from ``vyre.domain.numerics``, the rules that all backends share, element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Final, NamedTuple

from vyre.domain.ir.expr import Binary, Bitcast, Cast, Expr, Fma, IdKind, LaunchId, Literal, Load, Select, Unary
from vyre.domain.ir.operators import (
    BINARY,
    TRANSCENDENTALS,
    UNARY,
    BinaryOp,
    RightOperand,
    UnaryOp,
    binary_result,
    bitcast_is_legal,
    unary_result,
)
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.text_format import literal_text
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool_, f32, f64, u32
from vyre.domain.numerics import scalar
from vyre.domain.numerics.evaluate import evaluate_bits
from vyre.domain.numerics.transcendentals import transcendental
from vyre.domain.validation.validator import check_rules
from vyre.testing.backend_contract.bench import Bench
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import Violation, equal

OPERATORS: Final = Group("operators")
_LANE: Final = LaunchId(IdKind.GLOBAL, 0)
_F32_BITS: Final = (
    0x0000_0000,  # 0
    0x8000_0000,  # -0
    0x3F80_0000,  # 1
    0xBF80_0000,  # -1
    0x3FC0_0000,  # 1.5
    0xC020_0000,  # -2.5
    0x3EAA_AAAB,  # 1/3
    0x4B80_0001,  # 2^24 + 2
    0x4F00_0000,  # 2^31
    0x0000_0001,  # the smallest subnormal
    0x807F_FFFF,  # the largest subnormal, negative
    0x0080_0000,  # the smallest normal
    0x7F7F_FFFF,  # the largest
    0x7F80_0000,  # infinity
    0xFF80_0000,  # -infinity
    0x7FC0_0001,  # a NaN that is not the canonical one
)
_F64_BITS: Final = (
    0x0000_0000_0000_0000,
    0x8000_0000_0000_0000,
    0x3FF0_0000_0000_0000,  # 1
    0xBFF0_0000_0000_0000,  # -1
    0x3FF8_0000_0000_0000,  # 1.5
    0xC004_0000_0000_0000,  # -2.5
    0x3FD5_5555_5555_5555,  # 1/3
    0x4340_0000_0000_0001,  # 2^53 + 2
    0x43E0_0000_0000_0000,  # 2^63
    0x0000_0000_0000_0001,
    0x800F_FFFF_FFFF_FFFF,
    0x0010_0000_0000_0000,
    0x7FEF_FFFF_FFFF_FFFF,
    0x7FF0_0000_0000_0000,
    0xFFF0_0000_0000_0000,
    0xFFF8_0000_0000_0123,
)


@cache
def samples(dtype: ScalarType) -> tuple[int, ...]:
    """Returns bit patterns of a type: the ends of its range, values around zero, and a few arbitrary ones."""
    if dtype is bool_:
        return (0, 1)
    if dtype.is_float:
        return _F32_BITS if dtype is f32 else _F64_BITS
    top, sign = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
    noise = 0xDEAD_BEEF_0123_4567 >> (64 - dtype.bits)
    return (0, 1, 2, 3, 7, 31, dtype.bits, noise, top // 3, sign - 1, sign, sign + 1, top - 1, top)


class Operation(NamedTuple):
    """``result`` := ``apply`` of operands of these types; ``rule`` is the same on bit patterns."""

    operands: tuple[ScalarType, ...]
    result: ScalarType
    apply: Callable[[Sequence[Expr]], Expr]
    rule: Callable[..., int]
    rows: tuple[tuple[int, ...], ...] | None = None


def check(bench: Bench, operation: Operation) -> None:
    """Applies the operation to every combination of samples, one lane each, and compares every element."""
    operands, result = operation.operands, operation.result
    rows = operation.rows or tuple(product(*map(samples, operands)))
    buffers = [Buffer.make(f"x{i}", i, Access.READ_ONLY, dtype, len(rows)) for i, dtype in enumerate(operands)]
    buffers.append(Buffer.make("y", len(operands), Access.READ_WRITE, result, len(rows), is_output=True))
    value = operation.apply([Load(f"x{i}", _LANE) for i in range(len(operands))])
    program = Program(tuple(buffers), (64, 1, 1), (Store("y", _LANE, value),))
    check_rules(program).raise_if_invalid()
    inputs = [b"".join(row[i].to_bytes(dtype.size, "little") for row in rows) for i, dtype in enumerate(operands)]
    (found,) = bench.run(program, *inputs)
    size = result.size
    for i, row in enumerate(rows):
        wanted = scalar.store_element(result, operation.rule(*row))
        if found[i * size : (i + 1) * size] != wanted:
            given = ", ".join(f"{bits:#x}" for bits in row)
            got = found[i * size : (i + 1) * size][::-1].hex()
            raise Violation(f"of ({given}) it gives 0x{got}, not 0x{wanted[::-1].hex()}")


# ---------------------------------------------------------------- binary
def _binary(op: BinaryOp, left: ScalarType, right: ScalarType) -> Operation:
    result = binary_result(op, left, right)
    assert result is not None
    return Operation(
        (left, right), result, lambda e: Binary(op, e[0], e[1]), lambda a, b: scalar.binary(op, left, a, b)
    )


@OPERATORS.table(
    {
        f"{op.name.lower()}_{dtype.text}": _binary(op, dtype, dtype)
        for op, row in BINARY.items()
        for dtype in EXECUTABLE_TYPES
        if dtype in row.operands
    }
)
def binary(bench: Bench, operation: Operation) -> None:
    """A binary operator returns the bits of its rule on every pair of samples."""
    check(bench, operation)


@OPERATORS.table(
    {
        f"{op.name.lower()}_{dtype.text}": _binary(op, dtype, u32)
        for op, row in BINARY.items()
        for dtype in EXECUTABLE_TYPES
        if row.right is RightOperand.SHIFT and dtype in row.operands and dtype is not u32
    }
)
def counts_may_be_u32(bench: Bench, operation: Operation) -> None:
    """Shifts and rotations of any type take a u32 count, of which they use the low bits."""
    check(bench, operation)


# ---------------------------------------------------------------- unary
def _unary(op: UnaryOp, dtype: ScalarType) -> Operation:
    result = unary_result(op, dtype)
    assert result is not None
    if op in TRANSCENDENTALS:
        formula = transcendental(op)
        return Operation((dtype,), result, lambda e: Unary(op, e[0]), lambda a: evaluate_bits(formula, a))
    return Operation((dtype,), result, lambda e: Unary(op, e[0]), lambda a: scalar.unary(op, dtype, a))


@OPERATORS.table(
    {
        f"{op.name.lower()}_{dtype.text}": _unary(op, dtype)
        for op, row in UNARY.items()
        for dtype in EXECUTABLE_TYPES
        if dtype in row.operands
    }
)
def unary(bench: Bench, operation: Operation) -> None:
    """A unary operator returns the bits of its rule on every sample; transcendental functions are correctly rounded."""
    check(bench, operation)


_ORDINARY: Final = tuple((0x3C00_0000 + 0x0123_4567 * k & 0x7FFF_FFFF | (k & 1) << 31,) for k in range(96))


@OPERATORS.table({op.name.lower(): _unary(op, f32)._replace(rows=_ORDINARY) for op in UnaryOp if op in TRANSCENDENTALS})
def functions_are_correctly_rounded(bench: Bench, operation: Operation) -> None:
    """A transcendental function is correctly rounded, also for large arguments."""
    check(bench, operation)


# ---------------------------------------------------------------- conversions
def _cast(source: ScalarType, target: ScalarType) -> Operation:
    return Operation((source,), target, lambda e: Cast(target, e[0]), lambda a: scalar.cast(source, target, a))


def _bitcast(source: ScalarType, target: ScalarType) -> Operation:
    return Operation((source,), target, lambda e: Bitcast(target, e[0]), lambda a: scalar.bitcast(source, target, a))


@OPERATORS.table({f"{a.text}_to_{b.text}": _cast(a, b) for a in EXECUTABLE_TYPES for b in EXECUTABLE_TYPES})
def cast(bench: Bench, operation: Operation) -> None:
    """A cast wraps between integers, truncates and saturates from floats, rounds once to floats, and tests for bool."""
    check(bench, operation)


@OPERATORS.table(
    {
        f"{a.text}_to_{b.text}": _bitcast(a, b)
        for a in EXECUTABLE_TYPES
        for b in EXECUTABLE_TYPES
        if bitcast_is_legal(a, b)
    }
)
def bitcast(bench: Bench, operation: Operation) -> None:
    """A bitcast keeps the bits, except that a NaN becomes canonical first."""
    check(bench, operation)


# ---------------------------------------------------------------- three operands
_TERMS: Final = {
    f32: (0x3F80_0001, 0xBF80_0000, 0x0000_0001, 0x7F7F_FFFF, 0x4B80_0001, 0x8000_0000, 0x7F80_0000, 0x7FC0_0001),
    f64: (
        0x3FF0_0000_0000_0001,
        0xBFF0_0000_0000_0000,
        0x0000_0000_0000_0001,
        0x7FEF_FFFF_FFFF_FFFF,
        0x4340_0000_0000_0001,
        0x8000_0000_0000_0000,
        0x3CA0_0000_0000_0000,
        0x7FF8_0000_0000_0123,
    ),
}


@OPERATORS.table(
    {
        dtype.text: Operation(
            (dtype,) * 3,
            dtype,
            lambda e: Fma(e[0], e[1], e[2]),
            lambda a, b, c, dtype=dtype: scalar.fma(dtype, a, b, c),
            tuple(product(terms, repeat=3)),
        )
        for dtype, terms in _TERMS.items()
    }
)
def fma(bench: Bench, operation: Operation) -> None:
    """``fma`` rounds once, at the limits of the range too."""
    check(bench, operation)


@OPERATORS.table(
    {
        dtype.text: Operation(
            (dtype,) * 3,
            dtype,
            lambda e: Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, e[0], e[1]), e[2]),
            lambda a, b, c, dtype=dtype: scalar.binary(
                BinaryOp.ADD, dtype, scalar.binary(BinaryOp.MUL, dtype, a, b), c
            ),
            tuple(product(terms, repeat=3)),
        )
        for dtype, terms in _TERMS.items()
    }
)
def products_and_sums_are_not_contracted(bench: Bench, operation: Operation) -> None:
    """``a * b + c`` rounds twice."""
    check(bench, operation)


@OPERATORS.table(
    {
        dtype.text: Operation(
            (bool_, dtype, dtype),
            dtype,
            lambda e: Select(e[0], e[1], e[2]),
            lambda c, a, b: a if c else b,
            tuple((c, a, b) for c in (0, 1) for a, b in zip(samples(dtype), samples(dtype)[::-1], strict=True)),
        )
        for dtype in EXECUTABLE_TYPES
    }
)
def select(bench: Bench, operation: Operation) -> None:
    """``select`` copies the bits of the chosen operand."""
    check(bench, operation)


def _u32(value: int) -> Literal:
    return Literal(u32, value)


def _signed_shift_compare(x: int) -> int:
    wide = x - (1 << 32) if x >> 31 else x
    shifted = (wide >> 4) & 0xFFFF_FFFF
    return int(shifted > 0x0FFF_FFFF)


@OPERATORS.table(
    {
        "not_then_xor": Operation(
            (u32,),
            u32,
            lambda e: Select(
                Binary(BinaryOp.EQ, e[0], _u32(20)),
                Binary(BinaryOp.BIT_XOR, Unary(UnaryOp.BIT_NOT, e[0]), _u32(0x1234_5678)),
                _u32(7),
            ),
            lambda x: (~x & 0xFFFF_FFFF) ^ 0x1234_5678 if x == 20 else 7,
            tuple((x,) for x in (0, 19, 20, 21, 0xFFFF_FFFF)),
        ),
        "arithmetic_shift_then_unsigned_compare": Operation(
            (u32,),
            bool_,
            lambda e: Binary(
                BinaryOp.GT,
                Bitcast(u32, Binary(BinaryOp.SHR, Bitcast(ScalarType.I32, e[0]), _u32(4))),
                _u32(0x0FFF_FFFF),
            ),
            _signed_shift_compare,
            tuple((x,) for x in (0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)),
        ),
        "maximum_of_a_difference": Operation(
            (ScalarType.I32, ScalarType.I32),
            ScalarType.I32,
            lambda e: Binary(
                BinaryOp.MAX,
                Binary(BinaryOp.SUB, Binary(BinaryOp.SUB, e[0], e[1]), e[1]),
                Binary(BinaryOp.SUB, e[0], e[1]),
            ),
            lambda a, b: scalar.binary(
                BinaryOp.MAX,
                ScalarType.I32,
                (a - b - b) & 0xFFFF_FFFF,
                (a - b) & 0xFFFF_FFFF,
            ),
        ),
        "sum_with_carry_after_shifts": Operation(
            (ScalarType.U64, ScalarType.U64),
            ScalarType.U64,
            lambda e: Binary(BinaryOp.ADD, Binary(BinaryOp.SHL, e[0], _u32(3)), Binary(BinaryOp.SHR, e[1], _u32(5))),
            lambda a, b: ((a << 3) + (b >> 5)) & 0xFFFF_FFFF_FFFF_FFFF,
        ),
    }
)
def combinations_that_optimisers_get_wrong(bench: Bench, operation: Operation) -> None:
    """Sequences that device compilers were seen to miscompile return the bits of the rules."""
    check(bench, operation)


# ---------------------------------------------------------------- literal answers
class _Fact(NamedTuple):
    """``expression`` over ``a`` and ``b`` of type ``dtype`` returns ``bits`` of type ``result``."""

    dtype: ScalarType
    a: int
    b: int
    expression: str
    result: ScalarType
    bits: int


_I32_MIN: Final = 0x8000_0000
_NAN: Final = 0x7FC0_0000
_I32, _U64, _I64 = ScalarType.I32, ScalarType.U64, ScalarType.I64


@OPERATORS.table(
    {
        "unsigned_quotient_by_zero": _Fact(u32, 7, 0, "a / b", u32, 0xFFFF_FFFF),
        "unsigned_remainder_by_zero": _Fact(u32, 7, 0, "a % b", u32, 0),
        "signed_quotient_by_zero": _Fact(_I32, 7, 0, "a / b", _I32, 0),
        "signed_quotient_overflow": _Fact(_I32, _I32_MIN, 0xFFFF_FFFF, "a / b", _I32, _I32_MIN),
        "signed_remainder_overflow": _Fact(_I32, _I32_MIN, 0xFFFF_FFFF, "a % b", _I32, 0),
        "remainder_has_the_sign_of_the_dividend": _Fact(_I32, 0xFFFF_FFF9, 3, "a % b", _I32, 0xFFFF_FFFF),
        "wide_quotient_by_zero": _Fact(_U64, 7, 0, "a / b", _U64, (1 << 64) - 1),
        "wide_signed_quotient_by_zero": _Fact(_I64, 7, 0, "a / b", _I64, 0),
        "shift_counts_wrap": _Fact(u32, 1, 33, "a << b", u32, 2),
        "wide_shift_counts_wrap": _Fact(_U64, 1, 65, "a << b", _U64, 2),
        "signed_shift_right_is_arithmetic": _Fact(_I32, _I32_MIN, 31, "a >> b", _I32, 0xFFFF_FFFF),
        "rotation_by_nothing": _Fact(u32, 0x1234_5678, 32, "rotl(a, b)", u32, 0x1234_5678),
        "leading_zeros_of_zero": _Fact(u32, 0, 0, "clz(a)", u32, 32),
        "trailing_zeros_of_zero": _Fact(_U64, 0, 0, "ctz(a)", _U64, 64),
        "absolute_value_of_the_least": _Fact(_I32, _I32_MIN, 0, "abs(a)", _I32, _I32_MIN),
        "high_half_of_a_signed_product": _Fact(_I32, _I32_MIN, 2, "mulhi(a, b)", _I32, 0xFFFF_FFFF),
        "saturated_sum": _Fact(_I32, 0x7FFF_FFFF, 1, "sat_add(a, b)", _I32, 0x7FFF_FFFF),
        "float_by_zero": _Fact(f32, 0x3F80_0000, 0, "a / b", f32, 0x7F80_0000),
        "float_zero_by_zero": _Fact(f32, 0, 0, "a / b", f32, _NAN),
        "nan_is_canonical_in_memory": _Fact(f32, 0xFFC1_2345, 0, "a", f32, _NAN),
        "nan_is_canonical_in_a_bitcast": _Fact(f32, 0xFFC1_2345, 0, "bitcast<u32>(a)", u32, _NAN),
        "minimum_ignores_nan": _Fact(f32, _NAN, 0x3F80_0000, "min(a, b)", f32, 0x3F80_0000),
        "minimum_of_zeros": _Fact(f32, 0, 0x8000_0000, "min(a, b)", f32, 0x8000_0000),
        "maximum_of_zeros": _Fact(f32, 0x8000_0000, 0, "max(a, b)", f32, 0),
        "subnormals_are_kept": _Fact(f32, 0x0080_0000, 0x3F00_0000, "a * b", f32, 0x0040_0000),
        "halves_round_away_from_zero": _Fact(f32, 0xC020_0000, 0, "round(a)", f32, 0xC040_0000),
        "halves_round_to_even": _Fact(f32, 0xC020_0000, 0, "round_even(a)", f32, 0xC000_0000),
        "odd_halves_round_to_even": _Fact(f32, 0x4060_0000, 0, "round_even(a)", f32, 0x4080_0000),
        "a_negative_half_rounds_to_negative_zero": _Fact(f32, 0xBF00_0000, 0, "round_even(a)", f32, 0x8000_0000),
        "overflow_of_a_narrow_float": _Fact(f32, 0x477F_F000, 0, "narrow<f16>(a)", f32, 0x7F80_0000),
        "the_greatest_narrow_float": _Fact(f32, 0x477F_EFFF, 0, "narrow<f16>(a)", f32, 0x477F_E000),
        "a_tie_of_a_narrow_float": _Fact(f32, 0x3F80_1000, 0, "narrow<f16>(a)", f32, 0x3F80_0000),
        "a_subnormal_narrow_float": _Fact(f32, 0x33C0_0000, 0, "pack<f16>(a)", u32, 2),
        "the_bits_of_a_narrow_nan": _Fact(f32, 0xFFC1_2345, 0, "pack<f16>(a)", u32, 0x7E00),
        "the_bits_of_a_bfloat_nan": _Fact(f32, 0xFFC1_2345, 0, "pack<bf16>(a)", u32, 0x7FC0),
        "a_narrow_integer_has_a_sign": _Fact(_I32, 0x0000_0180, 0, "narrow<i8>(a)", _I32, 0xFFFF_FF80),
        "the_high_bits_of_a_word_do_not_matter": _Fact(u32, 0xFFFF_3C00, 0, "unpack<f16>(a)", f32, 0x3F80_0000),
        "a_cast_that_wraps": _Fact(f32, 0x4F80_0001, 0, "wrap_cast<u32>(a)", u32, 512),
        "a_cast_of_a_negative_that_wraps": _Fact(f32, 0xBFC0_0000, 0, "wrap_cast<u64>(a)", _U64, (1 << 64) - 1),
        "a_cast_of_infinity_that_wraps": _Fact(f32, 0x7F80_0000, 0, "wrap_cast<i32>(a)", _I32, 0),
        "ceiling_keeps_the_sign_of_zero": _Fact(f32, 0xBF00_0000, 0, "ceil(a)", f32, 0x8000_0000),
        "sign_of_negative_zero": _Fact(f32, 0x8000_0000, 0, "sign(a)", f32, 0),
        "nan_to_integer": _Fact(f32, _NAN, 0, "cast<i32>(a)", _I32, 0),
        "float_to_integer_saturates": _Fact(f32, 0x4F80_0000, 0, "cast<i32>(a)", _I32, 0x7FFF_FFFF),
        "negative_float_to_unsigned": _Fact(f32, 0xBF80_0000, 0, "cast<u32>(a)", u32, 0),
        "integer_to_float_rounds_to_even": _Fact(u32, 0x0100_0001, 0, "cast<f32>(a)", f32, 0x4B80_0000),
        "nan_is_true": _Fact(f32, _NAN, 0, "cast<bool>(a)", bool_, 1),
        "negative_zero_is_false": _Fact(f32, 0x8000_0000, 0, "cast<bool>(a)", bool_, 0),
        "nan_is_unequal_to_itself": _Fact(f32, _NAN, 0, "a != a", bool_, 1),
        "exact_products_are_not_contracted": _Fact(f32, 0x3F80_0001, 0xBF80_0002, "a * a + b", f32, 0),
        "fused_products_are_exact": _Fact(f32, 0x3F80_0001, 0xBF80_0002, "fma(a, a, b)", f32, 0x2880_0000),
    }
)
def known_answers(bench: Bench, fact: _Fact) -> None:
    """The results stated in the language's definition are returned, with operands from memory and with literals
    alike.
    """
    dtype, a, b = fact.dtype, fact.a, fact.b
    kernel = f"""
    workgroup_size 1, 1, 1
    buffer x @0 read {dtype.text}[2]
    buffer y @1 write {fact.result.text}[1]
    body {{ let a = x[0u] let b = x[1u] y[0u] = {fact.expression} }}
    """
    given = a.to_bytes(dtype.size, "little") + b.to_bytes(dtype.size, "little")
    wanted = fact.bits.to_bytes(fact.result.size, "little")
    equal(bench.run(kernel, given), (wanted,), f"{fact.expression} of values from memory")
    constants = f"""
    workgroup_size 1, 1, 1
    buffer y @0 write {fact.result.text}[1]
    body {{ let a = {literal_text(dtype, a)} let b = {literal_text(dtype, b)} y[0u] = {fact.expression} }}
    """
    equal(bench.run(constants), (wanted,), f"{fact.expression} of literals")
