"""Memory of the emulated device: its bytes, which of them were ever written, and the allocations.

A fresh allocation is filled with 0xCD and marked uninitialised byte by byte.  Allocations lie far apart, so that an
index out of range hits a gap and not another allocation.  Freed addresses are reused only if ``allocate`` is given one.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.adapters.cuda.machine.faults import FaultKind, MemoryFault

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre.adapters.cuda.seam import DeviceAddress

Places: TypeAlias = "int | NDArray[np.int64]"
Index: TypeAlias = "Places | slice"
"""Elements of an access: an int if all lanes agree, a slice if they are evenly spaced, else an int64 array."""
OWN_BASE: Final = 0x7E00_0000_0000
"""The first address that ``allocate`` chooses itself; callers choose addresses from ``HEAP_BASE`` on."""
HEAP_BASE: Final = 0x7F00_0000_0000
ALIGNMENT: Final = 256
FRESH: Final = 0xCD
_GAP: Final = 1 << 20
_FREED: Final = 0xDD
_KNOWN: Final = 0xFF
_KEPT: Final = 1024  # freed ranges that are remembered, so that an access to one is told apart from one to nothing
_PADDING: Final = 16  # the backing array's length is a multiple of this, so that it can be viewed as words


class Region:
    """A run of bytes at an address: global (an allocation) or the shared memory of resident blocks.

    ``data`` and ``known`` (0xFF for a byte that was written, else 0) are padded to whole 16-byte words; only the first
    ``nbytes`` count.  ``complete`` tells that every byte is known; it may be set later than it becomes true.
    ``shared``: the host reads and writes the bytes, too, which all count as known.
    """

    __slots__ = ("_views", "base", "complete", "data", "end", "known", "nbytes", "shared")

    def __init__(self, base: int, nbytes: int, host: memoryview | None = None) -> None:
        """Makes a region of fresh bytes, or over bytes of the host, of which there are 16 more than ``nbytes``."""
        padded = -(-nbytes // _PADDING) * _PADDING
        self.base: Final = base
        self.nbytes: Final = nbytes
        self.end: Final = base + nbytes
        self.shared: Final = host is not None
        self.data: Final[NDArray[np.uint8]] = (
            np.full(padded, FRESH, np.uint8) if host is None else np.frombuffer(host, np.uint8, padded)
        )
        self.known: Final[NDArray[np.uint8]] = np.full(padded, _KNOWN if self.shared else 0, np.uint8)
        self.complete: bool = self.shared
        self._views: dict[np.dtype[Any], tuple[NDArray[Any], NDArray[Any]]] = {}

    def typed(self, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the data as elements of ``dtype``, and the map of known bytes as unsigned words of the same size."""
        views = self._views.get(dtype)
        if views is None:
            views = self.data.view(dtype), self.known.view(f"u{dtype.itemsize}")
            self._views[dtype] = views
        return views

    def settle(self) -> None:
        """Sets ``complete`` if the last unknown byte was written."""
        if not self.complete and self.known[: self.nbytes].all():
            self.complete = True


class _Table(NamedTuple):
    """Live allocations by ascending base.  It is replaced as a whole, so that a running kernel sees a
    consistent one.
    """

    bases: list[int]
    regions: list[Region]

    def below(self, address: int) -> Region | None:
        """Returns the region with the greatest base up to ``address``, or None."""
        position = bisect_right(self.bases, address)
        return self.regions[position - 1] if position else None


class DeviceMemory:
    """The allocations of one device.  Two threads must not change one allocation at once."""

    def __init__(self) -> None:
        self._next = OWN_BASE + ALIGNMENT
        self._live = _Table([], [])
        self._freed: list[tuple[int, int]] = []  # (base, bytes), ascending
        self.shared: int = 0
        """The number of allocations that kernels share with the host."""

    def share(self, host: memoryview, nbytes: int) -> DeviceAddress:
        """Returns the address of an allocation over bytes of the host, of which there are 16 more than ``nbytes``."""
        return self._add(nbytes, None, host)

    def allocate(self, nbytes: int, *, address: DeviceAddress | None = None) -> DeviceAddress:
        """Returns ``nbytes`` > 0 of uninitialised memory at a multiple of 256: at ``address``, or where there is room.

        Raises ``ValueError`` if the range overlaps an allocation or is not aligned.
        """
        if nbytes < 1:
            raise ValueError("an allocation has at least one byte")
        return self._add(nbytes, address, None)

    def _add(self, nbytes: int, wanted: DeviceAddress | None, host: memoryview | None) -> DeviceAddress:
        address = wanted
        if address is None:
            # An odd multiple of 256, so that no code can rely on a larger alignment.
            address = self._next
            self._next = -(-(address + nbytes + _GAP) // (2 * ALIGNMENT)) * (2 * ALIGNMENT) + ALIGNMENT
        bases, regions = self._live
        position = bisect_right(bases, address)
        overlaps_left = position > 0 and regions[position - 1].end > address
        if address % ALIGNMENT or overlaps_left or (position < len(bases) and bases[position] < address + nbytes):
            raise ValueError(f"{nbytes} bytes at {address:#x} overlap an allocation, or are not aligned to {ALIGNMENT}")
        region = Region(address, nbytes, host)
        self.shared += region.shared
        self._freed = [old for old in self._freed if old[0] + old[1] <= address or address + nbytes <= old[0]]
        self._live = _Table(
            [*bases[:position], address, *bases[position:]], [*regions[:position], region, *regions[position:]]
        )
        return address

    def free(self, address: DeviceAddress) -> None:
        """Frees an allocation; until its addresses are allocated again, every access to them is a fault."""
        region = self.region_at(address)
        if region is None or region.base != address:
            raise self.fault_at(address, 0)
        bases, regions = self._live
        position = bisect_right(bases, address) - 1
        self._live = _Table(bases[:position] + bases[position + 1 :], regions[:position] + regions[position + 1 :])
        self.shared -= region.shared
        region.data.fill(_FREED)
        insort(self._freed, (address, region.nbytes))
        del self._freed[:-_KEPT]

    def extent_of(self, address: DeviceAddress) -> tuple[DeviceAddress, int] | None:
        """Returns (base, bytes) of the live allocation that contains the byte at ``address``, or None."""
        region = self.region_at(address)
        return None if region is None else (region.base, region.nbytes)

    def region_at(self, address: DeviceAddress) -> Region | None:
        """Returns the live allocation that contains the byte at ``address``, or None."""
        region = self._live.below(address)
        return region if region is not None and address < region.end else None

    def regions(self) -> list[Region]:
        """Returns the live allocations in ascending order of address."""
        return self._live.regions

    def fault_at(self, address: DeviceAddress, nbytes: int) -> MemoryFault:
        """Returns the fault of an access outside every live allocation."""
        position = bisect_right(self._freed, (address, 1 << 63))
        if position:
            base, size = self._freed[position - 1]
            if address < base + size:
                return MemoryFault(FaultKind.USE_AFTER_FREE, address, nbytes, (base, size))
        nearest = self._live.below(address)
        extent = None if nearest is None else (nearest.base, nearest.nbytes)
        return MemoryFault(FaultKind.ILLEGAL_ADDRESS, address, nbytes, extent)

    def _range(self, address: int, nbytes: int) -> tuple[Region, slice]:
        region = self.region_at(address)
        if region is None or address + nbytes > region.end:
            raise self.fault_at(address if region is None else region.end, nbytes)
        return region, slice(address - region.base, address - region.base + nbytes)

    def write(self, address: DeviceAddress, data: bytes | bytearray | memoryview) -> None:
        """Writes bytes.  Raises ``MemoryFault``."""
        source = np.frombuffer(data, np.uint8)
        if not source.size:
            return
        region, where = self._range(address, source.size)
        region.data[where] = source
        _mark(region, where)

    def read(self, address: DeviceAddress, nbytes: int) -> bytes:
        """Returns the bytes as they are; those never written are 0xCD.  Raises ``MemoryFault``."""
        if not nbytes:
            return b""
        region, where = self._range(address, nbytes)
        return region.data[where].tobytes()

    def fill(self, address: DeviceAddress, value: int, nbytes: int) -> None:
        """Sets ``nbytes`` bytes to ``value``.  Raises ``MemoryFault``."""
        if nbytes:
            region, where = self._range(address, nbytes)
            region.data[where] = value
            _mark(region, where)

    def copy(self, target: DeviceAddress, source: DeviceAddress, nbytes: int) -> None:
        """Copies within the device; bytes that are uninitialised in the source are so in the target."""
        if not nbytes:
            return
        origin, taken = self._range(source, nbytes)
        region, where = self._range(target, nbytes)
        region.data[where] = origin.data[taken].copy()
        if origin.complete:
            _mark(region, where)
        else:
            region.known[where] = origin.known[taken].copy()
            region.complete = False

    def initialised(self, address: DeviceAddress, nbytes: int) -> bool:
        """Returns whether every byte of the range was written."""
        region, where = self._range(address, nbytes)
        return region.complete or bool(region.known[where].all())


def _mark(region: Region, where: slice) -> None:
    if not region.complete:
        region.known[where] = _KNOWN
        region.complete = where.stop - where.start == region.nbytes
