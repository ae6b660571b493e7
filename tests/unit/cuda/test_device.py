"""The life of a device: its calls, its loss, its end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.presets import H200
from vyre.adapters.cuda.runtime.device import CudaDevice, CudaOptions, DeviceMember, release_all
from vyre.adapters.cuda.runtime.memory import DeviceMemory
from vyre.adapters.cuda.seam import CudaCallError
from vyre.domain.errors import BackendError, BackendUnavailable, DeviceLost, DispatchFailed
from vyre.domain.ir.program import BackendId

STICKY = Result.ILLEGAL_ADDRESS


def made(*, options: CudaOptions | None = None, **machine: Any) -> tuple[CudaDevice, MachineDriver]:
    driver = MachineDriver(MachineOptions(**machine))
    return CudaDevice(driver, options or CudaOptions(), backend=BackendId("cuda-machine")), driver


def lose(device: CudaDevice, driver: MachineDriver) -> DeviceLost:
    device.flush()
    driver.inject(FaultPlan(calls=(Fault(code=STICKY),)))
    with pytest.raises(DeviceLost) as caught:
        device.flush()
    return caught.value


@dataclass
class Member(DeviceMember):
    log: list[str] = field(default_factory=list)
    name: str = ""

    def release(self) -> None:
        self.log.append(f"release {self.name}")

    def forget(self) -> None:
        self.log.append(f"forget {self.name}")


# ---------------------------------------------------------------- opening
def test_making_a_device_calls_nothing_and_facts_need_no_context() -> None:
    device, driver = made()
    assert not driver.calls
    assert device.facts.target == 90
    assert driver.live()["context"] == 0


def test_the_first_use_opens_and_opening_again_does_nothing() -> None:
    device, driver = made()
    with device.calls:
        device.driver.memory_info()
    device.prepare()
    device.prepare()
    assert driver.calls["primary_retain"] == 1
    device.close()


def test_the_context_is_made_current_once_a_thread() -> None:
    device, driver = made()

    def use() -> None:
        for _ in range(3):
            with device.calls:
                device.driver.memory_info()

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    use()
    assert driver.calls["set_current"] == 3
    assert driver.calls["memory_info"] == 9
    device.close()


def test_a_context_of_its_own_is_made_current_every_time() -> None:
    device, driver = made(options=CudaOptions(own_context=True))
    device.enter()
    for _ in range(3):
        with device.calls:
            device.driver.memory_info()
    assert driver.calls["set_current"] == 4
    device.close()


@pytest.mark.parametrize("options", [CudaOptions(), CudaOptions(own_context=True)])
def test_close_gives_the_context_back_once(options: CudaOptions) -> None:
    device, driver = made(options=options)
    device.prepare()
    device.close()
    device.close()
    assert not any(driver.live().values())
    with pytest.raises(DispatchFailed, match="is closed"):
        device.enter()


def test_closing_what_was_never_opened_calls_nothing() -> None:
    device, driver = made()
    device.close()
    assert not driver.calls


def test_without_a_device_the_backend_is_unavailable() -> None:
    device, _ = made(present=False)
    with pytest.raises(BackendUnavailable, match="NO_DEVICE"):
        _ = device.facts


def test_an_ordinal_that_does_not_exist_is_named() -> None:
    device, _ = made(options=CudaOptions(ordinal=3))
    with pytest.raises(BackendUnavailable, match="device 3 does not exist"):
        _ = device.facts


@pytest.mark.parametrize(
    ("machine", "what"),
    [
        ({"preset": replace(H200, capability=(7, 0))}, "oldest supported one is sm_75"),
        ({"driver_version": 11_040}, "does not read PTX 7.8"),
        ({"preset": replace(H200, max_threads_per_block=0)}, "limits that no launch can meet"),
    ],
)
def test_a_device_that_cannot_be_used_says_why(machine: dict[str, Any], what: str) -> None:
    device, _ = made(**machine)
    with pytest.raises(BackendUnavailable, match=what):
        _ = device.facts


# ---------------------------------------------------------------- members
def test_members_are_released_in_reverse_and_all_of_them() -> None:
    device, _ = made()
    log: list[str] = []
    for name in "abc":
        device.add(Member(log, name))
    device.prepare()
    device.close()
    assert log[:3] == ["release c", "release b", "release a"]


def test_every_release_is_tried_and_the_first_failure_reported() -> None:
    calls: list[int] = []

    def fail(code: int) -> None:
        calls.append(code)
        raise CudaCallError(code, "NAME", "cuX")

    with pytest.raises(CudaCallError) as caught:
        release_all([partial(fail, 1), partial(fail, 400), partial(calls.append, 0)])
    assert (caught.value.code, calls) == (1, [1, 400, 0])


def test_a_sticky_failure_ends_the_releases() -> None:
    calls: list[int] = []

    def fail() -> None:
        raise CudaCallError(STICKY, "NAME", "cuX")

    with pytest.raises(CudaCallError):
        release_all([fail, partial(calls.append, 0)])
    assert calls == []


def test_what_a_finaliser_discards_is_released_at_the_next_call() -> None:
    device, _ = made()
    device.prepare()
    released: list[int] = []
    device.discard(partial(released.append, 1))
    assert released == []
    device.flush()
    assert released == [1]
    device.close()


# ---------------------------------------------------------------- loss
def test_a_sticky_error_loses_the_device_and_refuses_further_calls() -> None:
    device, driver = made()
    log: list[str] = []
    device.add(Member(log, "m"))
    device.prepare()
    error = lose(device, driver)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in error.message
    assert "recover()" in error.fix
    assert log == ["forget m"]
    before = sum(driver.calls.values())
    with pytest.raises(DeviceLost, match="has lost its device"):
        device.flush()
    assert device.device_lost()
    device.close()
    assert sum(driver.calls.values()) == before


def test_an_ordinary_error_loses_nothing() -> None:
    device, driver = made()
    device.prepare()
    driver.inject(FaultPlan(calls=(Fault(code=Result.INVALID_VALUE),)))
    with pytest.raises(DispatchFailed, match=r"native code 1\]"):
        device.flush()
    device.flush()
    assert not device.device_lost()
    device.close()


def test_the_probe_finds_a_loss_that_nobody_has_met() -> None:
    device, driver = made()
    device.prepare()
    driver.inject(FaultPlan(calls=(Fault(code=STICKY),)))
    assert device.device_lost()


@pytest.mark.parametrize(
    "options",
    [CudaOptions(), CudaOptions(own_context=True), CudaOptions(allow_primary_reset=True)],
    ids=["released", "own context", "reset"],
)
def test_recovery_opens_a_new_epoch_and_leaves_nothing_behind(options: CudaOptions) -> None:
    device, driver = made(options=options)
    memory = DeviceMemory(device)
    with device.calls:
        stream = driver.stream_create()
        memory.allocate(1000, stream)
    lose(device, driver)
    device.recover()
    assert device.epoch == 1
    live = dict(driver.live())
    assert live.pop("context") == 1
    assert not any(live.values())
    device.flush()
    device.close()
    assert not any(driver.live().values())


def test_recovering_a_sound_device_also_gives_a_new_epoch() -> None:
    device, driver = made()
    device.prepare()
    device.recover()
    device.flush()
    assert device.epoch == 1
    device.close()
    assert not any(driver.live().values())


def test_a_recovery_that_fails_says_so_and_stays_lost() -> None:
    device, driver = made(recoverable=False)
    device.prepare()
    lose(device, driver)
    for _ in range(2):
        with pytest.raises(DeviceLost, match="cannot recover"):
            device.recover()
    with pytest.raises(DeviceLost, match="recovery failed"):
        device.flush()
    device.close()


def test_a_sticky_error_of_a_thread_without_a_context_loses_the_device_too() -> None:
    """Any of several threads may do the work of the main one; the first call of each makes the context current."""
    device, driver = made(recoverable=False)
    device.prepare()
    driver.inject(FaultPlan(calls=(Fault(code=STICKY),)))
    errors: list[BaseException] = []

    def flush() -> None:
        try:
            device.flush()
        except DeviceLost as error:
            errors.append(error)

    thread = threading.Thread(target=flush)
    thread.start()
    thread.join()
    assert "cuCtxSetCurrent" in str(errors)
    with pytest.raises(DeviceLost, match="cannot recover"):
        device.recover()
    device.close()


def test_recover_before_and_after_its_life_is_refused() -> None:
    device, _ = made()
    with pytest.raises(DispatchFailed, match="not open"):
        device.recover()
    device.close()
    with pytest.raises(DispatchFailed, match="is closed"):
        device.recover()


# ---------------------------------------------------------------- end
def test_close_waits_no_longer_than_its_timeout() -> None:
    class Busy(Member):
        def settled(self) -> bool:
            return False

    device, driver = made(options=CudaOptions(close_timeout_s=0.01))
    device.add(Busy(name="busy"))
    device.prepare()
    with pytest.warns(RuntimeWarning, match=r"still running after 0\.01 s"):
        device.close()
    device.close()
    assert driver.live()["context"] == 1


def in_child(check: Callable[[], bool]) -> bool:
    """Whether ``check`` holds in a forked process."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.parametrize("opened", [True, False])
def test_a_fork_is_refused_clearly_and_calls_nothing(opened: bool) -> None:
    device, driver = made()
    assert device.facts.warp_size == 32
    if opened:
        device.prepare()

    def refused() -> bool:
        before = sum(driver.calls.values())
        try:
            device.enter()
        except BackendError as error:
            told = "fork" in error.message and "spawn" in error.fix
        else:
            told = False
        device.close()
        return told and sum(driver.calls.values()) == before and not driver.violations

    assert in_child(refused)
    device.close()
    assert not any(driver.live().values())


def test_nothing_is_called_while_the_interpreter_finalises(monkeypatch: pytest.MonkeyPatch) -> None:
    device, driver = made()
    device.prepare()
    before = sum(driver.calls.values())
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    with pytest.raises(DispatchFailed, match="interpreter exits"):
        device.flush()
    device.close()
    assert not device.device_lost()
    assert sum(driver.calls.values()) == before
