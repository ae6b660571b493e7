"""``optimizer=``: where the passes of a session run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import vyre
from vyre import DecisionJournal, In, InOut, u32
from vyre.app.device_passes import passes, placement
from vyre.app.device_passes.rounds import Rounds
from vyre.domain.ir.program import Program
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.passes import Counts
from vyre.policies.optimizing.pass_placement import (
    PassPlacement,
    PassTime,
    PlacementInputs,
    PlacementTables,
    place_passes,
)
from vyre.policies.optimizing.program_passes import EngineKind


@vyre.kernel(workgroup=64)
def doubled(x: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    twice = x[i] * 2
    twice = x[i] * 2
    if i < len(x):
        y[i] = twice


ALWAYS = PlacementTables(interpreter=(PassTime("dead_code/1", 2, 1, 0),))
X = np.arange(100, dtype=np.uint32)
ZEROS = np.zeros(100, np.uint32)


@pytest.mark.parametrize("wrong", ["gpu", "", "HOST", None, True])
def test_another_place_is_refused(wrong: Any) -> None:
    with pytest.raises(vyre.InvalidConfig, match="optimizer="):
        vyre.open("reference", optimizer=wrong)


def test_passes_run_on_the_device_of_a_session_that_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def always(inputs: PlacementInputs) -> PassPlacement:
        return place_passes(inputs, ALWAYS)

    opened: list[vyre.Session] = []
    passes_on = passes.passes_on

    def noted(session: vyre.Session) -> Any:
        opened.append(session)
        return passes_on(session)

    monkeypatch.setattr(placement, "place_passes", always)
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
    held = passes.DevicePasses(None)
    held.bind(EngineKind.INTERPRETER, lambda: vyre.open("reference", optimize=False))
    monkeypatch.setattr(placement, "place_passes", lambda inputs: place_passes(inputs, ALWAYS))
    program = vyre.optimize(doubled, passes=[]).program
    step = held(program)["dead_code"]
    counts: Counts = Counter()
    made = step.run(program, counts)
    held.close()
    expected: Counts = Counter()
    assert made == PASSES["dead_code"].run(program, expected)
    assert tried == [program] and counts == expected


def test_measured_times_leave_the_passes_on_the_host() -> None:
    journal = DecisionJournal()
    with vyre.open("reference", optimizer="device", journal=journal) as session:
        for _ in range(20):
            assert np.array_equal(session.dispatch(doubled.program, {"x": X, "y": ZEROS})["y"], X * 2)
        explained = str(session.explain(doubled.program, inputs={"x": X, "y": ZEROS}))
    assert "passes on the device" in explained and "ns on the device" in explained
    placed = [decision.verdict for decision in journal.decisions if decision.policy is place_passes]
    assert placed and all(isinstance(each, PassPlacement) and each.names == () for each in placed)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_session_optimizes_by_hand(backend: str) -> None:
    with vyre.open(backend) as session:
        found = vyre.optimize(doubled, session=session)
    expected = vyre.optimize(doubled)
    assert isinstance(found.program, Program)
    assert found.program == expected.program and str(found) == str(expected)
