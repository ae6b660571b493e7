"""The environment and the clock of the process."""

from __future__ import annotations

import os
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.ports.support import Environment


class ProcessEnvironment:
    """``Environment`` of this process, ``os.environ``."""

    __slots__ = ()

    def get(self, name: str, /) -> str | None:
        return os.environ.get(name)

    def names(self) -> tuple[str, ...]:
        """Returns the names of all variables, sorted."""
        return tuple(sorted(os.environ))


_PROCESS: Final = ProcessEnvironment()
USED_ENVIRONMENT: Final[ContextVar[Environment]] = ContextVar("vyre_environment", default=_PROCESS)
"""The environment of what runs, where no argument tells it: that of a session at work, or of the process."""


class SystemClock:
    """``Clock`` of this machine; its methods are functions of C, which dispatches call."""

    __slots__ = ()

    now_ns: Final = staticmethod(time.perf_counter_ns)
    time_ns: Final = staticmethod(time.time_ns)
