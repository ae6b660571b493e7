"""Instructions against the scalar rules where meanings coincide, and against PTX's own words where they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from support.cuda.ptx_runs import Machine, kernel
from support.reference.bit_patterns import f32_bits, f64_bits, patterns
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

_S = ScalarType
_B, _U = BinaryOp, UnaryOp
COUNT: Final = 400
SIZE: Final = {"pred": 4, "b16": 2, "u16": 2, "f16": 2, "b32": 4, "f32": 4, "b64": 8, "f64": 8}
REGISTER: Final = {
    "pred": "%p{}",
    "b16": "%h{}",
    "u16": "%h{}",
    "f16": "%h{}",
    "b32": "%r{}",
    "f32": "%f{}",
    "b64": "%rd{}",
    "f64": "%fd{}",
}
PTX_TYPE: Final = {_S.U32: "u32", _S.I32: "s32", _S.U64: "u64", _S.I64: "s64", _S.F32: "f32", _S.F64: "f64"}
STORAGE: Final = {
    _S.U32: "b32",
    _S.I32: "b32",
    _S.U64: "b64",
    _S.I64: "b64",
    _S.F32: "f32",
    _S.F64: "f64",
    _S.BOOL: "pred",
}


def apply(
    instruction: str, result: str, sources: Sequence[str], operands: Sequence[Sequence[int]], seed: int = 0
) -> list[int]:
    """The bits that an instruction gives for each lane; ``d`` and ``a b c`` in the text are its registers."""
    machine = Machine()
    lanes = len(operands[0])
    body, arguments = [], []
    names = {}
    for number, (kind, bits) in enumerate(zip(sources, operands, strict=True)):
        size = SIZE[kind]
        arguments.append(machine.array(np.array(bits, f"u{size}")))
        register = REGISTER[kind].format(number + 4)
        names["abcd"[number]] = register
        load = "%r20" if kind == "pred" else register
        suffix = {"pred": "u32", "f16": "b16"}.get(kind, kind)
        body.append(f"ld.param.u64 %rd10, [p{number}]; mad.wide.u32 %rd11, %r3, {size}, %rd10;")
        body.append(f"ld.global.{suffix} {load}, [%rd11];")
        if kind == "pred":
            body.append(f"setp.ne.u32 {register}, %r20, 0;")
    target = REGISTER[result].format(9)
    mnemonic, _, rest = instruction.partition(" ")
    for letter, register in names.items():
        rest = rest.replace(f"<{letter}>", register)
    body.append(f"{mnemonic} {rest.replace('<d>', target)};")
    out = machine.array(np.zeros(lanes, f"u{SIZE[result]}"))
    body.append(f"ld.param.u64 %rd10, [out]; mad.wide.u32 %rd11, %r3, {SIZE[result]}, %rd10;")
    if result == "pred":
        body.append(f"selp.u32 %r20, 1, 0, {target}; st.global.u32 [%rd11], %r20;")
    else:
        body.append(f"st.global.{'b16' if result == 'f16' else result} [%rd11], {target};")
    parameters = ", ".join(f".param .u64 p{n}" for n in range(len(sources))) + ", .param .u64 out"
    options = RunOptions(seed=seed)
    machine.launch(kernel("\n".join(body), parameters), *arguments, out, block=lanes, options=options)
    return [int(word) for word in machine.read(out, np.dtype(f"u{SIZE[result]}").type)]


def canonical(dtype: ScalarType, bits: Sequence[int]) -> list[int]:
    return [scalar.canonical(dtype, word) for word in bits]


class Row(NamedTuple):
    op: BinaryOp | UnaryOp
    instruction: str
    types: tuple[ScalarType, ...]
    result: ScalarType | None = None


_INTS: Final = (_S.U32, _S.I32, _S.U64, _S.I64)
_FLOATS: Final = (_S.F32, _S.F64)
BINARY: Final = (
    Row(_B.ADD, "add.{t}", _INTS),
    Row(_B.SUB, "sub.{t}", _INTS),
    Row(_B.MUL, "mul.lo.{t}", _INTS),
    Row(_B.MUL_HIGH, "mul.hi.{t}", _INTS),
    Row(_B.MIN, "min.{t}", _INTS + _FLOATS),
    Row(_B.MAX, "max.{t}", _INTS + _FLOATS),
    Row(_B.BIT_AND, "and.b{n}", _INTS),
    Row(_B.BIT_OR, "or.b{n}", _INTS),
    Row(_B.BIT_XOR, "xor.b{n}", _INTS),
    Row(_B.ADD, "add.rn.{t}", _FLOATS),
    Row(_B.SUB, "sub.rn.{t}", _FLOATS),
    Row(_B.MUL, "mul.rn.{t}", _FLOATS),
    Row(_B.DIV, "div.rn.{t}", _FLOATS),
    Row(_B.SATURATING_ADD, "add.sat.{t}", (_S.I32,)),
    Row(_B.SATURATING_SUB, "sub.sat.{t}", (_S.I32,)),
    Row(_B.EQ, "setp.eq.{t}", _INTS + _FLOATS, _S.BOOL),
    Row(_B.NE, "setp.ne.{t}", _INTS, _S.BOOL),
    Row(_B.NE, "setp.neu.{t}", _FLOATS, _S.BOOL),
    Row(_B.LT, "setp.lt.{t}", _INTS + _FLOATS, _S.BOOL),
    Row(_B.LE, "setp.le.{t}", _INTS + _FLOATS, _S.BOOL),
    Row(_B.GT, "setp.gt.{t}", _INTS + _FLOATS, _S.BOOL),
    Row(_B.GE, "setp.ge.{t}", _INTS + _FLOATS, _S.BOOL),
    Row(_B.LT, "setp.lo.{t}", (_S.U32, _S.U64), _S.BOOL),
)
UNARY: Final = (
    Row(_U.NEGATE, "neg.{t}", (_S.I32, _S.I64, _S.F32, _S.F64)),
    Row(_U.ABS, "abs.{t}", (_S.I32, _S.I64, _S.F32, _S.F64)),
    Row(_U.BIT_NOT, "not.b{n}", _INTS),
    Row(_U.REVERSE_BITS, "brev.b{n}", (_S.U32, _S.U64)),
    Row(_U.POPCOUNT, "popc.b{n}", (_S.U32,)),
    Row(_U.CLZ, "clz.b{n}", (_S.U32,)),
    Row(_U.SQRT, "sqrt.rn.{t}", _FLOATS),
    Row(_U.RECIPROCAL, "rcp.rn.{t}", _FLOATS),
    Row(_U.FLOOR, "cvt.rmi.{t}.{t}", _FLOATS),
    Row(_U.CEIL, "cvt.rpi.{t}.{t}", _FLOATS),
    Row(_U.TRUNC, "cvt.rzi.{t}.{t}", _FLOATS),
    Row(_U.ROUND_EVEN, "cvt.rni.{t}.{t}", _FLOATS),
    Row(_U.IS_NAN, "testp.notanumber.{t}", _FLOATS, _S.BOOL),
    Row(_U.IS_INF, "testp.infinite.{t}", _FLOATS, _S.BOOL),
    Row(_U.IS_FINITE, "testp.finite.{t}", _FLOATS, _S.BOOL),
)


def spelled(row: Row, dtype: ScalarType) -> str:
    return row.instruction.format(t=PTX_TYPE[dtype], n=dtype.bits)


def cases(rows: Sequence[Row]) -> list[Any]:
    return [pytest.param(row, dtype, id=spelled(row, dtype)) for row in rows for dtype in row.types]


@pytest.mark.parametrize(("row", "dtype"), cases(BINARY))
def test_binary_operations_follow_the_scalar_rules(row: Row, dtype: ScalarType) -> None:
    assert isinstance(row.op, BinaryOp)
    a, b = patterns(dtype, COUNT, 1), patterns(dtype, COUNT, 2)
    result = row.result or dtype
    got = apply(f"{spelled(row, dtype)} <d>, <a>, <b>", STORAGE[result], [STORAGE[dtype]] * 2, [a, b])
    expected = [scalar.binary(row.op, dtype, x, y) for x, y in zip(a, b, strict=True)]
    assert canonical(result, got) == canonical(result, expected)


@pytest.mark.parametrize(("row", "dtype"), cases(UNARY))
def test_unary_operations_follow_the_scalar_rules(row: Row, dtype: ScalarType) -> None:
    assert isinstance(row.op, UnaryOp)
    a = patterns(dtype, COUNT, 1)
    result = row.result or dtype
    got = apply(f"{spelled(row, dtype)} <d>, <a>", STORAGE[result], [STORAGE[dtype]], [a])
    assert canonical(result, got) == canonical(result, [scalar.unary(row.op, dtype, x) for x in a])


@pytest.mark.parametrize("dtype", _FLOATS)
def test_fused_multiply_add_rounds_once(dtype: ScalarType) -> None:
    a, b, c = (patterns(dtype, COUNT, seed) for seed in (1, 2, 3))
    kind = STORAGE[dtype]
    got = apply(f"fma.rn.{kind} <d>, <a>, <b>, <c>", kind, [kind] * 3, [a, b, c])
    expected = [scalar.fma(dtype, *lane) for lane in zip(a, b, c, strict=True)]
    assert canonical(dtype, got) == canonical(dtype, expected)


CONVERSIONS: Final = tuple((s, t) for s in PTX_TYPE for t in PTX_TYPE if s is not t)


@pytest.mark.parametrize(("source", "target"), CONVERSIONS, ids=lambda t: t.text)
def test_conversions_follow_the_casts(source: ScalarType, target: ScalarType) -> None:
    if source.is_float and target.is_integer:
        rounding = "rzi."
    else:
        rounding = "rn." if target.is_float and (not source.is_float or target.bits < source.bits) else ""
    a = patterns(source, COUNT, 5)
    instruction = f"cvt.{rounding}{PTX_TYPE[target]}.{PTX_TYPE[source]} <d>, <a>"
    got = apply(instruction, STORAGE[target], [STORAGE[source]], [a])
    wide = source is _S.F64 or target.bits == 64
    for bits, found in zip(a, got, strict=True):
        if source.is_float and target.is_integer and scalar.unary(_U.IS_NAN, source, bits):
            assert found == (1 << target.bits - 1 if wide else 0)
        else:
            assert scalar.canonical(target, found) == scalar.canonical(target, scalar.cast(source, target, bits))


M: Final = 0xFFFF_FFFF
EXACT: Final[dict[str, list[tuple[tuple[int, ...], int]]]] = {
    # shifts clamp their counts
    "shl.b32 <d>, <a>, <b>": [((1, 31), 1 << 31), ((1, 32), 0), ((1, M), 0)],
    "shr.u32 <d>, <a>, <b>": [((1 << 31, 31), 1), ((M, 32), 0), ((M, M), 0)],
    "shr.s32 <d>, <a>, <b>": [((1 << 31, 31), M), ((1 << 31, 40), M), ((1 << 30, 99), 0)],
    "shf.l.wrap.b32 <d>, <a>, <b>, <c>": [((0x89ABCDEF, 0x01234567, 8), 0x23456789), ((1, 2, 32), 2)],
    "shf.r.wrap.b32 <d>, <a>, <b>, <c>": [((0x89ABCDEF, 0x01234567, 8), 0x6789ABCD), ((1, 2, 32), 1)],
    "shf.l.clamp.b32 <d>, <a>, <b>, <c>": [((1, 2, 32), 1), ((1, 2, 99), 1)],
    "shf.r.clamp.b32 <d>, <a>, <b>, <c>": [((1, 2, 32), 2), ((1, 2, 99), 2)],
    "bfe.u32 <d>, <a>, <b>, <c>": [((0xABCD1234, 8, 8), 0x12), ((M, 28, 8), 15), ((M, 40, 8), 0), ((M, 0, 0), 0)],
    "bfe.s32 <d>, <a>, <b>, <c>": [
        ((0xABCD1234, 24, 8), 0xFFFFFFAB),
        ((0x80000000, 31, 1), M),
        ((0x80000000, 3, 29), 0xF0000000),
        ((0x80000000, 28, 20), 0xFFFFFFF8),
        ((0x80000000, 0, 32), 0x80000000),
        ((M, 5, 0), 0),
        ((0x80000000, 200, 4), M),
    ],
    "bfi.b32 <d>, <a>, <b>, <c>, 8": [((0xAB, 0, 4), 0xAB0), ((0, M, 28), 0x0FFFFFFF), ((M, 0, 40), 0)],
    "sad.s32 <d>, <a>, <b>, <c>": [((0xFFFFFFFB, 3, 10), 18)],
    "mad.lo.u32 <d>, <a>, <b>, <c>": [((3, 5, 7), 22), ((M, M, 1), 2)],
    "div.s32 <d>, <a>, <b>": [((0xFFFFFFF9, 2), 0xFFFFFFFD), ((7, 0xFFFFFFFE), 0xFFFFFFFD), ((7, 0), 0xDEADBEEF)],
    "rem.s32 <d>, <a>, <b>": [((0xFFFFFFF9, 2), M), ((7, 0xFFFFFFFE), 1), ((1 << 31, M), 0xDEADBEEF)],
    "div.u32 <d>, <a>, <b>": [((0xFFFFFFF9, 2), 0x7FFFFFFC), ((5, 0), 0xDEADBEEF)],
    "selp.b32 <d>, <a>, <b>, %p9": [((4, 5), 5)],
    "cvt.u8.u32 <d>, <a>": [((0x1234,), 0x34)],
    "cvt.s8.s32 <d>, <a>": [((0x12FE,), 0xFFFFFFFE)],
    "cvt.sat.u8.s32 <d>, <a>": [((0xFFFFFFF0,), 0), ((300,), 255)],
    "cvt.sat.s32.u32 <d>, <a>": [((M,), 0x7FFFFFFF)],
    "cvt.s32.s16 <d>, <a>": [((0x18000,), 0xFFFF8000)],
    "mov.b32 <d>, 0f3F800000": [((0,), 0x3F800000)],
    "mov.u32 <d>, -2": [((0,), 0xFFFFFFFE)],
}


@pytest.mark.parametrize("instruction", EXACT)
def test_integer_instructions_as_ptx_defines_them(instruction: str) -> None:
    rows = EXACT[instruction]
    operands = list(zip(*[inputs for inputs, _ in rows], strict=True))
    got = apply(instruction, "b32", ["b32"] * len(operands), operands)
    assert [hex(word) for word in got] == [hex(word) for _, word in rows]


ONE: Final = f32_bits(1.0)
FLOAT_EXACT: Final = {
    ("cvt.rz.f32.f64 <d>, <a>", "f32", "f64"): [
        (f64_bits(0.1), 0x3DCCCCCC),
        (f64_bits(-0.1), 0xBDCCCCCC),
        (f64_bits(1e300), 0x7F7FFFFF),
    ],
    ("cvt.rm.f32.f64 <d>, <a>", "f32", "f64"): [(f64_bits(0.1), 0x3DCCCCCC), (f64_bits(-0.1), 0xBDCCCCCD)],
    ("cvt.rp.f32.f64 <d>, <a>", "f32", "f64"): [
        (f64_bits(0.1), 0x3DCCCCCD),
        (f64_bits(-0.1), 0xBDCCCCCC),
        (f64_bits(-1e300), 0xFF7FFFFF),
    ],
    ("cvt.rz.f32.u32 <d>, <a>", "f32", "b32"): [(0xFFFFFFFF, 0x4F7FFFFF), (0x01000001, 0x4B800000)],
    ("cvt.rp.f32.s32 <d>, <a>", "f32", "b32"): [(0x01000001, 0x4B800001), (0xFEFFFFFF, 0xCB800000)],
    ("cvt.rm.f64.s64 <d>, <a>", "f64", "b64"): [(2**63 - 1, f64_bits(2.0**63 - 1024)), (2**53 + 1, f64_bits(2.0**53))],
    ("cvt.rp.f64.u64 <d>, <a>", "f64", "b64"): [(2**64 - 1, f64_bits(2.0**64)), (2**53 + 1, f64_bits(2.0**53 + 2))],
    ("cvt.rni.s32.f32 <d>, <a>", "b32", "f32"): [
        (f32_bits(2.5), 2),
        (f32_bits(-1.5), 0xFFFFFFFE),
        (f32_bits(3e9), 0x7FFFFFFF),
    ],
    ("cvt.rni.f32.f32 <d>, <a>", "f32", "f32"): [(f32_bits(0.5), 0), (f32_bits(-0.5), 0x80000000)],
    ("cvt.sat.f32.f32 <d>, <a>", "f32", "f32"): [
        (f32_bits(7.0), ONE),
        (f32_bits(-7.0), 0),
        (0x7FC00000, 0),
        (0x80000000, 0),
    ],
    ("cvt.f32.f16 <d>, <a>", "f32", "f16"): [(0x3C00, ONE), (0x0001, 0x33800000), (0xFC00, 0xFF800000)],
    ("cvt.rn.f16.f32 <d>, <a>", "f16", "f32"): [
        (ONE, 0x3C00),
        (f32_bits(65520.0), 0x7C00),
        (0x7FC00000, 0x7FFF),
        (0x33000001, 1),
    ],
    ("cvt.rn.bf16.f32 <d>, <a>", "b16", "f32"): [(0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x7FC00000, 0x7FFF)],
    ("cvt.rn.bf16x2.f32 <d>, <a>, 0f3F818000", "b32", "f32"): [(0x3F808000, 0x3F80_3F82), (0x7FC00000, 0x7FFF_3F82)],
    ("cvt.rn.f16x2.f32 <d>, 0f3F800000, <a>", "b32", "f32"): [(ONE, 0x3C00_3C00), (f32_bits(65520.0), 0x3C00_7C00)],
    ("add.rn.f16 <d>, <a>, <a>", "f16", "f16"): [(0x0001, 0x0002), (0x7BFF, 0x7C00), (0x8000, 0x8000)],
    ("mul.rn.f16 <d>, <a>, <a>", "f16", "f16"): [(0x0C00, 0x0001), (0x0BFF, 0x0001), (0x0400, 0)],
    ("mul.rn.bf16 <d>, <a>, <a>", "b16", "b16"): [
        (0x1F80, 0x0020),
        (0x1E00, 0),
        (0x1E01, 1),
        (0x5F80, 0x7F80),
        (0xBF80, 0x3F80),
    ],
    ("sub.rn.bf16 <d>, <a>, <a>", "b16", "b16"): [(0x0001, 0), (0xBF80, 0)],
    ("setp.nan.f16 <d>, <a>, <a>", "pred", "f16"): [(0x7C00, 0), (0x7C01, 1), (0xFE00, 1)],
    ("setp.nan.bf16 <d>, <a>, <a>", "pred", "b16"): [(0x7F80, 0), (0x7F81, 1), (0x7C01, 0)],
    ("setp.lt.bf16 <d>, <a>, <a>", "pred", "b16"): [(0x3F80, 0), (0x7FC0, 0)],
    ("copysign.f32 <d>, <a>, 0f3F800000", "f32", "f32"): [(0x80000000, 0xBF800000), (0, ONE)],
    ("testp.subnormal.f32 <d>, <a>", "pred", "f32"): [(1, 1), (0, 0), (0x00800000, 0)],
    ("testp.normal.f32 <d>, <a>", "pred", "f32"): [(1, 0), (ONE, 1), (0x7F800000, 0)],
    ("setp.ne.f32 <d>, <a>, <a>", "pred", "f32"): [(0x7FC00000, 0), (ONE, 0)],
    ("setp.nan.f32 <d>, <a>, <a>", "pred", "f32"): [(0x7FC00000, 1), (ONE, 0)],
    ("setp.num.f32 <d>, <a>, <a>", "pred", "f32"): [(0x7FC00000, 0), (ONE, 1)],
    ("setp.ltu.f32 <d>, <a>, 0f00000000", "pred", "f32"): [(0x7FC00000, 1), (ONE, 0), (0xBF800000, 1)],
    ("setp.gt.and.f32 <d>, <a>, 0f00000000, !%p1", "pred", "f32"): [(ONE, 1), (0xBF800000, 0)],
    ("mul.wide.s32 <d>, <a>, -3", "b64", "b32"): [(0xFFFFFFFE, 6), (5, 2**64 - 15)],
    ("mad.wide.u32 <d>, <a>, 4, 9", "b64", "b32"): [(0xFFFFFFFF, 4 * 0xFFFFFFFF + 9)],
    ("mov.b64 <d>, {<a>, 7}", "b64", "b32"): [(0xFFFFFFFF, 0x7FFFFFFFF)],
    ("popc.b64 <d>, <a>", "b32", "b64"): [(2**64 - 1, 64)],
    ("clz.b64 <d>, <a>", "b32", "b64"): [(0, 64), (1, 63)],
}


@pytest.mark.parametrize(("instruction", "result", "source"), FLOAT_EXACT)
def test_other_instructions_as_ptx_defines_them(instruction: str, result: str, source: str) -> None:
    rows = FLOAT_EXACT[instruction, result, source]
    got = apply(instruction, result, [source], [[bits for bits, _ in rows]])
    assert [hex(word) for word in got] == [hex(word) for _, word in rows]


def test_an_arithmetic_nan_has_a_random_sign_and_payload() -> None:
    infinities = [0x7F800000] * 64
    seen = apply("sub.rn.f32 <d>, <a>, <b>", "f32", ["f32", "f32"], [infinities, infinities])
    assert all(word & 0x7FC00000 == 0x7FC00000 for word in seen)
    assert len(set(seen)) > 32
    assert {word >> 31 for word in seen} == {0, 1}
    other = apply("sub.rn.f32 <d>, <a>, <b>", "f32", ["f32", "f32"], [infinities, infinities], seed=1)
    assert other != seen
    doubles = [f64_bits(float("inf"))] * 64
    wide = apply("sub.rn.f64 <d>, <a>, <b>", "f64", ["f64", "f64"], [doubles, doubles])
    assert len(set(wide)) > 32
    for kind, infinity in (("f16", 0x7C00), ("bf16", 0x7F80)):
        seen = apply(f"sub.rn.{kind} <d>, <a>, <b>", "b16", ["b16", "b16"], [[infinity] * 64] * 2)
        assert all(word & infinity == infinity and word & 0x7FFF > infinity for word in seen)
        assert len(set(seen)) > 20
        assert {word >> 15 for word in seen} == {0, 1}


def test_moves_keep_the_bits_of_a_nan() -> None:
    nans = [0x7F800001, 0xFFFFFFFF, 0x7FC00123]
    for instruction in ("mov.f32 <d>, <a>", "mov.b32 <d>, <a>", "selp.f32 <d>, <a>, <a>, %p1"):
        assert apply(instruction, "f32", ["f32"], [nans]) == nans


@pytest.mark.parametrize("name", ["rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"])
def test_approximations_are_never_the_exact_value(name: str) -> None:
    functions: dict[str, Callable[[Any], Any]] = {
        "rcp": lambda x: 1 / x,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
        "ex2": np.exp2,
        "lg2": np.log2,
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
    }
    exact = functions[name]
    x = np.linspace(1.25, 9, 64, dtype=np.float32)
    got = apply(f"{name}.approx.f32 <d>, <a>", "f32", ["f32"], [x.view(np.uint32).tolist()])
    distance = np.array(got, np.int64) - exact(x).view(np.uint32).astype(np.int64)
    assert set(distance.tolist()) == {-1, 1}
