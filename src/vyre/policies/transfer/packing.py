"""Which of many reads share one copy because the device packs them first?

Units: bytes and ns.  Ranges that touch are one range.  Packed ranges lie in one slab, which is copied to the host as a
whole; every other range has a copy of its own, of which two are joined where reading the gap between them costs less
than a second copy.  Packing launches one kernel for each allocation, or is part of the copy where one call can gather.
It is chosen where that costs less; a tie packs nothing.  O(n log n).

A caller that says how long a packed range may be gets exactly that, whatever it costs: 0 packs nothing, and no gap is
read.

vyre-driver packs by such a length alone, which the caller has to know; here costs decide where no length is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from vyre.policies.arith import ceil_div
from vyre.policies.record import U64, Nanoseconds, Reason, checked_u64, record, verdict, why_field
from vyre.policies.transfer.readback import Alignment, ResultInputs, ResultSlot, plan_results
from vyre.policies.transfer.transfers import ReadCopy, ReadInputs, ReadPlan, ReadRequest, fuse_reads

_GIB: Final = 1 << 30


class Packer(Enum):
    """``NONE``: nothing can be packed.  ``LAUNCHES``: a kernel packs the ranges of one allocation.  ``ONE_CALL``: the
    copy itself gathers ranges of any allocations.
    """

    NONE = "none"
    LAUNCHES = "launches"
    ONE_CALL = "one_call"


@record
class PackingInputs:
    """Ranges that are read.  ``most_packed_bytes`` is the longest range that is packed; None: by cost."""

    requested: tuple[ReadRequest, ...]
    packer: Packer
    most_packed_bytes: U64 | None = None


@record
class PackingThresholds:
    """A copy costs ``copy_ns`` and ``gib_ns`` for each GiB.  Packing costs ``pack_ns``, and ``launch_ns`` for each
    launch.  By cost, ranges of up to ``most_packed_bytes`` are packed, each at a multiple of ``alignment``.
    """

    copy_ns: Nanoseconds = 8_000
    gib_ns: Nanoseconds = 43_000_000
    pack_ns: Nanoseconds = 34_000
    launch_ns: Nanoseconds = 3_080
    most_packed_bytes: U64 = 64 * 1024
    alignment: Alignment = 16


@verdict
class PlacedRead:
    """A range of an allocation, and its offset in the block of host memory that receives everything."""

    handle_id: int
    src: int
    byte_len: int
    place: int


@verdict
class PackingPlan:
    """``packed`` ranges fill the first ``slab_bytes`` of the block in one copy; ``direct`` ones have a copy each.

    ``places`` holds the offset in the block of every request, in their order, 0 for an empty one.  ``bytes`` is the
    number of bytes that all copies move.
    """

    packed: tuple[PlacedRead, ...]
    direct: tuple[PlacedRead, ...]
    places: tuple[int, ...]
    slab_bytes: int
    block_bytes: int
    launches: int
    copies: int
    bytes: int
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether some ranges are packed, for telemetry."""
        return "packed" if self.packed else "direct"


DEFAULT_THRESHOLDS: Final = PackingThresholds()


def plan_packing(inputs: PackingInputs, thresholds: PackingThresholds = DEFAULT_THRESHOLDS) -> PackingPlan:
    """Returns the copies of all requests.

    Raises ``PlanError``: ``AddressOverflow``, ``ByteCountOverflow``.
    """
    touching = fuse_reads(ReadInputs(inputs.requested))
    if inputs.most_packed_bytes is not None:
        return _plan(inputs, touching, inputs.most_packed_bytes, thresholds)
    gap = thresholds.copy_ns * _GIB // max(1, thresholds.gib_ns)
    joined = fuse_reads(ReadInputs(inputs.requested, gap))
    most = touching.bytes if inputs.packer is Packer.ONE_CALL else thresholds.most_packed_bytes
    apart_ns = _price(joined.non_empty_copy_count, joined.bytes, thresholds)
    if inputs.packer is not Packer.NONE and _packed_price(inputs, touching, most, thresholds) < apart_ns:
        return _plan(inputs, touching, most, thresholds)
    return _plan(inputs, joined, 0, thresholds)


def _price(copies: int, nbytes: int, thresholds: PackingThresholds) -> int:
    return copies * thresholds.copy_ns + thresholds.gib_ns * nbytes // _GIB


def _packed_price(inputs: PackingInputs, touching: ReadPlan, most: int, thresholds: PackingThresholds) -> int:
    """Returns the price of packing all ranges of up to ``most`` bytes, without the gaps between them in the slab."""
    short = [copy for copy in touching.copies if copy.byte_len <= most]
    copies = touching.non_empty_copy_count - len(short) + 1
    launches = len({copy.handle_id for copy in short}) if inputs.packer is Packer.LAUNCHES else 0
    packing = thresholds.pack_ns + launches * thresholds.launch_ns
    return _price(copies, touching.bytes, thresholds) + packing


def _plan(inputs: PackingInputs, fused: ReadPlan, limit: int, thresholds: PackingThresholds) -> PackingPlan:
    """Returns the plan that packs all ranges of up to ``limit`` bytes, if anything can be packed."""
    limit = 0 if inputs.packer is Packer.NONE else limit
    slots = tuple(ResultSlot(i, copy.byte_len, copy.byte_len) for i, copy in enumerate(fused.copies))
    plan = plan_results(ResultInputs(slots, limit, thresholds.alignment))
    offsets = {each.slot: each.compact_offset for each in plan.compact_records}
    end = plan.compact_bytes
    for slot in plan.direct_slots:
        offsets[slot] = (ceil_div(end, thresholds.alignment) or 0) * thresholds.alignment
        end = checked_u64(offsets[slot] + fused.copies[slot].byte_len, "host block bytes")
    packed = _placed(fused.copies, [each.slot for each in plan.compact_records], offsets)
    direct = _placed(fused.copies, plan.direct_slots, offsets)
    copies = len(direct) + bool(packed)
    launches = len({each.handle_id for each in packed}) if inputs.packer is Packer.LAUNCHES else 0
    gathered = inputs.packer is Packer.ONE_CALL
    moved = fused.bytes if gathered else plan.selected_readback_bytes
    return PackingPlan(
        packed=packed,
        direct=direct,
        places=tuple([offsets[v.copy_slot] + v.byte_offset if v.byte_len else 0 for v in fused.views]),
        slab_bytes=plan.compact_bytes,
        block_bytes=end,
        launches=launches,
        copies=copies,
        bytes=moved,
        why=Reason(
            "{} reads in {} copies of {} bytes; {} ranges are packed by {}",
            (len(fused.views), copies, moved, len(packed), "the copy" if gathered else f"{launches} launches"),
        ),
    )


def _placed(copies: Sequence[ReadCopy], slots: Sequence[int], offsets: dict[int, int]) -> tuple[PlacedRead, ...]:
    return tuple([PlacedRead(copies[i].handle_id, copies[i].src, copies[i].byte_len, offsets[i]) for i in slots])
