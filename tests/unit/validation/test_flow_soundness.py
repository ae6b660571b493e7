"""What validation accepts, no lane contradicts: checked against an interpreter that runs lanes one by one."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from support.flow_programs import flow_programs
from support.lane_traces import Event, trace
from vyre.domain.grid_sync import plan_grid_sync
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import validate

_GROUPS, _LANES = 2, 4
_FLOW = {"V010", "V210"}
_many = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def _lanes(program: Program) -> list[list[list[Event]]]:
    return [[trace(program, group, lane) for lane in range(_LANES)] for group in range(_GROUPS)]


def _codes(program: Program) -> set[str]:
    return {found.code for found in validate(program).errors}


@_many
@given(flow_programs())
def test_accepted_barriers_are_reached_by_all_lanes_or_none(program: Program) -> None:
    assume(not _codes(program) & _FLOW)
    for group in _lanes(program):
        barriers = [[event for event in lane if event[0] == "barrier"] for lane in group]
        assert all(found == barriers[0] for found in barriers)


@_many
@given(flow_programs())
def test_accepted_atomics_meet_no_plain_access(program: Program) -> None:
    assume("V123" not in _codes(program))
    for lane in (lane for group in _lanes(program) for lane in group):
        last: dict[str, str] = {}
        for kind, *rest in lane:
            if kind == "barrier":
                last.clear()
            elif kind in ("plain", "atomic"):
                assert last.setdefault(rest[0], kind) == kind


@_many
@given(flow_programs())
def test_accepted_copies_are_paired(program: Program) -> None:
    assume("V122" not in _codes(program))
    for lane in (lane for group in _lanes(program) for lane in group):
        pending: set[str] = set()
        for kind, *rest in lane:
            if kind == "start":
                assert rest[0] not in pending
                pending.add(rest[0])
            elif kind == "wait":
                pending.remove(rest[0])
        assert not pending


@_many
@given(flow_programs(grid_barriers=True), st.integers(0, _GROUPS - 1), st.integers(0, _LANES - 1))
def test_a_plan_does_what_the_program_does(program: Program, group: int, lane: int) -> None:
    assume(validate(program).ok)
    segments = plan_grid_sync(program)
    done: list[Event] = []
    for number, segment in enumerate(segments):
        assert validate(segment).ok
        done += trace(segment, group, lane, number)
    whole = trace(program, group, lane)
    assert [event for event in done if event[0] == "store"] == [event for event in whole if event[0] == "store"]
    assert sum(event == ("grid barrier",) for event in whole) == len(segments) - 1
