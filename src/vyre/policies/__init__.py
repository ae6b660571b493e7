"""Decisions as pure functions: each takes recorded inputs and returns a verdict with its reason.

Each module answers one question.  A module is importable from this package by its own name, whichever subject folder it
lies in:

    from vyre.policies import command_reuse

    verdict = command_reuse.decide_command_reuse(command_reuse.CommandReuseInputs(1000, 8_000, 100_000, 2_000))

Many rules come from vyre-driver, a compiler driver written in Rust for the same programs.  Such a rule is reproduced
exactly by default; where vyre-driver errs, the module says so, and the corrected rule is a second function or an
option.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.policies import arith as arith, journal as journal, record as record
    from vyre.policies.caching import (
        artifact_dependencies as artifact_dependencies,
        cache_eviction as cache_eviction,
        cache_eviction_heat as cache_eviction_heat,
        cache_outcome as cache_outcome,
        cost_eviction as cost_eviction,
    )
    from vyre.policies.concurrency import hazards as hazards
    from vyre.policies.devices import backend_ranking as backend_ranking, occupancy as occupancy
    from vyre.policies.egraphs import egraph_kernels as egraph_kernels
    from vyre.policies.emission import constant_division as constant_division
    from vyre.policies.evidence import claims as claims
    from vyre.policies.frontiers import (
        fixpoint as fixpoint,
        frontier_ir as frontier_ir,
        wave_kernel as wave_kernel,
        waves as waves,
    )
    from vyre.policies.launching import (
        bindless as bindless,
        command_reuse as command_reuse,
        cost_observation as cost_observation,
        execution_prices as execution_prices,
        fixpoint_iterations as fixpoint_iterations,
        grid_sync_mode as grid_sync_mode,
        param_inlining as param_inlining,
        persistent_kernel as persistent_kernel,
        plan_execution as plan_execution,
        queueing as queueing,
    )
    from vyre.policies.prediction import (
        confirming as confirming,
        shape_prediction as shape_prediction,
        speculate as speculate,
        trace_jit as trace_jit,
    )
    from vyre.policies.stage_fusion import launch_fusion as launch_fusion
    from vyre.policies.transfer import packing as packing, readback as readback, transfers as transfers
    from vyre.policies.tuning import (
        paired_race as paired_race,
        successive_halving as successive_halving,
        workgroup_candidates as workgroup_candidates,
    )
    from vyre.policies.variants import kernel_variant as kernel_variant
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__, are_modules=True)
# isort: on
# fmt: on
