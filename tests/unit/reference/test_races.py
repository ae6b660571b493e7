"""Data races: the tracer against the definition, applied to every pair of accesses."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.profiles import examples
from support.programs import Order, generate
from support.running import Failure, run
from vyre import ProgramBuilder, u32
from vyre.adapters.reference.engine import NO_OPTIONS
from vyre.adapters.reference.races import LISTED, RaceReport, RaceTracer
from vyre.adapters.reference.scalar_state import ElementBuffer, Workgroup
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import DataRaceError, TrapError
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch
from vyre.domain.races import DataRace, LanePlace, RacingAccess
from vyre.domain.source_location import SourceLocation
from vyre.domain.validation.validator import validate
from vyre.testing.execution import execute, open_backend
from vyre.testing.races import race_report

LANES = 3
VECTOR = VectorKernel


@dataclass(frozen=True, slots=True)
class Access:
    """One access as the definition sees it: where in the order of barriers and workgroups, by whom, what."""

    group: int
    epoch: int
    lane: int
    element: int
    kind: str
    data: bytes


accesses = st.builds(
    Access,
    st.just(0),
    st.just(0),
    st.integers(0, LANES - 1),
    st.just(0),
    st.sampled_from(["load", "store", "store", "atomic"]),
    st.sampled_from([b"a", b"b"]),
)
phases = st.lists(accesses, max_size=5)
runs = st.lists(st.lists(phases, min_size=1, max_size=3), min_size=1, max_size=3)
"""Workgroups of phases between barriers."""


def by_definition(trace: list[Access], *, equal_stores: bool) -> set[int]:
    """Elements with two unordered accesses by different lanes that conflict; or that are stores of equal bits."""
    found = set()
    for a, b in combinations(trace, 2):
        if a.element != b.element or (a.group, a.lane) == (b.group, b.lane):
            continue
        ordered = a.group == b.group and a.epoch != b.epoch
        kinds = {a.kind, b.kind}
        if ordered or kinds == {"load"} or kinds == {"atomic"}:
            continue
        if (kinds == {"store"} and a.data == b.data) is equal_stores:
            found.add(a.element)
    return found


def no_memory(name: str) -> ElementBuffer:
    raise AssertionError(f"{name} is not declared")


def watched(groups: list[list[list[Access]]]) -> tuple[list[Access], RaceReport]:
    tracer = RaceTracer({"y": 1}, {"y": 1}, frozenset())
    launch = Launch((len(groups), 1, 1), (LANES, 1, 1), 1, (), (), (), ())
    workgroup = Workgroup({}, launch, NO_OPTIONS, None, no_memory, size=LANES)
    trace: list[Access] = []
    for group, parts in enumerate(groups):
        workgroup.group = (group, 0, 0)
        tracer.workgroup(workgroup)
        for epoch, part in enumerate(parts):
            if epoch:
                tracer.barrier()
            for access in part:
                trace.append(replace(access, group=group, epoch=epoch))
                match access.kind:
                    case "load":
                        tracer.load("y", access.element, 1, access.lane, None)
                    case "store":
                        tracer.store("y", access.element, access.data, access.lane, None)
                    case _:
                        tracer.atomic("y", access.element, 1, access.lane, None)
    return trace, tracer.report()


def store(lane: int, data: bytes) -> Access:
    return Access(0, 0, lane, 0, "store", data)


@examples(400)
@given(runs)
@example([[[store(0, b"a"), store(1, b"a")], [store(0, b"b")]], [[store(0, b"a")]]])
@example([[[store(0, b"a"), store(0, b"b"), store(1, b"b")]]])
def test_the_tracer_finds_what_the_definition_finds(groups: list[list[list[Access]]]) -> None:
    trace, report = watched(groups)
    raced = by_definition(trace, equal_stores=False)
    assert {race.element for race in report.races} == raced
    noted = {note.element for note in report.notes}
    assert noted <= by_definition(trace, equal_stores=True)
    assert noted >= by_definition(trace, equal_stores=True) - raced


@examples(300)
@given(runs)
def test_both_accesses_of_a_race_happened_and_conflict(groups: list[list[list[Access]]]) -> None:
    trace, report = watched(groups)
    happened = {(a.kind, (a.group * LANES + a.lane, 0, 0), a.element) for a in trace}
    for race in (*report.races, *report.notes):
        assert race.first.lane != race.second.lane
        for access in (race.first, race.second):
            assert (access.kind, access.lane.global_id, race.element) in happened


def test_programs_that_depend_on_the_schedule_have_races() -> None:
    """Unless the order of their atomics matters, different bytes for different chunks can only come from a race."""
    dependent = 0
    for seed in range(50):
        case = generate(seed, order=Order.RACY)
        one, several = run(VECTOR, case, 1), run(VECTOR, case, 5)
        if validate(case.program).order_sensitive or isinstance(one, Failure) or one == several:
            continue
        dependent += 1
        inputs = [memoryview(case.inputs[b.name]) for b in case.program.abi_buffers if b.takes_input]
        assert race_report(case.program, inputs, case.config).races, f"seed {seed}"
    assert dependent


NEIGHBOURS = Program.from_text(
    """
    workgroup_size 4, 1, 1
    buffer y @0 read_write u32[runtime]
    buffer flag @1 write u32[1]
    body {
      flag[0u] = 1u
      y[gid.x] = y[gid.x + 1u]
    }
    """
)


def test_a_report_lists_races_and_notes() -> None:
    report = race_report(NEIGHBOURS, [memoryview(bytes(12))])
    load, store, flag = (SourceLocation("<text>", *place) for place in ((7, 18), (7, 7), (6, 7)))
    assert report.races == tuple(
        DataRace("y", i, RacingAccess("load", lane(i - 1), load), RacingAccess("store", lane(i), store)) for i in (1, 2)
    )
    assert report.notes == (
        DataRace("flag", 0, RacingAccess("store", lane(0), flag), RacingAccess("store", lane(1), flag)),
    )


def lane(local: int) -> LanePlace:
    """Of a launch of one workgroup in a row."""
    return LanePlace(local, (local, 0, 0), (0, 0, 0), (local, 0, 0))


@pytest.mark.parametrize("engine", ["reference", "reference-scalar"])
def test_both_engines_report_races_as_an_error(engine: str) -> None:
    config = DispatchConfig(race_check=True)
    with pytest.raises(
        DataRaceError,
        match=r"y\[1\]: load by lane 0 .* at <text>:7:18, store by lane 1 .* at <text>:7:7.*Fix: .*barrier.*atomic",
    ) as info:
        execute(open_backend(engine), NEIGHBOURS, {"y": bytes(12)}, config)
    assert [race.element for race in info.value.races] == [1, 2]
    assert [note.buffer for note in info.value.notes] == ["flag"]
    assert execute(open_backend(engine), NEIGHBOURS, {"y": bytes(4)}, config)["flag"] == b"\1\0\0\0"


def test_long_lists_end() -> None:
    count = 2 * LISTED
    with pytest.raises(DataRaceError, match=rf"and {LISTED - 4} more") as info:
        execute(open_backend("reference"), NEIGHBOURS, {"y": bytes(4 * count)}, DispatchConfig(race_check=True))
    assert len(info.value.races) == LISTED


def test_a_race_comes_before_the_trap_that_it_may_have_caused() -> None:
    program = Program.from_text(
        """
        workgroup_size 2, 1, 1
        param stop @0 u32
        buffer y @1 read_write u32[2]
        body {
          y[gid.x] = y[1u - gid.x]
          if gid.x == stop {
            trap(7u, "stop")
          }
        }
        """
    )
    inputs = {"stop": b"\1\0\0\0", "y": bytes(8)}
    with pytest.raises(DataRaceError) as info:
        execute(open_backend("reference"), program, inputs, DispatchConfig(race_check=True))
    assert isinstance(info.value.__cause__, TrapError)
    with pytest.raises(TrapError):
        race_report(program, [memoryview(data) for data in inputs.values()])


@pytest.mark.parametrize("apart", [False, True], ids=["one workgroup", "two workgroups"])
def test_a_race_names_the_lines_that_the_user_wrote_and_a_fix_that_helps(apart: bool) -> None:
    """Also of a copy, whose bytes are written at its wait."""
    with ProgramBuilder("lines", workgroup=1 if apart else 2) as p:
        x = p.input("x", u32, 2)
        y = p.output("y", u32, 1)
        copied = p.output("copied", u32, 1)
        i = p.global_id()
        line = inspect.currentframe().f_lineno  # type: ignore[union-attr]
        y[0] = i
        with p.if_(i == 1):
            copied[0] = y[0] + 7
        p.async_load(x, copied, offset=0, size=4, tag="copy")
        p.async_wait("copy")
    program = p.build()
    config = DispatchConfig(race_check=True, grid=(2 if apart else 1, 1, 1))
    with pytest.raises(DataRaceError) as info:
        execute(open_backend("reference"), program, {"x": bytes(8)}, config)
    lines = {race.buffer: [a.loc and a.loc.line - line for a in (race.first, race.second)] for race in info.value.races}
    assert lines == {"y": [1, 1], "copied": [4, 3] if apart else [3, 4]}
    first = info.value.races[0].first
    assert first.loc is not None and first.loc.file == __file__
    assert ("orders no lanes of different workgroups" if apart else "put a workgroup barrier") in info.value.fix
