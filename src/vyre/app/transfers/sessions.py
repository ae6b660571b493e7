"""The part of ``Session`` that copies many arrays at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vyre.app.session_core import SessionCore
from vyre.domain.arguments import whole
from vyre.domain.record import U64_MAX

if TYPE_CHECKING:
    from vyre.app.resident import ResidentArray
    from vyre.app.transfers.reading import BoundDownload, Reading
    from vyre.app.transfers.report import Downloaded, TransferReport
    from vyre.app.transfers.slots import Marked, SlotReading
    from vyre.domain.dispatch import ReadableBuffer


class SessionTransfers(SessionCore):
    """Copies of many arrays at once."""

    _transfers: tuple[Reading, SlotReading] | None = None

    def download(self, arrays: Iterable[ResidentArray], *, most_packed: int | None = None) -> Downloaded:
        """Returns the content of resident arrays, or parts of them, as new arrays in the same order.

        Ranges of one allocation that touch are one copy.  Where that costs less, short ranges are packed on the device
        first, so that one copy brings all of them.  ``most_packed``: pack ranges of up to so many bytes, whatever it
        costs; 0 packs none.  ``.report`` of the result tells how many copies were made, and why.

        Raises ``InvalidInput`` for what is no resident array, ``InvalidResource`` for one of another session or that is
        closed, ``InvalidConfig`` for a negative ``most_packed``, and ``BackendError``.
        """
        return self.bind_download(arrays, most_packed=most_packed)()

    def bind_download(self, arrays: Iterable[ResidentArray], *, most_packed: int | None = None) -> BoundDownload:
        """Checks and plans a download once: calling the result returns what ``download`` returns.

        That is the cheapest way to read the same arrays again and again.  The result keeps the arrays alive; they must
        stay open.  Arguments and errors are those of ``download``.
        """
        most_packed = _bytes("most_packed", most_packed)
        self._lease.check_open()
        return self._transfer_services()[0].bind(arrays, most_packed)

    def download_slots(
        self,
        slots: ResidentArray,
        lengths: ResidentArray,
        *,
        capacity: int | None = None,
        most_packed: int | None = None,
    ) -> Downloaded:
        """Returns the used part of every slot: an array of the first ``lengths[i]`` rows of slot i, for each slot.

        ``slots`` has an axis of slots and an axis of rows; or one axis, and then ``capacity`` is the number of its
        elements in a slot.  ``lengths`` is a resident array of u32, which programs may have written: the host need not
        know it.  Slots are packed on the device, so that one or two copies bring them, however many they are.  Slots of
        more than ``most_packed`` bytes (None: 64 KiB) have copies of their own; 0 packs none.

        Raises ``InvalidInput`` for arrays that do not fit, and for a length of more than the room of its slot,
        ``PlanError`` for slots that need more than 4 GiB, and what ``download`` raises.
        """
        most_packed = _bytes("most_packed", most_packed)
        if capacity is not None:
            capacity = whole("capacity", capacity, 1, U64_MAX, "give a number of elements of at least 1, or None.")
        self._lease.check_open()
        self._lease.wait_for(None)
        return self._transfer_services()[1].slots(slots, lengths, capacity, most_packed)

    def download_marked(self, items: ResidentArray, marks: ResidentArray, *, limit: int) -> Marked:
        """Returns the items with a mark, in their order, such as the diagnostics that a program has left.

        ``items`` is a resident array whose first axis counts items, and ``marks`` one of as many u32: item i is marked
        if ``marks[i]`` is not 0.  The device numbers the marked items and packs the first ``limit``; it counts all of
        them, so that ``overflow`` of the result is exact.

        Raises ``InvalidInput`` for arrays that do not fit, ``InvalidConfig`` for a limit below 1, ``PlanError`` for
        more than 4 GiB, and what ``download`` raises.
        """
        limit = whole("limit", limit, 1, U64_MAX, "give a number of items of at least 1.")
        self._lease.check_open()
        self._lease.wait_for(None)
        return self._transfer_services()[1].marked(items, marks, limit)

    def upload(self, writes: Iterable[tuple[ResidentArray, ReadableBuffer]]) -> TransferReport:
        """Copies data to resident arrays, or parts of them: pairs of an array and its new content, of its length.

        Writes of one allocation that touch or overlap are one copy, in which the later write wins.  Nothing is copied
        unless all pairs are right.  Returns how many copies were made.  Raises what ``ResidentArray.upload`` raises,
        ``InvalidInput`` for anything but pairs, and ``InvalidResource`` for an array of another session.
        """
        from vyre.app.transfers.writing import upload

        self._lease.check_open()
        self._lease.wait_for(None)
        return upload(self._lease, writes, self._decisions)

    def _transfer_services(self) -> tuple[Reading, SlotReading]:
        if self._transfers is None:
            from vyre.app.transfers.reading import Reading
            from vyre.app.transfers.services import TransferServices
            from vyre.app.transfers.slots import SlotReading

            services = TransferServices(self._lease, self._calibration, self._decisions)
            self._transfers = Reading(services), SlotReading(services)
        return self._transfers


def _bytes(name: str, value: int | None) -> int | None:
    return None if value is None else whole(name, value, 0, U64_MAX, "give a number of bytes, or None.")
