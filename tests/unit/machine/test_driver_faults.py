"""Faults made to order, lost contexts, and calls that must not be made."""

from __future__ import annotations

import os
import threading

import pytest

from support.limits import LIMIT_S
from support.machine.driver import Rig, code_of, rig
from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.adapters.cuda.machine.journal import ViolationKind
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.seam import CudaCallError

KINDS = (Result.OUT_OF_MEMORY, Result.INVALID_VALUE, Result.ILLEGAL_ADDRESS)


def _session(r: Rig) -> None:
    """One of most kinds of calls, released in the end."""
    memory = r.upload(b"0123456789")
    event = r.driver.event_create()
    r.driver.event_record(event, r.stream)
    assert r.download(memory, 10) == b"0123456789"
    r.driver.mem_free_async(memory, r.stream)
    r.driver.event_destroy(event)
    r.driver.stream_synchronize(r.stream)


def _calls_of_a_session() -> int:
    r = rig()
    before = r.driver.calls.total()
    _session(r)
    return r.driver.calls.total() - before


@pytest.mark.parametrize("code", KINDS)
def test_every_call_can_be_made_to_fail(code: Result) -> None:
    for nth in range(1, _calls_of_a_session() + 1):
        r = rig()
        r.driver.inject(FaultPlan(calls=(Fault(code=code, nth=nth),)))
        with pytest.raises(CudaCallError) as failure:
            _session(r)
        assert failure.value.code == code
        expected = Result.ILLEGAL_ADDRESS if code == Result.ILLEGAL_ADDRESS else None
        if expected is None:
            r.driver.context_synchronize()
        else:
            assert code_of(r.driver.context_synchronize) == expected


def test_a_method_can_be_made_to_fail() -> None:
    r = rig(faults=FaultPlan(calls=(Fault(code=Result.OUT_OF_MEMORY, method="host_alloc", nth=2),)))
    r.driver.host_alloc(8)
    assert code_of(lambda: r.driver.host_alloc(8)) == Result.OUT_OF_MEMORY
    r.driver.host_alloc(8)
    assert r.driver.live()["host_memory"] == 2


def test_a_release_that_fails_leaves_the_handle() -> None:
    r = rig(faults=FaultPlan(calls=(Fault(code=Result.INVALID_VALUE, method="stream_destroy"),)))
    assert code_of(lambda: r.driver.stream_destroy(r.stream)) == Result.INVALID_VALUE
    assert r.driver.live()["stream"] == 1
    r.driver.stream_destroy(r.stream)
    assert r.driver.live()["stream"] == 0


def test_an_operation_can_be_made_to_fault_when_it_runs() -> None:
    r = rig(faults=FaultPlan(runs=(Fault(code=Result.LAUNCH_FAILED, method="memset8", nth=2),)))
    memory = r.device(4)
    for _ in range(3):
        r.driver.memset8(memory, 0, 4, r.stream)
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == Result.LAUNCH_FAILED


def _lost() -> Rig:
    r = rig(faults=FaultPlan(runs=(Fault(code=Result.ILLEGAL_ADDRESS, method="memset8"),)))
    r.driver.memset8(r.device(4), 0, 4, r.stream)
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == Result.ILLEGAL_ADDRESS
    return r


def test_a_lost_context_answers_every_call_with_the_first_error() -> None:
    r = _lost()
    d = r.driver
    calls = (
        lambda: d.stream_ready(r.stream),
        lambda: d.stream_create(),
        lambda: d.mem_alloc_async(4, r.pool, r.stream),
        lambda: d.memory_info(),
        lambda: d.stream_destroy(r.stream),
        lambda: d.pool_destroy(r.pool),
        lambda: d.library_load(b"\0"),
        lambda: d.graph_create(),
        lambda: d.context_synchronize(),
    )
    assert [code_of(call) for call in calls] == [Result.ILLEGAL_ADDRESS] * len(calls)
    assert d.driver_version() == 13_000
    assert d.device_count() == 1


def test_a_reset_makes_a_new_primary_context_and_takes_everything() -> None:
    r = _lost()
    r.driver.primary_reset(0)
    assert r.driver.live() == dict.fromkeys(r.driver.live(), 0) | {"context": 1}
    assert code_of(lambda: r.driver.stream_ready(r.stream)) == Result.INVALID_HANDLE
    fresh = Rig(r.driver, r.context, r.driver.stream_create(), r.driver.pool_create(0))
    _session(fresh)


def test_another_context_goes_on() -> None:
    r = _lost()
    own = r.driver.context_create(0)
    _session(Rig(r.driver, own, r.driver.stream_create(), r.pool))
    r.driver.set_current(r.context)
    assert code_of(lambda: r.driver.stream_ready(r.stream)) == Result.ILLEGAL_ADDRESS


def test_a_process_may_be_past_saving() -> None:
    plan = FaultPlan(runs=(Fault(code=Result.ILLEGAL_ADDRESS),))
    r = rig(faults=plan, recoverable=False)
    r.device(4)
    assert code_of(lambda: r.driver.stream_synchronize(r.stream)) == Result.ILLEGAL_ADDRESS
    assert code_of(lambda: r.driver.primary_reset(0)) == Result.ILLEGAL_ADDRESS
    assert code_of(lambda: r.driver.context_create(0)) == Result.ILLEGAL_ADDRESS


def test_releasing_the_last_reference_takes_what_the_context_had() -> None:
    r = rig()
    r.upload(b"left behind")
    r.driver.pool_destroy(r.pool)
    r.driver.primary_release(0)
    assert r.driver.live() == dict.fromkeys(r.driver.live(), 0)
    assert code_of(r.driver.context_synchronize) == Result.CONTEXT_IS_DESTROYED
    assert code_of(lambda: r.driver.primary_release(0)) == Result.INVALID_CONTEXT


def test_what_belongs_to_another_context_is_refused() -> None:
    r = rig()
    d, event, memory = r.driver, r.driver.event_create(), r.device(4)
    own = d.context_create(0)
    stream = d.stream_create()
    assert code_of(lambda: d.event_record(event, stream)) == Result.INVALID_HANDLE
    assert code_of(lambda: d.memset8(memory, 0, 4, r.stream)) == Result.INVALID_HANDLE
    assert code_of(lambda: d.mem_free_async(memory, stream)) == Result.INVALID_VALUE
    d.stream_wait_event(stream, event)
    d.context_destroy(own)
    assert code_of(d.context_synchronize) == Result.INVALID_CONTEXT
    assert code_of(lambda: d.set_current(own)) == Result.CONTEXT_IS_DESTROYED


def test_each_thread_makes_a_context_current_for_itself() -> None:
    r = rig()
    codes: list[int] = []

    def work() -> None:
        codes.append(code_of(r.driver.context_synchronize))
        r.driver.set_current(r.context)
        r.driver.context_synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(LIMIT_S)
    assert codes == [Result.INVALID_CONTEXT]


def test_before_init_and_without_a_device() -> None:
    driver = MachineDriver()
    assert code_of(driver.device_count) == Result.NOT_INITIALIZED
    assert code_of(driver.stream_create) == Result.NOT_INITIALIZED
    assert driver.driver_version() == 13_000
    absent = MachineDriver(MachineOptions(present=False))
    assert code_of(absent.init) == Result.NO_DEVICE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_call_in_a_forked_process_is_a_violation() -> None:
    r = rig()
    with r.driver.gate.lock:  # as if another thread were in a call
        child = os.fork()
    if child == 0:
        refused = code_of(lambda: r.driver.stream_ready(r.stream)) == Result.NOT_INITIALIZED
        noticed = [v.kind for v in r.driver.violations] == [ViolationKind.FORKED]
        os._exit(0 if refused and noticed else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert r.driver.stream_ready(r.stream)


def test_a_call_after_finalisation_is_a_violation() -> None:
    r = rig()
    r.driver.finalise()
    assert code_of(lambda: r.driver.stream_destroy(r.stream)) == Result.DEINITIALIZED
    assert [v.kind for v in r.driver.violations] == [ViolationKind.FINALISED]


def test_the_trace_has_every_call_with_its_arguments_and_code() -> None:
    r = rig(trace=True)
    code_of(lambda: r.driver.host_alloc(0))
    last = r.driver.trace[-1]
    assert (last.method, last.arguments, last.code) == ("host_alloc", {"nbytes": 0}, Result.INVALID_VALUE)
    assert len(r.driver.trace) == r.driver.calls.total()


def test_an_error_says_what_was_called_with_what_and_why() -> None:
    r = rig()
    with pytest.raises(
        CudaCallError, match=r"cuMemHostAlloc\(nbytes=0\) failed with CUDA_ERROR_INVALID_VALUE \(1\): 0"
    ):
        r.driver.host_alloc(0)
