"""Outputs that a launch zeroes before it runs: which of them the joined program must zero, and which it overwrites."""

from __future__ import annotations

from collections.abc import Sequence

from vyre.domain.fusion.elements import zero
from vyre.domain.fusion.indices import Indices
from vyre.domain.fusion.memory import Joined, JoinedMemory, Use
from vyre.domain.fusion.stages import Refused, StageCall
from vyre.domain.ir.buffers import Buffer, element_of
from vyre.domain.ir.expr import Binary, Expr, IdKind, LaunchId, Literal, Load, Var
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.stmt import Block, Body, If, Loop, Region, Stmt, Store, operands, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.names import Dim3


def place_zeroing(stages: Sequence[StageCall], memory: JoinedMemory, bodies: Sequence[Body], indices: Indices) -> None:
    """Marks the buffers that are zero before the joined program runs.

    A stage that stores to every element of its output needs no zeros.  Others need them before their launch, which is
    that of the joined program if no earlier stage uses the array.  Raises ``Refused`` where an earlier one does.
    """
    for joined in memory.all:
        for use in joined.uses:
            if not use.buffer.is_output or covers(stages[use.stage], joined, use, bodies[use.stage], indices):
                continue
            if use.stage != joined.first.stage:
                raise Refused(
                    f"its output `{use.buffer.name}` starts at zero, and stage {joined.first.stage} uses that memory",
                    use.stage,
                )
            other = next((other for other in joined.uses if other.count != use.count), None)
            if other is not None:
                raise Refused(
                    f"it sees {other.count} elements of the memory of which `{use.buffer.name}` of stage {use.stage} "
                    f"zeroes {use.count}",
                    max(other.stage, use.stage),
                )
            joined.is_output = True


def zeroing(outputs: Sequence[tuple[Buffer, Expr]], grid: Dim3, workgroup: Dim3, index: str) -> list[Stmt]:
    """Returns what sets so many first elements of buffers to zero, with all lanes of a grid of these workgroups.

    ``index`` is the name of the loops' variable.  The lanes have numbers of 32 bits.
    """
    x, y, z = (n * lanes for n, lanes in zip(grid, workgroup, strict=True))
    lane: Expr = LaunchId(IdKind.GLOBAL, 0)
    if y * z > 1:
        row = _plus(_times(LaunchId(IdKind.GLOBAL, 2), y), LaunchId(IdKind.GLOBAL, 1))
        lane = _plus(_times(row, x), lane)
    loops: list[Stmt] = []
    for buffer, length in outputs:
        store = Store(buffer.name, Var(index), zero(element_of(buffer)))
        loops.append(Loop(index, lane, length, Literal(ScalarType.U32, x * y * z), (store,)))
    return loops


def _plus(left: Expr, right: Expr) -> Expr:
    return Binary(BinaryOp.ADD, left, right)


def _times(left: Expr, number: int) -> Expr:
    return Binary(BinaryOp.MUL, left, Literal(ScalarType.U32, number))


def covers(call: StageCall, joined: Joined, use: Use, body: Body, indices: Indices) -> bool:
    """Returns whether the stage stores to every element that its launch zeroes, and reads none."""
    x, y, z = (groups * lanes for groups, lanes in zip(call.grid, call.workgroup, strict=True))
    if y * z != 1 or x < use.count:
        return False
    for stmt in walk_statements(body):
        if any(isinstance(node, Load) and node.buffer == joined.name for node in unique_nodes(operands(stmt))):
            return False
    return _stores(body, joined.name, use.count, indices)


def _stores(body: Body, name: str, count: int, indices: Indices) -> bool:
    """Returns whether each of the first ``count`` lanes stores to its own element."""
    for stmt in body:
        if isinstance(stmt, Store):
            access = indices.accesses[id(stmt)]
            if stmt.buffer == name and access.only is None and indices.is_lane(access.at):
                return True
        elif isinstance(stmt, Block | Region):
            if _stores(stmt.body, name, count, indices):
                return True
        elif isinstance(stmt, If):
            test = indices.tests.get(id(stmt))
            if test is None or not indices.is_lane(test.lower) or (indices.number(test.upper) or 0) < count:
                continue
            if _stores(stmt.then if test.holds else stmt.otherwise, name, count, indices):
                return True
    return False
