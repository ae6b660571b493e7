"""``join_rounds``: launches that are repeated until they change nothing, as one program.

The stages of a round are joined as ``join_stages`` does, with barriers of the grid where they are needed, and become
the body of a grid loop.  So the rounds of an algorithm whose kernels know nothing of each other run in one launch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from enum import Enum
from math import prod
from typing import Final, TypeAlias

from vyre.domain.frozen import frozen
from vyre.domain.fusion.joining import join_stages
from vyre.domain.fusion.outputs import zeroing
from vyre.domain.fusion.stages import CannotJoin, JoinedStages, StageBarrier, StageCall
from vyre.domain.grid_sync import first_lane, fresh_names
from vyre.domain.ir.buffers import Access, Buffer, MemoryKind
from vyre.domain.ir.expr import BufferLength, Literal, Load, Var
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Barrier, Body, GridLoop, If, Stmt, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import Dim3
from vyre.domain.record import U32_MAX
from vyre.domain.validation.validator import check_rules

_U32: Final = ScalarType.U32


class LoopArgument(Enum):
    """An argument that no stage has.

    ``LIMIT``: a parameter, the most rounds.  ``FLAG``: the flag, where no stage binds it.  ``ROUNDS``: a u32 that gets
    the number of rounds.
    """

    LIMIT = "limit"
    FLAG = "flag"
    ROUNDS = "rounds"


RoundArgument: TypeAlias = "tuple[int, int] | LoopArgument"


@frozen
class JoinedRounds:
    """A valid program that repeats stages until a round leaves the flag at 0, with a grid loop.

    ``grid``: the workgroups to launch, of ``program.workgroup_size`` lanes.
    ``arguments``: for each binding of the program the stage, and the position among its bindings, whose memory or
    value it takes, or an argument of the loop.
    ``barriers``: the barriers of the grid in a round, without the one that ends it.
    """

    program: Program
    grid: Dim3
    arguments: tuple[RoundArgument, ...]
    barriers: int


def join_rounds(stages: Sequence[StageCall], flag: Hashable) -> JoinedRounds | CannotJoin:
    """Returns one program for launches that run in this order, again and again, or why there is none.

    ``flag`` is the identity of the array whose element 0, a u32, is set to 0 before each round; the round that leaves
    it 0 is the last.  The programs must be valid (``InvalidProgram``).
    """
    joined = join_stages(stages)
    if isinstance(joined, CannotJoin):
        return joined
    last = len(stages) - 1
    if prod(joined.grid) * prod(joined.program.workgroup_size) > U32_MAX:
        return CannotJoin("its lanes have no numbers of 32 bits", last)
    result = _Rounds(stages, joined, flag).result()
    if isinstance(result, JoinedRounds):
        error = next(iter(check_rules(result.program).errors), None)
        if error is not None:
            return CannotJoin(f"the rounds are no valid program: [{error.code}] {error.message}", last)
    return result


class _Rounds:
    def __init__(self, stages: Sequence[StageCall], joined: JoinedStages, flag: Hashable) -> None:
        self._stages, self._joined, self._flag = stages, joined, flag
        self._program = joined.program

    def result(self) -> JoinedRounds | CannotJoin:
        """Returns the program, which may break rules of grid loops."""
        program, joined = self._program, self._joined
        limit, rounds, count, flag, self._index = fresh_names(
            program, "round_limit", "rounds_run", "rounds", "round_flag", "zeroed"
        )
        arguments: list[RoundArgument] = list(joined.arguments)
        bound = program.abi_buffers
        added: list[Buffer] = []
        place = self._flag_place()
        if place is None:
            added.append(Buffer.make(flag, len(arguments), Access.READ_WRITE, _U32, 1))
            arguments.append(LoopArgument.FLAG)
        elif bound[place].element is not _U32:
            return CannotJoin(
                f"`{bound[place].name}` is the flag, and holds {bound[place].element.text}", joined.arguments[place][0]
            )
        else:
            flag = bound[place].name
        added.append(Buffer.make(limit, len(arguments), Access.UNIFORM, _U32, 1, kind=MemoryKind.PUSH))
        added.append(Buffer.make(rounds, len(arguments) + 1, Access.READ_WRITE, _U32, 1))
        arguments += (LoopArgument.LIMIT, LoopArgument.ROUNDS)
        zeroing = self._zeroing()
        body: Body = (
            GridLoop(count, Load(limit, _u32(0)), flag, (*zeroing, *program.body)),
            If(first_lane(), (Store(rounds, _u32(0), Var(count)),)),
        )
        buffers = tuple(replace(buffer, is_output=False) if buffer.is_bound else buffer for buffer in program.buffers)
        looped = replace(program, buffers=(*buffers, *added), body=body)
        barriers = joined.barriers.count(StageBarrier.GRID) + bool(zeroing)
        return JoinedRounds(looped, joined.grid, tuple(arguments), barriers)

    def _flag_place(self) -> int | None:
        for place, (stage, position) in enumerate(self._joined.arguments):
            call = self._stages[stage]
            if not call.program.abi_buffers[position].is_push and call.buffers[position] == self._flag:
                return place
        return None

    def _zeroing(self) -> list[Stmt]:
        """Returns what zeroes the outputs before the stages of a round, as their launch does."""
        outputs = [(buffer, BufferLength(buffer.name)) for buffer in self._program.abi_buffers if buffer.is_output]
        loops = zeroing(outputs, self._joined.grid, self._program.workgroup_size, self._index)
        return [*loops, Barrier(Ordering.GRID_SYNC)] if loops else []


def _u32(value: int) -> Literal:
    return Literal(_U32, value)
