"""A session whose device was lost."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.cuda.scenarios import PROGRAM, X, Y
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.app.pipeline import Inputs
from vyre.testing import cuda_machine

NAMED: Inputs = {"k": 3, "x": X, "y": Y}


def test_a_session_goes_on_after_recover() -> None:
    machine = cuda_machine()
    with machine.open() as session:
        kept = session.resident(X)
        expected = session.dispatch(PROGRAM, NAMED)["y"]
        machine.driver.inject(FaultPlan(calls=(Fault(code=700),)))
        for _ in range(2):
            with pytest.raises(vyre.DeviceLost, match=r"recover\(\)"):
                session.dispatch(PROGRAM, NAMED)
        session.recover()
        assert np.array_equal(session.dispatch(PROGRAM, NAMED)["y"], expected)
        with pytest.raises(vyre.VyreError, match="epoch 0"):
            kept.download()
    assert not any(machine.driver.live().values())


def test_a_backend_without_a_device_has_nothing_to_recover() -> None:
    with vyre.open("reference") as session, pytest.raises(vyre.UnsupportedFeature):
        session.recover()
