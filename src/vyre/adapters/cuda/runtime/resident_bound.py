"""Steps bound to resident memory: everything is resolved at the bind, a call launches and waits.

After a failure that may have left work behind, and when what it was prepared for is gone, a bound step refuses to run.
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
        """Launch and wait.  Raises as ``ResidentExecutor.run`` does, and ``InvalidResource`` once it has expired."""

    @abstractmethod
    def expire(self) -> None:
        """Refuse to run from now on."""

    def close(self) -> None:
        """Give the stream back; calling it again does nothing."""
        self._runner.unbind(self)


class BoundStep(Bound):
    """The driver calls themselves, one after the other."""

    __slots__ = ("_calls", "_device", "_idle", "_launch", "_stream")

    def __init__(self, runner: ResidentRunner, lane: ResidentLane, step: Step, seconds: float | None) -> None:
        super().__init__(runner, lane, step, seconds)
        self._device: Final = runner.device
        self._launch: Final = lane.launch(step)
        self._stream: Final = lane.lease.stream
        check = (partial(runner.check_trap, lane, None, self._launch),) if self._launch.can_trap else ()
        self._calls = self._launch.calls(step, *check)
        self._idle: Final = self._device.driver.stream_ready

    def __call__(self) -> None:
        device = self._device
        self.active: bool = True  # before the door: ``close`` waits for it, or this thread is refused there
        try:
            device.enter()
            for call in self._calls:
                call()
            device.counters.kernel_launches += self._launch.kernels
            if not self._idle(self._stream):  # asked here first: what is short has ended by now
                deadline = None if self.seconds is None else deadline_after(device.clock, self.seconds)
                if not device.waiter.stream(self._stream, deadline):
                    raise DeadlinePassed
        except CudaCallError as error:
            typed = device.fault(error)
            if not isinstance(error, KernelDiagnosis):  # after which nothing is left behind
                self._runner.give_up(self, error)
            raise typed from error
        except DeadlinePassed as error:
            self._runner.give_up(self, error)
            raise self._runner.timeout(self.step, self.seconds) from error
        finally:
            self.active = False

    def expire(self) -> None:
        self._calls = (_refuse,)


class BoundSequence(Bound):
    """So many launches that a graph of them may pay: run as a sequence of this one step."""

    __slots__ = ("_expired",)

    def __init__(self, runner: ResidentRunner, lane: ResidentLane, step: Step, seconds: float | None) -> None:
        taken = tuple([memoryview(bytes(m)) if isinstance(m, memoryview) else m for m in step.memory])
        super().__init__(runner, lane, step._replace(memory=taken), seconds)
        self._expired = False

    def __call__(self) -> None:
        if self._expired:
            self._runner.device.enter()  # a lost device says that first
            _refuse()
        self.active: bool = True
        try:
            self._runner.run_bound(self)
        finally:
            self.active = False

    def expire(self) -> None:
        self._expired = True


def _refuse() -> None:
    raise InvalidResource(
        "the bound launch was closed, has failed, or was prepared before the device was recovered", fix="bind it again."
    )
