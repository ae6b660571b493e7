"""How kernels are written so that known miscompiles of ``ptxas`` cannot happen.

There are three remedies: *avoid* the instruction or sequence always; *fence* an operation, that is combine it with a
kernel parameter that is always zero, which the assembler cannot know; or assemble at *level 0*.  An avoided instruction
is avoided for every version, because its replacement costs nothing.  A fence costs an instruction, and is omitted for
exactly those versions whose soundness ``ptxas_hazard_table`` records.  Fences are no optimisation switch.  O(table).
"""

from __future__ import annotations

from vyre.adapters.cuda.decisions.ptxas_hazard_table import EVERYWHERE, HAZARDS, Fence, Version
from vyre.policies.record import U32, record


@record
class AssemblerInputs:
    """``target``: the number of an sm.  ``assembler``: its version, None if it is unknown which one will run."""

    target: U32
    assembler: Version | None = None


def fences_needed(inputs: AssemblerInputs) -> frozenset[Fence]:
    """Returns the fences to write: every fence, except those of which this version is known to be sound for every
    hazard.

    Nothing is known to be sound on targets that the table does not cover.
    """
    looked_at = inputs.target in EVERYWHERE
    return frozenset(
        h.fence for h in HAZARDS if h.fence is not None and not (looked_at and inputs.assembler in h.sound)
    )


def reduced_ptx(entry: str, body: str, version: str, target: str) -> str:
    """Returns a module around a body of the table.

    The body finds ``n`` in ``%r0`` and in the word at ``%rd0``, the opaque zero in ``%r1`` and the lane's number in
    ``%r2``; the value that it leaves in ``%r9`` is stored in that word, unless it branches to ``$END``.  Parameters of
    the entry: address of the word, n, zero.
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
