"""Slots of submitted dispatches: memory and jobs that are used again, and what may never be seen through them."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any
from weakref import ref

import numpy as np
import pytest

from support.cpu.backends import ADD, ENDLESS, CountedTools, backend_of
from support.cpu.pool import until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.storms.interrupt_storm import Places
from support.storms.interrupts import interrupted_everywhere
from vyre.adapters import callbacks
from vyre.adapters.callbacks import call_back, is_calling_back
from vyre.adapters.cpu.runtime import pending as pending_module
from vyre.adapters.cpu.runtime.pending import SLOT_BYTES, CpuAsync, CpuPending, Slot
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import DispatchFailed, TrapError
from vyre.domain.ir.program import Program
from vyre.ports.backend import Backend
from vyre.ports.requests import DispatchRequest
from vyre.testing.backend_contract.bench import parsed

pytestmark = NEEDS_LLVM

ODD = parsed("""
workgroup_size 8, 1, 1
buffer x @0 read u32[runtime]
buffer z @1 read_write u32[runtime] like x output
body { if x[gid.x] == 99u { trap(gid.x, "ninety-nine") } if (x[gid.x] & 1u) == 1u { z[gid.x] = x[gid.x] } }
""")


@pytest.fixture
def backend() -> Iterator[Backend]:
    with backend_of(CountedTools().tools, threads=2) as made:
        yield made


@pytest.fixture(params=["worker", "caller"])
def submits(request: pytest.FixtureRequest, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> CpuAsync:
    """An executor all of whose dispatches a worker runs, or those that end soon the thread that submits them."""
    monkeypatch.setattr(pending_module, "BRIEF_NS", 0 if request.param == "worker" else 10**9)
    return executor_of(backend)


def executor_of(backend: Backend) -> CpuAsync:
    executor = backend.async_executor
    assert isinstance(executor, CpuAsync)
    return executor


def submit(executor: CpuAsync, program: Program, *values: int, config: DispatchConfig | None = None) -> CpuPending:
    data = memoryview(np.array(values, np.uint32)).cast("B")  # type: ignore[arg-type]
    return executor.submit(DispatchRequest(program, (data,), config or DispatchConfig()))


def result_of(pending: CpuPending) -> list[int]:
    arena = OutputArena()
    pending.wait(arena, timeout=LIMIT_S)
    return [int(value) for value in np.frombuffer(arena.to_bytes()[0], np.uint32)]


def slot_of(pending: CpuPending) -> Slot:
    assert pending._slot is not None
    return pending._slot


def test_a_slot_is_used_again_when_its_results_have_been_read(submits: CpuAsync) -> None:
    first = submit(submits, ODD, 1, 2, 3)
    slot = slot_of(first)
    other = submit(submits, ODD, 5, 5, 5)
    assert slot_of(other) is not slot
    assert result_of(first) == [1, 0, 3]
    assert submits.slots.nbytes == slot.nbytes
    again = submit(submits, ODD, 4, 4, 4)
    assert slot_of(again) is slot
    assert submits.slots.nbytes == 0
    assert result_of(again) == [0, 0, 0], "an output begins with zeros"
    assert result_of(other) == [5, 5, 5]
    assert (result_of(first), result_of(again)) == ([1, 0, 3], [0, 0, 0]), "another wait returns the same"


def test_inputs_may_change_right_after_submit(submits: CpuAsync) -> None:
    data = np.zeros(1000, np.uint32)
    view = memoryview(data).cast("B")  # type: ignore[arg-type]
    pending = []
    for number in range(50):
        data[:] = 2 * number + 101
        pending.append(submits.submit(DispatchRequest(ODD, (view,), DispatchConfig())))
        data[:] = 99
        if number % 3 == 0:
            assert result_of(pending[number // 2]) == [2 * (number // 2) + 101] * 1000
    for number, each in enumerate(pending):
        assert result_of(each) == [2 * number + 101] * 1000


def test_many_at_once_from_many_threads(submits: CpuAsync) -> None:
    wrong: list[int] = []

    def run(first: int) -> None:
        for turn in range(40):
            batch = [submit(submits, ODD, *range(first + turn, first + turn + n)) for n in (3, 5, 3)]
            for n, each in zip((3, 5, 3), batch, strict=True):
                given = np.arange(first + turn, first + turn + n)
                if result_of(each) != np.where(given & 1, given, 0).tolist():
                    wrong.append(first)

    threads = [threading.Thread(target=run, args=(1000 * number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert wrong == []


def test_a_slot_whose_run_failed_or_was_stopped_is_used_again(submits: CpuAsync) -> None:
    trapped = submit(submits, ODD, 1, 99, 3)
    failed = slot_of(trapped)
    with pytest.raises(TrapError):
        result_of(trapped)
    assert submits.slots.nbytes == failed.nbytes
    after = submit(submits, ODD, 4, 8, 9)
    assert slot_of(after) is failed
    assert result_of(after) == [0, 0, 9], "nothing of the run that failed is left"
    with pytest.raises(TrapError, match="ninety-nine"):
        result_of(trapped)

    stopped = submit(submits, ENDLESS, 1, 2, 3)
    halted = slot_of(stopped)
    assert stopped.cancel()
    with pytest.raises(DispatchFailed):
        result_of(stopped)
    again = submit(submits, ENDLESS, 1, 2, 3)
    assert slot_of(again) is halted
    assert not stopped.cancel(), "the job is another dispatch's"
    assert not again.done(), "what stopped the other does not stop this one"
    assert again.cancel()


def test_a_handle_whose_slot_another_has_cannot_stop_it(submits: CpuAsync) -> None:
    first = submit(submits, ODD, 1, 2, 3)
    result_of(first)
    again = submit(submits, ODD, 3, 4, 5)
    assert first.done()
    assert not first.cancel()
    assert result_of(again) == [3, 0, 5]


def test_a_slot_stays_while_a_callback_waits_for_its_job(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_module, "BRIEF_NS", 0)
    executor = executor_of(backend)
    for _ in range(20):
        called = threading.Event()
        pending = submit(executor, ODD, 1, 2, 3)
        pending.add_done_callback(called.set)
        assert result_of(pending) == [1, 0, 3]
        assert result_of(submit(executor, ODD, 3, 3, 3)) == [3, 3, 3]
        assert called.wait(LIMIT_S)


def test_idle_slots_are_bounded_by_their_bytes(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executor_of(backend)
    slots = executor.slots
    monkeypatch.setattr(slots, "_limit", 4096)
    waiting = [submit(executor, ODD, *[2] * count) for count in range(1, 200)]
    for count, each in enumerate(waiting, start=1):
        assert len(result_of(each)) == count
        assert slots.nbytes <= 4096
        assert slots.nbytes == sum(slot.nbytes for kept in slots._slots.values() for slot in kept)
    assert slots.take(executor._pipeline(DispatchRequest(ODD, (), DispatchConfig())).shape((4,))) is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may come in a finaliser
@pytest.mark.parametrize("places", Places)
def test_an_interrupt_anywhere_leaves_their_bytes_counted(submits: CpuAsync, places: Places) -> None:
    def works() -> None:
        slots = submits.slots
        assert result_of(submit(submits, ODD, 5, 6, 7)) == [5, 0, 7]
        kept = [slot for each in slots._slots.values() for slot in each]
        assert slots.nbytes == sum(slot.nbytes for slot in kept) and len(kept) == len(set(kept))

    assert interrupted_everywhere((pending_module,), works, works, places, every=2) > 20


def test_large_memory_serves_one_dispatch(submits: CpuAsync) -> None:
    values = np.full(SLOT_BYTES // 4, 3, np.uint32)
    pending = submits.submit(DispatchRequest(ODD, (memoryview(values).cast("B"),)))  # type: ignore[arg-type]
    assert set(result_of(pending)) == set(result_of(pending)) == {3}
    assert submits.slots.nbytes == 0


def test_closing_the_backend_drops_its_slots(backend: Backend) -> None:
    executor = executor_of(backend)
    pending = submit(executor, ODD, 1, 2, 3)
    kept: Any = slot_of(pending).job.keep
    memory = ref(kept[1])
    del kept
    result_of(pending)
    gc.collect()
    assert memory() is not None
    assert backend.lifecycle is not None
    backend.lifecycle.close()
    del pending
    gc.collect()
    assert memory() is None
    with pytest.raises(DispatchFailed):
        submit(executor, ODD, 1, 2, 3)


def test_forgotten_code_is_not_used_again(backend: Backend) -> None:
    executor = executor_of(backend)
    config = DispatchConfig()
    assert result_of(submit(executor, ODD, 1, 2, 3, config=config)) == [1, 0, 3]
    first = executor._pipeline(DispatchRequest(ODD, (), config))
    assert executor._pipeline(DispatchRequest(ODD, (), config)) is first
    assert backend.compiler is not None
    backend.compiler.forget(None)
    assert executor._pipeline(DispatchRequest(ODD, (), config)) is not first


def test_the_caller_runs_what_ends_soon_but_not_in_a_callback(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_module, "BRIEF_NS", 10**9)
    executor = executor_of(backend)
    counters = executor._device.counters
    result_of(submit(executor, ODD, 1))
    runs = []

    def dispatch() -> None:
        before = counters.caller_runs
        pending = submit(executor, ODD, 1, 2, 3)
        runs.append(counters.caller_runs - before)
        assert result_of(pending) == [1, 0, 3]

    result_of(submit(executor, ODD, 1, 2, 3))
    dispatch()
    call_back(dispatch)
    dispatch()
    assert runs == [1, 0, 1]


def test_callbacks_are_known_while_they_run() -> None:
    seen = []

    def inner() -> None:
        seen.append(is_calling_back())
        raise RuntimeError("of a callback")

    hook, threading.excepthook = threading.excepthook, lambda _: None
    with suppress(RuntimeError):
        call_back(call_back, inner)
    threading.excepthook = hook
    assert (seen, is_calling_back()) == ([True], False)


def test_an_interrupt_at_any_line_of_a_callback_leaves_none_under_way() -> None:
    lines = 0

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != callbacks.__file__:
            return None
        if event == "line":
            lines += 1
            if lines == interrupted:
                raise KeyboardInterrupt
        return interrupt

    for interrupted in range(1, 20):
        lines, tracer = 0, sys.gettrace()
        try:
            sys.settrace(interrupt)
            with suppress(KeyboardInterrupt):
                call_back(lambda: None)
        finally:
            sys.settrace(tracer)
        assert not is_calling_back(), interrupted
        if lines < interrupted:
            break
    assert 2 < interrupted < 19


def test_a_worker_runs_what_was_not_measured(backend: Backend) -> None:
    executor = executor_of(backend)
    counters = executor._device.counters
    before = counters.caller_runs
    pending = submit(executor, ADD, *range(64))
    until(pending.done)
    assert counters.caller_runs == before
