"""Graphs: nodes, snapshots, updates and replays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from driver_contract.case import Cases
from driver_contract.code import words
from driver_contract.ptx import GUARDED, STORE, launch_shape, load, parameter_block
from driver_contract.rig import AnyRig, code_of
from vyre.adapters.cuda.codes import Attribute, Result
from vyre.adapters.cuda.runtime.conditions import END_ROUND
from vyre.adapters.cuda.seam import CudaCallError, GraphExec

CASES: Final = Cases()


def _replay(rig: AnyRig, executable: GraphExec) -> None:
    rig.driver.prepare_graph_launch(executable, rig.stream)()
    rig.driver.stream_synchronize(rig.stream)


@CASES()
def empty_graph_runs(rig: AnyRig) -> None:
    executable = rig.driver.graph_instantiate(rig.driver.graph_create())
    _replay(rig, executable)
    rig.driver.graph_exec_destroy(executable)


@CASES()
def nodes_run_after_what_they_depend_on(rig: AnyRig) -> None:
    driver, graph = rig.driver, rig.driver.graph_create()
    source, target, address = rig.pinned(b"a" * 64), rig.pinned(bytes(64)), rig.device(64)
    up = driver.graph_add_copy_to_device(graph, [], address, source.address, 64)
    fill = driver.graph_add_memset8(graph, [up], address + 16, 0x5A, 16)
    driver.graph_add_copy_to_host(graph, [fill], target.address, address, 64)
    _replay(rig, driver.graph_instantiate(graph))
    assert bytes(target.view) == b"a" * 16 + b"\x5a" * 16 + b"a" * 32


@CASES()
def replay_reads_its_source_again(rig: AnyRig) -> None:
    driver, graph = rig.driver, rig.driver.graph_create()
    source, target, address = rig.pinned(b"a" * 64), rig.pinned(bytes(64)), rig.device(64)
    up = driver.graph_add_copy_to_device(graph, [], address, source.address, 64)
    driver.graph_add_copy_to_host(graph, [up], target.address, address, 64)
    executable = driver.graph_instantiate(graph)
    driver.graph_upload(executable, rig.stream)
    for value in (b"b", b"c"):
        source.view[:] = value * 64
        _replay(rig, executable)
        assert bytes(target.view) == value * 64


@CASES()
def executable_outlives_its_graph(rig: AnyRig) -> None:
    driver, graph, address = rig.driver, rig.driver.graph_create(), rig.upload(bytes(64))
    driver.graph_add_memset8(graph, [], address, 9, 64)
    executable = driver.graph_instantiate(graph)
    driver.graph_destroy(graph)
    _replay(rig, executable)
    assert rig.download(address, 64) == b"\x09" * 64


@CASES()
def nodes_added_later_are_not_in_an_executable(rig: AnyRig) -> None:
    driver, graph, address = rig.driver, rig.driver.graph_create(), rig.upload(bytes(64))
    first = driver.graph_add_memset8(graph, [], address, 1, 32)
    executable = driver.graph_instantiate(graph)
    driver.graph_add_memset8(graph, [first], address + 32, 2, 32)
    _replay(rig, executable)
    assert rig.download(address, 64) == b"\x01" * 32 + bytes(32)


@CASES(needs_execution=True)
def updates_change_the_executable_alone(rig: AnyRig) -> None:
    driver, graph, kernel = rig.driver, rig.driver.graph_create(), load(rig, STORE, "store")
    target = rig.upload(bytes(128))
    node = driver.graph_add_kernel(graph, [], kernel, launch_shape(), parameter_block("QI", target, 5))
    updated, other = driver.graph_instantiate(graph), driver.graph_instantiate(graph)
    driver.graph_update_kernel(updated, node, kernel, launch_shape(), parameter_block("QI", target, 6))
    for executable, value in ((updated, 6), (other, 5), (driver.graph_instantiate(graph), 5)):
        _replay(rig, executable)
        assert rig.download(target, 128) == words(*[value] * 32)


@CASES()
def events_are_recorded_by_nodes(rig: AnyRig) -> None:
    driver, graph, address = rig.driver, rig.driver.graph_create(), rig.device(2**20)
    start, end = (driver.event_create(timing=True) for _ in range(2))
    first = driver.graph_add_event_record(graph, [], start)
    fill = driver.graph_add_memset8(graph, [first], address, 1, 2**20)
    driver.graph_add_event_record(graph, [fill], end)
    _replay(rig, driver.graph_instantiate(graph))
    assert driver.event_ready(end)
    assert driver.event_elapsed_ms(start, end) > 0


@CASES()
def dependencies_are_nodes_of_the_graph_and_listed_once(rig: AnyRig) -> None:
    driver, graph, address = rig.driver, rig.driver.graph_create(), rig.device(64)
    node = driver.graph_add_memset8(graph, [], address, 1, 64)
    foreign = driver.graph_add_memset8(driver.graph_create(), [], address, 1, 64)
    for after in ([node, node], [foreign]):
        assert code_of(partial(driver.graph_add_memset8, graph, after, address, 2, 64)) == Result.INVALID_VALUE


@CASES()
def null_graph_is_an_invalid_value(rig: AnyRig) -> None:
    driver, address = rig.driver, rig.device(64)
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.graph_add_memset8(0, [], address, 1, 64),
        lambda: driver.graph_instantiate(0),
        lambda: driver.graph_destroy(0),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_VALUE}


@CASES()
def nodes_of_negative_sizes_are_invalid_values(rig: AnyRig) -> None:
    driver, graph, address, block = rig.driver, rig.driver.graph_create(), rig.device(64), rig.pinned(bytes(64))
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.graph_add_copy_to_device(graph, [], address, block.address, -1),
        lambda: driver.graph_add_copy_to_host(graph, [], block.address, address, -1),
        lambda: driver.graph_add_memset8(graph, [], address, 0, -1),
        lambda: driver.graph_add_memset8(graph, [], address, -1, 64),
        lambda: driver.graph_add_memset8(graph, [], address, 256, 64),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_VALUE}


@CASES(hardware=False)
def destroyed_graphs_are_invalid_values(rig: AnyRig) -> None:
    driver, graph = rig.driver, rig.driver.graph_create()
    executable = driver.graph_instantiate(graph)
    driver.graph_destroy(graph)
    driver.graph_exec_destroy(executable)
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.graph_destroy(graph),
        lambda: driver.graph_instantiate(graph),
        lambda: driver.graph_exec_destroy(executable),
        lambda: driver.graph_upload(executable, rig.stream),
        lambda: driver.prepare_graph_launch(executable, rig.stream)(),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_VALUE}


@CASES()
def node_cannot_become_another_kind(rig: AnyRig) -> None:
    driver, graph, kernel = rig.driver, rig.driver.graph_create(), load(rig, STORE, "store")
    address, source = rig.device(128), rig.pinned(bytes(64))
    up = driver.graph_add_copy_to_device(graph, [], address, source.address, 64)
    fill = driver.graph_add_memset8(graph, [up], address, 1, 64)
    executable, launch = driver.graph_instantiate(graph), parameter_block("QI", address, 1)
    for node in (up, fill):
        update = partial(driver.graph_update_kernel, executable, node, kernel, launch_shape(), launch)
        assert code_of(update) == Result.INVALID_VALUE


@CASES(hardware=False)
def node_of_another_graph_cannot_be_updated(rig: AnyRig) -> None:
    driver, kernel = rig.driver, load(rig, STORE, "store")
    executable, launch = driver.graph_instantiate(driver.graph_create()), parameter_block("QI", rig.device(128), 1)
    foreign = driver.graph_add_kernel(driver.graph_create(), [], kernel, launch_shape(), launch)
    update = partial(driver.graph_update_kernel, executable, foreign, kernel, launch_shape(), launch)
    assert code_of(update) == Result.INVALID_VALUE


@CASES()
def kernel_node_with_a_wrong_block_is_an_invalid_value(rig: AnyRig) -> None:
    driver, graph, kernel = rig.driver, rig.driver.graph_create(), load(rig, GUARDED, "guarded")
    parameters = parameter_block("Q I 16s", rig.device(512), 1, bytes(16))
    too_large = launch_shape(threads=2048)
    assert code_of(lambda: driver.graph_add_kernel(graph, [], kernel, too_large, parameters)) == Result.INVALID_VALUE


@CASES()
def cooperative_kernel_node_can_be_added(rig: AnyRig) -> None:
    driver, graph, kernel = rig.driver, rig.driver.graph_create(), load(rig, STORE, "store")
    blocks = driver.device_attribute(0, Attribute.MULTIPROCESSOR_COUNT)
    parameters = parameter_block("QI", rig.device(128 * blocks), 3)
    driver.graph_add_kernel(graph, [], kernel, launch_shape(blocks, cooperative=True), parameters)
    _replay(rig, driver.graph_instantiate(graph))


def _loop(rig: AnyRig, limit: int) -> tuple[GraphExec, int, int]:
    """A graph whose body sets a flag in each round, and whose kernel counts rounds up to a limit; record and flag."""
    driver, graph = rig.driver, rig.driver.graph_create()
    record, flag = rig.upload(bytes(64)), rig.upload(bytes(64))
    kernel = driver.library_kernel(driver.library_load(END_ROUND.encode() + b"\0").library, "vyre_end_round")
    clear = driver.graph_add_memset8(graph, [], record, 0, 8)
    condition = driver.graph_condition(graph)
    loop = driver.graph_add_while(graph, [clear], condition)
    driver.graph_add_memset8(graph, [loop.node], record + 16, 7, 4)
    store = driver.graph_add_memset8(loop.body, [], flag, 1, 4)
    parameters = parameter_block("QQQI", condition, record, flag, limit)
    driver.graph_add_kernel(loop.body, [store], kernel, launch_shape(1, 1), parameters)
    return driver.graph_instantiate(graph), record, flag


def _has_loops(rig: AnyRig) -> bool:
    try:
        rig.driver.graph_condition(rig.driver.graph_create())
    except CudaCallError as error:
        assert error.code == Result.NOT_SUPPORTED
        return False
    return True


@CASES(needs_execution=True)
def while_node_runs_its_body_until_the_condition_is_clear(rig: AnyRig) -> None:
    if not _has_loops(rig):
        return
    for limit in (1, 5):
        executable, record, flag = _loop(rig, limit)
        for _ in range(2):  # the condition is set again at each launch
            _replay(rig, executable)
            assert rig.download(record, 20) == words(limit, 0x01010101, 0, 0, 0x07070707)
            assert rig.download(flag, 4) == words(0x01010101)


@CASES(needs_execution=True)
def body_of_a_loop_outlives_its_graph(rig: AnyRig) -> None:
    if not _has_loops(rig):
        return
    driver, graph, address = rig.driver, rig.driver.graph_create(), rig.upload(bytes(64))
    kernel = driver.library_kernel(driver.library_load(END_ROUND.encode() + b"\0").library, "vyre_end_round")
    condition = driver.graph_condition(graph)
    body = driver.graph_add_while(graph, [], condition).body
    driver.graph_add_kernel(
        body, [], kernel, launch_shape(1, 1), parameter_block("QQQI", condition, address, address + 16, 9)
    )
    executable = driver.graph_instantiate(graph)
    driver.graph_add_memset8(body, [], address + 32, 1, 4)
    driver.graph_destroy(graph)
    _replay(rig, executable)
    assert rig.download(address, 64) == words(1) + bytes(60)


@CASES(needs_execution=True, hardware=False)
def loops_are_used_as_they_are_meant(rig: AnyRig) -> None:
    driver, graph, other = rig.driver, rig.driver.graph_create(), rig.driver.graph_create()
    condition = driver.graph_condition(graph)
    assert code_of(partial(driver.graph_add_while, other, [], condition)) == Result.INVALID_VALUE
    assert code_of(partial(driver.graph_instantiate, graph)) == Result.INVALID_VALUE
    loop = driver.graph_add_while(graph, [], condition)
    for call in (
        partial(driver.graph_add_while, graph, [], condition),
        partial(driver.graph_destroy, loop.body),
        partial(driver.graph_instantiate, loop.body),
    ):
        assert code_of(call) == Result.INVALID_VALUE
    assert code_of(partial(driver.graph_add_event_record, loop.body, [], driver.event_create())) == Result.NOT_SUPPORTED


@CASES(needs_execution=True)
def parameters_of_a_kernel_node_are_copied_when_it_is_added(rig: AnyRig) -> None:
    driver, graph, kernel = rig.driver, rig.driver.graph_create(), load(rig, STORE, "store")
    target = rig.upload(bytes(128))
    parameters = parameter_block("QI", target, 5)
    driver.graph_add_kernel(graph, [], kernel, launch_shape(), parameters)
    parameters.pack(0, 0)
    executable = driver.graph_instantiate(graph)
    _replay(rig, executable)
    assert rig.download(target, 128) == words(*[5] * 32)


@CASES(needs_execution=True)
def kernel_nodes_run_with_updated_parameters_and_shape(rig: AnyRig) -> None:
    driver, graph, kernel = rig.driver, rig.driver.graph_create(), load(rig, STORE, "store")
    target = rig.upload(bytes(256))
    parameters = parameter_block("QI", target, 5)
    node = driver.graph_add_kernel(graph, [], kernel, launch_shape(), parameters)
    executable = driver.graph_instantiate(graph)
    parameters.pack(target, 6)
    driver.graph_update_kernel(executable, node, kernel, launch_shape(2), parameters)
    parameters.pack(0, 0)
    _replay(rig, executable)
    assert rig.download(target, 256) == words(*[6] * 64)


@CASES(needs_execution=True)
def whole_dispatch_replays_with_new_inputs(rig: AnyRig) -> None:
    driver, graph, kernel = rig.driver, rig.driver.graph_create(), load(rig, GUARDED, "guarded")
    source, result, address = rig.pinned(bytes(256)), rig.pinned(bytes(256)), rig.device(256)
    parameters = parameter_block("Q I 16s", address, 64, words(0, 0, 1000, 0))
    up = driver.graph_add_copy_to_device(graph, [], address, source.address, 256)
    run = driver.graph_add_kernel(graph, [up], kernel, launch_shape(1, 64), parameters)
    driver.graph_add_copy_to_host(graph, [run], result.address, address, 256)
    executable = driver.graph_instantiate(graph)
    for first in (0, 500):
        source.view[:] = words(*range(first, first + 64))
        _replay(rig, executable)
        assert bytes(result.view) == words(*range(first + 1000, first + 1064))
