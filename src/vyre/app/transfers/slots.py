"""Downloads whose lengths only the device knows: slots of various lengths, and items that a program has marked.

One workgroup scans the lengths or marks and writes a table, and another launch packs by it.  A header precedes the
slab.  Both come in one copy where they are short; else the header comes first, and then exactly the bytes that it
lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.app.resident import ResidentArray, truths
from vyre.app.transfers.reading import layout_of, rows_of
from vyre.app.transfers.report import Downloaded, TransferReport, bytes_of, host_block
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput
from vyre.domain.frozen import frozen
from vyre.domain.ir.types import ScalarType
from vyre.domain.packing import HEADER, MOST_GROUPS, ROW, pack_program, scan_marks_program, scan_slots_program
from vyre.domain.printable import shown
from vyre.domain.record import U32_MAX
from vyre.domain.unique import Unique
from vyre.policies.journal import decide
from vyre.policies.transfer.readback import DEFAULT_SLAB, SlabInputs, SlabReadback, plan_slab
from vyre.ports.requests import Readback, ResidentSequence, ResidentStep

if TYPE_CHECKING:
    import numpy.typing as npt

    from vyre.app.transfers.report import Array, Block
    from vyre.app.transfers.services import TransferServices
    from vyre.domain.ir.program import Program
    from vyre.policies.transfer.readback import SlabPlan
    from vyre.ports.requests import Resource
    from vyre.ports.resident_buffer import ResidentBuffer

    Words: TypeAlias = npt.NDArray[np.uint32]

MOST_PACKED: Final = 64 * 1024
"""The longest slot that is packed unless the caller says otherwise, in bytes."""
_WORD: Final = 4


@frozen(eq=False)
class Marked:
    """The marked items that ``Session.download_marked`` returns.

    ``items`` holds the first of them in their order, ``positions`` their places among all items (u32).  ``emitted`` is
    the number of all marked items, and ``overflow`` of those that exceeded the limit.  ``report`` tells how they were
    copied.
    """

    items: Array
    positions: Words
    emitted: int
    overflow: int
    report: TransferReport


class _Read(NamedTuple):
    """The words of the header, the slab, and how many copies of how many bytes brought them."""

    header: Words
    slab: Block
    copies: int
    nbytes: int


class _Source(NamedTuple):
    """Memory as elements of the packing program, and the elements in a unit of the caller."""

    memory: ResidentBuffer
    kind: ScalarType
    unit: int

    @property
    def size(self) -> int:
        """Returns the bytes of an element."""
        return self.kind.size


class SlotReading(Unique):
    """Downloads by lengths and marks on the device."""

    def __init__(self, services: TransferServices) -> None:
        self._services: Final = services
        self._plans: dict[tuple[int, int], SlabPlan] = {}

    def slots(
        self, slots: ResidentArray, lengths: ResidentArray, capacity: int | None, most_packed: int | None
    ) -> Downloaded:
        """Implements ``Session.download_slots``."""
        layout_of(self._services.lease, (slots, lengths))
        count, room, row = _divided(slots, capacity)
        _check_counts("lengths", slots, lengths, count)
        unit = row * slots.stored.itemsize
        most = min(MOST_PACKED if most_packed is None else most_packed, room * unit) // unit if unit else 0
        source = _source_of(slots, unit)
        plan = self._plan(count, most * unit, _WORD * (HEADER + count))
        program = scan_slots_program()
        grain = DEFAULT_SLAB.alignment // source.size
        named = {"lengths": lengths.buffer}
        numbers = {"slots": count, "unit": source.unit, "stride": room * source.unit}
        numbers |= {"most": most, "capacity": room, "grain": grain}
        read = self._read(plan, source, program, named, numbers, count, lambda h: int(h[0]) * source.size)
        lengths_of = read.header[HEADER : HEADER + count].astype(np.int64)
        if count and int(lengths_of.max()) > room:
            slot = int((lengths_of > room).argmax())
            raise InvalidInput(
                f"slot {slot} has length {lengths_of[slot]}, and room for {room}",
                fix="write lengths of at most the capacity.",
            )
        sizes = lengths_of * unit
        packed = (lengths_of <= most) & (sizes > 0)
        padded = np.where(packed, -(-sizes // DEFAULT_SLAB.alignment) * DEFAULT_SLAB.alignment, 0)
        places = np.cumsum(padded) - padded
        far, copies, nbytes = self._far(slots, room * unit, np.flatnonzero((lengths_of > most) & (sizes > 0)), sizes)
        report = TransferReport(count, read.copies + copies, read.nbytes + nbytes, int(packed.sum()), 2, str(plan.why))
        return Downloaded(_parts(slots, read.slab, places, sizes, far), report)

    def marked(self, items: ResidentArray, marks: ResidentArray, limit: int) -> Marked:
        """Implements ``Session.download_marked``."""
        layout_of(self._services.lease, (items, marks))
        if not items.shape:
            raise InvalidInput(f"{items!r} has no items", fix="give an array with an axis of items.")
        count = items.shape[0]
        _check_counts("marks", items, marks, count)
        width = prod(items.shape[1:]) * items.stored.itemsize
        room = min(limit, count)
        source = _source_of(items, width)
        plan = self._plan(1, room * width, _WORD * (HEADER + room))
        program = scan_marks_program()
        numbers = {"items": count, "width": source.unit, "limit": room}
        read = self._read(
            plan, source, program, {"marks": marks.buffer}, numbers, room, lambda h: min(int(h[0]), room) * width
        )
        emitted = int(read.header[0])
        kept = min(emitted, room)
        nbytes, lost = _WORD * (HEADER + room) + kept * width, emitted - kept
        why = f"{plan.why}; {nbytes} bytes instead of {count * width}; {lost} items are only counted"
        report = TransferReport(kept, read.copies, read.nbytes, kept, 2, why)
        data = read.slab[: kept * width].copy().view(items.stored).reshape(kept, *items.shape[1:])
        positions = read.header[HEADER : HEADER + kept].copy()
        return Marked(truths(data, items), positions, emitted, lost, report)

    # ---- details
    def _plan(self, count: int, most: int, header: int) -> SlabPlan:
        """Returns the memory for so many records of up to ``most`` bytes, all of which u32 can address."""
        key = count, most
        plan = self._plans.get(key)
        if plan is None or plan.slab_offset < header:
            inputs = SlabInputs((most,) * count, header)
            plan = decide(self._services.decisions, plan_slab, inputs)
            self._plans.clear()
            self._plans[key] = plan
        return plan

    def _read(
        self,
        plan: SlabPlan,
        source: _Source,
        scan: Program,
        named: Mapping[str, Resource],
        numbers: Mapping[str, int],
        rows: int,
        used: Any,
    ) -> _Read:
        """Scans, packs and reads.  ``used`` returns the bytes of the slab that are in use, from the header."""
        services = self._services
        backend = services.lease.backend
        start, slab = plan.slab_offset, max(plan.slab_bytes, DEFAULT_SLAB.alignment)
        end = start + -(-slab // _WORD) * _WORD
        with services.scratch.taken(end + max(1, rows) * ROW * _WORD) as memory:
            table, target = memory.view(end, rows * ROW * _WORD), memory.view(start, slab)
            resources = {**named, "table": table, "header": memory.view(0, start)}
            resources |= {name: memoryview(np.uint32(value).tobytes()) for name, value in numbers.items()}
            steps = [_step(scan, resources, 1)]
            if rows:
                packing = {"source": source.memory, "table": table, "slab": target}
                steps.append(_step(pack_program(source.kind), packing, min(rows, MOST_GROUPS)))
            at_once = plan.readback is SlabReadback.ONE_COPY
            first = host_block(start + plan.slab_bytes if at_once else start)
            reads = (Readback(memory, bytes_of(first)),)
            backend.require_resident_executor().run(ResidentSequence(prefix=tuple(steps), reads=reads))
            header = first[: start // _WORD * _WORD].view(np.uint32)
            if at_once:
                return _Read(header, first[start:], 1, first.nbytes)
            rest = host_block(used(header))
            if rest.nbytes:
                backend.require_memory().download([Readback(memory, bytes_of(rest), start)])
            return _Read(header, rest, 1 + bool(rest.nbytes), start + rest.nbytes)

    def _far(
        self, slots: ResidentArray, stride: int, which: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
    ) -> tuple[dict[int, Block], int, int]:
        """Returns the bytes of the slots that have copies of their own, and the number and the bytes of these."""
        blocks = {int(slot): host_block(int(sizes[slot])) for slot in which}
        reads = [Readback(slots.buffer, bytes_of(block), slot * stride) for slot, block in blocks.items()]
        if reads:
            self._services.lease.backend.require_memory().download(reads)
        return blocks, len(reads), sum(block.nbytes for block in blocks.values())


def _divided(slots: ResidentArray, capacity: int | None) -> tuple[int, int, int]:
    """Returns the number of slots, the units that each has room for, and the elements of a unit."""
    if capacity is None:
        if len(slots.shape) < 2:
            raise InvalidInput(f"{slots!r} has no axis of slots", fix="give an array of two axes, or `capacity`.")
        return slots.shape[0], slots.shape[1], prod(slots.shape[2:])
    elements = prod(slots.shape)
    if len(slots.shape) != 1 or elements % capacity:
        raise InvalidInput(
            f"{slots!r} is no whole number of slots of {capacity} elements",
            fix="give an array of one axis, of a multiple of `capacity` elements.",
        )
    return elements // capacity, capacity, 1


def _check_counts(name: str, array: ResidentArray, counts: ResidentArray, wanted: int) -> None:
    if counts.dtype != np.uint32 or prod(counts.shape) != wanted:
        raise InvalidInput(f"{name} are {counts!r}", fix=f"give {wanted} numbers of type u32, one for each.")
    if array.nbytes > U32_MAX:
        raise InvalidInput(f"{array!r} has {shown(array.nbytes)} bytes", fix="download parts of less than 4 GiB.")


def _source_of(array: ResidentArray, unit: int) -> _Source:
    """Returns the memory of an array as words, or as bytes where it or its units do not consist of words."""
    memory = array.buffer
    words = not (unit % _WORD or memory.offset % _WORD or memory.nbytes % _WORD or memory.shares_memory)
    kind = ScalarType.U32 if words else ScalarType.U8
    return _Source(memory, kind, unit // kind.size)


def _step(program: Program, named: Mapping[str, Resource], groups: int) -> ResidentStep:
    resources = tuple([named[buffer.name] for buffer in program.abi_buffers])
    return ResidentStep(program, resources, DispatchConfig(grid=groups))


def _parts(
    slots: ResidentArray,
    slab: Block,
    places: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    far: Mapping[int, Block],
) -> list[Array]:
    """Returns the content of each slot."""
    size, inner = slots.stored.itemsize, slots.shape[2:]
    if len(sizes) > 1 and not far and sizes[0] and slots.dtype != np.bool_ and (sizes == sizes[0]).all():
        shape = (int(sizes[0]) // (size * prod(inner)), *inner)
        return rows_of(slab, 0, int(places[1]), len(sizes), shape, slots.stored)
    typed: Array = slab[: slab.nbytes // size * size].view(slots.stored)
    starts = places // size
    pairs = zip(starts.tolist(), (starts + sizes // size).tolist(), strict=True)
    parts: list[Array] = [typed[start:end] for start, end in pairs]
    for slot, block in far.items():
        parts[slot] = block.view(slots.stored)
    if inner:
        parts = [each.reshape(-1, *inner) for each in parts]
    return parts if slots.dtype != np.bool_ else [truths(each, slots) for each in parts]
