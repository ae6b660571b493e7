"""Start, devices, contexts, and what needs one."""

from __future__ import annotations

from typing import Final

from support.driver_cases.case import ORDINAL, Subject, Suite
from vyre.adapters.cuda.codes import Attribute, Result

SUITE: Final = Suite()
case = SUITE.case


# ---------------------------------------------------------------- devices
@case()
def init_may_be_called_again(s: Subject) -> None:
    s.driver.init()
    assert s.driver.device_count() >= 1


@case()
def the_version_is_one_of_cuda(s: Subject) -> None:
    version = s.driver.driver_version()
    assert version >= 12_000
    assert version % 10 == 0


@case()
def a_device_is_described(s: Subject) -> None:
    assert s.driver.device_name(ORDINAL).strip("\0 ") == s.driver.device_name(ORDINAL) != ""
    assert len(s.driver.device_uuid(ORDINAL)) == 16
    assert s.driver.device_memory(ORDINAL) >= s.driver.memory_info().total > 0


@case()
def every_attribute_has_a_value(s: Subject) -> None:
    values = {a: s.driver.device_attribute(ORDINAL, a) for a in Attribute}
    assert values[Attribute.WARP_SIZE] == 32
    assert values[Attribute.MAX_BLOCK_DIM_X] >= values[Attribute.MAX_THREADS_PER_BLOCK] >= 32
    assert values[Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] >= values[Attribute.MAX_SHARED_MEMORY_PER_BLOCK] > 0
    assert values[Attribute.COMPUTE_CAPABILITY_MAJOR] >= 7
    assert values[Attribute.MULTIPROCESSOR_COUNT] > 0


@case()
def an_attribute_that_does_not_exist_is_refused(s: Subject) -> None:
    s.fails(Result.INVALID_VALUE, lambda: s.driver.device_attribute(ORDINAL, 99_999))


@case()
def a_device_that_does_not_exist_is_refused(s: Subject) -> None:
    for ordinal in (-1, s.driver.device_count(), 1000):
        for call in (
            s.driver.device_name,
            s.driver.device_uuid,
            s.driver.device_memory,
            lambda o: s.driver.device_attribute(o, Attribute.WARP_SIZE),
            s.driver.primary_retain,
            s.driver.context_create,
        ):
            s.fails(Result.INVALID_DEVICE, lambda call=call, ordinal=ordinal: call(ordinal))  # type: ignore[misc]


# ---------------------------------------------------------------- contexts
@case()
def the_primary_context_is_one_and_counted(s: Subject) -> None:
    assert s.driver.primary_retain(ORDINAL) == s.context
    s.driver.primary_release(ORDINAL)
    s.driver.context_synchronize()


@case()
def a_new_thread_has_no_context(s: Subject) -> None:
    def work() -> None:
        for call in (
            s.driver.stream_create,
            s.driver.event_create,
            s.driver.memory_info,
            s.driver.context_synchronize,
            lambda: s.driver.mem_alloc(16),
            lambda: s.driver.host_alloc(16),
        ):
            s.fails(Result.INVALID_CONTEXT, call)

    s.in_thread(work)


@case()
def each_thread_sets_its_own_context(s: Subject) -> None:
    def work() -> None:
        s.driver.set_current(s.context)
        stream = s.driver.stream_create()
        s.driver.stream_synchronize(stream)
        s.driver.stream_destroy(stream)
        s.driver.set_current(0)

    s.in_thread(work)
    s.driver.context_synchronize()


@case()
def no_context_can_be_made_current(s: Subject) -> None:
    s.driver.set_current(0)
    s.fails(Result.INVALID_CONTEXT, s.driver.stream_create)
    s.driver.set_current(s.context)
    s.new_stream()


@case()
def a_created_context_becomes_current(s: Subject) -> None:
    own = s.driver.context_create(ORDINAL)
    assert own not in (0, s.context)
    stream = s.driver.stream_create()
    s.driver.stream_synchronize(stream)
    s.driver.stream_destroy(stream)
    s.driver.context_destroy(own)
    s.fails(Result.INVALID_CONTEXT, s.driver.stream_create)
    s.driver.set_current(s.context)
    s.driver.context_synchronize()


@case()
def events_and_streams_of_two_contexts_do_not_mix(s: Subject) -> None:
    event = s.new_event()
    own = s.driver.context_create(ORDINAL)
    foreign = s.driver.stream_create()
    s.fails(Result.INVALID_HANDLE, lambda: s.driver.event_record(event, foreign))
    s.driver.stream_destroy(foreign)
    s.driver.context_destroy(own)
    s.driver.set_current(s.context)


@case(invents_handles=True)
def a_made_up_context_is_refused(s: Subject) -> None:
    s.fails(Result.INVALID_CONTEXT, lambda: s.driver.set_current(0xDEAD_0000))
    s.fails(Result.INVALID_CONTEXT, lambda: s.driver.context_destroy(0xDEAD_0000))


@case(invents_handles=True)
def a_context_is_destroyed_once(s: Subject) -> None:
    own = s.driver.context_create(ORDINAL)
    s.driver.context_destroy(own)
    s.fails(Result.INVALID_CONTEXT, lambda: s.driver.context_destroy(own))
    s.fails(Result.CONTEXT_IS_DESTROYED, lambda: s.driver.set_current(own))
    s.driver.set_current(s.context)
