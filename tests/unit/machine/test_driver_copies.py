"""When the emulated driver looks at host memory, and what fresh and freed memory holds."""

from __future__ import annotations

import ctypes

import pytest

from support.machine.driver import code_of, rig
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.streams import StreamSchedule


def _address(array: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(array)


def test_a_copy_from_pinned_memory_reads_when_the_stream_gets_there() -> None:
    r = rig()
    target, staging = r.device(5), r.pinned(b"early")
    r.driver.copy_to_device(target, staging.address, 5, r.stream)
    staging.view[:] = b"late!"
    assert r.download(target, 5) == b"late!"


def test_a_copy_from_pageable_memory_has_read_it_at_the_call() -> None:
    r = rig()
    target, source = r.device(5), ctypes.create_string_buffer(b"early")
    r.driver.copy_to_device(target, _address(source), 5, r.stream)
    source.value = b"late!"
    assert r.download(target, 5) == b"early"


def test_a_copy_to_pageable_memory_is_done_at_the_return() -> None:
    r = rig()
    source, target = r.upload(b"bytes"), ctypes.create_string_buffer(5)
    r.driver.copy_to_host(_address(target), source, 5, r.stream)
    assert target.raw == b"bytes"


def test_a_copy_to_pinned_memory_is_not() -> None:
    r = rig()
    source, target = r.upload(b"bytes"), r.pinned(b"-----")
    r.driver.copy_to_host(target.address, source, 5, r.stream)
    assert bytes(target.view) == b"-----"
    r.driver.stream_synchronize(r.stream)
    assert bytes(target.view) == b"bytes"


def test_eagerly_it_is() -> None:
    r = rig(schedule=StreamSchedule.EAGER)
    source, target = r.upload(b"bytes"), r.pinned(b"-----")
    r.driver.copy_to_host(target.address, source, 5, r.stream)
    assert bytes(target.view) == b"bytes"


def test_fresh_memory_is_poisoned() -> None:
    r = rig()
    assert r.download(r.device(300), 300) == b"\xcd" * 300
    assert bytes(r.driver.host_alloc(7).view) == b"\xcd" * 7


def test_reused_memory_is_poisoned_again() -> None:
    r = rig()
    first = r.upload(b"secret")
    r.driver.mem_free_async(first, r.stream)
    second = r.device(6)
    assert second == first
    assert r.download(second, 6) == b"\xcd" * 6


def test_the_view_of_a_freed_pinned_block_is_dead() -> None:
    r = rig()
    block = r.pinned(b"bytes")
    r.driver.host_free(block)
    with pytest.raises(ValueError, match="released"):
        block.view[0]


def test_what_still_looks_at_a_freed_pinned_block_sees_poison() -> None:
    r = rig()
    block = r.pinned(b"bytes")
    part = block.view[1:3]
    r.driver.host_free(block)
    assert bytes(part) == b"\xdd\xdd"


def test_copies_within_the_device_and_fills() -> None:
    r = rig()
    first, second = r.upload(b"abcdefgh"), r.device(8)
    r.driver.memset8(second, ord("x"), 8, r.stream)
    r.driver.copy_on_device(second + 2, first + 1, 3, r.stream)
    assert r.download(second, 8) == b"xxbcdxxx"


def test_pinned_blocks_are_page_aligned() -> None:
    r = rig()
    assert {r.driver.host_alloc(n).address % 4096 for n in (1, 100, 5000)} == {0}


def test_a_copy_must_stay_in_its_allocations() -> None:
    r = rig()
    device, host = r.device(16), r.pinned(bytes(16))
    d, s = r.driver, r.stream
    calls = (
        lambda: d.copy_to_device(device + 1, host.address, 16, s),
        lambda: d.copy_to_device(device, host.address + 1, 16, s),
        lambda: d.copy_to_device(device, 0, 16, s),
        lambda: d.copy_to_device(0, host.address, 16, s),
        lambda: d.copy_to_host(host.address, device - 1, 16, s),
        lambda: d.copy_on_device(device, device + 8, 9, s),
        lambda: d.memset8(device, 0, 17, s),
        lambda: d.memset8(device, 256, 1, s),
    )
    assert [code_of(call) for call in calls] == [Result.INVALID_VALUE] * len(calls)
    d.copy_to_device(0, 0, 0, s)
    d.stream_synchronize(s)
