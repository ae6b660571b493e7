"""The pool of resident memory: blocks come back when nobody sees them any more, are zeroed, bounded and trimmed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest

import vyre
from support.storms.interrupt_storm import Places
from support.storms.interrupts import interrupted_everywhere
from vyre.adapters.cpu.runtime import memory_pool
from vyre.adapters.cpu.runtime.memory_pool import MemoryPool
from vyre.adapters.host.memory import allocate_aligned
from vyre.domain.errors import DeviceOutOfMemory

SIZE: Final = 5000
CAPACITY: Final = 5120


@pytest.fixture
def session() -> Iterator[vyre.Session]:
    with vyre.open("cpu", cache=False) as opened:
        yield opened


def test_a_block_is_used_again_for_its_class_and_holds_zeros() -> None:
    pool = MemoryPool()
    first, address = pool.take(SIZE)
    assert (first.nbytes, address % 64) == (SIZE, 0)
    assert not first.any()
    assert first.__array_interface__["data"][0] == address
    first[:] = 7
    del first
    assert pool.idle_bytes == CAPACITY
    again, same = pool.take(SIZE + 100)
    assert (same, again.nbytes, pool.reused, pool.idle_bytes) == (address, SIZE + 100, 1, 0)
    assert not again.any()
    other, another = pool.take(SIZE)
    assert another != address and pool.reused == 1
    del other


def test_a_block_whose_views_are_in_use_does_not_come_back() -> None:
    pool = MemoryPool()
    first, address = pool.take(SIZE)
    part = first[100:].view(np.uint32)[3:]
    del first
    assert pool.idle_bytes == 0
    assert pool.take(SIZE)[1] != address
    gc.collect()
    before = pool.idle_bytes
    del part
    assert pool.idle_bytes == before + CAPACITY


@pytest.mark.parametrize("places", Places)
def test_an_interrupt_anywhere_leaves_the_bytes_of_idle_blocks_counted(places: Places) -> None:
    pool = MemoryPool()

    def works() -> None:
        arrays = [pool.take(SIZE)[0] for _ in range(3)]
        del arrays
        assert pool.idle_bytes == sum(block.data.nbytes for kept in pool._idle.values() for block in kept)

    assert interrupted_everywhere((memory_pool,), works, works, places) > 20


def test_blocks_beyond_the_limit_are_given_up_and_all_idle_ones_by_trim() -> None:
    pool = MemoryPool(2 * CAPACITY)
    held = [pool.take(SIZE)[0] for _ in range(3)]
    assert pool.idle_bytes == 0
    held.clear()
    assert pool.idle_bytes == 2 * CAPACITY
    pool.trim()
    assert pool.idle_bytes == 0


def test_idle_blocks_are_given_up_before_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, calls = MemoryPool(), list[int]()
    pool.take(SIZE)
    assert pool.idle_bytes == CAPACITY

    def full(nbytes: int) -> object:
        calls.append(pool.idle_bytes)
        if len(calls) == 1:
            raise DeviceOutOfMemory(requested=nbytes)
        return allocate_aligned(nbytes)

    monkeypatch.setattr("vyre.adapters.cpu.runtime.memory_pool.allocate_aligned", full)
    pool.take(1 << 20)
    assert calls == [CAPACITY, 0]


def test_closed_arrays_give_their_memory_to_the_next(session: vyre.Session) -> None:
    with session.resident(np.full(1000, 9, np.uint32)):
        pass
    before = session.metrics()
    for _ in range(5):
        with session.resident(4000) as again:
            assert not again.download().any()
    after = session.metrics()
    assert after["resident_allocations"] - before["resident_allocations"] == 5
    assert after["pool_reuses"] - before["pool_reuses"] == 5


def test_memory_that_another_library_holds_outlives_its_array(session: vyre.Session) -> None:
    with session.resident(np.arange(1000, dtype=np.uint32)) as held:
        seen = np.from_dlpack(held)
    with session.resident(4000) as other:
        other.upload(np.full(4000, 255, np.uint8))
    assert np.array_equal(seen, np.arange(1000, dtype=np.uint32))
