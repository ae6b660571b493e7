"""Cases of ``DeviceLifecycle`` and ``MetricSource``, on fresh backends, and of dispatches of many threads at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.domain.dispatch import OutputArena
from vyre.domain.errors import BackendError, InvalidInput, InvalidResource, TrapError, UnsupportedFeature
from vyre.domain.specialization import SpecMap
from vyre.ports.requests import DispatchRequest, Readback, Upload
from vyre.testing.backend_contract.bench import (
    INCREMENT,
    TRAP,
    Bench,
    Storage,
    at_once,
    check_error,
    equal,
    holds,
    refusal,
    u32s,
    view,
    words,
)
from vyre.testing.backend_contract.case import Group

LIFECYCLE: Final = Group("lifecycle")
METRICS: Final = Group("metrics", "metric_source")


# ---------------------------------------------------------------- prepare, flush, close
@LIFECYCLE.case()
def prepare_is_idempotent(bench: Bench) -> None:
    """``prepare`` is idempotent."""
    with bench.elsewhere() as other:
        lifecycle = other.backend.lifecycle
        epoch = lifecycle.epoch
        equal(other.words(INCREMENT, words(1)), [2])
        lifecycle.prepare()
        equal((other.words(INCREMENT, words(1)), lifecycle.epoch), ([2], epoch))


@LIFECYCLE.case()
def flush_is_idempotent(bench: Bench) -> None:
    """``flush`` waits for all queued work, also when there is none, and keeps memory."""
    with bench.elsewhere() as other:
        lifecycle = other.backend.lifecycle
        lifecycle.flush()
        buffer = other.holding(1, 2) if other.backend.memory is not None else None
        equal(other.words(INCREMENT, words(1)), [2])
        lifecycle.flush()
        lifecycle.flush()
        equal(other.words(INCREMENT, words(1)), [2])
        if buffer is not None:
            equal(other.content(buffer), [1, 2])


@LIFECYCLE.case()
def close_is_idempotent(bench: Bench) -> None:
    """``close`` is idempotent."""
    with bench.elsewhere() as other:
        equal(other.words(INCREMENT, words(1)), [2])
        other.backend.lifecycle.close()
        other.backend.lifecycle.close()


@LIFECYCLE.case()
def close_without_prepare(bench: Bench) -> None:
    """A backend that was never used can be closed."""
    with bench.subject.fresh() as backend:
        backend.lifecycle.close()


@LIFECYCLE.case()
def closing_one_backend_leaves_the_others(bench: Bench) -> None:
    """Backends of one registration are independent."""
    with bench.elsewhere() as one, bench.elsewhere() as two:
        equal((one.words(INCREMENT, words(1)), two.words(INCREMENT, words(2))), ([2], [3]))
        one.backend.lifecycle.close()
        equal(two.words(INCREMENT, words(3)), [4])
    equal(bench.words(INCREMENT, words(4)), [5])


@LIFECYCLE.case()
def opening_and_closing_again_and_again(bench: Bench) -> None:
    """Backends may be made, used and closed in succession."""
    for k in range(4):
        with bench.elsewhere() as other:
            equal(other.words(INCREMENT, words(k)), [k + 1])


# ---------------------------------------------------------------- after close
def _typed_or_right(call: Callable[[], object], wanted: object) -> None:
    """Checks that a call on a closed backend returns the right answer, which is allowed if it owns nothing, or a typed
    error.
    """
    try:
        answer = call()
    except BackendError as error:
        check_error(error)
        return
    equal(answer, wanted, "the answer of a closed backend")


@LIFECYCLE.case()
def a_dispatch_after_close(bench: Bench) -> None:
    """A closed backend refuses dispatches with a typed error, or returns right answers if it owns nothing."""
    with bench.elsewhere() as other:
        other.run(INCREMENT, words(1))
        other.backend.lifecycle.close()
        _typed_or_right(lambda: other.words(INCREMENT, words(1)), [2])


@LIFECYCLE.case("compiler")
def a_pipeline_after_close(bench: Bench) -> None:
    """A pipeline of a closed backend refuses dispatches with a typed error, or returns right answers."""
    with bench.elsewhere() as other:
        pipeline = other.compile(INCREMENT)
        other.dispatch(pipeline, words(1))
        other.backend.lifecycle.close()

        def dispatch() -> tuple[bytes, ...]:
            storage = Storage()
            try:
                pipeline.dispatch((view(words(1)),), storage)
            except BackendError:
                equal(storage.outputs, (), "the outputs of a refused dispatch")
                raise
            return storage.outputs

        _typed_or_right(dispatch, (words(2),))
        _typed_or_right(lambda: other.compile(INCREMENT) and None, None)


@LIFECYCLE.case("memory")
def memory_after_close(bench: Bench) -> None:
    """A buffer that outlives its backend is refused, or still valid; closing it raises nothing."""
    with bench.elsewhere() as other:
        buffer = other.holding(1, 2)
        other.backend.lifecycle.close()
        _typed_or_right(lambda: other.content(buffer), [1, 2])
        _typed_or_right(lambda: other.memory.upload([Upload(buffer, view(words(1, 2)))]), None)
        _typed_or_right(lambda: other.memory.download([Readback(buffer, memoryview(bytearray(8)))]), None)
        _typed_or_right(lambda: other.allocate(4).nbytes, 4)
        buffer.close()
        buffer.close()


@LIFECYCLE.case("async_executor")
def a_pending_dispatch_after_close(bench: Bench) -> None:
    """Waiting for a dispatch of a closed backend returns its outputs or raises a typed error, and does not hang."""
    with bench.elsewhere() as other:
        pending = other.asynchronous.submit(DispatchRequest(other.program(INCREMENT), (view(words(1)),)))
        other.backend.lifecycle.close()

        def wait() -> tuple[bytes, ...]:
            storage = Storage()
            pending.wait(storage, timeout=60.0)
            return storage.outputs

        _typed_or_right(wait, (words(2),))


# ---------------------------------------------------------------- epochs
@LIFECYCLE.case()
def the_epoch_is_steady(bench: Bench) -> None:
    """Dispatches, failures, allocations and flushes do not change the epoch."""
    lifecycle = bench.backend.lifecycle
    epoch = lifecycle.epoch
    bench.run(INCREMENT, words(1))
    bench.refuses(TrapError, 'workgroup_size 1, 1, 1 buffer y @0 write u32[1] body { trap(1u, "t") }')
    lifecycle.flush()
    equal(lifecycle.epoch, epoch)


@LIFECYCLE.case()
def a_healthy_device_is_not_lost(bench: Bench) -> None:
    """``device_lost`` is False while dispatches work, after refused and trapped ones too."""
    bench.run(INCREMENT, words(1))
    bench.refuses(TrapError, 'workgroup_size 1, 1, 1 buffer y @0 write u32[1] body { trap(1u, "t") }')
    bench.refuses(UnsupportedFeature, INCREMENT, words(1), profile="no such profile")
    equal(bench.backend.lifecycle.device_lost(), False)


@LIFECYCLE.case()
def recovery_starts_a_new_epoch(bench: Bench) -> None:
    """After ``recover`` the epoch has grown, the device is present, and dispatches work."""
    with bench.elsewhere() as other:
        lifecycle = other.backend.lifecycle
        other.run(INCREMENT, words(1))
        before = lifecycle.epoch
        other.recover()
        holds(lifecycle.epoch > before, f"the epoch is {lifecycle.epoch}, it was {before}")
        equal((lifecycle.device_lost(), other.words(INCREMENT, words(1))), (False, [2]))


@LIFECYCLE.case("memory")
def buffers_of_an_older_epoch_are_refused(bench: Bench) -> None:
    """Memory does not survive recovery: it is refused, and closing it raises nothing; new memory works."""
    with bench.elsewhere() as other:
        old = other.holding(1)
        other.recover()
        refusal(InvalidResource, lambda: other.content(old))
        refusal(InvalidResource, lambda: other.memory.upload([Upload(old, view(words(1)))]))
        if other.backend.resident_executor is not None:
            refusal(InvalidResource, lambda: other.launch(INCREMENT, old))
        new = other.holding(2)
        equal((other.content(new), new.epoch), ([2], other.backend.lifecycle.epoch))
        old.close()


@LIFECYCLE.case("compiler")
def pipelines_of_an_older_epoch_are_refused(bench: Bench) -> None:
    """A pipeline compiled before recovery is refused with a typed error, or compiled anew; it never returns wrong
    bytes.
    """
    with bench.elsewhere() as other:
        pipeline = other.compile(INCREMENT)
        other.recover()

        _typed_or_right(lambda: other.dispatch(pipeline, words(1)), (words(2),))
        equal(other.words(INCREMENT, words(5)), [6])


# ---------------------------------------------------------------- metrics
@METRICS.case()
def metrics_are_counts(bench: Bench) -> None:
    """Metrics are non-negative integers by name."""
    for name, value in bench.metric_source.metrics().items():
        holds(bool(name) and type(name) is str, f"{name!r} is no name")
        holds(type(value) is int and value >= 0, f"{name} is {value!r}")


@METRICS.case()
def metrics_have_the_same_names_always(bench: Bench) -> None:
    """A dispatch adds no metric names."""
    before = set(bench.metric_source.metrics())
    bench.run(INCREMENT, words(1))
    equal(set(bench.metric_source.metrics()), before)


_RATES: Final = ("_bps", "_percent", "_permille")
"""Suffixes of metrics that are ratios, which may decrease."""


@METRICS.case()
def metrics_only_grow(bench: Bench) -> None:
    """No counter decreases; metrics that are ratios have a suffix that says so."""
    source = bench.metric_source
    before = dict(source.metrics())
    steps: tuple[Callable[[], object], ...] = (
        lambda: bench.run(INCREMENT, words(*range(100))),
        lambda: bench.refuses(TrapError, 'workgroup_size 1, 1, 1 buffer y @0 write u32[1] body { trap(1u, "t") }'),
        lambda: bench.refuses(UnsupportedFeature, INCREMENT, words(1), profile="no such profile"),
        lambda: bench.backend.lifecycle.flush(),
        lambda: bench.run(INCREMENT, words(1), workgroup=(1, 1, 1)),
    )
    for step in steps:
        step()
        after = dict(source.metrics())
        fallen = {n: (before[n], after[n]) for n in before if after[n] < before[n] and not n.endswith(_RATES)}
        equal(fallen, {}, "what fell")
        before = after


@METRICS.case()
def a_dispatch_is_counted(bench: Bench) -> None:
    """Some counter grows with a dispatch."""
    source = bench.metric_source
    before = dict(source.metrics())
    bench.run(INCREMENT, words(1))
    holds(dict(source.metrics()) != before, "no metric changed")


@METRICS.case()
def metrics_are_a_snapshot(bench: Bench) -> None:
    """Metrics that were read do not change later."""
    first = bench.metric_source.metrics()
    copy = dict(first)
    bench.run(INCREMENT, words(1))
    equal(dict(first), copy)


@METRICS.case()
def metrics_of_backends_are_their_own(bench: Bench) -> None:
    """A dispatch on one backend counts on no other."""
    with bench.elsewhere() as other:
        before = dict(bench.metric_source.metrics())
        other.run(INCREMENT, words(1))
        equal(dict(bench.metric_source.metrics()), before)


THREADS: Final = Group("threads")
_THREADS: Final = 8
_ROUNDS: Final = 5
_SCALE: Final = """
    workgroup_size 8, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { y[gid.x] = x[gid.x] * spec(factor, 3u) }
    """
_REVERSE: Final = """
    workgroup_size 32, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    buffer sh @- workgroup u32[32]
    body { sh[lid.x] = x[gid.x] barrier(seq_cst) y[gid.x] = sh[31u - lid.x] }
    """
_COUNT: Final = """
    workgroup_size 16, 1, 1
    buffer x @0 read_write u32[1]
    body { let old = atomic_add(x, 0u, 1u) }
    """


_Work: TypeAlias = Callable[[Bench, int, int], None]
"""Dispatches once in a thread, given by its number, and a round, and checks the answer."""


def _scale(bench: Bench, thread: int, round_: int) -> None:
    equal(bench.words(_SCALE, words(*range(thread + 1))), [3 * k for k in range(thread + 1)])


def _specialized(bench: Bench, thread: int, round_: int) -> None:
    factor = thread % 3 + 1
    equal(bench.words(_SCALE, words(1, 2), spec=SpecMap({"factor": factor})), [factor, 2 * factor])


def _different_programs(bench: Bench, thread: int, round_: int) -> None:
    kernel = f"workgroup_size 4, 1, 1 buffer x @0 read_write u32[4] body {{ x[gid.x] = x[gid.x] + {1000 * thread}u }}"
    equal(bench.words(kernel, words(1, 2, 3, 4)), [1000 * thread + k for k in (1, 2, 3, 4)])


def _workgroup_memory(bench: Bench, thread: int, round_: int) -> None:
    values = [thread * 1000 + round_ * 100 + k for k in range(64)]
    equal(bench.words(_REVERSE, words(*values)), values[31::-1] + values[:31:-1])


def _traps(bench: Bench, thread: int, round_: int) -> None:
    if thread % 2:
        error = bench.refuses(TrapError, TRAP, words(*[9 if k == thread else 0 for k in range(10)]))
        equal(error.address, thread, "the address of the trap")
    else:
        equal(bench.words(TRAP, words(1, 2, thread + 10)), [2, 3, thread + 11])


def _refusals(bench: Bench, thread: int, round_: int) -> None:
    if thread % 2:
        bench.refuses(InvalidInput, _SCALE, b"123")
    else:
        equal(bench.words(_SCALE, words(thread)), [3 * thread])


def _lengths(bench: Bench, thread: int, round_: int) -> None:
    size = (thread * 37 + round_ * 11) % 90
    equal(bench.words(_SCALE, words(*range(size))), [3 * k for k in range(size)])


def _atomics(bench: Bench, thread: int, round_: int) -> None:
    equal(bench.words(_COUNT, words(thread), grid=(round_ + 1, 1, 1)), [thread + 16 * (round_ + 1)])


@THREADS.table(
    {
        "one_program": _scale,
        "one_program_specialized": _specialized,
        "different_programs": _different_programs,
        "workgroup_memory": _workgroup_memory,
        "traps": _traps,
        "refusals": _refusals,
        "lengths": _lengths,
        "atomics": _atomics,
    }
)
def dispatches_at_once(bench: Bench, work: _Work) -> None:
    """Threads that dispatch at once get the same answers as alone."""

    def thread(number: int) -> None:
        for round_ in range(_ROUNDS):
            work(bench, number, round_)

    at_once(_THREADS, thread)


@THREADS.case()
def inputs_may_be_shared(bench: Bench) -> None:
    """Threads may pass the same memory."""
    data = words(*range(200))
    at_once(_THREADS, lambda _: equal(bench.words(_SCALE, data), [3 * k for k in range(200)]))


@THREADS.case()
def arenas_are_one_per_thread(bench: Bench) -> None:
    """Threads that each reuse an arena keep their results apart."""

    def thread(number: int) -> None:
        arena = OutputArena()
        for round_ in range(_ROUNDS):
            size = (number + 1) * (round_ % 3 + 1)
            request = DispatchRequest(bench.program(_SCALE), (view(words(*[number] * size)),))
            bench.backend.executor.execute(request, arena)
            equal(u32s(arena[0]), [3 * number] * size, f"thread {number}, round {round_}")

    at_once(_THREADS, thread)


@THREADS.case()
def a_thread_may_end(bench: Bench) -> None:
    """State that one thread set up serves the next, after the first has ended."""
    for number in range(6):
        at_once(1, lambda _, n=number: equal(bench.words(_SCALE, words(n)), [3 * n]))  # type: ignore[misc]
