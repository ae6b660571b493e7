"""Grids that are rounded up to powers of two, and programs whose surplus workgroups end at once.

Such a program is another one for each grid, so that the grid has to be given.  Every result is that of the program on
the grid itself: a surplus workgroup does nothing, and the number of workgroups that others read is the given one.
"""

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
from vyre.domain.names import Dim3
from vyre.domain.validation.validator import check_rules


def masked(program: Program, config: DispatchConfig) -> Program:
    """Returns the program for launches under a config with ``pad_grid``; the same one where no workgroup is added.

    Raises ``InvalidConfig`` for a grid that is not given, and for programs with barriers of the grid, which every
    workgroup has to reach.
    """
    if config.grid is None and config.extent is None and config.element_count_override is None:
        raise _refused("the grid follows from the lengths of arrays", "give grid or extent")
    if has_grid_barriers(program) or has_grid_loops(program):
        raise _refused("the program has barriers of the grid", "launch all workgroups that meet there")
    groups = geometry_of(interface_of(program), (), replace(config, pad_grid=False)).grid
    axes = [axis for axis, (needed, made) in enumerate(zip(groups, padded_grid(groups), strict=True)) if needed != made]
    if not axes:
        return program
    is_needed = [ir.Binary(BinaryOp.LT, ir.LaunchId(ir.IdKind.GROUP, axis), _u32(groups[axis])) for axis in axes]
    condition = reduce(lambda one, other: ir.Binary(BinaryOp.AND, one, other), is_needed)
    made = replace(program, body=(ir.If(condition, _with_numbers(program, groups), ()),))
    report = check_rules(made)
    if not report.ok:
        raise _refused(report.errors[0].message, "launch this program on its own grid")
    return made


def pads(program: Program, config: DispatchConfig) -> bool:
    """Returns whether a config may ask for a grid that is rounded up, and more workgroups are launched then."""
    try:
        return masked(program, config) is not program
    except InvalidConfig:
        return False


def _with_numbers(program: Program, groups: Dim3) -> ir.Body:
    """Returns the body with the numbers of workgroups written out."""

    def change(node: object) -> object:
        is_number = type(node) is ir.LaunchId and node.kind is ir.IdKind.NUM_GROUPS
        return _u32(groups[node.axis]) if is_number else node  # type: ignore[attr-defined]  # it is a LaunchId

    return rebuilt(program.body, change)


def _u32(value: int) -> ir.Literal:
    return ir.Literal.of(ScalarType.U32, value)


def _refused(why: str, fix: str) -> InvalidConfig:
    return InvalidConfig(f"pad_grid is set, and {why}", fix=f"{fix}, or leave pad_grid out.")
