"""Launches to be tuned, and the configs that may replace the declared one."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import VyreError
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import interface_of, resolve_launch
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch
from vyre.domain.padding import masked
from vyre.domain.tuning import PADDED, Candidate
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.tuning.workgroup_candidates import (
    DEFAULT_THRESHOLDS,
    CandidateThresholds,
    LaunchFacts,
    WorkgroupCandidates,
    workgroup_candidates,
)


class TunedLaunch(NamedTuple):
    """One launch as declared.  ``nbytes``: bytes of each input.  ``facts``: the inputs of the policy on other sizes."""

    program: Program
    config: DispatchConfig
    nbytes: tuple[int, ...]
    limits: LaunchLimits
    launch: Launch
    facts: LaunchFacts

    @property
    def declared(self) -> int:
        """Lanes of a workgroup along x."""
        return self.launch.workgroup[0]

    @property
    def lanes(self) -> int:
        """Requested lanes along x, times those of the other axes."""
        return self.facts.lanes * prod(self.launch.grid[1:]) * prod(self.launch.workgroup[1:])

    def sizes(self, sink: DecisionSink | None = None) -> WorkgroupCandidates:
        """Returns every workgroup size that cannot change a byte."""
        most = self.limits.max_invocations_per_workgroup or DEFAULT_THRESHOLDS.max_lanes
        thresholds = CandidateThresholds(max_lanes=most)
        return decide(sink, workgroup_candidates, lane_facts(self.program), self.facts, thresholds)

    def why_not(self, candidate: Candidate) -> str | None:
        """Returns why a candidate of another launch must not be used here; None if it may."""
        if candidate.constants:
            return self.config.grid and f"with {candidate.profile}, its grid is of other workgroups"
        sizes = self.sizes()
        if candidate.size in sizes.sizes:
            return None
        refused = {each.size: str(each.why) for each in sizes.refused}
        why = str(sizes.why) if len(sizes.sizes) == 1 else f"{candidate.size} lanes are not tried"
        return refused.get(candidate.size, why)

    def config_of(self, candidate: Candidate) -> DispatchConfig:
        """Returns the config with the candidate's workgroup size and profile, over the same lanes."""
        config = self.config
        if candidate.constants:  # its workgroup has the size of its program
            return config
        if candidate.profile and candidate.profile != PADDED:
            config = replace(config, profile=candidate.profile)
        if candidate.size != self.declared:
            config = self._resized(config, candidate.size)
        return replace(config, pad_grid=True) if candidate.profile == PADDED and self._pads(config) else config

    def pads(self, size: int) -> bool:
        """Returns whether the grid for a workgroup size may be rounded up, and that makes it another one."""
        return not self.config.pad_grid and self._pads(self.config_of(Candidate(size)))

    def _pads(self, config: DispatchConfig) -> bool:
        config = replace(config, pad_grid=True)
        try:
            return masked(self.program, config) is not self.program and bool(self.launch_of(config))
        except VyreError:
            return False

    def _resized(self, config: DispatchConfig, size: int) -> DispatchConfig:
        grid = None if config.grid is None else (max(1, -(-self.facts.lanes // size)), 1, 1)
        return replace(config, workgroup=(size, 1, 1), grid=grid)

    def launch_of(self, config: DispatchConfig) -> Launch:
        """Returns the launch under another config."""
        return resolve_launch(self.program, self.nbytes, config, self.limits)


def tuned_launch(
    program: Program, nbytes: tuple[int, ...], config: DispatchConfig, limits: LaunchLimits
) -> TunedLaunch:
    """Returns the launch of a valid program on inputs of ``nbytes`` bytes; raises what a dispatch raises for its
    arguments.
    """
    launch = resolve_launch(program, nbytes, config, limits)
    if config.grid is not None:
        lanes = launch.grid[0] * launch.workgroup[0]
    elif config.extent is not None:
        lanes = config.extent[0]
    else:
        lanes = launch.element_count
    plan = interface_of(program).plan
    lengths = {binding.buffer.name: count for binding, count in zip(plan.bindings, launch.counts, strict=True)}
    lengths |= {buffer.name: buffer.count for buffer in program.buffers if not buffer.is_bound}
    facts = LaunchFacts(
        declared=launch.workgroup,
        lanes=lanes,
        one_dimension=launch.grid[1:] == (1, 1),
        active_lanes=lane_facts(program).active_lanes(lengths),
        counts_steps=config.step_budget is not None,
    )
    return TunedLaunch(program, config, nbytes, limits, launch, facts)
