"""Cases of views, parts of device memory that are handles like any other; and of ``ForeignMemory``: arrays of other
libraries as resident buffers, which lie in the backend's own memory here.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from vyre.domain.errors import InvalidResource, UnsupportedFeature
from vyre.ports.execution import ForeignMemory
from vyre.ports.requests import Readback, Upload
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing.backend_contract.bench import DOUBLE, Bench, Skipped, equal, holds, refusal, u32s, view, words
from vyre.testing.backend_contract.case import Group

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
def nothing_is_written_by_a_read_only_view(bench: Bench) -> None:
    """An upload to a view that is read-only is refused, and so is a launch that writes it, also by a view of it."""
    whole = bench.holding(1, 2, 3, 4)
    _part(whole, 0, 4)
    part = whole.view(4, 12, readonly=True)
    for each in (part, part.view(0, 4)):
        refusal(InvalidResource, partial(bench.memory.upload, [Upload(each, view(words(9)))]))
        refusal(InvalidResource, partial(bench.sequence, prefix=(bench.step(_FILL, each),)))
    equal((bench.content(part), bench.content(whole)), ([2, 3, 4], [1, 2, 3, 4]))


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


FOREIGN: Final = Group("foreign", "memory", "foreign_memory")
_INTERFACE: Final = "__cuda_array_interface__"
_COPY: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { y[gid.x] = x[gid.x] + 1u }
    """


class Exporter:
    """An array of another library; ``interface`` is its ``__cuda_array_interface__``, or ``__array_interface__``."""

    def __init__(self, interface: Mapping[str, Any] | None, owner: object = None) -> None:
        self.owner = owner
        if interface is not None:
            self.__array_interface__: Mapping[str, Any] = interface
            self.__cuda_array_interface__: Mapping[str, Any] = interface


def _foreign(bench: Bench) -> ForeignMemory:
    assert bench.backend.foreign_memory is not None
    return bench.backend.foreign_memory


def _interface(buffer: ResidentBuffer) -> dict[str, Any]:
    """Returns the interface that a buffer of the backend exports, or that of its memory on the host.

    Skips the case where its addresses cannot be used by others.
    """
    try:
        return dict(getattr(buffer, _INTERFACE))
    except (AttributeError, BufferError):
        pass
    import numpy as np

    try:
        return dict(np.from_dlpack(buffer).__array_interface__)  # type: ignore[arg-type]  # its failure is a skip
    except (AttributeError, TypeError, BufferError, RuntimeError):
        raise Skipped(f"`{buffer.backend_id}` exports no {_INTERFACE}, and no memory of the host") from None


def _described(**changes: Any) -> Exporter:
    described = {"shape": (4,), "typestr": "<u4", "data": (1 << 20, False), "version": 3, "strides": None, **changes}
    return Exporter({name: value for name, value in described.items() if value is not Ellipsis})


@FOREIGN.table(
    {
        "bytes": b"1234",
        "a_list": [1, 2, 3],
        "nothing": Exporter(None),
        "no_mapping": Exporter([("shape", (4,))]),  # type: ignore[arg-type]
        "no_shape": _described(shape=...),
        "no_type": _described(typestr=...),
        "no_data": _described(data=...),
        "a_wrong_type": _described(typestr="??"),
        "a_wrong_address": _described(data=("here", False)),
        "strided": _described(strides=(8,)),
        "transposed": _described(shape=(2, 2), strides=(4, 8)),
        "masked": _described(mask=object()),
    }
)
def what_is_no_device_array_is_refused(bench: Bench, array: object) -> None:
    """Objects without the interface, malformed interfaces, masks and gaps are invalid resources."""
    refusal(InvalidResource, lambda: _foreign(bench).adopt(array))
    equal(bench.content(bench.holding(1)), [1])


@FOREIGN.case()
def an_empty_array(bench: Bench) -> None:
    """An array without elements becomes a buffer of no bytes, at any address."""
    with _foreign(bench).adopt(_described(shape=(0, 3), data=(0, False)), label="none") as buffer:
        equal((buffer.nbytes, buffer.label, bench.content(buffer)), (0, "none", []))


@FOREIGN.case()
def adopted_memory_is_shared(bench: Bench) -> None:
    """Adopting copies nothing: both sides see all writes."""
    owner = bench.holding(1, 2, 3, 4)
    with _foreign(bench).adopt(Exporter(_interface(owner), owner), label="lent") as lent:
        equal((lent.nbytes, lent.label, lent.backend_id), (16, "lent", bench.backend.id))
        equal(bench.content(lent), [1, 2, 3, 4])
        bench.memory.upload([Upload(owner, view(words(9)), 4)])
        equal(bench.content(lent), [1, 9, 3, 4])
        bench.memory.upload([Upload(lent, view(words(8)), 8)])
    equal(bench.content(owner), [1, 9, 8, 4])


@FOREIGN.case("resident_executor")
def adopted_memory_is_bound_like_any(bench: Bench) -> None:
    """Launches read and write adopted memory."""
    owner, result = bench.holding(1, 2, 3, 4), bench.allocate(16)
    with _foreign(bench).adopt(Exporter(_interface(owner), owner)) as lent:
        bench.launch(DOUBLE, lent)
        bench.launch(_COPY, lent, result)
    equal((bench.content(owner), bench.content(result)), ([2, 4, 6, 8], [3, 5, 7, 9]))


@FOREIGN.case()
def a_part_is_adopted(bench: Bench) -> None:
    """An array may be a part of an allocation, of any shape."""
    owner = bench.holding(1, 2, 3, 4)
    interface = _interface(owner)
    address, _ = interface["data"]
    part = {**interface, "shape": (2, 1), "typestr": "<u4", "data": (address + 4, False), "strides": (4, 4)}
    with _foreign(bench).adopt(Exporter(part, owner)) as lent:
        equal(bench.content(lent), [2, 3])


@FOREIGN.case()
def more_than_the_allocation_is_refused(bench: Bench) -> None:
    """An array that exceeds its allocation is invalid."""
    owner = bench.holding(1, 2, 3, 4)
    interface = {**_interface(owner), "shape": (1 << 40,), "typestr": "|u1"}
    refusal(InvalidResource, lambda: _foreign(bench).adopt(Exporter(interface, owner)))


@FOREIGN.case()
def closing_leaves_the_owner_its_memory(bench: Bench) -> None:
    """A closed adopted buffer is refused; its owner's memory stays allocated."""
    owner = bench.holding(1, 2)
    lent = _foreign(bench).adopt(Exporter(_interface(owner), owner))
    lent.close()
    lent.close()
    refusal(InvalidResource, lambda: bench.content(lent))
    equal((bench.content(owner), bench.content(bench.holding(5, 6))), ([1, 2], [5, 6]))


@FOREIGN.case()
def the_array_is_kept_alive(bench: Bench) -> None:
    """An adopted array is kept alive as long as its buffer is open."""
    owner = bench.holding(1, 2)
    array = Exporter(_interface(owner), owner)
    alive = weakref.ref(array)
    lent = _foreign(bench).adopt(array)
    del array
    gc.collect()
    equal((alive() is not None, bench.content(lent)), (True, [1, 2]))
    lent.close()
    gc.collect()
    equal(alive(), None, "the array after the buffer is closed")


@FOREIGN.case("resident_executor")
def read_only_memory_is_not_written(bench: Bench) -> None:
    """An array that forbids writing can be read and bound to read-only buffers."""
    owner, result = bench.holding(1, 2), bench.allocate(8)
    interface = _interface(owner)
    with _foreign(bench).adopt(Exporter({**interface, "data": (interface["data"][0], True)}, owner)) as lent:
        bench.launch(_COPY, lent, result)
        refusal(InvalidResource, lambda: bench.memory.upload([Upload(lent, view(words(9)))]))
        refusal(InvalidResource, lambda: bench.launch(DOUBLE, lent))
        refusal(InvalidResource, lambda: bench.launch(_COPY, result, lent))
    equal((bench.content(owner), bench.content(result)), ([1, 2], [2, 3]))


@FOREIGN.case("resident_executor")
def overlapping_arrays_are_aliases(bench: Bench) -> None:
    """Memory that is bound twice and written is refused, also where two buffers only overlap in part."""
    owner = bench.holding(1, 2, 3, 4)
    interface = _interface(owner)
    address, _ = interface["data"]
    part = Exporter({**interface, "shape": (8,), "typestr": "|u1", "data": (address + 8, False)}, owner)
    with _foreign(bench).adopt(part) as lent:
        error = refusal(InvalidResource, lambda: bench.launch(_COPY, lent, owner))
        holds("`x`" in error.message and "`y`" in error.message, f"the bindings are not named: {error}")
    equal(bench.content(owner), [1, 2, 3, 4])
