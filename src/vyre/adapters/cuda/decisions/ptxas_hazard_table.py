"""The known miscompiles of ``ptxas`` that a program of this language could meet.

They were found by reading the code that the assembler generates for small kernels (13.0.88 and 13.5.37), some after
reports of the FuzzX project, whose list also covers 13.2.78.  The kernels here are original.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

from vyre.domain.identity_enum import IdentityEnum
from vyre.policies.record import verdict

Version: TypeAlias = tuple[int, int]
"""Major and minor version of the assembler, or of the CUDA driver that contains it as its JIT."""


class Remedy(Enum):
    """How a hazard is prevented.

    ``AVOID`` writes another sequence, ``FENCE`` hides an operand from the assembler, ``LEVEL0`` switches optimisation
    off.
    """

    AVOID = "avoid"
    FENCE = "fence"
    LEVEL0 = "level0"


class Fence(IdentityEnum):
    """The families of operations that are fenced."""

    MIN_MAX = "operands of i32 minimum and maximum"
    ROTATES = "counts of rotations"
    LOOPS = "starts of counted loops that lanes may run differently"
    PRODUCTS = "one factor of a product of two computed 32-bit integers"
    NARROWING = "32-bit halves of 64-bit integers"
    SUBTRACTIONS = "what is subtracted from the least i32"


ALL_FENCES: Final = frozenset(Fence)
"""Every fence."""


@verdict
class Hazard:
    """One miscompile.

    ``broken`` lists, by version, the sm numbers on which it occurs; ``sound`` lists versions on which it occurs
    nowhere.  Nothing is known of other versions.  ``reduced`` and ``remedied`` are bodies for ``reduced_ptx``, empty
    where no small body shows the hazard; for ``n`` the first lane stores ``right``.  ``wrong`` is a pattern that
    matches the listing of the miscompiled body (see ``vyre.testing.sass``), and no sound one.
    """

    name: str
    pattern: str
    remedy: Remedy
    reason: str
    broken: Mapping[Version, tuple[int, ...]]
    sound: tuple[Version, ...] = ()
    fence: Fence | None = None
    reduced: str = ""
    remedied: str = ""
    wrong: str = ""
    n: int = 0
    right: int = 0


EVERYWHERE: Final = (75, 80, 86, 89, 90, 100, 120)
"""The targets that were examined."""
THREE_WAY: Final = (90, 100)
"""Targets with an instruction for the extreme of three values."""

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

HAZARDS: Final[tuple[Hazard, ...]] = (
    Hazard(
        "complement",
        "(~x) ^ C where x is known from an equality",
        Remedy.AVOID,
        "the complement is dropped when the constant is folded",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
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
    Hazard(
        "complement-64",
        "(~x) ^ C where x is known from an equality, in 64 bits",
        Remedy.AVOID,
        "the complement is dropped when the constant is folded",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
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
    Hazard(
        "shift-then-compare",
        "an arithmetic shift to the right by a literal, compared as unsigned",
        Remedy.AVOID,
        "the range of the shifted value is that of a logical shift",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
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
    Hazard(
        "carry-chain",
        "add.cc and addc after shifts",
        Remedy.AVOID,
        "the carry of a sum that is known not to have one is taken to be set",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
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
    Hazard(
        "saturation",
        "a saturating sum or difference after, and before, wrapping ones with the same operand",
        Remedy.AVOID,
        "they cancel as if nothing could wrap",
        broken={(13, 0): EVERYWHERE, (13, 5): (120,)},
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
    Hazard(
        "maximum-of-differences",
        "max.s32 over a chain of sub",
        Remedy.FENCE,
        "the three-way maximum reads a register before the subtraction",
        broken={(13, 0): THREE_WAY},
        sound=((13, 5),),
        fence=Fence.MIN_MAX,
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
    Hazard(
        "mixed-extremes",
        "a value in a minimum of one signedness and a maximum of the other",
        Remedy.FENCE,
        "a bound in unsigned order is taken for one in signed order",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.MIN_MAX,
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
    Hazard(
        "rotation-into-sum",
        "a rotated difference that is added to, or subtracted from, something",
        Remedy.FENCE,
        "shift and sum become one instruction, which negates after shifting",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.ROTATES,
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
    Hazard(
        "rotation-in-loop",
        "a rotated value that is carried from round to round",
        Remedy.FENCE,
        "reported for unrolled loops; no small kernel shows it",
        broken={(13, 0): EVERYWHERE, (13, 2): EVERYWHERE},
        fence=Fence.ROTATES,
    ),
    Hazard(
        "divergent-counter",
        "a counted loop that lanes enter or leave apart",
        Remedy.FENCE,
        "reported: the counter moves to a register that the whole warp shares; no small kernel shows it",
        broken={(13, 0): EVERYWHERE, (13, 2): EVERYWHERE},
        fence=Fence.LOOPS,
    ),
    Hazard(
        "square-of-known-bits",
        "a square, or a product, of values with known low bits",
        Remedy.FENCE,
        "the known bits of a product are wrong after a shift",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.PRODUCTS,
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
    Hazard(
        "product-of-known-bits",
        "the low bits of a product of values with known low bits",
        Remedy.FENCE,
        "they are taken for zero",
        broken={(13, 5): EVERYWHERE},
        sound=((13, 0),),
        fence=Fence.PRODUCTS,
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
    Hazard(
        "negated-half",
        "the negated low half of a 64-bit integer, shifted to the right and added to something",
        Remedy.FENCE,
        "shift and sum become one instruction, which negates after shifting",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.NARROWING,
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
    Hazard(
        "difference-from-least",
        "a known value subtracted from 0x80000000, and the difference subtracted again",
        Remedy.FENCE,
        "the least integer is its own negation, and so is taken to be the difference",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.SUBTRACTIONS,
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
)
"""All known miscompiles."""
