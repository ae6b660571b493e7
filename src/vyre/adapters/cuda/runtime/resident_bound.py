"""Steps bound to resident memory: everything is resolved by ``bind``; a call launches and waits.

A bound step refuses to run after a failure that may have left work behind, and when the epoch that it was prepared in
has ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda.runtime.resident_lane import ResidentLane
from vyre.adapters.cuda.runtime.resident_launch import Step
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed, deadline_after
from vyre.adapters.cuda.seam import CudaCallError, KernelDiagnosis
from vyre.domain.errors import InvalidResource

if TYPE_CHECKING:
    from vyre.adapters.cuda.runtime.resident_run import ResidentRunner


class Bound(ABC):
    """``BoundResidentStep`` on a lane of its own.  ``active``: a thread is in the middle of a call."""

    __slots__ = ("_runner", "active", "lane", "seconds", "step")

    def __init__(self, runner: ResidentRunner, lane: ResidentLane, step: Step, seconds: float | None) -> None:
        self._runner: Final = runner
        self.lane: Final = lane
        self.step: Final = step
        self.seconds: Final = seconds
        self.active: bool = False

    @abstractmethod
    def __call__(self) -> None:
        """Launches and waits.  Raises as ``ResidentExecutor.run`` does, and ``InvalidResource`` once it has expired."""

    @abstractmethod
    def expire(self) -> None:
        """Makes every later call raise ``InvalidResource``."""

    def close(self) -> None:
        """Returns the stream.  Idempotent."""
        self._runner.unbind(self)


class BoundStep(Bound):
    """A bound step that makes the driver calls one after the other."""

    __slots__ = ("_calls", "_device", "_idle", "_launch", "_stream")

    def __init__(self, runner: ResidentRunner, lane: ResidentLane, step: Step, seconds: float | None) -> None:
        super().__init__(runner, lane, step, seconds)
        self._device: Final = runner.device
        self._launch: Final = lane.launch(step)
        self._stream: Final = lane.lease.stream
        check = (partial(runner.check_trap, lane, None, self._launch),) if self._launch.looks else ()
        self._calls = self._launch.calls(step, *check)
        self._idle: Final = self._device.driver.stream_ready

    def __call__(self) -> None:
        device = self._device
        self.active: bool = True  # before ``enter``: ``close`` waits for it, or ``enter`` refuses this thread
        try:
            device.enter()
            for call in self._calls:
                call()
            device.counters.kernel_launches += self._launch.kernels
            if not self._idle(self._stream):  # queried here first: a short launch has ended by now
                deadline = None if self.seconds is None else deadline_after(device.clock, self.seconds)
                if not device.waiter.stream(self._stream, deadline):
                    raise DeadlinePassed
        except CudaCallError as error:
            typed = device.fault(error)
            if not isinstance(error, KernelDiagnosis):  # which leaves no work behind
                self._runner.give_up(self, error)
            raise typed from error
        except DeadlinePassed as error:
            self._runner.give_up(self, error)
            raise self._runner.timeout(self.step, self.seconds) from error
        finally:
            self.active = False

    def expire(self) -> None:
        """Implements ``Bound.expire``."""
        self._calls = (_refuse,)


class BoundSequence(Bound):
    """A bound step with enough launches for a graph of them to pay; it runs as a sequence of this one step."""

    __slots__ = ("_expired",)

    def __init__(self, runner: ResidentRunner, lane: ResidentLane, step: Step, seconds: float | None) -> None:
        taken = tuple([memoryview(bytes(m)) if isinstance(m, memoryview) else m for m in step.memory])
        super().__init__(runner, lane, step._replace(memory=taken), seconds)
        self._expired = False

    def __call__(self) -> None:
        if self._expired:
            self._runner.device.enter()  # if the device is lost, that is the error to raise
            _refuse()
        self.active: bool = True
        try:
            self._runner.run_bound(self)
        finally:
            self.active = False

    def expire(self) -> None:
        """Implements ``Bound.expire``."""
        self._expired = True


def _refuse() -> None:
    raise InvalidResource(
        "the bound launch was closed, has failed, or was prepared before the device was recovered", fix="bind it again."
    )
