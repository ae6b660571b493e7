"""Addresses that the lanes of a frame access: checked, and converted to indices into a region."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault, MemoryFault
from vyre.adapters.cuda.machine.memory import Index, Places, Region
from vyre.adapters.lanes.types import Dense, Lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.launch import Frame
    from vyre.adapters.cuda.machine.ptx_syntax import Instruction
    from vyre.adapters.cuda.machine.registers import Numbers

Addresses: TypeAlias = Dense
"""An address per lane, or one for all of them, in 64 or 32 bits."""
Locate: TypeAlias = "Callable[[Frame, Instruction, Addresses, int], tuple[Region, Index] | None]"
"""(frame, instruction, address, bytes) to region and index in units of the bytes; None if regions differ."""

_HIGH: Final = np.uint64(1 << 63)


def _misaligned(frame: Frame, instruction: Instruction, address: Addresses, nbytes: int) -> KernelFault:
    bad = np.flatnonzero(np.broadcast_to(address, (frame.size,)) % nbytes)
    where = int(bad[0])
    value = int(np.broadcast_to(address, (frame.size,))[where])
    return frame.fault(FaultKind.MISALIGNED, instruction, where, value, f"{nbytes} bytes")


def locate_global(
    frame: Frame, instruction: Instruction, address: Addresses, nbytes: int
) -> tuple[Region, Index] | None:
    """Locates an access to global memory.

    Returns the region and the index of each lane's element, or None if the lanes access several allocations.  Raises
    ``KernelFault`` for an address that is misaligned or outside every allocation.
    """
    launch = frame.launch
    if isinstance(address, np.ndarray) and address.ndim:
        low, high = int(address.min()), int(address.max())
    else:
        low = high = int(address)
    region = launch.recent
    if region is None or low < region.base or high + nbytes > region.end:
        region = launch.memory.region_at(low)
        if region is None or high + nbytes > region.end:
            if high != low:
                return None
            raise _outside(frame, instruction, 0, low, nbytes)
        launch.recent = region
    if isinstance(address, np.ndarray) and address.ndim:
        return region, _index(frame, instruction, address, low, high, region.base, nbytes)
    if low % nbytes:
        raise _misaligned(frame, instruction, address, nbytes)
    return region, (low - region.base) // nbytes


def _index(
    frame: Frame, instruction: Instruction, address: Lanes, low: int, high: int, base: int, nbytes: int
) -> Index:
    """Returns the index of each lane's element.  Regions start at multiples of the largest access."""
    if high - low == (frame.size - 1) * nbytes and int(address[0]) == low and low % nbytes == 0:
        expected = np.arange(low, high + 1, nbytes, dtype=address.dtype)
        if np.array_equal(address, expected):
            first = (low - base) // nbytes
            return slice(first, first + frame.size)
    if int(np.bitwise_or.reduce(address)) % nbytes:
        raise _misaligned(frame, instruction, address, nbytes)
    offset = address - address.dtype.type(base)
    index: NDArray[np.int64] = np.right_shift(offset, offset.dtype.type(nbytes.bit_length() - 1)).astype(np.int64)
    return index


def partition(frame: Frame, instruction: Instruction, address: Lanes, nbytes: int) -> list[NDArray[np.int64]]:
    """Returns the lanes of a frame, grouped by the allocation that they access."""
    regions = frame.launch.memory.regions()
    bases = np.array([region.base for region in regions], np.uint64)
    ends = np.array([region.end for region in regions], np.uint64)
    owner = np.searchsorted(bases, address, side="right") - 1
    # Addresses in the upper half wrap when the size is added.
    inside = (owner >= 0) & (address < _HIGH) if len(regions) else np.zeros(frame.size, np.bool_)
    if inside.any():
        inside &= address + np.uint64(nbytes) <= ends[np.maximum(owner, 0)]
    if not inside.all():
        where = int(np.flatnonzero(~inside)[0])
        raise _outside(frame, instruction, where, int(address[where]), nbytes)
    return [np.flatnonzero(owner == one) for one in np.unique(owner)]


def _outside(frame: Frame, instruction: Instruction, where: int, address: int, nbytes: int) -> Exception:
    fault: MemoryFault = frame.launch.memory.fault_at(address, nbytes)
    return frame.fault(fault.kind, instruction, where, address, str(fault))


def _windowed(frame: Frame, instruction: Instruction, address: Addresses, nbytes: int, size: int) -> Numbers:
    """Returns checked addresses in a window of ``size`` bytes from 0, as int64."""
    if isinstance(address, np.ndarray) and address.ndim:
        high, bits = int(address.max()), int(np.bitwise_or.reduce(address))
    else:
        high = bits = int(address)
    if high + nbytes > size:
        lanes = np.atleast_1d(address)
        where = int(np.flatnonzero(lanes > max(0, size - nbytes))[0])
        detail = f"{nbytes} bytes in a window of {size}"
        raise frame.fault(FaultKind.ILLEGAL_ADDRESS, instruction, where, int(lanes[where]), detail)
    if bits % nbytes:
        raise _misaligned(frame, instruction, address, nbytes)
    return address.astype(np.int64)


def _scaled(address: Numbers, nbytes: int) -> Places:
    if not isinstance(address, np.ndarray) or not address.ndim:
        return int(address) // nbytes
    index: NDArray[np.int64] = np.right_shift(address, np.int64(nbytes.bit_length() - 1))
    return index


def locate_shared(frame: Frame, instruction: Instruction, address: Addresses, nbytes: int) -> tuple[Region, Places]:
    """Locates an access to shared memory.  Raises ``KernelFault`` for one that is misaligned or outside the block's
    area.
    """
    offset = _windowed(frame, instruction, address, nbytes, frame.launch.shared_bytes)
    bases = frame.own(frame.strand.shared_bases)
    return frame.strand.batch.shared, _scaled(offset + bases, nbytes)


def locate_local(frame: Frame, instruction: Instruction, address: Addresses, nbytes: int) -> tuple[Region, Places]:
    """Locates an access to local memory.  Raises ``KernelFault`` for one that is misaligned or outside the
    lane's area.
    """
    offset = _windowed(frame, instruction, address, nbytes, frame.launch.local_stride)
    return frame.strand.local, _scaled(offset + frame.own(frame.strand.local_bases), nbytes)


def locate_parameter(frame: Frame, instruction: Instruction, address: Addresses, nbytes: int) -> tuple[Region, Places]:
    """Locates an access to parameters.  Raises ``KernelFault`` for one that is misaligned or outside them."""
    offset = _windowed(frame, instruction, address, nbytes, frame.launch.parameters.nbytes)
    return frame.launch.parameters, _scaled(offset, nbytes)


LOCATE: Final[dict[str, Locate]] = {
    "global": locate_global,
    "const": locate_global,
    "shared": locate_shared,
    "local": locate_local,
    "param": locate_parameter,
}
