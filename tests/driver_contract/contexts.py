"""Start, devices and contexts."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from driver_contract.case import Cases
from driver_contract.rig import AnyRig, code_of
from vyre.adapters.cuda.codes import Attribute, Result

CASES: Final = Cases()
T = TypeVar("T")


def _in_a_fresh_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


@CASES()
def init_can_be_repeated(rig: AnyRig) -> None:
    rig.driver.init()
    assert rig.driver.stream_ready(rig.stream)


@CASES()
def version_is_thousands_and_tens(rig: AnyRig) -> None:
    version = rig.driver.driver_version()
    assert version >= 12_000
    assert version % 10 == 0


@CASES()
def device_states_name_uuid_and_memory(rig: AnyRig) -> None:
    assert rig.driver.device_count() >= 1
    assert rig.driver.device_name(0)
    assert len(rig.driver.device_uuid(0)) == 16
    assert rig.driver.device_memory(0) > 2**27


@CASES()
def every_attribute_that_is_named_can_be_asked_for(rig: AnyRig) -> None:
    values = {attribute: rig.driver.device_attribute(0, attribute) for attribute in Attribute}
    assert values[Attribute.WARP_SIZE] == 32
    assert values[Attribute.MULTIPROCESSOR_COUNT] > 0
    assert values[Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] >= values[Attribute.MAX_SHARED_MEMORY_PER_BLOCK]


@CASES()
def unknown_attribute_is_an_invalid_value(rig: AnyRig) -> None:
    assert code_of(lambda: rig.driver.device_attribute(0, 10**6)) == Result.INVALID_VALUE


@CASES()
def device_beyond_the_last_is_invalid(rig: AnyRig) -> None:
    driver, beyond = rig.driver, rig.driver.device_count()
    calls: tuple[Callable[[], object], ...] = (
        lambda: driver.device_name(beyond),
        lambda: driver.device_uuid(beyond),
        lambda: driver.device_memory(beyond),
        lambda: driver.device_attribute(beyond, Attribute.WARP_SIZE),
        lambda: driver.primary_retain(beyond),
        lambda: driver.context_create(beyond),
    )
    assert {code_of(call) for call in calls} == {Result.INVALID_DEVICE}


@CASES()
def retaining_again_gives_the_same_context(rig: AnyRig) -> None:
    assert rig.driver.primary_retain(0) == rig.context
    rig.driver.primary_release(0)
    rig.driver.set_current(rig.context)
    rig.driver.context_synchronize()


@CASES()
def fresh_thread_has_no_current_context(rig: AnyRig) -> None:
    driver = rig.driver
    calls: tuple[Callable[[], object], ...] = (
        driver.context_synchronize,
        driver.stream_create,
        driver.event_create,
        lambda: driver.mem_alloc(16),
        lambda: driver.host_alloc(16),
        driver.memory_info,
    )
    codes = _in_a_fresh_thread(lambda: {code_of(call) for call in calls})
    assert codes == {Result.INVALID_CONTEXT}


@CASES()
def current_context_belongs_to_the_thread(rig: AnyRig) -> None:
    def elsewhere() -> int:
        rig.driver.set_current(rig.context)
        stream = rig.driver.stream_create()
        rig.driver.stream_destroy(stream)
        rig.driver.set_current(0)
        return stream

    assert _in_a_fresh_thread(elsewhere)
    rig.driver.context_synchronize()


@CASES()
def null_context_makes_none_current(rig: AnyRig) -> None:
    rig.driver.set_current(0)
    assert code_of(rig.driver.context_synchronize) == Result.INVALID_CONTEXT
    rig.driver.set_current(rig.context)
    rig.driver.context_synchronize()


@CASES()
def created_context_is_current_and_another(rig: AnyRig) -> None:
    created = rig.driver.context_create(0)
    try:
        assert created != rig.context
        stream = rig.driver.stream_create()
        rig.driver.stream_synchronize(stream)
    finally:
        rig.driver.context_destroy(created)
        rig.driver.set_current(rig.context)


@CASES(hardware=False)
def destroyed_context_cannot_be_destroyed_or_made_current(rig: AnyRig) -> None:
    created = rig.driver.context_create(0)
    rig.driver.context_destroy(created)
    assert code_of(lambda: rig.driver.context_destroy(created)) == Result.INVALID_CONTEXT
    assert code_of(lambda: rig.driver.set_current(created)) in (Result.INVALID_CONTEXT, Result.CONTEXT_IS_DESTROYED)


@CASES()
def synchronizing_the_context_waits_for_every_stream(rig: AnyRig) -> None:
    streams = [rig.stream, rig.driver.stream_create()]
    blocks = [rig.pinned(bytes(64)) for _ in streams]
    for stream, block in zip(streams, blocks, strict=True):
        rig.driver.copy_to_host(block.address, rig.upload(b"x" * 64, stream), 64, stream)
    rig.driver.context_synchronize()
    assert [bytes(block.view) for block in blocks] == [b"x" * 64] * 2
