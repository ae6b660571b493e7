"""The interpreter's instructions give what the PTX manual says, by examples that were worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import narrow_rounding

from support.ptx_interpreter.arithmetic import OPERATIONS
from support.ptx_interpreter.by_hand import computed

NAN32, NAN64 = 0x7FFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF
ONE, TWO, MINUS_ZERO = "0f3F800000", "0f40000000", "0f80000000"

INTEGERS = [
    ("add.u32 %r7, 0xFFFFFFFF, 2;", 1),
    ("sub.u32 %r7, 1, 2;", 0xFFFF_FFFF),
    ("mul.lo.u32 %r7, 0x10001, 0x10001;", 0x0002_0001),
    ("mul.hi.u32 %r7, 0x80000000, 6;", 3),
    ("mad.lo.u32 %r7, 0x10000, 0x10000, 5;", 5),
    ("div.s32 %r7, -7, 2;", 0xFFFF_FFFD),
    ("rem.s32 %r7, -7, 2;", 0xFFFF_FFFF),
    ("div.u32 %r7, 0xFFFFFFF9, 2;", 0x7FFF_FFFC),
    ("min.s32 %r7, -1, 1;", 0xFFFF_FFFF),
    ("min.u32 %r7, 0xFFFFFFFF, 1;", 1),
    ("shl.b32 %r7, 1, 31;", 0x8000_0000),
    ("shl.b32 %r7, 1, 32;", 0),  # amounts above the width are clamped to it, not masked
    ("shl.b32 %r7, 1, 256;", 0),
    ("shr.u32 %r7, 0x80000000, 32;", 0),
    ("shr.s32 %r7, 0x80000000, 4;", 0xF800_0000),
    ("shr.s32 %r7, 0x80000000, 99;", 0xFFFF_FFFF),
    ("shf.l.wrap.b32 %r7, 0x80000000, 1, 1;", 3),  # the first operand has the low word
    ("shf.r.wrap.b32 %r7, 0x80000000, 1, 1;", 0xC000_0000),
    ("shf.r.wrap.b32 %r7, 5, 1, 32;", 5),  # the amount wraps
    ("bfe.s32 %r7, 0x000000F0, 4, 4;", 0xFFFF_FFFF),
    ("bfe.s32 %r7, 0x00000070, 4, 4;", 7),
    ("bfe.s32 %r7, 0x80000000, 28, 8;", 0xFFFF_FFF8),  # beyond the top bit the sign bit goes on
    ("bfe.s32 %r7, 0xFFFFFFFF, 0, 0;", 0),
    ("bfe.s32 %r7, 0x80000001, 0, 32;", 0x8000_0001),
    ("popc.b32 %r7, 0xF0F00001;", 9),
    ("clz.b32 %r7, 1;", 31),
    ("clz.b32 %r7, 0;", 32),
    ("brev.b32 %r7, 0x00000003;", 0xC000_0000),
    ("setp.lt.s32 %p1, -1, 0; selp.b32 %r7, 5, 6, %p1;", 5),
    ("setp.lt.u32 %p1, 0xFFFFFFFF, 0; selp.b32 %r7, 5, 6, %p1;", 6),
    ("mov.b64 {%r6, %r7}, 0x0000000500000006;", 5),
    ("mov.b32 %r7, 9; setp.ne.u32 %p1, 0, 0; @%p1 mov.b32 %r7, 8;", 9),
    ("mov.b32 %r7, 9; setp.ne.u32 %p1, 0, 0; @!%p1 mov.b32 %r7, 8;", 8),
]
LONG_INTEGERS = [
    ("mul.wide.s32 %rd7, -2, 3;", -6 % 2**64),
    ("mul.wide.u32 %rd7, 0xFFFFFFFF, 0xFFFFFFFF;", 0xFFFF_FFFE_0000_0001),
    ("mad.wide.u32 %rd7, 0xFFFFFFFF, 4, 16;", 0x4_0000_000C),
    ("mul.hi.u64 %rd7, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF;", 0xFFFF_FFFF_FFFF_FFFE),
    ("mul.hi.s64 %rd7, -1, 5;", 0xFFFF_FFFF_FFFF_FFFF),
    ("mul.hi.s64 %rd7, 0x8000000000000000, 0x8000000000000000;", 0x4000_0000_0000_0000),
    ("shr.s64 %rd7, 0x8000000000000000, 64;", 0xFFFF_FFFF_FFFF_FFFF),
    ("cvt.s64.s32 %rd7, -3;", -3 % 2**64),
    ("cvt.u64.u32 %rd7, 0xFFFFFFFD;", 0xFFFF_FFFD),
    ("mov.b64 %rd7, {%r5, %r6};", 0x0000_0002_0000_0001),
]
FLOATS = [
    (f"add.rn.f32 %f7, {ONE}, 0f33800000;", 0x3F80_0000),  # 1 + 2^-24: a tie goes to even
    ("add.rn.f32 %f7, 0f7F800000, 0fFF800000;", NAN32),  # the canonical NaN of f32
    ("mul.rn.f32 %f7, 0f00800000, 0f3F000000;", 0x0040_0000),  # subnormals are kept without .ftz
    ("sqrt.rn.f32 %f7, 0fBF800000;", NAN32),
    (f"div.rn.f32 %f7, {ONE}, {MINUS_ZERO};", 0xFF80_0000),
    ("rcp.rn.f32 %f7, 0f40400000;", 0x3EAA_AAAB),
    (f"min.f32 %f7, 0f00000000, {MINUS_ZERO};", 0x8000_0000),  # +0 is greater than -0
    (f"max.f32 %f7, {MINUS_ZERO}, 0f00000000;", 0),
    (f"max.f32 %f7, 0f7FC00001, {TWO};", 0x4000_0000),  # a NaN gives way
    ("min.f32 %f7, 0f7FC00001, 0f7FC00002;", NAN32),
    # (1 + 2^-23)^2 - (1 + 2^-22) is 2^-46, which two roundings lose.
    ("fma.rn.f32 %f7, 0f3F800001, 0f3F800001, 0fBF800002;", 0x2880_0000),
    # (1 + 2^-12)^2 lies in the middle of two values, and 2^-80, which binary64 cannot add to it, decides.
    ("fma.rn.f32 %f7, 0f3F800800, 0f3F800800, 0f17800000;", 0x3F80_1001),
    ("fma.rn.f32 %f7, 0f3F800800, 0f3F800800, 0f97800000;", 0x3F80_1000),
    ("cvt.rni.f32.f32 %f7, 0f40200000;", 0x4000_0000),  # 2.5
    ("cvt.rmi.f32.f32 %f7, 0fBF000000;", 0xBF80_0000),  # -0.5
    ("cvt.rpi.f32.f32 %f7, 0fBF000000;", 0x8000_0000),
    ("cvt.rzi.f32.f32 %f7, 0fC0200000;", 0xC000_0000),
    ("cvt.rn.f32.u32 %f7, 0xFFFFFFFF;", 0x4F80_0000),
    ("cvt.rn.f32.s64 %f7, -16777217;", 0xCB80_0000),
    ("mov.b16 %h1, 0x0001; cvt.f32.f16 %f7, %h1;", 0x3380_0000),  # 2^-24
    ("cvt.rn.f32.f64 %f7, 0d36A0000000000000;", 1),  # 2^-149
]
LONG_FLOATS = [
    ("fma.rn.f64 %fd7, 0d3FF0000000000001, 0d3FF0000000000001, 0dBFF0000000000002;", 0x3970_0000_0000_0000),
    ("fma.rn.f64 %fd7, 0d7FEFFFFFFFFFFFFF, 0d4000000000000000, 0dFFF0000000000000;", 0xFFF0_0000_0000_0000),
    ("fma.rn.f64 %fd7, 0d8000000000000000, 0d3FF0000000000000, 0d8000000000000000;", 0x8000_0000_0000_0000),
    ("fma.rn.f64 %fd7, 0d3FF0000000000000, 0dBFF0000000000000, 0d3FF0000000000000;", 0),
    ("cvt.f64.f32 %fd7, 0f00000001;", 0x36A0_0000_0000_0000),
    ("neg.f64 %fd7, 0d0000000000000000;", 0x8000_0000_0000_0000),
]
CONVERSIONS = [
    ("cvt.rzi.s32.f32 %r7, 0f4F000000;", 0x7FFF_FFFF),  # 2^31 is clamped
    ("cvt.rzi.s32.f32 %r7, 0fC0200000;", 0xFFFF_FFFE),  # -2.5
    ("cvt.rzi.u32.f32 %r7, 0fBF800000;", 0),
    ("cvt.rzi.u32.f32 %r7, 0f7FC00000;", 0),  # NaN, of f32 to 32 bits
    ("cvt.rzi.s32.f64 %r7, 0d7FF8000000000000;", 0x8000_0000),  # NaN, of f64
    ("cvt.rzi.u32.f64 %r7, 0d41EFFFFFFFE00000;", 0xFFFF_FFFF),
    ("cvt.u32.u64 %r7, 0x100000005;", 5),
    ("cvt.u16.u32 %h1, 0x12345; cvt.u32.u16 %r7, %h1;", 0x2345),
    ("mov.f32 %f1, 0f3F800000; cvt.rn.bf16x2.f32 %r7, %f1, 0f40000000;", 0x3F80_4000),  # the first is the high half
    ("cvt.rn.bf16x2.f32 %r7, 0f3F808000, 0f3F818000;", 0x3F80_3F82),  # ties go to even
    ("cvt.rn.bf16x2.f32 %r7, 0f7FC00000, 0f00000000;", 0x7FFF_0000),
]
HALVES = [
    ("mov.b16 %h1, 0x3C00; mov.b16 %h2, 0x1000; add.rn.f16 %h7, %h1, %h2;", 0x3C00),  # 1 + 2^-11: a tie goes to even
    ("mov.b16 %h1, 0x3C01; mov.b16 %h2, 0x1000; add.rn.f16 %h7, %h1, %h2;", 0x3C02),
    ("mov.b16 %h1, 0x0001; mov.b16 %h2, 0x3A00; mul.rn.f16 %h7, %h1, %h2;", 0x0001),  # 3/4 of the least number
    ("mov.b16 %h1, 0x8001; mov.b16 %h2, 0x3800; mul.rn.f16 %h7, %h1, %h2;", 0x8000),
    ("mov.b16 %h1, 0x7BFF; mov.b16 %h2, 0xCC00; sub.rn.f16 %h7, %h1, %h2;", 0x7C00),  # 65504 + 16 overflows
    ("mov.b16 %h1, 0x7C00; sub.rn.f16 %h7, %h1, %h1;", 0x7FFF),
    ("mov.b16 %h1, 0x3F80; mov.b16 %h2, 0x3B80; add.rn.bf16 %h7, %h1, %h2;", 0x3F80),  # 1 + 2^-8
    ("mov.b16 %h1, 0x3F81; mov.b16 %h2, 0x3B80; add.rn.bf16 %h7, %h1, %h2;", 0x3F82),
    ("mov.b16 %h1, 0x3F80; mov.b16 %h2, 0x8001; add.rn.bf16 %h7, %h1, %h2;", 0x3F80),  # 1 - 2^-133
    ("mov.b16 %h1, 0x0001; mov.b16 %h2, 0x3F40; mul.rn.bf16 %h7, %h1, %h2;", 0x0001),
    # 2^-133 * (1/2 + 2^-8) lies above a midpoint, at which a rounding to f32 must not arrive
    ("mov.b16 %h1, 0x0001; mov.b16 %h2, 0x3F01; mul.rn.bf16 %h7, %h1, %h2;", 0x0001),
    ("mov.b16 %h1, 0x7F7F; mov.b16 %h2, 0x7F7F; mul.rn.bf16 %h7, %h1, %h2;", 0x7F80),
    ("mov.b16 %h1, 0x7F80; mov.b16 %h2, 0x0000; mul.rn.bf16 %h7, %h1, %h2;", 0x7FFF),
    ("mov.b16 %h1, 0x7F81; setp.nan.bf16 %p1, %h1, %h1; selp.b16 %h7, 5, 6, %p1;", 5),
    ("mov.b16 %h1, 0x7F80; setp.nan.bf16 %p1, %h1, %h1; selp.b16 %h7, 5, 6, %p1;", 6),
    ("mov.b16 %h1, 0xFC01; setp.nan.f16 %p1, %h1, %h1; selp.b16 %h7, 5, 6, %p1;", 5),
]


@pytest.mark.parametrize(("body", "wanted"), HALVES)
def test_half_floats(body: str, wanted: int) -> None:
    assert computed(body, "%h7") == wanted


@pytest.mark.parametrize("opcode", [name for name in narrow_rounding.PROOFS if ".rn." in name])
def test_half_floats_are_rounded_once_for_all_right_operands(opcode: str) -> None:
    dtype = np.float16 if opcode.endswith(".f16") else np.uint16
    blocks = narrow_rounding.PATTERNS // narrow_rounding.BLOCK
    patterns = np.arange(narrow_rounding.PATTERNS, dtype=np.uint16)
    exact = (narrow_rounding.PROOFS | narrow_rounding.MORE)[opcode.replace(".rn", "").replace(".f16", "")]
    for left in (0, 0x0001, 0x007F, 0x03FF, 0x0400, 0x2041, 0x3BFF, 0x3F81, 0x5BAD, 0x7BFF, 0x7F7F, 0x7F80, 0xBEEF):
        wanted = [exact(k) for k in range(left * blocks, (left + 1) * blocks)]
        with np.errstate(all="ignore"):
            found = OPERATIONS[opcode].function(np.uint16(left).reshape(1).view(dtype), patterns.view(dtype))
        canonical = np.where(found.view(np.uint16) & 0x7FFF == 0x7FFF, wanted[0].form.nan, found.view(np.uint16))
        assert (canonical == np.concatenate([block.patterns for block in wanted])).all(), f"{opcode} of {left:#06x}"


@pytest.mark.parametrize(("body", "wanted"), [*INTEGERS, *CONVERSIONS])
def test_words(body: str, wanted: int) -> None:
    assert computed(body) == wanted


@pytest.mark.parametrize(("body", "wanted"), LONG_INTEGERS)
def test_long_words(body: str, wanted: int) -> None:
    assert computed(f"mov.b32 %r5, 1; mov.b32 %r6, 2; {body}", "%rd7") == wanted


@pytest.mark.parametrize(("body", "wanted"), FLOATS)
def test_floats(body: str, wanted: int) -> None:
    assert computed(body, "%f7") == wanted


@pytest.mark.parametrize(("body", "wanted"), LONG_FLOATS)
def test_long_floats(body: str, wanted: int) -> None:
    assert computed(body, "%fd7") == wanted


@pytest.mark.parametrize("relation", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_a_nan_is_in_no_ordered_relation_and_in_every_unordered_one(relation: str) -> None:
    assert computed(f"setp.{relation}.f32 %p7, 0f7FC00000, {ONE};", "%p7") == 0
    assert computed(f"setp.{relation}u.f32 %p7, 0f7FC00000, {ONE};", "%p7") == 1
    assert computed(f"setp.{relation}.f32 %p7, {ONE}, {ONE};", "%p7") == (relation in ("eq", "le", "ge"))


def test_a_register_wider_than_the_memory_is_extended_by_the_sign_of_its_type() -> None:
    assert computed("mov.b32 %r1, 0xFF; st.global.u8 [%rd1], %r1; ld.global.s8 %r7, [%rd1];") == 0xFFFF_FFFF
    assert computed("mov.b32 %r1, 0xFF; st.global.u8 [%rd1], %r1; ld.global.u8 %r7, [%rd1];") == 0xFF
