"""Resident memory: allocations that live between dispatches, and adopted arrays of other libraries.

Every operation here ends with the device idle on its stream, so between calls no work is pending on a buffer and no
stream has to wait for another.  The exception is work that outlived its deadline: its buffers remember the stream, and
are freed after the work has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakSet, ref

from vyre.adapters.cuda.runtime import interop
from vyre.adapters.cuda.runtime.chunks import Piece, copy_now
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.runtime.memory import NO_BLOCK, DeviceBlock
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.streams import StreamLease
from vyre.adapters.cuda.seam import CudaCallError, DeviceAddress, Stream
from vyre.adapters.dlpack import dlpack_capsule
from vyre.adapters.forks import process_lock
from vyre.adapters.host.step_memory import check_range
from vyre.domain.errors import BackendError, InvalidResource
from vyre.domain.unique import Unique
from vyre.ports.interrupts import whole
from vyre.ports.ownership import check_ownership
from vyre.ports.requests import Readback, Upload
from vyre.ports.resident_buffer import Described, ResidentBuffer


class CudaBuffer(ResidentBuffer):
    """Device memory at ``address`` (0 if it is empty)."""

    __slots__ = ("_block", "_busy", "_foreign", "_lender", "_store", "address", "uses")

    def __init__(
        self,
        store: ResidentStore,
        address: DeviceAddress,
        nbytes: int,
        label: str | None,
        *,
        block: DeviceBlock = NO_BLOCK,
        foreign: interop.ForeignArray | None = None,
        readonly: bool = False,
        base: CudaBuffer | None = None,
        offset: int = 0,
    ) -> None:
        self.address: Final = address
        self._store = store
        self._block = block
        self._foreign = foreign
        self._busy: Stream | None = None
        self.uses: Final[list[None]] = []
        """One for each operation under way on the memory, until whose end it must stay."""
        self._lender: ref[_Lent] | None = None
        epoch = store.device.epoch if base is None else base.epoch
        backend = store.device.backend
        super().__init__(
            backend_id=backend, nbytes=nbytes, epoch=epoch, label=label, base=base, offset=offset, readonly=readonly
        )

    @property
    def shares_memory(self) -> bool:
        return self.whole._foreign is not None

    @property
    def described(self) -> Described | None:
        return None if self._foreign is None else self._foreign.described

    @property
    def whole(self) -> CudaBuffer:
        """The buffer of the whole allocation."""
        root = self.root
        assert isinstance(root, CudaBuffer)
        return root

    def occupy(self, stream: Stream) -> None:
        """Records that work on ``stream`` may still use the memory."""
        self.whole._busy = stream

    def _part(self, offset: int, nbytes: int, *, readonly: bool) -> CudaBuffer:
        address = self.address + offset if nbytes else 0
        return CudaBuffer(self._store, address, nbytes, self.label, readonly=readonly, base=self, offset=offset)

    def surrender(self) -> tuple[DeviceBlock, Stream | None]:
        """Returns the memory, which the buffer no longer owns, and the stream that may still use it."""
        block, self._block = self._block, NO_BLOCK
        return block, self._busy

    def _release(self) -> None:
        lent = None if self._lender is None else self._lender()
        if lent is not None:
            lent.take(self._store, *self.surrender(), self._foreign)
        elif self.uses or any(launch.active for launch in tuple(self._bound)):
            self._store.device.discard(self._release)  # another thread uses it: this is tried again later
            return
        else:
            self._store.give_back(*self.surrender())
        self._foreign = None

    def _dropped(self) -> None:
        self._store.device.discard(partial(self._store.give_back, *self.surrender()))

    # ---- exports to other libraries
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._check_export("the array interface")
        return interop.array_interface(self.address, (self.nbytes,), "|u1", readonly=self.readonly)

    def __dlpack_device__(self) -> tuple[int, int]:
        return interop.dlpack_device(self._store.device.options.ordinal)

    def __dlpack__(self, *, stream: int | None = None, **options: object) -> object:
        """Returns a capsule of bytes; no work is pending on the memory, so ``stream`` need not wait."""
        return self.dlpack((self.nbytes,), "|u1")

    def dlpack(self, shape: Sequence[int], typestr: str, **options: object) -> object:
        """Returns a capsule of the memory seen as an array."""
        self._check_export("DLPack")
        if self.readonly:
            raise BufferError(f"{self!r} is read-only, which DLPack does not say. Fix: use __cuda_array_interface__")
        return dlpack_capsule(self.whole._lent(), self.address, shape, typestr, self.__dlpack_device__())

    def _lent(self) -> _Lent:
        """Returns what keeps the memory while others use it, also after ``close``."""
        with self._store.making:
            lent = None if self._lender is None else self._lender()
            if lent is None:
                lent = _Lent(self)
                self._lender = ref(lent)
            return lent

    def _check_export(self, what: str) -> None:
        if self.closed:
            raise BufferError(f"{self!r} is exported after close(). Fix: keep it open while others use it")
        if not self._store.exports:
            raise interop.refuse_export(what)


class _Lent(Unique):
    """Memory that other libraries use: it is freed with this object if its buffer was closed before."""

    __slots__ = ("__weakref__", "_free", "_kept")

    def __init__(self, buffer: CudaBuffer) -> None:
        self._kept: object = buffer
        self._free: Callable[[], None] | None = None

    def take(self, store: ResidentStore, block: DeviceBlock, busy: Stream | None, foreign: object) -> None:
        """Takes over the memory of the buffer, which is being closed."""
        self._kept = foreign
        self._free = partial(store.device.discard, partial(store.give_back, block, busy))

    def __del__(self) -> None:
        free: Callable[[], None] | None = getattr(self, "_free", None)
        if free is not None:
            free()


class MemoryRange(NamedTuple):
    """Bytes [offset, offset + nbytes) of a buffer, checked to lie within it."""

    buffer: CudaBuffer
    offset: int
    nbytes: int

    @property
    def address(self) -> DeviceAddress:
        """Returns the device address of the first byte."""
        return self.buffer.address + self.offset


class ResidentStore(DeviceMember):
    """``ResidentMemory`` and ``ForeignMemory`` of one device.  Open buffers are freed when the device is closed.

    ``exports``: whether other libraries can use addresses of this device.
    """

    def __init__(self, resources: Resources, *, exports: bool = True) -> None:
        self.device: Final[CudaDevice] = resources.device
        self.exports: Final = exports
        self._resources = resources
        self._open: WeakSet[CudaBuffer] = WeakSet()
        self.making: Final = process_lock()
        self._lock = self.making
        resources.device.add(self)

    # ---- the facets
    @whole
    def allocate(self, nbytes: int, /, *, label: str | None = None) -> CudaBuffer:
        """Returns a buffer of zeroed memory.  Raises ``InvalidResource`` for a negative size."""
        if nbytes < 0:
            raise InvalidResource(f"an allocation of {nbytes} bytes", fix="allocate 0 bytes or more.")
        with self.device.calls:
            if nbytes == 0:
                return CudaBuffer(self, 0, 0, label)
            buffer: CudaBuffer = self.on_stream(partial(self._allocate, nbytes, label))
            return buffer

    @whole
    def upload(self, uploads: Sequence[Upload], /) -> None:
        """Copies host bytes into buffers, and waits.  Raises ``InvalidResource`` for a range outside its buffer."""
        ranges = [(u.data, self.range(u.buffer, u.offset, u.data.nbytes, writing=True)) for u in uploads]
        pieces = [Piece(data, r.address) for data, r in ranges if r.nbytes]
        if pieces:
            with self.device.calls, self.using([r.buffer for _, r in ranges]):
                self.on_stream(partial(self._copy, pieces, to_device=True))

    @whole
    def download(self, reads: Sequence[Readback], /) -> None:
        """Copies bytes of buffers to the host, and waits.  Raises ``InvalidResource`` for a range outside its
        buffer.
        """
        pieces = self.pieces(reads)
        if pieces:
            with self.device.calls, self.using([r.buffer for r in reads]):
                self.on_stream(partial(self._copy, pieces, to_device=False))

    @whole
    def adopt(self, array: object, /, *, label: str | None = None) -> CudaBuffer:
        """Returns a buffer over the memory of ``array``, which is kept alive until the buffer is closed.

        Raises ``InvalidResource`` for memory of another device, managed memory, and an array that is not contiguous.
        """
        foreign = interop.read_foreign(array)
        with self.device.calls:
            if foreign.nbytes:
                interop.check_pointer(foreign, self.device.driver.pointer_facts, self.device.options.ordinal)
                if foreign.synchronise:
                    self.device.driver.context_synchronize()
        address = foreign.address if foreign.nbytes else 0
        return CudaBuffer(self, address, foreign.nbytes, label, foreign=foreign, readonly=foreign.readonly)

    # ---- used by the executor
    def own(self, buffer: ResidentBuffer) -> CudaBuffer:
        """Returns ``buffer``.  Raises ``InvalidResource`` unless it is open, of this backend and of this epoch."""
        check_ownership(self.device.backend, self.device.epoch, (buffer,))
        assert isinstance(buffer, CudaBuffer)
        return buffer

    @contextmanager
    def using(self, buffers: Iterable[ResidentBuffer]) -> Iterator[None]:
        """Keeps the memory of buffers from being freed while a block runs.  Raises as ``own`` does."""
        roots = [self.own(buffer).whole for buffer in buffers]
        for root in roots:
            root.uses.append(None)
        try:
            check_ownership(self.device.backend, self.device.epoch, roots)  # again: now nobody frees them any more
            yield
        finally:
            for root in roots:
                root.uses.pop()

    def range(self, buffer: ResidentBuffer, offset: int, nbytes: int, *, writing: bool) -> MemoryRange:
        """Returns checked bytes of a buffer.  Raises ``InvalidResource``."""
        own = self.own(buffer)
        check_range(own, offset, nbytes, writing=writing)
        return MemoryRange(own, offset, nbytes)

    def pieces(self, reads: Iterable[Readback]) -> list[Piece]:
        """Returns the copies to the host, with every range checked."""
        ranges = [(r.into, self.range(r.buffer, r.offset, r.into.nbytes, writing=False)) for r in reads]
        return [Piece(into, r.address) for into, r in ranges if r.nbytes]

    @whole
    def give_back(self, block: DeviceBlock, busy: Stream | None) -> None:
        """Frees a closed buffer's memory: at once, or after the work on ``busy`` that may still use it."""
        device, memory, quarantine = self.device, self._resources.memory, self._resources.quarantine
        if not block.capacity or not device.reachable:
            return
        with device.calls:
            if busy is None:
                memory.give_back(block)
            elif quarantine.holds(busy):
                quarantine.hold(busy, partial(memory.retire, block))
            else:
                memory.retire(block)

    def on_stream(self, work: Callable[[StreamLease], Any]) -> Any:
        """Calls ``work`` with a leased stream, and waits for the work that it queued.  Call it inside ``device.calls``.

        After a failure it waits, too, and the stream goes into quarantine, since the wait may have failed as well.
        """
        streams, quarantine = self._resources.streams, self._resources.quarantine
        quarantine.reap()
        lease = streams.acquire()
        try:
            result = work(lease)
            self.device.waiter.stream(lease.stream, None)
        except (CudaCallError, BackendError) as error:
            self.device.settle(error, (lease.stream,), None)
            if self.device.reachable:
                quarantine.hold(lease.stream, partial(streams.free, lease))
            raise
        streams.give_back(lease)
        return result

    # ---- as a member of the device
    def release(self) -> None:
        """Frees the memory of every open buffer."""
        with self._lock:
            buffers = list(self._open)
        blocks = [buffer.surrender() for buffer in buffers]
        self.forget()
        release_all([partial(self.give_back, block, busy) for block, busy in blocks])

    def forget(self) -> None:
        """Drops every open buffer without a driver call."""
        with self._lock:
            self._open.clear()

    # ---- details
    def _allocate(self, nbytes: int, label: str | None, lease: StreamLease) -> CudaBuffer:
        block = self._resources.memory.allocate(nbytes, lease.stream)
        self.device.counters.resident_bytes += nbytes
        try:
            self.device.driver.memset8(block.address, 0, nbytes, lease.stream)
        except CudaCallError as error:
            self.device.roll_back(error, [partial(self._resources.memory.free, block, lease.stream)])
            raise
        buffer = CudaBuffer(self, block.address, nbytes, label, block=block)
        with self._lock:
            self._open.add(buffer)
        return buffer

    def _copy(self, pieces: Sequence[Piece], lease: StreamLease, *, to_device: bool) -> None:
        copy_now(self._resources, lease.stream, pieces, to_device=to_device)
