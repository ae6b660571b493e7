"""Cases of ``ForeignMemory``: arrays of other libraries as resident buffers; here they lie in the backend's own
memory.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any, Final

from vyre.domain.errors import InvalidResource
from vyre.ports.execution import ForeignMemory
from vyre.ports.requests import Upload
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing.backend_contract.bench import Bench, view, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import Skipped, equal, holds, refusal
from vyre.testing.backend_contract.kernels import DOUBLE

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
