"""``Session.explain()`` lists what the backend has really planned, whatever it is asked about programs."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.small_programs import saxpy_program, square_program
from vyre import DecisionJournal

X = np.arange(64, dtype=np.uint32)
PLAN = "plan_execution"


def test_every_plan_of_the_session_is_listed_with_its_reason() -> None:
    journal = DecisionJournal()
    with vyre.open("cuda-machine", cache=False, journal=journal) as session:
        assert session.explain().planned == ()
        for _ in range(9):
            session.dispatch(square_program(), [X])
            session.dispatch(saxpy_program(), [2.0, X.view(np.float32), X.view(np.float32)])
        report = session.explain()
        names = [session.compile(program).id for program in (square_program(), saxpy_program())]
    assert [each.plan for each in report.planned] == [d.verdict for d in journal.decisions if d.name == PLAN]
    assert {each.work for each in report.planned} == set(names)
    lines = str(report).splitlines()
    for name in names:
        (line,) = [line for line in lines if name in line]
        plans = [each.plan for each in report.planned if each.work == name]
        assert len(plans) > 1, "decided again as more runs were seen"
        latest = plans[-1].predicted
        assert latest is not None
        decided = f"{latest.mode.value}, decided {len(plans)} times, {latest.total_ns} ns predicted"
        assert line == f"  {name}: {decided}: {plans[-1].why}"


@pytest.mark.parametrize("backend", ["reference", "cuda-machine"])
def test_asking_about_a_program_plans_nothing(backend: str) -> None:
    with vyre.open(backend, cache=False) as session:
        session.explain(square_program(), costs="assumed")
        session.dispatch(square_program(), [X])
        assert session.explain().planned == ()
