"""Pinned host memory, which kernels can access if it is mapped, and access to host memory by address."""

from __future__ import annotations

import contextlib
import ctypes
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.seam import DeviceAddress, HostAddress, HostBlock

PAGE: Final = 4096
FRESH: Final = 0xCD
FREED: Final = 0xDD


@dataclass(slots=True, eq=False)
class PinnedBlock:
    """A block of pinned memory; ``storage`` contains it, page-aligned.  ``mapped`` is its address for kernels, or 0."""

    address: HostAddress
    nbytes: int
    context: int
    storage: bytearray
    view: memoryview
    mapped: DeviceAddress = 0


class HostMemory:
    """All pinned blocks.  Fresh and freed blocks are filled with poison; a view is invalid once its block is freed.

    Mapped blocks are allocations of ``memory`` over the same bytes.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._blocks: dict[HostAddress, PinnedBlock] = {}
        self._sorted: list[HostAddress] = []

    def __len__(self) -> int:
        return len(self._blocks)

    def allocate(self, nbytes: int, context: int, *, mapped: bool = False) -> HostBlock:
        """Returns a page-aligned block, filled with 0xCD.  Raises ``Status`` unless ``nbytes`` is positive."""
        if nbytes <= 0:
            raise Status(Result.INVALID_VALUE, f"{nbytes} bytes")
        storage = bytearray(nbytes + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(storage))
        skip = -start % PAGE
        view = memoryview(storage)[skip : skip + nbytes]
        view[:] = bytes([FRESH]) * nbytes
        address = start + skip
        shared = self._memory.share(memoryview(storage)[skip:], nbytes) if mapped else 0
        self._blocks[address] = PinnedBlock(address, nbytes, context, storage, view, shared)
        self._sorted = sorted(self._blocks)
        return HostBlock(address, view)

    def free(self, address: HostAddress, context: int) -> None:
        """Frees a block.  Raises ``Status`` if the context has no block at ``address``."""
        self._release(self._block(address, context))

    def mapped_at(self, address: HostAddress, context: int) -> DeviceAddress:
        """Returns the address of a block for kernels.  Raises ``Status`` if the context has no mapped block there."""
        mapped = self._block(address, context).mapped
        if not mapped:
            raise Status(Result.INVALID_VALUE, f"the block at {address:#x} is not mapped")
        return mapped

    def free_context(self, context: int) -> None:
        """Frees all blocks of a destroyed context."""
        for block in [b for b in self._blocks.values() if b.context == context]:
            self._release(block)

    def is_pinned(self, address: HostAddress, nbytes: int) -> bool:
        """Returns whether a range lies in one pinned block.  Raises ``Status`` if it leaves one, or is null."""
        if address == 0:
            raise Status(Result.INVALID_VALUE, "null host address")
        place = bisect_right(self._sorted, address)
        if place == 0:
            return False
        block = self._blocks[self._sorted[place - 1]]
        if address >= block.address + block.nbytes:
            return False
        if address + nbytes > block.address + block.nbytes:
            raise Status(Result.INVALID_VALUE, f"{nbytes} bytes at {address:#x} leave a pinned block of {block.nbytes}")
        return True

    def _block(self, address: HostAddress, context: int) -> PinnedBlock:
        block = self._blocks.get(address)
        if block is None or block.context != context:
            raise Status(Result.INVALID_VALUE, f"{address:#x} is no pinned block of this context")
        return block

    def _release(self, block: PinnedBlock) -> None:
        if block.mapped:
            self._memory.free(block.mapped)
        block.view[:] = bytes([FREED]) * block.nbytes
        with contextlib.suppress(BufferError):  # arrays over the view keep its bytes, poisoned
            block.view.release()
        del self._blocks[block.address]
        self._sorted.remove(block.address)


def read_host(address: HostAddress, nbytes: int) -> bytes:
    """Returns ``nbytes`` bytes of host memory."""
    return ctypes.string_at(address, nbytes)


def write_host(address: HostAddress, data: bytes) -> None:
    """Writes bytes to host memory."""
    ctypes.memmove(address, data, len(data))
