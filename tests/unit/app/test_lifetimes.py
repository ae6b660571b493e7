"""Memory that is closed or dropped while something else still knows it, and copies of what there is only one of."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import vyre
from support.cpu.pool import until_collected
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre import DispatchConfig, In, InOut, Step, f32
from vyre.adapters.host.memory import HostBuffer
from vyre.domain.errors import InvalidResource
from vyre.domain.unique import Unique
from vyre.testing import cuda_machine

BACKENDS = ("reference", "cpu", "cuda-machine")
X = np.ones(1000, np.float32)
MANY = DispatchConfig(fixpoint_iterations=20)
"""So many launches that the CUDA backend replays a graph of them."""
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@vyre.kernel
def add(x: In[f32], y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = y[i] + x[i]


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


# ---------------------------------------------------------------- closed memory
Bound = Callable[[vyre.Session, vyre.ResidentArray, vyre.ResidentArray], Callable[[], object]]


def launched(session: vyre.Session, x: vyre.ResidentArray, y: vyre.ResidentArray) -> Callable[[], object]:
    return session.bind_resident(add, {"x": x, "y": y})


def unchecked(session: vyre.Session, x: vyre.ResidentArray, y: vyre.ResidentArray) -> Callable[[], object]:
    return session.bind_resident(add, {"x": x, "y": y}).launch


def repeated(session: vyre.Session, x: vyre.ResidentArray, y: vyre.ResidentArray) -> Callable[[], object]:
    return session.bind_resident(add, {"x": x, "y": y}, MANY)


def in_sequence(session: vyre.Session, x: vyre.ResidentArray, y: vyre.ResidentArray) -> Callable[[], object]:
    return session.sequence([Step(add, {"x": x, "y": y})])


def downloaded(session: vyre.Session, x: vyre.ResidentArray, y: vyre.ResidentArray) -> Callable[[], object]:
    return session.bind_download([y, x])


@pytest.mark.parametrize("bound", [launched, unchecked, repeated, in_sequence, downloaded])
@pytest.mark.parametrize("closed", ["written", "read", "part", "whole", "session"])
def test_what_is_bound_refuses_once_its_memory_is_closed(session: vyre.Session, bound: Bound, closed: str) -> None:
    x, whole = session.resident(X), session.resident(np.zeros(2000, np.float32))
    y = whole[500:1500] if closed in ("part", "whole") else session.resident(np.zeros(1000, np.float32))
    run = bound(session, x, y)
    run()
    memory = {"written": y, "read": x, "part": y, "whole": whole}
    (session if closed == "session" else memory[closed]).close()
    if closed == "session":
        with pytest.raises((InvalidResource, vyre.DispatchFailed), match="closed"):
            run()
        return
    others = [session.resident(np.full(1000, 5, np.float32)) for _ in range(4)]
    for _ in range(2):
        with pytest.raises(InvalidResource, match=r"closed.*Fix: "):
            run()
    for other in others:
        assert (other.download() == 5).all()


def test_memory_that_is_closed_during_a_launch_of_another_thread_serves_no_other_array() -> None:
    """On CUDA it would be taken for the next array, which the launch would write to."""
    interval, failures = sys.getswitchinterval(), list[BaseException]()
    sys.setswitchinterval(1e-5)
    try:
        with cuda_machine().open() as session:
            x = session.resident(X)
            for _ in range(10):
                y = session.resident(np.zeros(1000, np.float32))
                run, began = session.bind_resident(add, {"x": x, "y": y}).launch, threading.Event()

                def use(
                    run: Callable[[], object] = run, y: vyre.ResidentArray = y, began: threading.Event = began
                ) -> None:
                    try:
                        while True:
                            run()
                            began.set()
                            session.dispatch(add, {"x": x, "y": y})
                            y.download()
                    except InvalidResource:
                        pass
                    except BaseException as error:
                        failures.append(error)

                thread = threading.Thread(target=use)
                thread.start()
                assert began.wait(LIMIT_S)
                y.close()
                others = [session.resident(np.full(1000, 5, np.float32)) for _ in range(4)]
                thread.join(LIMIT_S)
                assert all((other.download() == 5).all() for other in others)
                for other in others:
                    other.close()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


# ---------------------------------------------------------------- dropped memory
def an_array(session: vyre.Session) -> None:
    session.resident(np.zeros(20_000, np.float32))


def a_used_array(session: vyre.Session) -> None:
    array = session.resident(np.zeros(20_000, np.float32))
    session.dispatch(add, {"x": np.zeros(20_000, np.float32), "y": array})


def a_cycle(session: vyre.Session) -> None:
    array: list[object] = [session.resident(np.zeros(20_000, np.float32))]
    array.append(array)


def a_part(session: vyre.Session) -> object:
    return session.resident(np.zeros(20_000, np.float32))[5:]


def a_launch(session: vyre.Session) -> object:
    x, y = session.resident(np.zeros(20_000, np.float32)), session.resident(np.zeros(20_000, np.float32))
    launch = session.bind_resident(add, {"x": x, "y": y})
    launch()
    return launch.launch


def a_download(session: vyre.Session) -> object:
    array = session.resident(np.zeros(20_000, np.float32))
    return session.bind_download([array, array[:5]])()


def a_sequence(session: vyre.Session) -> object:
    y = session.temporary(f32, 20_000)
    return session.sequence([Step(add, {"x": np.zeros(20_000, np.float32), "y": y})])()


def persistent_jobs(session: vyre.Session) -> object:
    return session.persistent(add).submit({"x": X, "y": X})


@pytest.mark.parametrize(
    "dropped", [an_array, a_used_array, a_cycle, a_part, a_launch, a_download, a_sequence, persistent_jobs]
)
def test_what_is_dropped_gives_its_memory_back(dropped: Callable[[vyre.Session], object]) -> None:
    turns = 20 if dropped is persistent_jobs else 120
    with cuda_machine(memory_bytes=4 << 20).open() as session:
        for _ in range(turns):
            dropped(session)


def test_a_dropped_launch_gives_its_stream_back() -> None:
    machine = cuda_machine()
    with machine.open() as session:
        for _ in range(20):
            a_launch(session)
        assert machine.driver.calls["stream_create"] <= 3


def test_finalizers_make_no_call_of_the_driver() -> None:
    """They run at any moment and on any thread, also in the midst of a call."""
    machine = cuda_machine()
    with machine.open() as session:
        kept = [
            session.resident(X),
            a_launch(session),
            session.sequence([Step(add, {"x": X, "y": session.resident(X)})]),
        ]
        jobs = session.persistent(add)
        jobs.submit({"x": X, "y": X}).result()
        before = sum(machine.driver.calls.values())
        del kept, jobs
        gc.collect()
        assert sum(machine.driver.calls.values()) == before


def a_sequence_with_first(session: vyre.Session) -> None:
    x, y = session.resident(X), session.resident(X)
    session.sequence([Step(add, {"x": x, "y": y})], first=[Step(add, {"x": X, "y": x})])(2)


def a_fixed_point(session: vyre.Session) -> None:
    x, y = session.resident(X), session.resident(X)
    session.fixpoint([Step(add, {"x": x, "y": y})], changed=session.resident(np.zeros(1, np.uint32)), limit=3)()


def a_closed_launch(session: vyre.Session) -> None:
    arrays = {"x": session.resident(X), "y": session.resident(X)}
    for _ in range(2):
        with session.bind_resident(add, arrays) as launch:
            launch()


def a_sequence_of_arrays(session: vyre.Session) -> None:
    x, y = session.resident(X), session.resident(X)
    run = session.sequence([Step(add, {"x": x, "y": y}), Step(add, {"x": y, "y": x})])
    for rounds in (1, 3, 1):
        run(rounds)


@pytest.mark.parametrize("backend", ["reference", pytest.param("cpu", marks=NEEDS_LLVM)])
@pytest.mark.parametrize(
    "dropped",
    [
        an_array,
        a_used_array,
        a_part,
        a_launch,
        a_closed_launch,
        a_download,
        a_sequence,
        a_sequence_of_arrays,
        a_sequence_with_first,
        a_fixed_point,
    ],
)
def test_what_is_dropped_on_the_host_is_freed_at_once(
    backend: str, dropped: Callable[[vyre.Session], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the 33rd sequence nor a collection of garbage has to come first."""
    memory, make = list[weakref.ref[object]](), HostBuffer.__init__

    def recorded(buffer: HostBuffer, *arguments: Any, **named: Any) -> None:
        make(buffer, *arguments, **named)
        if buffer.base is None:
            memory.append(weakref.ref(buffer.data))

    monkeypatch.setattr(HostBuffer, "__init__", recorded)
    with vyre.open(backend, cache=False) as session:
        gc.disable()
        try:
            for _ in range(3):
                dropped(session)
            assert memory and [block() for block in memory if block() is not None] == []
        finally:
            gc.enable()


@NEEDS_LLVM
def test_lists_of_closed_arrays_give_their_memory_back_for_the_next_array() -> None:
    """Kept are the lists of many sequences, and so was their memory."""
    with vyre.open("cpu", cache=False) as session:
        blocks = list[weakref.ref[object]]()
        for _ in range(6):
            with session.resident(np.zeros(20_000, np.float32)) as y:
                session.dispatch(add, {"x": np.zeros(20_000, np.float32), "y": y})
                session.sequence([Step(add, {"x": y, "y": session.temporary(f32, 20_000)})])()
                blocks.append(weakref.ref(y.buffer))
            del y
        gc.collect()
        assert sum(block() is not None for block in blocks[:-1]) == 0


def nothing(session: vyre.Session) -> object:
    return None


def a_submit(session: vyre.Session) -> object:
    return session.submit(add, {"x": X, "y": X}).result()


def a_recorded_launch(session: vyre.Session) -> object:
    x, y = session.resident(X), session.resident(X)
    return session.bind_resident(add, {"x": x, "y": y}, MANY)()  # a graph


def jobs_with_a_callback(session: vyre.Session) -> object:
    ticket = session.persistent(add).submit({"x": X, "y": X})
    ticket.add_done_callback(lambda _: None)
    return ticket.result()


@pytest.mark.parametrize(
    "used",
    [
        nothing,
        an_array,
        a_used_array,
        a_cycle,
        a_part,
        a_launch,
        a_recorded_launch,
        a_download,
        a_sequence,
        a_submit,
        persistent_jobs,
        jobs_with_a_callback,
    ],
)
def test_a_session_that_is_dropped_gives_everything_back(used: Callable[[vyre.Session], object]) -> None:
    machine = cuda_machine()
    driver, session = machine.driver, machine.open()
    used(session)
    del session, machine
    until_collected(lambda: not any(driver.live().values()))
    assert not list(driver.violations)


def test_a_session_that_is_dropped_leaves_its_pipelines_and_arrays_at_work() -> None:
    machine = cuda_machine()
    session = machine.open()
    pipeline, array = session.compile(add), session.resident(X)
    del session, machine
    gc.collect()
    assert pipeline({"x": X, "y": X})["y"].tolist() == (X + X).tolist()
    assert array.download().tolist() == X.tolist()


# ---------------------------------------------------------------- copies
def test_copies_and_pickles_are_refused_before_they_exist(session: vyre.Session) -> None:
    """One object of each class that a session leads to is copied: what a copy would own is neither closed nor freed."""
    y = session.resident(X)
    run = session.bind_resident(add, {"x": X, "y": y})
    run()
    unique: list[object] = [
        session,
        session.compile(add),
        y,
        y[3:10],
        run,
        session.bind(add, {"x": X, "y": X}),
        session.bind_download([y]),
        session.sequence([Step(add, {"x": X, "y": y})]),
        session.submit(add, {"x": X, "y": X}),
    ]
    if session.backend != "reference":
        jobs = session.persistent(add)
        unique += [jobs, jobs.submit({"x": X, "y": X}), jobs.submit_many({"x": X, "y": np.ones((3, 1000), np.float32)})]
    refused = {"copy": 0, "deepcopy": 0, "dumps": 0}
    ways: dict[str, Callable[[object], object]] = {"copy": copy.copy, "deepcopy": copy.deepcopy, "dumps": pickle.dumps}
    for one in unique:
        for copied in ways.values():
            with pytest.raises(TypeError, match=r"is copied or pickled, and owns .*Fix: "):
                copied({"deep": one} if copied is copy.deepcopy else one)
    for one in reached(unique):
        if hasattr(type(one), "__del__"):
            assert isinstance(one, Unique), f"a half-made copy of {type(one)} would free what it does not own"
        for name, copied in ways.items():
            try:
                copied(one)
            except Exception:  # of the standard library, for locks, generators and the like
                refused[name] += 1
    assert all(refused.values())
    gc.collect()
    before = y.download()
    run()
    np.testing.assert_array_equal(y.download(), before + 1)
    np.testing.assert_array_equal(session.dispatch(add, {"x": X, "y": X})["y"], X + X)


def reached(roots: Iterable[object]) -> Iterable[object]:
    """Returns an object of each class of vyre that these lead to."""
    seen, todo, found = set[int](), list(roots), dict[type, object]()
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | CodeType | FrameType):
            continue
        seen.add(id(one))
        if type(one).__module__.startswith("vyre"):
            found.setdefault(type(one), one)
        if isinstance(one, FunctionType):
            todo += [cell.cell_contents for cell in one.__closure__ or ()]
        else:
            todo += gc.get_referents(one)
    return found.values()


def test_values_are_copied_and_pickled(session: vyre.Session) -> None:
    result = session.dispatch(add, {"x": X, "y": X})
    ways: tuple[Callable[[Any], Any], ...] = (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)))
    for copied in ways:
        assert copied(add) is add
        assert copied(add.program) == add.program
        assert copied(DispatchConfig(grid=3)) == DispatchConfig(grid=3)
        np.testing.assert_array_equal(copied(result)["y"], result["y"])
        assert copied(result).timing == result.timing


def test_errors_keep_what_they_say_in_pickles(session: vyre.Session) -> None:
    inputs: tuple[dict[str, np.ndarray[Any, Any]], ...] = ({}, {"x": X, "y": np.ones(3, np.int64)})
    for wrong in inputs:
        with pytest.raises(vyre.VyreError) as caught:
            session.dispatch(add, wrong)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again), again.fix) == (type(caught.value), str(caught.value), caught.value.fix)
