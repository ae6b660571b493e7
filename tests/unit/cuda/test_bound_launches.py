"""Launches bound to resident memory: what they call, and when they refuse to."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import pytest

import vyre
from vyre import ProgramBuilder, u32
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import DeviceLost, InvalidResource
from vyre.testing import cuda_machine

N: Final = 32
X: Final = np.arange(N, dtype=np.uint32)
ILLEGAL_ADDRESS: Final = 700


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
    with machine.open() as session, session.resident(X) as y, session.bind_resident(STEP, {"x": X, "y": y}) as launch:
        launch()
        before = Counter(machine.driver.calls)
        launch()
        calls = Counter(machine.driver.calls) - before
        assert set(calls) <= {"launch", "stream_ready", "stream_synchronize"} and calls["launch"] == 1


def test_many_iterations_are_replayed() -> None:
    with vyre.open("cuda-machine", cache=False) as session, session.resident(X) as y:
        config = DispatchConfig(fixpoint_iterations=20)
        with session.bind_resident(STEP, {"x": X, "y": y}, config) as launch:
            for _ in range(40):
                launch()
        want = X
        for _ in range(40 * 20):
            want = want * np.uint32(3) + X
        np.testing.assert_array_equal(y.download(), want)
        metrics = session.metrics()
        assert metrics["graph_launches"] > 0
        assert metrics["kernel_launches"] + metrics["graph_kernels"] == 40 * 20


def test_a_closed_launch_makes_no_call() -> None:
    machine = cuda_machine()
    with machine.open() as session, session.resident(X) as y:
        bound = session.bind_resident(STEP, {"x": X, "y": y})
        bound.close()
        bound.close()
        before = sum(machine.driver.calls.values())
        for use in (bound, bound.launch):
            with pytest.raises(InvalidResource, match=r"closed.*Fix: bind it again"):
                use()
        assert sum(machine.driver.calls.values()) == before


def test_a_launch_of_before_a_recovery_makes_no_call() -> None:
    machine = cuda_machine()
    with machine.open() as session, session.resident(X) as gone:
        bound = session.bind_resident(STEP, {"x": X, "y": gone})
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
