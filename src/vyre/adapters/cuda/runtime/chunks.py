"""Copies of any length through two pinned chunks: one is filled or emptied while the other is being copied.

Pieces that are sent share a chunk until it is full, so that many short copies need not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cuda.runtime.device import MIB, CudaDevice, release_all
from vyre.adapters.cuda.runtime.memory import PinnedMemory
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed
from vyre.adapters.cuda.seam import CudaCallError, DeviceAddress, Event, HostBlock, Stream

if TYPE_CHECKING:
    from vyre.adapters.cuda.runtime.slot import Resources

CHUNK: Final = 4 * MIB
CHUNKS: Final = 2


class _Chunk:
    """A pinned chunk.  ``filled``: the bytes of it that are being copied to the device, or were."""

    __slots__ = ("block", "busy", "copied", "filled", "target")

    def __init__(self, block: HostBlock, copied: Event) -> None:
        self.block: Final = block
        self.copied: Final = copied
        self.busy = False
        self.filled = 0
        self.target: memoryview | None = None
        """The destination of the bytes that are being copied into the chunk."""


class Piece(NamedTuple):
    """``host`` bytes and their address on the device."""

    host: memoryview
    address: DeviceAddress


class PinnedChunks:
    """Copies queued on one stream.  Methods raise ``CudaCallError`` and ``DeadlinePassed``.  Not for two threads at
    once.

    ``nbytes`` is the most that is copied at once; small amounts take a smaller chunk.
    """

    def __init__(self, device: CudaDevice, pinned: PinnedMemory, stream: Stream, nbytes: int) -> None:
        self._device, self._pinned, self._stream = device, pinned, stream
        self._size: Final = max(1, min(CHUNK, nbytes))
        self._chunks: list[_Chunk] = []
        self._next = 0
        try:
            for _ in range(CHUNKS if nbytes > CHUNK else 1):
                block = pinned.allocate(self._size)
                try:
                    event = device.driver.event_create(blocking=True)
                except CudaCallError as error:
                    device.roll_back(error, [partial(pinned.give_back, block)])
                    raise
                self._chunks.append(_Chunk(block, event))
        except CudaCallError as error:
            device.roll_back(error, [partial(self.release, idle=True)])
            raise

    @classmethod
    def to_send(cls, device: CudaDevice, pinned: PinnedMemory, stream: Stream, pieces: Iterable[Piece]) -> PinnedChunks:
        """Returns chunks that fit for sending these pieces, which share chunks."""
        return cls(device, pinned, stream, sum(piece.host.nbytes for piece in pieces))

    @classmethod
    def to_receive(
        cls, device: CudaDevice, pinned: PinnedMemory, stream: Stream, pieces: Iterable[Piece]
    ) -> PinnedChunks:
        """Returns chunks that fit for receiving these pieces (at least one), each of which has a chunk for itself."""
        return cls(device, pinned, stream, max(piece.host.nbytes for piece in pieces))

    def send(self, pieces: Iterable[Piece], deadline_ns: int | None) -> None:
        """Queues copies to the device; the bytes have been read when this returns."""
        driver, counters = self._device.driver, self._device.counters
        for host, address in pieces:
            start = 0
            while start < host.nbytes:
                chunk = self._unfilled_chunk(deadline_ns)
                place = chunk.filled
                part = host[start : start + self._size - place]
                chunk.block.view[place : place + part.nbytes] = part
                driver.copy_to_device(address + start, chunk.block.address + place, part.nbytes, self._stream)
                self._queued(chunk)
                chunk.filled = place + part.nbytes
                start += part.nbytes
                counters.uploaded_bytes += part.nbytes
                counters.uploads += 1

    def receive(self, pieces: Iterable[Piece], deadline_ns: int | None) -> None:
        """Copies from the device; the bytes have arrived when this returns."""
        driver, counters = self._device.driver, self._device.counters
        for host, address in self._split(pieces):
            chunk = self._free_chunk(deadline_ns)
            driver.copy_to_host(chunk.block.address, address, host.nbytes, self._stream)
            chunk.target = host
            self._queued(chunk)
            counters.downloaded_bytes += host.nbytes
            counters.downloads += 1
        for _ in self._chunks:
            self._free_chunk(deadline_ns)

    def release(self, *, idle: bool) -> None:
        """Returns memory and events; ``idle`` memory may be kept for reuse, otherwise it is freed."""
        chunks, self._chunks = self._chunks, []
        give_back = self._pinned.give_back if idle else self._pinned.free
        release_all(
            [
                *(partial(self._device.driver.event_destroy, chunk.copied) for chunk in chunks),
                *(partial(give_back, chunk.block) for chunk in chunks),
            ]
        )

    def _split(self, pieces: Iterable[Piece]) -> Iterable[Piece]:
        for host, address in pieces:
            for start in range(0, host.nbytes, self._size):
                yield Piece(host[start : start + self._size], address + start)

    def _queued(self, chunk: _Chunk) -> None:
        chunk.busy = True
        self._device.driver.event_record(chunk.copied, self._stream)

    def _unfilled_chunk(self, deadline_ns: int | None) -> _Chunk:
        """Returns the chunk that was taken last if it has room, else the next one."""
        chunk = self._chunks[self._next - 1]
        return chunk if 0 < chunk.filled < self._size else self._free_chunk(deadline_ns)

    def _free_chunk(self, deadline_ns: int | None) -> _Chunk:
        """Returns the next chunk once its copies are done and its bytes have been moved to their destination."""
        chunk = self._chunks[self._next]
        self._next = (self._next + 1) % len(self._chunks)
        if chunk.busy:
            if not self._device.waiter.event(chunk.copied, deadline_ns):
                raise DeadlinePassed
            chunk.busy, chunk.filled = False, 0
            if chunk.target is not None:
                chunk.target[:] = chunk.block.view[: chunk.target.nbytes]
                chunk.target = None
        return chunk


def copy_now(
    resources: Resources, stream: Stream, pieces: Sequence[Piece], deadline_ns: int | None = None, *, to_device: bool
) -> None:
    """Copies pieces (at least one) to the device or from it, and waits for the copies.

    After a failure the chunks go into quarantine.  Raises as the methods of ``PinnedChunks`` do.
    """
    device = resources.device
    make = PinnedChunks.to_send if to_device else PinnedChunks.to_receive
    chunks = make(device, resources.pinned, stream, pieces)
    try:
        if to_device:
            chunks.send(pieces, deadline_ns)
            device.waiter.stream(stream, deadline_ns)
        else:
            chunks.receive(pieces, deadline_ns)
    except (CudaCallError, DeadlinePassed):
        if device.reachable:
            resources.quarantine.hold(stream, partial(chunks.release, idle=False))
        raise
    chunks.release(idle=True)
