"""Cases of ``GatheredReads``: ranges of several buffers that are read as one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vyre.domain.errors import InvalidResource
from vyre.ports.gathering import BoundGather, Ranges
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal, refusal

GATHERING: Final = Group("gathering", "memory", "gathering")


def _bound(bench: Bench, buffers: Sequence[ResidentBuffer], *rows: tuple[int, int, int, int]) -> BoundGather:
    """Binds rows of buffer number, offset, bytes and place."""
    import numpy as np

    columns = np.array(rows, np.int64).reshape(-1, 4).T
    facet = bench.backend.gathering
    assert facet is not None
    return facet.bind(buffers, Ranges(*(np.ascontiguousarray(column) for column in columns)))


@GATHERING.case()
def ranges_go_to_their_places(bench: Bench) -> None:
    """Each range has the present content of its buffer, at its place; the bytes between the places stay."""
    first, second = bench.holding(1, 2, 3), bench.holding(4, 5)
    gather = _bound(bench, (first, second), (0, 4, 8, 12), (1, 0, 4, 4), (0, 0, 0, 0))
    into = bytearray(words(7, 7, 7, 7, 7, 7))
    gather(memoryview(into))
    equal(bytes(into), words(7, 4, 7, 2, 3, 7))
    bench.launch("workgroup_size 1, 1, 1 buffer x @0 read_write u32[runtime] body { x[gid.x] = 9u }", second)
    gather(memoryview(into))
    equal(bytes(into), words(7, 9, 7, 2, 3, 7))


@GATHERING.table(
    {
        "behind_its_buffer": (0, 8, 8, 0),
        "before_its_buffer": (0, -4, 4, 0),
        "of_a_negative_length": (0, 4, -4, 0),
        "at_a_negative_place": (0, 0, 4, -4),
    }
)
def a_wrong_range_is_refused(bench: Bench, row: tuple[int, int, int, int]) -> None:
    """A range outside its buffer, of a negative length or at a negative place is an invalid resource."""
    buffer = bench.holding(1, 2, 3)
    refusal(InvalidResource, lambda: _bound(bench, (buffer,), (0, 0, 4, 8), row))


@GATHERING.case()
def short_memory_and_closed_buffers_are_refused(bench: Bench) -> None:
    """Host memory that does not hold every place, and a buffer that is closed, are invalid; nothing is copied."""
    first, second = bench.holding(1), bench.holding(2)
    gather = _bound(bench, (first, second), (0, 0, 4, 0), (1, 0, 4, 4))
    into = bytearray(words(7, 7))
    refusal(InvalidResource, lambda: gather(memoryview(into)[:4]))
    second.close()
    refusal(InvalidResource, lambda: gather(memoryview(into)))
    equal(bytes(into), words(7, 7))
    refusal(InvalidResource, lambda: _bound(bench, (first, second), (0, 0, 4, 0)))
