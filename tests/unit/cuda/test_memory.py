"""Device memory, pinned memory and quarantine on the emulated driver."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.fault_plan import DriverCall, Fault, FaultPlan
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.presets import H200, DevicePreset
from vyre.adapters.cuda.runtime.device import MIB, CudaDevice, CudaOptions
from vyre.adapters.cuda.runtime.memory import DeviceMemory, PinnedMemory, Quarantine
from vyre.adapters.cuda.runtime.streams import StreamPool
from vyre.adapters.cuda.seam import CudaCallError, Stream
from vyre.domain.errors import DeviceOutOfMemory
from vyre.domain.ir.program import BackendId


class Rig(NamedTuple):
    device: CudaDevice
    driver: MachineDriver
    memory: DeviceMemory
    pinned: PinnedMemory
    streams: StreamPool
    quarantine: Quarantine
    stream: Stream


def rig(*, preset: DevicePreset = H200, memory_bytes: int = 64 * MIB, **options: int) -> Rig:
    driver = MachineDriver(MachineOptions(preset=preset, memory_bytes=memory_bytes))
    device = CudaDevice(driver, CudaOptions(**options), backend=BackendId("cuda-machine"))  # type: ignore[arg-type]
    memory, pinned, streams = DeviceMemory(device), PinnedMemory(device), StreamPool(device)
    quarantine = Quarantine(device)
    device.enter()
    return Rig(device, driver, memory, pinned, streams, quarantine, streams.acquire().stream)


def closed(r: Rig) -> bool:
    """Close, and whether nothing is left."""
    r.device.close()
    return not any(r.driver.live().values())


# ---------------------------------------------------------------- device memory
def test_no_bytes_are_the_null_address_and_cost_no_call() -> None:
    r = rig()
    block = r.memory.allocate(0, r.stream)
    r.memory.give_back(block, r.stream)
    r.memory.free(block, r.stream)
    assert block.address == 0
    assert r.driver.calls["mem_alloc_async"] == r.driver.calls["mem_free_async"] == 0
    assert closed(r)


def test_an_idle_block_serves_the_next_allocation_of_its_class() -> None:
    r = rig()
    first = r.memory.allocate(1000, r.stream)
    r.memory.give_back(first, r.stream)
    assert r.memory.idle_bytes == 1024
    assert r.memory.allocate(1024, r.stream) == first
    assert r.memory.allocate(1024, r.stream) != first
    assert r.driver.calls["mem_alloc_async"] == 2
    assert closed(r)


def test_no_more_is_kept_than_the_options_say() -> None:
    r = rig(cached_device_bytes=2048)
    blocks = [r.memory.allocate(1024, r.stream) for _ in range(3)]
    for block in blocks:
        r.memory.give_back(block, r.stream)
    assert r.memory.idle_bytes == 2048
    assert r.driver.calls["mem_free_async"] == 1
    assert closed(r)


def test_a_full_device_gives_back_what_is_kept_and_tries_once_more() -> None:
    r = rig(memory_bytes=8 * MIB)
    block = r.memory.allocate(5 * MIB, r.stream)
    r.driver.stream_synchronize(r.stream)
    r.memory.give_back(block, r.stream)
    held: list[str] = []
    r.memory.on_shortage(partial(held.append, "asked"))
    block = r.memory.allocate(6 * MIB, r.stream)
    assert block.capacity == 6 * MIB
    assert held == ["asked"]
    assert r.device.counters.allocation_retries == 1
    assert r.driver.calls["pool_trim"] == 1
    assert closed(r)


def test_a_device_that_stays_full_is_reported_with_figures() -> None:
    r = rig(memory_bytes=8 * MIB)
    with pytest.raises(DeviceOutOfMemory) as caught, r.device.calls:
        r.memory.allocate(16 * MIB, r.stream)
    assert caught.value.requested == 16 * MIB
    assert caught.value.available == 8 * MIB
    assert r.driver.calls["mem_alloc_async"] == 2
    assert closed(r)


def test_the_pool_limit_of_the_options_holds() -> None:
    r = rig(pool_bytes=2 * MIB)
    with pytest.raises(CudaCallError):
        r.memory.allocate(4 * MIB, r.stream)
    assert closed(r)


@pytest.mark.parametrize(("memory_bytes", "pool_bytes", "available"), [(64, 4, 3), (64, 0, 63), (4, 64, 3)])
def test_a_shortage_is_reported_with_what_the_pool_can_still_give(
    memory_bytes: int, pool_bytes: int, available: int
) -> None:
    r = rig(memory_bytes=memory_bytes * MIB, pool_bytes=pool_bytes * MIB)
    r.memory.allocate(MIB, r.stream)
    unused = r.memory.allocate(MIB, r.stream)
    r.memory.free(unused, r.stream)
    r.driver.stream_synchronize(r.stream)
    with pytest.raises(DeviceOutOfMemory) as caught, r.device.calls:
        r.memory.allocate(128 * MIB, r.stream)
    assert caught.value.available == available * MIB
    assert closed(r)


def test_without_pools_plain_allocations_do() -> None:
    r = rig(preset=replace(H200, memory_pools=False))
    block = r.memory.allocate(100, r.stream)
    r.memory.free(block, r.stream)
    assert (r.driver.calls["mem_alloc"], r.driver.calls["mem_free"]) == (1, 1)
    r.memory.allocate(100, r.stream)
    assert closed(r)


def test_blocks_of_an_earlier_epoch_are_left_alone() -> None:
    r = rig()
    block = r.memory.allocate(100, r.stream)
    r.device.recover()
    before = sum(r.driver.calls.values())
    r.memory.give_back(block, r.stream)
    r.memory.free(block, r.stream)
    assert sum(r.driver.calls.values()) == before
    assert closed(r)


# ---------------------------------------------------------------- pinned memory
def test_pinned_blocks_are_kept_by_class() -> None:
    r = rig(cached_host_bytes=4096)
    first = r.pinned.allocate(4000)
    r.pinned.give_back(first)
    again = r.pinned.allocate(4096)
    assert again.address == first.address
    other = r.pinned.allocate(4096)
    r.pinned.give_back(again)
    r.pinned.give_back(other)
    assert r.pinned.idle_bytes == 4096
    assert r.driver.calls["host_free"] == 1
    assert closed(r)


def test_a_shortage_of_pinned_memory_frees_what_is_kept() -> None:
    r = rig()
    r.pinned.give_back(r.pinned.allocate(8192))
    r.driver.inject(FaultPlan(calls=(Fault(code=Result.OUT_OF_MEMORY, method="host_alloc"),)))
    r.pinned.allocate(300)
    assert r.pinned.idle_bytes == 0
    assert r.device.counters.allocation_retries == 1
    assert closed(r)


# ---------------------------------------------------------------- streams
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_lease_is_made_whole_or_not_at_all(nth: int) -> None:
    r = rig()
    live = r.driver.live()
    method: DriverCall = "stream_create" if nth == 1 else "event_create"
    r.driver.inject(FaultPlan(calls=(Fault(code=Result.INVALID_VALUE, method=method, nth=max(1, nth - 1)),)))
    with pytest.raises(CudaCallError):
        r.streams.acquire()
    assert r.driver.live() == live
    assert closed(r)


def test_a_lease_given_back_is_used_again() -> None:
    r = rig()
    lease = r.streams.acquire()
    r.streams.give_back(lease)
    assert r.streams.acquire() == lease
    r.streams.free(lease)
    assert r.streams.acquire() != lease
    assert closed(r)


# ---------------------------------------------------------------- quarantine
def test_quarantine_releases_once_the_stream_is_idle() -> None:
    r = rig()
    released: list[int] = []
    block = r.memory.allocate(64, r.stream)
    r.driver.memset8(block.address, 1, 64, r.stream)
    r.quarantine.hold(r.stream, partial(released.append, 1))
    for _ in range(100):
        r.quarantine.reap()
        if released:
            break
    assert released == [1]
    assert len(r.quarantine) == 0
    assert r.device.counters.quarantined_leases == 1
    assert closed(r)


def test_memory_outlives_the_stream_it_was_used_on() -> None:
    r = rig()
    lease = r.streams.acquire()
    block = r.memory.allocate(64, lease.stream)
    r.quarantine.hold(lease.stream, partial(r.streams.free, lease))
    r.quarantine.hold(lease.stream, partial(r.memory.retire, block))
    assert r.quarantine.holds(lease.stream)
    r.driver.stream_synchronize(lease.stream)
    r.quarantine.reap()
    assert not r.quarantine.holds(lease.stream)
    assert r.memory.idle_bytes == 0
    assert closed(r)


def test_leases_of_one_stream_are_released_in_order() -> None:
    """The stream itself is often the last of them."""
    r = rig()
    lease = r.streams.acquire()
    released: list[int] = []
    r.quarantine.hold(lease.stream, partial(released.append, 1))
    r.quarantine.hold(lease.stream, partial(r.streams.free, lease))
    r.quarantine.hold(r.stream, partial(released.append, 2))
    r.quarantine.reap()
    assert released == [1, 2]
    assert len(r.quarantine) == 0
    assert closed(r)


def test_a_query_that_fails_keeps_the_lease_in_quarantine() -> None:
    r = rig()
    released: list[int] = []
    r.quarantine.hold(r.stream, partial(released.append, 1))
    r.driver.inject(FaultPlan(calls=(Fault(code=Result.INVALID_VALUE, method="stream_ready"),)))
    with pytest.raises(CudaCallError):
        r.quarantine.reap()
    assert (released, len(r.quarantine)) == ([], 1)
    assert closed(r)
    assert released == [1]
