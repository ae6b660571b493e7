"""Random use of streams, events and memory: if the emulated driver reports no race, order cannot matter."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from support.machine.driver import rig
from support.profiles import examples
from vyre.adapters.cuda.machine.streams import StreamSchedule

STREAMS, EVENTS, CELLS = 3, 2, 4
CELL = 16
SEEDS = range(4)

Step: TypeAlias = tuple[str, int, int, int]

_stream = st.integers(0, STREAMS - 1)
_event = st.integers(0, EVENTS - 1)
_cell = st.integers(0, CELLS - 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("fill"), _stream, _cell, st.integers(0, 255)),
        st.tuples(st.just("copy"), _stream, _cell, _cell),
        st.tuples(st.just("record"), _stream, _event, st.just(0)),
        st.tuples(st.just("wait"), _stream, _event, st.just(0)),
        st.tuples(st.just("renew"), _stream, _cell, st.just(0)),
        st.tuples(st.just("synchronise"), _stream, st.just(0), st.just(0)),
    ),
    max_size=24,
)


def _run(program: list[Step], schedule: StreamSchedule, seed: int) -> tuple[bool, bytes]:
    """Whether a race was reported, or met as a use of memory that is not there; and all memory in the end."""
    r = rig(schedule=schedule, seed=seed)
    d = r.driver
    streams = [d.stream_create() for _ in range(STREAMS)]
    events = [d.event_create() for _ in range(EVENTS)]
    cells = [r.upload(bytes([index]) * CELL) for index in range(CELLS)]
    d.stream_synchronize(r.stream)
    try:
        for kind, stream, first, second in program:
            assert not d._device.scheduler.broken()
            match kind:
                case "fill":
                    d.memset8(cells[first], second, CELL, streams[stream])
                case "copy" if first != second:
                    d.copy_on_device(cells[first], cells[second], CELL, streams[stream])
                case "record":
                    d.event_record(events[first], streams[stream])
                case "wait":
                    d.stream_wait_event(streams[stream], events[first])
                case "renew":
                    d.mem_free_async(cells[first], streams[stream])
                    cells[first] = d.mem_alloc_async(CELL, r.pool, streams[stream])
                    d.memset8(cells[first], 0, CELL, streams[stream])
                case "synchronise":
                    d.stream_synchronize(streams[stream])
        assert not d._device.scheduler.broken()
        d.context_synchronize()
        assert not d._device.scheduler.broken()
    except Exception as failure:
        assert getattr(failure, "code", None) == 700
        return True, b""
    return bool(d.violations), b"".join(r.download(cell, CELL) for cell in cells)


@given(steps)
@examples(150)
def test_order_matters_only_where_a_race_is_reported(program: list[Step]) -> None:
    runs = {_run(program, StreamSchedule.DEFERRED, seed) for seed in SEEDS}
    runs.add(_run(program, StreamSchedule.EAGER, 0))
    races = {race for race, _ in runs}
    assert len(races) == 1, "a race is reported whatever order the streams ran in"
    if not races.pop():
        assert len(runs) == 1
