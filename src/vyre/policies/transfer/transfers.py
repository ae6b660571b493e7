"""Which copies between host and device can be joined into fewer?

Units: bytes and addresses in 64 bits; a figure that exceeds them raises ``PlanError`` and never wraps.  A copy belongs
to one allocation, identified by its handle; copies of two handles are never joined, wherever they lie.

Reads may come in any order.  Every request is a view of the copy that contains it.  Two ranges are one copy if at most
``max_gap`` bytes lie between them; reading a gap costs less than a second copy up to about the cost of a copy times the
bandwidth, 200 KB at 8 us and 25 GB/s.  The default, 0, joins only ranges that touch.  O(n log n).

Writes keep their order, because the later of two overlapping ones wins.  Each is joined with the copy before it, and
that with the one before, as long as they touch.  So a copy always holds a contiguous part of the writes in order of
arrival, and its bytes are assembled once, at the end.  O(n + bytes).

vyre-driver returns the same copies at a higher cost: it assembles a copy anew for every write that touches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vyre.domain.errors import PlanError
from vyre.policies.record import U64, U64_MAX, Reason, checked_u64, record, verdict, why_field


@record
class ReadRequest:
    """A request for ``byte_len`` bytes of an allocation, from address ``src`` on."""

    handle_id: U64
    src: U64
    byte_len: U64


@record
class ReadInputs:
    """Requests, and the largest gap in bytes that is read to join two of them."""

    requested: tuple[ReadRequest, ...]
    max_gap: U64 = 0


@verdict
class ReadCopy:
    """One copy to the host."""

    handle_id: int
    src: int
    byte_len: int


@verdict
class ReadView:
    """The place of a request: ``byte_len`` bytes at an offset of copy number ``copy_slot``; all 0 for an empty
    request.
    """

    copy_slot: int
    byte_offset: int
    byte_len: int


@verdict
class ReadPlan:
    """Copies that ascend by handle and address and do not overlap; ``views`` are in the order of the requests."""

    copies: tuple[ReadCopy, ...]
    views: tuple[ReadView, ...]
    non_empty_copy_count: int
    bytes: int
    why: Reason = why_field()


_NOWHERE: Final = ReadView(0, 0, 0)
_WHY: Final = "{} transfers in {} copies, which move {} bytes for {}"


def fuse_reads(inputs: ReadInputs) -> ReadPlan:
    """Returns copies that contain every request.  Raises ``PlanError``: ``AddressOverflow``, ``ByteCountOverflow``."""
    requests = inputs.requested
    ends = [_end(r.handle_id, r.src, r.byte_len) for r in requests]
    order = sorted(
        (i for i, r in enumerate(requests) if r.byte_len), key=lambda i: (requests[i].handle_id, requests[i].src)
    )
    spans: list[_Span] = []
    views = [_NOWHERE] * len(requests)
    for i in order:
        r = requests[i]
        if spans and spans[-1].handle_id == r.handle_id and r.src - spans[-1].end <= inputs.max_gap:
            spans[-1].end = max(spans[-1].end, ends[i])
        else:
            spans.append(_Span(r.handle_id, r.src, ends[i]))
        views[i] = ReadView(len(spans) - 1, r.src - spans[-1].start, r.byte_len)
    moved, asked = _bytes_of(spans), sum(r.byte_len for r in requests)
    return ReadPlan(
        copies=tuple(ReadCopy(s.handle_id, s.start, s.end - s.start) for s in spans),
        views=tuple(views),
        non_empty_copy_count=len(spans),
        bytes=moved,
        why=Reason(_WHY, (len(order), len(spans), moved, asked)),
    )


@record
class Write:
    """A write of ``data`` into an allocation, from address ``dst_ptr`` on."""

    handle_id: U64
    dst_ptr: U64
    data: bytes


@record
class WriteInputs:
    """Writes in order of arrival."""

    uploads: tuple[Write, ...]


@verdict
class WriteCopy:
    """One copy to the device; ``owned`` says that its bytes were assembled, not taken from one write as they are."""

    handle_id: int
    dst_ptr: int
    data: bytes
    owned: bool


@verdict
class WritePlan:
    """Copies in the order in which they must be made, the bytes that they move, and the bytes that were requested."""

    copies: tuple[WriteCopy, ...]
    uploaded_bytes: int
    requested_bytes: int
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether some bytes were requested twice and are written once, for telemetry."""
        return "overlapping" if self.uploaded_bytes < self.requested_bytes else "apart"


def fuse_writes(inputs: WriteInputs) -> WritePlan:
    """Returns copies that have the same effect on memory as all writes in order.

    Raises ``PlanError``: ``AddressOverflow``, ``ByteCountOverflow``.
    """
    writes = [w for w in inputs.uploads if w.data]
    spans: list[_Span] = []
    for i, w in enumerate(writes):
        new = _Span(w.handle_id, w.dst_ptr, _end(w.handle_id, w.dst_ptr, len(w.data)), i, i + 1)
        while spans and new.touches(spans[-1]):
            new = new.after(spans.pop())
        spans.append(new)
    moved, asked = _bytes_of(spans), sum(len(w.data) for w in writes)
    return WritePlan(
        copies=tuple(_assembled(span, writes) for span in spans),
        uploaded_bytes=moved,
        requested_bytes=asked,
        why=Reason(_WHY, (len(writes), len(spans), moved, asked)),
    )


@dataclass(slots=True)
class _Span:
    """The addresses from ``start`` up to, not including, ``end``.

    For writes, ``first`` up to, not including, ``stop`` are the writes in it.
    """

    handle_id: int
    start: int
    end: int
    first: int = 0
    stop: int = 0

    def touches(self, other: _Span) -> bool:
        return self.handle_id == other.handle_id and self.start <= other.end and other.start <= self.end

    def after(self, older: _Span) -> _Span:
        """Returns this span applied over an older one, or this span if it covers the older one."""
        if self.start <= older.start and older.end <= self.end:
            return self
        return _Span(self.handle_id, min(self.start, older.start), max(self.end, older.end), older.first, self.stop)


def _assembled(span: _Span, writes: Sequence[Write]) -> WriteCopy:
    if span.stop - span.first == 1:
        return WriteCopy(span.handle_id, span.start, writes[span.first].data, owned=False)
    data = bytearray(span.end - span.start)
    for w in writes[span.first : span.stop]:
        offset = w.dst_ptr - span.start
        data[offset : offset + len(w.data)] = w.data
    return WriteCopy(span.handle_id, span.start, bytes(data), owned=True)


def _end(handle: int, address: int, size: int) -> int:
    end = address + size
    if end > U64_MAX:
        raise PlanError("AddressOverflow", handle_id=handle, address=address, byte_len=size)
    return end


def _bytes_of(spans: Sequence[_Span]) -> int:
    return checked_u64(sum(span.end - span.start for span in spans), "transferred bytes")
