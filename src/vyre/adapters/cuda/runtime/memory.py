"""Device and pinned memory of the runtime.

*Device memory* comes from the backend's own stream-ordered pool.  Sizes are rounded up to eight classes per power of
two, so at most an eighth is wasted, and blocks that are returned idle are kept by class for the next dispatch.  When
the device is full, every kept block is freed, the pool is trimmed, and the allocation is tried once more.

*Pinned memory* is needed by copies that overlap with the host; it is kept by class in the same way.

*Quarantine* holds memory and streams that a device may still be using, because their dispatch failed or timed out.
Nothing in it is used again; once its stream is known to be idle, it is returned to the driver.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from vyre.adapters.cuda.codes import Result, is_sticky
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.seam import CudaCallError, DeviceAddress, HostBlock, KernelDiagnosis, Pool, Stream
from vyre.adapters.forks import process_lock
from vyre.adapters.size_classes import LEAST_BYTES, size_class

R = TypeVar("R")
ALIGNMENT: Final = LEAST_BYTES
"""The alignment of every block, in bytes."""


class DeviceBlock(NamedTuple):
    """``capacity`` bytes of device memory at a multiple of 256."""

    address: DeviceAddress
    capacity: int


NO_BLOCK: Final = DeviceBlock(0, 0)
"""The block of an allocation of zero bytes: its address is null."""
Block = TypeVar("Block", DeviceBlock, HostBlock)


class _Blocks(Generic[Block]):
    """The blocks of one kind of memory: those in use, and idle ones by size class, of at most ``limit`` bytes.

    It makes no driver call.  A block that it does not know is of an earlier epoch, or empty.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._idle: dict[int, list[Block]] = {}
        self.idle_bytes = 0
        self._live: dict[int, Block] = {}
        self._lock = process_lock()

    def take(self, capacity: int) -> Block | None:
        """Returns an idle block of a class, which is in use from now on."""
        with self._lock:
            kept = self._idle.get(capacity)
            if not kept:
                return None
            block = kept.pop()
            self.idle_bytes -= capacity
            self._live[block.address] = block
            return block

    def add(self, block: Block) -> Block:
        """Returns a new block, which is in use from now on."""
        with self._lock:
            self._live[block.address] = block
        return block

    def drop(self, block: Block, capacity: int, *, keep: bool) -> bool:
        """Ends the use of a block; returns whether the caller has to free it, since it is neither kept nor unknown."""
        with self._lock:
            if self._live.get(block.address) is not block:
                return False
            del self._live[block.address]
            if keep and self.idle_bytes + capacity <= self._limit:
                self._idle.setdefault(capacity, []).append(block)
                self.idle_bytes += capacity
                return False
            return True

    def take_idle(self) -> list[Block]:
        """Forgets all idle blocks, and returns them."""
        with self._lock:
            idle = [block for kept in self._idle.values() for block in kept]
            self._idle.clear()
            self.idle_bytes = 0
        return idle

    def take_all(self) -> list[Block]:
        """Forgets all blocks, and returns them."""
        with self._lock:
            blocks: list[Block] = list(self._live.values())
            self._live.clear()
        return blocks + self.take_idle()


def _again_if_full(device: CudaDevice, allocate: Callable[[], R], reclaim: Callable[[], None]) -> R:
    """Allocates; if the device is full, once more after ``reclaim``."""
    try:
        return allocate()
    except CudaCallError as error:
        if error.code != Result.OUT_OF_MEMORY:
            raise
        device.counters.allocation_retries += 1
        reclaim()
        return allocate()


class DeviceMemory(DeviceMember):
    """The device memory of a device.

    Call its methods inside ``device.calls``; they raise ``CudaCallError``, after a second attempt if the device is
    full.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._blocks: _Blocks[DeviceBlock] = _Blocks(device.options.cached_device_bytes)
        self._pool: Pool = 0
        self._control: Stream = 0
        self._reclaimers: list[Callable[[], None]] = []
        self._lock = process_lock()
        device.add(self)

    def on_shortage(self, reclaim: Callable[[], None]) -> None:
        """Registers ``reclaim``, which is called without any lock when the device is full and may give blocks back."""
        self._reclaimers.append(reclaim)

    @property
    def idle_bytes(self) -> int:
        """Returns the bytes kept for the next allocation of their class."""
        return self._blocks.idle_bytes

    def allocate(self, nbytes: int, stream: Stream) -> DeviceBlock:
        """Returns memory for use on ``stream``, with undefined content: an idle block of its class, or a new one."""
        if nbytes == 0:
            return NO_BLOCK
        capacity = size_class(nbytes)
        kept = self._blocks.take(capacity)
        if kept is not None:
            return kept
        self._device.counters.transient_allocation_bytes_requested += nbytes
        address = _again_if_full(self._device, partial(self._new, capacity, stream), self.reclaim)
        return self._blocks.add(DeviceBlock(address, capacity))

    def give_back(self, block: DeviceBlock, stream: Stream | None = None) -> None:
        """Keeps ``block``, on which no work is pending, for the next allocation, or frees it if enough is kept."""
        if self._blocks.drop(block, block.capacity, keep=True):
            self._free(block, self._any_stream() if stream is None else stream)

    def free(self, block: DeviceBlock, stream: Stream) -> None:
        """Frees ``block`` once ``stream`` reaches the call: work queued on it before may still use the block."""
        if self._blocks.drop(block, block.capacity, keep=False):
            self._free(block, stream)

    def retire(self, block: DeviceBlock) -> None:
        """Frees ``block``, on which no work is pending; the stream that it was used on may no longer exist."""
        self.free(block, self._any_stream())

    def reclaim(self) -> None:
        """Frees what garbage holds and all idle blocks, and trims the pool."""
        gc.collect()
        self._device.release_discarded()
        for reclaim in self._reclaimers:
            reclaim()
        idle = self._blocks.take_idle()
        if idle:
            control = self._stream()
            release_all([partial(self._free, block, control) for block in idle])
            self._device.driver.stream_synchronize(control)
        if self._pool:
            self._device.driver.pool_trim(self._pool)

    # ---- as a member of the device
    def allocatable(self, free: int) -> int:
        """Returns the free bytes plus the unused bytes of the pool, but at most what the pool may still take."""
        if not self._pool:
            return free
        use, limit = self._device.driver.pool_use(self._pool), self._device.options.pool_bytes
        free += use.reserved - use.used
        return min(free, max(limit - use.used, 0)) if limit else free

    def release(self) -> None:
        """Frees every block and destroys the pool."""
        blocks, (pool, control) = self._blocks.take_all(), self._forget_pool()
        driver = self._device.driver
        frees: list[Callable[[], None]] = []
        if blocks and not control and self._uses_pool:
            try:
                control = driver.stream_create()
            except CudaCallError as error:
                if is_sticky(error.code):
                    raise
        if control or not self._uses_pool:
            frees += [partial(self._free, block, control) for block in blocks]
        else:  # memory of a pool can also be freed at once, which waits for the device
            frees += [partial(driver.mem_free, block.address) for block in blocks]
        if control:
            frees += [partial(driver.stream_synchronize, control), partial(driver.stream_destroy, control)]
        if pool:
            frees.append(partial(driver.pool_destroy, pool))
        release_all(frees)

    def forget(self) -> None:
        """Drops every block without a driver call; the pool is destroyed in a new context."""
        self._blocks.take_all()
        pool, _ = self._forget_pool()
        if pool:
            self._device.orphan(partial(self._device.driver.pool_destroy, pool))

    def _forget_pool(self) -> tuple[Pool, Stream]:
        with self._lock:
            pool, control = self._pool, self._control
            self._pool = self._control = 0
        return pool, control

    # ---- driver calls
    @property
    def _uses_pool(self) -> bool:
        return self._device.facts.memory_pools

    def _new(self, capacity: int, stream: Stream) -> DeviceAddress:
        driver = self._device.driver
        if not self._uses_pool:
            return driver.mem_alloc(capacity)
        if not self._pool:
            with self._lock:
                if not self._pool:
                    options = self._device.options
                    self._pool = driver.pool_create(options.ordinal, max_bytes=options.pool_bytes)
        return driver.mem_alloc_async(capacity, self._pool, stream)

    def _free(self, block: DeviceBlock, stream: Stream) -> None:
        if self._uses_pool:
            self._device.driver.mem_free_async(block.address, stream)
        else:
            self._device.driver.mem_free(block.address)

    def _any_stream(self) -> Stream:
        """Returns a stream on which to free memory that no work uses."""
        return self._stream() if self._uses_pool else 0

    def _stream(self) -> Stream:
        with self._lock:
            if not self._control:
                self._control = self._device.driver.stream_create()
            return self._control


class PinnedMemory(DeviceMember):
    """Page-locked host memory.  Call its methods inside ``device.calls``; they raise ``CudaCallError``."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._blocks: _Blocks[HostBlock] = _Blocks(device.options.cached_host_bytes)
        device.add(self)

    @property
    def idle_bytes(self) -> int:
        """Returns the bytes kept for the next allocation of their class."""
        return self._blocks.idle_bytes

    def allocate(self, nbytes: int) -> HostBlock:
        """Returns a block of at least ``nbytes`` (more than 0) that no queued copy uses."""
        capacity = size_class(nbytes)
        kept = self._blocks.take(capacity)
        if kept is not None:
            return kept
        make = partial(self._device.driver.host_alloc, capacity)
        return self._blocks.add(_again_if_full(self._device, make, self.reclaim))

    def give_back(self, block: HostBlock) -> None:
        """Keeps ``block``, which no queued copy uses any more, or frees it if enough is kept."""
        if self._blocks.drop(block, block.view.nbytes, keep=True):
            self._device.driver.host_free(block)

    def free(self, block: HostBlock) -> None:
        """Frees ``block``, which no queued copy uses any more."""
        if self._blocks.drop(block, block.view.nbytes, keep=False):
            self._device.driver.host_free(block)

    def reclaim(self) -> None:
        """Frees all idle blocks."""
        release_all([partial(self._device.driver.host_free, block) for block in self._blocks.take_idle()])

    def release(self) -> None:
        """Frees every block."""
        release_all([partial(self._device.driver.host_free, block) for block in self._blocks.take_all()])

    def forget(self) -> None:
        """Drops every block without a driver call."""
        self._blocks.take_all()


class Quarantine(DeviceMember):
    """Leases whose work may still run: ``hold`` takes one over, ``reap`` releases those that have become idle."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._waiting: list[tuple[Stream, Callable[[], None]]] = []
        self._lock = process_lock()
        device.add(self)

    def __len__(self) -> int:
        return len(self._waiting)

    def holds(self, stream: Stream) -> bool:
        """Returns whether work on ``stream`` may still run; a stream that was released is idle and may be destroyed."""
        with self._lock:
            return any(waiting == stream for waiting, _ in self._waiting)

    def hold(self, stream: Stream, release: Callable[[], None]) -> None:
        """Has ``release`` called once ``stream`` is idle; it may make driver calls that free the lease, none that reuse
        it.
        """
        self._device.counters.quarantined_leases += 1
        with self._lock:
            self._waiting.append((stream, release))

    def reap(self) -> None:
        """Releases the leases that have become idle; costs nothing while none is held."""
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, []
        try:  # query all streams first: a release may destroy one that another lease waits for
            idle = {stream: self._is_idle(stream) for stream in {stream for stream, _ in waiting}}
        except CudaCallError:
            with self._lock:
                self._waiting += waiting
            raise
        with self._lock:
            self._waiting += [(stream, release) for stream, release in waiting if not idle[stream]]
        release_all([release for stream, release in waiting if idle[stream]])

    def _is_idle(self, stream: Stream) -> bool:
        try:
            return self._device.driver.stream_ready(stream)
        except KernelDiagnosis:  # its work has ended, and its caller had given it up before
            return True

    def busy_streams(self) -> Sequence[Stream]:
        """Returns the streams of the held leases."""
        with self._lock:
            return [stream for stream, _ in self._waiting]

    def given_up(self) -> Sequence[Stream]:
        """Returns the streams of the held leases: no caller waits for their work."""
        return self.busy_streams()

    def release(self) -> None:
        """Releases every lease."""
        while self._waiting:  # a release may hold for another stream
            with self._lock:
                waiting, self._waiting = self._waiting, []
            release_all([release for _, release in waiting])

    def forget(self) -> None:
        """Drops every lease without a driver call."""
        with self._lock:
            self._waiting.clear()
