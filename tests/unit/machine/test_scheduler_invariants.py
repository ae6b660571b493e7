"""The invariants of the machine's two schedulers: they hold after each step, and their checks find what breaks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pytest

from support.cuda.ptx_runs import SCHEDULES, kernel, run, zeros
from support.machine import invariants as machine_invariants
from support.machine.driver import Rig, rig
from vyre.adapters.cuda.machine import execution
from vyre.adapters.cuda.machine.launch import Batch, Launch, Parked, Strand
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.machine.streams import Completion, Scheduler, Stream, StreamSchedule


def queued() -> tuple[Rig, Scheduler, list[Stream]]:
    """Two streams with three operations each; the second one awaits an event of the first."""
    r = rig(schedule=StreamSchedule.DEFERRED)
    d, device = r.driver, r.driver._device
    cell, event, streams = r.upload(bytes(16)), r.driver.event_create(), [d.stream_create(), d.stream_create()]
    d.stream_synchronize(r.stream)
    for stream in streams:
        d.memset8(cell, 1, 16, stream)
        d.event_record(event, stream)
        d.stream_wait_event(streams[1], event)
    assert not device.scheduler.broken()
    return r, device.scheduler, [device.handles.streams[stream] for stream in streams]


def empty(_: Scheduler, streams: list[Stream]) -> None:
    streams[0].queue.clear()


def done(_: Scheduler, streams: list[Stream]) -> None:
    streams[0].queue[1].completion.done = True


def last(_: Scheduler, streams: list[Stream]) -> None:
    streams[0].last = Completion()


def uncounted(_: Scheduler, streams: list[Stream]) -> None:
    streams[0].queue[0].completion.clock = {}


def unordered(_: Scheduler, streams: list[Stream]) -> None:
    awaiting = next(operation for operation in streams[1].queue if operation.after)
    awaiting.completion.clock.pop(streams[0].handle)


def seen(scheduler: Scheduler, streams: list[Stream]) -> None:
    scheduler.host_clock = dict(streams[1].clock)


def in_a_circle(_: Scheduler, streams: list[Stream]) -> None:
    for one, other in (streams, streams[::-1]):
        first, awaited = one.queue[0], other.queue[0].completion
        first.after = (awaited,)
        for operation in one.queue:  # as if each of the two streams had been first
            operation.completion.clock |= {other.handle: awaited.clock[other.handle]}
    for stream in streams:
        stream.clock = stream.queue[-1].completion.clock


@pytest.mark.parametrize(
    ("breaks", "tells"),
    [
        (empty, "busy with nothing"),
        (done, "is done and left to run"),
        (last, "has not the clock of its last operation"),
        (uncounted, "is not operation 1"),
        (unordered, "does not come after what it awaits"),
        (seen, "the host has seen the end"),
        (in_a_circle, "every stream awaits another one"),
    ],
)
def test_a_broken_order_of_streams_is_found(breaks: Callable[[Scheduler, list[Stream]], None], tells: str) -> None:
    _, scheduler, streams = queued()
    breaks(scheduler, streams)
    assert tells in scheduler.broken()


def test_streams_that_await_each_other_are_an_error_and_no_endless_wait() -> None:
    r, scheduler, streams = queued()
    in_a_circle(scheduler, streams)
    with pytest.raises(RuntimeError, match="every stream awaits another one"):
        r.driver.stream_synchronize(streams[0].handle)


def test_the_order_of_streams_holds_until_all_operations_have_run() -> None:
    r, scheduler, streams = queued()
    while not r.driver.stream_ready(streams[1].handle):
        assert not scheduler.broken()
    r.driver.context_synchronize()
    assert not scheduler.broken() and not any(stream.queue for stream in streams)


# Lanes leave a loop at different times, wait at a barrier in between, and end at different places.
MEETING: Final = """
ld.param.u64 %rd0, [a]; and.b32 %r4, %r3, 7; mov.u32 %r9, 0;
$LOOP:
setp.ge.u32 %p0, %r9, %r4; @%p0 bra $MET;
add.u32 %r9, %r9, 1; bra $LOOP;
$MET:
bar.sync 0;
setp.ge.u32 %p1, %r4, 6; @%p1 bra $DONE;
add.u32 %r9, %r9, 100;
$DONE:
mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r9;
"""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Batch]]:
    """The batches of which each basic block was followed by a check."""
    checked: list[Batch] = []
    execute = execution._Scheduler._execute

    def run_and_check(self: execution._Scheduler, strand: Strand) -> bool:
        ran = execute(self, strand)
        assert not machine_invariants.broken(strand.batch)
        checked.append(strand.batch)
        return ran

    monkeypatch.setattr(execution._Scheduler, "_execute", run_and_check)
    yield checked


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: f"{o.schedule}{o.seed}")
def test_each_lane_is_in_one_place_after_each_basic_block(options: RunOptions, watched: list[Batch]) -> None:
    result = run(kernel(MEETING), zeros(192), grid=3, block=64, options=options)
    assert result.tolist() == [lane % 8 + (0 if lane % 8 >= 6 else 100) for lane in range(192)]
    assert len(watched) > 20


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> Batch:
    """A batch of two blocks of 64 lanes: 16 lanes of each are parked at barrier 0, the others are in two groups."""
    made: list[Launch] = []
    start = execution._Scheduler._start

    def started(self: execution._Scheduler, blocks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Batch:
        made.append(self._launch)
        return start(self, blocks)

    monkeypatch.setattr(execution._Scheduler, "_start", started)
    run(kernel(MEETING), zeros(128), grid=2, block=64)
    found = Batch(made[0], np.arange(2))
    strand = Strand(found, np.arange(128))
    thread = np.arange(128) % 64
    strand.groups = {1: np.flatnonzero((thread >= 16) & (thread < 32)), 2: np.flatnonzero(thread >= 32)}
    strand.parked = [Parked(0, 3, 4, np.flatnonzero(thread < 16))]
    found.strands, found.arrived = [strand], {0: np.array([16, 16])}
    assert not machine_invariants.broken(found)
    return found


def all_of_them(batch: Batch) -> None:
    batch.strands[0].groups[1] = None


def twice(batch: Batch) -> None:
    batch.strands[0].groups[5] = np.arange(3)


def nowhere(batch: Batch) -> None:
    del batch.strands[0].groups[1]


def elsewhere(batch: Batch) -> None:
    batch.strands[0].parked[0] = batch.strands[0].parked[0]._replace(barrier=1)


def miscounted(batch: Batch) -> None:
    batch.arrived[0][1] = 15


def whole(batch: Batch) -> None:
    strand = batch.strands[0]
    for positions in strand.groups.values():
        assert positions is not None
        strand.parked.append(Parked(0, 3, 4, positions))
    strand.groups.clear()
    batch.arrived[0][:] = 64


@pytest.mark.parametrize(
    ("breaks", "tells"),
    [
        (all_of_them, "a group of all lanes is not alone"),
        (twice, "is in 2 places"),
        (nowhere, "lanes live"),
        (elsewhere, "where none has arrived"),
        (miscounted, "lanes are parked at barrier 0"),
        (whole, "is parked whole"),
    ],
)
def test_a_broken_order_of_lanes_is_found(breaks: Callable[[Batch], None], tells: str, batch: Batch) -> None:
    breaks(batch)
    assert tells in machine_invariants.broken(batch)
