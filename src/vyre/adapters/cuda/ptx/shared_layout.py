"""The places of workgroup buffers in the block's shared memory: one area, with the buffers to be zeroed first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from vyre.domain.ir.program import Program

ALIGNMENT: Final = 16
STATIC_LIMIT: Final = 49_152
"""The number of bytes that every target allows without opting in."""


class SharedLayout:
    """The layout of shared memory in bytes.

    ``offsets`` are by buffer name; the first ``zeroed`` bytes must be zeroed; ``nbytes`` is the total.
    """

    def __init__(self, program: Program, zeroed: Collection[str]) -> None:
        self.offsets: Final[dict[str, int]] = {}
        self.zeroed: int = 0
        end = 0
        buffers = [b for b in program.buffers if b.is_workgroup]
        for buffer in sorted(buffers, key=lambda b: b.name not in zeroed):
            self.offsets[buffer.name] = end
            end += -(-(buffer.static_nbytes or 0) // ALIGNMENT) * ALIGNMENT
            if buffer.name in zeroed:
                self.zeroed = end
        self.nbytes: Final = end

    @property
    def dynamic(self) -> bool:
        """Whether the area exceeds the size that can be declared statically."""
        return self.nbytes > STATIC_LIMIT
