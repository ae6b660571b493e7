"""The bounded queue of a persistent engine, on the host: many producers, many consumers, first in, first out.

A ring of N slots gives every item a ticket, its position in the order of arrival: 64 bits on a device, so it never
repeats.  The item of ticket t is in slot ``t mod N``, and at most N items are enqueued and not yet claimed.  No
operation blocks: a full and an empty ring return None.  On a device each slot has a sequence number that passes it from
producer to consumer and back; here one lock serves, with the same results.  Every operation is O(1).

What the reference (vyre-driver, the Rust system whose decisions vyre reproduces) gets wrong: it accepts a ring of one
slot, which overwrites its item and then never answers again; here two slots are the minimum.  And it marks slots as
done, while the next item of a slot clears the mark: a slow waiter misses its completion or sees a stale one.
``mark_done`` and ``is_done`` are those marks; ``complete`` and ``is_complete`` use tickets instead.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from vyre.adapters.forks import process_lock
from vyre.domain.errors import InvalidField, PlanError
from vyre.domain.record import U32, record
from vyre.policies.arith import next_power_of_two
from vyre.ports.interrupts import sealed

MIN_SLOTS: Final = 2
_WORDS: Final = struct.Struct("<4I")


@record
class RingItem:
    """A range of the input to scan with a set of rules; ``correlation`` is the producer's own id for it."""

    input_offset: U32
    input_len: U32
    rule_set_id: U32
    correlation: U32

    def pack(self) -> bytes:
        """Returns the item as it is stored in a slot on a device: four little-endian words."""
        return _WORDS.pack(self.input_offset, self.input_len, self.rule_set_id, self.correlation)

    @classmethod
    def unpack(cls, data: bytes) -> RingItem:
        """Parses the result of ``pack``; raises ``InvalidField`` for another length."""
        if len(data) != _WORDS.size:
            raise InvalidField(record="RingItem", field="data", value=data, expected=f"{_WORDS.size} bytes")
        return cls(*_WORDS.unpack(data))


class Claim(NamedTuple):
    """An item that a consumer has claimed; ``ticket`` is passed to ``complete``."""

    ticket: int
    item: RingItem


class RingState(NamedTuple):
    """``head``: tickets issued; ``tail``: tickets claimed; ``done``: the mark of each slot."""

    head: int
    tail: int
    done: tuple[bool, ...]

    @property
    def in_flight(self) -> int:
        """Number of items enqueued and not yet claimed."""
        return self.head - self.tail


class HostRing:
    """A ring of ``ring_size`` slots, a power of two from 2 on; every method may be called from any thread."""

    def __init__(self, ring_size: int) -> None:
        if type(ring_size) is not int or ring_size < MIN_SLOTS or ring_size & (ring_size - 1):
            raise PlanError("InvalidRingSize", fix=f"take a power of two from {MIN_SLOTS} on.", ring_size=ring_size)
        self._lock = process_lock()
        self._items: list[RingItem | None] = [None] * ring_size
        self._done = [False] * ring_size
        self._head = self._tail = 0
        self._unfinished: set[int] = set()

    @classmethod
    def rounded_up(cls, ring_size: int) -> HostRing:
        """Returns a ring of at least ``ring_size`` slots."""
        if type(ring_size) is not int or ring_size < 0:
            raise PlanError("InvalidRingSize", fix="take a size of 0 or more.", ring_size=ring_size)
        return cls(max(next_power_of_two(ring_size), MIN_SLOTS))

    @property
    def ring_size(self) -> int:
        """Number of slots."""
        return len(self._items)

    def slot_of(self, ticket: int) -> int:
        """Returns the slot of a ticket's item."""
        return ticket % self.ring_size

    def enqueue(self, item: RingItem) -> int | None:
        """Returns the item's ticket, or None if the ring is full.  Clears the mark of its slot."""
        with self._lock, sealed:
            ticket = self._head
            if ticket - self._tail == self.ring_size:
                return None
            slot = self.slot_of(ticket)
            self._items[slot], self._done[slot] = item, False
            self._head = ticket + 1
            return ticket

    def claim(self) -> Claim | None:
        """Returns the oldest unclaimed item, or None."""
        with self._lock, sealed:
            ticket, slot = self._tail, self.slot_of(self._tail)
            item = self._items[slot]
            if item is None:
                return None
            self._items[slot] = None
            self._unfinished.add(ticket)
            self._tail = ticket + 1
            return Claim(ticket, item)

    def complete(self, ticket: int) -> None:
        """Marks a claimed item as finished; raises ``PlanError("NotClaimed")`` if it is not claimed, or already
        finished.
        """
        with self._lock, sealed:
            if ticket not in self._unfinished:
                raise PlanError("NotClaimed", fix="complete each claimed ticket once.", ticket=ticket)
            self._unfinished.remove(ticket)

    def is_complete(self, ticket: int) -> bool:
        """Returns whether the item of a ticket is finished; the answer stays right however often its slot is reused."""
        with self._lock, sealed:
            if not 0 <= ticket < self._head:
                raise PlanError("UnknownTicket", fix="ask for tickets that `enqueue` gave.", ticket=ticket)
            return ticket < self._tail and ticket not in self._unfinished

    def mark_done(self, slot: int) -> None:
        """Marks a slot; raises ``PlanError("SlotOutOfRange")``."""
        with self._lock, sealed:
            self._done[self._checked(slot)] = True

    def is_done(self, slot: int) -> bool:
        """Returns whether a slot was marked since it was last filled.  Raises ``PlanError("SlotOutOfRange")``."""
        with self._lock, sealed:
            return self._done[self._checked(slot)]

    def state(self) -> RingState:
        """Returns a consistent snapshot; O(N)."""
        with self._lock, sealed:
            return RingState(self._head, self._tail, tuple(self._done))

    def _checked(self, slot: int) -> int:
        if not 0 <= slot < self.ring_size:
            raise PlanError("SlotOutOfRange", slot=slot, ring_size=self.ring_size)
        return slot
