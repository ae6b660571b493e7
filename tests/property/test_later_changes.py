"""A prepared launch reads its host arrays in each run, and takes all else by value, on every backend.

``WAYS`` are the ways to prepare a launch; each gives a function that runs it and returns what the launch has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

import vyre
from vyre import Batch, FixpointExecutor, In, Indirect, InOut, Repeat, Session, Step, UnsupportedFeature, u32

Run: TypeAlias = tuple[object, Callable[[], list[int]]]
"""A prepared launch, and the function that runs it and returns the elements it has read, plus the number ``more``."""
COUNT: Final = 40
OPENED: Final[list[vyre.ResidentArray]] = []


@vyre.kernel(workgroup=8)
def take(x: In[u32], more: u32, y: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = x[i] + more


@vyre.kernel(workgroup=8)
def settle(x: In[u32], more: u32, y: InOut[u32], changed: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        if y[i] != x[i] + more:
            changed.atomic_or(0, 1)
        y[i] = x[i] + more


@vyre.kernel(workgroup=8)
def handle(x: In[u32], more: u32, y: InOut[u32], items: In[u32], pushed: InOut[u32], count: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(items):
        y[items[i]] = x[items[i]] + more


@vyre.kernel(workgroup=8)
def all_pass(passed: InOut[u32]) -> None:
    if vyre.global_id() < len(passed):
        passed[vyre.global_id()] = 1


@vyre.kernel(workgroup=8)
def confirm(confirmed: InOut[u32]) -> None:
    if vyre.local_id() == 0:
        confirmed[vyre.group_id()] = 1


@vyre.kernel(workgroup=8)
def commit(x: In[u32], more: u32, y: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = x[i] + more


def bound(session: Session, x: Any, more: Any) -> Run:
    launch = session.bind(take, {"x": x, "more": more, "y": np.zeros(COUNT, np.uint32)})
    return launch, lambda: launch()["y"].tolist()


def memory(session: Session, count: int = COUNT) -> vyre.ResidentArray:
    array = session.resident(u32, count)
    OPENED.append(array)
    return array


def bound_resident(session: Session, x: Any, more: Any) -> Run:
    y = memory(session)
    launch = session.bind_resident(take, {"x": x, "more": more, "y": y})
    return launch, after(launch, y)


def after(run: Callable[[], object], result: vyre.ResidentArray) -> Callable[[], list[int]]:
    """Returns the function that runs, and returns what an array of the device holds then."""

    def content() -> list[int]:
        run()
        values: list[int] = result.download().tolist()
        return values

    return content


def counts_of(session: Session) -> vyre.ResidentArray:
    counts = memory(session, 3)
    counts.upload(np.array([COUNT // 8, 1, 1], np.uint32))
    return counts


def bound_indirect(session: Session, x: Any, more: Any) -> Run:
    y, counts = memory(session), counts_of(session)
    launch = session.bind_resident(take, {"x": x, "more": more, "y": y}, grid=Indirect(counts, most=COUNT))
    return launch, after(launch, y)


def in_a_sequence(session: Session, x: Any, more: Any, modes: Any = None) -> Run:
    y, z = memory(session), memory(session)
    steps = [Step(take, {"x": x, "more": more, "y": y}), Step(take, {"x": y, "more": 0, "y": z})]
    sequence = session.sequence(steps, modes=modes)
    return sequence, after(sequence, z)


def in_the_first_part(session: Session, x: Any, more: Any) -> Run:
    y, z = memory(session), memory(session)
    step = Step(take, {"x": x, "more": more, "y": y})
    sequence = session.sequence([Step(take, {"x": y, "more": 0, "y": z})], first=[step])
    return sequence, after(partial(sequence, 2), z)


def in_a_batch(session: Session, x: Any, more: Any) -> Run:
    y = memory(session)
    sequence = session.sequence([Batch(take, [{"x": x, "more": 9, "y": y}, {"x": x, "more": more, "y": y}])])
    return sequence, after(sequence, y)


def in_a_repeated_part(session: Session, x: Any, more: Any) -> Run:
    y, z = memory(session), memory(session)
    steps = [Step(take, {"x": x, "more": more, "y": y}), Step(take, {"x": y, "more": 0, "y": z})]
    sequence = session.sequence([Repeat(steps, 3)])
    return sequence, after(partial(sequence, 2), z)


def in_a_fixed_point(session: Session, x: Any, more: Any, executor: FixpointExecutor | None = None) -> Run:
    y, changed = memory(session), memory(session, 1)
    step = Step(settle, {"x": x, "more": more, "y": y, "changed": changed})
    fixed = session.fixpoint([step], changed=changed, limit=5, executor=executor)
    return fixed, after(fixed, y)


def in_a_work_queue(session: Session, x: Any, more: Any) -> Run:
    y = memory(session)
    roles: Any = {"items": "items", "pushed": "pushed", "count": "count"}
    queue = session.work_queue(handle, {"x": x, "more": more, "y": y}, **roles, capacity=COUNT)
    return queue, after(partial(queue, np.arange(COUNT, dtype=np.uint32)), y)


def in_a_speculation(session: Session, x: Any, more: Any) -> Run:
    y, passed, confirmed = memory(session), memory(session, COUNT // 8), memory(session, COUNT // 8)
    speculation = session.speculate(
        Step(all_pass, {"passed": passed}),
        Step(confirm, {"confirmed": confirmed}, grid=COUNT // 8),
        Step(commit, {"x": x, "more": more, "y": y}),
        passed=passed,
        confirmed=confirmed,
    )
    return speculation, after(speculation, y)


def forced(mode: str) -> Callable[[Session, Any, Any], Run]:
    return lambda session, x, more: in_a_sequence(session, x, more, {mode: True})


def executed(executor: FixpointExecutor) -> Callable[[Session, Any, Any], Run]:
    return lambda session, x, more: in_a_fixed_point(session, x, more, executor)


WAYS: Final[dict[str, Callable[[Session, Any, Any], Run]]] = {
    "bind": bound,
    "bind_resident": bound_resident,
    "bind_resident, indirect": bound_indirect,
    "sequence": in_a_sequence,
    "sequence, first": in_the_first_part,
    "sequence, Batch": in_a_batch,
    "sequence, Repeat": in_a_repeated_part,
    **{f"sequence, {mode}": forced(mode) for mode in ("plain", "graph", "fused", "persistent", "megakernel")},
    "fixpoint": in_a_fixed_point,
    **{f"fixpoint, {executor.value}": executed(executor) for executor in FixpointExecutor},
    "work_queue": in_a_work_queue,
    "speculate": in_a_speculation,
}


LACKED: Final = {
    "reference": {"sequence, graph", "sequence, persistent", "fixpoint, while_graph"},
    "reference-scalar": {"sequence, graph", "sequence, persistent", "fixpoint, while_graph"},
    "cpu": {"sequence, persistent", "fixpoint, while_graph"},
    "cuda-machine": {"sequence, persistent", "fixpoint, command_list"},
}
"""Modes and executors that a backend does not have, or not for steps that read the host."""
FIRST: Final = list(range(5, 5 + COUNT))
CHANGED: Final = list(range(105, 105 + COUNT))


@pytest.fixture(scope="module", params=["reference", "reference-scalar", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(backend=request.param, cache=False) as opened:
        yield opened


@pytest.fixture
def prepared(session: Session) -> Iterator[Callable[[str, Any, Any], Run]]:
    """Prepares in a way, and closes all memory afterwards."""
    with ExitStack() as stack:

        def prepare(way: str, x: Any, more: Any) -> Run:
            try:
                thing, run = WAYS[way](session, x, more)
            except (UnsupportedFeature, vyre.PlanError) as error:
                assert way in LACKED[session.backend], error
                pytest.skip(f"{session.backend} cannot: {error}")
            if isinstance(thing, vyre.BoundResidentLaunch | vyre.StepSequence | vyre.WorkQueue | vyre.Speculation):
                stack.callback(thing.close)
            return thing, run

        yield prepare
    while OPENED:
        OPENED.pop().close()


@pytest.mark.parametrize("way", WAYS)
def test_each_run_reads_the_array_as_it_is_then(prepared: Callable[[str, Any, Any], Run], way: str) -> None:
    x = np.arange(COUNT, dtype=np.uint32)
    thing, run = prepared(way, x, 5)
    assert run() == FIRST
    x += 100
    assert [run(), run()] == [CHANGED, CHANGED]
    x -= 100
    assert run() == FIRST
    assert "reads x" in repr(thing) and "of the host in each run" in repr(thing)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "bind"])
def test_memory_of_a_device_is_the_way_to_keep_what_an_array_holds_now(
    session: Session, prepared: Callable[[str, Any, Any], Run], way: str
) -> None:
    x = np.arange(COUNT, dtype=np.uint32)
    with session.resident(x) as kept:
        thing, run = prepared(way, kept, 5)
        x += 100
        assert [run(), run()] == [FIRST, FIRST]
        assert "of the host" not in repr(thing)


@pytest.mark.parametrize("way", WAYS)
def test_numbers_lists_and_copies_are_taken_by_value(prepared: Callable[[str, Any, Any], Run], way: str) -> None:
    x, more = np.arange(COUNT, dtype=np.uint32), np.array(5, np.uint32)
    listed, copied = x.tolist(), x.copy()
    runs = [prepared(way, data, more)[1] for data in (listed, copied, x.tobytes())]
    x += 100
    more += 1
    listed[:] = [0] * COUNT
    assert [run() for run in runs] == [FIRST] * 3


@pytest.mark.parametrize("way", ["bind", "bind_resident", "sequence"])
def test_memory_of_other_kinds_is_read_in_each_run(prepared: Callable[[str, Any, Any], Run], way: str) -> None:
    x = np.arange(COUNT, dtype=np.uint32)
    raw = bytearray(x.tobytes())
    runs = [prepared(way, data, 5)[1] for data in (raw, memoryview(raw), x.reshape(8, 5))]
    x += 100
    raw[:] = x.tobytes()
    assert [run() for run in runs] == [CHANGED] * 3


def test_a_launch_that_was_bound_before_does_not_hide_a_change(session: Session) -> None:
    """Bound launches are remembered by their arguments; a second one over the same array reads it anew."""
    x = np.arange(COUNT, dtype=np.uint32)
    with session.resident(u32, COUNT) as y:
        for shift in (5, 105):
            with session.bind_resident(take, {"x": x, "more": 5, "y": y}) as launch:
                launch()
                assert y.download().tolist() == list(range(shift, shift + COUNT))
            x += 100


@vyre.kernel(workgroup=8)
def chosen(x: In[vyre.bool_], y: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = vyre.select(x[i], u32(1), u32(0))


@pytest.mark.parametrize("way", ["bind", "bind_resident"])
def test_truth_values_of_numpy_are_converted_and_so_taken_by_value(session: Session, way: str) -> None:
    x = np.ones(COUNT, np.bool_)
    with session.resident(u32, COUNT) as y:
        launch = session.bind(chosen, {"x": x, "y": np.zeros(COUNT, np.uint32)}) if way == "bind" else None
        resident = session.bind_resident(chosen, {"x": x, "y": y})
        x[:] = False
        resident()
        assert (launch()["y"] if launch is not None else y.download()).tolist() == [1] * COUNT
        assert "reads x" not in repr(launch or resident)
        resident.close()
