"""Doubles that wrap a backend see each way to run, and what can never fail is refused where it is asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest

import vyre
from support.small_programs import catalog_of, saxpy_kernel, saxpy_program
from vyre import (
    BackendError,
    DeviceLost,
    InvalidConfig,
    InvalidField,
    Program,
    ProgramBuilder,
    Session,
    Step,
    VyreError,
    u32,
)
from vyre.adapters.cuda.machine import driver
from vyre.adapters.cuda.machine.fault_plan import DriverCall, RunName
from vyre.domain.dispatch import DispatchTiming
from vyre.ports import Backend, DispatchRequest, OutputStorage, ProgramExecutor
from vyre.testing import (
    FailNth,
    Fault,
    FaultPlan,
    SlowKernel,
    cuda_machine,
    failing,
    function_backend,
    hooked,
    load_catalog,
    recording,
)

BACKENDS = ("reference", "cpu", "cuda-machine")


def _backend(name: str) -> Backend:
    registration = load_catalog().get(name)
    assert registration is not None
    return registration.make()


def _counting() -> Program:
    with ProgramBuilder("counting", workgroup=64) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = y[p.global_id()] + 1
    return p.build()


class Way(NamedTuple):
    """A way to run in an open session, prepared as far as it can be."""

    name: str
    run: Callable[[], object]


@contextmanager
def _ways(backend: Backend) -> Iterator[list[Way]]:
    """Everything that runs or copies, prepared where it can be prepared."""
    program, x = _counting(), np.zeros(3, np.uint32)

    async def awaited(session: Session) -> object:
        return await session.dispatch_async(program, {"y": x})

    with vyre.open("auto", catalog=catalog_of(backend), cache=False) as session:
        resident = session.resident(x)
        sequence = session.sequence([Step(program, {"y": resident})] * 2)
        with session.bind_resident(program, {"y": resident}) as bound:
            yield [
                Way("dispatch", lambda: session.dispatch(program, {"y": x})),
                Way("bind", session.bind(program, {"y": x})),
                Way("bind_resident", bound),
                Way("launch", bound.launch),
                Way("sequence", sequence),
                Way("submit", lambda: session.submit(program, {"y": x}).result()),
                Way("dispatch_async", lambda: asyncio.run(awaited(session))),
                Way("dispatch_many", lambda: session.dispatch_many(program, [{"y": x}] * 3)),
                Way("upload", lambda: resident.upload(x)),
                Way("download", resident.download),
            ]


@pytest.mark.parametrize("name", BACKENDS)
def test_each_way_to_run_is_seen_and_gives_the_same(name: str) -> None:
    backend, log = recording(_backend(name))
    unseen = []
    with _ways(backend) as ways:
        for way in ways:
            before = len(log.names)
            way.run()
            if len(log.names) == before:
                unseen.append(way.name)
        ran = ways[-1].run()
    assert not unseen
    assert isinstance(ran, np.ndarray)
    assert ran.tolist() == [0, 0, 0]  # after the upload


@pytest.mark.parametrize("name", BACKENDS)
def test_each_way_to_run_can_be_made_to_fail(name: str) -> None:
    class Injected(BackendError):
        """The failure made to order."""

    armed: list[bool] = []

    def hook(call: object) -> None:
        if armed:
            armed.clear()
            raise Injected("made to order")

    with _ways(hooked(_backend(name), hook)) as ways:
        for way in ways:
            way.run()
            armed.append(True)
            with pytest.raises(Injected):
                way.run()
            way.run()  # and no other call


def test_a_bound_launch_is_recorded_with_its_program() -> None:
    backend, log = recording(_backend("cpu"))
    with _ways(backend) as ways:
        next(way for way in ways if way.name == "bind_resident").run()
    bound = [call for call in log.calls if call.name in ("resident_binder.bind", "bound_step")]
    assert [call.name for call in bound][-1] == "bound_step"
    assert all(call.program is not None and call.program.name == "counting" for call in bound)


@pytest.mark.parametrize("name", ["cpu", "cuda-machine"])
def test_jobs_of_persistent_engines_are_seen(name: str) -> None:
    backend, log = recording(_backend(name))
    with (
        vyre.open("auto", catalog=catalog_of(backend), cache=False) as session,
        session.persistent(_counting(), {"y": np.zeros(3, np.uint32)}) as jobs,
    ):
        assert jobs.submit({"y": np.zeros(3, np.uint32)}).result()["y"].tolist() == [1, 1, 1]
    assert {"persistent.open", "engine.submit"} <= set(log.names)


def test_a_double_of_a_double_calls_both_hooks() -> None:
    first: list[str] = []
    inner = hooked(_backend("reference"), lambda call: first.append(call.name))
    backend, log = recording(inner)
    with _ways(backend) as ways:
        assert [way.run() for way in ways]
    assert first == log.names


@dataclass(frozen=True, slots=True)
class Wrapping:
    """A facet whose fields have the names that a wrapper is likely to use for its own."""

    inner: ProgramExecutor
    hook: str = "mine"
    program: str = "mine"

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        """Implements ``ProgramExecutor.execute``."""
        return self.inner.execute(request, outputs)


def test_a_facet_keeps_all_its_attributes() -> None:
    plain = function_backend(saxpy_kernel)
    backend, log = recording(replace(plain, executor=Wrapping(plain.executor)))
    executor: Any = backend.executor
    assert (executor.inner, executor.hook, executor.program) == (plain.executor, "mine", "mine")
    with vyre.open("auto", catalog=catalog_of(backend), cache=False) as session:
        session.dispatch(saxpy_program(), [2.0, np.zeros(4, np.float32), np.zeros(4, np.float32)])
    assert log.names == ["executor.execute"]


Refused = Callable[[], object]
IMPOSSIBLE: dict[str, tuple[Refused, str]] = {
    "a call of the driver": (lambda: FaultPlan(calls=(Fault(code=2, method="lunch"),)), "`launch`"),  # type: ignore[arg-type]
    "one that is prepared": (
        lambda: FaultPlan(calls=(Fault(code=2, method="prepare_launch"),)),  # type: ignore[arg-type]
        "one of .*launch",
    ),
    "a call among those that run": (lambda: FaultPlan(runs=(Fault(code=2, method="host_alloc"),)), "operation"),
    "a run among the calls": (lambda: FaultPlan(calls=(Fault(code=2, method="wait_event"),)), "`stream_wait_event`"),
    "the call before the first": (lambda: FaultPlan(calls=(Fault(code=2, nth=0),)), "an int from 1"),
    "half a call": (lambda: FaultPlan(runs=(Fault(code=2, nth=1.5),)), "an int from 1"),  # type: ignore[arg-type]
    "the launch before the first": (lambda: FaultPlan(slow=(SlowKernel(nth=0),)), "an int from 1"),
    "a facet": (lambda: FailNth(1, prefix="memroy."), "`memory`"),
    "a call of a facet": (lambda: FailNth(1, prefix="memory.downlaod"), "`memory.download`"),
    "call 0": (lambda: FailNth(0), "an int from 1"),
    "a facet that the backend lacks": (
        lambda: failing(function_backend(saxpy_kernel), 1, prefix="memory."),
        "executor.execute",
    ),
    "what no facet of it prepares": (
        lambda: failing(function_backend(saxpy_kernel), 1, prefix="bound_step"),
        "executor.execute",
    ),
}


@pytest.mark.parametrize(("plan", "near"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_a_failure_that_can_never_happen_is_refused_where_it_is_planned(plan: Refused, near: str) -> None:
    with pytest.raises(VyreError, match=near) as refusal:
        plan()
    assert isinstance(refusal.value, InvalidConfig | InvalidField)


def test_a_plan_tells_which_of_its_failures_have_not_happened() -> None:
    plan = FaultPlan(
        calls=(Fault(code=2, method="host_alloc"), Fault(code=2, method="graph_launch")),
        runs=(Fault(code=700, method="launch"),),
        slow=(SlowKernel(nth=1), SlowKernel(nth=9)),
    )
    machine = cuda_machine(faults=plan)
    with machine.open() as session:
        with pytest.raises(DeviceLost):
            session.dispatch(_counting(), {"y": np.zeros(3, np.uint32)})
        machine.backend.lifecycle.recover()
    with pytest.raises(
        AssertionError, match=r"never happened: Fault.*graph_launch.*SlowKernel\(nth=9.*; fired: "
    ) as end:
        plan.assert_fired()
    assert "host_alloc" not in str(end.value).partition("fired:")[0]
    assert plan.fired == [plan.calls[0], plan.slow[0], plan.runs[0]]  # the allocation was retried
    machine.driver.inject(plan)  # counts anew
    assert not plan.fired
    FaultPlan().assert_fired()


def test_a_failing_hook_tells_that_it_was_never_reached() -> None:
    fail = FailNth(2, prefix="executor")
    backend = hooked(function_backend(saxpy_kernel), fail)
    with vyre.open("auto", catalog=catalog_of(backend), cache=False) as session:
        inputs: list[Any] = [2.0, np.zeros(4, np.float32), np.zeros(4, np.float32)]
        session.dispatch(saxpy_program(), inputs)
        with pytest.raises(AssertionError, match="1 call\\(s\\) began with `executor`"):
            fail.assert_fired()
        with pytest.raises(BackendError):
            session.dispatch(saxpy_program(), inputs)
    fail.assert_fired()


def test_the_calls_of_plans_are_those_that_the_driver_counts() -> None:
    source = Path(driver.__file__).read_text()
    renamed = set(re.findall(r'seam_call\([^)]*method="(\w+)"', source))
    decorated = re.findall(r"@seam_call\(((?:(?!@seam_call).)*?)\)\n    def (\w+)", source, re.DOTALL)
    own = {name for arguments, name in decorated if "method=" not in arguments}
    assert set(get_args(DriverCall)) == renamed | own


def test_the_runs_of_plans_are_the_operations_that_are_submitted() -> None:
    names: set[str] = set()
    for path in Path(driver.__file__).parent.glob("*.py"):
        source = path.read_text()
        names |= set(re.findall(r'Operation\(\s*name="(\w+)"', source))
        names |= set(re.findall(r'submit_work\([^"]*?"(\w+)"', source))
    assert set(get_args(RunName)) == names
