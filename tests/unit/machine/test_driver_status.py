"""Every call of the emulated driver refuses a handle that is null, made up, of another kind, or destroyed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from driver_contract.ptx import HEADER, STORE, image, launch_shape
from support.machine.driver import Rig, code_of, rig
from support.machine.kernels import POINTER_AND_WORD, block, load_kernel
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.fault_plan import FaultPlan
from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.machine.presets import H200
from vyre.adapters.cuda.seam import CudaDriver, HostBlock, ParameterBlock

HANDLE, VALUE = Result.INVALID_HANDLE, Result.INVALID_VALUE


class Good(NamedTuple):
    """A live handle of each kind."""

    rig: Rig
    driver: MachineDriver
    stream: int
    event: int
    memory: int
    host: int
    pool: int
    library: int
    kernel: int
    graph: int
    node: int
    executable: int
    parameters: ParameterBlock


@pytest.fixture
def good() -> Good:
    r = rig()
    d = r.driver
    library = d.library_load(image(STORE)).library
    kernel = d.library_kernel(library, "store")
    memory, graph = r.upload(bytes(128)), d.graph_create()
    parameters = block(POINTER_AND_WORD, memory, 0)
    node = d.graph_add_kernel(graph, [], kernel, launch_shape(), parameters)
    executable = d.graph_instantiate(graph)
    host = r.pinned(bytes(128)).address
    event = d.event_create(timing=True)
    return Good(r, d, r.stream, event, memory, host, r.pool, library, kernel, graph, node, executable, parameters)


Call = Callable[[Good, int], object]
CASES: dict[str, tuple[Result, Call]] = {
    "stream_destroy": (HANDLE, lambda g, bad: g.driver.stream_destroy(bad)),
    "stream_synchronize": (HANDLE, lambda g, bad: g.driver.stream_synchronize(bad)),
    "stream_ready": (HANDLE, lambda g, bad: g.driver.stream_ready(bad)),
    "stream_wait_event stream": (HANDLE, lambda g, bad: g.driver.stream_wait_event(bad, g.event)),
    "stream_wait_event event": (HANDLE, lambda g, bad: g.driver.stream_wait_event(g.stream, bad)),
    "event_destroy": (HANDLE, lambda g, bad: g.driver.event_destroy(bad)),
    "event_record event": (HANDLE, lambda g, bad: g.driver.event_record(bad, g.stream)),
    "event_record stream": (HANDLE, lambda g, bad: g.driver.event_record(g.event, bad)),
    "event_ready": (HANDLE, lambda g, bad: g.driver.event_ready(bad)),
    "event_synchronize": (HANDLE, lambda g, bad: g.driver.event_synchronize(bad)),
    "event_elapsed_ms start": (HANDLE, lambda g, bad: g.driver.event_elapsed_ms(bad, g.event)),
    "event_elapsed_ms end": (HANDLE, lambda g, bad: g.driver.event_elapsed_ms(g.event, bad)),
    "pool_destroy": (VALUE, lambda g, bad: g.driver.pool_destroy(bad)),
    "pool_trim": (VALUE, lambda g, bad: g.driver.pool_trim(bad)),
    "pool_use": (VALUE, lambda g, bad: g.driver.pool_use(bad)),
    "mem_alloc_async pool": (VALUE, lambda g, bad: g.driver.mem_alloc_async(8, bad, g.stream)),
    "mem_alloc_async stream": (HANDLE, lambda g, bad: g.driver.mem_alloc_async(8, g.pool, bad)),
    "mem_free_async address": (VALUE, lambda g, bad: g.driver.mem_free_async(bad, g.stream)),
    "mem_free_async stream": (HANDLE, lambda g, bad: g.driver.mem_free_async(g.memory, bad)),
    "mem_free": (VALUE, lambda g, bad: g.driver.mem_free(bad)),
    "host_free": (VALUE, lambda g, bad: g.driver.host_free(HostBlock(bad, memoryview(b"")))),
    "copy_to_device target": (VALUE, lambda g, bad: g.driver.copy_to_device(bad, g.host, 8, g.stream)),
    "copy_to_device stream": (HANDLE, lambda g, bad: g.driver.copy_to_device(g.memory, g.host, 8, bad)),
    "copy_to_host source": (VALUE, lambda g, bad: g.driver.copy_to_host(g.host, bad, 8, g.stream)),
    "copy_to_host stream": (HANDLE, lambda g, bad: g.driver.copy_to_host(g.host, g.memory, 8, bad)),
    "copy_on_device target": (VALUE, lambda g, bad: g.driver.copy_on_device(bad, g.memory, 8, g.stream)),
    "copy_on_device source": (VALUE, lambda g, bad: g.driver.copy_on_device(g.memory, bad, 8, g.stream)),
    "copy_on_device stream": (HANDLE, lambda g, bad: g.driver.copy_on_device(g.memory, g.memory, 8, bad)),
    "memset8 target": (VALUE, lambda g, bad: g.driver.memset8(bad, 0, 8, g.stream)),
    "memset8 stream": (HANDLE, lambda g, bad: g.driver.memset8(g.memory, 0, 8, bad)),
    "pointer_facts": (VALUE, lambda g, bad: g.driver.pointer_facts(bad)),
    "library_unload": (HANDLE, lambda g, bad: g.driver.library_unload(bad)),
    "library_kernel": (HANDLE, lambda g, bad: g.driver.library_kernel(bad, "store")),
    "kernel_facts": (HANDLE, lambda g, bad: g.driver.kernel_facts(bad)),
    "kernel_allow_dynamic_shared": (HANDLE, lambda g, bad: g.driver.kernel_allow_dynamic_shared(bad, 0)),
    "occupancy": (HANDLE, lambda g, bad: g.driver.occupancy(bad, 32, 0)),
    "launch kernel": (HANDLE, lambda g, bad: g.driver.prepare_launch(bad, launch_shape(), g.stream, g.parameters)()),
    "launch stream": (HANDLE, lambda g, bad: g.driver.prepare_launch(g.kernel, launch_shape(), bad, g.parameters)()),
    "graph_destroy": (VALUE, lambda g, bad: g.driver.graph_destroy(bad)),
    "graph_add_copy_to_device graph": (
        VALUE,
        lambda g, bad: g.driver.graph_add_copy_to_device(bad, [], g.memory, g.host, 8),
    ),
    "graph_add_copy_to_host node": (
        VALUE,
        lambda g, bad: g.driver.graph_add_copy_to_host(g.graph, [bad], g.host, g.memory, 8),
    ),
    "graph_add_memset8 address": (VALUE, lambda g, bad: g.driver.graph_add_memset8(g.graph, [], bad, 0, 8)),
    "graph_add_kernel kernel": (
        HANDLE,
        lambda g, bad: g.driver.graph_add_kernel(g.graph, [], bad, launch_shape(), g.parameters),
    ),
    "graph_add_event_record event": (HANDLE, lambda g, bad: g.driver.graph_add_event_record(g.graph, [], bad)),
    "graph_instantiate": (VALUE, lambda g, bad: g.driver.graph_instantiate(bad)),
    "graph_upload executable": (VALUE, lambda g, bad: g.driver.graph_upload(bad, g.stream)),
    "graph_upload stream": (HANDLE, lambda g, bad: g.driver.graph_upload(g.executable, bad)),
    "graph_exec_destroy": (VALUE, lambda g, bad: g.driver.graph_exec_destroy(bad)),
    "graph_update_kernel executable": (
        VALUE,
        lambda g, bad: g.driver.graph_update_kernel(bad, g.node, g.kernel, launch_shape(), g.parameters),
    ),
    "graph_update_kernel node": (
        VALUE,
        lambda g, bad: g.driver.graph_update_kernel(g.executable, bad, g.kernel, launch_shape(), g.parameters),
    ),
    "graph_update_kernel kernel": (
        HANDLE,
        lambda g, bad: g.driver.graph_update_kernel(g.executable, g.node, bad, launch_shape(), g.parameters),
    ),
    "graph_launch executable": (VALUE, lambda g, bad: g.driver.prepare_graph_launch(bad, g.stream)()),
    "graph_launch stream": (HANDLE, lambda g, bad: g.driver.prepare_graph_launch(g.executable, bad)()),
    "context_destroy": (Result.INVALID_CONTEXT, lambda g, bad: g.driver.context_destroy(bad)),
}
ORDINALS: dict[str, Callable[[CudaDriver], object]] = {
    "device_name": lambda d: d.device_name(1),
    "device_uuid": lambda d: d.device_uuid(-1),
    "device_memory": lambda d: d.device_memory(1),
    "device_attribute": lambda d: d.device_attribute(1, 1),
    "primary_retain": lambda d: d.primary_retain(1),
    "primary_release": lambda d: d.primary_release(1),
    "primary_reset": lambda d: d.primary_reset(1),
    "context_create": lambda d: d.context_create(1),
    "pool_create": lambda d: d.pool_create(1),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_handles_are_refused_and_change_nothing(good: Good, name: str) -> None:
    code, call = CASES[name]
    live = good.driver.live()
    made_up, other_kind = 0x7777_0000, good.rig.context
    for bad in (0, made_up, other_kind):
        assert code_of(lambda bad=bad: call(good, bad)) == code  # type: ignore[misc]
    good.driver.context_synchronize()
    assert good.driver.live() == live
    assert not good.driver.violations


@pytest.mark.parametrize("name", ORDINALS)
def test_there_is_one_device(good: Good, name: str) -> None:
    assert code_of(lambda: ORDINALS[name](good.driver)) == Result.INVALID_DEVICE


def test_nothing_is_destroyed_twice(good: Good) -> None:
    d = good.driver
    twice: list[tuple[Callable[[], None], Result]] = [
        (lambda: d.graph_exec_destroy(good.executable), VALUE),
        (lambda: d.graph_destroy(good.graph), VALUE),
        (lambda: d.library_unload(good.library), HANDLE),
        (lambda: d.mem_free_async(good.memory, good.stream), VALUE),
        (lambda: d.event_destroy(good.event), HANDLE),
        (lambda: d.stream_destroy(good.stream), HANDLE),
        (lambda: d.pool_destroy(good.pool), VALUE),
    ]
    for destroy, code in twice:
        destroy()
        assert code_of(destroy) == code
    own = d.context_create(0)
    d.context_destroy(own)
    assert code_of(lambda: d.context_destroy(own)) == Result.INVALID_CONTEXT


def test_sizes_that_make_no_sense(good: Good) -> None:
    d, s = good.driver, good.stream
    calls: list[Callable[[], object]] = [
        lambda: d.mem_alloc_async(0, good.pool, s),
        lambda: d.mem_alloc(0),
        lambda: d.host_alloc(-1),
        lambda: d.copy_to_device(good.memory, good.host, -1, s),
        lambda: d.memset8(good.memory, 0, -1, s),
        lambda: d.memset8(good.memory, -1, 1, s),
        lambda: d.kernel_allow_dynamic_shared(good.kernel, -1),
        lambda: d.device_attribute(0, 10_000),
    ]
    assert [code_of(call) for call in calls] == [VALUE] * len(calls)


def test_what_the_device_does_not_have() -> None:
    bare = rig(preset=replace(H200, cooperative=False))
    kernel = load_kernel(bare, STORE, "store")
    parameters = block(POINTER_AND_WORD, bare.device(128), 0)
    launch = bare.driver.prepare_launch(kernel, launch_shape(cooperative=True), bare.stream, parameters)
    assert code_of(launch) == Result.NOT_SUPPORTED
    assert code_of(lambda: rig(preset=replace(H200, memory_pools=False))) == Result.NOT_SUPPORTED


def test_a_block_of_too_many_registers_does_not_fit(good: Good) -> None:
    hungry = STORE.replace(".reg .b32 %r<5>;", ".reg .b32 %r<5>; .reg .b64 %spare<1000>;")
    kernel = load_kernel(good.rig, hungry, "store")
    facts = good.driver.kernel_facts(kernel)
    assert facts.registers == 255
    launch = good.driver.prepare_launch(
        kernel, launch_shape(threads=facts.max_threads + 32), good.stream, good.parameters
    )
    assert code_of(launch) == Result.LAUNCH_OUT_OF_RESOURCES


SPIN = """
.visible .entry spin()
{
    .reg .b32 %r<2>;
    mov.u32 %r1, 0;
$again:
    add.u32 %r1, %r1, 1;
    bra $again;
}
"""


def test_a_kernel_that_does_not_end_times_out() -> None:
    r = rig(kernels=RunOptions(step_limit=1000), faults=FaultPlan())
    kernel = r.driver.library_kernel(r.driver.library_load(image(SPIN, header=HEADER)).library, "spin")
    r.driver.prepare_launch(kernel, launch_shape(), r.stream, ParameterBlock(()))()
    assert code_of(r.driver.context_synchronize) == Result.LAUNCH_TIMEOUT
    assert [fault.kind for fault in r.driver.kernel_faults] == [FaultKind.STEP_LIMIT]
