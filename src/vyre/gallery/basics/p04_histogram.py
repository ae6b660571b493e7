"""Histogram of the bytes of packed words with atomics in global memory."""

from __future__ import annotations

from collections import Counter

import numpy as np

import vyre
from vyre import In, InOut, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=64)
def histogram(words: In[u32, 300], hist: InOut[u32, 256]) -> None:
    """Each lane counts the four bytes of one word in ``hist``."""
    i = vyre.global_id()
    if i < len(words):
        word = words[i]
        for b in range(4):
            byte = word >> b * 8 & 255
            hist.atomic_add(byte, 1)


def case() -> Case:
    """Returns random words, and the counts of their bytes from ``collections.Counter``."""
    words = random_u32(5, 300)
    counts = Counter(words.tobytes())
    expected = np.array([counts[b] for b in range(256)], np.uint32)
    return Case({"words": words, "hist": np.zeros(256, np.uint32)}, {"hist": expected})


EXAMPLE = Example("P04", "256-bin byte histogram", histogram, case, "collections.Counter")
