"""Invariants of the occupancy estimate and of launch diagnoses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.records import records
from vectors.seeds import launch_diagnosis
from vectors.seeds.launch_diagnosis import DiagnosisInputs, KernelRequirement, diagnose
from vectors.seeds.occupancy_choices import (
    BlockSizeInputs,
    Concurrent,
    CooperativeInputs,
    NotConcurrent,
    PairInputs,
    PairObstacle,
    can_run_together,
    max_cooperative_blocks,
    pick_block_size,
)
from vyre.domain.errors import PlanError
from vyre.policies.devices.occupancy import (
    NO_LIMIT,
    SM_MODELS,
    AxisLimit,
    AxisLimits,
    DeviceEnvelope,
    KernelUsage,
    LaunchShape,
    ShapeDiagnosisInputs,
    SharedMemory,
    SmModel,
    ThreadsPerBlock,
    diagnose_shape,
    estimate,
)

SM_90 = SM_MODELS["sm_90"]
MODELS = st.sampled_from(list(SM_MODELS.values()))
USAGES = st.builds(
    KernelUsage,
    regs_per_thread=st.integers(0, 300),
    static_shared_bytes=st.integers(0, 60_000),
    dynamic_shared_bytes=st.integers(0, 240_000),
    block_size=st.integers(0, 1100),
    block_barriers=st.integers(0, 20),
)
LIGHT = KernelUsage(16, 0, 0, 256, 1)


@given(MODELS, USAGES, USAGES)
def test_blocks_shrink_with_what_they_take(sm: SmModel, usage: KernelUsage, more: KernelUsage) -> None:
    heavier = KernelUsage(
        max(usage.regs_per_thread, more.regs_per_thread),
        max(usage.static_shared_bytes, more.static_shared_bytes),
        max(usage.dynamic_shared_bytes, more.dynamic_shared_bytes),
        usage.block_size,
        max(usage.block_barriers, more.block_barriers),
    )
    found, less = estimate(sm, usage), estimate(sm, heavier)
    assert less.active_blocks_per_sm <= found.active_blocks_per_sm <= sm.blocks
    assert found.resident_warps <= sm.warps
    assert 0 <= found.occupancy_bps <= 10_000
    assert found.active_blocks_per_sm * found.shared_allocated_per_block <= sm.shared_bytes
    assert found.active_blocks_per_sm * found.regs_allocated_per_block <= 65_536
    assert found.limiting_factors


def test_what_is_not_used_does_not_limit() -> None:
    found = estimate(SM_90, KernelUsage(0, 0, 0, 64, 0))
    assert found.limit_regs == found.limit_barriers == NO_LIMIT
    assert not estimate(SM_90, KernelUsage(0, 0, 0, 0, 1)).runnable
    assert not estimate(SM_90, KernelUsage(0, 0, 0, 1025, 1)).runnable


@given(MODELS, USAGES, st.lists(st.sampled_from([32, 64, 128, 256, 512, 1024]), max_size=6))
def test_the_best_block_size_is_picked(sm: SmModel, usage: KernelUsage, sizes: list[int]) -> None:
    choice = pick_block_size(BlockSizeInputs(sm, usage, tuple(sizes)))
    found = {size: estimate(sm, replace(usage, block_size=size)) for size in sizes}
    best = max((o.occupancy_bps for o in found.values() if o.runnable), default=None)
    if choice is None:
        assert best is None
    else:
        assert choice.occupancy.occupancy_bps == best
        assert choice.block_size == min(s for s, o in found.items() if o.runnable and o.occupancy_bps == best)


def test_registers_of_one_thread_are_bounded() -> None:
    few = KernelUsage(256, 0, 0, 32, 1)
    assert estimate(SM_90, few).limit_regs == 8
    assert estimate(SM_90, replace(few, regs_per_thread=257)).limit_regs == 0


def test_blocks_are_bounded_by_what_one_may_share_and_by_barriers() -> None:
    small = SmModel(2048, 32, 233_472, 49_152, 2)
    usage = replace(LIGHT, dynamic_shared_bytes=49_152)
    assert estimate(small, usage).limit_shared == 4
    assert estimate(small, replace(usage, dynamic_shared_bytes=49_153)).limit_shared == 0
    barriers = estimate(small, replace(LIGHT, block_barriers=3)).limit_barriers
    assert (barriers, type(barriers)) == (21, int)


def test_light_kernels_do_not_get_one_warp_blocks() -> None:
    choice = pick_block_size(BlockSizeInputs(SM_90, LIGHT, (32, 64, 128)))
    assert choice is not None
    assert (choice.block_size, choice.occupancy.occupancy_bps) == (64, 10_000)
    assert str(choice.why) == "64 threads keep 10000 bps of the warps resident"


def test_cooperative_grids_fit_at_once() -> None:
    inputs = CooperativeInputs(SM_90, LIGHT, 132, True)
    assert max_cooperative_blocks(inputs) == 132 * 8
    assert max_cooperative_blocks(replace(inputs, supports_cooperative_launch=False)) == 0


@given(MODELS, USAGES, USAGES, st.booleans())
def test_sharing_is_symmetric(sm: SmModel, a: KernelUsage, b: KernelUsage, concurrent: bool) -> None:
    assert can_run_together(PairInputs(sm, a, b, concurrent)) == can_run_together(PairInputs(sm, b, a, concurrent))


@pytest.mark.parametrize(
    ("usage", "concurrent", "obstacle", "why"),
    [
        (LIGHT, False, PairObstacle.DEVICE_UNSUPPORTED, "the device runs one kernel at a time"),
        (replace(LIGHT, block_size=2000), True, PairObstacle.KERNEL_UNRUNNABLE, "a kernel does not fit even alone"),
        (
            replace(LIGHT, regs_per_thread=136),
            True,
            PairObstacle.REGISTER_PRESSURE,
            "their blocks take too many registers",
        ),
        (
            replace(LIGHT, dynamic_shared_bytes=115_713),
            True,
            PairObstacle.SHARED_MEMORY,
            "their blocks take too much shared memory",
        ),
    ],
)
def test_obstacles_to_sharing(usage: KernelUsage, concurrent: bool, obstacle: PairObstacle, why: str) -> None:
    found = can_run_together(PairInputs(SM_90, usage, usage, concurrent))
    assert found == NotConcurrent(obstacle)
    assert str(found.why) == why


def test_two_kernels_may_fill_a_multiprocessor() -> None:
    full = (
        replace(LIGHT, regs_per_thread=128),
        replace(LIGHT, dynamic_shared_bytes=115_712),
        replace(LIGHT, block_size=1024),
    )
    assert all(isinstance(can_run_together(PairInputs(SM_90, usage, usage, True)), Concurrent) for usage in full)
    unfit = replace(LIGHT, block_size=2000)
    for first, second in ((LIGHT, unfit), (unfit, LIGHT)):
        assert can_run_together(PairInputs(SM_90, first, second, True)) == NotConcurrent(PairObstacle.KERNEL_UNRUNNABLE)


def test_sharing() -> None:
    full = replace(LIGHT, block_size=1024)
    assert can_run_together(PairInputs(SM_90, full, full, True)) == Concurrent()
    crowded = can_run_together(PairInputs(SM_MODELS["sm_120"], full, full, True))
    assert crowded == NotConcurrent(PairObstacle.WARP_RESIDENCY)
    assert str(crowded.why) == "their blocks have too many warps"
    assert str(can_run_together(PairInputs(SM_90, LIGHT, LIGHT, True)).why) == "one block of each fits"


ROOMY = AxisLimits((2**32 - 1,) * 3, (2**32 - 1,) * 3, 2**32 - 1)
DEVICE = DeviceEnvelope(1024, 49_152, True, ROOMY)
SHAPE = LaunchShape((4, 1, 1), (256, 1, 1), 0, False, 0)


@given(records(launch_diagnosis.DeviceEnvelope), records(KernelRequirement))
def test_every_failure_is_named(device: launch_diagnosis.DeviceEnvelope, asked: KernelRequirement) -> None:
    found = diagnose(DiagnosisInputs("k", device, asked))
    assert found.is_launchable == (not found.failures)
    assert all(str(failure) in found.stable_message for failure in found.failures)
    assert "\n" not in found.stable_message


def test_limits_per_axis_and_registers_are_checked() -> None:
    shape = replace(SHAPE, block=(1, 1, 128), grid=(1, 70_000, 1), regs_per_thread=600)
    inputs = ShapeDiagnosisInputs("k", DEVICE, shape, None)
    assert diagnose_shape(inputs).is_launchable
    limits = AxisLimits((1024, 1024, 64), (2**31 - 1, 65_535, 65_535), 65_536)
    found = diagnose_shape(replace(inputs, device=replace(DEVICE, limits=limits)))
    assert not found.is_launchable
    assert found.stable_message.split("|")[3] == (
        "fix=block_z(requested=128,max=64),grid_y(requested=70000,max=65535),"
        "registers_per_block(requested=76800,max=65536)"
    )
    exact = AxisLimits((1, 1, 128), (1, 70_000, 1), 76_800)
    assert diagnose_shape(replace(inputs, device=replace(DEVICE, limits=exact))).is_launchable


def test_limits_add_to_what_else_fails() -> None:
    limits = AxisLimits((1, 1, 1), (1, 1, 1), 1)
    device = replace(DEVICE, max_threads_per_block=1, limits=limits)
    found = diagnose_shape(ShapeDiagnosisInputs("k", device, SHAPE, None))
    assert [type(failure) for failure in found.failures] == [ThreadsPerBlock, AxisLimit, AxisLimit]


@pytest.mark.parametrize(("limit", "launchable"), [(None, True), (4, True), (3, False)])
def test_cooperative_residency(limit: int | None, launchable: bool) -> None:
    assert diagnose_shape(ShapeDiagnosisInputs("k", DEVICE, SHAPE, limit)).is_launchable == launchable


@pytest.mark.parametrize(
    ("shape", "field", "maximum"),
    [
        (replace(SHAPE, grid=(2**32 - 1,) * 3), "grid blocks", 2**64 - 1),
        (replace(SHAPE, block=(2**16, 2**16, 1)), "threads per block", 2**32 - 1),
        (replace(SHAPE, grid=(2**32 - 1,) * 3, block=(2**16, 2**16, 1)), "grid blocks", 2**64 - 1),
    ],
)
def test_shapes_never_wrap(shape: LaunchShape, field: str, maximum: int) -> None:
    with pytest.raises(PlanError) as error:
        diagnose_shape(ShapeDiagnosisInputs("k", DEVICE, shape, None))
    dims = shape.grid if field == "grid blocks" else shape.block
    assert error.value.kind == "DimensionOverflow"
    assert error.value.fields == {"field": field, "dims": dims, "maximum": maximum}


def test_shared_memory_beyond_32_bits_is_compared_like_any_other() -> None:
    device = launch_diagnosis.DeviceEnvelope(9, 0, 1024, 2**33, True, True)
    asked = KernelRequirement(0, 0, 1, 2**33 + 1, False, False)
    assert diagnose(DiagnosisInputs("k", device, asked)).failures == (SharedMemory(2**33 + 1, 2**33),)


def test_the_largest_shapes() -> None:
    """2^64 - 1 blocks, and 2^32 - 1 threads."""
    largest = replace(SHAPE, grid=(2**32 - 1, 641, 6_700_417), block=(65_535, 65_537, 1))
    found = diagnose_shape(ShapeDiagnosisInputs("k", DEVICE, largest, None))
    assert (found.grid_blocks, found.threads_per_block) == (2**64 - 1, 2**32 - 1)
