"""Facts about a whole program that decide how its lanes are laid out in vectors; they need no emitter."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from vyre.adapters.cpu.decisions.vector_width import VectorInputs
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.domain.analysis.lane_chains import lane_chains
from vyre.domain.ir.expr import EXCHANGING, Expr, Literal, SpecConst
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Barrier, Body, Loop, bodies
from vyre.domain.record import U64_MAX
from vyre.domain.validation.known import order_sensitive


def can_join(program: Program) -> bool:
    """Returns whether a vector may hold lanes of several workgroups, in a grid with one axis.

    That needs workgroups with one axis that share nothing: no barrier, workgroup memory or subgroup operation.
    """
    _, y, z = program.workgroup_size
    return (
        y == z == 1
        and not order_sensitive(program)
        and not any(buffer.is_workgroup for buffer in program.buffers)
        and Barrier not in node_facts(program).types
        and not uses_subgroups(program)
    )


def uses_subgroups(program: Program) -> bool:
    """Returns whether lanes of a subgroup exchange values, so that a vector must be a subgroup."""
    return not node_facts(program).types.isdisjoint(EXCHANGING)


def vector_inputs(
    program: Program, features: CpuFeatures, *, forced: int | None = None, joined: bool = False
) -> VectorInputs:
    """Returns the inputs of the decision on the lanes of a vector of a processor."""
    lanes, row = prod(program.workgroup_size), program.workgroup_size[0]
    return VectorInputs(
        vector_bits=features.vector_bits,
        workgroup_lanes=lanes,
        subgroup_operations=uses_subgroups(program),
        forced=forced,
        joined=joined,
        row_lanes=row if row < lanes else 0,
        chains=lane_chains(program),
        slow_gathers=features.slow_gathers,
        in_step=order_sensitive(program),
    )


def most_runs(body: Body, spec: Mapping[str, Literal]) -> int | None:
    """Returns how often a lane runs any one statement of a body at most.

    Returns None if bounds of a loop are no constants, and where the rounds of nested loops multiply to 2^64 or more:
    such a body is as good as unbounded, and stored code has 64 bits for the number.
    """
    most = 1
    pending = [(body, 1)]
    while pending:
        nested, times = pending.pop()
        most = max(most, times)
        if most > U64_MAX:
            return None
        for stmt in nested:
            rounds = _rounds(stmt, spec) if isinstance(stmt, Loop) else 1
            if rounds is None:
                return None
            pending.extend((inner, times * rounds) for inner in bodies(stmt))
    return most


def _rounds(loop: Loop, spec: Mapping[str, Literal]) -> int | None:
    start, stop, step = (_number(bound, spec) for bound in (loop.start, loop.stop, loop.step))
    if start is None or stop is None or step is None:
        return None
    if step == 0:
        return 0
    return -(-max(stop - start, 0) // step) if step > 0 else -(-max(start - stop, 0) // -step)


def _number(bound: Expr, spec: Mapping[str, Literal]) -> int | None:
    if isinstance(bound, SpecConst):
        bound = spec.get(bound.name, bound.default)
    return int(bound.value) if isinstance(bound, Literal) else None
