"""Launches bound to resident memory: what they call, and when they refuse to."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Final

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from vyre import ProgramBuilder, u32
from vyre.adapters.cuda.machine.fault_plan import FOREVER, Fault, FaultPlan, SlowKernel
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError, DeviceLost, DispatchTimeout, InvalidResource
from vyre.testing import cuda_machine

N: Final = 32
X: Final = np.arange(N, dtype=np.uint32)
ILLEGAL_ADDRESS: Final = 700
ITERATIONS: Final = (1, 20)
"""Launched call by call, and as a sequence."""


def step() -> vyre.Program:
    """``y = 3 * y + x``."""
    with ProgramBuilder("step", workgroup=32) as p:
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        y[i] = y[i] * 3 + x[i]
    return p.build()


STEP: Final = step()


def test_a_bound_launch_is_one_driver_call() -> None:
    machine = cuda_machine()
    with (
        machine.open() as session,
        session.resident(X) as x,
        session.resident(X) as y,
        session.bind_resident(STEP, {"x": x, "y": y}) as launch,
    ):
        launch()
        before = Counter(machine.driver.calls)
        launch()
        calls = Counter(machine.driver.calls) - before
        assert set(calls) <= {"launch", "stream_ready", "stream_synchronize"} and calls["launch"] == 1


def test_many_iterations_are_replayed() -> None:
    with vyre.open("cuda-machine", cache=False) as session, session.resident(X) as x, session.resident(X) as y:
        config = DispatchConfig(fixpoint_iterations=20)
        with session.bind_resident(STEP, {"x": x, "y": y}, config) as launch:
            for _ in range(40):
                launch()
        want = X
        for _ in range(40 * 20):
            want = want * np.uint32(3) + X
        np.testing.assert_array_equal(y.download(), want)
        metrics = session.metrics()
        assert metrics["graph_launches"] > 0
        assert metrics["kernel_launches"] + metrics["graph_kernels"] == 40 * 20


@pytest.mark.parametrize("iterations", ITERATIONS)
def test_a_closed_launch_makes_no_call(iterations: int) -> None:
    machine = cuda_machine()
    with machine.open() as session, session.resident(X) as x, session.resident(X) as y:
        bound = session.bind_resident(STEP, {"x": x, "y": y}, DispatchConfig(fixpoint_iterations=iterations))
        bound.close()
        bound.close()
        before = sum(machine.driver.calls.values())
        for use in (bound, bound.launch):
            with pytest.raises(InvalidResource, match=r"closed.*Fix: bind it again"):
                use()
        assert sum(machine.driver.calls.values()) == before


@pytest.mark.parametrize("iterations", ITERATIONS)
def test_a_launch_of_before_a_recovery_makes_no_call(iterations: int) -> None:
    machine = cuda_machine()
    config = DispatchConfig(fixpoint_iterations=iterations)
    with machine.open() as session, session.resident(X) as x, session.resident(X) as gone:
        bound = session.bind_resident(STEP, {"x": x, "y": gone}, config)
        bound()
        machine.driver.inject(FaultPlan(calls=(Fault(code=ILLEGAL_ADDRESS),)))
        with pytest.raises(DeviceLost):
            bound()
        machine.driver.inject(FaultPlan())
        with pytest.raises(DeviceLost):
            bound()
        session.recover()
        with session.resident(X) as y:  # the device is open again
            before = sum(machine.driver.calls.values())
            with pytest.raises(InvalidResource, match=r"recovered.*Fix: bind it again"):
                bound()
            assert sum(machine.driver.calls.values()) == before
            bound.close()
            with session.bind_resident(STEP, {"x": X, "y": y}) as again:
                again()
            np.testing.assert_array_equal(y.download(), X * np.uint32(4))


@pytest.mark.parametrize("iterations", ITERATIONS)
@pytest.mark.parametrize("first", ["the launch", "its memory"])
def test_memory_of_a_launch_that_runs_out_of_time_is_set_aside(first: str, iterations: int) -> None:
    machine = cuda_machine()
    config = DispatchConfig(fixpoint_iterations=iterations, timeout_s=0.05)
    with machine.open() as session, session.resident(X) as x:
        y = session.resident(X)
        bound = session.bind_resident(STEP, {"x": x, "y": y}, config)
        machine.driver.inject(FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
        with pytest.raises(DispatchTimeout):
            bound()
        machine.driver.inject(FaultPlan())
        with pytest.raises(InvalidResource, match=r"failed.*Fix: bind it again"):
            bound()
        for closed in (bound, y) if first == "the launch" else (y, bound):
            closed.close()
        with session.resident(np.zeros(N, np.uint32)) as z:
            machine.driver.end_slow_kernels()
            session.dispatch(STEP, {"x": x, "y": X})
            assert not z.download().any()
        with session.resident(X) as again:
            for _ in range(4):
                session.dispatch(STEP, {"x": x, "y": again})
    assert not machine.driver.violations
    assert not any(machine.driver.live().values())


def test_a_recovery_during_a_run_leaves_nothing_of_the_old_device() -> None:
    machine = cuda_machine(CudaOptions(close_timeout_s=0.2))
    with machine.open() as session:
        old_x, old_y = session.resident(X), session.resident(X)
        sequence = session.sequence([vyre.Step(STEP, {"x": old_x, "y": old_y})] * 2)
        machine.driver.inject(FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(sequence)
            while not machine.driver.calls["launch"]:
                sleep(0.001)
            session.recover()
            machine.driver.end_slow_kernels()
            with pytest.raises(BackendError):
                running.result(LIMIT_S)
        machine.driver.inject(FaultPlan())
        old_x.close()
        old_y.close()
        for _ in range(3):
            with session.resident(X) as x, session.resident(X) as y:
                session.sequence([vyre.Step(STEP, {"x": x, "y": y})])()
                np.testing.assert_array_equal(y.download(), X * np.uint32(4))
    assert not any(machine.driver.live().values())
