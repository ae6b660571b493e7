"""Programs for grids that are rounded up to powers of two: surplus workgroups end at once, and nobody counts them."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig
from vyre.domain.grid_sync import has_grid_barriers, has_grid_loops
from vyre.domain.interface import interface_of
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import geometry_of, padded_grid
from vyre.domain.validation.validator import check_rules


def masked(program: Program, config: DispatchConfig) -> Program:
    """Returns the program for launches under a config with ``pad_grid``; the same one where no workgroup is added.

    Raises ``InvalidConfig`` for a grid that is not given, and for programs with barriers of the grid, which every
    workgroup has to reach.
    """
    if config.grid is None and config.extent is None and config.element_count_override is None:
        raise InvalidConfig(
            "pad_grid is set, and the grid follows from the lengths of arrays", fix="give grid or extent."
        )
    if has_grid_barriers(program) or has_grid_loops(program):
        raise InvalidConfig("pad_grid is set, and the program has barriers of the grid", fix="leave pad_grid out.")
    groups = geometry_of(interface_of(program), (), replace(config, pad_grid=False)).grid
    needed = [ir.Literal.of(ScalarType.U32, count) for count in groups]
    axes = [axis for axis, padded in enumerate(padded_grid(groups)) if padded != groups[axis]]
    if not axes:
        return program

    def counted(node: ir.Expr) -> ir.Expr:
        return needed[node.axis] if type(node) is ir.LaunchId and node.kind is ir.IdKind.NUM_GROUPS else node

    inside = [ir.Binary(BinaryOp.LT, ir.LaunchId(ir.IdKind.GROUP, axis), needed[axis]) for axis in axes]
    condition = reduce(lambda one, other: ir.Binary(BinaryOp.AND, one, other), inside)
    guarded = replace(program, body=(ir.If(condition, rebuilt(program.body, counted), ()),))
    check_rules(guarded).raise_if_invalid()
    return guarded
