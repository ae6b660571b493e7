"""``variants_of`` chooses the variants of a program's code: the width of vectors, and the options of the emitter."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

from vyre.adapters.cpu.decisions.vector_width import VectorInputs, vector_width
from vyre.adapters.cpu.llvm.options import SUBGROUP, EmitOptions
from vyre.adapters.cpu.llvm.program_facts import can_join, vector_inputs
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.domain.analysis.atomic_uses import atomic_uses
from vyre.domain.ir.program import Program
from vyre.domain.validation.known import order_sensitive
from vyre.policies.journal import DecisionSink, decide


class VariantInputs(NamedTuple):
    """The origin of the variants of a program.

    ``lanes`` is the forced number of lanes, None for the best.  ``threads`` take part in a launch at most.
    ``counting``: steps are counted.  ``passes``: those of the optimizer that prepare the program.
    """

    program: Program
    features: CpuFeatures
    threads: int
    lanes: int | None = None
    counting: bool = False
    passes: str = ""

    def vector(self, *, joined: bool) -> VectorInputs:
        """Returns the inputs of the decision on a vector, which may be of several workgroups if they are ``joined``."""
        return vector_inputs(self.program, self.features, forced=self.lanes, joined=joined)

    def width(self, sink: DecisionSink | None, *, joined: bool) -> int:
        """Returns the number of lanes of a vector, which may be of several workgroups where they are ``joined``."""
        return decide(sink, vector_width, self.vector(joined=joined)).lanes


class Variants(NamedTuple):
    """``usual`` is for most launches; ``apart``, maybe the same, for grids of several axes."""

    usual: EmitOptions
    apart: EmitOptions


def variants_of(inputs: VariantInputs, sink: DecisionSink | None) -> Variants:
    """Returns the variants of a valid program, for buffers of less than 2^31 bytes that all threads share.

    Where workgroups leave lanes of a vector idle, a vector of the usual variant holds several of them.
    """
    program, single = inputs.program, inputs.vector(joined=False)
    alone = inputs.threads == 1 or order_sensitive(program)
    apart = EmitOptions(
        lanes=decide(sink, vector_width, single).lanes,
        counting=inputs.counting,
        predicated=inputs.features.is_predicated,
        halves=inputs.features.computes_f16,
        slow_gathers=inputs.features.slow_gathers,
        exclusive=alone and bool(atomic_uses(program)),
        passes=inputs.passes,
    )
    workgroup = prod(program.workgroup_size)
    if workgroup % SUBGROUP == 0 and inputs.lanes is None:  # it fills vectors of every width
        return Variants(apart, apart)
    lanes = decide(sink, vector_width, replace(single, joined=True)).lanes
    if workgroup % lanes == 0 or not can_join(program):
        return Variants(apart, apart)
    return Variants(apart._replace(lanes=lanes, joined=True), apart)
