"""An asynchronous copy: its bytes are captured when it is issued, and visible after the wait."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example, random_u32


def async_copy() -> Program:
    """Builds the kernel: copies 16 bytes to ``dst``, which replace an element stored before the wait."""
    with ProgramBuilder("async_copy", workgroup=1) as p:
        src = p.input("src", u32, 8)
        dst = p.output("dst", u32, 4)
        p.async_load(src, dst, offset=8, size=16, tag="copy")
        dst[0] = 0xDEADBEEF
        p.async_wait("copy")
        dst[3] = 7
    return p.build()


def case() -> Case:
    """Returns random words, and the elements that remain after copy and stores."""
    src = random_u32(24, 8)
    return Case({"src": src}, {"dst": np.array([*src[2:5], 7], np.uint32)})


EXAMPLE = Example("P25", "asynchronous copy and its wait", async_copy, case, "NumPy")
