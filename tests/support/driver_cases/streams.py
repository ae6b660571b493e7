"""Streams and events: order, completion, and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from support.driver_cases.case import Subject, Suite
from vyre.adapters.cuda.codes import Result

SUITE: Final = Suite()
case = SUITE.case
_BIG: Final = 1 << 20


@case()
def an_idle_stream_is_ready(s: Subject) -> None:
    assert s.driver.stream_ready(s.stream)
    s.driver.stream_synchronize(s.stream)


@case()
def streams_take_a_priority(s: Subject) -> None:
    for priority in (0, -1, -1000, 1000):  # out of range is clamped
        s.driver.stream_destroy(s.driver.stream_create(priority))


@case()
def the_legacy_stream_is_refused(s: Subject) -> None:
    memory, host, event = s.device(16), s.pinned(bytes(16)), s.new_event()
    executable = s.driver.graph_instantiate(s.driver.graph_create())
    s.later(lambda: s.driver.graph_exec_destroy(executable))
    calls: tuple[Callable[[], object], ...] = (
        lambda: s.driver.stream_destroy(0),
        lambda: s.driver.stream_synchronize(0),
        lambda: s.driver.stream_ready(0),
        lambda: s.driver.stream_wait_event(0, event),
        lambda: s.driver.event_record(event, 0),
        lambda: s.driver.mem_alloc_async(16, s.pool, 0),
        lambda: s.driver.mem_free_async(memory, 0),
        lambda: s.driver.copy_to_device(memory, host.address, 16, 0),
        lambda: s.driver.copy_to_host(host.address, memory, 16, 0),
        lambda: s.driver.copy_on_device(memory, memory, 16, 0),
        lambda: s.driver.memset8(memory, 0, 16, 0),
        lambda: s.driver.graph_upload(executable, 0),
        lambda: s.driver.prepare_graph_launch(executable, 0)(),
    )
    for call in calls:
        s.fails(Result.INVALID_HANDLE, call)


@case()
def work_on_a_stream_runs_in_order(s: Subject) -> None:
    memory = s.device(_BIG)
    for value in range(1, 9):
        s.driver.memset8(memory, value, _BIG, s.stream)
    assert s.download(memory, _BIG) == bytes([8]) * _BIG


@case()
def a_stream_is_ready_once_synchronised(s: Subject) -> None:
    s.driver.memset8(s.device(_BIG), 1, _BIG, s.stream)
    s.driver.stream_synchronize(s.stream)
    assert s.driver.stream_ready(s.stream)


@case()
def polling_a_stream_ends(s: Subject) -> None:
    s.driver.memset8(s.device(_BIG), 1, _BIG, s.stream)
    assert any(s.driver.stream_ready(s.stream) for _ in range(1_000_000))


@case()
def what_is_in_a_destroyed_stream_still_runs(s: Subject) -> None:
    memory, stream = s.device(64), s.driver.stream_create()
    s.driver.memset8(memory, 7, 64, stream)
    s.driver.stream_destroy(stream)
    s.driver.context_synchronize()
    assert s.download(memory, 64) == bytes([7]) * 64


@case()
def an_event_that_was_never_recorded_is_complete(s: Subject) -> None:
    event = s.new_event()
    assert s.driver.event_ready(event)
    s.driver.event_synchronize(event)
    s.driver.stream_wait_event(s.stream, event)
    s.driver.stream_synchronize(s.stream)


@case()
def an_event_completes_with_what_is_before_it(s: Subject) -> None:
    for blocking in (False, True):
        memory, event = s.device(_BIG), s.new_event(blocking=blocking)
        s.driver.memset8(memory, 3, _BIG, s.stream)
        s.driver.event_record(event, s.stream)
        s.driver.event_synchronize(event)
        assert s.driver.event_ready(event)
        other = s.new_stream()
        assert s.download(memory, _BIG, other) == bytes([3]) * _BIG


@case()
def an_event_orders_two_streams(s: Subject) -> None:
    first, second, memory = s.new_stream(), s.new_stream(), s.device(_BIG)
    for value in range(1, 5):
        event = s.new_event()
        s.driver.memset8(memory, value, _BIG, first)
        s.driver.event_record(event, first)
        s.driver.stream_wait_event(second, event)
        assert s.download(memory, _BIG, second) == bytes([value]) * _BIG


@case()
def a_wait_is_for_the_record_before_it(s: Subject) -> None:
    first, second, memory, event = s.new_stream(), s.new_stream(), s.device(64), s.new_event()
    s.driver.memset8(memory, 1, 64, first)
    s.driver.event_record(event, first)
    s.driver.stream_wait_event(second, event)
    s.driver.memset8(memory, 2, 64, second)
    s.driver.event_record(event, second)  # the wait above does not move
    s.driver.stream_wait_event(first, event)
    assert s.download(memory, 64, first) == bytes([2]) * 64


@case()
def an_event_may_be_destroyed_before_it_completes(s: Subject) -> None:
    event, memory = s.driver.event_create(), s.device(_BIG)
    s.driver.memset8(memory, 1, _BIG, s.stream)
    s.driver.event_record(event, s.stream)
    s.driver.event_destroy(event)
    s.driver.stream_synchronize(s.stream)


@case()
def events_measure_time(s: Subject) -> None:
    start, end, memory = s.new_event(timing=True), s.new_event(timing=True), s.device(_BIG)
    s.driver.event_record(start, s.stream)
    for _ in range(8):
        s.driver.memset8(memory, 1, _BIG, s.stream)
    s.driver.event_record(end, s.stream)
    s.driver.stream_synchronize(s.stream)
    elapsed = s.driver.event_elapsed_ms(start, end)
    assert 0 <= elapsed < 10_000
    assert s.driver.event_elapsed_ms(start, start) == 0


@case()
def time_needs_two_recorded_events_with_timing(s: Subject) -> None:
    timed, untimed, idle = s.new_event(timing=True), s.new_event(), s.new_event(timing=True)
    s.driver.event_record(timed, s.stream)
    s.driver.event_record(untimed, s.stream)
    s.driver.stream_synchronize(s.stream)
    for start, end in ((timed, untimed), (untimed, timed), (timed, idle), (idle, timed)):
        s.fails(Result.INVALID_HANDLE, lambda start=start, end=end: s.driver.event_elapsed_ms(start, end))  # type: ignore[misc]


@case(invents_handles=True)
def a_stream_is_destroyed_once(s: Subject) -> None:
    stream = s.driver.stream_create()
    s.driver.stream_destroy(stream)
    for call in (s.driver.stream_destroy, s.driver.stream_synchronize, s.driver.stream_ready):
        s.fails(Result.INVALID_HANDLE, lambda call=call: call(stream))  # type: ignore[misc]


@case(invents_handles=True)
def an_event_is_destroyed_once(s: Subject) -> None:
    event = s.driver.event_create()
    s.driver.event_destroy(event)
    for call in (s.driver.event_destroy, s.driver.event_synchronize, s.driver.event_ready):
        s.fails(Result.INVALID_HANDLE, lambda call=call: call(event))  # type: ignore[misc]


@case(invents_handles=True)
def an_event_is_no_stream(s: Subject) -> None:
    event = s.new_event()
    s.fails(Result.INVALID_HANDLE, lambda: s.driver.stream_synchronize(event))
    s.fails(Result.INVALID_HANDLE, lambda: s.driver.event_synchronize(s.stream))
