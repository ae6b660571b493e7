"""Programs that take their grid from memory: those of the launched workgroups that it does not have end at once.

The launch has the most workgroups that there may be.  The counts lie behind the other buffers, and where they exceed
the launch, it does nothing but record them: every backend runs that which runs programs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Final

from vyre.domain.errors import InvalidInput
from vyre.domain.grid_sync import first_lane, fresh_names, has_grid_barriers
from vyre.domain.interface import GRID_COUNTS
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.expr import Binary, Expr, IdKind, LaunchId, Literal, Load
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import If, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.validation.validator import check_rules

AXES: Final = 3


@kept_with_program("indirect_grid")
def with_indirect_grid(program: Program) -> Program:
    """Returns the program with two buffers of three u32 behind its others: ``grid_counts``, the workgroups that run
    along x, y and z, and ``grid_excess``.

    It is launched with the most workgroups.  Where a count exceeds them nothing runs, and the counts are stored in
    ``grid_excess``, which else stays as it is.  The program sees the counts as its numbers of workgroups.  Cached on
    the program.  Raises ``InvalidInput`` for a program with barriers of the grid, and ``InvalidProgram``.
    """
    check_rules(program).raise_if_invalid()
    if has_grid_barriers(program):
        raise InvalidInput(
            f"`{program.name or 'unnamed'}` has barriers of the whole grid, and its grid is to be read from memory",
            fix="make the parts between the barriers steps of their own.",
        )
    counts, excess = fresh_names(program, "grid_counts", "grid_excess")
    binding = 1 + max((buffer.binding for buffer in program.abi_buffers), default=-1)
    hidden = (
        Buffer.make(counts, binding, Access.READ_ONLY, ScalarType.U32, AXES),
        Buffer.make(excess, binding + 1, Access.READ_WRITE, ScalarType.U32, AXES),
    )
    places = [Literal.of(ScalarType.U32, axis) for axis in range(AXES)]
    wanted = [Load(counts, place) for place in places]

    def counted(node: Expr) -> Expr:
        return wanted[node.axis] if isinstance(node, LaunchId) and node.kind is IdKind.NUM_GROUPS else node

    def on_axes(op: BinaryOp, kind: IdKind, both: BinaryOp) -> Expr:
        return reduce(
            lambda one, other: Binary(both, one, other),
            [Binary(op, LaunchId(kind, axis), wanted[axis]) for axis in range(AXES)],
        )

    exceeds = on_axes(BinaryOp.LT, IdKind.NUM_GROUPS, BinaryOp.OR)
    record = tuple(Store(excess, place, count) for place, count in zip(places, wanted, strict=True))
    runs = Binary(
        BinaryOp.AND,
        on_axes(BinaryOp.LT, IdKind.GROUP, BinaryOp.AND),
        on_axes(BinaryOp.GE, IdKind.NUM_GROUPS, BinaryOp.AND),
    )
    unless = If(Binary(BinaryOp.AND, first_lane(), exceeds), record, ())
    body = If(runs, rebuilt(program.body, counted), (unless,))
    result = replace(program, buffers=(*program.buffers, *hidden), body=(body,))
    result._cache[GRID_COUNTS] = len(program.abi_buffers)
    return result
