"""Asynchronous work on resident memory: copies run beside kernels, and wait for those that they conflict with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np
import pytest

import vyre
from support.cpu.pool import until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.small_programs import catalog_of, saxpy_program
from vyre import u32
from vyre.adapters.cuda.machine.fault_plan import FOREVER, FaultPlan, SlowKernel
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.asynchrony.order import MemoryOrder, Operation, accesses_to
from vyre.app.pipeline import Argument
from vyre.policies.concurrency.hazards import Access, AccessMode
from vyre.testing import cuda_machine
from vyre.testing.execution import open_backend
from vyre.testing.fakes import Call, hooked

T = TypeVar("T")
X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)
PROGRAM = saxpy_program()
WANT = (2 * X + Y).tobytes()
BACKENDS = ("reference", "cuda-machine", pytest.param("cpu", marks=NEEDS_LLVM))


class Gate:
    """Launches on resident memory wait until they are let go on; copies are counted."""

    def __init__(self) -> None:
        self.go_on, self.begun = threading.Event(), threading.Semaphore(0)
        self.copies = self.launches = 0

    def __call__(self, call: Call) -> None:
        self.copies += call.name in ("memory.download", "memory.upload")
        if call.name == "resident_executor.run":
            self.launches += 1
            self.begun.release()
            assert self.go_on.wait(LIMIT_S)


class World:
    """A session with a dispatch under way that reads ``x`` and writes ``y``, and an array that it does not use."""

    def __init__(self, backend: str, places: int = 16) -> None:
        self.gate = Gate()
        catalog = catalog_of(hooked(open_backend(backend), self.gate))
        self.session = vyre.open(catalog=catalog, max_in_flight=places)
        self.x, self.y, self.other = (self.session.resident(data) for data in (X, Y, X + 5))

    def begin(self) -> Future[vyre.Result]:
        future = self.session.submit(PROGRAM, {"a": 2.0, "x": self.x, "y": self.y})
        assert self.gate.begun.acquire(timeout=LIMIT_S)
        self.gate.copies = 0
        return future

    @property
    def order(self) -> MemoryOrder:
        return self.session._lease.order

    def __enter__(self) -> World:
        return self

    def __exit__(self, *raised: object) -> None:
        self.gate.go_on.set()
        self.session.close()


@pytest.fixture(params=BACKENDS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with World(request.param) as made:
        yield made


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))


async def came_true(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(until, condition)


def test_copies_of_what_no_kernel_uses_do_not_wait(world: World) -> None:
    running = world.begin()

    async def work() -> None:
        assert (await world.other.download_async()).tobytes() == (X + 5).tobytes()
        await world.other.upload_async(X)
        assert (await world.other[2:4].download_async()).tolist() == [2, 3]
        assert (await world.x.download_async(offset=4, nbytes=8)).tolist() == [1, 2]  # it is only read

    run(work())
    world.other.upload(Y)
    assert world.other.download().tobytes() == Y.tobytes()
    assert (world.gate.copies, running.done()) == (6, False)
    world.gate.go_on.set()
    assert running.result(LIMIT_S).resident["y"] is world.y
    assert world.y.download().tobytes() == WANT


@pytest.mark.parametrize("what", ["a download of what it writes", "an upload to what it reads", "a part"])
def test_copies_that_conflict_wait_for_the_kernel(world: World, what: str) -> None:
    running = world.begin()

    async def work() -> None:
        copies: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "a download of what it writes": world.y.download_async,
            "an upload to what it reads": lambda: world.x.upload_async(np.zeros_like(X)),
            "a part": world.y[:3].download_async,
        }
        task = asyncio.create_task(copies[what]())
        await came_true(lambda: len(world.order.under_way) == 2)
        assert (await world.other.download_async()).tobytes() == (X + 5).tobytes()  # the loop and other copies go on
        assert (world.gate.copies, task.done(), running.done()) == (1, False, False)
        world.gate.go_on.set()
        found = await task
        if found is not None:
            assert found.tobytes() == WANT[: found.nbytes]

    run(work())
    assert world.y.download().tobytes() == WANT


class WatchedLock:
    """A lock that tells when a thread begins to wait for it."""

    def __init__(self, lock: threading.Lock, waits: threading.Semaphore) -> None:
        self._lock, self._waits = lock, waits
        self.release = lock.release

    def acquire(self, timeout: float) -> bool:
        self._waits.release()
        return self._lock.acquire(timeout=timeout)


@pytest.mark.parametrize("what", ["download", "upload", "dispatch", "bound", "sequence", "flush", "close"])
def test_blocking_calls_that_conflict_wait_too(world: World, what: str) -> None:
    inputs: dict[str, Argument] = {"a": 2.0, "x": world.x, "y": world.y}
    with ExitStack() as stack:
        bound = stack.enter_context(world.session.bind_resident(PROGRAM, inputs))
        sequence = world.session.sequence([vyre.Step(PROGRAM, inputs)])
        running = world.begin()
        calls: dict[str, Callable[[], object]] = {
            "download": world.y.download,
            "upload": lambda: world.x.upload(X),
            "dispatch": lambda: world.session.dispatch(PROGRAM, inputs),
            "bound": bound,
            "sequence": sequence,
            "flush": world.session.flush,
            "close": world.y.close,
        }
        (operation,) = world.order.under_way
        waits = threading.Semaphore(0)
        operation.ended = WatchedLock(operation.ended, waits)  # type: ignore[misc, assignment]
        thread = threading.Thread(target=calls[what])
        thread.start()
        assert waits.acquire(timeout=LIMIT_S)
        assert (running.done(), world.gate.launches, world.gate.copies, world.y.closed) == (False, 1, 0, False)
        world.gate.go_on.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive() and running.done()


def test_dispatches_on_the_same_memory_run_in_order_and_others_beside_them(world: World) -> None:
    world.begin()

    async def work() -> None:
        again = asyncio.create_task(world.session.dispatch_async(PROGRAM, {"a": 1.0, "x": world.x, "y": world.y}))
        await came_true(lambda: len(world.order.under_way) == 2)
        beside = asyncio.create_task(world.session.dispatch_async(PROGRAM, {"a": 1.0, "x": world.x, "y": world.other}))
        assert await asyncio.to_thread(world.gate.begun.acquire, timeout=LIMIT_S)
        assert (world.gate.launches, again.done()) == (2, False)
        world.gate.go_on.set()
        await asyncio.gather(again, beside)

    run(work())
    assert world.y.download().tobytes() == (2 * X + Y + X).tobytes()
    assert world.other.download().tobytes() == (2 * X + 5).tobytes()


def test_host_data_of_a_submitted_dispatch_is_copied(world: World) -> None:
    given = X.copy()
    world.begin()
    future = world.session.submit(PROGRAM, {"a": 1.0, "x": given, "y": world.y})
    given[:] = -1
    world.gate.go_on.set()
    future.result(LIMIT_S)
    assert world.y.download().tobytes() == (2 * X + Y + X).tobytes()


def test_what_waits_for_a_kernel_is_cancelled_and_what_waits_behind_it_goes_on(world: World) -> None:
    world.begin()

    async def work() -> None:
        first = asyncio.create_task(world.y.upload_async(np.zeros_like(Y)))
        await came_true(lambda: len(world.order.under_way) == 2)
        second = asyncio.create_task(world.y.download_async())
        await came_true(lambda: len(world.order.under_way) == 3)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert len(world.order.under_way) == 2
        world.gate.go_on.set()
        assert (await second).tobytes() == WANT

    run(work())
    until(lambda: (bool(world.order.under_way), world.session._work.admission.taken) == (False, 0))


def test_errors_are_told_and_what_follows_goes_on(world: World) -> None:
    world.gate.go_on.set()
    foreign = vyre.open("reference")
    with foreign, foreign.resident(X) as theirs:
        for wrong in (theirs, np.arange(8)):
            with pytest.raises(vyre.VyreError, match=r"of another session|holds f32"):
                world.session.submit(PROGRAM, {"a": 1.0, "x": wrong, "y": world.y})
    with pytest.raises(vyre.InvalidInput, match="does not fit"):
        run(world.y.download_async(offset=4, nbytes=400))
    with pytest.raises(vyre.InvalidInput, match="upload holds"):
        run(world.y.upload_async(np.arange(8)))
    until(lambda: (bool(world.order.under_way), world.session._work.admission.taken) == (False, 0))
    world.y.close()
    with pytest.raises(vyre.InvalidResource):
        run(world.y.download_async())
    world.session.close()
    with pytest.raises(vyre.InvalidResource, match="the session is closed"):
        run(world.x.download_async())


# ---------------------------------------------------------------- real kernels
@vyre.kernel
def spin(go: vyre.InOut[u32], y: vyre.InOut[u32]) -> None:
    for _ in range(4_000_000_000):
        if go.atomic_or(0, u32(0)) != u32(0):
            break
    y[0] = y[0] + u32(1)


@NEEDS_LLVM
def test_a_kernel_that_spins_on_cpu_does_not_hold_up_the_copies_of_others() -> None:
    theirs = np.zeros(1, np.uint32)
    with vyre.open("cpu", threads=2) as session, session.adopt(theirs) as go:
        y, other = session.resident(np.full(1, 5, np.uint32)), session.resident(X)
        running = session.submit(spin, {"go": go, "y": y}, grid=1)

        async def work() -> None:
            waiting = asyncio.create_task(y.download_async())
            await came_true(lambda: len(session._lease.order.under_way) == 2)
            assert (await other.download_async()).tobytes() == X.tobytes()
            assert not running.done() and not waiting.done()
            theirs[0] = 1
            assert (await waiting).tolist() == [6]

        try:
            run(work())
        finally:
            theirs[0] = 1
        assert running.result(LIMIT_S).backend == "cpu"


@NEEDS_LLVM
@pytest.mark.parametrize("how", ["future", "task", "timeout"])
def test_cancelling_stops_a_kernel_on_resident_memory_that_would_never_end(how: str) -> None:
    theirs = np.zeros(1, np.uint32)
    with vyre.open("cpu", threads=2) as session, session.adopt(theirs) as go:
        y, other = session.resident(np.full(1, 5, np.uint32)), session.resident(X)
        order = session._lease.order

        async def work() -> None:
            limit = 0.2 if how == "timeout" else None
            waiting = asyncio.create_task(session.dispatch_async(spin, {"go": go, "y": y}, grid=1, timeout=limit))
            await came_true(lambda: begun(session))
            if how == "task":
                waiting.cancel()
            with pytest.raises(asyncio.CancelledError if how == "task" else vyre.DispatchTimeout):
                await waiting

        try:
            if how == "future":
                running = session.submit(spin, {"go": go, "y": y}, grid=1)
                until(lambda: begun(session))
                assert not running.cancel()
                with pytest.raises(vyre.DispatchFailed, match="was stopped") as found:
                    running.result(LIMIT_S)
                notes = "".join(found.value.__notes__)
                assert "contents of `go`, `y` are unspecified" in notes and "Fix: upload" in notes
            else:
                run(work())
            until(lambda: not order.under_way)
            assert other.download().tobytes() == X.tobytes()
            y.upload(np.full(1, 7, np.uint32))  # the same launch again, and nothing keeps it from running
            theirs[0] = 1
            session.submit(spin, {"go": go, "y": y}, grid=1).result(LIMIT_S)
            assert y.download().tolist() == [8]
        finally:
            theirs[0] = 1


def begun(session: vyre.Session) -> bool:
    """Whether a worker of ``cpu`` runs something."""
    return session.metrics()["worker_runs"] > 0


def test_what_a_backend_cannot_stop_runs_to_its_end(world: World) -> None:
    running = world.begin()
    assert not running.cancel()
    world.gate.go_on.set()
    assert running.result(LIMIT_S).backend
    assert world.y.download().tobytes() == WANT


@NEEDS_LLVM
def test_closing_a_session_stops_kernels_on_resident_memory() -> None:
    session = vyre.open("cpu", threads=2)
    go, y = session.resident(4), session.resident(4)
    running = session.submit(spin, {"go": go.view(dtype=u32), "y": y.view(dtype=u32)}, grid=1)
    session.close()
    with pytest.raises((vyre.DispatchFailed, vyre.InvalidResource), match="closed"):
        running.result(LIMIT_S)


def test_closing_a_session_gives_up_a_kernel_of_a_device_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread waits in the driver, which nobody can interrupt; what waits behind it never begins."""
    monkeypatch.setattr("vyre.app.asynchrony.work.LIMIT_S", 0.05)
    machine = cuda_machine(CudaOptions(close_timeout_s=0.05), faults=FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
    session = machine.open()
    x, y = (session.resident(data) for data in (X, Y))
    running = session.submit(PROGRAM, {"a": 2.0, "x": x, "y": y})
    behind = session.submit(PROGRAM, {"a": 2.0, "x": x, "y": y})
    until(lambda: machine.driver.calls["launch"] > 0)
    closing = threading.Thread(target=session.close)
    try:
        with pytest.warns(RuntimeWarning, match="closed with work still running after 0.05 s"):
            closing.start()
            closing.join(LIMIT_S)
        assert not closing.is_alive() and session.closed
        with pytest.raises(vyre.DispatchFailed, match=r"the device did not end this work.*Fix: .*timeout_s"):
            running.result(LIMIT_S)
        with pytest.raises(vyre.InvalidResource, match="closed"):
            behind.result(LIMIT_S)
    finally:
        machine.driver.end_slow_kernels()


def test_the_emulated_device_copies_while_a_kernel_runs_and_sees_no_race() -> None:
    machine = cuda_machine(faults=FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
    with machine.open() as session, ExitStack() as stack:
        stack.callback(machine.driver.end_slow_kernels)
        x, y, other = (session.resident(data) for data in (X, Y, X + 5))
        running = session.submit(PROGRAM, {"a": 2.0, "x": x, "y": y})
        until(lambda: machine.driver.calls["launch"] > 0)

        async def work() -> None:
            before = session.metrics()["downloaded_bytes"]
            waiting = asyncio.create_task(y.download_async())
            await came_true(lambda: len(session._lease.order.under_way) == 2)
            assert (await other.download_async()).tobytes() == (X + 5).tobytes()
            assert session.metrics()["downloaded_bytes"] - before == X.nbytes
            assert not running.done() and not waiting.done()
            machine.driver.end_slow_kernels()
            assert (await waiting).tobytes() == WANT

        run(work())
    assert list(machine.driver.violations) == []


def test_without_the_order_the_emulated_device_sees_a_race() -> None:
    machine = cuda_machine(faults=FaultPlan(slow=(SlowKernel(seconds=FOREVER),)))
    with machine.open() as session, ExitStack() as stack:
        stack.callback(machine.driver.end_slow_kernels)
        x, y = session.resident(X), session.resident(Y)
        running = session.submit(PROGRAM, {"a": 2.0, "x": x, "y": y})
        until(lambda: machine.driver.calls["launch"] > 0)
        assert y._downloaded(0, (8,)).tobytes() == Y.tobytes()  # what a copy does once nothing conflicts
        machine.driver.end_slow_kernels()
        running.result(LIMIT_S)
    assert "race" in {violation.kind.value for violation in machine.driver.violations}


# ---------------------------------------------------------------- the order itself
def operation(begun: list[str], name: str, *accesses: tuple[int, AccessMode, int, int]) -> Operation:
    found = tuple(Access(resource, mode, ((start, end),)) for resource, mode, start, end in accesses)
    return Operation(found, lambda: begun.append(name))


def test_operations_begin_when_what_conflicts_has_ended() -> None:
    reads, writes = AccessMode.READ, AccessMode.READ_WRITE
    begun: list[str] = []
    order = MemoryOrder()
    one = operation(begun, "one", (1, writes, 0, 8))
    beside = operation(begun, "beside", (1, writes, 8, 16))
    both = operation(begun, "both", (1, reads, 0, 16))
    last = operation(begun, "last", (2, reads, 0, 4), (1, writes, 0, 4))
    for each in (one, beside, both, last):
        order.add(each)
    assert begun == ["one", "beside"]
    order.end(one)
    assert begun == ["one", "beside"]
    order.end(beside)
    order.end(beside)  # once is enough
    assert begun == ["one", "beside", "both"]
    order.end(last)  # it was cancelled
    order.end(both)
    assert begun == ["one", "beside", "both"] and not order.under_way


def test_memory_of_other_libraries_may_be_the_same() -> None:
    with vyre.open("reference") as session:
        arrays = [session.adopt(X), session.adopt(X[:4].copy()), session.resident(X), session.resident(8)]
        first, second, own, empty = (accesses_to([(array.buffer, True)]) for array in arrays)
        assert first == second and own != first
        assert accesses_to([(arrays[3].view(0, 0).buffer, True)]) == () and empty != ()
