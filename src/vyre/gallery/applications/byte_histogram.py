"""Histogram of bytes: one private table per workgroup, merged at the end.

Atomics on workgroup memory are cheap; each workgroup executes the 256 atomics on global memory only once.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

import vyre
from vyre import DispatchConfig, In, InOut, Program, ProgramBuilder, u8, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, answered_by, random_u32

WORKGROUP, BYTES_PER_LANE = 256, 64


@vyre.kernel(workgroup=WORKGROUP)
def byte_histogram(text: In[u8], counts: InOut[u32, 256]) -> None:
    """Adds the number of occurrences of each byte value in ``text`` to ``counts``."""
    private = vyre.workgroup_array(u32, 256)
    lane = vyre.local_id()
    lanes = vyre.num_groups() * WORKGROUP
    for position in range(vyre.global_id(), len(text), lanes):  # adjacent lanes read adjacent bytes
        private.atomic_add(text[position], 1)
    vyre.barrier()
    counts.atomic_add(lane, private[lane])


def byte_histogram_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("byte_histogram", workgroup=WORKGROUP) as p:
        text = p.input("text", u8)
        counts = p.inout("counts", u32, 256)
        private = p.workgroup("private", u32, 256)
        lane = p.let(p.local_id(), "lane")
        lanes = p.let(p.num_groups() * WORKGROUP, "lanes")
        with p.for_(p.global_id(), text.length, lanes, name="at") as position:
            private.atomic_add(text[position], 1)
        p.barrier()
        counts.atomic_add(lane, private[lane])
    return p.build()


def histogram(session: Dispatcher, program: Program, text: Array) -> Array:
    """Returns the number of occurrences of each byte value in ``text`` (u8)."""
    config = DispatchConfig(extent=(-(-text.size // BYTES_PER_LANE),))
    return session.dispatch(program, {"text": text, "counts": np.zeros(256, np.uint32)}, config)["counts"]


def counted(text: bytes) -> npt.NDArray[np.uint32]:
    """Returns the same counts from ``collections.Counter``."""
    counts = Counter(text)
    return np.array([counts[byte] for byte in range(256)], np.uint32)


def case() -> Case:
    """Returns random bytes, and their counts."""
    text = random_u32(32, 8000).view(np.uint8)
    return Case({"text": text}, {"counts": counted(text.tobytes())})


EXAMPLE = Example(
    "byte-histogram",
    "byte histogram with workgroup-private tables",
    byte_histogram,
    case,
    "collections.Counter",
    answered_by(histogram, "counts"),
    builder=byte_histogram_by_builder,
)
