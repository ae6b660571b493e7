"""Device memory, pools, pinned and pageable host memory, copies."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from support.driver_cases.case import ORDINAL, Pageable, Subject, Suite
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.seam import KEEP_ALL

SUITE: Final = Suite()
case = SUITE.case
_TOO_MUCH: Final = 1 << 50
_MIB: Final = 1 << 20
_BYTES: Final = bytes(range(256)) * 16


# ---------------------------------------------------------------- allocation
@case()
def allocations_are_aligned_and_apart(s: Subject) -> None:
    sizes = (1, 3, 255, 256, 257, 4096, _MIB + 1)
    ranges = sorted((s.device(n), n) for n in sizes)
    assert all(address and address % 256 == 0 for address, _ in ranges)
    assert all(low + n <= high for (low, n), (high, _) in pairwise(ranges))


@case()
def memory_outside_pools_can_be_had(s: Subject) -> None:
    address = s.driver.mem_alloc(1000)
    assert address % 256 == 0
    s.driver.memset8(address, 5, 1000, s.stream)
    assert s.download(address, 1000) == bytes([5]) * 1000
    s.driver.mem_free(address)


@case()
def nothing_cannot_be_allocated(s: Subject) -> None:
    s.fails(Result.INVALID_VALUE, lambda: s.driver.mem_alloc(0))


@case()
def a_negative_size_is_refused(s: Subject) -> None:
    s.fails(Result.INVALID_VALUE, lambda: s.driver.mem_alloc(-1))
    s.fails(Result.INVALID_VALUE, lambda: s.driver.mem_alloc_async(-1, s.pool, s.stream))


@case()
def too_much_is_out_of_memory(s: Subject) -> None:
    s.fails(Result.OUT_OF_MEMORY, lambda: s.driver.mem_alloc(_TOO_MUCH))
    error = s.fails(Result.OUT_OF_MEMORY, lambda: s.driver.mem_alloc_async(_TOO_MUCH, s.pool, s.stream))
    assert error.arguments["nbytes"] == _TOO_MUCH
    s.device(16)


@case()
def memory_is_freed_once(s: Subject) -> None:
    address = s.driver.mem_alloc(4096)
    s.driver.mem_free(address)
    s.fails(Result.INVALID_VALUE, lambda: s.driver.mem_free(address))


@case()
def pool_memory_is_freed_once(s: Subject) -> None:
    address = s.driver.mem_alloc_async(4096, s.pool, s.stream)
    s.driver.mem_free_async(address, s.stream)
    s.driver.stream_synchronize(s.stream)
    s.fails(Result.INVALID_VALUE, lambda: s.driver.mem_free_async(address, s.stream))


@case()
def only_the_start_of_an_allocation_frees_it(s: Subject) -> None:
    address = s.driver.mem_alloc(4096)
    s.fails(Result.INVALID_VALUE, lambda: s.driver.mem_free(address + 256))
    s.driver.mem_free(address)


@case()
def memory_of_the_host_is_not_freed_as_the_devices(s: Subject) -> None:
    pageable = Pageable(bytes(64))
    s.fails(Result.INVALID_VALUE, lambda: s.driver.mem_free(pageable.address))


@case()
def free_memory_is_part_of_all(s: Subject) -> None:
    info = s.driver.memory_info()
    assert 0 < info.free <= info.total


# ---------------------------------------------------------------- pools
@case()
def a_pool_counts_what_it_gave(s: Subject) -> None:
    before = s.driver.pool_use(s.pool)
    assert before.used == 0
    address = s.driver.mem_alloc_async(3 * _MIB, s.pool, s.stream)
    s.driver.stream_synchronize(s.stream)
    during = s.driver.pool_use(s.pool)
    assert 3 * _MIB <= during.used <= during.reserved
    s.driver.mem_free_async(address, s.stream)
    s.driver.stream_synchronize(s.stream)
    assert s.driver.pool_use(s.pool).used == 0


@case()
def a_pool_keeps_memory_until_trimmed(s: Subject) -> None:
    pool = s.driver.pool_create(ORDINAL, release_threshold=KEEP_ALL)
    address = s.driver.mem_alloc_async(_MIB, pool, s.stream)
    s.driver.mem_free_async(address, s.stream)
    s.driver.stream_synchronize(s.stream)
    assert s.driver.pool_use(pool).reserved >= _MIB
    s.driver.pool_trim(pool, 0)
    assert s.driver.pool_use(pool).reserved == 0
    s.driver.pool_destroy(pool)


@case()
def trimming_leaves_what_is_in_use(s: Subject) -> None:
    address = s.upload(_BYTES)
    s.driver.pool_trim(s.pool, 0)
    assert s.driver.pool_use(s.pool).reserved >= len(_BYTES)
    assert s.download(address, len(_BYTES)) == _BYTES


@case()
def a_pool_can_be_limited(s: Subject) -> None:
    pool = s.driver.pool_create(ORDINAL, max_bytes=64 * _MIB)
    s.fails(Result.OUT_OF_MEMORY, lambda: s.driver.mem_alloc_async(1024 * _MIB, pool, s.stream))
    address = s.driver.mem_alloc_async(_MIB, pool, s.stream)
    s.driver.mem_free_async(address, s.stream)
    s.driver.stream_synchronize(s.stream)
    s.driver.pool_destroy(pool)


@case()
def memory_outlives_its_pool(s: Subject) -> None:
    pool = s.driver.pool_create(ORDINAL)
    address = s.driver.mem_alloc_async(64, pool, s.stream)
    s.driver.stream_synchronize(s.stream)
    s.driver.pool_destroy(pool)
    s.driver.memset8(address, 9, 64, s.stream)
    assert s.download(address, 64) == bytes([9]) * 64
    s.driver.mem_free_async(address, s.stream)


@case(invents_handles=True)
def a_pool_is_destroyed_once(s: Subject) -> None:
    pool = s.driver.pool_create(ORDINAL)
    s.driver.pool_destroy(pool)
    s.fails(Result.INVALID_VALUE, lambda: s.driver.pool_destroy(pool))
    s.fails(Result.INVALID_VALUE, lambda: s.driver.mem_alloc_async(64, pool, s.stream))


# ---------------------------------------------------------------- host memory
@case()
def pinned_memory_is_bytes_that_can_be_written(s: Subject) -> None:
    block = s.driver.host_alloc(1000)
    assert (block.view.format, block.view.nbytes, block.view.readonly) == ("B", 1000, False)
    block.view[:] = bytes([4]) * 1000
    assert bytes(block.view) == bytes([4]) * 1000
    s.driver.host_free(block)


@case()
def pinned_memory_is_freed_once(s: Subject) -> None:
    block = s.driver.host_alloc(64)
    s.driver.host_free(block)
    s.fails(Result.INVALID_VALUE, lambda: s.driver.host_free(block))


# ---------------------------------------------------------------- copies
@case()
def bytes_come_back(s: Subject) -> None:
    for nbytes in (1, 7, 256, 4096):
        assert s.download(s.upload(_BYTES[:nbytes]), nbytes) == _BYTES[:nbytes]


@case()
def pageable_memory_comes_back(s: Subject) -> None:
    address, source, target = s.device(4096), Pageable(_BYTES), Pageable(bytes(4096))
    s.driver.copy_to_device(address, source.address, 4096, s.stream)
    s.driver.copy_to_host(target.address, address, 4096, s.stream)
    s.driver.stream_synchronize(s.stream)
    assert target.data == _BYTES


@case()
def pageable_memory_is_read_when_the_copy_returns(s: Subject) -> None:
    address, source = s.device(4096), Pageable(_BYTES)
    s.driver.copy_to_device(address, source.address, 4096, s.stream)
    source.data = bytes(4096)
    assert s.download(address, 4096) == _BYTES


@case()
def parts_of_an_allocation_are_copied(s: Subject) -> None:
    address, source = s.upload(bytes(4096)), s.pinned(_BYTES)
    s.driver.copy_to_device(address + 100, source.address + 3, 50, s.stream)
    assert s.download(address, 4096) == bytes(100) + _BYTES[3:53] + bytes(4096 - 150)


@case()
def the_device_copies_to_itself(s: Subject) -> None:
    source, target = s.upload(_BYTES), s.upload(bytes(4096))
    s.driver.copy_on_device(target + 1, source + 2, 4000, s.stream)
    assert s.download(target, 4096) == bytes(1) + _BYTES[2:4002] + bytes(95)


@case()
def memset_fills_what_it_is_told(s: Subject) -> None:
    address = s.upload(_BYTES)
    s.driver.memset8(address + 1, 255, 9, s.stream)
    s.driver.memset8(address + 20, 0, 1, s.stream)
    assert s.download(address, 32) == _BYTES[:1] + bytes([255]) * 9 + _BYTES[10:20] + bytes(1) + _BYTES[21:32]


@case()
def memset_takes_a_byte(s: Subject) -> None:
    address = s.device(16)
    for value in (-1, 256):
        s.fails(Result.INVALID_VALUE, lambda value=value: s.driver.memset8(address, value, 16, s.stream))  # type: ignore[misc]


@case()
def a_copy_of_negative_size_is_refused(s: Subject) -> None:
    address, host = s.device(16), s.pinned(bytes(16))
    s.fails(Result.INVALID_VALUE, lambda: s.driver.copy_to_device(address, host.address, -1, s.stream))
    s.fails(Result.INVALID_VALUE, lambda: s.driver.copy_to_host(host.address, address, -1, s.stream))


@case(invents_handles=True)
def a_copy_stays_in_its_allocation(s: Subject) -> None:
    address, other, host = s.device(64), s.device(128), s.pinned(bytes(128))
    calls = (
        lambda: s.driver.copy_to_device(address, host.address, 65, s.stream),
        lambda: s.driver.copy_to_device(address + 60, host.address, 5, s.stream),
        lambda: s.driver.copy_to_host(host.address, address, 65, s.stream),
        lambda: s.driver.copy_on_device(other, address, 65, s.stream),
        lambda: s.driver.copy_on_device(address, other, 65, s.stream),
        lambda: s.driver.memset8(address, 0, 65, s.stream),
    )
    for call in calls:
        s.fails(Result.INVALID_VALUE, call)


# ---------------------------------------------------------------- addresses
@case()
def an_address_is_known_by_its_allocation(s: Subject) -> None:
    address = s.driver.mem_alloc(4096)
    for offset in (0, 1, 4095):
        found = s.driver.pointer_facts(address + offset)
        assert found.base == address
        assert found.nbytes >= 4096
        assert (found.device, found.managed) == (ORDINAL, False)
    s.driver.mem_free(address)


@case()
def an_address_in_a_pool_is_known(s: Subject) -> None:
    address = s.device(4096)
    found = s.driver.pointer_facts(address + 100)
    assert found.base <= address
    assert found.base + found.nbytes >= address + 4096
    assert found.device == ORDINAL


@case()
def an_address_of_the_host_is_not_known(s: Subject) -> None:
    pageable = Pageable(bytes(64))
    s.fails(Result.INVALID_VALUE, lambda: s.driver.pointer_facts(pageable.address))
