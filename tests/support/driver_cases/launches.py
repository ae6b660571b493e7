"""Launches: what is refused at the call, and what the kernels did."""

from __future__ import annotations

import struct
from typing import Final

from support.driver_cases.case import (
    SHARED,
    STORE,
    STORE_SLOTS,
    SUM,
    SUM_SLOTS,
    Subject,
    Suite,
    packed,
    shape,
)
from vyre.adapters.cuda.codes import Attribute, Result
from vyre.adapters.cuda.seam import LaunchShape, ParameterSlot

SUITE: Final = Suite()
case = SUITE.case


def _words(count: int, value: int) -> bytes:
    return struct.pack("<I", value) * count


# ---------------------------------------------------------------- refused
@case()
def a_launch_has_blocks_and_threads(s: Subject) -> None:
    kernel, block = s.kernel(STORE, "store"), packed(STORE_SLOTS, s.device(4), 1)
    for grid, threads in (((0, 1, 1), (1, 1, 1)), ((1, 0, 1), (1, 1, 1)), ((1, 1, 1), (1, 1, 0))):
        error = s.fails(
            Result.INVALID_VALUE,
            lambda grid=grid, threads=threads: s.launch(kernel, LaunchShape(grid, threads), block),  # type: ignore[misc]
        )
        assert error.call == "cuLaunchKernelEx"


@case()
def a_launch_keeps_the_limits_of_the_device(s: Subject) -> None:
    kernel, block = s.kernel(STORE, "store"), packed(STORE_SLOTS, s.device(4), 1)
    threads = s.driver.device_attribute(0, Attribute.MAX_THREADS_PER_BLOCK)
    depth = s.driver.device_attribute(0, Attribute.MAX_BLOCK_DIM_Z)
    height = s.driver.device_attribute(0, Attribute.MAX_GRID_DIM_Y)
    shapes = (
        shape(1, threads + 1),
        LaunchShape((1, 1, 1), (1, 1, depth + 1)),
        LaunchShape((1, 1, 1), (threads // 2, 4, 1)),
        LaunchShape((1, height + 1, 1), (1, 1, 1)),
    )
    for bad in shapes:
        s.fails(Result.INVALID_VALUE, lambda bad=bad: s.launch(kernel, bad, block))  # type: ignore[misc]


@case()
def a_required_block_is_required(s: Subject) -> None:
    kernel, block = s.kernel(SUM, "sum"), packed(SUM_SLOTS, s.device(8), 1, 2, 3, bytes(32))
    s.fails(Result.INVALID_VALUE, lambda: s.launch(kernel, shape(1, 2), block))


@case()
def more_dynamic_shared_memory_must_be_allowed_first(s: Subject) -> None:
    kernel, block = s.kernel(SHARED, "hand_on"), packed((ParameterSlot(0, 8, "Q"),), s.device(4 * 32))
    usual = s.driver.device_attribute(0, Attribute.MAX_SHARED_MEMORY_PER_BLOCK)
    s.fails(Result.INVALID_VALUE, lambda: s.launch(kernel, shape(1, 32, dynamic_shared=usual + 1024), block))
    s.driver.kernel_allow_dynamic_shared(kernel, usual + 1024)
    s.launch(kernel, shape(1, 32, dynamic_shared=usual + 1024), block)


@case()
def a_cooperative_grid_must_fit(s: Subject) -> None:
    kernel, block = s.kernel(STORE, "store"), packed(STORE_SLOTS, s.device(4), 1)
    count = s.driver.device_attribute(0, Attribute.MULTIPROCESSOR_COUNT)
    fits = count * s.driver.occupancy(kernel, 1024, 0)
    s.fails(
        Result.COOPERATIVE_LAUNCH_TOO_LARGE,
        lambda: s.launch(kernel, shape(fits + 1, 1024, cooperative=True), block),
    )


@case()
def a_launch_needs_a_stream_of_its_own(s: Subject) -> None:
    kernel, block = s.kernel(STORE, "store"), packed(STORE_SLOTS, s.device(4), 1)
    s.fails(Result.INVALID_HANDLE, lambda: s.driver.prepare_launch(kernel, shape(), 0, block)())


@case(invents_handles=True)
def a_launch_needs_a_kernel(s: Subject) -> None:
    block = packed(STORE_SLOTS, s.device(4), 1)
    s.fails(Result.INVALID_HANDLE, lambda: s.launch(0xDEAD_0000, shape(), block))


# ---------------------------------------------------------------- run
@case(executes=True)
def every_lane_runs(s: Subject) -> None:
    memory = s.upload(bytes(4 * 96))
    s.launch(s.kernel(STORE, "store"), shape(3, 32), packed(STORE_SLOTS, memory, 0xCAFE))
    assert s.download(memory, 4 * 96) == _words(96, 0xCAFE)


@case(executes=True)
def parameters_of_all_sizes_arrive(s: Subject) -> None:
    memory = s.upload(bytes(8))
    tail = bytes(24) + struct.pack("<Q", 1 << 40)
    block = packed(SUM_SLOTS, memory, 1 << 50, 5, 0xFFFF_FFFF, tail)
    s.launch(s.kernel(SUM, "sum"), shape(), block)
    assert s.download(memory, 8) == struct.pack("<Q", (1 << 50) + (1 << 40) + 5 + 0xFFFF_FFFF)


@case(executes=True)
def parameters_are_copied_at_the_launch(s: Subject) -> None:
    memory = s.upload(bytes(4 * 64))
    block = packed(STORE_SLOTS, memory, 0)
    launch = s.driver.prepare_launch(s.kernel(STORE, "store"), shape(), s.stream, block)
    for i in range(64):
        block.pack(memory + 4 * i, i * i)
        launch()
    block.pack(0, 0)
    assert s.download(memory, 4 * 64) == b"".join(struct.pack("<I", i * i) for i in range(64))


@case(executes=True)
def a_prepared_launch_keeps_its_parameters_alive(s: Subject) -> None:
    memory = s.upload(bytes(4))
    launch = s.driver.prepare_launch(s.kernel(STORE, "store"), shape(), s.stream, packed(STORE_SLOTS, memory, 77))
    rubbish = [packed(STORE_SLOTS, 0, 0) for _ in range(100)]  # would take the place of a block that was freed
    launch()
    assert s.download(memory, 4) == _words(1, 77)
    assert len(rubbish) == 100


@case(executes=True)
def dynamic_shared_memory_is_there(s: Subject) -> None:
    memory = s.upload(bytes(4 * 64))
    block = packed((ParameterSlot(0, 8, "Q"),), memory)
    s.launch(s.kernel(SHARED, "hand_on"), shape(1, 64, dynamic_shared=4 * 64), block)
    assert s.download(memory, 4 * 64) == struct.pack("<64I", *((i + 1) % 64 for i in range(64)))


@case(executes=True)
def a_cooperative_launch_runs(s: Subject) -> None:
    memory = s.upload(bytes(4 * 64))
    s.launch(s.kernel(STORE, "store"), shape(2, 32, cooperative=True), packed(STORE_SLOTS, memory, 3))
    assert s.download(memory, 4 * 64) == _words(64, 3)


@case(executes=True)
def launches_and_copies_of_a_stream_run_in_order(s: Subject) -> None:
    memory, kernel = s.upload(bytes(4)), s.kernel(STORE, "store")
    s.launch(kernel, shape(), packed(STORE_SLOTS, memory, 1))
    first = s.pinned(bytes(4))
    s.driver.copy_to_host(first.address, memory, 4, s.stream)
    s.launch(kernel, shape(), packed(STORE_SLOTS, memory, 2))
    assert s.download(memory, 4) == _words(1, 2)
    assert bytes(first.view) == _words(1, 1)
