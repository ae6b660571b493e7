"""What verdicts are counted as, where the name of their class would not tell one from another."""

from __future__ import annotations

import pytest

from vyre.adapters.cpu.decisions.effort_choice import FullEffort, LightEffort, QuickEffort
from vyre.adapters.cpu.decisions.private_atomics import PrivateAtomics
from vyre.adapters.cpu.decisions.thread_plan import ThreadPlan
from vyre.adapters.cpu.decisions.vector_width import VectorWidth
from vyre.adapters.cuda.decisions.ptx_target import TargetInputs, select_target
from vyre.policies.concurrency.hazards import HazardGraph
from vyre.policies.devices.occupancy import (
    AxisLimits,
    DeviceEnvelope,
    LaunchShape,
    ShapeDiagnosis,
    ShapeDiagnosisInputs,
    diagnose_shape,
)
from vyre.policies.journal import verdict_label
from vyre.policies.record import Reason
from vyre.policies.tuning.successive_halving import Estimates, Step, cheapest_estimate
from vyre.policies.tuning.workgroup_candidates import RefusedSize, Shortlist, WorkgroupCandidates
from vyre.policies.variants.kernel_variant import KernelVariant

REFUSED = (RefusedSize(32, Reason("it wraps")),)


def diagnosed(blocks: int, resident: int | None) -> ShapeDiagnosis:
    device = DeviceEnvelope(1024, 48 << 10, True, AxisLimits((1024,) * 3, (1024,) * 3, 65_536))
    shape = LaunchShape((blocks, 1, 1), (32, 1, 1), 0, True, 32)
    return diagnose_shape(ShapeDiagnosisInputs("k", device, shape, resident))


@pytest.mark.parametrize(
    ("verdict", "label"),
    [
        (diagnosed(8, 8), "fits"),
        (diagnosed(9, None), "fits"),
        (diagnosed(9, 8), "does not fit"),
        (KernelVariant(True, True), "aligned16 and noalias"),
        (KernelVariant(True, False), "aligned16"),
        (KernelVariant(False, True), "noalias"),
        (KernelVariant(False, False), "neither"),
        (select_target(TargetInputs(91)), "sm_90"),
        (select_target(TargetInputs(75)), "sm_75"),
        (HazardGraph(((), (0,))), "some wait"),
        (HazardGraph(((), ())), "none waits"),
        (HazardGraph(()), "none waits"),
        (VectorWidth(16, (16, 8, 4)), "16 lanes"),
        (PrivateAtomics(("counts",), 4), "copies"),
        (PrivateAtomics(()), "no copies"),
        (QuickEffort(), "quick"),
        (LightEffort(), "light"),
        (FullEffort(), "full"),
        (ThreadPlan(1, 9), "one thread"),
        (ThreadPlan(2, 9), "several threads"),
        (Step((0, 1), challenger=1), "measure"),
        (Step((), 2, 2), "replace"),
        (Step((), 0, 2), "keep"),
        (cheapest_estimate(Estimates((100, 50))), "replace"),
        (cheapest_estimate(Estimates((50, 100))), "keep"),
        (WorkgroupCandidates((64,), REFUSED), "one size"),
        (WorkgroupCandidates((64, 32)), "several sizes"),
        (Shortlist((64,), REFUSED), "some refused"),
        (Shortlist((64, 32)), "none refused"),
    ],
)
def test_a_label_tells_the_outcome(verdict: object, label: str) -> None:
    assert verdict_label(verdict) == label
