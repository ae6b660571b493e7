"""Device and pinned memory of the runtime.

*Device memory* comes from the backend's own stream-ordered pool.  Sizes are rounded to eight classes per power of two,
so at most an eighth is wasted, and blocks given back idle are kept by class for the next dispatch.  When the device is
full, everything kept is given back, the pool is trimmed, and the allocation is tried once more.

*Pinned memory* is what copies that overlap with the host need; it is kept by class in the same way.

*Quarantine* holds what a device may still be using: memory and streams of a dispatch that failed or timed out.  Nothing
in it is used again; once its stream is known to be idle, it goes back to the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from vyre.adapters.cuda.codes import Result, is_sticky
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.seam import CudaCallError, DeviceAddress, HostBlock, KernelDiagnosis, Pool, Stream

ALIGNMENT: Final = 256
CLASSES_PER_DOUBLING: Final = 8


def size_class(nbytes: int) -> int:
    """The bytes to ask for: ``nbytes`` rounded up to one of eight steps between powers of two, at least 256."""
    if nbytes <= ALIGNMENT:
        return ALIGNMENT
    step = max(ALIGNMENT, (1 << (nbytes - 1).bit_length()) // (2 * CLASSES_PER_DOUBLING))
    return -(-nbytes // step) * step


class DeviceBlock(NamedTuple):
    """Device memory at a multiple of 256.  ``epoch`` is that of the device when it was allocated."""

    address: DeviceAddress
    capacity: int
    epoch: int


NO_BLOCK: Final = DeviceBlock(0, 0, 0)
"""What an allocation of zero bytes is: the null address."""


class DeviceMemory(DeviceMember):
    """The pool.  Call inside the door of the device; raises ``CudaCallError``, after the retry for a full device.

    ``reclaim`` is asked for idle memory of higher owners before the retry (the lanes of pipelines, for one).
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
        self._lock = threading.Lock()
        device.add(self)

    def on_shortage(self, reclaim: Callable[[], None]) -> None:
        """Call ``reclaim`` when the device is full; it may give blocks back, and is called without any lock."""
        self._reclaimers.append(reclaim)

    @property
    def live_bytes(self) -> int:
        """Bytes in blocks that somebody holds."""
        with self._lock:
            return sum(block.capacity for block in self._live.values())

    @property
    def idle_bytes(self) -> int:
        """Bytes kept for the next allocation of their class."""
        return self._idle_bytes

    def allocate(self, nbytes: int, stream: Stream) -> DeviceBlock:
        """Memory for use on ``stream`` (undefined content).  A block of its class that is idle, or a new one."""
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

    def give_back(self, block: DeviceBlock, stream: Stream) -> None:
        """Keep ``block``, on which no work is pending, for the next allocation; or free it if enough is kept."""
        if block.capacity == 0 or block.epoch != self._device.epoch:
            return
        with self._lock:
            del self._live[block.address]
            if self._idle_bytes + block.capacity <= self._limit:
                self._idle.setdefault(block.capacity, []).append(block)
                self._idle_bytes += block.capacity
                return
        self._free(block, stream)

    def free(self, block: DeviceBlock, stream: Stream) -> None:
        """Free ``block`` once ``stream`` gets there: work queued on it before may still use the block."""
        if block.capacity == 0 or block.epoch != self._device.epoch:
            return
        with self._lock:
            del self._live[block.address]
        self._free(block, stream)

    def retire(self, block: DeviceBlock) -> None:
        """Return ``block``, on which no work is pending, to the driver; the stream it was used on may be gone."""
        self.free(block, self._stream() if self._uses_pool else 0)

    def reclaim(self) -> None:
        """Give back everything that is only kept, and trim the pool."""
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
        """What the device has and what the pool keeps unused, but no more than the pool may still take."""
        if not self._pool:
            return free
        use, limit = self._device.driver.pool_use(self._pool), self._device.options.pool_bytes
        free += use.reserved - use.used
        return min(free, max(limit - use.used, 0)) if limit else free

    def release(self) -> None:
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
        with self._lock:
            if self._pool:
                self._orphans.append(self._pool)
            self._clear()

    def sweep(self) -> None:
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

    def _stream(self) -> Stream:
        with self._lock:
            if not self._control:
                self._control = self._device.driver.stream_create()
            return self._control


class PinnedMemory(DeviceMember):
    """Page-locked host memory.  Call inside the door of the device; raises ``CudaCallError``."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._limit = device.options.cached_host_bytes
        self._idle: dict[int, list[HostBlock]] = {}
        self._idle_bytes = 0
        self._live: dict[int, HostBlock] = {}
        self._lock = threading.Lock()
        device.add(self)

    @property
    def live_bytes(self) -> int:
        with self._lock:
            return sum(block.view.nbytes for block in self._live.values())

    @property
    def idle_bytes(self) -> int:
        return self._idle_bytes

    def allocate(self, nbytes: int) -> HostBlock:
        """A block of at least ``nbytes`` (more than 0); no copy that is still queued touches it."""
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
        """Keep ``block``, which no queued copy touches any more; or free it if enough is kept."""
        with self._lock:
            if self._live.pop(block.address, None) is None:
                return  # of an earlier epoch
            if self._idle_bytes + block.view.nbytes <= self._limit:
                self._idle.setdefault(block.view.nbytes, []).append(block)
                self._idle_bytes += block.view.nbytes
                return
        self._device.driver.host_free(block)

    def free(self, block: HostBlock) -> None:
        """Return ``block`` to the driver; no queued copy touches it any more."""
        with self._lock:
            if self._live.pop(block.address, None) is None:
                return
        self._device.driver.host_free(block)

    def reclaim(self) -> None:
        """Give back everything that is only kept."""
        with self._lock:
            idle = [block for kept in self._idle.values() for block in kept]
            self._idle.clear()
            self._idle_bytes = 0
        release_all([partial(self._device.driver.host_free, block) for block in idle])

    def release(self) -> None:
        with self._lock:
            blocks = [*self._live.values(), *(block for kept in self._idle.values() for block in kept)]
        self.forget()
        release_all([partial(self._device.driver.host_free, block) for block in blocks])

    def forget(self) -> None:
        with self._lock:
            self._live.clear()
            self._idle.clear()
            self._idle_bytes = 0


class Quarantine(DeviceMember):
    """Leases whose work may still run.  ``hold`` takes one over; ``reap`` gives back what has become idle."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._held: list[tuple[Stream, Callable[[], None]]] = []
        self._lock = threading.Lock()
        device.add(self)

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, stream: Stream) -> bool:
        """Whether work on ``stream`` may still run; a stream that was let go is idle, and may be destroyed."""
        with self._lock:
            return any(held == stream for held, _ in self._held)

    def hold(self, stream: Stream, release: Callable[[], None]) -> None:
        """Call ``release`` (driver calls that free the lease, never ones that reuse it) once ``stream`` is idle."""
        self._device.counters.quarantined_leases += 1
        with self._lock:
            self._held.append((stream, release))

    def reap(self) -> None:
        """Release what has become idle; costs nothing while nothing is held."""
        if not self._held:
            return
        with self._lock:
            held, self._held = self._held, []
        try:  # ask about all streams first: a release may destroy one that another lease waits for
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
        except KernelDiagnosis:  # its work has ended, and was given up before
            return True

    def busy_streams(self) -> Sequence[Stream]:
        with self._lock:
            return [stream for stream, _ in self._held]

    def given_up(self) -> Sequence[Stream]:
        return self.busy_streams()

    def release(self) -> None:
        while self._held:  # a release may hold for another stream
            with self._lock:
                held, self._held = self._held, []
            release_all([release for _, release in held])

    def forget(self) -> None:
        with self._lock:
            self._held.clear()
