"""The bytes of device memory that a launch accessed, from the race checker's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from vyre.adapters.cuda.machine.ordering import Access

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.memory import Region
    from vyre.adapters.cuda.machine.races import Shadow

_MOST_RUNS: Final = 64


def footprint(region: Region, shadow: Shadow) -> Iterator[Access]:
    """Yields runs of bytes that were read or written.

    Atomic accesses count as writes.  Of scattered accesses only the first 64 runs are reported, so that a race between
    streams may be missed.
    """
    for _, size, *_ in shadow.log:
        if size < shadow.granule:
            shadow.refine(size)
    written = shadow.writes != 0
    read = np.zeros(len(written), np.bool_) if shadow.lowest is None else shadow.lowest != 0
    for index, size, *_ in shadow.log:
        for place in shadow.places(index, size):
            read[place] = True
    for mask, writes in ((written, True), (read & ~written, False)):
        for start, end in _runs(mask):
            low, high = region.base + start * shadow.granule, region.base + end * shadow.granule
            yield Access(region.base, low, min(high, region.end), writes)


def _runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Returns [start, end) of the first runs of True."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))[: 2 * _MOST_RUNS]
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
