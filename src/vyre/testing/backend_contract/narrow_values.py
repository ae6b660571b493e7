"""Cases of narrow values: rounding to them, their bits in words, arithmetic on them, and casts that wrap."""

from __future__ import annotations

from itertools import product
from typing import Final

from vyre.domain.ir.expr import Binary, Cast, Expr, Fma, Literal, Narrow, Pack, Unary, Unpack
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import NARROW_TYPES, ScalarType, bf16, f16, f32, f64, u32
from vyre.domain.numerics import scalar
from vyre.domain.validation.validator import check_rules
from vyre.testing.backend_contract.bench import Bench, equal
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.operators import add_operations, check, expected
from vyre.testing.operations import LANE, A, B, C, Operation, Row, operations, rows_of, with_operands
from vyre.testing.samples import HALF_BITS, samples, wide_samples, words_with

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
