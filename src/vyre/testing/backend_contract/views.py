"""Cases of views: parts of device memory, which are handles like any other."""

from __future__ import annotations

from functools import partial
from typing import Final

from vyre.domain.errors import InvalidResource, UnsupportedFeature
from vyre.ports.requests import Readback, Upload
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing.backend_contract.bench import Bench, u32s, view, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import Skipped, equal, holds, refusal

VIEWS: Final = Group("views", "memory")
_ADD: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 read_write u32[runtime]
    body { y[gid.x] = y[gid.x] + x[gid.x] + len(x) * 100u }
    """
_FILL: Final = "workgroup_size 4, 1, 1 buffer y @0 write u32[runtime] body { if gid.x == 0u { y[0u] = len(y) } }"


def _part(buffer: ResidentBuffer, start: int, count: int) -> ResidentBuffer:
    """Returns so many words of a buffer; skips the case on a backend without views."""
    try:
        return buffer.view(4 * start, 4 * count)
    except UnsupportedFeature:
        raise Skipped(f"`{buffer.backend_id}` has no views of resident buffers") from None


@VIEWS.case()
def copies_stay_in_the_part(bench: Bench) -> None:
    """An upload and a download of a view are those of its bytes, with offsets that count from its first."""
    whole = bench.holding(1, 2, 3, 4, 5)
    part = _part(whole, 1, 3)
    equal((part.nbytes, part.base is whole, part.root is whole, part.offset), (12, True, True, 4))
    equal(bench.content(part), [2, 3, 4])
    bench.memory.upload([Upload(part, view(words(9)), 4)])
    equal(bench.content(whole), [1, 2, 9, 4, 5])
    into = bytearray(4)
    bench.memory.download([Readback(part, memoryview(into), 8)])
    equal(u32s(into), [4])
    for offset in (-4, 12):
        upload = Upload(part, view(words(7)), offset)
        refusal(InvalidResource, partial(bench.memory.upload, [upload]))
    equal(bench.content(whole), [1, 2, 9, 4, 5])


@VIEWS.case()
def a_view_of_a_view(bench: Bench) -> None:
    """A view of a view is one of the allocation; a range outside of either is refused."""
    whole = bench.holding(1, 2, 3, 4, 5)
    inner = _part(_part(whole, 1, 4), 2, 2)
    equal((inner.base is whole, inner.offset, bench.content(inner)), (True, 12, [4, 5]))
    for offset, nbytes in ((0, 12), (-4, 4), (12, 4), (4, -4)):
        refusal(InvalidResource, partial(inner.view, offset, nbytes))


@VIEWS.case()
def a_view_ends_with_its_allocation(bench: Bench) -> None:
    """Closing a view frees nothing; a view of a closed allocation is closed."""
    whole = bench.holding(1, 2, 3)
    first, second = _part(whole, 0, 1), _part(whole, 1, 2)
    first.close()
    first.close()
    refusal(InvalidResource, lambda: bench.content(first))
    equal((bench.content(second), bench.content(whole)), ([2, 3], [1, 2, 3]))
    whole.close()
    holds(second.closed, "a view is open, and its allocation is closed")
    refusal(InvalidResource, lambda: bench.content(second))
    refusal(InvalidResource, lambda: whole.view(0, 4))


@VIEWS.case("resident_executor")
def a_launch_sees_the_part_alone(bench: Bench) -> None:
    """A program sees the elements of a view, and an output has its size; what is around it stays."""
    whole = bench.holding(1, 2, 3, 4, 5, 6)
    bench.launch(_ADD, _part(whole, 0, 2), _part(whole, 3, 2))
    equal(bench.content(whole), [1, 2, 3, 205, 207, 6])
    bench.launch(_FILL, _part(whole, 2, 3))
    equal(bench.content(whole), [1, 2, 3, 0, 0, 6])


@VIEWS.case("resident_executor")
def steps_on_overlapping_parts_go_in_order(bench: Bench) -> None:
    """Steps of a sequence may use overlapping views, and each sees what those before it have written."""
    whole = bench.holding(1, 1, 1)
    low, high = (_part(whole, 0, 1), _part(whole, 1, 1)), (_part(whole, 1, 1), _part(whole, 2, 1))
    bench.sequence(prefix=(bench.step(_ADD, *low), bench.step(_ADD, *high)), repeated=(), repeat_count=0)
    equal(bench.content(whole), [1, 102, 203])


@VIEWS.table({"read_first": (0, 1), "written_first": (1, 0), "within": (0, 0)}, "resident_executor")
def overlapping_parts_are_aliases(bench: Bench, starts: tuple[int, int]) -> None:
    """Views that overlap are refused in one launch if one of them is written, and stay unchanged."""
    whole = bench.holding(1, 2, 3, 4)
    x, y = _part(whole, starts[0], 3), _part(whole, starts[1], 2)
    error = refusal(InvalidResource, lambda: bench.launch(_ADD, x, y))
    holds("`x`" in error.message and "`y`" in error.message, f"the bindings are not named: {error}")
    refusal(InvalidResource, lambda: bench.launch(_ADD, whole, y))
    equal(bench.content(whole), [1, 2, 3, 4])


@VIEWS.case("resident_executor")
def a_part_between_two_elements_is_refused(bench: Bench) -> None:
    """Memory that is not aligned for the elements of its buffer is refused."""
    whole, y = bench.holding(1, 2, 3, 4), bench.holding(5)
    _part(whole, 0, 1)
    for offset in (1, 2, 7):
        error = refusal(InvalidResource, partial(bench.launch, _ADD, whole.view(offset, 4), y))
        holds("`x`" in error.message, f"the buffer is not named: {error}")
    equal(bench.content(y), [5])
