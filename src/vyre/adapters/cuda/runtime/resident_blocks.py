"""How many blocks does a kernel that stays have?

Units: bytes.  Rule: a quarter of the blocks that the device holds at once, so that other work finds room; at most 16,
because hosts hand jobs over one after the other; and no more than an eighth of the device's memory holds their arenas.
O(1).
"""

from __future__ import annotations

from typing import Final

MOST: Final = 16
_SHARE: Final = 4
_MEMORY_SHARE: Final = 8


def resident_blocks(fitting: int, arena_nbytes: int, memory_nbytes: int) -> int:
    """Returns the number of blocks, at least 1.

    ``fitting``: blocks of the kernel that the device holds at once; ``arena_nbytes``: memory of each of them, more than
    0; ``memory_nbytes``: that of the device.
    """
    return max(1, min(MOST, fitting // _SHARE, memory_nbytes // _MEMORY_SHARE // arena_nbytes))
