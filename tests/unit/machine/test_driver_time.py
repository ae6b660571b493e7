"""Virtual time of the emulated driver: deterministic, and overlapping where engines and streams let it."""

from __future__ import annotations

import pytest

from support.machine.driver import Rig, code_of, rig
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.presets import H200

MIB = 1 << 20
LINK_NS = H200.speed.copy(MIB, over_link=True)


def _upload_and_download(r: Rig, *, streams: int) -> float:
    """Milliseconds of a copy each way, in one stream or in two."""
    d = r.driver
    up, down = r.stream, r.stream if streams == 1 else d.stream_create()
    first, second, host = r.device(MIB), r.device(MIB), r.driver.host_alloc(2 * MIB)
    start, ends = d.event_create(timing=True), [d.event_create(timing=True) for _ in range(2)]
    d.context_synchronize()
    d.event_record(start, up)
    d.copy_to_device(first, host.address, MIB, up)
    d.event_record(ends[0], up)
    d.copy_to_host(host.address + MIB, second, MIB, down)
    d.event_record(ends[1], down)
    d.context_synchronize()
    return max(d.event_elapsed_ms(start, end) for end in ends)


def test_copies_take_their_latency_and_their_bytes() -> None:
    assert _upload_and_download(rig(), streams=1) == pytest.approx(2 * LINK_NS / 1e6, rel=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_copies_of_both_directions_overlap_in_two_streams(seed: int) -> None:
    assert _upload_and_download(rig(seed=seed), streams=2) == pytest.approx(LINK_NS / 1e6, rel=0.1)


def test_the_same_program_takes_the_same_time() -> None:
    assert len({_upload_and_download(rig(), streams=2) for _ in range(3)}) == 1


def test_a_wait_skips_to_the_end_of_what_it_waits_for() -> None:
    r = rig()
    before = r.driver.virtual_ns
    r.upload(bytes(MIB))
    assert r.driver.virtual_ns - before < LINK_NS
    r.driver.stream_synchronize(r.stream)
    assert r.driver.virtual_ns - before >= LINK_NS


def test_elapsed_time_needs_two_timing_events_that_are_done() -> None:
    r = rig()
    d = r.driver
    plain, timing, late = d.event_create(), d.event_create(timing=True), d.event_create(timing=True)
    d.event_record(plain, r.stream)
    d.event_record(timing, r.stream)
    d.stream_synchronize(r.stream)
    assert code_of(lambda: d.event_elapsed_ms(plain, timing)) == Result.INVALID_HANDLE
    assert code_of(lambda: d.event_elapsed_ms(timing, late)) == Result.INVALID_HANDLE
    d.event_record(late, r.stream)
    assert code_of(lambda: d.event_elapsed_ms(timing, late)) == Result.NOT_READY
    d.event_synchronize(late)
    assert d.event_elapsed_ms(timing, late) > 0
    assert d.event_elapsed_ms(late, timing) < 0
