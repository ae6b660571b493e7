"""Kernels that show the miscompiles of ``ptxas_hazard_table``, and the instructions that are never written."""

from __future__ import annotations

from typing import Final, NamedTuple


class Reproducer(NamedTuple):
    """Shows one hazard: ``reduced`` and ``remedied`` are bodies for ``reduced_ptx``.

    For ``n`` the first lane stores ``right``.  ``wrong`` is a pattern that matches the listing of the miscompiled body
    (see ``support.sass``), and no sound one.
    """

    reduced: str
    remedied: str
    wrong: str
    right: int
    n: int = 0


NEVER_EMITTED: Final[dict[str, str]] = {
    r"(add|sub|mad)\.\w*\.?cc\b|(add|sub|mad)c\b": "carries after shifts are wrong: use 64 bits, or compare the sum",
    r"lop3\b": "truth tables are merged wrongly: write the operations",
    r"prmt\b": "sources get lost: use shifts and masks",
    r"bfind\b": "the position in zero is taken for 0: use clz",
    r"set\.": "its all-ones is taken for 1: use setp and selp",
    r"slct\b": "the wrong arm is chosen: use setp and selp",
    r"cnot\b": "comparisons of it are folded wrongly: use setp and selp",
    r"bmsk\b": "bits too many: use shifts",
    r"v(add|sub|absdiff|min|max|set|shl|shr|mad)[24]?\.": "byte lanes are folded wrongly",
    r"mul24\b|mad24\b|dp[24]a\b": "of no use here, and not looked at",
    r"mul\.hi\.s32": "lost in loops: use mul.wide.s32 and a shift",
    r"not\.b(16|32|64)": "merged with xor wrongly: subtract from all ones",
    r"neg\.s(16|32|64)|abs\.s(16|32|64)": "lost in loops, and taken for positive: subtract from 0, select by sign",
    r"(add|sub)\.sat\.s32": "cancelled against wrapping sums: compare signs",
    r"\.(u|s)16x2": "halves get lost",
}
"""Instructions that are never written (patterns at the start of a statement), and why."""

REPRODUCERS: Final[dict[str, Reproducer]] = {
    "complement": Reproducer(
        reduced="""
ld.global.u32 %r3, [%rd0];
setp.ne.u32 %p0, %r3, 20;
@%p0 bra $END;
not.b32 %r4, %r3;
xor.b32 %r9, %r4, 0x12345;""",
        remedied="""
ld.global.u32 %r3, [%rd0];
setp.ne.u32 %p0, %r3, 20;
@%p0 bra $END;
mov.b32 %r5, -1;
sub.u32 %r4, %r5, %r3;
xor.b32 %r9, %r4, 0x12345;""",
        wrong=r"MOV R\d+, 0x12351$",
        n=20,
        right=0xFFFE_DCAE,
    ),
    "complement-64": Reproducer(
        reduced="""
cvt.u64.u32 %rd1, %r0;
setp.ne.u64 %p0, %rd1, 20;
@%p0 bra $END;
not.b64 %rd2, %rd1;
xor.b64 %rd2, %rd2, 0x12345;
cvt.u32.u64 %r9, %rd2;""",
        remedied="""
cvt.u64.u32 %rd1, %r0;
setp.ne.u64 %p0, %rd1, 20;
@%p0 bra $END;
mov.b64 %rd3, -1;
sub.u64 %rd2, %rd3, %rd1;
xor.b64 %rd2, %rd2, 0x12345;
cvt.u32.u64 %r9, %rd2;""",
        wrong=r"MOV R\d+, 0x12351$",
        n=20,
        right=0xFFFE_DCAE,
    ),
    "shift-then-compare": Reproducer(
        reduced="""
or.b32 %r3, %r2, 0xbb7dffd2;
shr.s32 %r4, %r3, 3;
mov.b32 %r5, 0xc0000000;
setp.ge.u32 %p0, %r5, %r4;
selp.b32 %r9, 986, 123, %p0;""",
        remedied="""
or.b32 %r3, %r2, 0xbb7dffd2;
bfe.s32 %r4, %r3, 3, 29;
mov.b32 %r5, 0xc0000000;
setp.ge.u32 %p0, %r5, %r4;
selp.b32 %r9, 986, 123, %p0;""",
        wrong=r"\A(?!.*(ISETP|SEL)).*MOV R\d+, 0x3da$",
        right=123,
    ),
    "carry-chain": Reproducer(
        reduced="""
shl.b32 %r3, %r0, 1;
shl.b32 %r3, %r3, 31;
add.cc.u32 %r4, %r3, 536;
addc.u32 %r9, 64, 0;""",
        remedied="""
shl.b32 %r3, %r0, 1;
shl.b32 %r3, %r3, 31;
add.u32 %r4, %r3, 536;
setp.lt.u32 %p0, %r4, %r3;
selp.b32 %r9, 65, 64, %p0;""",
        wrong=r"(IADD3\.X|IMAD\.X) [^;]*0x40,( RZ,)? PT\b",
        right=64,
    ),
    "saturation": Reproducer(
        reduced="""
sub.u32 %r3, %r2, %r0;
sub.u32 %r3, %r3, %r0;
add.sat.s32 %r4, %r3, %r0;
sub.u32 %r9, %r4, %r0;""",
        remedied="""
sub.u32 %r3, %r2, %r0;
sub.u32 %r3, %r3, %r0;
add.u32 %r4, %r3, %r0;
xor.b32 %r5, %r3, %r4;
xor.b32 %r6, %r0, %r4;
and.b32 %r5, %r5, %r6;
setp.lt.s32 %p0, %r5, 0;
setp.lt.s32 %p1, %r3, 0;
selp.b32 %r6, 0x80000000, 0x7fffffff, %p1;
selp.b32 %r4, %r6, %r4, %p0;
sub.u32 %r9, %r4, %r0;""",
        wrong=r"ISAT R\d+, R\d+, -|\A(?!.*(ISAT|SEL))",
        n=0x6000_0000,
        right=0x1FFF_FFFF,
    ),
    "maximum-of-differences": Reproducer(
        reduced="""
mov.b32 %r9, 0;
sub.u32 %r3, %r0, %r0;
max.s32 %r9, %r3, %r9;
sub.u32 %r3, %r3, %r0;
max.s32 %r9, %r3, %r9;
sub.u32 %r3, %r3, %r0;
max.s32 %r9, %r3, %r9;
sub.u32 %r3, %r3, %r0;
max.s32 %r9, %r3, %r9;""",
        remedied="""
mov.b32 %r9, 0;
sub.u32 %r3, %r0, %r0;
xor.b32 %r4, %r3, %r1;
max.s32 %r9, %r4, %r9;
sub.u32 %r3, %r3, %r0;
xor.b32 %r4, %r3, %r1;
max.s32 %r9, %r4, %r9;
sub.u32 %r3, %r3, %r0;
xor.b32 %r4, %r3, %r1;
max.s32 %r9, %r4, %r9;
sub.u32 %r3, %r3, %r0;
xor.b32 %r4, %r3, %r1;
max.s32 %r9, %r4, %r9;""",
        wrong=r"VIADDMNMX (R\d+), (R\d+), -\2, RZ,.*VIMNMX3 R\d+, \1, \2, ",
        n=5,
        right=0,
    ),
    "mixed-extremes": Reproducer(
        reduced="""
shl.b32 %r3, %r0, 26;
or.b32 %r3, %r3, 24;
mov.b32 %r4, 0;
max.u32 %r5, %r3, %r4;
min.s32 %r9, %r5, %r4;""",
        remedied="""
shl.b32 %r3, %r0, 26;
or.b32 %r3, %r3, 24;
mov.b32 %r4, 0;
max.u32 %r5, %r3, %r4;
xor.b32 %r5, %r5, %r1;
min.s32 %r9, %r5, %r4;""",
        wrong=r"STG\S* [^\n]*, RZ$",
        n=32,
        right=0x8000_0018,
    ),
    "rotation-into-sum": Reproducer(
        reduced="""
mov.b32 %r4, 0;
sub.u32 %r3, %r4, %r0;
shf.r.wrap.b32 %r5, %r3, %r3, 19;
sub.u32 %r9, %r5, 0x55555555;""",
        remedied="""
mov.b32 %r4, 0;
sub.u32 %r3, %r4, %r0;
add.u32 %r6, %r1, 19;
shf.r.wrap.b32 %r5, %r3, %r3, %r6;
sub.u32 %r9, %r5, 0x55555555;""",
        wrong=r"LEA\.HI R\d+, -R",
        n=32,
        right=0xAAA6_CAAA,
    ),
    "square-of-known-bits": Reproducer(
        reduced="""
shl.b32 %r3, %r0, 8;
xor.b32 %r3, 8, %r3;
shl.b32 %r4, %r3, 14;
mul.lo.u32 %r5, %r4, %r4;
and.b32 %r9, 7, %r5;""",
        remedied="""
shl.b32 %r3, %r0, 8;
xor.b32 %r3, 8, %r3;
shl.b32 %r4, %r3, 14;
xor.b32 %r6, %r4, %r1;
mul.lo.u32 %r5, %r4, %r6;
and.b32 %r9, 7, %r5;""",
        wrong=r"MOV R\d+, 0x4$",
        n=1,
        right=0,
    ),
    "product-of-known-bits": Reproducer(
        reduced="""
shl.b32 %r3, %r0, 4;
add.u32 %r3, %r3, 2;
shl.b32 %r4, %r2, 4;
add.u32 %r4, %r4, 2;
mul.lo.u32 %r5, %r3, %r4;
and.b32 %r9, %r5, 15;""",
        remedied="""
shl.b32 %r3, %r0, 4;
add.u32 %r3, %r3, 2;
shl.b32 %r4, %r2, 4;
add.u32 %r4, %r4, 2;
xor.b32 %r6, %r4, %r1;
mul.lo.u32 %r5, %r3, %r6;
and.b32 %r9, %r5, 15;""",
        wrong=r"STG\S* [^\n]*, RZ$",
        n=1,
        right=4,
    ),
    "negated-half": Reproducer(
        reduced="""
cvt.u64.u32 %rd1, %r0;
add.u64 %rd1, %rd1, 7;
cvt.u32.u64 %r3, %rd1;
mov.b32 %r4, 0;
sub.u32 %r3, %r4, %r3;
shr.u32 %r3, %r3, 17;
add.u32 %r9, %r3, 1;""",
        remedied="""
cvt.u64.u32 %rd1, %r0;
add.u64 %rd1, %rd1, 7;
cvt.u32.u64 %r3, %rd1;
xor.b32 %r3, %r3, %r1;
mov.b32 %r4, 0;
sub.u32 %r3, %r4, %r3;
shr.u32 %r3, %r3, 17;
add.u32 %r9, %r3, 1;""",
        wrong=r"LEA\.HI R\d+, -R",
        n=25,
        right=0x8000,
    ),
    "difference-from-least": Reproducer(
        reduced="""
mov.b32 %r9, 1;
setp.eq.u32 %p0, %r2, 32;
@%p0 bra $JOIN;
sub.u32 %r3, 0x80000000, %r9;
sub.u32 %r9, %r9, %r3;
$JOIN:""",
        remedied="""
mov.b32 %r9, 1;
setp.eq.u32 %p0, %r2, 32;
@%p0 bra $JOIN;
sub.u32 %r3, 0x80000000, %r9;
xor.b32 %r3, %r3, %r1;
sub.u32 %r9, %r9, %r3;
$JOIN:""",
        wrong=r"MOV R\d+, 0x80000000$",
        right=0x8000_0002,
    ),
}
"""By the name of the hazard; a hazard without a small body that shows it has none."""
