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
