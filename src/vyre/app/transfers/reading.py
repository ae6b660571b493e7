"""Downloads of many resident arrays.

A *layout* says which ranges of which allocations are read, whatever these allocations are.  Its plan is made once and
kept, so that downloading arrays of a layout again costs no planning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.adapters.forks import process_lock
from vyre.app.resident import ResidentArray, belongs_to, truths
from vyre.app.transfers.report import Downloaded, TransferReport, bytes_of, host_block
from vyre.app.transfers.scratch import Scratch
from vyre.domain.arguments import items_of
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.ir.types import ScalarType
from vyre.domain.packing import MOST_GROUPS, pack_program
from vyre.domain.printable import kind_of, shown
from vyre.domain.record import U32_MAX
from vyre.domain.unique import Unique
from vyre.policies.journal import decide
from vyre.policies.transfer.packing import Packer, PackingInputs, PackingThresholds, PlacedRead, plan_packing
from vyre.policies.transfer.transfers import ReadRequest
from vyre.ports.gathering import Ranges
from vyre.ports.interrupts import sealed
from vyre.ports.requests import Readback, ResidentSequence, ResidentStep
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from vyre.app.lease import BackendLease
    from vyre.app.transfers.report import Array, Block
    from vyre.app.transfers.services import TransferServices
    from vyre.policies.transfer.packing import PackingPlan

KEPT_LAYOUTS: Final = 8
HOST_MEMORY: Final = PackingThresholds(copy_ns=1_500, gib_ns=100_000_000, pack_ns=8_000, launch_ns=0)
"""The costs of copies where the device has the memory of the host: about the time of Python for each."""
_WORD: Final = 4
_BUFFER, _OFFSET, _NBYTES = attrgetter("buffer"), attrgetter("offset"), attrgetter("nbytes")
_STORED, _SHAPE, _CLOSED = attrgetter("stored"), attrgetter("shape"), attrgetter("_closed")
Layout: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]"
"""The number of the allocation, the offset in it and the number of bytes of each array that is read."""


class KeptPlan(NamedTuple):
    """The plan of a layout.  ``gathered``: the packed ranges, where one call gathers them.

    ``spacing`` is the distance of the arrays in the host block, if all distances are equal, else 0.  ``overlap`` says
    that two of them share bytes there.
    """

    plan: PackingPlan
    gathered: Ranges | None
    spacing: int
    overlap: bool


class Reading:
    """Downloads of one session.  May be used by several threads."""

    def __init__(self, services: TransferServices) -> None:
        self._lease: Final = services.lease
        self._services: Final = services
        self._scratch: Final = services.scratch
        self._plans: OrderedDict[tuple[Layout, bool, int | None], KeptPlan] = OrderedDict()
        self._lock: Final = process_lock()

    def bind(self, arrays: Iterable[ResidentArray], most_packed: int | None) -> BoundDownload:
        """Implements ``Session.bind_download``."""
        taken = tuple(items_of("arrays", arrays))
        layout, used = layout_of(self._lease, taken)
        can_launch = self._lease.backend.resident_executor is not None
        can_launch = can_launch and max([root.nbytes for root in used], default=0) <= U32_MAX
        kept = self._kept(layout, can_launch, most_packed)
        return BoundDownload(self._lease, self._scratch, taken, used, kept)

    # ---- planning
    def _kept(self, layout: Layout, can_launch: bool, most_packed: int | None) -> KeptPlan:
        key = layout, can_launch, most_packed
        with self._lock, sealed:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        plan = self._planned(layout, can_launch, most_packed)
        with self._lock, sealed:
            self._plans[key] = plan
            if len(self._plans) > KEPT_LAYOUTS:
                self._plans.popitem(last=False)
        return plan

    def _planned(self, layout: Layout, can_launch: bool, most_packed: int | None) -> KeptPlan:
        requests = tuple([ReadRequest(*row) for row in zip(*layout, strict=True)])
        gathers = self._lease.backend.gathering is not None
        packer = Packer.ONE_CALL if gathers else Packer.LAUNCHES if can_launch else Packer.NONE
        thresholds = HOST_MEMORY if gathers else self._services.thresholds()
        inputs = PackingInputs(requests, packer, most_packed)
        plan = decide(self._services.decisions, plan_packing, inputs, thresholds)
        places, nbytes = np.array(plan.places, np.int64), np.array(layout[2], np.int64)
        steps = np.diff(places)
        spacing = int(steps[0]) if len(steps) and (steps == steps[0]).all() and steps[0] > 0 else 0
        order = np.argsort(places[nbytes > 0], kind="stable")
        starts, ends = places[nbytes > 0][order], (places + nbytes)[nbytes > 0][order]
        overlap = bool((starts[1:] < np.maximum.accumulate(ends)[:-1]).any()) if len(starts) else False
        return KeptPlan(plan, _ranges(plan.packed) if gathers and plan.packed else None, spacing, overlap)


class BoundDownload(Unique):
    """A download of arrays, checked and planned once: calling it returns their present content.

    It keeps the arrays alive.  Several threads may call it.
    """

    __slots__ = ("_arrays", "_gather", "_kept", "_lease", "_report", "_rows", "_scratch", "_used", "_views")

    def __init__(
        self,
        lease: BackendLease,
        scratch: Scratch,
        arrays: tuple[ResidentArray, ...],
        used: list[ResidentBuffer],
        kept: KeptPlan,
    ) -> None:
        self._lease, self._scratch, self._arrays, self._used, self._kept = lease, scratch, arrays, used, kept
        self._views = [array.buffer for array in arrays if array.buffer.base is not None]
        plan = kept.plan
        self._report = TransferReport(
            len(arrays), plan.copies, plan.bytes, len(plan.packed), plan.launches, str(plan.why)
        )
        self._rows = _are_rows(arrays, kept)
        facet = lease.backend.gathering
        self._gather = None if facet is None or kept.gathered is None else facet.bind(used, kept.gathered)

    @property
    def report(self) -> TransferReport:
        """How the arrays are copied."""
        return self._report

    def __call__(self) -> Downloaded:
        """Returns the content of the arrays, as ``Session.download`` does."""
        self._lease.check_open()
        if any(map(_CLOSED, self._views)):  # the allocations are checked by who reads them
            layout_of(self._lease, self._arrays)
        self._lease.wait_for(None)
        block = host_block(self._kept.plan.block_bytes)
        self._copy(block)
        if self._rows:
            return Downloaded(_rows(self._arrays, block, self._kept), self._report)
        return Downloaded(_parts(self._arrays, block, self._kept), self._report)

    def _copy(self, block: Block) -> None:
        backend, kept, used = self._lease.backend, self._kept, self._used
        plan, into = kept.plan, bytes_of(block)
        direct = [Readback(used[r.handle_id], into[r.place : r.place + r.byte_len], r.src) for r in plan.direct]
        slab = into[: plan.slab_bytes]
        if plan.packed and self._gather is None:
            with self._scratch.taken(plan.slab_bytes) as memory:
                steps = tuple(_pack_steps(plan, used, memory))
                reads = (Readback(memory, slab), *direct)
                backend.require_resident_executor().run(ResidentSequence(prefix=steps, reads=reads))
            return
        if self._gather is not None:
            self._gather(slab)
        if direct:
            backend.require_memory().download(direct)


def layout_of(lease: BackendLease, arrays: Sequence[ResidentArray]) -> tuple[Layout, list[ResidentBuffer]]:
    """Returns the layout of the arrays, and their allocations in the order of the numbers in it.

    Raises ``InvalidInput`` for what is no resident array, and ``InvalidResource`` for one that is closed, of another
    session or without memory of its own.  Loops over the arrays run in C: there may be very many.
    """
    if set(map(type, arrays)) - {ResidentArray}:
        _refuse(arrays)
    buffers = list(map(_BUFFER, arrays))
    roots = [buffer.base or buffer for buffer in buffers]
    known = list(map(id, roots))
    of_root = dict(zip(known, arrays, strict=True))
    for array in of_root.values():
        if not belongs_to(array, lease):
            raise InvalidResource(f"{array!r} belongs to another session", fix="download it there.")
    if any(map(_CLOSED, buffers)) or any(array.buffer.closed for array in of_root.values()):
        number, array = next((n, a) for n, a in enumerate(arrays) if a.closed)
        raise InvalidResource(f"item {number} is {array!r}", fix="keep it open while it is used.")
    numbers = {root: number for number, root in enumerate(of_root)}
    layout = tuple(map(numbers.__getitem__, known)), tuple(map(_OFFSET, buffers)), tuple(map(_NBYTES, buffers))
    return layout, [array.buffer.root for array in of_root.values()]


def _refuse(arrays: Sequence[object]) -> None:
    """Raises the error of the first item that cannot be read."""
    for number, array in enumerate(arrays):
        if not isinstance(array, ResidentArray):
            raise InvalidInput(
                f"item {number} is {shown(array)}, {kind_of(array)}", fix="pass resident arrays of this session."
            )
        if array.is_temporary:
            raise InvalidResource(
                f"item {number} is {array!r}, which has no content outside of a sequence",
                fix="use an array of session.resident(...).",
            )


def _ranges(packed: Sequence[PlacedRead]) -> Ranges:
    columns = np.array([(r.handle_id, r.src, r.byte_len, r.place) for r in packed], np.int64).T
    return Ranges(*(np.ascontiguousarray(column) for column in columns))


def _pack_steps(plan: PackingPlan, used: Sequence[ResidentBuffer], slab: ResidentBuffer) -> list[ResidentStep]:
    """Returns a launch for each allocation, which packs the ranges of it."""
    steps = []
    for handle in sorted({each.handle_id for each in plan.packed}):
        rows = np.array([(r.src, r.byte_len, r.place) for r in plan.packed if r.handle_id == handle], np.int64)
        source = used[handle]
        words = not source.shares_memory and not (rows % _WORD).any()
        table = (rows // _WORD if words else rows).astype(np.uint32)
        program = pack_program(ScalarType.U32 if words else ScalarType.U8)
        config = DispatchConfig(grid=min(len(rows), MOST_GROUPS))
        steps.append(ResidentStep(program, (source, memoryview(table.tobytes()), slab), config))
    return steps


# ---- arrays of the host
def _parts(arrays: Sequence[ResidentArray], block: Block, kept: KeptPlan) -> list[Array]:
    """Returns the bytes of each array in the block as an array of its type and shape."""
    parts = []
    for array, place in zip(arrays, kept.plan.places, strict=True):
        data = block[place : place + array.buffer.nbytes]
        if kept.overlap or place % array.stored.alignment:
            data = data.copy()
        parts.append(truths(data.view(array.stored).reshape(array.shape), array))
    return parts


def _are_rows(arrays: Sequence[ResidentArray], kept: KeptPlan) -> bool:
    """Returns whether the arrays have one type and shape and lie at equal distances, so that they are rows of one."""
    if not kept.spacing or kept.overlap:
        return False
    first = arrays[0]
    if len(set(map(id, map(_STORED, arrays)))) > 1 or len(set(map(_SHAPE, arrays))) > 1:
        return False
    apart = (kept.plan.places[0] | kept.spacing) % first.stored.itemsize
    return bool(first.shape) and first.nbytes > 0 and first.dtype != np.bool_ and not apart


def _rows(arrays: Sequence[ResidentArray], block: Block, kept: KeptPlan) -> list[Array]:
    return rows_of(block, kept.plan.places[0], kept.spacing, len(arrays), arrays[0].shape, arrays[0].stored)


def rows_of(
    block: Block, start: int, spacing: int, count: int, shape: tuple[int, ...], stored: np.dtype[Any]
) -> list[Array]:
    """Returns arrays of one type and shape, of which the first begins at byte ``start`` and each ``spacing`` bytes
    behind the one before.  All are made by one call.
    """
    memory: Any = block
    return list(np.ndarray((count, *shape), stored, memory, start, (spacing, *_strides(shape, stored.itemsize))))


def _strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    strides: list[int] = []
    for length in reversed(shape):
        strides.append(size)
        size *= length
    return tuple(reversed(strides))
