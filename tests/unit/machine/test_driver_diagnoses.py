"""A race that the emulated driver finds: who is told, and what still runs."""

from __future__ import annotations

import pickle

import pytest

from driver_contract.ptx import STORE, launch_shape
from support.machine.driver import Rig, code_of, rig
from support.machine.kernels import POINTER_AND_WORD, block, load_kernel, store
from vyre.adapters.cuda.codes import DIAGNOSED, is_sticky, name_of
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.adapters.cuda.seam import CudaCallError, KernelDiagnosis, Launcher
from vyre.domain.races import LanePlace

RACY = """
.visible .entry racy(.param .u64 p0, .param .u32 p1) {
.reg .b64 %rd<4>;
.reg .b32 %r<4>;
ld.param.u64 %rd0, [p0];
mov.u32 %r0, %tid.x;
st.global.u32 [%rd0+8], 5;
st.global.u32 [%rd0+8], %r0;
}
"""
SCHEDULES = pytest.mark.parametrize("schedule", list(StreamSchedule))
WORD = (7).to_bytes(4, "little")


def racing(r: Rig, memory: int) -> Launcher:
    shape = launch_shape(2, 4)
    return r.driver.prepare_launch(load_kernel(r, RACY, "racy"), shape, r.stream, block(POINTER_AND_WORD, memory, 0))


def event_behind(r: Rig, stream: int | None = None) -> int:
    event = r.driver.event_create()
    r.driver.event_record(event, r.stream if stream is None else stream)
    return event


def test_the_code_of_a_diagnosis_is_that_of_no_lost_context() -> None:
    assert not is_sticky(DIAGNOSED)
    assert name_of(DIAGNOSED) == "DIAGNOSED"


@SCHEDULES
def test_everything_recorded_behind_a_race_tells_of_it_until_the_host_knows(schedule: StreamSchedule) -> None:
    r = rig(schedule=schedule)
    memory = r.upload(bytes(64))
    before = event_behind(r)
    racing(r, memory)()
    first, second = event_behind(r), event_behind(r)
    r.driver.event_synchronize(before)
    for event in (first, second, first):
        assert code_of(lambda event=event: r.driver.event_synchronize(event)) == DIAGNOSED  # type: ignore[misc]
        assert code_of(lambda event=event: r.driver.event_ready(event)) == DIAGNOSED  # type: ignore[misc]
    assert r.driver.stream_ready(r.stream), "whoever asked for the stream was told by its events"
    third = event_behind(r)
    r.driver.event_synchronize(third)


@SCHEDULES
def test_a_stream_tells_once(schedule: StreamSchedule) -> None:
    r = rig(schedule=schedule)
    racing(r, r.upload(bytes(64)))()
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == DIAGNOSED
    r.driver.stream_synchronize(r.stream)
    r.driver.context_synchronize()


def test_waiting_for_the_device_is_no_question_about_a_kernel() -> None:
    r = rig()
    racing(r, r.upload(bytes(64)))()
    r.driver.context_synchronize()
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == DIAGNOSED


@SCHEDULES
def test_what_is_behind_a_race_does_not_compute_and_what_comes_later_does(schedule: StreamSchedule) -> None:
    r = rig(schedule=schedule)
    memory, other = r.upload(bytes(256)), r.upload(bytes(256))
    kernel = load_kernel(r, STORE, "store")
    racing(r, other)()
    store(r, kernel, memory, 7, 64)()
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == DIAGNOSED
    assert r.download(memory, 256) == bytes(256)
    store(r, kernel, memory, 7, 64)()
    assert r.download(memory, 256) == WORD * 64


@SCHEDULES
def test_other_streams_hear_of_it_where_they_wait(schedule: StreamSchedule) -> None:
    r = rig(schedule=schedule)
    waiting, apart = r.driver.stream_create(), r.driver.stream_create()
    racing(r, r.upload(bytes(64)))()
    r.driver.stream_wait_event(waiting, event_behind(r))
    behind, beside = event_behind(r, waiting), event_behind(r, apart)
    r.driver.event_synchronize(beside)
    assert code_of(lambda: r.driver.event_synchronize(behind)) == DIAGNOSED


def test_a_graph_ends_at_a_race() -> None:
    r = rig()
    memory = r.upload(bytes(256))
    graph = r.driver.graph_create()
    event = r.driver.event_create()
    parameters = block(POINTER_AND_WORD, memory, 0)
    node = r.driver.graph_add_kernel(graph, [], load_kernel(r, RACY, "racy"), launch_shape(2, 4), parameters)
    r.driver.graph_add_event_record(graph, [node], event)
    r.driver.prepare_graph_launch(r.driver.graph_instantiate(graph), r.stream)()
    assert code_of(lambda: r.driver.event_synchronize(event)) == DIAGNOSED
    r.driver.stream_synchronize(r.stream)


def test_a_finding_names_both_accesses_and_reads_what_a_table_would_hold() -> None:
    r = rig(kernels=RunOptions())
    memory = r.upload(bytes(64))
    racing(r, memory)()
    with pytest.raises(KernelDiagnosis) as info:
        r.driver.stream_synchronize(r.stream)
    finding = info.value.finding
    assert finding is not None
    assert (finding.entry, finding.space, finding.address) == ("racy", "global", memory + 8)
    lines = {access.line for access in finding.accesses}
    assert [access.kind for access in finding.accesses] == ["store", "store"]
    assert all(isinstance(access.lane, LanePlace) for access in finding.accesses)
    assert lines == {10, 11}
    assert finding.parameters[:8] == memory.to_bytes(8, "little")
    assert len(finding.read(memory, 4)) == 4
    copied = pickle.loads(pickle.dumps(info.value))
    assert isinstance(copied, KernelDiagnosis) and isinstance(copied, CudaCallError)
    assert (copied.code, copied.finding) == (DIAGNOSED, None)


def test_a_launch_may_ask_for_the_check() -> None:
    r = rig(kernels=RunOptions(check_races=False))
    memory = r.upload(bytes(64))
    racing(r, memory)()
    r.driver.stream_synchronize(r.stream)
    shape = launch_shape(2, 4)._replace(race_check=True)
    kernel = load_kernel(r, RACY, "racy")
    r.driver.prepare_launch(kernel, shape, r.stream, block(POINTER_AND_WORD, memory, 0))()
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == DIAGNOSED
