"""Dispatches replayed as graphs: when, with how many driver calls, and what happens if the driver refuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.cuda.scenarios import INPUTS, PROGRAM, X, Y
from support.limits import LIMIT_S
from vyre.adapters.cuda.machine.fault_plan import DriverCall, Fault, FaultPlan
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import DeviceLost
from vyre.domain.identity import program_digest
from vyre.domain.launch_costs import ASSUMED, Measured, Provenance
from vyre.ports.requests import DispatchRequest
from vyre.testing import CudaMachine, cuda_machine
from vyre.testing.recording_telemetry import RecordingTelemetry

NOTHING: Final = Measured(0, 0, 0, 9, Provenance.MEASURED)
FREE: Final[dict[str, Any]] = dict.fromkeys(("graph_record", "graph_record_node", "graph_gap"), NOTHING)


def run(machine: CudaMachine, k: int = 3, config: DispatchConfig | None = None) -> bytes:
    arena = OutputArena()
    inputs = (memoryview(np.uint32(k).tobytes()), *INPUTS[1:])
    machine.backend.executor.execute(DispatchRequest(PROGRAM, inputs, config or DispatchConfig()), arena)
    return arena.to_bytes()[0]


def answer(k: int) -> bytes:
    return (Y + k * X).astype(np.uint32).tobytes()


def opened(options: CudaOptions | None = None) -> CudaMachine:
    machine = cuda_machine(options or CudaOptions(graph_after=2))
    machine.backend.lifecycle.prepare()
    return machine


def metric(machine: CudaMachine, name: str) -> int:
    assert machine.backend.metric_source is not None
    return machine.backend.metric_source.metrics()[name]


def test_the_third_dispatch_of_a_shape_is_recorded_and_later_ones_replay() -> None:
    machine = opened()
    for number in range(1, 6):
        assert run(machine) == answer(3)
        assert metric(machine, "graph_launches") == max(0, number - 2)
        assert machine.driver.live()["graph_exec"] == int(number > 2)
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())


def test_a_replay_is_one_launch() -> None:
    machine = opened()
    for _ in range(4):
        run(machine)
    before = Counter(machine.driver.calls)
    run(machine)
    spent = Counter(machine.driver.calls) - before
    assert spent["graph_launch"] == 1 and not spent["launch"] and not spent["copy_to_device"] and not spent["memset8"]
    assert set(spent) <= {"graph_launch", "event_record", "event_ready", "event_elapsed_ms"}, spent


def test_new_scalars_update_the_recording_and_old_ones_do_not() -> None:
    machine = opened()
    for k in (3, 3, 3, 5, 5, 2**32 - 1, 3):
        assert run(machine, k) == answer(k)
    assert machine.driver.calls["graph_update_kernel"] == 3
    assert machine.driver.live()["graph_exec"] == 1


def test_by_default_it_is_recorded_where_that_pays() -> None:
    dear = replace(ASSUMED, graph_record=Measured(10**12, 0, 0, 9, Provenance.MEASURED))
    cheap = replace(ASSUMED, **FREE)
    for costs, replays in ((dear, 0), (cheap, 4)):
        machine = opened(CudaOptions(costs=costs))
        for k in (3, 3, 5, 5, 3, 7):
            assert run(machine, k) == answer(k)
        assert metric(machine, "graph_launches") == replays
        planning = machine.backend.planning
        assert planning is not None
        assert {plan.work for plan in planning.plans()} == {f"cuda-machine:{program_digest(PROGRAM).hex()[:16]}"}
        assert all(str(plan.plan.why) and plan.plan.predicted is not None for plan in planning.plans())
        planning.use_costs(cheap)
        run(machine)
        assert metric(machine, "graph_launches") == replays + 1
        machine.backend.lifecycle.close()
        assert not any(machine.driver.live().values())


@pytest.mark.parametrize("submitted", [False, True])
def test_only_dispatches_that_are_waited_for_are_compared_with_their_plans(submitted: bool) -> None:
    """What is submitted ends when somebody asks for it."""
    telemetry, inputs = RecordingTelemetry(), (3, X, Y)
    with vyre.open("cuda-machine", cache=False, telemetry=telemetry) as session:
        for _ in range(9):
            if submitted:
                session.submit(PROGRAM, inputs).result(LIMIT_S)
            else:
                session.dispatch(PROGRAM, inputs)
    told = {name for name, _ in telemetry.counts}
    assert "vyre.plan.chosen" in told
    assert ("vyre.plan.observed_ns" in told) is not submitted


def test_no_more_graphs_are_kept_than_asked_for() -> None:
    """Shapes in turn push each other out; a graph that went is recorded again when its shape was seen again."""
    machine = opened(CudaOptions(graph_after=2, graphs=2))
    shapes = [
        (memoryview(np.uint32(3).tobytes()), *(memoryview(a[: 32 * n].tobytes()) for a in (X, Y))) for n in (1, 2, 3)
    ]
    arena = OutputArena()
    for _ in range(8):
        for inputs in shapes:
            machine.backend.executor.execute(DispatchRequest(PROGRAM, inputs), arena)
            n = len(inputs[1]) // 4
            assert arena.to_bytes()[0] == answer(3)[: 4 * n]
            assert machine.driver.live()["graph_exec"] <= 3  # one has left and is destroyed at the next call
    assert metric(machine, "graph_recordings") == metric(machine, "graph_evictions") + 2 > 3
    assert machine.driver.calls["graph_create"] == metric(machine, "graph_recordings")
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())


def test_a_graph_that_is_pushed_out_while_it_runs_is_destroyed_after() -> None:
    machine = opened(CudaOptions(graph_after=0, graphs=1))
    submit = machine.backend.async_executor
    assert submit is not None
    pending = [submit.submit(DispatchRequest(PROGRAM, INPUTS)) for _ in range(3)]
    assert machine.driver.live()["graph_exec"] == 3
    arena = OutputArena()
    for one in pending:
        one.wait(arena)
        assert arena.to_bytes()[0] == answer(3)
    machine.backend.lifecycle.flush()
    assert machine.driver.live()["graph_exec"] == 1
    machine.backend.lifecycle.close()


def test_graphs_of_a_lost_context_are_forgotten() -> None:
    machine = opened()
    for _ in range(4):
        run(machine)
    machine.driver.inject(FaultPlan(calls=(Fault(code=700, method="graph_launch"),)))
    with pytest.raises(DeviceLost):
        run(machine)
    machine.backend.lifecycle.recover()
    for _ in range(4):
        assert run(machine) == answer(3)
    assert machine.driver.live()["graph_exec"] == 1
    machine.backend.lifecycle.close()
    assert not machine.driver.violations and not any(machine.driver.live().values())


def test_it_can_be_switched_off() -> None:
    machine = opened(CudaOptions(graph_after=None))
    for _ in range(6):
        assert run(machine) == answer(3)
    assert metric(machine, "graph_launches") == 0 == machine.driver.calls["graph_create"]


def test_rounds_of_one_dispatch_are_nodes_of_one_graph() -> None:
    machine = opened()
    config = DispatchConfig(fixpoint_iterations=4)
    for _ in range(4):
        assert run(machine, 3, config) == answer(12)
    assert machine.driver.calls["graph_add_kernel"] == 4
    assert metric(machine, "kernel_launches") == 8 == metric(machine, "graph_kernels")


@pytest.mark.parametrize("method", ["graph_create", "graph_add_kernel", "graph_instantiate", "graph_launch"])
@pytest.mark.parametrize("code", [1, 2, 801])
def test_a_refused_graph_is_given_up_for_plain_launches(method: DriverCall, code: int) -> None:
    machine = opened()
    machine.driver.inject(FaultPlan(calls=(Fault(code=code, method=method),)))
    for _ in range(6):
        assert run(machine) == answer(3)
    assert metric(machine, "graph_fallbacks") == 1
    assert machine.driver.live()["graph"] == 0 == machine.driver.live()["graph_exec"]
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values())


def test_bytes_of_a_refused_replay_are_counted_once() -> None:
    found = []
    for after in (None, 1):
        machine = opened(CudaOptions(graph_after=after))
        machine.driver.inject(FaultPlan(calls=(Fault(code=1, method="graph_launch"),)))
        for _ in range(3):
            run(machine)
        found.append([metric(machine, name) for name in ("uploaded_bytes", "downloaded_bytes", "uploads")])
        assert metric(machine, "graph_fallbacks") == (after is not None)
    assert found[0] == found[1]


def test_an_update_that_fails_falls_back_with_the_new_value() -> None:
    machine = opened()
    for _ in range(4):
        run(machine)
    machine.driver.inject(FaultPlan(calls=(Fault(code=1, method="graph_update_kernel"),)))
    assert run(machine, 9) == answer(9)
    assert run(machine, 3) == answer(3)
    assert metric(machine, "graph_fallbacks") == 1
