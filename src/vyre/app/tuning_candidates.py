"""From a program, its inputs and a config to the configs that may be tried in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.interface import interface_of
from vyre.domain.ir.program import Program
from vyre.domain.lane_facts import lane_facts
from vyre.domain.launch import Launch
from vyre.policies.workgroup_candidates import LaunchFacts


class LaunchShape(NamedTuple):
    """``launch``: as declared.  ``facts``: what decides about other sizes."""

    launch: Launch
    facts: LaunchFacts


def launch_shape(program: Program, launch: Launch, config: DispatchConfig) -> LaunchShape:
    """The facts of one launch of a valid program under ``config``."""
    if config.grid is not None:
        lanes = launch.grid[0] * launch.workgroup[0]
    elif config.extent is not None:
        lanes = config.extent[0]
    else:
        lanes = launch.element_count
    plan = interface_of(program).plan
    lengths = {binding.buffer.name: count for binding, count in zip(plan.bindings, launch.counts, strict=True)}
    lengths |= {buffer.name: buffer.count for buffer in program.buffers if buffer.is_workgroup}
    facts = LaunchFacts(
        declared=launch.workgroup,
        lanes=lanes,
        one_dimension=launch.grid[1:] == (1, 1),
        active_lanes=lane_facts(program).active_lanes(lengths),
        counts_steps=config.step_budget is not None,
    )
    return LaunchShape(launch, facts)


def config_of_size(config: DispatchConfig, size: int, facts: LaunchFacts) -> DispatchConfig:
    """``config`` for workgroups of another size, over the same lanes; as it is for the declared one."""
    if size == facts.declared[0]:
        return config
    grid = None if config.grid is None else (max(1, -(-facts.lanes // size)), 1, 1)
    return replace(config, workgroup=(size, 1, 1), grid=grid)
