"""What ``Session.explain`` prices is what a session then plans: the same operations, modes, prices and verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import vyre
from support.launch_costs import launch_costs, measured
from support.small_programs import saxpy_program, square_kernel, square_program
from vyre import Program, ProgramBuilder, Session, u32
from vyre.adapters.cuda.decisions.ptx_target import TargetInputs, select_target
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.cuda.runtime.host_slot import GRAPH_BYTES
from vyre.adapters.replay_decision import NODE_LIMIT
from vyre.app.explain.explanation import Question, explain
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import InvalidInput
from vyre.domain.launch_costs import LaunchCosts, Provenance
from vyre.gallery.registry import load
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.execution_prices import ExecutionMode, Price
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.ports.planning import DispatchWork, PlannedExecution
from vyre.testing import CudaMachine, cuda_machine
from vyre.testing.fakes import function_backend

DISPATCHES: Final = 5
X: Final = np.arange(512, dtype=np.uint32)
COSTS: Final = {
    "graphs are free": launch_costs(graph_record=0, graph_record_node=0, graph_replay=0, graph_replay_node=0),
    "graphs are dear": launch_costs(graph_record=10**12),
}
CALLS: Final = ("launch", "launch_cooperative", "copy_to_device", "copy_to_host", "memset8")
USUAL: Final = CudaOptions()
SPLIT: Final = CudaOptions(grid_sync=GridSyncMode.SPLIT)


class Work(NamedTuple):
    """A program that is dispatched, and how many operations and kernels that takes."""

    program: Program
    inputs: Mapping[str, Any]
    operations: int
    kernels: int = 1
    config: DispatchConfig = DEFAULT_CONFIG
    options: CudaOptions = USUAL


def gallery(module: str, operations: int, kernels: int = 1, options: CudaOptions = USUAL, **config: Any) -> Work:
    example = load(module)
    case = example.case()
    return Work(example.program(), case.inputs, operations, kernels, replace(case.config, **config), options)


def filled() -> Program:
    """Zeroed and written, read by nobody, and no input."""
    with ProgramBuilder("filled", workgroup=64) as p:
        out = p.output("out", u32, 64)
        out[p.global_id()] = p.global_id()
    return p.build()


def ends() -> Program:
    """Returns two ranges that lie too far apart to be copied as one."""
    with ProgramBuilder("ends", workgroup=64) as p:
        first = p.output("first", u32, 1 << 14, output_range=(0, 64))
        last = p.output("last", u32, 1 << 14, output_range=(0, 64))
        first[p.global_id()] = u32(1)
        last[p.global_id()] = u32(2)
    return p.build()


def trapping() -> Program:
    with ProgramBuilder("trapping", workgroup=64) as p:
        x = p.inout("x", u32)
        i = p.global_id()
        with p.if_(x[i] == 7_777):
            p.trap(i, "seven")
        x[i] = x[i] + 1
    return p.build()


WORKS: Final[dict[str, Callable[[], Work]]] = {
    "an input and an output": lambda: Work(square_program(), {"x": X}, operations=4),
    "a scalar": lambda: Work(saxpy_program(), {"a": 2.0, "x": X.view("f4"), "y": X.view("f4")}, operations=3),
    "nothing goes in": lambda: Work(filled(), {}, operations=3),
    "two ranges come back": lambda: Work(ends(), {}, operations=4),
    "iterations": lambda: Work(
        saxpy_program(),
        {"a": 0.0, "x": X.view("f4"), "y": X.view("f4")},
        operations=102,
        kernels=100,
        config=DispatchConfig(fixpoint_iterations=100),
    ),
    "it may trap": lambda: Work(trapping(), {"x": X}, operations=4),
    "a uniform": lambda: gallery("basics.p11_stencil", operations=4),
    "a uniform and a byte for each lane": lambda: gallery("basics.p13_fnv", operations=4),
    "an atomic total": lambda: gallery("basics.p12_popcount", operations=4),
    "two dimensions": lambda: gallery("basics.p10_matmul", operations=4),
    "a grid barrier in one kernel": lambda: gallery("basics.p24_grid_sync", operations=4),
    "a grid barrier between kernels": lambda: gallery("basics.p24_grid_sync", 5, 2, SPLIT),
    "iterations of two kernels": lambda: gallery("basics.p24_grid_sync", 13, 10, SPLIT, fixpoint_iterations=5),
}


def dispatched(session: Session, machine: CudaMachine, work: Work) -> int:
    """Calls that one dispatch made to launch, copy and fill."""
    before = Counter(machine.driver.calls)
    session.dispatch(work.program, work.inputs, work.config)
    spent = Counter(machine.driver.calls) - before
    return sum(spent[call] for call in CALLS)


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("case", WORKS)
def test_an_explanation_is_of_what_is_planned(case: str, costs: str) -> None:
    work = WORKS[case]()
    machine = cuda_machine(replace(work.options, costs=COSTS[costs]))
    with machine.open() as session:
        first = session.explain(work.program, work.config, inputs=work.inputs, costs=COSTS[costs])
        assert machine.driver.calls["launch"] == 0
        assert dispatched(session, machine, work) == work.operations
        for _ in range(DISPATCHES):
            session.dispatch(work.program, work.inputs, work.config)
        planned = session.explain().planned[0]
        known = planned.inputs.workload
        assert known.kernel is not None
        again = session.explain(
            work.program,
            work.config,
            inputs=work.inputs,
            repeats=known.repeats,
            costs=planned.inputs.costs,
            kernel_time_ns=-(-known.kernel.median_ns * work.operations // work.kernels),
        )
    assert (first.work.operations, first.work.kernels) == (work.operations, work.kernels)
    assert first.work == again.work
    assert replace(again.inputs.workload, kernel=known.kernel) == known
    assert again.inputs.executable == planned.inputs.executable
    prices = [[quote.total_ns for quote in p.quotes if isinstance(quote, Price)] for p in (again.plan, planned.plan)]
    assert prices[0] == prices[1] and len(prices[0]) == 2
    assert again.plan.mode is planned.plan.mode is (ExecutionMode.GRAPH if "free" in costs else ExecutionMode.PLAIN)


NEVER_RECORDED: Final[dict[str, Callable[[], Work]]] = {
    "it is not wanted": lambda: Work(square_program(), {"x": X}, 4, options=CudaOptions(graph_after=None)),
    "traps are looked for between kernels": lambda: Work(
        trapping(), {"x": X}, 5, 2, DispatchConfig(fixpoint_iterations=2)
    ),
    "there is too much to copy": lambda: Work(square_program(), {"x": np.zeros(GRAPH_BYTES // 4, np.uint32)}, 4),
    "nothing runs": lambda: Work(square_program(), {"x": X[:0]}, 0, 0),
    "it is too long": lambda: Work(
        square_program(), {"x": X[:64]}, NODE_LIMIT + 3, NODE_LIMIT, DispatchConfig(fixpoint_iterations=NODE_LIMIT)
    ),
}


@pytest.mark.parametrize("case", NEVER_RECORDED)
def test_what_is_never_recorded_has_no_price_as_a_graph(case: str) -> None:
    work, costs = NEVER_RECORDED[case](), COSTS["graphs are free"]
    machine = cuda_machine(replace(work.options, costs=costs))
    with machine.open() as session:
        found = session.explain(work.program, work.config, inputs=work.inputs, repeats=1_000, costs=costs)
        for _ in range(3):
            session.dispatch(work.program, work.inputs, work.config)
        assert session.explain().planned == ()
    assert (found.work.operations, found.work.kernels) == (work.operations, work.kernels)
    assert found.plan.mode is ExecutionMode.PLAIN and found.plan.price(ExecutionMode.GRAPH) is None


def test_a_number_of_runs_decides_aloud() -> None:
    with cuda_machine(CudaOptions(graph_after=3)).open() as session:
        found = session.explain(square_program(), inputs={"x": X}, costs=COSTS["graphs are dear"])
    assert found.notes[0] == "costs do not decide here: replayed as a graph after 3 runs"
    assert found.plan.price(ExecutionMode.GRAPH) is not None


def test_a_kernel_takes_no_longer_beside_copies() -> None:
    """What is told is the time of a launch; what is priced, the mean of all operations."""
    with cuda_machine().open() as session:
        found = session.explain(square_program(), inputs={"x": X}, costs=COSTS["graphs are dear"], kernel_time_ns=4_000)
    assert found.inputs.workload.nodes == 4
    assert found.inputs.workload.kernel == measured(1_000, provenance=Provenance.ASSUMED)


def open_ended() -> Program:
    with ProgramBuilder("open_ended", workgroup=(8, 8, 1)) as p:
        x = p.input("x", u32)
        out = p.output("out", u32, output_range=(0, 1_024))
        out[p.global_id()] = x[p.global_id(1)]
    return p.build()


def test_sizes_that_are_left_open_are_assumed_aloud() -> None:
    with cuda_machine().open() as session:
        found = session.explain(open_ended(), costs=COSTS["graphs are dear"], kernel_time_ns=0)
        told = session.explain(
            open_ended(),
            inputs={"x": X},
            grid=1,
            output_counts={"out": 256},
            costs=COSTS["graphs are dear"],
            kernel_time_ns=0,
        )
    assert found.notes == ("sizes are left open: 64 elements of `x`, `out` and one workgroup are assumed",)
    assert (told.notes, told.work) == ((), found.work)


def test_lengths_are_those_of_the_inputs() -> None:
    with cuda_machine().open() as session:
        small, empty = (session.explain(square_program(), inputs={"x": x}) for x in (X, X[:0]))
        with pytest.raises(InvalidInput):
            session.explain(square_program(), inputs={})
    assert (small.work.operations, empty.work.operations) == (4, 0)
    assert ["nothing runs" in " ".join(each.notes) for each in (small, empty)] == [False, True]


def test_a_backend_that_plans_nothing_launches_plainly() -> None:
    with vyre.open("reference", cache=False) as session:
        found = session.explain(square_program(), DispatchConfig(fixpoint_iterations=7), costs=launch_costs())
    assert (found.work, found.plan.mode) == (DispatchWork(7, 7, frozenset()), ExecutionMode.PLAIN)
    assert [answer.topic for answer in found.others] == ["optimizer", "workgroup sizes"]


def test_what_another_backend_decides_is_told_in_its_own_words() -> None:
    @dataclass
    class Planning:
        """Of a backend with a policy of its own."""

        def use_costs(self, costs: LaunchCosts, /) -> None:
            raise NotImplementedError

        def plans(self) -> tuple[PlannedExecution, ...]:
            return ()

        def work(
            self,
            program: Program,
            config: DispatchConfig,
            input_nbytes: tuple[int, ...],
            sink: DecisionSink | None = None,
            /,
        ) -> DispatchWork:
            assert sink is not None
            decide(sink, select_target, TargetInputs(90))
            return DispatchWork(9, 2, frozenset({ExecutionMode.PERSISTENT}))

    backend = replace(function_backend(square_kernel), planning=Planning(), stores_code=True)
    found = explain(backend, Question(square_program(), DEFAULT_CONFIG, (8,), 1, 1, None, launch_costs(), "given"))
    assert [answer.topic for answer in found.others] == ["select target", "workgroup sizes"]
    assert found.inputs.workload.nodes == 9
    assert found.plan.price(ExecutionMode.PERSISTENT) is not None


def test_costs_that_nobody_measured_are_assumed_aloud_unless_measured_ones_are_asked_for() -> None:
    with vyre.open("reference", cache=False) as session:
        known = session.calibrate(rounds=5).costs
        filled, strict = session.explain(square_program()), session.explain(square_program(), costs="measured")
    price, nothing = filled.plan.price(ExecutionMode.PLAIN), strict.plan.price(ExecutionMode.PLAIN)
    assert price is not None and nothing is None and known.launch is not None
    assert {term.cost: term.each_ns for term in price.terms}["launch"] == known.launch.median_ns
    assert price.provenance is Provenance.ASSUMED
    assert "costs that were not measured are assumed" in str(filled)
    assert "costs that were not measured are assumed" not in str(strict)
