"""Copies of a dispatch between the caller's memory and its arena, through pinned memory.

``MirroredTransfer`` serves small arenas with a pinned mirror of the arena, one copy up and one down. ``StagedTransfer``
serves large ones with pinned chunks of 4 MiB, of which the next one is filled while the one before is being copied.
Everything is queued on the stream of the slot; every wait is bounded by the method's deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from vyre.adapters.cuda.runtime.arena import Arena
from vyre.adapters.cuda.runtime.chunks import Piece, PinnedChunks
from vyre.adapters.cuda.runtime.device import MIB, CudaDevice, release_all
from vyre.adapters.cuda.runtime.graphs import Copy
from vyre.adapters.cuda.runtime.memory import PinnedMemory
from vyre.adapters.cuda.seam import CudaCallError, DeviceAddress, HostBlock, Stream

MIRROR_LIMIT: Final = 8 * MIB


class Copies(NamedTuple):
    """The copies of a dispatch between pinned memory and the arena; ``upload`` is None if there is nothing to
    upload.
    """

    upload: Copy | None
    reads: tuple[Copy, ...]


class Transfer(Protocol):
    """The copies of one arena.  Its methods raise ``CudaCallError`` and ``DeadlinePassed``.  Not for two threads at
    once.
    """

    def upload(self, inputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Queues the copies of the inputs to the device; they have been read when this returns."""

    def recordable(self) -> MirroredTransfer | None:
        """Returns the transfer itself if it makes the same copies every time, else None."""

    def request(self) -> None:
        """Queues those copies to the host that can be queued before the kernels have run."""

    def request_traps(self) -> None:
        """Queues the copy of the trap records alone."""

    def traps(self) -> memoryview:
        """Returns the trap records, once the copies of ``request`` or ``request_traps`` have run."""

    def collect(self, outputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Fills ``outputs``, once the copies of ``request`` have run."""

    def release(self, *, idle: bool) -> None:
        """Returns pinned memory and events; ``idle`` memory may be kept for reuse, otherwise it is freed."""


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
        """Returns the transfer: it makes the same copies every time."""
        return self

    def stage(self, inputs: Sequence[memoryview]) -> None:
        """Copies the inputs into pinned memory, for a graph that makes ``copies``."""
        for place, source in self._inputs:
            place[:] = inputs[source]

    def count(self) -> None:
        """Counts the ``copies`` that a graph has made."""
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
        counters.uploaded_bytes += self._up_bytes
        counters.uploads += self._up is not None

    def _count_reads(self) -> None:
        counters = self._device.counters
        counters.downloaded_bytes += self._down_bytes
        counters.downloads += len(self._down)

    def traps(self) -> memoryview:
        return self._traps

    def collect(self, outputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Implements ``Transfer.collect``; waits for nothing."""
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
        self._table = Piece(memoryview(table), base + arena.table.start)
        self._stream = stream
        self._chunks = PinnedChunks(device, pinned, stream, arena.mirror_nbytes)
        self._records: HostBlock | None = None
        if arena.traps.nbytes:
            try:
                self._records = pinned.allocate(arena.traps.nbytes)
            except CudaCallError as error:
                device.roll_back(error, [partial(self.release, idle=True)])
                raise

    def recordable(self) -> MirroredTransfer | None:
        """Returns None: the chunks are used in turn, so that copies differ between dispatches."""
        return None  # chunks are used in turn

    def upload(self, inputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        places = [Piece(inputs[place.source], self._base + place.offset) for place in self._arena.inputs]
        self._chunks.send([self._table, *places], deadline_ns)

    def request(self) -> None:
        """Implements ``Transfer.request``: queues the copy of the trap records only."""
        if self._arena.traps.nbytes:
            self.request_traps()

    def request_traps(self) -> None:
        assert self._records is not None
        records = self._arena.traps
        address = self._base + records.start
        self._device.driver.copy_to_host(self._records.address, address, records.nbytes, self._stream)

    def traps(self) -> memoryview:
        assert self._records is not None
        return self._records.view[: self._arena.traps.nbytes]

    def collect(self, outputs: Sequence[memoryview], deadline_ns: int | None) -> None:
        """Implements ``Transfer.collect``: copies the outputs chunk by chunk and waits for them."""
        places = zip(outputs, self._arena.outputs, strict=True)
        self._chunks.receive([Piece(target, self._base + source.start) for target, source in places], deadline_ns)

    def release(self, *, idle: bool) -> None:
        records, self._records = self._records, None
        give_back = self._pinned.give_back if idle else self._pinned.free
        release_all(
            [partial(self._chunks.release, idle=idle), *([] if records is None else [partial(give_back, records)])]
        )


def make_transfer(
    device: CudaDevice, pinned: PinnedMemory, arena: Arena, base: DeviceAddress, table: bytes, stream: Stream
) -> Transfer:
    """Returns the transfer for an arena of this size."""
    kind = MirroredTransfer if arena.mirror_nbytes <= MIRROR_LIMIT else StagedTransfer
    return kind(device, pinned, arena, base, table, stream)
