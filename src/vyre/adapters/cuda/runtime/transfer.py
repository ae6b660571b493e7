"""Moving the bytes of a dispatch between the caller and its arena, through pinned memory.

``MirroredTransfer`` for small arenas: a pinned mirror of the arena, one copy up and one down.  ``StagedTransfer`` for
large ones: pinned chunks of 4 MiB, the next one filled while the one before is on its way.
Everything is queued on the stream of the lane; what a method waits for is bounded by its deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from vyre.adapters.cuda.runtime.arena import Arena
from vyre.adapters.cuda.runtime.device import MIB, CudaDevice, release_all
from vyre.adapters.cuda.runtime.graphs import Copy
from vyre.adapters.cuda.runtime.memory import PinnedMemory
from vyre.adapters.cuda.seam import CudaCallError, DeviceAddress, Event, HostBlock, Stream

MIRROR_LIMIT: Final = 8 * MIB
CHUNK: Final = 4 * MIB
CHUNKS: Final = 2


class DeadlinePassed(Exception):
    """A wait ended before the device did."""


class Copies(NamedTuple):
    """Copies between pinned memory and the arena."""

    upload: Copy | None
    reads: tuple[Copy, ...]


class Transfer(Protocol):
    """One arena's traffic.  Raises ``CudaCallError`` and ``DeadlinePassed``.  Not for two threads at once."""

    def upload(self, inputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Queue the copies of the inputs to the device; they have been read when this returns."""
        ...

    def recordable(self) -> MirroredTransfer | None:
        """Itself, if it makes the same copies every time."""
        ...

    def request(self) -> None:
        """Queue the copies back that can be queued before the kernels have run."""
        ...

    def request_traps(self) -> None:
        """Queue the copy of the trap records alone."""
        ...

    def traps(self) -> memoryview:
        """The trap records, after what was queued by ``request`` or ``request_traps`` has run."""
        ...

    def collect(self, outputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Fill ``outputs``, after what was queued by ``request`` has run."""
        ...

    def release(self, *, idle: bool) -> None:
        """Return pinned memory and events; ``idle`` memory may be kept for reuse, other goes to the driver."""
        ...


class MirroredTransfer:
    """``Transfer`` by one pinned block with the layout of the arena."""

    def __init__(
        self, device: CudaDevice, pinned: PinnedMemory, arena: Arena, base: DeviceAddress, table: bytes, stream: Stream
    ) -> None:
        self._device = device
        self._pinned = pinned
        self._block: HostBlock | None = pinned.allocate(arena.mirror_nbytes) if arena.mirror_nbytes else None
        view = memoryview(bytearray(0)) if self._block is None else self._block.view
        host = 0 if self._block is None else self._block.address
        if table:
            view[arena.table.start : arena.table.end] = table
        self._inputs = tuple((view[p.offset : p.offset + p.nbytes], p.source) for p in arena.inputs)
        self._outputs = tuple((i, view[r.start : r.end]) for i, r in enumerate(arena.outputs) if r.nbytes)
        self._traps = view[arena.traps.start : arena.traps.end]
        driver, up = device.driver, arena.upload
        self._up: Callable[[], None] | None = (
            partial(driver.copy_to_device, base, host, up.nbytes, stream) if up.nbytes else None
        )
        self._down = tuple(
            partial(driver.copy_to_host, host + r.start, base + r.start, r.nbytes, stream) for r in arena.reads
        )
        records = arena.traps
        self._down_traps = partial(
            driver.copy_to_host, host + records.start, base + records.start, records.nbytes, stream
        )
        self._up_bytes, self._down_bytes = up.nbytes, sum(r.nbytes for r in arena.reads)
        self.copies: Final = Copies(
            Copy(base, host, up.nbytes) if up.nbytes else None,
            tuple(Copy(base + r.start, host + r.start, r.nbytes) for r in arena.reads),
        )

    def recordable(self) -> MirroredTransfer | None:
        return self

    def stage(self, inputs: Sequence[memoryview]) -> None:
        """Bring the inputs into pinned memory, for ``copies`` made elsewhere; count those."""
        for place, source in self._inputs:
            place[:] = inputs[source]
        self._count_upload()
        self._count_reads()

    def upload(self, inputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        if self._up is None:
            return
        for place, source in self._inputs:
            place[:] = inputs[source]
        self._up()
        self._count_upload()

    def request(self) -> None:
        for copy in self._down:
            copy()
        self._count_reads()

    def request_traps(self) -> None:
        self._down_traps()

    def _count_upload(self) -> None:
        counters = self._device.counters
        counters.h2d_bytes += self._up_bytes
        counters.host_upload_ops += self._up is not None

    def _count_reads(self) -> None:
        counters = self._device.counters
        counters.d2h_bytes += self._down_bytes
        counters.device_readback_ops += len(self._down)

    def traps(self) -> memoryview:
        return self._traps

    def collect(self, outputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        for index, source in self._outputs:
            outputs[index][:] = source

    def release(self, *, idle: bool) -> None:
        block, self._block = self._block, None
        if block is not None:
            (self._pinned.give_back if idle else self._pinned.free)(block)


class StagedTransfer:
    """``Transfer`` through a few pinned chunks."""

    def __init__(
        self, device: CudaDevice, pinned: PinnedMemory, arena: Arena, base: DeviceAddress, table: bytes, stream: Stream
    ) -> None:
        self._device = device
        self._pinned = pinned
        self._arena = arena
        self._base = base
        self._table = memoryview(table)
        self._stream = stream
        self._blocks: list[HostBlock] = []
        self._events: list[Event] = []
        self._busy = [False] * CHUNKS
        self._next = 0
        try:
            for _ in range(CHUNKS):
                self._blocks.append(pinned.allocate(CHUNK))
                self._events.append(device.driver.event_create(blocking=True))
        except CudaCallError as error:
            device.roll_back(error, [partial(self.release, idle=True)])
            raise

    def recordable(self) -> MirroredTransfer | None:
        return None  # chunks are used in turn

    def upload(self, inputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        if self._table:
            self._send(self._arena.table.start, self._table, deadline_ns)
        for place in self._arena.inputs:
            self._send(place.offset, inputs[place.source], deadline_ns)

    def request(self) -> None:
        if self._arena.traps.nbytes:
            self.request_traps()

    def request_traps(self) -> None:
        records = self._arena.traps
        address = self._base + records.start
        self._device.driver.copy_to_host(self._blocks[0].address, address, records.nbytes, self._stream)
        self._busy[0] = False  # the caller waits for the whole stream next

    def traps(self) -> memoryview:
        return self._blocks[0].view[: self._arena.traps.nbytes]

    def collect(self, outputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Chunk by chunk: one is copied to the caller while the next is on its way."""
        waiting: tuple[int, memoryview] | None = None
        for target, source in zip(outputs, self._arena.outputs, strict=True):
            for start in range(0, source.nbytes, CHUNK):
                piece = target[start : start + CHUNK]
                number = self._chunk(deadline_ns)
                block, address = self._blocks[number], self._base + source.start + start
                self._device.driver.copy_to_host(block.address, address, piece.nbytes, self._stream)
                self._sent(number)
                if waiting is not None:
                    self._receive(*waiting, deadline_ns)
                waiting = (number, piece)
                self._device.counters.d2h_bytes += piece.nbytes
                self._device.counters.device_readback_ops += 1
        if waiting is not None:
            self._receive(*waiting, deadline_ns)

    def release(self, *, idle: bool) -> None:
        give_back = self._pinned.give_back if idle else self._pinned.free
        blocks, self._blocks = self._blocks, []
        events, self._events = self._events, []
        release_all(
            [
                *(partial(self._device.driver.event_destroy, event) for event in events),
                *(partial(give_back, block) for block in blocks),
            ]
        )

    def _send(self, offset: int, data: memoryview, deadline_ns: int | None) -> None:
        for start in range(0, data.nbytes, CHUNK):
            piece = data[start : start + CHUNK]
            number = self._chunk(deadline_ns)
            block = self._blocks[number]
            block.view[: piece.nbytes] = piece
            address = self._base + offset + start
            self._device.driver.copy_to_device(address, block.address, piece.nbytes, self._stream)
            self._sent(number)
            self._device.counters.h2d_bytes += piece.nbytes
            self._device.counters.host_upload_ops += 1

    def _receive(self, number: int, target: memoryview, deadline_ns: int | None) -> None:
        self._wait(number, deadline_ns)
        target[:] = self._blocks[number].view[: target.nbytes]

    def _chunk(self, deadline_ns: int | None) -> int:
        """The next chunk, free for use."""
        number, self._next = self._next, (self._next + 1) % CHUNKS
        self._wait(number, deadline_ns)
        return number

    def _sent(self, number: int) -> None:
        self._busy[number] = True
        self._device.driver.event_record(self._events[number], self._stream)

    def _wait(self, number: int, deadline_ns: int | None) -> None:
        if self._busy[number]:
            if not self._device.waiter.event(self._events[number], deadline_ns):
                raise DeadlinePassed
            self._busy[number] = False


def make_transfer(
    device: CudaDevice, pinned: PinnedMemory, arena: Arena, base: DeviceAddress, table: bytes, stream: Stream
) -> Transfer:
    """The transfer for an arena of this size."""
    kind = MirroredTransfer if arena.mirror_nbytes <= MIRROR_LIMIT else StagedTransfer
    return kind(device, pinned, arena, base, table, stream)
