"""The host ring: items in order, completion by ticket, many threads at once."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from support.limits import LIMIT_S
from vectors.seeds.host_ring import Claim, HostRing, RingItem, RingState
from vyre.domain.errors import InvalidField, PlanError


def item(name: int) -> RingItem:
    return RingItem(64 * name, 10, 7, name)


def filled(ring_size: int, items: int) -> HostRing:
    ring = HostRing(ring_size)
    assert [ring.enqueue(item(i)) for i in range(items)] == list(range(items))
    return ring


@pytest.mark.parametrize("ring_size", [-2, 0, 1, 3, 7, 1_048_577, True, 4.0])
def test_sizes_that_are_no_ring(ring_size: int) -> None:
    with pytest.raises(PlanError) as error:
        HostRing(ring_size)
    assert error.value.kind == "InvalidRingSize"


@pytest.mark.parametrize(("asked", "size"), [(0, 2), (1, 2), (2, 2), (3, 4), (4, 4), (1000, 1024)])
def test_sizes_are_rounded_up(asked: int, size: int) -> None:
    assert HostRing.rounded_up(asked).ring_size == size


@pytest.mark.parametrize("asked", [-1, True, 3.0])
def test_sizes_that_cannot_be_rounded(asked: int) -> None:
    with pytest.raises(PlanError) as error:
        HostRing.rounded_up(asked)
    assert error.value.kind == "InvalidRingSize"


def test_first_in_first_out_round_and_round() -> None:
    ring = HostRing(2)
    for ticket in range(1000):
        assert ring.enqueue(item(ticket)) == ticket
        assert ring.slot_of(ticket) == ticket % 2
        assert ring.claim() == Claim(ticket, item(ticket))
    assert ring.claim() is None
    assert ring.state() == RingState(1000, 1000, (False, False))


def test_a_full_ring_keeps_what_it_has() -> None:
    ring = filled(4, 4)
    assert ring.enqueue(item(9)) is None
    assert ring.state().in_flight == 4
    assert [ring.claim() for _ in range(5)] == [*(Claim(i, item(i)) for i in range(4)), None]


def test_completion_goes_by_ticket() -> None:
    ring = filled(2, 2)
    first, second = ring.claim(), ring.claim()
    assert first is not None and second is not None
    assert ring.enqueue(item(2)) == 2  # takes the slot of ticket 0, which is not finished
    ring.complete(second.ticket)
    assert [ring.is_complete(ticket) for ticket in range(3)] == [False, True, False]
    ring.complete(first.ticket)
    assert [ring.is_complete(ticket) for ticket in range(3)] == [True, True, False]
    for _ in range(10):  # later items do not change that
        claim = ring.claim()
        assert claim is not None
        ring.complete(claim.ticket)
        ring.enqueue(item(3))
    assert ring.is_complete(first.ticket) and ring.is_complete(second.ticket)


def test_a_ticket_is_completed_once_and_after_its_claim() -> None:
    ring = filled(2, 1)
    with pytest.raises(PlanError) as early:
        ring.complete(0)
    ring.claim()
    ring.complete(0)
    with pytest.raises(PlanError) as twice:
        ring.complete(0)
    assert early.value.kind == twice.value.kind == "NotClaimed"


@pytest.mark.parametrize("ticket", [-1, 1])
def test_tickets_that_were_never_issued(ticket: int) -> None:
    with pytest.raises(PlanError) as error:
        filled(2, 1).is_complete(ticket)
    assert error.value.kind == "UnknownTicket"


def test_marks_are_of_slots() -> None:
    ring = filled(2, 2)
    ring.mark_done(1)
    assert (ring.is_done(0), ring.is_done(1)) == (False, True)
    ring.claim()
    ring.claim()
    ring.enqueue(item(2))
    assert ring.is_done(1)
    ring.enqueue(item(3))
    assert not ring.is_done(1)


@pytest.mark.parametrize("slot", [-1, 2])
def test_marks_stay_inside_the_ring(slot: int) -> None:
    ring = HostRing(2)
    for use in (ring.mark_done, ring.is_done):
        with pytest.raises(PlanError) as error:
            use(slot)
        assert error.value.kind == "SlotOutOfRange"


def test_items_are_four_little_endian_words() -> None:
    data = RingItem(1, 2, 3, 0x01020304).pack()
    assert data == bytes.fromhex("01000000 02000000 03000000 04030201")
    assert RingItem.unpack(data) == RingItem(1, 2, 3, 0x01020304)
    with pytest.raises(InvalidField):
        RingItem.unpack(data[:-1])


POISON = RingItem(2**32 - 1, 0, 0, 0)
"""Ends a consumer."""


def run_all(threads: list[Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=LIMIT_S)
    assert not any(thread.is_alive() for thread in threads)


def test_items_are_neither_lost_nor_doubled_between_threads() -> None:
    producers, consumers, each = 3, 3, 400
    ring = HostRing(8)
    start, finished = Barrier(producers + consumers), Barrier(producers)
    taken: list[list[RingItem]] = [[] for _ in range(consumers)]
    crowds: list[int] = []

    def put(item: RingItem) -> None:
        while ring.enqueue(item) is None:
            crowds.append(ring.state().in_flight)

    def produce(producer: int) -> None:
        start.wait()
        for name in range(each):
            put(RingItem(producer, 0, 0, name))
        finished.wait()
        put(POISON)  # as many of them as consumers

    def consume(mine: list[RingItem]) -> None:
        start.wait()
        while True:
            claim = ring.claim()
            if claim is None:
                continue
            ring.complete(claim.ticket)
            if claim.item == POISON:
                return
            mine.append(claim.item)

    run_all(
        [Thread(target=produce, args=(p,), daemon=True) for p in range(producers)]
        + [Thread(target=consume, args=(mine,), daemon=True) for mine in taken]
    )
    everything = sorted((i.input_offset, i.correlation) for mine in taken for i in mine)
    assert everything == [(p, name) for p in range(producers) for name in range(each)]
    for mine in taken:  # of each producer, a consumer sees items in order
        for producer in range(producers):
            names = [i.correlation for i in mine if i.input_offset == producer]
            assert names == sorted(names)
    assert all(in_flight <= ring.ring_size for in_flight in crowds)
    assert all(map(ring.is_complete, range(ring.state().head)))
