"""Cases of narrow values: rounding to them, their bits in words, arithmetic on them, and casts that wrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Final, NamedTuple

from vyre.domain.ir.expr import (
    Binary,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Literal,
    Narrow,
    Pack,
    Unary,
    Unpack,
    WrapCast,
)
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import NARROW_TYPES, ScalarType, bf16, f16, f32, f64, i32, i64, u32, u64
from vyre.domain.numerics import scalar
from vyre.domain.validation.validator import check_rules
from vyre.testing.backend_contract.bench import Bench
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal
from vyre.testing.backend_contract.operators import Operation, check, samples

NARROW: Final = Group("narrow")
HALVES: Final = (f16, bf16)
_TYPES: Final = {dtype.text: dtype for dtype in NARROW_TYPES}
_F32_BITS: Final = (
    0x477F_E000,  # 65504, the greatest f16
    0xC77F_EFFF,  # rounds to it
    0x477F_F000,  # 65520, half-way to 2^16: infinite in f16
    0xC780_0000,
    0x3880_0000,  # 2^-14, the least normal f16
    0x387F_FFFF,
    0xB87F_E000,  # half-way below it
    0x387F_C000,  # the greatest subnormal f16
    0x3380_0000,  # 2^-24, the least f16
    0x3300_0000,  # half of it: a tie that goes to zero
    0xB300_0000,
    0xB300_0001,
    0x33C0_0000,  # 1.5 and 2.5 times the least f16
    0xB420_0000,
    0x3F80_1000,  # ties of f16 beside 1, and one bit more
    0xBF80_1001,
    0x3F80_3000,
    0x3F80_8000,  # ties of bf16 beside 1, and one bit more
    0xBF80_8001,
    0x3F81_8000,
    0x7F7F_7FFF,  # rounds to the greatest bf16
    0xFF7F_8000,  # half-way beyond it
    0x0000_8000,  # half of the least bf16
    0x8000_8001,
    0x0001_8000,
    0x7FFF_FFFF,  # NaN whose payloads a carry would leave
    0xFF80_0001,
    0x7F80_1000,
)
_HALF_BITS: Final[dict[ScalarType, tuple[int, ...]]] = {
    f16: (0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x3555, 0x4248, 0x7BFF, 0xFBFF, 0x7C00, 0xFE01),
    bf16: (0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0xBF81, 0x3EAB, 0x4049, 0x7F7F, 0xFF7F, 0x7F80, 0xFFC1),
}
_WRAP_BITS: Final[dict[ScalarType, tuple[int, ...]]] = {
    f32: (
        0xBF7F_FFFF,  # above -1
        0x4F80_0000,  # 2^32, and the numbers beside it
        0x4F80_0001,
        0xCF80_0001,
        0xCF7F_FFFF,
        0x5F00_0000,  # 2^63
        0xDF00_0001,
        0x5F80_0001,  # 2^64 + 2^41
        0xDF80_0003,
        0x71FF_FFFF,  # above 2^100
    ),
    f64: (
        0xBFEF_FFFF_FFFF_FFFF,  # above -1
        0x41F0_0000_0010_0000,  # 2^32 + 1
        0xC1EF_FFFF_FFFF_FFFF,
        0x4330_0000_0000_0001,  # 2^52 + 1
        0xC340_0000_0000_0001,
        0x43E0_0000_0000_0001,  # 2^63 + 2048
        0xC3E0_0000_0000_0001,
        0x43F0_0000_0000_0001,  # 2^64 + 4096
        0xC400_0000_0000_0003,
        0x4720_0000_0000_0001,  # 2^115 + 2^63
        0x4730_0000_0000_0001,
        0x7FE0_0000_0000_0000,  # 2^1023
    ),
}
_WORDS: Final = (0x7F, 0x80, 0x81, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x1_0000, 0xFFFF_FF80, 0xFFFF_FF7F, 0xFFFF_7FFF)
_WRAPPED: Final = (u32, i32, u64, i64)


@cache
def wide_samples(dtype: ScalarType) -> tuple[int, ...]:
    """Returns bit patterns of values to be made narrow: those of ``samples``, and the limits and ties of what is
    narrow (f32, u32, i32), or what wraps (f64).
    """
    more = _WRAP_BITS.get(dtype, _WORDS)
    return tuple(dict.fromkeys((*samples(dtype), *more, *(_F32_BITS if dtype is f32 else ()))))


@cache
def words_with(dtype: ScalarType) -> tuple[int, ...]:
    """Returns words whose low bits are values of a narrow type, with other bits above them."""
    if dtype.is_float:
        low: tuple[int, ...] = (*_HALF_BITS[dtype], *range(0x0123, 0x1_0000, 0x0777))
    else:
        low = (0, 1, 0x55, 0x7F, 0x80, 0x81, 0xFF, 0x7FFF, 0x8000, 0xFFFF)
    return (*low, *(bits | 0xA5C3_0000 for bits in low))


def half_patterns(dtype: ScalarType) -> tuple[int, ...]:
    """Returns patterns of f16 or bf16: zeros, subnormals, ordinary numbers, the greatest, infinity and a NaN."""
    return _HALF_BITS[dtype]


# ---------------------------------------------------------------- one node
def _rows(values: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    return tuple((bits,) for bits in values)


def _narrow(dtype: ScalarType) -> Operation:
    wide = dtype.widened
    rows = _rows(wide_samples(wide))
    return Operation((wide,), wide, lambda e: Narrow(dtype, e[0]), lambda a: scalar.narrow(dtype, a), rows)


def _pack(dtype: ScalarType) -> Operation:
    wide = dtype.widened
    rows = _rows(wide_samples(wide))
    return Operation((wide,), u32, lambda e: Pack(dtype, e[0]), lambda a: scalar.pack(dtype, a), rows)


def _unpack(dtype: ScalarType) -> Operation:
    rows = _rows(words_with(dtype))
    return Operation((u32,), dtype.widened, lambda e: Unpack(dtype, e[0]), lambda a: scalar.unpack(dtype, a), rows)


@NARROW.table({name: _narrow(dtype) for name, dtype in _TYPES.items()})
def narrow(bench: Bench, operation: Operation) -> None:
    """``narrow`` gives the value that a load gives after a store into an element of the type."""
    check(bench, operation)


@NARROW.table({name: _pack(dtype) for name, dtype in _TYPES.items()})
def pack(bench: Bench, operation: Operation) -> None:
    """``pack`` gives the stored bits, with zeros above them; a NaN has the canonical ones."""
    check(bench, operation)


@NARROW.table({name: _unpack(dtype) for name, dtype in _TYPES.items()})
def unpack(bench: Bench, operation: Operation) -> None:
    """``unpack`` gives the value of the low bits and ignores the others."""
    check(bench, operation)


@NARROW.table(_TYPES)
def of_literals(bench: Bench, dtype: ScalarType) -> None:
    """``narrow``, ``pack`` and ``unpack`` of a literal give the bits of their rules."""
    wide, lane = dtype.widened, LaunchId(IdKind.GLOBAL, 0)
    values, words = wide_samples(wide), words_with(dtype)
    outputs: tuple[tuple[str, ScalarType, list[tuple[Expr, int]]], ...] = (
        ("n", wide, [(Narrow(dtype, Literal(wide, bits)), scalar.narrow(dtype, bits)) for bits in values]),
        ("p", u32, [(Pack(dtype, Literal(wide, bits)), scalar.pack(dtype, bits)) for bits in values]),
        ("u", wide, [(Unpack(dtype, Literal(u32, word)), scalar.unpack(dtype, word)) for word in words]),
    )
    buffers: list[Buffer] = []
    body: list[Store] = []
    wanted: list[bytes] = []
    for binding, (name, result, rows) in enumerate(outputs):
        buffers.append(Buffer.make(name, binding, Access.READ_WRITE, result, len(rows), is_output=True))
        # The index depends on the lane, so that no more than the operand is known before the kernel runs.
        body += [Store(name, Binary(BinaryOp.ADD, lane, Literal(u32, k)), value) for k, (value, _) in enumerate(rows)]
        wanted.append(b"".join(scalar.store_element(result, bits) for _, bits in rows))
    program = Program(tuple(buffers), (1, 1, 1), tuple(body))
    check_rules(program).raise_if_invalid()
    equal(bench.run(program, grid=(1, 1, 1)), tuple(wanted))


def _wrap(source: ScalarType, target: ScalarType) -> Operation:
    values = wide_samples(source)
    rows = _rows((*values, *(bits ^ 1 << (source.bits - 1) for bits in values)))
    return Operation(
        (source,), target, lambda e: WrapCast(target, e[0]), lambda x: scalar.wrap_cast(source, target, x), rows
    )


@NARROW.table({f"{a.text}_to_{b.text}": _wrap(a, b) for a in (f32, f64) for b in _WRAPPED})
def wrap_cast(bench: Bench, operation: Operation) -> None:
    """``wrap_cast`` truncates a float and takes the integer modulo 2^width; infinities and NaN give 0."""
    check(bench, operation)


# ---------------------------------------------------------------- arithmetic on narrow values
def _on_halves(
    dtype: ScalarType,
    operands: int,
    apply: Callable[[Sequence[Expr]], Expr],
    rule: Callable[..., int],
    result: ScalarType = f32,
) -> Operation:
    """Returns an operation on elements of f16 or bf16; ``rule`` takes their values as bits of f32."""
    rows = tuple(product(_HALF_BITS[dtype], repeat=operands))
    loaded: Callable[..., int] = lambda *bits: rule(*(scalar.unpack(dtype, b) for b in bits))  # noqa: E731
    return Operation((dtype,) * operands, result, apply, loaded, rows)


def _arithmetic(op: BinaryOp, dtype: ScalarType, result: ScalarType) -> Operation:
    return _on_halves(
        dtype,
        2,
        lambda e: Narrow(dtype, Binary(op, e[0], e[1])),
        lambda a, b: scalar.narrow(dtype, scalar.binary(op, f32, a, b)),
        result,
    )


_BINARY: Final = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MIN, BinaryOp.MAX)
_UNARY: Final = (UnaryOp.SQRT, UnaryOp.NEGATE, UnaryOp.ABS, UnaryOp.ROUND_EVEN, UnaryOp.RECIPROCAL, UnaryOp.EXP2)


@NARROW.table({f"{op.name.lower()}_{t.text}": _arithmetic(op, t, f32) for op in _BINARY for t in HALVES})
def arithmetic_is_rounded_once(bench: Bench, operation: Operation) -> None:
    """An operator on narrow values followed by ``narrow`` is that operator of the narrow type."""
    check(bench, operation)


@NARROW.table({f"{op.name.lower()}_{t.text}": _arithmetic(op, t, t) for op in _BINARY for t in HALVES})
def results_are_stored_as_they_are(bench: Bench, operation: Operation) -> None:
    """A narrowed result is stored into an element of its type without another rounding."""
    check(bench, operation)


def _function(op: UnaryOp, dtype: ScalarType) -> Operation:
    return _on_halves(
        dtype,
        1,
        lambda e: Narrow(dtype, Unary(op, e[0])),
        lambda a: scalar.narrow(dtype, scalar.unary(op, f32, a)),
    )


@NARROW.table({f"{op.name.lower()}_{t.text}": _function(op, t) for op in _UNARY for t in HALVES})
def functions_of_narrow_values(bench: Bench, operation: Operation) -> None:
    """A function of a narrow value is that of f32, narrowed."""
    check(bench, operation)


class _Chain(NamedTuple):
    """An expression of three operands, and its rule; both are narrowed to the type."""

    apply: Callable[[ScalarType, Sequence[Expr]], Expr]
    rule: Callable[[ScalarType, int, int, int], int]


def _product(a: int, b: int) -> int:
    return scalar.binary(BinaryOp.MUL, f32, a, b)


def _sum(a: int, b: int) -> int:
    return scalar.binary(BinaryOp.ADD, f32, a, b)


_CHAINS: Final = {
    "fused": _Chain(lambda t, e: Fma(e[0], e[1], e[2]), lambda t, a, b, c: scalar.fma(f32, a, b, c)),
    "apart": _Chain(
        lambda t, e: Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, e[0], e[1]), e[2]),
        lambda t, a, b, c: _sum(_product(a, b), c),
    ),
    "narrow_between": _Chain(
        lambda t, e: Binary(BinaryOp.ADD, Narrow(t, Binary(BinaryOp.MUL, e[0], e[1])), e[2]),
        lambda t, a, b, c: _sum(scalar.narrow(t, _product(a, b)), c),
    ),
}


def _chained(chain: _Chain, dtype: ScalarType) -> Operation:
    return _on_halves(
        dtype,
        3,
        lambda e: Narrow(dtype, chain.apply(dtype, e)),
        lambda a, b, c: scalar.narrow(dtype, chain.rule(dtype, a, b, c)),
    )


@NARROW.table({f"{name}_{t.text}": _chained(chain, t) for name, chain in _CHAINS.items() for t in HALVES})
def products_and_sums_round_where_it_is_written(bench: Bench, operation: Operation) -> None:
    """Between a product and a sum of narrow values a result has the precision of f32, unless it is narrowed."""
    check(bench, operation)


# ---------------------------------------------------------------- several nodes
def _both(first: ScalarType, second: ScalarType) -> Operation:
    rows = _rows(wide_samples(f32))
    return Operation(
        (f32,),
        f32,
        lambda e: Narrow(second, Narrow(first, e[0])),
        lambda a: scalar.narrow(second, scalar.narrow(first, a)),
        rows,
    )


@NARROW.table(
    {
        "f16_then_bf16": _both(f16, bf16),
        "bf16_then_f16": _both(bf16, f16),
        "f16_then_f16": _both(f16, f16),
        "unpack_of_a_pack": Operation(
            (f32,),
            f32,
            lambda e: Unpack(f16, Pack(f16, e[0])),
            lambda a: scalar.narrow(f16, a),
            _rows(wide_samples(f32)),
        ),
        "pack_of_an_unpack": Operation(
            (u32,),
            u32,
            lambda e: Pack(bf16, Unpack(bf16, e[0])),
            lambda a: scalar.pack(bf16, scalar.unpack(bf16, a)),
            _rows(words_with(bf16)),
        ),
        "f16_of_f64": Operation(
            (f64,),
            f32,
            lambda e: Narrow(f16, Cast(f32, e[0])),
            lambda a: scalar.narrow(f16, scalar.cast(f64, f32, a)),
        ),
    }
)
def one_after_the_other(bench: Bench, operation: Operation) -> None:
    """Each conversion rounds on its own."""
    check(bench, operation)


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
    halves = _HALF_BITS[f16]
    pairs = list(product(halves, repeat=2))
    x = [a | b << 16 for a, b in pairs]
    y = x[5:] + x[:5]
    wanted = []
    for a, b in zip(x, y, strict=True):
        low = _sum(scalar.unpack(f16, a), scalar.unpack(f16, b))
        high = _product(scalar.unpack(f16, a >> 16), scalar.unpack(f16, b >> 16))
        wanted.append(scalar.pack(f16, low) | scalar.pack(f16, high) << 16)
    data = [b"".join(word.to_bytes(4, "little") for word in column) for column in (x, y)]
    equal(bench.words(kernel, *data), wanted)
