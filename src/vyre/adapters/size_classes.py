"""Sizes of blocks of memory that are kept for reuse: few enough that blocks fit again, and close to what is asked."""

from __future__ import annotations

from typing import Final

LEAST_BYTES: Final = 256
"""The smallest size; every size is a multiple of it."""
CLASSES_PER_DOUBLING: Final = 8


def size_class(nbytes: int) -> int:
    """Returns ``nbytes`` rounded up to one of eight steps between powers of two, at least 256.

    For example, 5000 bytes become 5120, because the steps between 4096 and 8192 are 512 apart.
    """
    if nbytes <= LEAST_BYTES:
        return LEAST_BYTES
    step = max(LEAST_BYTES, (1 << (nbytes - 1).bit_length()) // (2 * CLASSES_PER_DOUBLING))
    return -(-nbytes // step) * step
