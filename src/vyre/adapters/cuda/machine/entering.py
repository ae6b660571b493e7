"""Checks before every call of the driver, and the errors that a call raises.

The checks are, in this order: the process and the interpreter, the call's count and an injected fault, ``init``, the
thread's context.  A real driver's calls are functions of C, within which no signal handler runs, and so it is here.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from vyre.adapters.cuda.codes import DIAGNOSED, Result, is_sticky, name_of
from vyre.adapters.cuda.machine.contexts import Contexts
from vyre.adapters.cuda.machine.fault_plan import FaultInjector
from vyre.adapters.cuda.machine.journal import CallRecord, Journal, ViolationKind
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.seam import CudaCallError, KernelDiagnosis
from vyre.domain.float_mode import in_default_mode
from vyre.ports.collecting import hold_collections, let_collect
from vyre.ports.interrupts import done_uncollected, is_disturbed


class Needs(Enum):
    """The condition of a call: nothing, a successful ``init``, or a current context."""

    NOTHING = 0
    INIT = 1
    CONTEXT = 2


class Gate:
    """Admits calls to the driver.

    ``lock`` is held during a call.  ``tick`` adds the time of a call, ``lose`` loses the thread's context to an error.
    """

    def __init__(
        self,
        lock: threading.RLock,
        journal: Journal,
        injector: FaultInjector,
        contexts: Contexts,
        tick: Callable[[], None],
        lose: Callable[[Status], None],
    ) -> None:
        self.lock = lock
        self.journal = journal
        self.injector = injector
        self.contexts = contexts
        self._tick = tick
        self._lose = lose
        self.finalised = False
        self._process: int | None = None

    def opened(self) -> None:
        """Records that ``init`` succeeded."""
        self._process = os.getpid()

    def check_process(self, method: str) -> None:
        """Refuses calls in a forked process or a finalising interpreter.

        It runs before the lock is taken, which may have been held when the process was forked.
        """
        if self._process is not None and self._process != os.getpid():
            self.journal.violate(ViolationKind.FORKED, f"{method} in a process forked after init")
            raise Status(Result.NOT_INITIALIZED, "the process was forked after init")
        if self.finalised or sys.is_finalizing():
            self.journal.violate(ViolationKind.FINALISED, f"{method} after the interpreter began to finalise")
            raise Status(Result.DEINITIALIZED, "the driver is shutting down")

    def enter(self, method: str, needs: Needs) -> None:
        """Counts a call, and raises ``Status`` if a fault is injected or its condition is not met."""
        self.journal.calls[method] += 1
        self._tick()
        code = self.injector.call(method)
        if code is not None:
            failure = Status(code, "made to order")
            if is_sticky(code):
                self._lose(failure)
            raise failure
        if needs is not Needs.NOTHING and self._process is None:
            raise Status(Result.NOT_INITIALIZED, "init was not called")
        if needs is Needs.CONTEXT:
            self.contexts.current()


class Gated(Protocol):
    """The type whose methods ``seam_call`` wraps."""

    @property
    def gate(self) -> Gate:
        """Returns the gate that every call passes."""


P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Gated)
Method = Callable[Concatenate[D, P], R]


def seam_call(
    function: str, needs: Needs = Needs.CONTEXT, *, method: str | None = None
) -> Callable[[Method[D, P, R]], Method[D, P, R]]:
    """Makes a method a call of the seam.

    ``function`` is the driver's name for it; ``method`` is the seam's name, if it is not the method's own.
    """

    def decorate(body: Method[D, P, R]) -> Method[D, P, R]:
        name = method or body.__name__
        signature = inspect.signature(body)

        @in_default_mode
        @functools.wraps(body)
        def call(self: D, /, *args: P.args, **kwargs: P.kwargs) -> R:
            if is_disturbed():
                return done_uncollected(self.gate.contexts.for_main, functools.partial(perform, self, *args, **kwargs))
            return perform(self, *args, **kwargs)

        def perform(self: D, /, *args: P.args, **kwargs: P.kwargs) -> R:
            gate = self.gate
            code = 0
            hold_collections()  # a finaliser could wait for a thread that waits for the lock
            try:
                gate.check_process(name)
                with gate.lock:
                    gate.enter(name, needs)
                    return body(self, *args, **kwargs)
            except Status as failure:
                code = failure.code
                arguments = _arguments(signature, self, args, kwargs)
                kind = KernelDiagnosis if code == DIAGNOSED else CudaCallError
                raise kind(code, name_of(code), function, arguments, failure.log, failure.finding) from None
            finally:
                let_collect()
                if gate.journal.tracing:
                    gate.journal.trace.append(CallRecord(name, _arguments(signature, self, args, kwargs), code))

        return call

    return decorate


def _arguments(signature: inspect.Signature, *call: Any) -> Mapping[str, object]:
    """Returns the arguments by name, with bytes replaced by their length, for which a message has room."""
    this, args, kwargs = call
    bound = dict(signature.bind(this, *args, **kwargs).arguments)
    bound.pop("self", None)
    return {name: f"{len(value)} bytes" if isinstance(value, bytes) else value for name, value in bound.items()}
