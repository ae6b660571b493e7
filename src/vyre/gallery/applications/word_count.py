"""Lines, words and bytes of a text, as ``wc`` counts them.

A word starts at a byte that is no white space and follows white space or the beginning of the text.  Each subgroup
sums its 32 flags and adds the sum with one atomic.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import vyre
from vyre import In, Out, bool_, u8, u32
from vyre.gallery.example import Case, Example

NEWLINE, SPACE, TAB, RETURN = b"\n \t\r"
TEXT = b"  To be, or not to be:\n\tthat is the question.\r\n\n" * 40


@vyre.function
def is_space(byte: u32) -> bool_:
    """Returns whether a byte is one of the six ASCII white-space characters.

    These are tab, newline, vertical tab, form feed, return and space.
    """
    return byte == SPACE or TAB <= byte <= RETURN


@vyre.kernel(workgroup=256)
def word_count(text: In[u8], counts: Annotated[Out[u32], (2,)]) -> None:
    """Adds the numbers of lines and of words of a text to two counters."""
    i = vyre.global_id()
    byte = text[i]
    inside = i < len(text)
    after_space = i == 0 or is_space(text[i - 1])
    newline = inside and byte == NEWLINE
    word = inside and after_space and not is_space(byte)
    lines = vyre.subgroup_add(u32(newline))
    words = vyre.subgroup_add(u32(word))
    if vyre.subgroup_lane() == 0:
        counts.atomic_add(0, lines)
        counts.atomic_add(1, words)


def case() -> Case:
    """Returns a text, and its counts from ``bytes`` methods."""
    expected = np.array([TEXT.count(b"\n"), len(TEXT.split())], np.uint32)
    return Case({"text": np.frombuffer(TEXT, np.uint8)}, {"counts": expected})


EXAMPLE = Example("word-count", "lines and words of a text", word_count, case, "bytes.split")
