"""Where workgroup buffers lie in the block's shared memory: one area, those to be zeroed first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from vyre.domain.ir.program import Program

ALIGNMENT: Final = 16
STATIC_LIMIT: Final = 49_152
"""Bytes that every target allows without opting in."""


class SharedLayout:
    """``offsets`` by buffer name; ``zeroed`` bytes at the start are to be zeroed; ``nbytes`` in all."""

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
        """Does the area exceed what can be declared?"""
        return self.nbytes > STATIC_LIMIT
