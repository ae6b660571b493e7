"""Allocations, pools, copies and memsets."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Final

from driver_contract.case import Cases
from driver_contract.ptx import LOAD, STORE, launch_shape, load, parameter_block
from driver_contract.rig import AnyRig, code_of
from vyre.adapters.cuda.codes import Result

CASES: Final = Cases()
DATA: Final = bytes(range(251)) * 41
MIB: Final = 2**20


@CASES()
def pinned_copies_come_back(rig: AnyRig) -> None:
    assert rig.download(rig.upload(DATA), len(DATA)) == DATA


@CASES()
def pageable_source_was_read_when_the_call_returns(rig: AnyRig) -> None:
    source, address = ctypes.create_string_buffer(DATA, len(DATA)), rig.device(len(DATA))
    rig.driver.copy_to_device(address, ctypes.addressof(source), len(DATA), rig.stream)
    ctypes.memset(source, 0, len(DATA))
    assert rig.download(address, len(DATA)) == DATA


@CASES()
def pageable_target_is_filled_when_the_call_returns(rig: AnyRig) -> None:
    target, address = ctypes.create_string_buffer(len(DATA)), rig.upload(DATA)
    rig.driver.copy_to_host(ctypes.addressof(target), address, len(DATA), rig.stream)
    assert target.raw == DATA


@CASES()
def copies_on_the_device_keep_bytes(rig: AnyRig) -> None:
    target = rig.device(len(DATA))
    rig.driver.copy_on_device(target, rig.upload(DATA), len(DATA), rig.stream)
    assert rig.download(target, len(DATA)) == DATA


@CASES()
def part_of_an_allocation_can_be_copied(rig: AnyRig) -> None:
    address, block = rig.upload(bytes(64)), rig.pinned(DATA[:64])
    rig.driver.copy_to_device(address + 3, block.address + 5, 7, rig.stream)
    assert rig.download(address, 64) == bytes(3) + DATA[5:12] + bytes(54)


@CASES()
def copies_of_one_stream_happen_in_order(rig: AnyRig) -> None:
    address = rig.device(64)
    for value in range(8):
        rig.driver.copy_to_device(address, rig.pinned(bytes([value]) * 64).address, 64, rig.stream)
    assert rig.download(address, 64) == bytes([7]) * 64


@CASES()
def copies_and_memsets_of_no_bytes_do_nothing(rig: AnyRig) -> None:
    address, block = rig.upload(DATA), rig.pinned(bytes(16))
    rig.driver.copy_to_device(address, block.address, 0, rig.stream)
    rig.driver.copy_to_host(block.address, address, 0, rig.stream)
    rig.driver.copy_on_device(address, address + 256, 0, rig.stream)
    rig.driver.memset8(address, 9, 0, rig.stream)
    assert rig.download(address, len(DATA)) == DATA


@CASES()
def memset_fills_its_bytes_alone(rig: AnyRig) -> None:
    address = rig.upload(bytes(100))
    rig.driver.memset8(address + 1, 0xA5, 97, rig.stream)
    assert rig.download(address, 100) == b"\0" + b"\xa5" * 97 + b"\0\0"


@CASES()
def memset_takes_bytes_alone(rig: AnyRig) -> None:
    address = rig.device(16)
    for value in (-1, 256):
        assert code_of(partial(rig.driver.memset8, address, value, 16, rig.stream)) == Result.INVALID_VALUE


@CASES()
def negative_sizes_are_invalid_values(rig: AnyRig) -> None:
    driver, address, block = rig.driver, rig.device(16), rig.pinned(bytes(16))
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.mem_alloc_async(-1, rig.pool, rig.stream),
        lambda: driver.mem_alloc(-1),
        lambda: driver.host_alloc(-1),
        lambda: driver.copy_to_device(address, block.address, -1, rig.stream),
        lambda: driver.copy_to_host(block.address, address, -1, rig.stream),
        lambda: driver.copy_on_device(address, address, -1, rig.stream),
        lambda: driver.memset8(address, 0, -1, rig.stream),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_VALUE}


@CASES()
def null_addresses_are_invalid_values(rig: AnyRig) -> None:
    driver, address, block = rig.driver, rig.device(16), rig.pinned(bytes(16))
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.copy_to_device(0, block.address, 16, rig.stream),
        lambda: driver.copy_to_device(address, 0, 16, rig.stream),
        lambda: driver.copy_to_host(0, address, 16, rig.stream),
        lambda: driver.copy_to_host(block.address, 0, 16, rig.stream),
        lambda: driver.copy_on_device(0, address, 16, rig.stream),
        lambda: driver.memset8(0, 0, 16, rig.stream),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_VALUE}


@CASES(hardware=False)
def ranges_that_leave_their_allocation_are_invalid_values(rig: AnyRig) -> None:
    driver, address, block = rig.driver, rig.device(256), rig.pinned(bytes(8192))
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.copy_to_device(address, block.address, 257, rig.stream),
        lambda: driver.copy_to_host(block.address, address + 255, 2, rig.stream),
        lambda: driver.copy_to_device(address, block.address + 8191, 2, rig.stream),
        lambda: driver.copy_on_device(address + 1, address, 256, rig.stream),
        lambda: driver.memset8(address + 256, 0, 1, rig.stream),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_VALUE}


@CASES()
def freeing_twice_is_an_invalid_value(rig: AnyRig) -> None:
    asynchronous, plain, block = rig.device(256), rig.driver.mem_alloc(256), rig.driver.host_alloc(256)
    rig.driver.mem_free_async(asynchronous, rig.stream)
    rig.driver.mem_free(plain)
    rig.driver.host_free(block)
    calls: tuple[Callable[[], object], ...] = (
        lambda: rig.driver.mem_free_async(asynchronous, rig.stream),
        lambda: rig.driver.mem_free(plain),
        lambda: rig.driver.host_free(block),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_VALUE}


@CASES()
def only_the_start_of_an_allocation_can_be_freed(rig: AnyRig) -> None:
    asynchronous, plain = rig.device(4096), rig.driver.mem_alloc(4096)
    assert code_of(lambda: rig.driver.mem_free_async(asynchronous + 256, rig.stream)) == Result.INVALID_VALUE
    assert code_of(lambda: rig.driver.mem_free(plain + 256)) == Result.INVALID_VALUE
    rig.driver.mem_free_async(asynchronous, rig.stream)
    rig.driver.mem_free(plain)


@CASES()
def allocations_of_no_bytes_are_invalid_values(rig: AnyRig) -> None:
    assert code_of(lambda: rig.driver.mem_alloc(0)) == Result.INVALID_VALUE
    assert code_of(lambda: rig.driver.host_alloc(0)) == Result.INVALID_VALUE


@CASES()
def more_than_the_device_has_is_out_of_memory(rig: AnyRig) -> None:
    assert code_of(lambda: rig.driver.mem_alloc(2**50)) == Result.OUT_OF_MEMORY
    assert code_of(lambda: rig.device(2**50)) == Result.OUT_OF_MEMORY
    assert rig.download(rig.upload(DATA), len(DATA)) == DATA


@CASES()
def limit_of_a_pool_holds_and_leaves_others_alone(rig: AnyRig) -> None:
    limited = rig.driver.pool_create(0, max_bytes=64 * MIB)
    assert code_of(lambda: rig.driver.mem_alloc_async(128 * MIB, limited, rig.stream)) == Result.OUT_OF_MEMORY
    address = rig.driver.mem_alloc_async(MIB, limited, rig.stream)
    rig.driver.mem_free_async(address, rig.stream)
    rig.driver.mem_free_async(rig.device(128 * MIB), rig.stream)
    rig.driver.stream_synchronize(rig.stream)
    rig.driver.pool_destroy(limited)


@CASES()
def pool_counts_what_it_uses_and_reserves(rig: AnyRig) -> None:
    assert rig.driver.pool_use(rig.pool).used == 0
    address = rig.device(MIB)
    rig.driver.stream_synchronize(rig.stream)
    use = rig.driver.pool_use(rig.pool)
    assert use.used >= MIB
    assert use.reserved >= use.used
    rig.driver.mem_free_async(address, rig.stream)
    rig.driver.stream_synchronize(rig.stream)
    assert rig.driver.pool_use(rig.pool).used == 0


@CASES()
def trimmed_pool_gives_idle_memory_back(rig: AnyRig) -> None:
    rig.driver.mem_free_async(rig.device(MIB), rig.stream)
    rig.driver.stream_synchronize(rig.stream)
    rig.driver.pool_trim(rig.pool)
    assert rig.driver.pool_use(rig.pool).reserved == 0


@CASES()
def trimming_leaves_live_memory_alone(rig: AnyRig) -> None:
    address = rig.upload(DATA)
    rig.driver.stream_synchronize(rig.stream)
    rig.driver.pool_trim(rig.pool)
    assert rig.driver.pool_use(rig.pool).used >= len(DATA)
    assert rig.download(address, len(DATA)) == DATA


@CASES()
def freed_memory_serves_again_on_its_stream(rig: AnyRig) -> None:
    rig.driver.mem_free_async(rig.device(4 * MIB), rig.stream)
    first = rig.driver.pool_use(rig.pool).reserved
    for _ in range(64):
        rig.driver.mem_free_async(rig.device(4 * MIB), rig.stream)
    rig.driver.stream_synchronize(rig.stream)
    assert rig.driver.pool_use(rig.pool).reserved <= max(first, 64 * MIB)


@CASES(hardware=False)
def destroyed_pool_is_an_invalid_value(rig: AnyRig) -> None:
    pool = rig.driver.pool_create(0)
    rig.driver.pool_destroy(pool)
    calls: tuple[Callable[[], object], ...] = (
        lambda: rig.driver.mem_alloc_async(16, pool, rig.stream),
        lambda: rig.driver.pool_use(pool),
        lambda: rig.driver.pool_trim(pool),
        lambda: rig.driver.pool_destroy(pool),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_VALUE}


@CASES()
def plain_allocation_holds_bytes(rig: AnyRig) -> None:
    address = rig.driver.mem_alloc(len(DATA))
    rig.driver.copy_to_device(address, rig.pinned(DATA).address, len(DATA), rig.stream)
    assert rig.download(address, len(DATA)) == DATA
    rig.driver.mem_free(address)


@CASES()
def allocations_do_not_overlap_and_are_aligned(rig: AnyRig) -> None:
    sizes = (1, 255, 257, 4096, 70_000)
    found = sorted((rig.device(nbytes), nbytes) for nbytes in sizes)
    assert all(address % 256 == 0 for address, _ in found)
    assert all(low + nbytes <= high for (low, nbytes), (high, _) in pairwise(found))


@CASES()
def pointer_facts_name_the_allocation(rig: AnyRig) -> None:
    address = rig.device(5000)
    rig.driver.stream_synchronize(rig.stream)
    for inside in (0, 1, 4999):
        facts = rig.driver.pointer_facts(address + inside)
        assert facts.base == address
        assert facts.nbytes >= 5000
        assert (facts.device, facts.managed) == (0, False)


@CASES()
def address_of_nothing_has_no_facts(rig: AnyRig) -> None:
    assert code_of(lambda: rig.driver.pointer_facts(256)) == Result.INVALID_VALUE


@CASES()
def pinned_memory_can_be_read_and_written(rig: AnyRig) -> None:
    block = rig.driver.host_alloc(3000)
    assert (block.view.nbytes, block.view.format, block.view.readonly) == (3000, "B", False)
    block.view[:] = bytes(3000)
    block.view[2999] = 7
    assert ctypes.string_at(block.address, 3000) == bytes(2999) + b"\7"
    rig.driver.host_free(block)


@CASES(needs_execution=True)
def kernels_write_into_mapped_memory(rig: AnyRig) -> None:
    block = rig.driver.host_alloc(4 * 96, mapped=True)
    block.view[:] = bytes(4 * 96)
    kernel, target = load(rig, STORE, "store"), rig.driver.host_device_address(block)
    rig.driver.prepare_launch(kernel, launch_shape(2), rig.stream, parameter_block("QI", target + 4 * 32, 7))()
    rig.driver.stream_synchronize(rig.stream)
    assert bytes(block.view) == bytes(4 * 32) + struct.pack("<I", 7) * 64
    rig.driver.host_free(block)


@CASES(needs_execution=True)
def kernels_read_what_the_host_wrote_into_mapped_memory(rig: AnyRig) -> None:
    block, target = rig.driver.host_alloc(64, mapped=True), rig.device(4)
    kernel, source = load(rig, LOAD, "load"), rig.driver.host_device_address(block)
    for value in (3, 2**32 - 1):
        block.view[8:12] = struct.pack("<I", value)
        rig.driver.prepare_launch(kernel, launch_shape(1, 1), rig.stream, parameter_block("QQ", source + 8, target))()
        assert rig.download(target, 4) == struct.pack("<I", value)
    rig.driver.host_free(block)


@CASES(hardware=False)
def freed_memory_has_no_address_for_kernels(rig: AnyRig) -> None:
    block = rig.driver.host_alloc(64, mapped=True)
    rig.driver.host_free(block)
    assert code_of(lambda: rig.driver.host_device_address(block)) == Result.INVALID_VALUE


@CASES()
def free_memory_is_part_of_all(rig: AnyRig) -> None:
    info = rig.driver.memory_info()
    assert 0 < info.free <= info.total
    assert info.total <= rig.driver.device_memory(0)
