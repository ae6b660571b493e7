"""Lines, words and bytes of a text, as ``wc`` counts them.

A word starts at a byte that is no white space and follows white space or the beginning of the text.  Each subgroup
sums its 32 flags and adds the sum with one atomic.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import vyre
from vyre import In, Out, Program, ProgramBuilder, Value, bool_, subgroup_add, u8, u32
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


def word_count_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""

    def is_space(byte: Value) -> Value:
        return (byte == SPACE) | ((u32(TAB) <= byte) & (byte <= RETURN))

    with ProgramBuilder("word_count", workgroup=256) as p:
        text = p.input("text", u8)
        counts = p.output("counts", u32, 2)
        i = p.let(p.global_id(), "i")
        byte = p.let(text[i], "byte")
        inside = p.let(i < text.length, "inside")
        before = p.let(text[i - 1], "before")
        after_space = p.let((i == 0) | is_space(before), "after_space")
        newline = p.let(inside & (byte == NEWLINE), "newline")
        word = p.let(inside & after_space & ~is_space(byte), "word")
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


EXAMPLE = Example(
    "word-count", "lines and words of a text", word_count_by_builder, case, "bytes.split", kernel=word_count
)
