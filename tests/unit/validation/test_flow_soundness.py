"""What validation accepts, no lane contradicts: checked against an interpreter that runs lanes one by one."""

from __future__ import annotations

from collections.abc import Iterator

from support.validation.flow_programs import Extra, flow_program
from support.validation.lane_traces import Event, trace
from vyre.domain.grid_sync import plan_grid_sync, plan_programs
from vyre.domain.ir.program import Program
from vyre.domain.ir.text import print_program
from vyre.domain.validation.validator import validate

_GROUPS, _LANES = 2, 4
_SEEDS = range(1000)


def _accepted(codes: set[str], *extras: Extra) -> Iterator[Program]:
    """Random programs that validation refuses for none of ``codes``; most are accepted, but not all.

    Every second one also has switches and chains of ``else if``.
    """
    made = [flow_program(seed, *extras, *((Extra.CHOICES,) if seed % 2 else ())) for seed in _SEEDS]
    kept = [program for program in made if not {found.code for found in validate(program).errors} & codes]
    assert len(made) // 5 < len(kept) < len(made)
    yield from kept


def _groups(program: Program) -> Iterator[list[list[Event]]]:
    for group in range(_GROUPS):
        yield [trace(program, group, lane) for lane in range(_LANES)]


def test_accepted_barriers_are_reached_by_all_lanes_or_none() -> None:
    for program in _accepted({"V010", "V210"}, Extra.BARRIERS, Extra.RETURNS):
        for lanes in _groups(program):
            barriers = [[event for event in lane if event[0] == "barrier"] for lane in lanes]
            assert all(found == barriers[0] for found in barriers), print_program(program)


def test_accepted_atomics_meet_no_plain_access() -> None:
    for program in _accepted({"V123"}, Extra.BARRIERS, Extra.ATOMICS, Extra.RETURNS):
        for lane in (lane for lanes in _groups(program) for lane in lanes):
            last: dict[str, str] = {}
            for kind, *rest in lane:
                if kind == "barrier":
                    last.clear()
                elif kind in ("plain", "atomic"):
                    assert last.setdefault(rest[0], kind) == kind, print_program(program)


def test_accepted_copies_are_paired() -> None:
    for program in _accepted({"V122"}, Extra.COPIES, Extra.RETURNS):
        for lane in (lane for lanes in _groups(program) for lane in lanes):
            pending: set[str] = set()
            for kind, *rest in lane:
                if kind == "start":
                    assert rest[0] not in pending, print_program(program)
                    pending.add(rest[0])
                elif kind == "wait":
                    assert rest[0] in pending, print_program(program)
                    pending.remove(rest[0])
            assert not pending, print_program(program)


def test_a_plan_does_what_the_program_does() -> None:
    for program in _accepted({"V207", "V208", "V209", "V210"}, Extra.GRID_BARRIERS, Extra.PRIVATE):
        segments = list(plan_programs(plan_grid_sync(program)))
        assert all(validate(segment).ok for segment in segments)
        for group in range(_GROUPS):
            for lane in range(_LANES):
                whole = trace(program, group, lane)
                done = [event for number, part in enumerate(segments) for event in trace(part, group, lane, number)]
                assert sum(event == ("grid barrier",) for event in whole) == len(segments) - 1
                assert _stores(done) == _stores(whole), print_program(program)


def _stores(events: list[Event]) -> list[Event]:
    return [event for event in events if event[0] == "store"]
