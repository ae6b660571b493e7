"""Device memory of the machine: poison, initialised bytes, extents, faults."""

from __future__ import annotations

import pytest

from vyre.adapters.cuda.machine.faults import FaultKind, MemoryFault
from vyre.adapters.cuda.machine.memory import ALIGNMENT, HEAP_BASE, DeviceMemory


def test_fresh_memory_is_poison_and_unknown() -> None:
    memory = DeviceMemory()
    address = memory.allocate(100)
    assert memory.read(address, 100) == b"\xcd" * 100
    assert not memory.initialised(address, 1)
    memory.write(address + 10, b"abc")
    assert memory.initialised(address + 10, 3)
    assert not memory.initialised(address + 9, 3)
    memory.fill(address, 0, 100)
    assert memory.initialised(address, 100)


def test_copies_carry_what_is_unknown() -> None:
    memory = DeviceMemory()
    source, target = memory.allocate(8), memory.allocate(8)
    memory.write(source, b"1234")
    memory.fill(target, 0, 8)
    memory.copy(target, source, 8)
    assert memory.read(target, 8) == b"1234\xcd\xcd\xcd\xcd"
    assert (memory.initialised(target, 4), memory.initialised(target, 5)) == (True, False)


def test_overlapping_copies_read_before_they_write() -> None:
    memory = DeviceMemory()
    address = memory.allocate(8)
    memory.write(address, b"abcdefgh")
    memory.copy(address + 2, address, 6)
    assert memory.read(address, 8) == b"ababcdef"


def test_addresses_are_aligned_to_256_and_to_no_more() -> None:
    memory = DeviceMemory()
    for nbytes in (1, 300, 1 << 20):
        address = memory.allocate(nbytes)
        assert address % (2 * ALIGNMENT) == ALIGNMENT


def test_extents() -> None:
    memory = DeviceMemory()
    address = memory.allocate(300)
    assert memory.extent_of(address) == memory.extent_of(address + 299) == (address, 300)
    assert memory.extent_of(address + 300) is None
    assert memory.extent_of(address - 1) is None
    assert [region.base for region in memory.regions()] == [address]


def test_the_caller_can_choose_an_address_and_use_it_again() -> None:
    memory = DeviceMemory()
    memory.allocate(512, address=HEAP_BASE)
    memory.write(HEAP_BASE, bytes(512))
    for at, nbytes in ((HEAP_BASE + 256, 1), (HEAP_BASE - 256, 257), (HEAP_BASE + 512 + 8, 4)):
        with pytest.raises(ValueError, match="overlap"):
            memory.allocate(nbytes, address=at)
    memory.free(HEAP_BASE)
    memory.allocate(600, address=HEAP_BASE)
    assert not memory.initialised(HEAP_BASE, 1)


@pytest.mark.parametrize("offset", [-1, 97, 1 << 40])
def test_accesses_outside_are_faults(offset: int) -> None:
    memory = DeviceMemory()
    address = memory.allocate(100)
    for access in (
        lambda: memory.read(address + offset, 4),
        lambda: memory.write(address + offset, b"1234"),
        lambda: memory.fill(address + offset, 0, 4),
        lambda: memory.copy(address + offset, address, 4),
        lambda: memory.copy(address, address + offset, 4),
        lambda: memory.initialised(address + offset, 4),
    ):
        with pytest.raises(MemoryFault) as caught:
            access()
        assert caught.value.kind is FaultKind.ILLEGAL_ADDRESS


def test_freed_memory_faults_until_it_is_allocated_again() -> None:
    memory = DeviceMemory()
    address = memory.allocate(100)
    memory.free(address)
    for access in (lambda: memory.read(address + 5, 1), lambda: memory.free(address)):
        with pytest.raises(MemoryFault) as caught:
            access()
        assert (caught.value.kind, caught.value.extent) == (FaultKind.USE_AFTER_FREE, (address, 100))
    memory.allocate(100, address=address)
    memory.read(address + 5, 1)


def test_only_a_base_can_be_freed() -> None:
    memory = DeviceMemory()
    address = memory.allocate(100)
    for wrong in (address + 4, address - 4, 0):
        with pytest.raises(MemoryFault):
            memory.free(wrong)


def test_nothing_of_no_bytes() -> None:
    memory = DeviceMemory()
    with pytest.raises(ValueError, match="at least one byte"):
        memory.allocate(0)
    memory.write(0, b"")
    memory.fill(0, 0, 0)
    memory.copy(0, 0, 0)
    assert memory.read(0, 0) == b""
