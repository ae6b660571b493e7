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
    nowhere.  Nothing is known of other versions.
    """

    name: str
    pattern: str
    remedy: Remedy
    reason: str
    broken: Mapping[Version, tuple[int, ...]]
    sound: tuple[Version, ...] = ()
    fence: Fence | None = None


EVERYWHERE: Final = (75, 80, 86, 89, 90, 100, 120)
"""The targets that were examined."""
THREE_WAY: Final = (90, 100)
"""Targets with an instruction for the extreme of three values."""

HAZARDS: Final[tuple[Hazard, ...]] = (
    Hazard(
        "complement",
        "(~x) ^ C where x is known from an equality",
        Remedy.AVOID,
        "the complement is dropped when the constant is folded",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
    ),
    Hazard(
        "complement-64",
        "(~x) ^ C where x is known from an equality, in 64 bits",
        Remedy.AVOID,
        "the complement is dropped when the constant is folded",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
    ),
    Hazard(
        "shift-then-compare",
        "an arithmetic shift to the right by a literal, compared as unsigned",
        Remedy.AVOID,
        "the range of the shifted value is that of a logical shift",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
    ),
    Hazard(
        "carry-chain",
        "add.cc and addc after shifts",
        Remedy.AVOID,
        "the carry of a sum that is known not to have one is taken to be set",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
    ),
    Hazard(
        "saturation",
        "a saturating sum or difference after, and before, wrapping ones with the same operand",
        Remedy.AVOID,
        "they cancel as if nothing could wrap",
        broken={(13, 0): EVERYWHERE, (13, 5): (120,)},
    ),
    Hazard(
        "maximum-of-differences",
        "max.s32 over a chain of sub",
        Remedy.FENCE,
        "the three-way maximum reads a register before the subtraction",
        broken={(13, 0): THREE_WAY},
        sound=((13, 5),),
        fence=Fence.MIN_MAX,
    ),
    Hazard(
        "mixed-extremes",
        "a value in a minimum of one signedness and a maximum of the other",
        Remedy.FENCE,
        "a bound in unsigned order is taken for one in signed order",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.MIN_MAX,
    ),
    Hazard(
        "rotation-into-sum",
        "a rotated difference that is added to, or subtracted from, something",
        Remedy.FENCE,
        "shift and sum become one instruction, which negates after shifting",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.ROTATES,
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
    ),
    Hazard(
        "product-of-known-bits",
        "the low bits of a product of values with known low bits",
        Remedy.FENCE,
        "they are taken for zero",
        broken={(13, 5): EVERYWHERE},
        sound=((13, 0),),
        fence=Fence.PRODUCTS,
    ),
    Hazard(
        "negated-half",
        "the negated low half of a 64-bit integer, shifted to the right and added to something",
        Remedy.FENCE,
        "shift and sum become one instruction, which negates after shifting",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.NARROWING,
    ),
    Hazard(
        "difference-from-least",
        "a known value subtracted from 0x80000000, and the difference subtracted again",
        Remedy.FENCE,
        "the least integer is its own negation, and so is taken to be the difference",
        broken={(13, 0): EVERYWHERE},
        sound=((13, 5),),
        fence=Fence.SUBTRACTIONS,
    ),
)
"""All known miscompiles."""
