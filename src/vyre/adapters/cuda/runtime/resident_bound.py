"""Steps bound to resident memory: everything is resolved by ``bind``; a call launches and waits.

A bound step refuses to run after a failure that may have left work behind, and when the epoch that it was prepared in
has ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda.runtime.resident_launch import Step, buffers_of
from vyre.adapters.cuda.runtime.resident_slot import ResidentSlot
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed, deadline_after
from vyre.adapters.cuda.seam import CudaCallError, KernelDiagnosis
from vyre.domain.errors import BackendError, InvalidResource, VyreError
from vyre.domain.unique import Unique
from vyre.ports.interrupts import PATIENCE_S, whole

if TYPE_CHECKING:
    from vyre.adapters.cuda.runtime.resident_run import ResidentRunner


class Bound(Unique, ABC):
    """``BoundResidentStep`` on a slot of its own, which it ``owns`` until it is closed or has failed.

    ``active``: a thread is in the middle of a call.
    """

    __slots__ = ("__weakref__", "_runner", "active", "owns", "seconds", "slot", "step")

    def __init__(self, runner: ResidentRunner, slot: ResidentSlot, step: Step, seconds: float | None) -> None:
        self._runner: Final = runner
        self.slot: Final = slot
        self.step: Final = step
        self.seconds: Final = seconds
        self.active: bool = False
        self.owns: bool = False  # until ``bind`` hands it over
        for buffer in buffers_of((step,)):
            buffer.expires(self)

    @abstractmethod
    def __call__(self) -> None:
        """Launches and waits.  Raises as ``ResidentExecutor.run`` does, and ``InvalidResource`` once it has expired."""

    @abstractmethod
    def expire(self, why: str, /) -> None:
        """Implements ``Expiring.expire``."""

    def close(self) -> None:
        """Returns the stream.  Idempotent."""
        self._runner.unbind(self)

    def __del__(self) -> None:
        if getattr(self, "owns", False):
            self._runner.device.discard(partial(self.slot.release, idle=True))


class BoundStep(Bound):
    """A bound step that makes the driver calls one after the other."""

    __slots__ = ("_calls", "_device", "_enter", "_idle", "_launch", "_stream")

    def __init__(self, runner: ResidentRunner, slot: ResidentSlot, step: Step, seconds: float | None) -> None:
        super().__init__(runner, slot, step, seconds)
        self._device: Final = runner.device
        self._launch: Final = slot.launch(step)
        self._stream: Final = slot.lease.stream
        check = (partial(runner.check_trap, slot, None, self._launch),) if self._launch.looks else ()
        self._calls = self._launch.calls(step, *check)
        self._idle: Final = self._device.driver.stream_ready
        self._enter = self._device.enter

    def __call__(self) -> None:
        device = self._device
        try:
            self.active: bool = True  # before ``enter``: ``close`` waits for it, or ``enter`` refuses this thread
            self._enter()
            for call in self._calls:
                call()
            device.counters.kernel_launches += self._launch.kernels
            if not self._idle(self._stream):  # queried here first: a short launch has ended by now
                deadline = None if self.seconds is None else deadline_after(device.clock, self.seconds)
                if not device.waiter.stream(self._stream, deadline):
                    raise DeadlinePassed
            self.active = False
        except BaseException as error:
            typed = self._failed(error)
            if typed is error:
                raise
            raise typed from error

    @whole
    def _failed(self, error: BaseException) -> BaseException:
        """Returns the error that the caller gets; the launch can be called again, or it has expired."""
        device, runner = self._device, self._runner
        try:
            if isinstance(error, VyreError):
                return error
            if isinstance(error, CudaCallError):
                typed = device.fault(error)
                if not isinstance(error, KernelDiagnosis):  # which leaves no work behind
                    runner.give_up(self, error)
                return typed
            if isinstance(error, DeadlinePassed):
                runner.give_up(self, error)
                return runner.timeout(self.step, self.seconds)
            device.driver.abandon(self._stream)
            with suppress(BackendError), device.calls, suppress(KernelDiagnosis):  # an interrupt
                if not device.waiter.stream(self._stream, deadline_after(device.clock, PATIENCE_S)):
                    runner.give_up(self, error)
            return error
        finally:
            self.active = False

    def expire(self, why: str, /) -> None:
        """Implements ``Expiring.expire``."""
        # If the device is lost, that is the error to raise.
        self._calls, self._enter = (partial(_refuse, why),), self._device.open


class BoundSequence(Bound):
    """A bound step with enough launches for a graph of them to pay; it runs as a sequence of this one step."""

    __slots__ = ("_expired",)

    def __init__(self, runner: ResidentRunner, slot: ResidentSlot, step: Step, seconds: float | None) -> None:
        taken = tuple([memoryview(bytes(m)) if isinstance(m, memoryview) else m for m in step.memory])
        super().__init__(runner, slot, step._replace(memory=taken), seconds)
        self._expired = ""

    def __call__(self) -> None:
        try:
            self.active: bool = True
            if self._expired:
                self._runner.device.open()  # if the device is lost, that is the error to raise
                _refuse(self._expired)
            self._runner.run_bound(self)
        finally:
            self.active = False

    def expire(self, why: str, /) -> None:
        """Implements ``Expiring.expire``."""
        self._expired = why


def _refuse(why: str) -> None:
    raise InvalidResource(f"the bound launch cannot run: {why}", fix="bind it again.")
