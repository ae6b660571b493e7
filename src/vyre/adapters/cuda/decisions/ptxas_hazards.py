"""How are kernels written so that known miscompiles of ``ptxas``, the PTX assembler, cannot happen?

There are three remedies: *avoid* the instruction or sequence; *fence* an operation, which combines it with a kernel
parameter that is always zero and that the assembler cannot know; or assemble at optimisation *level 0*.  An avoided
instruction is avoided for every version, because the replacement costs nothing.  A fence costs an instruction, and is
left out for exactly those versions for which ``ptxas_hazard_table`` records that they are sound.  Fences are not an
optimisation switch.  O(table).
"""

from __future__ import annotations

from vyre.adapters.cuda.decisions.ptxas_hazard_table import EVERYWHERE, HAZARDS, Fence, Version
from vyre.policies.record import U32, record


@record
class AssemblerInputs:
    """The assembler of a kernel.

    ``target`` is the number of a target, 90 for sm_90; ``assembler`` is the version, None if it is unknown which one
    will run.
    """

    target: U32
    assembler: Version | None = None


def fences_needed(inputs: AssemblerInputs) -> frozenset[Fence]:
    """Returns the fences to write: all except those for whose every hazard this version is known to be sound.

    Nothing is known to be sound on targets that the table does not cover.
    """
    looked_at = inputs.target in EVERYWHERE
    return frozenset(
        h.fence for h in HAZARDS if h.fence is not None and not (looked_at and inputs.assembler in h.sound)
    )


def reduced_ptx(entry: str, body: str, version: str, target: str) -> str:
    """Returns a PTX module around a body of the table.

    The body finds ``n`` in ``%r0`` and in the word at ``%rd0``, the opaque zero in ``%r1`` and the lane's number in
    ``%r2``.  The value in ``%r9`` at its end is stored in that word, unless the body branches to ``$END``.  The
    parameters of the entry are the address of the word, n, and zero.
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
