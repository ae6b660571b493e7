"""Graphs of the emulated driver: what is copied when, what may change, and what nodes may not share."""

from __future__ import annotations

import ctypes

import pytest

from driver_contract.ptx import STORE, launch_shape
from support.machine.driver import code_of, rig
from support.machine.kernels import POINTER_AND_WORD, block, load_kernel
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.adapters.cuda.machine.journal import ViolationKind


def test_a_graph_runs_its_nodes_in_order_of_their_dependencies() -> None:
    for seed in range(8):
        r = rig(seed=seed)
        d, memory = r.driver, r.device(8)
        source, target = r.pinned(b"abcdefgh"), r.pinned(bytes(8))
        graph = d.graph_create()
        copied = d.graph_add_copy_to_device(graph, [], memory, source.address, 8)
        filled = d.graph_add_memset8(graph, [copied], memory + 2, ord("x"), 3)
        d.graph_add_copy_to_host(graph, [copied, filled], target.address, memory, 8)
        launch = d.prepare_graph_launch(d.graph_instantiate(graph), r.stream)
        launch()
        d.stream_synchronize(r.stream)
        assert bytes(target.view) == b"abxxxfgh"
        source.view[:] = b"ABCDEFGH"
        launch()
        d.stream_synchronize(r.stream)
        assert bytes(target.view) == b"ABxxxFGH"
        assert not d.violations


def test_nodes_that_nothing_orders_must_not_touch_the_same_bytes() -> None:
    r = rig()
    memory = r.device(8)
    graph = r.driver.graph_create()
    r.driver.graph_add_memset8(graph, [], memory, 1, 8)
    r.driver.graph_add_memset8(graph, [], memory + 7, 2, 1)
    r.driver.prepare_graph_launch(r.driver.graph_instantiate(graph), r.stream)()
    r.driver.stream_synchronize(r.stream)
    (violation,) = r.driver.violations
    assert violation.kind is ViolationKind.RACE
    assert "no dependency" in violation.message


def test_an_executable_is_a_snapshot() -> None:
    r = rig()
    kernel, memory = load_kernel(r, STORE, "store"), r.device(256)
    graph = r.driver.graph_create()
    node = r.driver.graph_add_kernel(graph, [], kernel, launch_shape(), block(POINTER_AND_WORD, memory, 1))
    executable = r.driver.graph_instantiate(graph)
    r.driver.graph_add_memset8(graph, [], memory + 128, 2, 128)
    r.driver.graph_destroy(graph)
    launch = r.driver.prepare_graph_launch(executable, r.stream)
    launch()
    r.driver.graph_update_kernel(executable, node, kernel, launch_shape(), block(POINTER_AND_WORD, memory, 3))
    assert r.download(memory, 256) == b"\1\0\0\0" * 32 + b"\xcd" * 128, "the update is for later launches"
    launch()
    assert r.download(memory, 256) == b"\3\0\0\0" * 32 + b"\xcd" * 128
    r.driver.prepare_graph_launch(executable, r.stream)()
    r.driver.graph_exec_destroy(executable)
    assert code_of(launch) == Result.INVALID_VALUE
    assert r.driver.live()["graph_exec"] == 0


def test_an_update_keeps_the_kind_of_a_node() -> None:
    r = rig()
    d, memory, host = r.driver, r.device(128), r.pinned(bytes(8))
    kernel, update = load_kernel(r, STORE, "store"), block(POINTER_AND_WORD, memory, 9)
    graph = d.graph_create()
    up = d.graph_add_copy_to_device(graph, [], memory, host.address, 8)
    fill = d.graph_add_memset8(graph, [up], memory, 0, 8)
    run = d.graph_add_kernel(graph, [fill], kernel, launch_shape(), block(POINTER_AND_WORD, memory, 7))
    executable = d.graph_instantiate(graph)
    calls = (
        lambda: d.graph_update_kernel(executable, up, kernel, launch_shape(), update),
        lambda: d.graph_update_kernel(executable, fill, kernel, launch_shape(), update),
        lambda: d.graph_update_kernel(executable, run + 1, kernel, launch_shape(), update),
        lambda: d.graph_update_kernel(graph, run, kernel, launch_shape(), update),
        lambda: d.graph_add_memset8(graph, [], memory, 0, 129),
        lambda: d.graph_add_memset8(graph, [up, up], memory, 0, 8),
        lambda: d.graph_add_memset8(graph, [executable], memory, 0, 8),
        lambda: d.graph_add_memset8(d.graph_create(), [up], memory, 0, 8),
        lambda: d.graph_instantiate(executable),
    )
    assert [code_of(call) for call in calls] == [Result.INVALID_VALUE] * len(calls)
    d.graph_update_kernel(executable, run, kernel, launch_shape(), update)


def test_pageable_memory_is_read_at_the_launch_and_written_before_it_returns() -> None:
    r = rig()
    memory = r.device(4)
    source, target = ctypes.create_string_buffer(b"abcd", 4), ctypes.create_string_buffer(4)
    graph = r.driver.graph_create()
    up = r.driver.graph_add_copy_to_device(graph, [], memory, ctypes.addressof(source), 4)
    r.driver.graph_add_copy_to_host(graph, [up], ctypes.addressof(target), memory, 4)
    launch = r.driver.prepare_graph_launch(r.driver.graph_instantiate(graph), r.stream)
    source.raw = b"wxyz"
    launch()
    source.raw = b"0000"
    assert target.raw == b"wxyz"


def test_launches_of_one_executable_do_not_overlap() -> None:
    for seed in range(8):
        r = rig(seed=seed)
        other = r.driver.stream_create()
        memory = r.device(4)
        r.driver.stream_synchronize(r.stream)
        graph = r.driver.graph_create()
        r.driver.graph_add_memset8(graph, [], memory, 1, 4)
        executable = r.driver.graph_instantiate(graph)
        for stream in (r.stream, other, r.stream):
            r.driver.prepare_graph_launch(executable, stream)()
        r.driver.context_synchronize()
        assert not r.driver.violations


def test_an_event_node_records_at_its_place() -> None:
    r = rig()
    d, memory = r.driver, r.device(1 << 20)
    d.stream_synchronize(r.stream)
    events = [d.event_create(timing=True) for _ in range(3)]
    graph = d.graph_create()
    first = d.graph_add_event_record(graph, [], events[0])
    fill = d.graph_add_memset8(graph, [first], memory, 1, 1 << 20)
    middle = d.graph_add_event_record(graph, [fill], events[1])
    again = d.graph_add_memset8(graph, [middle], memory, 2, 1 << 20)
    d.graph_add_event_record(graph, [again], events[2])
    d.prepare_graph_launch(d.graph_instantiate(graph), r.stream)()
    assert code_of(lambda: d.event_elapsed_ms(events[0], events[1])) == Result.NOT_READY
    d.event_synchronize(events[2])
    half, whole = d.event_elapsed_ms(events[0], events[1]), d.event_elapsed_ms(events[0], events[2])
    assert half > 0
    assert whole == pytest.approx(2 * half)


def test_a_fault_in_a_launch_frees_whoever_waits_for_its_events() -> None:
    r = rig(faults=FaultPlan(runs=(Fault(code=Result.LAUNCH_FAILED, method="graph_launch"),)))
    d, event = r.driver, r.driver.event_create()
    graph = d.graph_create()
    d.graph_add_event_record(graph, [], event)
    d.prepare_graph_launch(d.graph_instantiate(graph), r.stream)()
    assert code_of(lambda: d.event_synchronize(event)) == Result.LAUNCH_FAILED
