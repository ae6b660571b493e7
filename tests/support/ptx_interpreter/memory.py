"""State spaces: bytes that lanes load and store, with every rule of the manual on addresses checked."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from support.ptx_interpreter.syntax import PtxError

Array = NDArray[Any]
ALIGNMENT: Final = 256


class Space:
    """A window of ``nbytes`` bytes at address ``base``, of which every region (a block, a lane) has its own copy.

    Whatever nobody initialises holds noise.
    """

    def __init__(self, name: str, base: int, nbytes: int, regions: int, noise: np.random.Generator) -> None:
        self.name, self.base, self.nbytes = name, base, nbytes
        self.stride = -(-nbytes // 16) * 16
        words = noise.integers(1 << 63, size=self.stride * regions // 8, dtype=np.uint64)
        self.bytes: NDArray[np.uint8] = words.view(np.uint8)
        self.allowed: NDArray[np.bool_] | None = None

    def places(self, regions: Array | int, addresses: Array, width: int) -> Array:
        """Returns the byte offsets of accesses; raises ``PtxError`` for one outside or not naturally aligned."""
        offsets = addresses.astype(np.int64) - self.base
        if (offsets % width).any():
            raise PtxError(f"an access of {width} bytes to {self.name} memory is not aligned")
        inside = (offsets >= 0) & (offsets <= self.nbytes - width)
        if not inside.all():
            raise PtxError(f"an access of {width} bytes at {self.name} address {addresses[~inside][0]:#x} is outside")
        if self.allowed is not None and not (self.allowed[offsets] & self.allowed[offsets + width - 1]).all():
            raise PtxError(f"an access of {width} bytes to {self.name} memory is outside every allocation")
        placed: Array = offsets + regions * self.stride
        return placed

    def load(self, places: Array, dtype: np.dtype[Any]) -> Array:
        """Returns the elements at these byte offsets."""
        loaded: Array = self.bytes.view(dtype)[places // dtype.itemsize]
        return loaded

    def store(self, places: Array, values: Array) -> None:
        """Stores the elements in order, so that of several at one place the last one stays."""
        self.bytes.view(values.dtype)[places // values.dtype.itemsize] = values


class GlobalMemory(Space):
    """Global memory in allocations with gaps between them."""

    def __init__(self, sizes: list[int], noise: np.random.Generator) -> None:
        """``sizes`` holds the bytes of each allocation; ``addresses`` their addresses, 0 for an empty one."""
        starts, end = [], ALIGNMENT
        for size in sizes:
            starts.append(end)
            end += -(-size // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        super().__init__("global", 0x7F12_3400_0000, end, 1, noise)
        self.allowed = np.zeros(end, np.bool_)
        self.addresses = [self.base + start if size else 0 for start, size in zip(starts, sizes, strict=True)]
        for start, size in zip(starts, sizes, strict=True):
            self.allowed[start : start + size] = True

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Writes the bytes of an allocation from the host."""
        start = address - self.base
        self.bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def read(self, address: int, nbytes: int) -> bytes:
        """Returns bytes of an allocation to the host."""
        return self.bytes[address - self.base :][:nbytes].tobytes() if nbytes else b""
