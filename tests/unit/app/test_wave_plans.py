"""Plans of waves: reused by graphs of equal structure, decided by prices and by measured times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import vyre
from support.fuzzing.sequences import eager
from support.launch_costs import launch_costs
from vyre import Program, ProgramBuilder, ResidentArray, Session, Step, f32
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.calibration.service import CalibrationService
from vyre.app.sequences.joining import stage_of
from vyre.app.sequences.wave_plans import WavePlans, structure_of_waves
from vyre.domain.fusion.stages import StageCall
from vyre.policies.journal import Decision
from vyre.testing import cuda_machine


def reversal(factor: float = 0.5) -> Program:
    with ProgramBuilder("reversal", workgroup=256) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[x.length - 1 - i] * factor + 1.0
    return p.build()


def there_and_back(a: ResidentArray, b: ResidentArray, *, factor: float = 0.5) -> list[Step]:
    program = reversal(factor)
    return [Step(program, {"x": a, "y": b}), Step(program, {"x": b, "y": a})]


@pytest.fixture
def session() -> Iterator[Session]:
    with vyre.open("reference", cache=False) as opened:
        yield opened


def arrays(session: Session, count: int = 2, length: int = 2000) -> list[ResidentArray]:
    return [session.resident(np.arange(length, dtype=np.float32)) for _ in range(count)]


def close(held: list[ResidentArray]) -> None:
    for array in held:
        array.close()


def test_a_graph_of_equal_structure_reuses_the_program(session: Session) -> None:
    held = arrays(session, 4)
    one = session.sequence(there_and_back(*held[:2]) * 5, modes={"megakernel": True})
    other = session.sequence(there_and_back(*held[2:]) * 5, modes={"megakernel": True})
    stats = session._shared_plans().stats
    assert (stats.joined, stats.reused) == (1, 1)
    programs = [graph._structure.units[0].launch.step.program for graph in (one, other)]
    assert programs[0] is programs[1]
    one()
    other()
    assert held[0].download().tobytes() == held[2].download().tobytes()
    # The control: other programs, another number of waves, and arrays that are shared otherwise.
    session.sequence(there_and_back(*held[:2], factor=0.25) * 5, modes={"megakernel": True})
    session.sequence(there_and_back(*held[:2]) * 6, modes={"megakernel": True})
    session.sequence(there_and_back(*held[:2]) + there_and_back(*held[1:3]), modes={"megakernel": True})
    stats = session._shared_plans().stats
    assert (stats.joined, stats.reused) == (4, 1)
    close(held)


def calls(session: Session, steps: list[Step]) -> list[list[StageCall]]:
    bound = [session._bound_work(step) for step in steps]
    return [[stage_of(work.step, work.launch, number)] for number, work in enumerate(bound)]


def test_measured_times_of_equal_waves_replace_the_price(session: Session) -> None:
    held = arrays(session, 4)
    found = [calls(session, there_and_back(*pair)) for pair in (held[:2], held[2:])]
    assert structure_of_waves(found[0]) == structure_of_waves(found[1])
    plans = WavePlans()
    first = plans.choice(found[0], 2, 1_000, 900)
    assert first.kernel.one_kernel and "not measured" in str(first.kernel.why)
    assert not plans.choice(found[0], 2, 1_000_000, 900).kernel.one_kernel, "launches cost little beside their kernels"
    assert plans.choice(found[1], 2, 1_000, 900) == first
    for one_ns, apart_ns in ((500, 400), (400, 500)):
        plans.learn(first.key, one_ns, apart_ns)
        measured = plans.choice(found[1], 2, 1_000, 900)
        assert measured.kernel.one_kernel is (one_ns < apart_ns) and "measured: " in str(measured.kernel.why)
    close(held)


class Noted:
    """A sink that keeps the names of the decisions."""

    keeps = True

    def __init__(self) -> None:
        self.names: list[str] = []

    def note(self, decision: Decision) -> None:
        self.names.append(decision.name.rpartition(".")[2])


def test_the_policy_is_asked(session: Session) -> None:
    held = arrays(session)
    noted = Noted()
    plans = WavePlans(noted)
    plans.choice(calls(session, there_and_back(held[0], held[1])), 2, 1_000, 900)
    assert noted.names == ["choose_wave_kernel"]
    close(held)


@pytest.mark.parametrize(("launch", "kernels"), [(10_000_000, 1), (1, 4)])
def test_left_alone_launch_costs_choose(launch: int, kernels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        CalibrationService,
        "planning_costs",
        lambda _: launch_costs(launch=launch, graph_gap=launch, graph_replay_node=launch),
    )
    with eager(), cuda_machine(CudaOptions(graph_after=None)).open() as session:
        a, b = arrays(session)
        graph = session.sequence(there_and_back(a, b) * 2)
        wanted = [np.arange(2000, dtype=np.float32) for _ in range(2)]
        for _ in range(4):
            run = graph()
            for wave in range(4):
                wanted[1 - wave % 2] = wanted[wave % 2][::-1] * np.float32(0.5) + np.float32(1.0)
        assert run.kernels == kernels, run.plan
        (note,) = [each for each in run.plan.notes if each.startswith("waves: ")]
        assert "not measured" in note and (", more than" in note) is (kernels == 1)
        assert note in graph.explain().notes
        assert a.download().tobytes() == wanted[0].tobytes() and b.download().tobytes() == wanted[1].tobytes()
        # Forbidden, the waves stay launches.
        apart = session.sequence(there_and_back(a, b) * 2, modes={"megakernel": False})
        assert [apart().kernels for _ in range(4)] == [4] * 4
        close([a, b])
