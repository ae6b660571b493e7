"""Awaited dispatches: bytes, bounds, cancellation, timeouts, loops and ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import vyre
from support.cpu.backends import ENDLESS
from support.cpu.pool import until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.small_programs import catalog_of, saxpy_kernel, saxpy_program, square_program
from vyre.app.asynchrony.admission import Admission
from vyre.app.pipeline import Argument
from vyre.testing.backend_contract.bench import parsed
from vyre.testing.fakes import function_backend

T = TypeVar("T")
TESTS = Path(__file__).parents[3]
X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)
PROGRAM = saxpy_program()
NAMED: Mapping[str, Argument] = {"a": 2.0, "x": X, "y": Y}
WANT = (2 * X + Y).tobytes()
ZEROS = np.zeros(16, np.uint32)
TRAP = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { if x[gid.x] == 9u { trap(gid.x, "nine") } x[gid.x] = x[gid.x] + 1u }
    """)
BACKENDS = ("reference", "cuda-machine", pytest.param("cpu", marks=NEEDS_LLVM))


@pytest.fixture(name="session", params=BACKENDS)
def every_session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, max_in_flight=4) as opened:
        yield opened


@pytest.fixture
def native() -> Iterator[vyre.Session]:
    with vyre.open("cpu", max_in_flight=4, threads=2) as opened:
        yield opened


class Gate:
    """A backend whose dispatches wait until they are let go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)
        self.running = self.most = self.runs = 0
        self.lock = threading.Lock()

    def kernel(self, inputs: Mapping[str, bytes]) -> Mapping[str, bytes]:
        with self.lock:
            self.runs += 1
            self.running += 1
            self.most = max(self.most, self.running)
        self.begun.release()
        assert self.go_on.wait(LIMIT_S)
        with self.lock:
            self.running -= 1
        return saxpy_kernel(inputs)

    def open(self, max_in_flight: int) -> vyre.Session:
        catalog = catalog_of(function_backend(self.kernel))
        return vyre.open(catalog=catalog, max_in_flight=max_in_flight)

    async def has_begun(self) -> None:
        await asyncio.to_thread(self.begun.acquire, timeout=LIMIT_S)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))


async def came_true(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(until, condition)


# ---------------------------------------------------------------- results
def test_many_tasks_get_their_own_results(session: vyre.Session) -> None:
    async def one(k: int) -> bool:
        result = await session.dispatch_async(PROGRAM, {"a": float(k), "x": X, "y": Y})
        return result["y"].tobytes() == (np.float32(k) * X + Y).tobytes()

    async def work() -> list[bool]:
        return await asyncio.gather(*map(one, range(40)))

    for _ in range(2):  # two loops, and programs that are new and prepared
        assert run(work()) == [True] * 40
    assert session._work.admission.taken == 0


def test_kernels_in_plain_python_and_shorthand(session: vyre.Session) -> None:
    @vyre.kernel
    def double(x: vyre.InOut[vyre.f32]) -> None:
        i = vyre.global_id()
        x[i] = x[i] * 2.0

    async def work() -> None:
        for _ in range(2):
            assert (await session.dispatch_async(double, [X]))["x"].tobytes() == (2 * X).tobytes()
            held = await session.dispatch_async(square_program(), [ZEROS + 3], grid=1)
            assert held["y"].tolist() == [9] * 16

    run(work())


@NEEDS_LLVM
def test_prepared_programs_take_no_thread(native: vyre.Session) -> None:
    native.prepare(PROGRAM)

    async def work() -> None:
        await asyncio.gather(*(native.dispatch_async(PROGRAM, NAMED) for _ in range(50)))

    run(work())
    assert not native._work.threads._threads
    run(_awaited(native, square_program("new"), [ZEROS]))
    assert native._work.threads._threads  # the control: compiling does


async def _awaited(session: vyre.Session, *arguments: Any, **keywords: Any) -> vyre.Result:
    return await session.dispatch_async(*arguments, **keywords)


def test_errors_are_those_of_dispatch_and_leave_no_place_taken(session: vyre.Session) -> None:
    nine = np.full(4, 9, np.uint32)
    for _ in range(6):  # more than there are places
        with pytest.raises(vyre.TrapError, match="nine"):
            run(_awaited(session, TRAP, [nine]))
        with pytest.raises(vyre.InvalidInput):
            run(_awaited(session, TRAP, [X]))
        with pytest.raises(vyre.InvalidInput, match="program is"):
            run(_awaited(session, "no program", [X]))
    assert run(_awaited(session, TRAP, [nine - 1]))["x"].tolist() == [9] * 4
    assert session._work.admission.taken == 0


# ---------------------------------------------------------------- the bound
class Read(Mapping[str, Argument]):
    """Inputs that count how often they are read."""

    def __init__(self) -> None:
        self.reads = 0

    def __getitem__(self, name: str) -> Argument:
        self.reads += 1
        return NAMED[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMED)

    def __len__(self) -> int:
        return len(NAMED)


def test_no_more_are_under_way_than_there_are_places_and_what_waits_has_read_nothing() -> None:
    gate, inputs = Gate(), [Read() for _ in range(8)]

    async def work() -> None:
        tasks = [asyncio.create_task(session.dispatch_async(PROGRAM, each)) for each in inputs]
        for _ in range(2):
            await gate.has_begun()
        assert [each.reads > 0 for each in inputs] == [True] * 2 + [False] * 6
        with pytest.raises(vyre.QueueFull, match="2 dispatches of the session are under way"):
            session.submit(PROGRAM, NAMED)
        gate.go_on.set()
        assert [result["y"].tobytes() for result in await asyncio.gather(*tasks)] == [WANT] * 8

    with gate.open(2) as session:
        run(work())
        assert (gate.runs, gate.most) == (8, 2)
        assert session.submit(PROGRAM, NAMED).result(LIMIT_S)["y"].tobytes() == WANT


def test_with_more_places_more_are_under_way() -> None:
    gate = Gate()

    async def work() -> None:
        tasks = [asyncio.create_task(session.dispatch_async(PROGRAM, NAMED)) for _ in range(8)]
        for _ in range(3):
            await gate.has_begun()
        gate.go_on.set()
        await asyncio.gather(*tasks)

    with gate.open(3) as session:
        run(work())
    assert gate.most == 3


def test_submit_finds_room_once_a_result_is_there() -> None:
    with vyre.open("reference", max_in_flight=1) as session:
        for _ in range(50):
            assert session.submit(PROGRAM, NAMED).result(LIMIT_S)["y"].tobytes() == WANT


@pytest.mark.parametrize("places", [0, -1, True, 1.0, 1 << 21, None])
def test_a_number_of_places_that_is_none(places: Any) -> None:
    with pytest.raises(vyre.InvalidConfig, match="max_in_flight"):
        vyre.open("reference", max_in_flight=places)


# ---------------------------------------------------------------- cancellation
@NEEDS_LLVM
def test_cancelling_stops_a_kernel_that_would_never_end(native: vyre.Session) -> None:
    native.prepare(ENDLESS)

    async def work() -> None:
        tasks = [asyncio.create_task(native.dispatch_async(ENDLESS, [ZEROS])) for _ in range(6)]
        await came_true(lambda: native._work.admission.taken == 4)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ended] == [asyncio.CancelledError] * 6
        await came_true(lambda: native._work.admission.taken == 0)
        assert (await native.dispatch_async(PROGRAM, NAMED))["y"].tobytes() == WANT

    run(work())
    native.flush()  # nothing runs any more


@NEEDS_LLVM
def test_cancelling_a_submitted_future_stops_its_kernel(native: vyre.Session) -> None:
    future = native.submit(ENDLESS, [ZEROS])
    assert not future.cancel() and not future.cancelled()
    with pytest.raises(vyre.DispatchFailed, match="was stopped"):
        future.result(LIMIT_S)
    assert not future.cancel()
    assert native.submit(PROGRAM, NAMED).result(LIMIT_S)["y"].tobytes() == WANT


def test_what_cannot_be_stopped_keeps_its_place_until_its_end() -> None:
    gate = Gate()

    async def work() -> None:
        first = asyncio.create_task(session.dispatch_async(PROGRAM, NAMED))
        await gate.has_begun()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (session._work.admission.taken, gate.running) == (1, 1)
        second = asyncio.create_task(session.dispatch_async(PROGRAM, NAMED))
        gate.go_on.set()
        assert (await second)["y"].tobytes() == WANT

    with gate.open(1) as session:
        run(work())
    assert (gate.runs, gate.most) == (2, 1)


def test_what_waits_for_room_is_cancelled_without_running_and_nobody_behind_it_is_forgotten() -> None:
    gate = Gate()

    async def work() -> None:
        first, second, third = (asyncio.create_task(session.dispatch_async(PROGRAM, NAMED)) for _ in range(3))
        await gate.has_begun()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.go_on.set()
        assert [(await task)["y"].tobytes() for task in (first, third)] == [WANT] * 2

    with gate.open(1) as session:
        run(work())
    assert gate.runs == 2


def test_a_future_that_waits_for_a_thread_is_cancelled() -> None:
    gate = Gate()
    with gate.open(9) as session:
        futures = [session.submit(PROGRAM, NAMED) for _ in range(5)]  # one more than there are threads
        for _ in range(4):
            assert gate.begun.acquire(timeout=LIMIT_S)
        assert futures[4].cancel() and futures[4].cancelled()
        assert session._work.admission.taken == 4
        gate.go_on.set()
        assert [future.result(LIMIT_S)["y"].tobytes() for future in futures[:4]] == [WANT] * 4
    assert (gate.runs, session._work.admission.taken) == (4, 0)


def test_a_place_that_was_handed_to_a_task_that_is_cancelled_goes_on() -> None:
    async def work() -> None:
        places = Admission(1)
        places.take("holder")
        first, second = (asyncio.create_task(places.wait(number)) for number in range(2))
        await asyncio.sleep(0)
        places.give_back("holder")  # to the first, which is told in the next round of the loop
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        assert places.taken == 1
        places.give_back(1)
        assert places.taken == 0

    run(work())


def test_a_loop_that_was_closed_with_a_waiting_task_loses_no_place() -> None:
    places = Admission(1)
    places.take("holder")
    loop = asyncio.new_event_loop()
    waiting = places.wait("waiting")
    task = loop.create_task(waiting)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    places.give_back("holder")
    assert places.taken == 0
    waiting.close()
    assert places.taken == 0
    places.take("holder")
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is what the test is about


# ---------------------------------------------------------------- time
@NEEDS_LLVM
@pytest.mark.parametrize("limit", ["timeout", "deadline"])
def test_a_dispatch_whose_time_is_up_is_stopped(limit: str, native: vyre.Session) -> None:
    async def work() -> None:
        keywords = {limit: 0.0 if limit == "timeout" else asyncio.get_running_loop().time() + 0.001}
        with pytest.raises(vyre.DispatchTimeout, match=f"did not finish within {limit}="):
            await native.dispatch_async(ENDLESS, [ZEROS], **keywords)  # type: ignore[arg-type]
        await came_true(lambda: native._work.admission.taken == 0)

    run(work())
    native.flush()


def test_the_time_to_wait_for_room_counts() -> None:
    gate = Gate()

    async def work() -> None:
        first = asyncio.create_task(session.dispatch_async(PROGRAM, NAMED, timeout=LIMIT_S))
        await gate.has_begun()
        with pytest.raises(vyre.DispatchTimeout, match=r"within timeout=0\.01 s"):
            await session.dispatch_async(PROGRAM, NAMED, timeout=0.01, deadline=None)
        gate.go_on.set()
        await first

    with gate.open(1) as session:
        run(work())
    assert gate.runs == 1


@NEEDS_LLVM
def test_the_timeout_of_the_caller_and_of_the_config_stay_what_they_are(native: vyre.Session) -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await native.dispatch_async(ENDLESS, [ZEROS], timeout=LIMIT_S)
        with pytest.raises(vyre.DispatchTimeout, match="was stopped"):
            await native.dispatch_async(ENDLESS, [ZEROS], vyre.DispatchConfig(timeout_s=0.001))

    run(work())


# ---------------------------------------------------------------- loops, ends and signals
def test_several_event_loops_in_threads_share_the_places(session: vyre.Session) -> None:
    async def work(k: int) -> list[bytes]:
        results = await asyncio.gather(
            *(session.dispatch_async(PROGRAM, {"a": float(k), "x": X, "y": Y}) for _ in range(10))
        )
        return [result["y"].tobytes() for result in results]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: run(work(k)), range(4)))
    assert found == [[(np.float32(k) * X + Y).tobytes()] * 10 for k in range(4)]
    assert session._work.admission.taken == 0


@NEEDS_LLVM
def test_closing_the_session_ends_everything_that_is_awaited(native: vyre.Session) -> None:
    native.prepare(ENDLESS)

    async def work() -> list[object]:
        tasks = [asyncio.create_task(native.dispatch_async(ENDLESS, [ZEROS])) for _ in range(6)]
        await came_true(lambda: native._work.admission.taken == 4)
        await asyncio.to_thread(native.close)
        return await asyncio.gather(*tasks, return_exceptions=True)

    ended = run(work())
    assert [type(each) for each in ended] == [vyre.DispatchFailed] * 4 + [vyre.InvalidResource] * 2
    assert all("closed" in str(each) for each in ended)
    with pytest.raises(vyre.InvalidResource, match="the session is closed"):
        run(_awaited(native, PROGRAM, NAMED))


def test_closing_a_session_waits_for_what_runs_and_refuses_what_waits() -> None:
    gate = Gate()

    async def work() -> None:
        first, second = (asyncio.create_task(session.dispatch_async(PROGRAM, NAMED)) for _ in range(2))
        await gate.has_begun()
        closing = asyncio.create_task(asyncio.to_thread(session.close))
        with pytest.raises(vyre.InvalidResource, match="the session is closed"):
            await second
        assert not closing.done()
        gate.go_on.set()
        assert (await first)["y"].tobytes() == WANT
        await closing

    session = gate.open(1)
    run(work())


SIGNALLED = f"""
import asyncio, os, signal, sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
import vyre
from support.cpu.backends import ENDLESS
from support.small_programs import saxpy_program

session = vyre.open("cpu")
session.prepare(ENDLESS)
X = np.ones(8, np.float32)

async def work():
    asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
    await session.dispatch_async(ENDLESS, [np.zeros(16, np.uint32)])

try:
    asyncio.run(work())
except KeyboardInterrupt:
    session.flush()
    print("interrupted", session.dispatch(saxpy_program(), dict(a=1.0, x=X, y=X))["y"][0])
    session.close()
"""


@NEEDS_LLVM
def test_control_c_ends_a_loop_that_awaits_an_endless_kernel() -> None:
    done = subprocess.run([sys.executable, "-c", SIGNALLED], capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted 2.0\n", "")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
