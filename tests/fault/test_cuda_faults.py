"""Every driver call of every way to use the backend fails once, in three kinds.

After each: a typed error that says what to do, no hang, nothing leaked but what could not be released, and a backend
that works on, or refuses clearly and works again after ``recover``.
"""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from support.cuda.scenarios import RECORDING, SCENARIOS, Scenario
from support.profiles import SOAK
from vyre.adapters.cuda.machine.fault_plan import NO_FAULTS, Fault, FaultPlan
from vyre.domain.errors import BackendError, DeviceLost
from vyre.testing import CudaMachine, cuda_machine

KINDS: Final = {"out of memory": 2, "invalid value": 1, "illegal address": 700}
STICKY: Final = 700
EACH: Final = 1 if SOAK else len(KINDS)
"""Outside a soak each call fails in one of the ways, and where there are many calls, one in several of them."""
MOST: Final = 20
"""Calls that fail in a scenario in one way, outside a soak, about."""
RELEASES: Final = {
    "stream_destroy": "stream",
    "event_destroy": "event",
    "pool_destroy": "pool",
    "mem_free_async": "device_memory",
    "mem_free": "device_memory",
    "host_free": "host_memory",
    "library_unload": "library",
    "graph_destroy": "graph",
    "graph_exec_destroy": "graph_exec",
    "primary_release": "context",
}


def use(machine: CudaMachine, scenario: Scenario) -> bytes:
    machine.backend.lifecycle.prepare()
    return scenario(machine.backend)


def calls_of(scenario: Scenario) -> int:
    """Driver calls from opening to closing."""
    machine = cuda_machine(RECORDING)
    use(machine, scenario)
    machine.backend.lifecycle.close()
    assert not any(machine.driver.live().values()), "a run without faults leaks"
    return sum(machine.driver.calls.values())


def check_error(error: BaseException) -> None:
    assert isinstance(error, BackendError), repr(error)
    assert "Fix: " in str(error) and error.code


def permitted_leftovers(machine: CudaMachine) -> Counter[str]:
    """Handles whose own release was made to fail; most of them go with the context in the end.

    A pool outlives the memory that it could not take back.
    """
    failed = Counter(RELEASES.get(record.method, "") for record in machine.driver.trace if record.code)
    failed["pool"] += failed["device_memory"]
    return failed


def close(machine: CudaMachine) -> None:
    """What could not be given back is reported, after everything else was."""
    gc.collect()
    try:
        machine.backend.lifecycle.close()
    except BackendError as error:
        check_error(error)
    machine.backend.lifecycle.close()


def run_with_fault(scenario: Scenario, expected: bytes, nth: int, code: int) -> None:
    try:
        machine = cuda_machine(RECORDING, trace=True, faults=FaultPlan(calls=(Fault(code=code, nth=nth),)))
    except BackendError as error:  # found while probing: there is no backend
        check_error(error)
        return
    lifecycle = machine.backend.lifecycle
    recovered = False
    try:
        assert use(machine, scenario) == expected
    except BackendError as error:
        check_error(error)
        gc.collect()  # buffers that the scenario could not close
        if code == STICKY and lifecycle.device_lost():
            refused_clearly(machine, scenario)
            lifecycle.recover()
            recovered = True
        machine.driver.inject(NO_FAULTS)
        assert use(machine, scenario) == expected, "the next use"
    close(machine)
    if code != STICKY:
        assert Counter(machine.driver.live()) <= permitted_leftovers(machine)
    elif recovered:
        assert not any(machine.driver.live().values())
    assert not machine.driver.violations, machine.driver.violations


def refused_clearly(machine: CudaMachine, scenario: Scenario) -> None:
    """A lost device: one clear error, and no call made for it."""
    before = sum(machine.driver.calls.values())
    with pytest.raises(DeviceLost) as caught:
        scenario(machine.backend)
    check_error(caught.value)
    assert "recover()" in str(caught.value)
    assert sum(machine.driver.calls.values()) == before


@pytest.fixture(autouse=True)
def brief_collections() -> None:
    """Each failing call collects: only what the test itself made, however much the process holds by now."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A resident buffer that a failing scenario could not close warns when it is collected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_each_call_fails_once(name: str, kind: str) -> None:
    scenario, expected = SCENARIOS[name]
    calls = calls_of(scenario)
    step = EACH if SOAK else EACH * (1 + calls // (EACH * MOST))
    for nth in range(1 + [*KINDS].index(kind) % EACH, calls + 1, step):
        try:
            run_with_fault(scenario, expected, nth, KINDS[kind])
        except BaseException as error:
            error.add_note(f"call number {nth} of `{name}` fails with {kind}")
            raise
