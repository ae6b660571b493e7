"""Order of operations in the emulated driver: what runs when, what may overtake what, and races."""

from __future__ import annotations

import threading

import pytest

from support.limits import LIMIT_S
from support.machine.driver import Rig, code_of, rig
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.journal import ViolationKind
from vyre.adapters.cuda.machine.streams import QUEUE_LIMIT, StreamSchedule

SEEDS = range(12)


def _hand_over(r: Rig, *, ordered: bool) -> bytes:
    """One stream writes over zeros, another one reads."""
    d = r.driver
    memory, zeros = r.upload(bytes(4)), r.stream
    d.stream_synchronize(zeros)
    writer, reader, written = d.stream_create(), d.stream_create(), d.event_create()
    d.memset8(memory, 7, 4, writer)
    d.event_record(written, writer)
    if ordered:
        d.stream_wait_event(reader, written)
    data = r.download(memory, 4, reader)
    d.context_synchronize()
    return data


def test_streams_that_nothing_orders_run_in_some_order_of_the_seed() -> None:
    results = {_hand_over(rig(seed=seed), ordered=False) for seed in SEEDS}
    assert results == {bytes(4), b"\x07" * 4}
    assert all(_hand_over(rig(seed=3), ordered=False) == _hand_over(rig(seed=3), ordered=False) for _ in range(3))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_event_orders_them(seed: int) -> None:
    r = rig(seed=seed)
    assert _hand_over(r, ordered=True) == b"\x07" * 4
    assert not r.driver.violations


@pytest.mark.parametrize("seed", SEEDS)
def test_a_race_is_reported_whatever_order_the_seed_chose(seed: int) -> None:
    r = rig(seed=seed)
    _hand_over(r, ordered=False)
    (violation,) = r.driver.violations
    assert violation.kind is ViolationKind.RACE
    assert "memset8" in violation.message
    assert "copy_to_host" in violation.message


def test_a_wait_of_the_host_orders_too() -> None:
    r = rig()
    d, other = r.driver, r.driver.stream_create()
    memory = r.device(4)
    d.memset8(memory, 1, 4, r.stream)
    d.stream_synchronize(r.stream)
    d.memset8(memory, 2, 4, other)
    d.context_synchronize()
    assert not d.violations


def test_a_query_that_says_ready_orders_too() -> None:
    r = rig()
    d, other, event = r.driver, r.driver.stream_create(), r.driver.event_create()
    memory = r.device(4)
    d.event_record(event, r.stream)
    while not d.event_ready(event):
        pass
    d.memset8(memory, 2, 4, other)
    d.context_synchronize()
    assert not d.violations


def test_streams_may_read_together_and_write_apart() -> None:
    r = rig()
    d, other = r.driver, r.driver.stream_create()
    memory = r.upload(bytes(16))
    d.stream_synchronize(r.stream)
    targets = r.pinned(bytes(8)), r.pinned(bytes(8))
    d.copy_to_host(targets[0].address, memory, 8, r.stream)
    d.copy_to_host(targets[1].address, memory, 8, other)
    d.memset8(memory + 8, 1, 4, r.stream)
    d.memset8(memory + 12, 1, 4, other)
    d.context_synchronize()
    assert not d.violations


def test_a_free_that_overtakes_a_use_is_a_race_or_a_fault() -> None:
    for seed in SEEDS:
        r = rig(seed=seed)
        d, other = r.driver, r.driver.stream_create()
        memory = r.upload(bytes(8))
        d.stream_synchronize(r.stream)
        d.memset8(memory, 1, 8, other)
        d.mem_free_async(memory, r.stream)
        try:
            d.context_synchronize()
        except Exception:
            assert code_of(d.context_synchronize) == Result.ILLEGAL_ADDRESS
        else:
            assert [v.kind for v in d.violations] == [ViolationKind.RACE]


def test_nothing_runs_before_somebody_looks() -> None:
    r = rig()
    target = r.pinned(bytes(1))
    memory = r.upload(b"x")
    r.driver.copy_to_host(target.address, memory, 1, r.stream)
    assert r.driver.stream_create()
    assert bytes(target.view) == b"\0"
    while not r.driver.stream_ready(r.stream):
        pass
    assert bytes(target.view) == b"x"


def test_a_long_queue_runs_from_its_front() -> None:
    r = rig()
    memory = r.device(1)
    for _ in range(QUEUE_LIMIT + 10):
        r.driver.memset8(memory, 0, 1, r.stream)
    assert r.driver.memory_info().free > 0
    assert not r.driver.stream_ready(r.stream)


def test_an_event_waits_for_its_newest_record_a_stream_for_that_at_the_call() -> None:
    for seed in SEEDS:
        r = rig(seed=seed)
        d, other = r.driver, r.driver.stream_create()
        memory, event, target = r.upload(b"0"), d.event_create(), r.pinned(b"-")
        d.event_record(event, r.stream)
        d.stream_wait_event(other, event)
        d.copy_to_host(target.address, memory, 1, other)
        d.memset8(memory, ord("1"), 1, r.stream)
        d.event_record(event, r.stream)
        d.event_synchronize(event)
        assert d.stream_ready(r.stream)
        d.stream_synchronize(other)
        assert bytes(target.view) in (b"0", b"1")
        assert [v.kind for v in d.violations] == [ViolationKind.RACE]


def test_an_event_that_was_never_recorded_is_ready() -> None:
    r = rig()
    event = r.driver.event_create()
    assert r.driver.event_ready(event)
    r.driver.event_synchronize(event)
    r.driver.stream_wait_event(r.stream, event)
    assert r.driver.stream_ready(r.stream)


def test_a_destroyed_stream_runs_what_it_has() -> None:
    r = rig()
    other = r.driver.stream_create()
    target, memory = r.pinned(b"-"), r.upload(b"x", other)
    r.driver.copy_to_host(target.address, memory, 1, other)
    r.driver.stream_destroy(other)
    assert code_of(lambda: r.driver.stream_ready(other)) == Result.INVALID_HANDLE
    r.driver.context_synchronize()
    assert bytes(target.view) == b"x"


@pytest.mark.parametrize("schedule", StreamSchedule)
def test_threads_share_a_driver(schedule: StreamSchedule) -> None:
    r = rig(schedule=schedule)
    results: dict[int, bytes] = {}

    def work(index: int) -> None:
        r.driver.set_current(r.context)
        stream = r.driver.stream_create()
        for _ in range(20):
            memory = r.upload(bytes([index]) * 64, stream)
            results[index] = r.download(memory, 64, stream)
            r.driver.mem_free_async(memory, stream)
        r.driver.stream_synchronize(stream)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert results == {index: bytes([index]) * 64 for index in range(4)}
    assert not r.driver.violations
