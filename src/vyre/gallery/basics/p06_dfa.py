"""One automaton over many rows of text: overlapping occurrences of "abab"."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from vyre import Program, ProgramBuilder, select, u8, u32
from vyre.gallery.example import Case, Example, random_u32

PATTERN = b"abab"
ROWS, WIDTH = 40, 64


def dfa() -> Program:
    """Builds the kernel: each lane runs the automaton over one row, and stores its final state and number of hits."""
    with ProgramBuilder("dfa", workgroup=32) as p:
        text = p.input("text", u8, ROWS * WIDTH)
        table = p.input("table", u32, (len(PATTERN) + 1) * 256)
        final = p.output("final", u32, ROWS)
        hits = p.output("hits", u32, ROWS)
        r = p.let(p.global_id(), "r")
        with p.if_(r < final.length):
            state = p.var(0, "state")
            count = p.var(0, "count")
            base = p.let(r * WIDTH, "base")
            with p.for_(0, WIDTH, name="pos") as pos:
                c = p.let(text[base + pos].cast(u32), "c")
                state.assign(table[state * 256 + c])
                count += select(state == len(PATTERN), 1, 0)
            final[r] = state
            hits[r] = count
    return p.build()


def automaton(pattern: bytes) -> npt.NDArray[np.uint32]:
    """Returns the automaton of Knuth, Morris and Pratt as a flat table.

    ``table[state * 256 + byte]`` is the length of the longest prefix of the pattern that is matched after the byte.
    """
    table = np.zeros((len(pattern) + 1, 256), np.uint32)
    for state in range(len(pattern) + 1):
        for byte in range(256):
            seen = pattern[:state] + bytes([byte])
            longest = min(len(pattern), len(seen))
            table[state, byte] = next(n for n in range(longest, -1, -1) if seen.endswith(pattern[:n]))
    return table.reshape(-1)


def case() -> Case:
    """Returns random rows of "a" and "b", with final states and hits from string functions and ``re``."""
    text = (ord("a") + ((random_u32(7, ROWS * WIDTH) >> 16) & 1)).astype(np.uint8)
    rows = [bytes(row) for row in text.reshape(ROWS, WIDTH)]
    ends = [max(n for n in range(len(PATTERN) + 1) if row.endswith(PATTERN[:n])) for row in rows]
    overlapping = re.compile(b"(?=" + PATTERN + b")")
    return Case(
        {"text": text, "table": automaton(PATTERN)},
        {
            "final": np.array(ends, np.uint32),
            "hits": np.array([len(overlapping.findall(row)) for row in rows], np.uint32),
        },
    )


EXAMPLE = Example("P06", "table-driven DFA over rows of bytes", dfa, case, "re")
