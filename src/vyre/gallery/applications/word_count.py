"""Lines, words and bytes of a text, as ``wc`` counts them.

A word starts at a byte that is no white space and follows white space or the beginning of the text.  Each subgroup
sums its 32 flags and adds the sum with one atomic.
"""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, Value, subgroup_add, u8, u32
from vyre.gallery.example import Case, Example

TEXT = b"  To be, or not to be:\n\tthat is the question.\r\n\n" * 40


def is_space(byte: Value) -> Value:
    """Returns whether a byte is one of the six ASCII white-space characters.

    These are tab, newline, vertical tab, form feed, return and space.
    """
    return (byte == ord(" ")) | ((byte >= ord("\t")) & (byte <= ord("\r")))


def word_count() -> Program:
    """Builds the kernel: adds the numbers of lines and of words of a text to two counters."""
    with ProgramBuilder("word_count", workgroup=256) as p:
        text = p.input("text", u8)
        counts = p.output("counts", u32, 2)
        i = p.global_id()
        byte = p.let(text[i], "byte")
        inside = i < text.length
        after_space = (i == 0) | is_space(text[i - 1])
        newline = inside & (byte == ord("\n"))
        word = inside & ~is_space(byte) & after_space
        lines = p.let(subgroup_add(newline.cast(u32)), "lines")
        words = p.let(subgroup_add(word.cast(u32)), "words")
        with p.if_(p.subgroup_lane() == 0):
            counts.atomic_add(0, lines)
            counts.atomic_add(1, words)
    return p.build()


def case() -> Case:
    """Returns a text, and its counts from ``bytes`` methods."""
    expected = np.array([TEXT.count(b"\n"), len(TEXT.split())], np.uint32)
    return Case({"text": np.frombuffer(TEXT, np.uint8)}, {"counts": expected})


EXAMPLE = Example("word-count", "lines and words of a text", word_count, case, "bytes.split")
