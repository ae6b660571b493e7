"""Device memory of the machine: stream-ordered pools, plain allocations, and which operation may reuse which block.

The bytes are in ``DeviceMemory``; this module keeps addresses, sizes and order.  A block freed on a stream is reused by
a later allocation on that stream, by one on a stream that an event has ordered after the free, or by any once the free
has run.  Otherwise the pool takes fresh memory, so a reuse that the program did not order never happens.  Fresh
addresses are never taken from the device twice, and guard gaps separate them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Final

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.memory import ALIGNMENT, HEAP_BASE, DeviceMemory
from vyre.adapters.cuda.machine.ordering import VectorClock
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.machine.streams import DONE, Completion
from vyre.adapters.cuda.seam import DeviceAddress, MemoryInfo, PointerFacts

GUARD: Final = 1 << 20


@dataclass(slots=True, eq=False)
class Block:
    """Memory that a pool took from the device.  ``freed`` is the completion of its last free, None while it is
    in use.
    """

    address: DeviceAddress
    capacity: int
    freed: Completion | None = None

    def idle(self) -> bool:
        """Returns whether the block was freed and the free has run."""
        return self.freed is not None and self.freed.done

    def usable_at(self, clock: VectorClock) -> bool:
        """Returns whether an operation at ``clock`` comes after the free."""
        if self.freed is None:
            return False
        return self.freed.done or all(count <= clock.get(stream, 0) for stream, count in self.freed.clock.items())


@dataclass(slots=True, eq=False)
class Pool:
    """A pool.  ``blocks`` are all its blocks; ``used`` is the capacity of the allocated ones.  Sizes are in bytes."""

    handle: int
    release_threshold: int
    max_bytes: int
    blocks: list[Block] = field(default_factory=list)
    used: int = 0
    reserved: int = 0
    destroyed: bool = False


@dataclass(slots=True, eq=False)
class Allocation:
    """An allocation.  ``pool`` is None for a plain one; ``after`` is the free that precedes the reuse of a block."""

    address: DeviceAddress
    nbytes: int
    context: int
    block: Block
    pool: Pool | None = None
    after: Completion | None = None


class DeviceHeap:
    """Every allocation of the device, which has ``total`` bytes.

    ``reserve`` and ``retire`` take effect for the host, at the call; ``begin`` and ``end`` take effect on the bytes,
    when the stream reaches them.
    """

    def __init__(self, memory: DeviceMemory, total: int) -> None:
        self._memory = memory
        self._total = total
        self._taken = 0
        self._next = HEAP_BASE + ALIGNMENT
        self._pools: dict[int, Pool] = {}
        self._live: dict[DeviceAddress, Allocation] = {}
        self._sorted: list[DeviceAddress] = []
        self._existing: set[Allocation] = set()

    @property
    def live_allocations(self) -> int:
        """Returns the number of allocations that were not freed."""
        return len(self._live)

    @property
    def live_pools(self) -> int:
        """Returns the number of pools that were not destroyed."""
        return len(self._pools)

    # ---- pools
    def add_pool(self, handle: int, release_threshold: int, max_bytes: int) -> None:
        """Makes an empty pool."""
        self._pools[handle] = Pool(handle, release_threshold, max_bytes)

    def pool(self, handle: int) -> Pool:
        """Returns a pool.  Raises ``Status`` if there is none of this handle."""
        pool = self._pools.get(handle)
        if pool is None:
            raise Status(Result.INVALID_VALUE, f"{handle:#x} is no pool")
        return pool

    def destroy_pool(self, handle: int) -> None:
        """Destroys a pool; its allocations stay until they are freed."""
        pool = self.pool(handle)
        del self._pools[handle]
        pool.destroyed = True
        self.trim(pool, 0)

    def destroy_pools(self) -> None:
        """Destroys every pool."""
        for handle in list(self._pools):
            self.destroy_pool(handle)

    def trim(self, pool: Pool, keep: int) -> None:
        """Returns idle memory to the device until at most ``keep`` bytes are reserved."""
        for block in [b for b in pool.blocks if b.idle()]:
            if pool.reserved <= keep:
                return
            pool.blocks.remove(block)
            pool.reserved -= block.capacity
            self._taken -= block.capacity

    def settle(self) -> None:
        """Returns memory above the release threshold of each pool to the device, as a synchronisation does."""
        for pool in self._pools.values():
            if pool.reserved > pool.release_threshold:
                self.trim(pool, pool.release_threshold)

    # ---- allocations
    def reserve(self, nbytes: int, pool: Pool, context: int, clock: VectorClock) -> Allocation:
        """Returns an allocation from a pool for an operation at ``clock``.  Raises ``Status`` if memory runs out."""
        capacity = _capacity(nbytes)
        fitting = [b for b in pool.blocks if capacity <= b.capacity <= 2 * capacity and b.usable_at(clock)]
        block = min(fitting, key=lambda b: b.capacity) if fitting else self._grow(pool, capacity)
        after, block.freed = block.freed, None
        pool.used += block.capacity
        return self._add(Allocation(block.address, nbytes, context, block, pool, after))

    def reserve_plain(self, nbytes: int, context: int) -> Allocation:
        """Returns an allocation outside every pool.  Raises ``Status`` if memory runs out."""
        block = self._take(_capacity(nbytes))
        return self._add(Allocation(block.address, nbytes, context, block))

    def begin(self, allocation: Allocation) -> None:
        """Makes the bytes of an allocation exist, filled with poison."""
        self._memory.allocate(allocation.nbytes, address=allocation.address)
        self._existing.add(allocation)

    def retire(self, address: DeviceAddress, context: int, freed: Completion) -> Allocation:
        """Ends an allocation with ``freed``: operations that come after it can reuse its block."""
        allocation = self._live.get(address)
        if allocation is None or allocation.context != context:
            raise Status(Result.INVALID_VALUE, f"{address:#x} is no live allocation of this context")
        self._forget(allocation)
        allocation.block.freed = freed
        if allocation.pool is None:
            self._taken -= allocation.block.capacity
        else:
            allocation.pool.used -= allocation.block.capacity
        return allocation

    def end(self, allocation: Allocation) -> None:
        """Makes the bytes of an allocation cease to exist, filled with poison."""
        if allocation not in self._existing:
            why = f"the free of {allocation.address:#x} overtook its allocation on another stream"
            raise Status(Result.ILLEGAL_ADDRESS, why)
        self._existing.remove(allocation)
        self._memory.free(allocation.address)
        if allocation.pool is not None and allocation.pool.destroyed:
            allocation.block.freed = DONE
            self.trim(allocation.pool, 0)

    def free_context(self, context: int) -> None:
        """Frees all allocations of a context, whose streams no longer exist."""
        for allocation in [a for a in self._live.values() if a.context == context]:
            self.retire(allocation.address, context, DONE)
        for allocation in [a for a in self._existing if a.context == context]:
            self.end(allocation)

    # ---- looking up
    def facts(self, address: DeviceAddress) -> PointerFacts:
        """Returns the facts about the live allocation at ``address``."""
        allocation = self.holding(address, 1)
        return PointerFacts(allocation.address, allocation.nbytes, 0, False)

    def holding(self, address: DeviceAddress, nbytes: int) -> Allocation:
        """Returns the live allocation that contains a range.  Raises ``Status`` if none does."""
        place = bisect_right(self._sorted, address)
        allocation = self._live[self._sorted[place - 1]] if place else None
        if allocation is None or address >= allocation.address + allocation.nbytes:
            raise Status(Result.INVALID_VALUE, f"{address:#x} is in no live allocation")
        if nbytes < 0 or address + nbytes > allocation.address + allocation.nbytes:
            inside = f"the allocation of {allocation.nbytes} bytes at {allocation.address:#x}"
            raise Status(Result.INVALID_VALUE, f"{nbytes} bytes at {address:#x} leave {inside}")
        return allocation

    def info(self) -> MemoryInfo:
        """Returns the free and the total bytes."""
        return MemoryInfo(self._total - self._taken, self._total)

    def _add(self, allocation: Allocation) -> Allocation:
        self._live[allocation.address] = allocation
        insort(self._sorted, allocation.address)
        return allocation

    def _forget(self, allocation: Allocation) -> None:
        del self._live[allocation.address]
        self._sorted.remove(allocation.address)

    def _grow(self, pool: Pool, capacity: int) -> Block:
        """Returns a fresh block; idle blocks that do not fit are returned to the device to make room for it."""
        if pool.max_bytes and pool.reserved + capacity > pool.max_bytes:
            self.trim(pool, max(0, pool.max_bytes - capacity))
            if pool.reserved + capacity > pool.max_bytes:
                used = f"{pool.used} of at most {pool.max_bytes} bytes in use"
                raise Status(Result.OUT_OF_MEMORY, f"{capacity} bytes do not fit the pool: {used}")
        if self._taken + capacity > self._total:
            self.trim(pool, 0)
        block = self._take(capacity)
        pool.blocks.append(block)
        pool.reserved += capacity
        return block

    def _take(self, capacity: int) -> Block:
        if self._taken + capacity > self._total:
            free = self._total - self._taken
            raise Status(Result.OUT_OF_MEMORY, f"{capacity} bytes, of {self._total} {free} are free")
        self._taken += capacity
        block = Block(self._next, capacity)
        self._next += capacity + GUARD
        return block


def _capacity(nbytes: int) -> int:
    if nbytes <= 0:
        raise Status(Result.INVALID_VALUE, f"{nbytes} bytes")
    return -(-nbytes // (2 * ALIGNMENT)) * 2 * ALIGNMENT
