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
from typing import Final, NamedTuple

from vyre.adapters.cuda.codes import Result, is_sticky
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.seam import CudaCallError, DeviceAddress, HostBlock, KernelDiagnosis, Pool, Stream
from vyre.adapters.forks import process_lock
from vyre.adapters.size_classes import LEAST_BYTES, size_class

ALIGNMENT: Final = LEAST_BYTES
"""The alignment of every block, in bytes."""


class DeviceBlock(NamedTuple):
    """``capacity`` bytes of device memory at a multiple of 256.  ``epoch`` is the device's at the allocation."""

    address: DeviceAddress
    capacity: int
    epoch: int


NO_BLOCK: Final = DeviceBlock(0, 0, 0)
"""The block of an allocation of zero bytes: its address is null."""


class DeviceMemory(DeviceMember):
    """The device memory of a device.

    Call its methods inside ``device.calls``; they raise ``CudaCallError``, after a second attempt if the device is
    full.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._limit = device.options.cached_device_bytes
        self._pool: Pool = 0
        self._control: Stream = 0
        self._idle: dict[int, list[DeviceBlock]] = {}
        self._idle_bytes = 0
        self._live: dict[DeviceAddress, DeviceBlock] = {}
        self._orphans: list[Pool] = []
        self._reclaimers: list[Callable[[], None]] = []
        self._lock = process_lock()
        device.add(self)

    def on_shortage(self, reclaim: Callable[[], None]) -> None:
        """Registers ``reclaim``, which is called without any lock when the device is full and may give blocks back."""
        self._reclaimers.append(reclaim)

    @property
    def idle_bytes(self) -> int:
        """Returns the bytes kept for the next allocation of their class."""
        return self._idle_bytes

    def allocate(self, nbytes: int, stream: Stream) -> DeviceBlock:
        """Returns memory for use on ``stream``, with undefined content: an idle block of its class, or a new one."""
        if nbytes == 0:
            return NO_BLOCK
        capacity = size_class(nbytes)
        with self._lock:
            kept = self._idle.get(capacity)
            if kept:
                block = kept.pop()
                self._idle_bytes -= capacity
                self._live[block.address] = block
                return block
        self._device.counters.transient_allocation_bytes_requested += nbytes
        try:
            address = self._new(capacity, stream)
        except CudaCallError as error:
            if error.code != Result.OUT_OF_MEMORY:
                raise
            self._device.counters.allocation_retries += 1
            self.reclaim()
            address = self._new(capacity, stream)
        block = DeviceBlock(address, capacity, self._device.epoch)
        with self._lock:
            self._live[address] = block
        return block

    def give_back(self, block: DeviceBlock, stream: Stream | None = None) -> None:
        """Keeps ``block``, on which no work is pending, for the next allocation, or frees it if enough is kept."""
        if block.capacity == 0 or block.epoch != self._device.epoch:
            return
        with self._lock:
            del self._live[block.address]
            if self._idle_bytes + block.capacity <= self._limit:
                self._idle.setdefault(block.capacity, []).append(block)
                self._idle_bytes += block.capacity
                return
        self._free(block, self._any_stream() if stream is None else stream)

    def free(self, block: DeviceBlock, stream: Stream) -> None:
        """Frees ``block`` once ``stream`` reaches the call: work queued on it before may still use the block."""
        if block.capacity == 0 or block.epoch != self._device.epoch:
            return
        with self._lock:
            del self._live[block.address]
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
        with self._lock:
            idle = [block for blocks in self._idle.values() for block in blocks]
            self._idle.clear()
            self._idle_bytes = 0
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
        with self._lock:
            blocks = [*self._live.values(), *(block for kept in self._idle.values() for block in kept)]
            pool, control = self._pool, self._control
            self._clear()
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
        """Drops every block without a driver call; the pool is destroyed by ``sweep``."""
        with self._lock:
            if self._pool:
                self._orphans.append(self._pool)
            self._clear()

    def sweep(self) -> None:
        """Destroys the pools that ``forget`` dropped."""
        orphans, self._orphans = self._orphans, []
        release_all([partial(self._device.driver.pool_destroy, pool) for pool in orphans])

    def _clear(self) -> None:
        self._live.clear()
        self._idle.clear()
        self._idle_bytes = 0
        self._pool = self._control = 0

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
        self._limit = device.options.cached_host_bytes
        self._idle: dict[int, list[HostBlock]] = {}
        self._idle_bytes = 0
        self._live: dict[int, HostBlock] = {}
        self._lock = process_lock()
        device.add(self)

    @property
    def idle_bytes(self) -> int:
        """Returns the bytes kept for the next allocation of their class."""
        return self._idle_bytes

    def allocate(self, nbytes: int) -> HostBlock:
        """Returns a block of at least ``nbytes`` (more than 0) that no queued copy uses."""
        capacity = size_class(nbytes)
        with self._lock:
            kept = self._idle.get(capacity)
            if kept:
                block = kept.pop()
                self._idle_bytes -= capacity
                self._live[block.address] = block
                return block
        try:
            block = self._device.driver.host_alloc(capacity)
        except CudaCallError as error:
            if error.code != Result.OUT_OF_MEMORY:
                raise
            self._device.counters.allocation_retries += 1
            self.reclaim()
            block = self._device.driver.host_alloc(capacity)
        with self._lock:
            self._live[block.address] = block
        return block

    def give_back(self, block: HostBlock) -> None:
        """Keeps ``block``, which no queued copy uses any more, or frees it if enough is kept."""
        with self._lock:
            if self._live.pop(block.address, None) is None:
                return  # the block is of an earlier epoch
            if self._idle_bytes + block.view.nbytes <= self._limit:
                self._idle.setdefault(block.view.nbytes, []).append(block)
                self._idle_bytes += block.view.nbytes
                return
        self._device.driver.host_free(block)

    def free(self, block: HostBlock) -> None:
        """Frees ``block``, which no queued copy uses any more."""
        with self._lock:
            if self._live.pop(block.address, None) is None:
                return
        self._device.driver.host_free(block)

    def reclaim(self) -> None:
        """Frees all idle blocks."""
        with self._lock:
            idle = [block for kept in self._idle.values() for block in kept]
            self._idle.clear()
            self._idle_bytes = 0
        release_all([partial(self._device.driver.host_free, block) for block in idle])

    def release(self) -> None:
        """Frees every block."""
        with self._lock:
            blocks = [*self._live.values(), *(block for kept in self._idle.values() for block in kept)]
        self.forget()
        release_all([partial(self._device.driver.host_free, block) for block in blocks])

    def forget(self) -> None:
        """Drops every block without a driver call."""
        with self._lock:
            self._live.clear()
            self._idle.clear()
            self._idle_bytes = 0


class Quarantine(DeviceMember):
    """Leases whose work may still run: ``hold`` takes one over, ``reap`` releases those that have become idle."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._held: list[tuple[Stream, Callable[[], None]]] = []
        self._lock = process_lock()
        device.add(self)

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, stream: Stream) -> bool:
        """Returns whether work on ``stream`` may still run; a stream that was released is idle and may be destroyed."""
        with self._lock:
            return any(held == stream for held, _ in self._held)

    def hold(self, stream: Stream, release: Callable[[], None]) -> None:
        """Has ``release`` called once ``stream`` is idle; it may make driver calls that free the lease, none that reuse
        it.
        """
        self._device.counters.quarantined_leases += 1
        with self._lock:
            self._held.append((stream, release))

    def reap(self) -> None:
        """Releases the leases that have become idle; costs nothing while none is held."""
        if not self._held:
            return
        with self._lock:
            held, self._held = self._held, []
        try:  # query all streams first: a release may destroy one that another lease waits for
            idle = {stream: self._is_idle(stream) for stream in {stream for stream, _ in held}}
        except CudaCallError:
            with self._lock:
                self._held += held
            raise
        with self._lock:
            self._held += [(stream, release) for stream, release in held if not idle[stream]]
        release_all([release for stream, release in held if idle[stream]])

    def _is_idle(self, stream: Stream) -> bool:
        try:
            return self._device.driver.stream_ready(stream)
        except KernelDiagnosis:  # its work has ended, and its caller had given it up before
            return True

    def busy_streams(self) -> Sequence[Stream]:
        """Returns the streams of the held leases."""
        with self._lock:
            return [stream for stream, _ in self._held]

    def given_up(self) -> Sequence[Stream]:
        """Returns the streams of the held leases: no caller waits for their work."""
        return self.busy_streams()

    def release(self) -> None:
        """Releases every lease."""
        while self._held:  # a release may hold for another stream
            with self._lock:
                held, self._held = self._held, []
            release_all([release for _, release in held])

    def forget(self) -> None:
        """Drops every lease without a driver call."""
        with self._lock:
            self._held.clear()
