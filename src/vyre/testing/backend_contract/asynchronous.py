"""Cases of ``AsyncExecutor``: submitted dispatches, waiting for them, and ownership of their data."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Final

from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import DispatchFailed, InvalidInput, TrapError, UnsupportedFeature, VyreError
from vyre.ports.execution import PendingDispatch
from vyre.ports.requests import DispatchRequest
from vyre.testing.backend_contract.bench import (
    ADD,
    TRAP,
    Bench,
    Data,
    Storage,
    at_once,
    equal,
    holds,
    refusal,
    u32s,
    view,
    words,
)
from vyre.testing.backend_contract.case import Group

ASYNCHRONOUS: Final = Group("asynchronous", "async_executor")
_ENDLESS_S: Final = 60.0


def _submit(bench: Bench, kernel: str, *inputs: Data, **config: Any) -> PendingDispatch:
    return bench.asynchronous.submit(
        DispatchRequest(bench.program(kernel), tuple(map(view, inputs)), DispatchConfig(**config))
    )


def _result(pending: PendingDispatch) -> tuple[bytes, ...]:
    storage = Storage()
    pending.wait(storage, timeout=_ENDLESS_S)
    return storage.outputs


@ASYNCHRONOUS.case()
def a_submitted_dispatch_equals_execute(bench: Bench) -> None:
    """``wait`` returns the bytes that ``execute`` would return."""
    inputs = (words(5), words(*range(20)))
    pending = _submit(bench, ADD, *inputs)
    equal(_result(pending), bench.run(ADD, *inputs))


@ASYNCHRONOUS.case()
def wait_fills_the_storage_once(bench: Bench) -> None:
    """``wait`` begins the storage once with the sizes, and reports a time."""
    storage = Storage()
    timing = _submit(bench, ADD, words(1), words(1, 2)).wait(storage, timeout=_ENDLESS_S)
    equal((storage.begun, storage.clears, storage.outputs), ([(8,)], 0, (words(2, 3),)))
    holds(timing.wall_ns >= 0, f"it took {timing.wall_ns} ns")


@ASYNCHRONOUS.case()
def inputs_are_taken_at_submit(bench: Bench) -> None:
    """Memory that the caller changes after ``submit`` does not reach the dispatch."""
    for size in (1, 1000, 300_000):
        bench.need_room((8, 1, 1), (-(-size // 8), 1, 1))
        data = bytearray(words(7) * size)
        pending = _submit(bench, ADD, words(1), data)
        data[:] = b"\xff" * len(data)
        holds(_result(pending) == (words(8) * size,), f"{size} elements changed after submit reached the device")


@ASYNCHRONOUS.case()
def no_view_of_the_caller_is_kept(bench: Bench) -> None:
    """After ``submit`` the caller may resize its memory, which views would forbid."""
    data = bytearray(words(1, 2, 3))
    inputs = (view(words(1)), memoryview(data).toreadonly())
    pending = bench.asynchronous.submit(DispatchRequest(bench.program(ADD), inputs))
    for kept in inputs:
        kept.release()
    del inputs
    data.clear()
    equal(_result(pending), (words(2, 3, 4),))


@ASYNCHRONOUS.case()
def waiting_twice(bench: Bench) -> None:
    """A second ``wait`` returns the same outputs."""
    pending = _submit(bench, ADD, words(1), words(1, 2))
    equal((_result(pending), _result(pending)), ((words(2, 3),), (words(2, 3),)))


@ASYNCHRONOUS.case()
def done_after_wait(bench: Bench) -> None:
    """``done`` is true after ``wait``."""
    pending = _submit(bench, ADD, words(1), words(1, 2))
    _result(pending)
    equal(pending.done(), True, "done()")


@ASYNCHRONOUS.case()
def done_becomes_true(bench: Bench) -> None:
    """``done`` becomes true without a ``wait``."""
    pending = _submit(bench, ADD, words(1), words(1, 2))
    pause = threading.Event()
    for _ in range(10_000):
        if pending.done():
            break
        pause.wait(0.001)
    equal(pending.done(), True, "done() after ten seconds")
    equal(_result(pending), (words(2, 3),))


@ASYNCHRONOUS.case()
def many_in_flight(bench: Bench) -> None:
    """Many dispatches, waited for in another order, each return their own outputs."""
    pending = [_submit(bench, ADD, words(k), words(*range(k + 1))) for k in range(24)]
    for k in sorted(range(24), key=lambda n: n * 7 % 24):
        equal(_result(pending[k]), (words(*range(k, 2 * k + 1)),), f"dispatch {k}")


@ASYNCHRONOUS.case()
def execute_between_submit_and_wait(bench: Bench) -> None:
    """Blocking and submitted dispatches of one program may be mixed."""
    pending = _submit(bench, ADD, words(1), words(1, 2))
    equal(bench.run(ADD, words(10), words(1, 2)), (words(11, 12),))
    equal(_result(pending), (words(2, 3),))


@ASYNCHRONOUS.case()
def a_dispatch_nobody_waits_for(bench: Bench) -> None:
    """Dropping a pending dispatch disturbs no other work."""
    for k in range(5):
        _submit(bench, ADD, words(k), words(*range(100)))
    equal(bench.run(ADD, words(1), words(1)), (words(2),))


# ---------------------------------------------------------------- callbacks
@ASYNCHRONOUS.case()
def a_callback_is_called_once(bench: Bench) -> None:
    """A callback added before or after completion is called once, when the dispatch is done."""
    pending = _submit(bench, ADD, words(1), words(1, 2))
    calls: list[bool] = []
    called = threading.Event()

    def callback() -> None:
        calls.append(pending.done())
        called.set()

    pending.add_done_callback(callback)
    holds(called.wait(_ENDLESS_S), "the callback is never called")
    equal(_result(pending), (words(2, 3),))
    late = threading.Event()
    pending.add_done_callback(late.set)
    holds(late.wait(_ENDLESS_S), "a callback added after completion is never called")
    equal(calls, [True], "the calls of the first callback, and whether it was done")


@ASYNCHRONOUS.case()
def several_callbacks(bench: Bench) -> None:
    """Every callback of a dispatch is called."""
    pending = _submit(bench, ADD, words(1), words(1))
    events = [threading.Event() for _ in range(5)]
    for event in events:
        pending.add_done_callback(event.set)
    holds(all(event.wait(_ENDLESS_S) for event in events), "a callback is never called")
    _result(pending)


@ASYNCHRONOUS.case()
def a_callback_may_wait(bench: Bench) -> None:
    """``wait`` inside the callback returns at once."""
    pending = _submit(bench, ADD, words(1), words(1, 2))
    results: list[tuple[bytes, ...]] = []
    finished = threading.Event()

    def callback() -> None:
        results.append(_result(pending))
        finished.set()

    pending.add_done_callback(callback)
    holds(finished.wait(_ENDLESS_S), "the callback does not finish")
    equal(results, [(words(2, 3),)])


@ASYNCHRONOUS.case("supports_trap_propagation")
def a_failure_calls_back_too(bench: Bench) -> None:
    """The callback of a dispatch that failed is called."""
    pending = _submit(bench, TRAP, words(9))
    called = threading.Event()
    pending.add_done_callback(called.set)
    holds(called.wait(_ENDLESS_S), "the callback is never called")
    refusal(TrapError, lambda: _result(pending))


# ---------------------------------------------------------------- cancellation
@ASYNCHRONOUS.case()
def a_cancelled_run_ends(bench: Bench) -> None:
    """A run that is cancelled ends with its outputs or with ``DispatchFailed``, calls back, and disturbs nothing."""
    for size in (1, 1000):
        pending = _submit(bench, ADD, words(1), words(*range(size)))
        other = _submit(bench, ADD, words(2), words(1))
        asked = pending.cancel()
        called = threading.Event()
        pending.add_done_callback(called.set)
        holds(called.wait(_ENDLESS_S), "the callback of a cancelled dispatch is never called")
        try:
            equal(_result(pending), (words(*range(1, size + 1)),), "what a cancelled dispatch returns")
        except DispatchFailed:
            holds(asked, "a dispatch that was not asked to end was stopped")
        equal((_result(other), pending.cancel()), ((words(3),), False), "another dispatch; cancel() after the end")


@ASYNCHRONOUS.case()
def a_run_that_has_ended_is_not_cancelled(bench: Bench) -> None:
    """``cancel`` after the end returns False, and the outputs remain."""
    pending = _submit(bench, ADD, words(1), words(1, 2))
    _result(pending)
    equal((pending.cancel(), _result(pending)), (False, (words(2, 3),)))


# ---------------------------------------------------------------- failures
@ASYNCHRONOUS.case("supports_trap_propagation")
def a_trap_is_raised_by_wait(bench: Bench) -> None:
    """``submit`` of a program that will trap succeeds; every ``wait`` raises, and leaves no outputs."""
    pending = _submit(bench, TRAP, words(1, 2, 9))
    for _ in range(2):
        storage = Storage()
        error = refusal(TrapError, lambda: pending.wait(storage, timeout=_ENDLESS_S))  # noqa: B023
        equal((error.tag, error.address, storage.outputs), ("nine", 2, ()))
    equal(pending.done(), True, "done()")
    equal(_result(_submit(bench, TRAP, words(1, 2))), (words(2, 3),))


@ASYNCHRONOUS.case("supports_trap_propagation")
def a_failed_wait_clears_what_was_there(bench: Bench) -> None:
    """An arena with the result of another dispatch is empty after a failed ``wait``."""
    arena = OutputArena()
    _submit(bench, TRAP, words(1)).wait(arena, timeout=_ENDLESS_S)
    equal(len(arena), 1)
    refusal(TrapError, lambda: _submit(bench, TRAP, words(9)).wait(arena, timeout=_ENDLESS_S))
    equal(len(arena), 0, "outputs after a failure")


@ASYNCHRONOUS.table(
    {
        "no_inputs": ((), {}, InvalidInput),
        "wrong_length": ((words(1), b"12345"), {}, InvalidInput),
        "unsupported": ((words(1), words(1)), {"profile": "no such profile"}, UnsupportedFeature),
    }
)
def what_is_refused_is_refused(bench: Bench, row: tuple[tuple[bytes, ...], dict[str, Any], type[VyreError]]) -> None:
    """Requests that ``execute`` refuses are refused by ``submit`` or by ``wait``."""
    inputs, config, expected = row
    refusal(expected, lambda: _result(_submit(bench, ADD, *inputs, **config)))
    equal(_result(_submit(bench, ADD, words(1), words(1))), (words(2),))


@ASYNCHRONOUS.case()
def a_timeout_of_wait_is_no_failure(bench: Bench) -> None:
    """``wait`` with too little time raises ``TimeoutError``, unless the dispatch is done; the dispatch continues."""
    pending = _submit(bench, ADD, words(1), words(*range(1000)))
    with suppress(TimeoutError):
        pending.wait(Storage(), timeout=0.0)
    equal(_result(pending), (words(*range(1, 1001)),))


# ---------------------------------------------------------------- threads
@ASYNCHRONOUS.case()
def threads_submit_and_wait(bench: Bench) -> None:
    """Every thread gets its own results."""

    def work(number: int) -> None:
        pending = [_submit(bench, ADD, words(number), words(*range(k * 10))) for k in range(5)]
        for k in reversed(range(5)):
            equal(_result(pending[k]), (words(*range(number, number + k * 10)),), f"thread {number}, dispatch {k}")

    at_once(6, work)


@ASYNCHRONOUS.case()
def threads_wait_for_one_dispatch(bench: Bench) -> None:
    """Several threads that wait for one dispatch all get its outputs."""
    pending = _submit(bench, ADD, words(1), words(*range(100)))
    at_once(6, lambda _: equal(u32s(_result(pending)[0]), list(range(1, 101))))
