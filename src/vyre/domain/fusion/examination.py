"""Facts about stages that may be joined, for the decisions whether they should be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from vyre.domain.frozen import frozen
from vyre.domain.fusion.dependences import Dependences
from vyre.domain.fusion.indices import Indices
from vyre.domain.fusion.memory import JoinedMemory
from vyre.domain.fusion.outputs import covers
from vyre.domain.fusion.stages import StageBarrier, StageCall
from vyre.domain.ir.expr import Var, walk
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Body, Let, Loop, operands, walk_statements
from vyre.domain.names import Dim3


@frozen
class ArrayUse:
    """The use of an array by a stage: ``nbytes`` are visible to it.

    ``reads``: old content may reach a result.  ``replaces``: no content survives, because the stage stores to every
    element or its launch zeroes them.
    """

    identity: Hashable
    nbytes: int
    reads: bool
    writes: bool
    replaces: bool


@frozen
class StageFacts:
    """One stage: its arrays, and its bytes of workgroup memory."""

    uses: tuple[ArrayUse, ...]
    shared_nbytes: int


@frozen
class ExaminedStages:
    """Facts about each stage, the workgroup that they would share, and ``relations`` of pairs (earlier, later).

    A relation says, for the identity of each array in which the two conflict, the lanes that a barrier between them
    must order; NONE: the elements that both access belong to one lane.
    """

    stages: tuple[StageFacts, ...]
    workgroup: Dim3
    relations: Mapping[tuple[int, int], Mapping[Hashable, StageBarrier]]


def examine(
    stages: Sequence[StageCall],
    memory: JoinedMemory,
    workgroup: Dim3,
    bodies: Sequence[Body],
    indices: Indices,
    dependences: Dependences,
) -> ExaminedStages:
    """Returns the facts about stages whose ``bodies`` are in the words of one program."""
    facts = tuple(
        _facts(number, call, memory, bodies[number], indices, dependences) for number, call in enumerate(stages)
    )
    identities = {joined.name: joined.identity for joined in memory.all}
    relations = {
        (earlier, later): {identities.get(name): kind for name, kind in barriers.items()}
        for later in range(len(stages))
        for earlier in range(later)
        if (barriers := dependences.between(earlier, later))
    }
    return ExaminedStages(facts, workgroup, relations)


def _facts(
    number: int, call: StageCall, memory: JoinedMemory, body: Body, indices: Indices, dependences: Dependences
) -> StageFacts:
    uses: list[ArrayUse] = []
    for position, buffer in enumerate(call.program.abi_buffers):
        joined = memory.of[number, position]
        if buffer.is_push:
            continue
        use = next(use for use in joined.uses if (use.stage, use.position) == (number, position))
        elements = dependences.elements(number, joined.name)
        writes = any(element.writes for element in elements) or buffer.is_output
        replaces = buffer.is_output or (writes and covers(call, joined, use, body, indices))
        reads = any(not element.writes or element.atomic is not None for element in elements) or (
            writes and not replaces
        )
        uses.append(ArrayUse(joined.identity, use.count * joined.element.size, reads, writes, replaces))
    shared = sum(buffer.static_nbytes or 0 for buffer in call.program.buffers if buffer.is_workgroup)
    return StageFacts(tuple(uses), shared)


def live_locals(program: Program) -> int:
    """Returns the most locals of a lane that are alive at once: a measure of the registers that the program needs.

    A local is alive from its declaration to its last use in the text, in a loop to the end of the loop if it is
    declared before it.
    """
    declared: dict[str, int] = {}
    last: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for position, stmt in enumerate(walk_statements(program.body)):
        for root in operands(stmt):
            for node in walk(root):
                if isinstance(node, Var):
                    last[node.name] = position
        if isinstance(stmt, Let):
            declared.setdefault(stmt.name, position)
        elif isinstance(stmt, Loop):
            declared.setdefault(stmt.var, position)
            loops.append((position, position + sum(1 for _ in walk_statements(stmt.body))))
    for start, end in loops:
        for name, last_use in last.items():
            if start < last_use <= end and declared.get(name, end) <= start:
                last[name] = end
    changes: dict[int, int] = {}
    for name, start in declared.items():
        if name in last:
            changes[start] = changes.get(start, 0) + 1
            changes[last[name]] = changes.get(last[name], 0) - 1
    most = alive = 0
    for last_use in sorted(changes):
        alive += changes[last_use]
        most = max(most, alive)
    return most
