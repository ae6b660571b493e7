"""How kernels are written so that known miscompiles of ``ptxas`` cannot happen.

Three remedies: *avoid* the instruction or sequence always; *fence* an operation, that is mix in a kernel parameter
that is always zero, which the assembler cannot know; or assemble at *level 0*.  What is avoided is avoided for every
version, because the other sequence costs nothing.  Fences cost an instruction, and are left out for exactly those
versions whose soundness ``ptxas_hazard_table`` records.  They are no optimisation switch.  O(table).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

from vyre.domain.identity_enum import IdentityEnum
from vyre.policies.record import U32, record, verdict

Version: TypeAlias = tuple[int, int]
"""Major and minor version of the assembler; also that of the CUDA driver whose JIT it is."""


class Remedy(Enum):
    """What keeps a hazard from happening."""

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


@verdict
class Hazard:
    """One miscompile.

    ``broken``: the sm numbers on which it shows, by version; ``sound``: versions on which it shows nowhere; of any
    other nothing is known.  ``reduced`` and ``remedied`` are bodies for ``reduced_ptx``, empty where no small body
    shows it; for ``n`` the first lane stores ``right``.  ``wrong`` is a pattern that fits the listing of the
    miscompiled body (see ``vyre.testing.sass``), and no sound one.
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


@record
class AssemblerInputs:
    """``target``: the number of an sm.  ``assembler``: its version, None if nobody knows which one will run."""

    target: U32
    assembler: Version | None = None


def fences_needed(inputs: AssemblerInputs) -> frozenset[Fence]:
    """The fences to write: all of them but those for whose every hazard this version, on this target, is sound."""
    from vyre.policies.ptxas_hazard_table import EVERYWHERE, HAZARDS

    looked_at = inputs.target in EVERYWHERE
    return frozenset(
        h.fence for h in HAZARDS if h.fence is not None and not (looked_at and inputs.assembler in h.sound)
    )


def reduced_ptx(entry: str, body: str, version: str, target: str) -> str:
    """A module around a body of the table.

    The body finds ``n`` in ``%r0`` and in the word at ``%rd0``, the opaque zero in ``%r1`` and the lane's number in
    ``%r2``; what it leaves in ``%r9`` is stored in that word, unless it branches to ``$END``.  Parameters of the
    entry: address of the word, n, zero.
    """
    return "\n".join(
        (
            f".version {version}",
            f".target {target}",
            ".address_size 64",
            f".visible .entry {entry}(.param .u64 out, .param .u32 n, .param .u32 zero)",
            "{",
            "\t.reg .pred %p<4>;",
            "\t.reg .b32 %r<10>;",
            "\t.reg .b64 %rd<4>;",
            "\tld.param.u64 %rd0, [out];",
            "\tcvta.to.global.u64 %rd0, %rd0;",
            "\tld.param.u32 %r0, [n];",
            "\tld.param.u32 %r1, [zero];",
            "\tmov.u32 %r2, %tid.x;",
            *(f"\t{line}" for line in body.strip().splitlines()),
            "\tst.global.u32 [%rd0], %r9;",
            "$END:",
            "\tret;",
            "}",
            "",
        )
    )
