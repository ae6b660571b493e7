"""The interface of a program, and the launches that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import DeviceLimitExceeded
from vyre.domain.geometry import LaneReach, LaunchLimits, check_geometry
from vyre.domain.ir.expr import Atomic
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.size_parameters import size_parameters
from vyre.domain.launch import Interface, Launch, launch_of

GRID_COUNTS: Final = "grid_counts"
"""What a program that finds its grid in memory remembers: the position of the buffer with the counts."""


class _Resolved(NamedTuple):
    config: DispatchConfig
    input_nbytes: tuple[int, ...]
    launch: Launch


@kept_with_program("interface")
def interface_of(program: Program) -> Interface:
    """Returns the interface of ``program``, cached on it.  Raises the errors of ``plan_bindings``."""
    plan = plan_bindings(program)
    driven_by_input = bool(plan.shared) or uses_atomics(program)
    return Interface(plan, program.workgroup_size, driven_by_input, partial(reach_of, program))


def grid_counts(program: Program) -> int | None:
    """Returns the position, among the buffers of a program of ``indirect_grids``, of its counts; None for any other."""
    return program._cache.get(GRID_COUNTS)  # type: ignore[return-value]


def reach_of(program: Program, axes: Mapping[str, int] | None = None) -> LaneReach:
    """Returns what the ids of a program reach, cached on it; ``axes``: how many axes the arrays of its kernel have."""
    key = "lane reach" if axes is None else "lane reach by axes"
    reach = program._cache.get(key)
    if not isinstance(reach, LaneReach):
        from vyre.domain.analysis.lane_reach import lane_reach  # on first use: most launches have a given grid

        reach = program._cache[key] = lane_reach(program, axes or {}, frozenset(size_parameters(program)))
    return reach


def resolve_launch(
    program: Program, input_nbytes: tuple[int, ...], config: DispatchConfig, limits: LaunchLimits
) -> Launch:
    """Returns the launch of a valid program.  Raises the errors of ``launch_of``.

    The last one is kept on the program: several layers ask for the launch of the same dispatch.
    """
    last = program._cache.get("launch")
    try:
        if isinstance(last, _Resolved) and last.config is config and last.input_nbytes == input_nbytes:
            check_geometry(last.launch.grid, last.launch.workgroup, limits)
            return last.launch
        launch = launch_of(interface_of(program), input_nbytes, config, limits)
    except DeviceLimitExceeded as error:
        from vyre.domain.limit_places import place_limit  # only for errors

        place_limit(error, program)
        raise
    program._cache["launch"] = _Resolved(config, input_nbytes, launch)
    return launch


def uses_atomics(program: Program) -> bool:
    """Returns whether any expression is an atomic; cached on the program."""
    return Atomic in node_facts(program).types
