"""Data races on the emulated device: told as the reference tells them, and no loss of the device."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from vyre import DataRaceError, DispatchConfig, Program, ProgramBuilder, ScalarType, u8, u32, u64
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.options import MachineOptions, RunOptions
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.races import DataRace
from vyre.testing import cuda_machine
from vyre.testing.execution import execute
from vyre.testing.races import races

CHECKED = DispatchConfig(race_check=True)


def one_statement() -> Program:
    with ProgramBuilder("one_statement", workgroup=4) as p:
        y = p.inout("y", u32, 4)
        y[p.global_id() / 3] = p.global_id()
    return p.build()


def neighbours(dtype: ScalarType = u32, workgroup: int = 8, count: int | None = None) -> Program:
    with ProgramBuilder("neighbours", workgroup=workgroup) as p:
        ahead = p.input("ahead", u32, 3)
        y = p.inout("y", dtype, count)
        i = p.global_id()
        below = y[i + ahead[0] - 1]
        y[i] = below + 1
    return p.build()


def workgroup_memory() -> Program:
    """Only the second workgroup leaves its barrier out."""
    with ProgramBuilder("workgroup_memory", workgroup=8) as p:
        y = p.output("y", u32, 16)
        spare = p.workgroup("spare", u32, 3)
        kept = p.workgroup("kept", u64, 8)
        spare[0] = 1
        kept[p.local_id()] = p.local_id().cast(u64)
        with p.if_(p.group_id() == 0):
            p.barrier()
        y[p.global_id()] = kept[7 - p.local_id()].cast(u32) + spare[0]
    return p.build(check=False)


def atomic_and_plain() -> Program:
    with ProgramBuilder("atomic_and_plain", workgroup=2) as p:
        y = p.inout("y", u32, 5)
        with p.if_(p.global_id() == 0):
            y.atomic_add(3, 1)
        with p.else_():
            y[3] = 7
    return p.build()


def vectors() -> Program:
    """Loads of four elements at once; one store goes into the vector of another lane."""
    with ProgramBuilder("vectors", workgroup=4) as p:
        x = p.inout("x", u32, 16)
        y = p.output("y", u32, 16)
        i = p.global_id() * 4
        with p.if_(p.global_id() < 4):
            a = p.let(x[i])
            b = p.let(x[i + 1])
            c = p.let(x[i + 2])
            d = p.let(x[i + 3])
            y[i] = a
            y[i + 1] = b
            y[i + 2] = c
            y[i + 3] = d
        with p.if_(p.global_id() == 0):
            x[6] = 1
    return p.build()


def many_buffers() -> Program:
    """So many that their addresses come in a table."""
    with ProgramBuilder("many_buffers", workgroup=2) as p:
        buffers = [p.inout(f"b{n}", u32, 4) for n in range(600)]
        i = p.global_id()
        buffers[7][i] = 1
        buffers[591][2 + i / 2] = i
    return p.build()


def after_a_grid_barrier() -> Program:
    with ProgramBuilder("after_a_grid_barrier", workgroup=2) as p:
        y = p.inout("y", u32, 4)
        y[p.global_id()] = 1
        p.grid_sync()
        y[2] = p.global_id()
    return p.build()


def copies() -> Program:
    with ProgramBuilder("copies", workgroup=2) as p:
        x = p.input("x", u32, 2)
        y = p.output("y", u32, 2)
        p.async_store(x, y, offset=p.global_id() * 4, size=8, tag="part")
        p.async_wait("part")
    return p.build()


class Case(NamedTuple):
    program: Program
    inputs: dict[str, Any]
    config: DispatchConfig = CHECKED


def on(groups: int) -> DispatchConfig:
    return replace(CHECKED, grid=(groups, 1, 1))


AHEAD = np.array([2, 0, 0], np.uint32)
CASES = {
    "one statement": Case(one_statement(), {"y": np.zeros(4, np.uint32)}, on(1)),
    "u8": Case(neighbours(u8), {"ahead": AHEAD, "y": np.arange(8, dtype=np.uint8)}),
    "u32": Case(neighbours(), {"ahead": AHEAD, "y": np.arange(8, dtype=np.uint32)}),
    "u64": Case(neighbours(u64), {"ahead": AHEAD, "y": np.arange(8, dtype=np.uint64)}),
    "between workgroups": Case(neighbours(workgroup=2), {"ahead": AHEAD, "y": np.arange(8, dtype=np.uint32)}),
    "workgroup memory": Case(workgroup_memory(), {}, on(2)),
    "atomic and plain": Case(atomic_and_plain(), {"y": np.zeros(5, np.uint32)}, on(1)),
    "vectors": Case(vectors(), {"x": np.arange(16, dtype=np.uint32)}, on(1)),
    "many buffers": Case(many_buffers(), {f"b{n}": np.zeros(4, np.uint32) for n in range(600)}, on(1)),
    "a later segment": Case(after_a_grid_barrier(), {"y": np.zeros(4, np.uint32)}, on(2)),
    "copies": Case(copies(), {"x": np.array([1, 2], np.uint32)}, on(1)),
}


def shown(race: DataRace) -> set[tuple[str, str]]:
    return {(access.kind, str(access.loc)) for access in (race.first, race.second)}


@pytest.mark.parametrize("schedule", ["lockstep", "reverse", "shuffled"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_race_is_told_as_by_the_reference(case: Case, schedule: Any) -> None:
    """Buffer, element, kinds and source lines; lanes are those of two accesses that conflict there."""
    expected = {(race.buffer, race.element): race for race in races(case.program, case.inputs, case.config).races}
    machine = cuda_machine(kernels=RunOptions(schedule=schedule, seed=3, check_races=False))
    with machine.open() as session, pytest.raises(DataRaceError) as info:
        session.dispatch(case.program, case.inputs, case.config)
    (race,) = info.value.races
    same = expected[race.buffer, race.element]
    assert shown(race) == shown(same)
    assert all(access.loc is not None and access.loc.file == __file__ for access in (race.first, race.second))
    assert race.first.lane != race.second.lane
    assert info.value.fix == race.remedy
    assert pickle.loads(pickle.dumps(info.value)).races == (race,)
    assert not any(machine.driver.live().values())


@pytest.mark.parametrize("name", ["atomic and plain", "vectors"])
def test_lanes_are_named_where_only_two_can_be_meant(name: str) -> None:
    case = CASES[name]
    (expected,) = races(case.program, case.inputs, case.config).races
    with cuda_machine().open() as session, pytest.raises(DataRaceError) as info:
        session.dispatch(case.program, case.inputs, case.config)
    (found,) = info.value.races
    assert {found.first, found.second} == {expected.first, expected.second}


# ---------------------------------------------------------------- life after a race
RACY = neighbours()
DATA = np.arange(8, dtype=np.uint32)
RACING, CALM = ({"ahead": np.array([n, 0, 0], np.uint32), "y": DATA} for n in (2, 1))
ANSWER = (DATA + 1).tolist()

Way = Callable[[vyre.Session, dict[str, Any]], object]


def dispatched(session: vyre.Session, inputs: dict[str, Any]) -> object:
    return session.dispatch(RACY, inputs)["y"].tolist()


def submitted(session: vyre.Session, inputs: dict[str, Any]) -> object:
    return session.submit(RACY, inputs).result(timeout=LIMIT_S)["y"].tolist()


def bound(session: vyre.Session, inputs: dict[str, Any]) -> object:
    return session.bind(RACY, inputs)()["y"].tolist()


def resident(session: vyre.Session, inputs: dict[str, Any]) -> object:
    with session.resident(DATA) as y:
        session.dispatch(RACY, {"ahead": inputs["ahead"], "y": y})
        return np.frombuffer(y.download(), np.uint32).tolist()


def sequence(session: vyre.Session, inputs: dict[str, Any]) -> object:
    with session.resident(DATA) as y:
        session.sequence([vyre.Step(RACY, {"ahead": inputs["ahead"], "y": y})])()
        return np.frombuffer(y.download(), np.uint32).tolist()


@pytest.mark.parametrize("graph_after", [None, 1], ids=["calls", "graphs"])
@pytest.mark.parametrize("way", [dispatched, submitted, bound, resident, sequence])
def test_a_race_leaves_the_session_usable(way: Way, graph_after: int | None) -> None:
    machine = cuda_machine(CudaOptions(graph_after=graph_after))
    with machine.open() as session:
        for _ in range(3):
            assert way(session, CALM) == ANSWER
            with pytest.raises(DataRaceError, match=r"y\["):
                way(session, RACING)
        assert way(session, CALM) == ANSWER
        assert not machine.backend.lifecycle.device_lost()
        session.flush()
    assert not any(machine.driver.live().values())
    assert not machine.driver.violations


@pytest.mark.parametrize("many", [1, 32], ids=["calls", "sequence"])
def test_a_bound_launch_on_resident_memory_may_be_called_again(many: int) -> None:
    """Whether it races depends on memory that changes between calls."""
    machine = cuda_machine(CudaOptions(graph_after=1))
    config = DispatchConfig(fixpoint_iterations=many)
    with machine.open() as session, session.resident(DATA) as y, session.resident(CALM["ahead"]) as ahead:
        launch = session.bind_resident(RACY, {"ahead": ahead, "y": y}, config)
        launch()
        ahead.upload(RACING["ahead"])
        for _ in range(2):
            with pytest.raises(DataRaceError):
                launch()
        ahead.upload(CALM["ahead"])
        y.upload(DATA)
        launch()
        assert np.frombuffer(y.download(), np.uint32).tolist() == (DATA + many).tolist()


def test_nothing_computes_behind_a_race_until_its_caller_knows() -> None:
    """A second launch on what the first one left half done might never end."""
    with ProgramBuilder("second", workgroup=1) as p:
        p.output("seen", u32, 1)[0] = p.inout("y", u32)[0]
    second = p.build()
    machine = cuda_machine()
    with machine.open() as session, session.resident(DATA) as y, session.resident(4) as seen:
        steps = [vyre.Step(RACY, {"ahead": RACING["ahead"], "y": y}), vyre.Step(second, {"y": y, "seen": seen})]
        with pytest.raises(DataRaceError):
            session.sequence(steps)()
        assert len(machine.driver.kernel_faults) == 1
        session.sequence(steps[1:])()


def test_a_race_is_told_to_whoever_submitted_it() -> None:
    machine = cuda_machine()
    with machine.open() as session:
        racing, calm = session.submit(RACY, RACING), session.submit(RACY, CALM)
        session.flush()
        assert calm.result(timeout=LIMIT_S)["y"].tolist() == ANSWER
        with pytest.raises(DataRaceError):
            racing.result(timeout=LIMIT_S)
        with pytest.raises(DataRaceError):
            session.dispatch_many(RACY, [CALM, RACING, CALM])


def test_nobody_is_told_of_a_race_of_work_that_was_given_up() -> None:
    machine = cuda_machine()
    with machine.open() as session:
        session.submit(RACY, RACING)
        assert session.dispatch(RACY, CALM)["y"].tolist() == ANSWER
    assert not any(machine.driver.live().values())


# ---------------------------------------------------------------- who looks for races
@pytest.fixture
def catalogued() -> Iterator[vyre.Session]:
    with vyre.open("cuda-machine") as session:
        yield session


def test_a_dispatch_asks_for_the_check(catalogued: vyre.Session) -> None:
    """The machine of the catalog runs programs that race on purpose, unless a dispatch asks for the check."""
    catalogued.dispatch(RACY, RACING)
    with pytest.raises(DataRaceError, match=r"y\[.*test_races.py:.*test_races.py:"):
        catalogued.dispatch(RACY, RACING, CHECKED)
    assert catalogued.dispatch(RACY, CALM, CHECKED)["y"].tolist() == ANSWER
    catalogued.dispatch(RACY, RACING)


@pytest.mark.parametrize("backend", ["reference", "reference-scalar", "cuda-machine"])
def test_every_way_to_run_takes_the_keyword(backend: str) -> None:
    with vyre.open(backend) as session:
        ways: list[Callable[[], object]] = [
            lambda: session.dispatch(RACY, RACING, race_check=True),
            lambda: session.compile(RACY, race_check=True)(RACING),
            lambda: session.bind(RACY, RACING, race_check=True)(),
            lambda: session.submit(RACY, RACING, race_check=True).result(timeout=LIMIT_S),
            lambda: session.dispatch_many(RACY, [CALM, RACING], race_check=True),
        ]
        for way in ways:
            with pytest.raises(DataRaceError, match=r"test_races.py:.*test_races.py:"):
                way()
        assert session.dispatch(RACY, CALM, race_check=True)["y"].tolist() == ANSWER
        with pytest.raises(vyre.InvalidConfig, match="race_check is given twice"):
            session.dispatch(RACY, CALM, CHECKED, race_check=True)
        session.flush()


class _Blind(MachineDriver):
    """A driver that cannot watch kernels, as that of a GPU."""

    @property
    def checks_races(self) -> bool:
        return False


def test_a_device_that_cannot_watch_refuses() -> None:
    backend = make_backend(_Blind(MachineOptions()), ids.MACHINE)
    with pytest.raises(vyre.UnsupportedFeature, match="race_check"):
        execute(backend, RACY, {name: data.tobytes() for name, data in CALM.items()}, CHECKED)
    backend.lifecycle.close()


# ---------------------------------------------------------------- where lines come from
def test_code_that_was_stored_names_lines_too(tmp_path: Path) -> None:
    for _ in range(2):
        with vyre.open("cuda-machine", cache=tmp_path) as session:
            with pytest.raises(DataRaceError) as info:
                session.dispatch(RACY, RACING, CHECKED)
            assert all(a.loc is not None for a in (info.value.races[0].first, info.value.races[0].second))


def test_a_program_without_locations_says_that_lines_are_unknown() -> None:
    program = Program.from_wire(RACY.to_wire())
    with cuda_machine().open() as session, pytest.raises(DataRaceError, match="at an unknown source line, ") as info:
        session.dispatch(program, RACING)
    assert info.value.races[0].buffer == "y"


def test_a_bundle_watches_for_races(tmp_path: Path) -> None:
    vyre.build_bundle(RACY, tmp_path / "racy.vyrz", targets=["cuda"])
    (racy,) = vyre.load_bundle(tmp_path / "racy.vyrz").values()
    with cuda_machine().open() as session:
        with pytest.raises(DataRaceError, match=r"y\[1\]: .* at an unknown source line, .* at an unknown source line"):
            session.dispatch(racy, RACING, CHECKED)
        assert session.dispatch(racy, CALM, race_check=True)["y"].tolist() == ANSWER
