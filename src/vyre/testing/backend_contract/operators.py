"""Cases of every operator on every type it is defined for, at the values where rules differ.

Expected bits come from ``vyre.domain.numerics``, the rules that all backends share, element by element.

Cases of narrow values: rounding to them, their bits in words, arithmetic on them, and casts that wrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Final, NamedTuple

from vyre.domain.dialects.expansion import expanded
from vyre.domain.dialects.operations import Lowering
from vyre.domain.ir.expr import Binary, Bitcast, Cast, Expr, Fma, Literal, Narrow, Pack, Select, Unary, Unpack
from vyre.domain.ir.operators import TRANSCENDENTALS, BinaryOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.text_format import literal_text
from vyre.domain.ir.types import NARROW_TYPES, ScalarType, bf16, bool_, f16, f32, f64, i32, i64, u32, u64
from vyre.domain.numerics import scalar
from vyre.domain.op_ids import native_op
from vyre.domain.validation.validator import check_rules
from vyre.testing.backend_contract.bench import Bench, Skipped, Violation, equal, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.operations import LANE, A, B, C, Operation, Row, operations, rows_of, with_operands
from vyre.testing.samples import HALF_BITS, samples, wide_samples, words_with

OPERATORS: Final = Group("operators")


def check(bench: Bench, operation: Operation, rows: tuple[Row, ...] = ()) -> None:
    """Applies the operation to rows of operands, by default to its samples, one lane each; compares every element."""
    rows = rows or operation.samples()
    program = operation.program(len(rows))
    check_rules(program).raise_if_invalid()
    (output,) = bench.run(program, *operation.inputs(rows).values())
    size = operation.result.size
    for i, (row, wanted) in enumerate(zip(rows, expected(operation, rows), strict=True)):
        if output[i * size : (i + 1) * size] != wanted:
            operands = ", ".join(f"{bits:#x}" for bits in row)
            got = output[i * size : (i + 1) * size][::-1].hex()
            raise Violation(f"of ({operands}) it gives 0x{got}, not 0x{wanted[::-1].hex()}")


@lru_cache(2048)
def expected(operation: Operation, rows: tuple[Row, ...]) -> tuple[bytes, ...]:
    """Returns the element that each row gives; backends that are judged one after the other share it."""
    return tuple(map(operation.expected, rows))


def add_operations(group: Group, rules: Mapping[str, str]) -> None:
    """Adds a case for each operation of these kinds; ``rules`` says in words what a kind returns."""
    for operation in operations():
        if operation.kind in rules:
            name = f"{operation.kind}.{operation.key}"
            group.add(name, rules[operation.kind], (), partial(check, operation=operation))


add_operations(
    OPERATORS,
    {
        "binary": "A binary operator returns the bits of its rule on every pair of samples.",
        "counts_may_be_u32": "Shifts and rotations of any type take a u32 count, of which they use the low bits.",
        "unary": "A unary operator returns the bits of its rule on every sample; transcendental functions are rounded "
        "correctly.",
        "cast": "A cast wraps between integers, truncates and saturates from floats, rounds once to floats, and tests "
        "for bool.",
        "bitcast": "A bitcast keeps the bits, except that a NaN becomes canonical first.",
        "fma": "``fma`` rounds once, at the limits of the range too.",
        "products_and_sums_are_not_contracted": "``a * b + c`` rounds twice.",
        "select": "``select`` copies the bits of the chosen operand.",
    },
)
_ORDINARY: Final = rows_of([0x3C00_0000 + 0x0123_4567 * k & 0x7FFF_FFFF | (k & 1) << 31 for k in range(96)])


@OPERATORS.table({op.name.lower(): op for op in UnaryOp if op in TRANSCENDENTALS})
def functions_are_correctly_rounded(bench: Bench, op: UnaryOp) -> None:
    """A transcendental function is correctly rounded, also for large arguments."""
    check(bench, Operation("", "", "", (f32,), f32, Unary(op, A)), _ORDINARY)


class _Combination(NamedTuple):
    operands: tuple[ScalarType, ...]
    result: ScalarType
    value: Expr
    values: tuple[int, ...] = ()


def _u32(value: int) -> Literal:
    return Literal(u32, value)


_DIFFERENCE: Final = Binary(BinaryOp.SUB, A, B)


@OPERATORS.table(
    {
        "not_then_xor": _Combination(
            (u32,),
            u32,
            Select(
                Binary(BinaryOp.EQ, A, _u32(20)),
                Binary(BinaryOp.BIT_XOR, Unary(UnaryOp.BIT_NOT, A), _u32(0x1234_5678)),
                _u32(7),
            ),
            (0, 19, 20, 21, 0xFFFF_FFFF),
        ),
        "arithmetic_shift_then_unsigned_compare": _Combination(
            (u32,),
            bool_,
            Binary(BinaryOp.GT, Bitcast(u32, Binary(BinaryOp.SHR, Bitcast(i32, A), _u32(4))), _u32(0x0FFF_FFFF)),
            (0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF),
        ),
        "maximum_of_a_difference": _Combination(
            (i32, i32), i32, Binary(BinaryOp.MAX, Binary(BinaryOp.SUB, _DIFFERENCE, B), _DIFFERENCE)
        ),
        "sum_with_carry_after_shifts": _Combination(
            (u64, u64), u64, Binary(BinaryOp.ADD, Binary(BinaryOp.SHL, A, _u32(3)), Binary(BinaryOp.SHR, B, _u32(5)))
        ),
    }
)
def combinations_that_optimisers_get_wrong(bench: Bench, combination: _Combination) -> None:
    """Sequences that device compilers were seen to miscompile return the bits of the rules."""
    operands, result, value, values = combination
    check(bench, Operation("", "", "", operands, result, value), rows_of(values))


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


@OPERATORS.table(
    {
        "unsigned_quotient_by_zero": _Fact(u32, 7, 0, "a / b", u32, 0xFFFF_FFFF),
        "unsigned_remainder_by_zero": _Fact(u32, 7, 0, "a % b", u32, 0),
        "signed_quotient_by_zero": _Fact(i32, 7, 0, "a / b", i32, 0),
        "signed_quotient_overflow": _Fact(i32, _I32_MIN, 0xFFFF_FFFF, "a / b", i32, _I32_MIN),
        "signed_remainder_overflow": _Fact(i32, _I32_MIN, 0xFFFF_FFFF, "a % b", i32, 0),
        "remainder_has_the_sign_of_the_dividend": _Fact(i32, 0xFFFF_FFF9, 3, "a % b", i32, 0xFFFF_FFFF),
        "wide_quotient_by_zero": _Fact(u64, 7, 0, "a / b", u64, (1 << 64) - 1),
        "wide_signed_quotient_by_zero": _Fact(i64, 7, 0, "a / b", i64, 0),
        "shift_counts_wrap": _Fact(u32, 1, 33, "a << b", u32, 2),
        "wide_shift_counts_wrap": _Fact(u64, 1, 65, "a << b", u64, 2),
        "signed_shift_right_is_arithmetic": _Fact(i32, _I32_MIN, 31, "a >> b", i32, 0xFFFF_FFFF),
        "rotation_by_nothing": _Fact(u32, 0x1234_5678, 32, "rotl(a, b)", u32, 0x1234_5678),
        "leading_zeros_of_zero": _Fact(u32, 0, 0, "clz(a)", u32, 32),
        "trailing_zeros_of_zero": _Fact(u64, 0, 0, "ctz(a)", u64, 64),
        "absolute_value_of_the_least": _Fact(i32, _I32_MIN, 0, "abs(a)", i32, _I32_MIN),
        "high_half_of_a_signed_product": _Fact(i32, _I32_MIN, 2, "mulhi(a, b)", i32, 0xFFFF_FFFF),
        "saturated_sum": _Fact(i32, 0x7FFF_FFFF, 1, "sat_add(a, b)", i32, 0x7FFF_FFFF),
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
        "a_narrow_integer_has_a_sign": _Fact(i32, 0x0000_0180, 0, "narrow<i8>(a)", i32, 0xFFFF_FF80),
        "the_high_bits_of_a_word_do_not_matter": _Fact(u32, 0xFFFF_3C00, 0, "unpack<f16>(a)", f32, 0x3F80_0000),
        "a_cast_that_wraps": _Fact(f32, 0x4F80_0001, 0, "wrap_cast<u32>(a)", u32, 512),
        "a_cast_of_a_negative_that_wraps": _Fact(f32, 0xBFC0_0000, 0, "wrap_cast<u64>(a)", u64, (1 << 64) - 1),
        "a_cast_of_infinity_that_wraps": _Fact(f32, 0x7F80_0000, 0, "wrap_cast<i32>(a)", i32, 0),
        "ceiling_keeps_the_sign_of_zero": _Fact(f32, 0xBF00_0000, 0, "ceil(a)", f32, 0x8000_0000),
        "sign_of_negative_zero": _Fact(f32, 0x8000_0000, 0, "sign(a)", f32, 0),
        "nan_to_integer": _Fact(f32, _NAN, 0, "cast<i32>(a)", i32, 0),
        "float_to_integer_saturates": _Fact(f32, 0x4F80_0000, 0, "cast<i32>(a)", i32, 0x7FFF_FFFF),
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
    operands = a.to_bytes(dtype.size, "little") + b.to_bytes(dtype.size, "little")
    wanted = fact.bits.to_bytes(fact.result.size, "little")
    equal(bench.run(kernel, operands), (wanted,), f"{fact.expression} of values from memory")
    constants = f"""
    workgroup_size 1, 1, 1
    buffer y @0 write {fact.result.text}[1]
    body {{ let a = {literal_text(dtype, a)} let b = {literal_text(dtype, b)} y[0u] = {fact.expression} }}
    """
    equal(bench.run(constants), (wanted,), f"{fact.expression} of literals")


_WEIGHED: Final = Program.from_text("""
workgroup_size 4, 1, 1 buffer x @0 read u32[12] buffer y @1 read_write u32[4] output
define contract.weigh version 1.0.0 (a: u32, b: u32, c: u32) -> u32 { result c + (a & b) * 5u }
body { y[gid.x] = contract.weigh(x[gid.x], contract.weigh(x[gid.x + 4u], 7u, gid.x), x[gid.x + 8u]) }
""")
_TEXTS: Final = {
    "ptx": "and.b32 {a:u32}, {0}, {1};\nmad.lo.u32 {out}, {a:u32}, 5, {2};",
    "llvm": "{a:u32} = and {u32} {0}, {1}\n{b:u32} = mul {u32} {a:u32}, {u32 5}\n{out} = add {u32} {b:u32}, {2}",
    "opencl": "{a:u32} = {0} & {1};\n{out} = {2} + {a:u32} * {u32 5};",
}


@OPERATORS.table({"definition": "", **{language: language for language in _TEXTS}})
def operations_with_native_text(bench: Bench, language: str) -> None:
    """An operation gives the bytes of its definition, also by native text in a language that the backend lists."""
    if language and native_op(language) not in bench.backend.supported_ops:
        raise Skipped(f"`{bench.backend.id}` does not list {native_op(language)}")
    (weigh,) = _WEIGHED.definitions
    used = Lowering.native(weigh, language, _TEXTS[language]).definitions if language else (weigh,)
    numbers = [k * 0x9E37_79B1 & 0xFFFF_FFFF for k in range(1, 13)]
    results = bench.words(expanded(replace(_WEIGHED, definitions=used)), words(*numbers), grid=(1, 1, 1))
    rows = enumerate(zip(numbers, numbers[4:], numbers[8:], strict=False))
    equal(results, [c + (a & (i + (b & 7) * 5)) * 5 & 0xFFFF_FFFF for i, (a, b, c) in rows], "the results")


NARROW: Final = Group("narrow")
HALVES: Final = tuple(HALF_BITS)
add_operations(
    NARROW,
    {
        "narrow": "``narrow`` gives the value that a load gives after a store into an element of the type.",
        "pack": "``pack`` gives the stored bits, with zeros above them; a NaN has the canonical ones.",
        "unpack": "``unpack`` gives the value of the low bits and ignores the others.",
        "wrap_cast": "``wrap_cast`` truncates a float and takes the integer modulo 2^width; infinities and NaN give 0.",
    },
)


@NARROW.table({dtype.text: dtype for dtype in NARROW_TYPES})
def of_literals(bench: Bench, dtype: ScalarType) -> None:
    """``narrow``, ``pack`` and ``unpack`` of a literal give the bits of their rules."""
    buffers: list[Buffer] = []
    body: list[Store] = []
    wanted: list[bytes] = []
    for operation in operations():
        if operation.kind not in ("narrow", "pack", "unpack") or operation.key != dtype.text:
            continue
        name, rows = operation.kind[0], operation.samples()
        buffers.append(Buffer.make(name, len(buffers), Access.READ_WRITE, operation.result, len(rows), is_output=True))
        for k, row in enumerate(rows):
            # The index depends on the lane, so that no more than the operand is known before the kernel runs.
            place = Binary(BinaryOp.ADD, LANE, Literal(u32, k))
            literal: dict[str, Expr] = {A.name: Literal(operation.operands[0], row[0])}
            body.append(Store(name, place, with_operands(operation.value, literal)))
        wanted.append(b"".join(expected(operation, rows)))
    program = Program(tuple(buffers), (1, 1, 1), tuple(body))
    check_rules(program).raise_if_invalid()
    equal(bench.run(program, grid=(1, 1, 1)), tuple(wanted))


# ---------------------------------------------------------------- arithmetic on narrow values
def _check_halves(bench: Bench, dtype: ScalarType, count: int, value: Expr, result: ScalarType = f32) -> None:
    """Checks an operation on so many elements of f16 or bf16."""
    rows = tuple(product(HALF_BITS[dtype], repeat=count))
    check(bench, Operation("", "", "", (dtype,) * count, result, value), rows)


_BINARY: Final = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MIN, BinaryOp.MAX)
_UNARY: Final = (UnaryOp.SQRT, UnaryOp.NEGATE, UnaryOp.ABS, UnaryOp.ROUND_EVEN, UnaryOp.RECIPROCAL, UnaryOp.EXP2)
_ARITHMETIC: Final = {f"{op.name.lower()}_{t.text}": (op, t) for op in _BINARY for t in HALVES}


@NARROW.table(_ARITHMETIC)
def arithmetic_is_rounded_once(bench: Bench, row: tuple[BinaryOp, ScalarType]) -> None:
    """An operator on narrow values followed by ``narrow`` is that operator of the narrow type."""
    op, dtype = row
    _check_halves(bench, dtype, 2, Narrow(dtype, Binary(op, A, B)))


@NARROW.table(_ARITHMETIC)
def results_are_stored_as_they_are(bench: Bench, row: tuple[BinaryOp, ScalarType]) -> None:
    """A narrowed result is stored into an element of its type without another rounding."""
    op, dtype = row
    _check_halves(bench, dtype, 2, Narrow(dtype, Binary(op, A, B)), dtype)


@NARROW.table({f"{op.name.lower()}_{t.text}": (op, t) for op in _UNARY for t in HALVES})
def functions_of_narrow_values(bench: Bench, row: tuple[UnaryOp, ScalarType]) -> None:
    """A function of a narrow value is that of f32, narrowed."""
    op, dtype = row
    _check_halves(bench, dtype, 1, Narrow(dtype, Unary(op, A)))


_PRODUCT: Final = Binary(BinaryOp.MUL, A, B)
_CHAINS: Final[dict[str, tuple[ScalarType, Expr]]] = {
    f"{name}_{t.text}": (t, value)
    for t in HALVES
    for name, value in (
        ("fused", Fma(A, B, C)),
        ("apart", Binary(BinaryOp.ADD, _PRODUCT, C)),
        ("narrow_between", Binary(BinaryOp.ADD, Narrow(t, _PRODUCT), C)),
    )
}


@NARROW.table(_CHAINS)
def products_and_sums_round_where_it_is_written(bench: Bench, row: tuple[ScalarType, Expr]) -> None:
    """Between a product and a sum of narrow values a result has the precision of f32, unless it is narrowed."""
    dtype, value = row
    _check_halves(bench, dtype, 3, Narrow(dtype, value))


# ---------------------------------------------------------------- several nodes
_WIDE: Final = rows_of(wide_samples(f32))


_SEVERAL: Final[dict[str, tuple[ScalarType, ScalarType, Expr, tuple[Row, ...]]]] = {
    "f16_then_bf16": (f32, f32, Narrow(bf16, Narrow(f16, A)), _WIDE),
    "bf16_then_f16": (f32, f32, Narrow(f16, Narrow(bf16, A)), _WIDE),
    "f16_then_f16": (f32, f32, Narrow(f16, Narrow(f16, A)), _WIDE),
    "unpack_of_a_pack": (f32, f32, Unpack(f16, Pack(f16, A)), _WIDE),
    "pack_of_an_unpack": (u32, u32, Pack(bf16, Unpack(bf16, A)), rows_of(words_with(bf16))),
    "f16_of_f64": (f64, f32, Narrow(f16, Cast(f32, A)), rows_of(samples(f64))),
}


@NARROW.table(_SEVERAL)
def one_after_the_other(bench: Bench, row: tuple[ScalarType, ScalarType, Expr, tuple[Row, ...]]) -> None:
    """Each conversion rounds on its own."""
    operand, result, value, rows = row
    check(bench, Operation("", "", "", (operand,), result, value), rows)


@NARROW.case()
def two_halves_in_a_word(bench: Bench) -> None:
    """Two f16 fit into a word, and their sums and products come out as two f16 again."""
    kernel = """
    workgroup_size 64, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 read u32[runtime]
    buffer z @2 write u32[runtime] like x
    body {
      let a = x[gid.x]
      let b = y[gid.x]
      let low = pack<f16>(unpack<f16>(a) + unpack<f16>(b))
      let high = pack<f16>(unpack<f16>(a >> 16u) * unpack<f16>(b >> 16u))
      z[gid.x] = low | high << 16u
    }
    """
    halves = HALF_BITS[f16]
    pairs = list(product(halves, repeat=2))
    x = [a | b << 16 for a, b in pairs]
    y = x[5:] + x[:5]
    wanted = []
    for a, b in zip(x, y, strict=True):
        low = scalar.binary(BinaryOp.ADD, f32, scalar.unpack(f16, a), scalar.unpack(f16, b))
        high = scalar.binary(BinaryOp.MUL, f32, scalar.unpack(f16, a >> 16), scalar.unpack(f16, b >> 16))
        wanted.append(scalar.pack(f16, low) | scalar.pack(f16, high) << 16)
    data = [b"".join(word.to_bytes(4, "little") for word in column) for column in (x, y)]
    equal(bench.words(kernel, *data), wanted)
