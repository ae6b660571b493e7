"""Device times of kernels out of dispatches: of one launch, however many a dispatch made of them."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.cuda.timed_device import DEVICE_NS, TimedDevice
from support.small_programs import square_program
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.calibration.observed import kernel_times
from vyre.app.pipeline import Pipeline
from vyre.domain.cost_limits import LEAST_SAMPLES
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.launch_costs import Measured, Provenance
from vyre.gallery.registry import load
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.testing import cuda_machine

X = np.arange(8, dtype=np.uint32)


def time_of(pipeline: Pipeline, gap: Measured | None = None) -> int:
    return kernel_times([pipeline], gap, Provenance.MEASURED)[pipeline.id].time.median_ns


@pytest.mark.parametrize(
    ("iterations", "launches", "each"), [(1, None, 1), (5, None, 5), (5, 5, 5), (1, 2, 2), (5, 10, 10)]
)
def test_a_time_is_shared_by_the_launches_that_a_dispatch_told(
    iterations: int, launches: int | None, each: int
) -> None:
    device = TimedDevice(launches=launches)
    with vyre.open(catalog=device.catalog()) as session:
        pipeline = session.compile(square_program(), DispatchConfig(fixpoint_iterations=iterations))
        for _ in range(LEAST_SAMPLES):
            pipeline([X])
        assert time_of(pipeline) == DEVICE_NS // each
        assert time_of(pipeline, Measured(300, 0, 0, 9, Provenance.MEASURED)) == DEVICE_NS // each - 300


def test_replays_have_as_many_kernels_as_were_launched_before() -> None:
    device = TimedDevice(launches=2)
    with vyre.open(catalog=device.catalog()) as session:
        pipeline = session.compile(square_program())
        pipeline([X])
        device.launches = 0
        for _ in range(2 * LEAST_SAMPLES):
            pipeline([X])
        assert time_of(pipeline) == DEVICE_NS // 2


def test_a_program_split_in_two_kernels_is_two_launches() -> None:
    example = load("basics.p24_grid_sync")
    with cuda_machine(CudaOptions(grid_sync=GridSyncMode.SPLIT, graph_after=None)).open() as session:
        pipeline = session.compile(example.program())
        for _ in range(LEAST_SAMPLES):
            pipeline(example.case().inputs)
        whole = sorted(timing.device_ns // 2 for timing in pipeline.timings if timing.device_ns is not None)
        assert time_of(pipeline) == whole[LEAST_SAMPLES // 2]
