"""Uploads to many resident arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vyre.app.resident import ResidentArray
from vyre.app.transfers.reading import layout_of
from vyre.app.transfers.report import TransferReport
from vyre.domain.arguments import items_of
from vyre.domain.errors import InvalidInput
from vyre.domain.printable import kind_of, shown
from vyre.policies.journal import decide
from vyre.policies.transfer.transfers import Write, WriteInputs, fuse_writes
from vyre.ports.requests import Upload

if TYPE_CHECKING:
    from vyre.app.lease import BackendLease
    from vyre.domain.dispatch import ReadableBuffer
    from vyre.policies.journal import DecisionSink
    from vyre.ports.requests import HostBytes


def upload(
    lease: BackendLease, writes: Iterable[tuple[ResidentArray, ReadableBuffer]], sink: DecisionSink | None
) -> TransferReport:
    """Implements ``Session.upload``."""
    arrays: list[ResidentArray] = []
    data: list[HostBytes] = []
    for number, pair in enumerate(items_of("writes", writes)):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidInput(
                f"item {number} is {shown(pair)}, {kind_of(pair)}", fix="pass pairs of a resident array and its data."
            )
        arrays.append(pair[0])
        data.append(pair[1])  # type: ignore[arg-type]  # checked below
    layout_of(lease, arrays)
    views = [array._upload_view(each) for array, each in zip(arrays, data, strict=True)]
    for number, (array, view) in enumerate(zip(arrays, views, strict=True)):
        if view.nbytes != array.nbytes:
            raise InvalidInput(
                f"item {number} has {view.nbytes} bytes for the {array.nbytes} bytes of {array!r}",
                fix="pass as many, or write a part of the array, r[a:b].",
            )
    uses = Counter(id(array.buffer.root) for array in arrays)
    ordered = any(array.buffer.shares_memory for array in arrays)  # two allocations may then be the same memory
    uploads: list[Upload] = []
    shared: list[Upload] = []
    for array, view in zip(arrays, views, strict=True):
        (shared if ordered or uses[id(array.buffer.root)] > 1 else uploads).append(Upload(array.buffer, view))
    uploads = [each for each in uploads if each.data.nbytes]
    moved, why = sum(each.data.nbytes for each in uploads), ""
    if shared:
        roots = {id(each.buffer.root): each.buffer.root for each in shared}
        numbers = {known: number for number, known in enumerate(roots)}
        buffers = list(roots.values())
        fused = decide(
            sink,
            fuse_writes,
            WriteInputs(tuple([Write(numbers[id(u.buffer.root)], u.buffer.offset, bytes(u.data)) for u in shared])),
        )
        uploads += [Upload(buffers[c.handle_id], memoryview(c.data), c.dst_ptr) for c in fused.copies]
        moved, why = moved + fused.uploaded_bytes, str(fused.why)
    if uploads:
        lease.backend.require_memory().upload(uploads)
    return TransferReport(len(arrays), len(uploads), moved, 0, 0, why or "each array has an allocation of its own")
