"""``optimizer=``: where the passes of a session run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import vyre
from vyre import In, InOut, u32
from vyre.app.device_passes import passes
from vyre.app.device_passes.rounds import Rounds
from vyre.domain.ir.program import Program
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.passes import Counts


@vyre.kernel(workgroup=64)
def doubled(x: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    twice = x[i] * 2
    twice = x[i] * 2
    if i < len(x):
        y[i] = twice


X = np.arange(100, dtype=np.uint32)
ZEROS = np.zeros(100, np.uint32)


@pytest.mark.parametrize("wrong", ["gpu", "", "HOST", None, True])
def test_another_place_is_refused(wrong: Any) -> None:
    with pytest.raises(vyre.InvalidConfig, match="optimizer="):
        vyre.open("reference", optimizer=wrong)


def test_passes_run_on_the_device_of_a_session_that_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[vyre.Session] = []
    passes_on = passes.passes_on

    def noted(session: vyre.Session) -> Any:
        opened.append(session)
        return passes_on(session)

    monkeypatch.setattr(passes, "passes_on", noted)
    with vyre.open("reference", optimizer="device") as session:
        program = doubled.program
        for _ in range(20):
            assert np.array_equal(session.dispatch(program, {"x": X, "y": ZEROS})["y"], X * 2)
        assert [each.backend for each in opened] == ["reference"] and not opened[0].closed
    assert opened[0].closed


def test_the_host_runs_a_pass_whose_session_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fails(program: Program, counts: Counts, rounds: Rounds) -> Program:
        tried.append(program)
        counts["unread"] += 100
        raise vyre.DispatchFailed("the device is busy", fix="wait.")

    monkeypatch.setitem(passes._ON_DEVICE, "dead_code", fails)
    held = passes.DevicePasses()
    held.bind(lambda: vyre.open("reference", optimize=False))
    program = vyre.optimize(doubled, passes=[]).program
    step = held()["dead_code"]
    counts: Counts = Counter()
    made = step.run(program, counts)
    held.close()
    expected: Counts = Counter()
    assert made == PASSES["dead_code"].run(program, expected)
    assert tried == [program] and counts == expected


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_session_optimizes_by_hand(backend: str) -> None:
    with vyre.open(backend) as session:
        found = vyre.optimize(doubled, session=session)
    expected = vyre.optimize(doubled)
    assert isinstance(found.program, Program)
    assert found.program == expected.program and str(found) == str(expected)
