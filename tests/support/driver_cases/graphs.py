"""Graphs: nodes, snapshots, updates, launches."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from support.driver_cases.case import STORE, STORE_SLOTS, Subject, Suite, packed, shape
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.seam import Graph, GraphExec

SUITE: Final = Suite()
case = SUITE.case
_TEXT: Final = bytes(range(64))


def _graph(s: Subject) -> Graph:
    graph = s.driver.graph_create()
    s.later(lambda: s.driver.graph_destroy(graph))
    return graph


def _executable(s: Subject, graph: Graph) -> GraphExec:
    executable = s.driver.graph_instantiate(graph)
    s.later(lambda: s.driver.graph_exec_destroy(executable))
    return executable


def _run(s: Subject, executable: GraphExec) -> None:
    s.driver.prepare_graph_launch(executable, s.stream)()
    s.driver.stream_synchronize(s.stream)


@case()
def an_empty_graph_runs(s: Subject) -> None:
    _run(s, _executable(s, _graph(s)))


@case()
def nodes_run_after_what_they_depend_on(s: Subject) -> None:
    graph, memory, source, target = _graph(s), s.device(64), s.pinned(_TEXT), s.pinned(bytes(64))
    up = s.driver.graph_add_copy_to_device(graph, [], memory, source.address, 64)
    fill = s.driver.graph_add_memset8(graph, [up], memory + 8, 0xEE, 8)
    s.driver.graph_add_copy_to_host(graph, [up, fill], target.address, memory, 64)
    executable = _executable(s, graph)
    for text in (_TEXT, _TEXT[::-1]):
        source.view[:] = text
        _run(s, executable)
        assert bytes(target.view) == text[:8] + bytes([0xEE]) * 8 + text[16:]


@case()
def a_launch_of_a_graph_is_ordered_on_its_stream(s: Subject) -> None:
    graph, memory = _graph(s), s.device(64)
    s.driver.graph_add_memset8(graph, [], memory, 2, 32)
    launch = s.driver.prepare_graph_launch(_executable(s, graph), s.stream)
    s.driver.memset8(memory, 1, 64, s.stream)
    launch()
    s.driver.memset8(memory + 16, 3, 8, s.stream)
    assert s.download(memory, 64) == bytes([2]) * 16 + bytes([3]) * 8 + bytes([2]) * 8 + bytes([1]) * 32


@case()
def an_executable_outlives_its_graph(s: Subject) -> None:
    graph, memory = s.driver.graph_create(), s.device(16)
    s.driver.graph_add_memset8(graph, [], memory, 5, 16)
    executable = _executable(s, graph)
    s.driver.graph_destroy(graph)
    _run(s, executable)
    assert s.download(memory, 16) == bytes([5]) * 16


@case()
def an_executable_does_not_see_later_nodes(s: Subject) -> None:
    graph, memory = _graph(s), s.upload(bytes(16))
    first = s.driver.graph_add_memset8(graph, [], memory, 5, 8)
    executable = _executable(s, graph)
    s.driver.graph_add_memset8(graph, [first], memory + 8, 5, 8)
    _run(s, executable)
    assert s.download(memory, 16) == bytes([5]) * 8 + bytes(8)


@case()
def an_executable_can_be_uploaded_before(s: Subject) -> None:
    graph, memory = _graph(s), s.device(16)
    s.driver.graph_add_memset8(graph, [], memory, 6, 16)
    executable = _executable(s, graph)
    s.driver.graph_upload(executable, s.stream)
    _run(s, executable)
    assert s.download(memory, 16) == bytes([6]) * 16


@case()
def a_graph_records_events(s: Subject) -> None:
    graph, memory, start, end = _graph(s), s.device(64), s.new_event(timing=True), s.new_event(timing=True)
    first = s.driver.graph_add_event_record(graph, [], start)
    fill = s.driver.graph_add_memset8(graph, [first], memory, 1, 64)
    s.driver.graph_add_event_record(graph, [fill], end)
    _run(s, _executable(s, graph))
    assert s.driver.event_ready(end)
    assert 0 <= s.driver.event_elapsed_ms(start, end) < 10_000


@case()
def nodes_depend_on_nodes_of_their_graph_once(s: Subject) -> None:
    graph, other, memory = _graph(s), _graph(s), s.device(16)
    own = s.driver.graph_add_memset8(graph, [], memory, 0, 16)
    foreign = s.driver.graph_add_memset8(other, [], memory, 0, 16)
    for after in ([foreign], [own, foreign], [own, own]):
        s.fails(
            Result.INVALID_VALUE,
            lambda after=after: s.driver.graph_add_memset8(graph, after, memory, 0, 16),  # type: ignore[misc]
        )


@case()
def copies_and_fills_can_be_updated(s: Subject) -> None:
    graph, memory = _graph(s), s.upload(bytes(64))
    source, target = s.pinned(_TEXT), s.pinned(bytes(64))
    up = s.driver.graph_add_copy_to_device(graph, [], memory, source.address, 32)
    fill = s.driver.graph_add_memset8(graph, [up], memory, 1, 4)
    down = s.driver.graph_add_copy_to_host(graph, [fill], target.address, memory, 32)
    executable = _executable(s, graph)
    s.driver.graph_update_copy_to_device(executable, up, memory + 8, source.address + 1, 16)
    s.driver.graph_update_memset8(executable, fill, memory + 8, 0xAA, 2)
    s.driver.graph_update_copy_to_host(executable, down, target.address + 4, memory + 8, 8)
    _run(s, executable)
    assert bytes(target.view) == bytes(4) + bytes([0xAA]) * 2 + _TEXT[3:9] + bytes(52)
    assert s.download(memory, 64) == bytes(8) + bytes([0xAA]) * 2 + _TEXT[3:17] + bytes(40)


@case()
def an_update_keeps_the_kind_of_the_node(s: Subject) -> None:
    graph, memory, host = _graph(s), s.device(64), s.pinned(bytes(64))
    up = s.driver.graph_add_copy_to_device(graph, [], memory, host.address, 64)
    fill = s.driver.graph_add_memset8(graph, [up], memory, 1, 4)
    executable = _executable(s, graph)
    calls: tuple[Callable[[], object], ...] = (
        lambda: s.driver.graph_update_memset8(executable, up, memory, 0, 4),
        lambda: s.driver.graph_update_copy_to_device(executable, fill, memory, host.address, 4),
    )
    for call in calls:
        s.fails(Result.INVALID_VALUE, call)
    _run(s, executable)


@case()
def an_update_is_of_a_node_that_was_instantiated(s: Subject) -> None:
    graph, memory = _graph(s), s.device(16)
    first = s.driver.graph_add_memset8(graph, [], memory, 0, 16)
    executable = _executable(s, graph)
    late = s.driver.graph_add_memset8(graph, [first], memory, 0, 16)
    s.fails(Result.INVALID_VALUE, lambda: s.driver.graph_update_memset8(executable, late, memory, 1, 16))


@case(invents_handles=True)
def graphs_and_executables_are_destroyed_once(s: Subject) -> None:
    graph = s.driver.graph_create()
    executable = s.driver.graph_instantiate(graph)
    s.driver.graph_destroy(graph)
    s.driver.graph_exec_destroy(executable)
    memory = s.device(16)
    calls: tuple[Callable[[], object], ...] = (
        lambda: s.driver.graph_destroy(graph),
        lambda: s.driver.graph_instantiate(graph),
        lambda: s.driver.graph_add_memset8(graph, [], memory, 0, 16),
        lambda: s.driver.graph_exec_destroy(executable),
        lambda: s.driver.graph_upload(executable, s.stream),
        lambda: s.driver.prepare_graph_launch(executable, s.stream)(),
    )
    for call in calls:
        s.fails(Result.INVALID_VALUE, call)


# ---------------------------------------------------------------- with kernels
@case(executes=True)
def a_node_copies_its_parameters_when_it_is_added(s: Subject) -> None:
    graph, memory, kernel = _graph(s), s.upload(bytes(4)), s.kernel(STORE, "store")
    block = packed(STORE_SLOTS, memory, 11)
    s.driver.graph_add_kernel(graph, [], kernel, shape(), block)
    block.pack(0, 12)
    _run(s, _executable(s, graph))
    assert s.download(memory, 4) == struct.pack("<I", 11)


@case(executes=True)
def a_kernel_runs_between_copies(s: Subject) -> None:
    graph, memory, kernel = _graph(s), s.device(64), s.kernel(STORE, "store")
    source, target = s.pinned(_TEXT), s.pinned(bytes(64))
    up = s.driver.graph_add_copy_to_device(graph, [], memory, source.address, 64)
    run = s.driver.graph_add_kernel(graph, [up], kernel, shape(2, 4), packed(STORE_SLOTS, memory, 0x01010101))
    s.driver.graph_add_copy_to_host(graph, [run], target.address, memory, 64)
    _run(s, _executable(s, graph))
    assert bytes(target.view) == bytes([1]) * 32 + _TEXT[32:]


@case(executes=True)
def a_kernel_node_can_be_updated(s: Subject) -> None:
    graph, memory, kernel = _graph(s), s.upload(bytes(64)), s.kernel(STORE, "store")
    block = packed(STORE_SLOTS, memory, 1)
    node = s.driver.graph_add_kernel(graph, [], kernel, shape(1, 4), block)
    executable = _executable(s, graph)
    block.pack(memory + 16, 2)
    s.driver.graph_update_kernel(executable, node, kernel, shape(2, 2), block)
    block.pack(0, 0)
    _run(s, executable)
    assert s.download(memory, 64) == bytes(16) + struct.pack("<I", 2) * 4 + bytes(32)


@case(executes=True)
def a_cooperative_kernel_can_be_a_node(s: Subject) -> None:
    graph, memory, kernel = _graph(s), s.upload(bytes(64)), s.kernel(STORE, "store")
    block = packed(STORE_SLOTS, memory, 4)
    s.driver.graph_add_kernel(graph, [], kernel, shape(2, 8, cooperative=True), block)
    _run(s, _executable(s, graph))
    assert s.download(memory, 64) == struct.pack("<I", 4) * 16
