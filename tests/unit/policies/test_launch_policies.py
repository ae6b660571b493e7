"""Boundaries of the decisions about one launch; their invariants are in ``test_policy_invariants``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.async_copy_overlap import Overlap, Serialize
from vectors.seeds.bindless import Bindless, BindlessInputs, BindlessSupport, BindlessThresholds, decide_bindless
from vectors.seeds.dispatch_bundle import DispatchPolicyInputs, DispatchPolicyThresholds, evaluate_dispatch_policy
from vectors.seeds.dispatch_shape import LaunchConfig, dispatch_configs_share_launch_shape
from vyre.domain.program_report import InvalidProgram
from vyre.policies.concurrency.hazards import Access, AccessMode
from vyre.policies.launching.bindless import (
    Parameters,
    PointerTable,
    ResourceTableInputs,
    Unsupported,
    plan_resource_table,
)
from vyre.policies.launching.command_reuse import CommandReuseInputs, CommandReuseThresholds
from vyre.policies.launching.fixpoint_iterations import FixpointInputs, resolve_fixpoint_iterations
from vyre.policies.launching.persistent_kernel import PersistentKernelInputs, PersistentKernelThresholds
from vyre.policies.prediction.trace_jit import (
    HoldSteady,
    Speculate,
    TraceJitInputs,
    TraceJitThresholds,
    decide_trace_jit_speculation,
)


@pytest.mark.parametrize(("count", "chosen"), [(23, False), (24, True)])
def test_bindless_boundary(count: int, chosen: bool) -> None:
    inputs = BindlessInputs(count, BindlessSupport.FULL, False)
    assert isinstance(decide_bindless(inputs), Bindless) == chosen


TABLE = ResourceTableInputs(10, True, 20, 100)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, Parameters()),
        ({"may_use_table": False}, Parameters()),
        ({"parameter_budget_bytes": 99}, PointerTable()),
        ({"parameter_budget_bytes": 99, "may_use_table": False}, Unsupported()),
    ],
)
def test_resource_tables(changed: dict[str, Any], expected: object) -> None:
    verdict = plan_resource_table(replace(TABLE, **changed))
    assert verdict == expected
    assert str(verdict.why)


def test_trace_jit_boundaries_qualify() -> None:
    at = TraceJitInputs(8, 6_000, 0, 100)
    assert decide_trace_jit_speculation(at) == Speculate(60)
    for field in ("shader_hit_count", "prediction_confidence_bps"):
        below = replace(at, **{field: getattr(at, field) - 1})
        assert isinstance(decide_trace_jit_speculation(below), HoldSteady)
    assert isinstance(decide_trace_jit_speculation(at, TraceJitThresholds(hot_hits=9)), HoldSteady)


def test_fixpoint_iterations() -> None:
    assert resolve_fixpoint_iterations(FixpointInputs(None, "b")) == 1
    assert resolve_fixpoint_iterations(FixpointInputs(7, "b")) == 7
    with pytest.raises(InvalidProgram, match=r"`b`.*Fix: "):
        resolve_fixpoint_iterations(FixpointInputs(0, "b"))


def test_an_absent_error_budget_is_none() -> None:
    share = dispatch_configs_share_launch_shape
    assert share(LaunchConfig(), LaunchConfig(ulp_budget=0))
    assert not share(LaunchConfig(), LaunchConfig(ulp_budget=1))


ALL_POSITIVE = DispatchPolicyInputs(
    PersistentKernelInputs(9, 100, 0, 100),
    ArmAccess(frozenset(), frozenset(), (Access(3, AccessMode.READ, ((0, 8),)),)),
    ArmAccess(frozenset(), frozenset()),
    3,
    CommandReuseInputs(9, 100, 100, 10),
    BindlessInputs(99, BindlessSupport.FULL, False),
    TraceJitInputs(99, 10_000, 0, 100),
    (8, 16),
)


@pytest.mark.parametrize(
    ("stricter", "verdict"),
    [
        ({"persistent": PersistentKernelThresholds(10)}, "persistent"),
        ({"graph": CommandReuseThresholds(10)}, "command_reuse"),
        ({"bindless": BindlessThresholds(100)}, "bindless"),
        ({"trace_jit": TraceJitThresholds(100)}, "trace_jit"),
    ],
)
def test_the_bundle_hands_thresholds_on(stricter: dict[str, Any], verdict: str) -> None:
    usual = evaluate_dispatch_policy(ALL_POSITIVE)
    found = evaluate_dispatch_policy(ALL_POSITIVE, DispatchPolicyThresholds(**stricter))
    assert len(usual.audit_events) == 4
    (gone,) = set(usual.audit_events) - set(found.audit_events)
    assert gone.substrate.startswith(verdict)
    assert getattr(found, verdict) != getattr(usual, verdict)


def test_a_copy_is_judged_by_the_bytes_it_writes() -> None:
    assert evaluate_dispatch_policy(ALL_POSITIVE).copy_overlap == Overlap()
    assert evaluate_dispatch_policy(replace(ALL_POSITIVE, copy_bytes=(7, 16))).copy_overlap == Serialize()
    assert evaluate_dispatch_policy(replace(ALL_POSITIVE, copy_bytes=None)).copy_overlap == Serialize()
