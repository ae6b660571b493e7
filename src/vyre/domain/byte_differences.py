"""The first difference of two results, byte by byte: NaN payloads and the signs of zeros count."""

from __future__ import annotations


def first_difference(right: bytes | memoryview, wrong: bytes | memoryview) -> int:
    """Returns the first byte at which two results differ; the length of the shorter one if it begins the other."""
    import numpy as np

    one, other = np.frombuffer(right, np.uint8), np.frombuffer(wrong, np.uint8)
    shorter = min(one.size, other.size)
    unequal = one[:shorter] != other[:shorter]
    return int(unequal.argmax()) if unequal.any() else shorter
