"""One program over many inputs: the same results as one after the other, on backends with and without overlap."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.cuda.scenarios import PROGRAM, X, Y
from support.small_programs import saxpy_program
from vyre.app.pipeline import Inputs
from vyre.testing import cuda_machine

BATCH: list[Inputs] = [{"k": k, "x": X, "y": Y + k} for k in range(7)]


def test_results_come_in_order_whatever_the_backend() -> None:
    machine = cuda_machine()
    with vyre.open("reference") as reference, machine.open() as emulated:
        expected = [reference.dispatch(PROGRAM, inputs) for inputs in BATCH]
        for session in (reference, emulated):
            found = session.dispatch_many(PROGRAM, BATCH)
            assert [(r["y"].tobytes(), r["out"].tobytes()) for r in found] == [
                (r["y"].tobytes(), r["out"].tobytes()) for r in expected
            ]


def test_a_bad_item_is_an_error_and_nothing_is_left_behind() -> None:
    machine = cuda_machine()
    with machine.open() as session, pytest.raises(vyre.InvalidInput):
        session.dispatch_many(saxpy_program(), [{"a": 1.0, "x": X.astype(np.float32), "y": 5}])
    assert not any(machine.driver.live().values())


def test_an_empty_batch_has_no_results() -> None:
    with vyre.open("reference") as session:
        assert session.dispatch_many(PROGRAM, []) == []
