"""Streams and events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from driver_contract.case import Cases
from driver_contract.ptx import STORE, launch_shape, load, parameter_block
from driver_contract.rig import AnyRig, code_of
from vyre.adapters.cuda.codes import Result

CASES: Final = Cases()


@CASES()
def fresh_stream_is_ready(rig: AnyRig) -> None:
    stream = rig.driver.stream_create()
    assert rig.driver.stream_ready(stream)
    rig.driver.stream_synchronize(stream)
    rig.driver.stream_destroy(stream)


@CASES()
def synchronized_stream_is_ready(rig: AnyRig) -> None:
    rig.upload(b"x" * 4096)
    rig.driver.stream_synchronize(rig.stream)
    assert rig.driver.stream_ready(rig.stream)


@CASES()
def legacy_stream_is_refused_everywhere(rig: AnyRig) -> None:
    driver = rig.driver
    address, block, event = rig.upload(bytes(16)), rig.pinned(bytes(16)), driver.event_create()
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.stream_destroy(0),
        lambda: driver.stream_synchronize(0),
        lambda: driver.stream_ready(0),
        lambda: driver.stream_wait_event(0, event),
        lambda: driver.event_record(event, 0),
        lambda: driver.mem_alloc_async(16, rig.pool, 0),
        lambda: driver.mem_free_async(address, 0),
        lambda: driver.copy_to_device(address, block.address, 16, 0),
        lambda: driver.copy_to_host(block.address, address, 16, 0),
        lambda: driver.copy_on_device(address, address + 8, 8, 0),
        lambda: driver.memset8(address, 0, 16, 0),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_HANDLE}


@CASES()
def launches_on_the_legacy_stream_are_refused(rig: AnyRig) -> None:
    kernel, executable = load(rig, STORE, "store"), rig.driver.graph_instantiate(rig.driver.graph_create())
    parameters = parameter_block("QI", rig.device(128), 1)
    calls: tuple[Callable[[], object], ...] = (
        lambda: rig.driver.prepare_launch(kernel, launch_shape(), 0, parameters)(),
        lambda: rig.driver.prepare_graph_launch(executable, 0)(),
        lambda: rig.driver.graph_upload(executable, 0),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_HANDLE}


@CASES(hardware=False)
def destroyed_stream_and_event_are_invalid_handles(rig: AnyRig) -> None:
    driver = rig.driver
    stream, event = driver.stream_create(), driver.event_create()
    driver.stream_destroy(stream)
    driver.event_destroy(event)
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.stream_destroy(stream),
        lambda: driver.stream_synchronize(stream),
        lambda: driver.memset8(rig.device(16), 0, 16, stream),
        lambda: driver.event_destroy(event),
        lambda: driver.event_record(event, rig.stream),
        lambda: driver.event_synchronize(event),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_HANDLE}


@CASES(hardware=False)
def handle_of_another_kind_is_no_stream(rig: AnyRig) -> None:
    event = rig.driver.event_create()
    assert code_of(lambda: rig.driver.stream_synchronize(event)) == Result.INVALID_HANDLE
    assert code_of(lambda: rig.driver.event_synchronize(rig.stream)) == Result.INVALID_HANDLE


@CASES()
def null_event_is_an_invalid_handle(rig: AnyRig) -> None:
    driver = rig.driver
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.event_destroy(0),
        lambda: driver.event_record(0, rig.stream),
        lambda: driver.event_ready(0),
        lambda: driver.event_synchronize(0),
        lambda: driver.stream_wait_event(rig.stream, 0),
        lambda: driver.event_elapsed_ms(0, 0),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_HANDLE}


@CASES()
def event_never_recorded_holds_nobody_up(rig: AnyRig) -> None:
    event = rig.driver.event_create()
    assert rig.driver.event_ready(event)
    rig.driver.event_synchronize(event)
    rig.driver.stream_wait_event(rig.stream, event)
    rig.driver.stream_synchronize(rig.stream)


@CASES()
def event_is_ready_once_its_stream_got_there(rig: AnyRig) -> None:
    for blocking in (False, True):
        event = rig.driver.event_create(blocking=blocking)
        address = rig.upload(b"y" * 4096)
        block = rig.pinned(bytes(4096))
        rig.driver.copy_to_host(block.address, address, 4096, rig.stream)
        rig.driver.event_record(event, rig.stream)
        rig.driver.event_synchronize(event)
        assert rig.driver.event_ready(event)
        assert bytes(block.view) == b"y" * 4096


@CASES()
def event_stands_for_its_newest_record(rig: AnyRig) -> None:
    start, end = (rig.driver.event_create(timing=True) for _ in range(2))
    rig.driver.event_record(end, rig.stream)
    rig.driver.event_record(start, rig.stream)
    rig.driver.memset8(rig.device(2**20), 1, 2**20, rig.stream)
    rig.driver.event_record(end, rig.stream)
    rig.driver.stream_synchronize(rig.stream)
    assert rig.driver.event_elapsed_ms(start, end) > 0


@CASES()
def wait_for_an_event_orders_two_streams(rig: AnyRig) -> None:
    other, event = rig.driver.stream_create(), rig.driver.event_create()
    data = bytes(range(256)) * 64
    source = rig.upload(data)
    target = rig.device(len(data))
    rig.driver.memset8(target, 0, len(data), rig.stream)
    rig.driver.event_record(event, rig.stream)
    rig.driver.stream_wait_event(other, event)
    rig.driver.copy_on_device(target, source, len(data), other)
    assert rig.download(target, len(data), other) == data


@CASES()
def elapsed_time_needs_two_timed_and_recorded_events(rig: AnyRig) -> None:
    timed, never, untimed = (rig.driver.event_create(timing=timing) for timing in (True, True, False))
    for event in (timed, untimed):
        rig.driver.event_record(event, rig.stream)
    rig.driver.stream_synchronize(rig.stream)
    assert code_of(lambda: rig.driver.event_elapsed_ms(timed, untimed)) == Result.INVALID_HANDLE
    assert code_of(lambda: rig.driver.event_elapsed_ms(timed, never)) == Result.INVALID_HANDLE
    assert rig.driver.event_elapsed_ms(timed, timed) == 0


@CASES()
def event_of_another_context_cannot_be_recorded(rig: AnyRig) -> None:
    with _other_context(rig):
        event = rig.driver.event_create()
        rig.driver.set_current(rig.context)
        assert code_of(lambda: rig.driver.event_record(event, rig.stream)) == Result.INVALID_HANDLE


@CASES()
def destroyed_stream_finishes_what_is_in_it(rig: AnyRig) -> None:
    stream = rig.driver.stream_create()
    address, block = rig.upload(b"z" * 4096, stream), rig.pinned(bytes(4096))
    rig.driver.copy_to_host(block.address, address, 4096, stream)
    rig.driver.stream_destroy(stream)
    rig.driver.context_synchronize()
    assert bytes(block.view) == b"z" * 4096


@contextmanager
def _other_context(rig: AnyRig) -> Iterator[None]:
    created = rig.driver.context_create(0)
    try:
        yield
    finally:
        rig.driver.context_destroy(created)
        rig.driver.set_current(rig.context)
